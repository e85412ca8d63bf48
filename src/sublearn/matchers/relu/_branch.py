"""Decide the complementarity problem of an instance by branch and bound, with proofs at the leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sublearn.patterns._exact import Feasible, Infeasible, decide_node, farkas
from sublearn.patterns._system import Rational, System

CANDIDATES = 8  # solutions in float64 that may turn out to be none before we give up
EXACT_LEAVES = 2000  # leaves that may need rationals
MOST_LEAVES = 400_000


@dataclass(frozen=True, eq=False)
class Refutation:
    """Leaves that cut off every pattern, and the program that joins them (see ``_kernel.branch``)."""

    basis: NDArray[np.int16]  # (leaves, equations): basic columns, -1 - r artificial
    used: NDArray[np.bool_]  # (leaves, columns): the clause of each leaf
    row: NDArray[np.int16]  # the equation whose basic unknown cannot leave; -1: unresolved
    sign: NDArray[np.int8]
    sure: NDArray[np.bool_]  # proved in float64
    log: NDArray[np.int32]


@dataclass(frozen=True)
class Outcome:
    """What branching found; ``values`` solves G v = h exactly, as its entries that are not 0."""

    kind: Literal["matched", "refuted", "numerical", "undecided"]
    nodes: int
    leaves: int = 0
    values: dict[int, Rational] | None = None
    refutation: Refutation | None = None
    near: int = 0  # patterns that solve the system in float64 and not exactly


def decide_by_branching(system: System, node_limit: int, rng: np.random.Generator) -> Outcome:
    """Follow the pairs (unit, sample) down until every branch is cut off or one solves the system.

    "numerical": float64 finds every branch infeasible, but not every leaf could be proved.
    """
    from sublearn.matchers.relu._kernel import CANDIDATE, REFUTED, branch

    rows, size = system.matrix.shape
    # Small sums of v are closest to complementary; the noise keeps the pivots from ties.
    costs = 1.0 + 0.5 * rng.random(size)
    most = min(node_limit, MOST_LEAVES) // 2 + 2
    basis = np.empty((most, rows), np.int16)
    row, sign = np.empty(most, np.int16), np.empty(most, np.int8)
    used, sure = np.empty((most, size), np.bool_), np.empty(most, np.bool_)
    log = np.empty(2 * most + size + 8, np.int32)
    counts = np.zeros(5, np.int64)
    last_basis, last_open = np.empty(rows, np.int64), np.empty(size, np.bool_)
    spent = 0
    for skip in range(CANDIDATES):
        status = branch(
            system.matrix, system.right, costs, node_limit - spent, skip, basis, row, sign, used, sure,
            log, counts, last_basis, last_open,
        )  # fmt: skip
        spent += int(counts[0])
        leaves = int(counts[2])
        if status == CANDIDATE:
            found = decide_node(system.exact, last_basis.tolist(), last_open.tolist())
            if isinstance(found, Feasible) and is_complementary(system, found.values):
                return Outcome("matched", spent, leaves, found.values)
            continue
        if status != REFUTED:
            return Outcome("undecided", spent, leaves)
        refutation = Refutation(
            basis[:leaves],
            used[:leaves],
            row[:leaves],
            sign[:leaves],
            sure[:leaves],
            log[: int(counts[3])],
        )
        doubtful = np.flatnonzero(~refutation.sure)
        if doubtful.size > EXACT_LEAVES or not replay(refutation, system.pairs):
            return Outcome("numerical", spent, leaves, None, refutation)
        for leaf in doubtful.tolist():
            again = decide_leaf(system, refutation, leaf)
            if isinstance(again, Feasible):
                if is_complementary(system, again.values):
                    return Outcome("matched", spent, leaves, again.values)
                # Rounding cut off what has a solution: the tree says nothing, at no grade.
                return Outcome("undecided", spent, leaves)
            if not isinstance(again, Infeasible):
                return Outcome("numerical", spent, leaves, None, refutation)
        return Outcome("refuted", spent, leaves, None, refutation)
    return Outcome("undecided", spent, near=CANDIDATES)


def decide_leaf(system: System, refutation: Refutation, leaf: int) -> Feasible | Infeasible | None:
    """The program of a leaf, in rationals: all columns open but those of its clause."""
    if refutation.row[leaf] >= 0:
        found = farkas(
            system.exact,
            system.matrix,
            refutation.basis[leaf].tolist(),
            int(refutation.row[leaf]),
            int(refutation.sign[leaf]),
        )
        if found is not None and refutation.used[leaf][list(found.used)].all():
            return found
    return decide_node(
        system.exact, refutation.basis[leaf].tolist(), (~refutation.used[leaf]).tolist()
    )


def is_complementary(system: System, values: dict[int, Rational]) -> bool:
    """Whether one of each pair is 0."""
    return not any(p + system.pairs in values for p in values if p < system.pairs)


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
        # One clause needs a = 0, the other u = 0; a complementary solution has one of the two.
        on, off = 1 << (-1 - entry), 1 << (-1 - entry + pairs)
        ends = {last & (on | off), below & (on | off)}
        if on | off in ends or len(ends) < 2:
            return False
        stack.append((last | below) & ~(on | off))
    return stack == [0]
