"""Decide a shallow ReLU instance by branch and bound over its patterns, with proofs at the leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sublearn._arrays import Mask
from sublearn._interrupts import heed
from sublearn._kinds import DecisionKind, GradeKind
from sublearn.exact import Feasible, Infeasible, Rational, decide_program
from sublearn.matchers._decision import MATCHED, REFUTED, UNDECIDED
from sublearn.matchers.relu._kernel import CANDIDATE, CLOSED, Leaves, branch
from sublearn.matchers.relu._leaf import LeafProofs
from sublearn.patterns import Program, System, build_program, decide_pattern

Decide = Callable[[System, Mask], Feasible | Infeasible | None]

CANDIDATES = 8  # solutions in float64 that may turn out to be none before we stop asking
LAST_NODES = 2_000  # of the tree in which every such solution is followed down to its patterns
PROGRAMS = 500  # leaves that may need a linear program in rationals
MOST_LEAVES = 400_000
MOST_WORK = 4e9  # nodes times numbers in a tableau: minutes
MOST_NUMBERS = 4e7  # in the tableaux of a whole branch: 320 MB


@dataclass(frozen=True)
class Outcome:
    """What branching found; ``values`` solves the equations of the system exactly, a and u in turn."""

    kind: DecisionKind | GradeKind
    nodes: int
    leaves: int = 0
    values: dict[int, Rational] | None = None
    refutation: Leaves | None = None
    near: int = 0  # patterns that solve the system in float64 and not exactly
    note: str = ""  # why it stopped, where the nodes of the budget are not the reason


def decide_by_branching(
    system: System,
    node_limit: int,
    rng: np.random.Generator,
    program: Program | None = None,
    decide: Decide = decide_pattern,
) -> Outcome:
    """Follow the pairs (unit, sample) down until every branch is cut off or one solves the system.

    "numerical": float64 finds every branch infeasible, but not every leaf could be proved. ``program``
    and ``decide``, which says what a pattern is worth, are those of the system unless given.
    """
    program = build_program(system) if program is None else program
    if not program.usable:
        return Outcome(UNDECIDED, 0, note="the numbers are out of float64's reach")
    pairs = system.pairs
    rows, size = program.columns.matrix.shape
    numbers = rows * (rows + size + 1)
    if numbers * (pairs + 2) > MOST_NUMBERS:
        return Outcome(UNDECIDED, 0, note=f"{rows} equations with {size} unknowns are too many")
    node_limit = min(node_limit, int(MOST_WORK / numbers))
    # Small sums of v mix the least; the noise keeps the pivots from ties.
    costs = np.asarray(1.0 + 0.5 * rng.random(size))
    most = min(node_limit, MOST_LEAVES) // 2 + 2
    room = Leaves(
        np.empty((most, rows), np.int16),
        np.empty((most, 2 * pairs), np.bool_),
        np.empty((most, rows)),
        np.empty(most, np.bool_),
        np.empty(2 * most + 2 * pairs + 8, np.int32),
    )
    counts, last_pattern = np.zeros(5, np.int64), np.empty(pairs, np.bool_)
    spent = 0
    for skip in (*range(CANDIDATES), node_limit):
        heed()
        limit = node_limit - spent if skip < CANDIDATES else min(node_limit - spent, LAST_NODES)
        status = branch(program.columns, costs, limit, skip, room, counts, last_pattern)
        spent += int(counts[0])
        leaves = int(counts[2])
        if status == CANDIDATE:
            answer = decide(system, last_pattern)
            if isinstance(answer, Feasible):
                return Outcome(MATCHED, spent, leaves, answer.values)
            continue
        if status != CLOSED:
            near = CANDIDATES if skip >= CANDIDATES else 0
            return Outcome(UNDECIDED, spent, leaves, near=near)
        tree = Leaves._make([*(part[:leaves] for part in room[:-1]), room.log[: int(counts[3])]])
        return check_tree(program, tree, spent, decide)
    raise AssertionError("the last tree passes every candidate by")


def check_tree(
    program: Program, tree: Leaves, nodes: int, decide: Decide = decide_pattern
) -> Outcome:
    """What a tree proves: its leaves by their vectors, or else by programs in rationals."""
    leaves = len(tree.is_cut)
    # A leaf that float64 did not cut off is refuted in rationals or not at all.
    kind = GradeKind.NUMERICAL if tree.is_cut.all() else UNDECIDED
    unproved = Outcome(kind, nodes, leaves, None, tree)
    if not covers_all(tree, program.system.pairs):
        return unproved
    proofs = LeafProofs(program)
    programs = 0
    for leaf in range(leaves):
        if tree.is_cut[leaf] and proofs.proved(tree.clause[leaf], tree.vector[leaf]):
            continue
        programs += 1
        if programs > PROGRAMS:
            return unproved
        answer = decide_leaf(program, tree, leaf)
        if isinstance(answer, Feasible):
            pattern = program.pattern(answer.values)
            if pattern is not None:
                match = decide(program.system, pattern)
                if isinstance(match, Feasible):
                    return Outcome(MATCHED, nodes, leaves, match.values)
            # Rounding cut off what has a solution: the tree says nothing, at no grade.
            return Outcome(UNDECIDED, nodes, leaves)
        if answer is None:
            return unproved
    return Outcome(REFUTED, nodes, leaves, None, tree)


def decide_leaf(program: Program, tree: Leaves, leaf: int) -> Feasible | Infeasible | None:
    """The program of a leaf, in rationals: all columns open but those that its clause holds at 0."""
    is_open = ~program.held(tree.clause[leaf])
    return decide_program(program.exact, is_open, tree.basis[leaf].tolist())


def covers_all(tree: Leaves, pairs: int) -> bool:
    """Whether the clauses of the leaves join to the empty one, which no pattern satisfies."""
    packed = np.packbits(tree.clause, axis=1, bitorder="little")
    clauses = [int.from_bytes(line.tobytes(), "little") for line in packed]
    stack: list[int] = []
    for entry in tree.log.tolist():
        if entry >= 0:
            stack.append(clauses[entry])
            continue
        last, below = stack.pop(), stack.pop()
        if entry == -1 - pairs:
            stack.append(last)
            continue
        # One clause needs the pair off, the other on; a pattern has it on one side.
        on, off = 1 << (-1 - entry), 1 << (-1 - entry + pairs)
        ends = {last & (on | off), below & (on | off)}
        if on | off in ends or len(ends) < 2:
            return False
        stack.append((last | below) & ~(on | off))
    return stack == [0]
