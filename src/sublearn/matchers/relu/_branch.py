"""Decide a shallow ReLU instance by branch and bound over its patterns, with proofs at the leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sublearn._arrays import Array, Mask
from sublearn.matchers.relu._leaf import LeafProofs
from sublearn.matchers.relu._program import Program, build_program
from sublearn.patterns._exact import Feasible, Infeasible, decide_node, farkas
from sublearn.patterns._feasible import decide_pattern
from sublearn.patterns._system import Rational, System

Decide = Callable[[System, Mask], Feasible | Infeasible | None]

CANDIDATES = 8  # solutions in float64 that may turn out to be none before we stop asking
LAST_NODES = 2_000  # of the tree in which every such solution is followed down to its patterns
RATIONAL_LEAVES = 500  # leaves that may need a linear program in rationals
MOST_LEAVES = 400_000
MOST_WORK = 4e9  # nodes times numbers in a tableau: minutes
MOST_NUMBERS = 4e7  # in the tableaux of a whole branch: 320 MB


@dataclass(frozen=True, eq=False)
class Refutation:
    """Leaves that cut off every pattern, and the program that joins them (see ``_kernel.branch``)."""

    basis: NDArray[np.int16]  # (leaves, equations): basic columns, -1 - r artificial
    used: Mask  # (leaves, 2 pairs): the clause of each leaf
    row: NDArray[np.int16]  # the equation whose basic unknown cannot leave; -1: unresolved
    sign: NDArray[np.int8]
    vector: Array  # (leaves, equations): weights on the equations that separate
    sure: Mask  # proved in float64
    log: NDArray[np.int32]


@dataclass(frozen=True)
class Outcome:
    """What branching found; ``values`` solves the equations of the system exactly, a and u in turn."""

    kind: Literal["matched", "refuted", "numerical", "undecided"]
    nodes: int
    leaves: int = 0
    values: dict[int, Rational] | None = None
    refutation: Refutation | None = None
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
    from sublearn.matchers.relu._kernel import CANDIDATE, REFUTED, branch

    program = build_program(system) if program is None else program
    if not program.usable:
        return Outcome("undecided", 0, note="the numbers are out of float64's reach")
    rows, size = program.matrix.shape
    numbers = rows * (rows + size + 1)
    if numbers * (system.pairs + 2) > MOST_NUMBERS:
        return Outcome("undecided", 0, note=f"{rows} equations with {size} unknowns are too many")
    node_limit = min(node_limit, int(MOST_WORK / numbers))
    # Small sums of v mix the least; the noise keeps the pivots from ties.
    costs = 1.0 + 0.5 * rng.random(size)
    most = min(node_limit, MOST_LEAVES) // 2 + 2
    basis = np.empty((most, rows), np.int16)
    row, sign = np.empty(most, np.int16), np.empty(most, np.int8)
    vector = np.empty((most, rows))
    used, sure = np.empty((most, 2 * system.pairs), np.bool_), np.empty(most, np.bool_)
    log = np.empty(2 * most + 2 * system.pairs + 8, np.int32)
    counts = np.zeros(5, np.int64)
    last_pattern = np.empty(system.pairs, np.bool_)
    spent = 0
    for skip in (*range(CANDIDATES), node_limit):
        limit = node_limit - spent if skip < CANDIDATES else min(node_limit - spent, LAST_NODES)
        status = branch(
            program.matrix, program.right, program.owner, program.sides, program.partner,
            not program.by_corners, program.influence, costs, limit, skip, basis, row,
            sign, vector, used, sure, log, counts, last_pattern,
        )  # fmt: skip
        spent += int(counts[0])
        leaves = int(counts[2])
        if status == CANDIDATE:
            found = decide(system, last_pattern)
            if isinstance(found, Feasible):
                return Outcome("matched", spent, leaves, found.values)
            continue
        if status != REFUTED:
            near = CANDIDATES if skip >= CANDIDATES else 0
            return Outcome("undecided", spent, leaves, near=near)
        refutation = Refutation(
            basis[:leaves],
            used[:leaves],
            row[:leaves],
            sign[:leaves],
            vector[:leaves],
            sure[:leaves],
            log[: int(counts[3])],
        )
        return _checked(program, refutation, spent, decide)
    raise AssertionError("the last tree passes every candidate by")


def _checked(
    program: Program, refutation: Refutation, nodes: int, decide: Decide = decide_pattern
) -> Outcome:
    """What a tree proves, once the leaves that float64 could not prove are decided in rationals."""
    leaves = len(refutation.row)
    # A leaf that float64 did not cut off is refuted in rationals or not at all.
    weak: Literal["numerical", "undecided"] = (
        "undecided" if (refutation.row < 0).any() else "numerical"
    )
    doubtful = np.flatnonzero(~refutation.sure)
    if not replay(refutation, program.system.pairs):
        return Outcome(weak, nodes, leaves, None, refutation)
    proofs = LeafProofs(program) if program.by_corners and doubtful.size else None
    in_rationals = 0
    for leaf in doubtful.tolist():
        if (
            proofs is not None
            and refutation.row[leaf] >= 0
            and proofs.proved(refutation.used[leaf], refutation.vector[leaf])
        ):
            continue
        in_rationals += 1
        if in_rationals > RATIONAL_LEAVES:
            return Outcome(weak, nodes, leaves, None, refutation)
        again = decide_leaf(program, refutation, leaf)
        if isinstance(again, Feasible):
            pattern = program.pattern(again.values)
            if pattern is not None:
                found = decide(program.system, pattern)
                if isinstance(found, Feasible):
                    return Outcome("matched", nodes, leaves, found.values)
            # Rounding cut off what has a solution: the tree says nothing, at no grade.
            return Outcome("undecided", nodes, leaves)
        if not isinstance(again, Infeasible):
            return Outcome(weak, nodes, leaves, None, refutation)
    return Outcome("refuted", nodes, leaves, None, refutation)


def decide_leaf(
    program: Program, refutation: Refutation, leaf: int
) -> Feasible | Infeasible | None:
    """The program of a leaf, in rationals: all columns open but those that its clause holds at 0."""
    held = program.held(refutation.used[leaf])
    if refutation.row[leaf] >= 0:
        found = farkas(
            program.exact,
            program.matrix,
            refutation.basis[leaf].tolist(),
            int(refutation.row[leaf]),
            int(refutation.sign[leaf]),
        )
        if found is not None and held[list(found.used)].all():
            return found
    return decide_node(program.exact, refutation.basis[leaf].tolist(), (~held).tolist())


def replay(refutation: Refutation, pairs: int) -> bool:
    """Whether the clauses of the leaves join to the empty one, which no pattern satisfies."""
    packed = np.packbits(refutation.used, axis=1, bitorder="little")
    clauses = [int.from_bytes(line.tobytes(), "little") for line in packed]
    stack: list[int] = []
    for entry in refutation.log.tolist():
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
