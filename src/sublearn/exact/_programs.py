"""Linear programs G v = h, v >= 0 in fractions, and vectors that are orthogonal to others exactly.

Some entries of v may be held at 0; the others are open. A program is a list of rows of G, each with its
entry of h behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sublearn._arrays import UNIT, Array, Mask
from sublearn.exact._dyadics import leading, quotient

Rational = Any  # flint.fmpq; python-flint carries no types
Table = list[list[Rational]]

MOST_PIVOTS = 200
SMALL = 1e-11  # weights below this share of the largest are taken for 0
LEVEL = 1e-9  # a column this close to level, as a share of what weights of size 1 could do, is made level
SMALLEST = 2.0**-100
DEPENDENT = 1e-9  # a column this close to the span of others follows from them


@dataclass(frozen=True)
class Feasible:
    """An exact solution v >= 0 of G v = h, as its entries that are not 0."""

    values: dict[int, Rational]


@dataclass(frozen=True)
class Infeasible:
    """No v >= 0 solves G v = h."""


def decide_program(
    program: Table, is_open: Sequence[bool] | Mask, basis: Sequence[int] | None = None
) -> Feasible | Infeasible | None:
    """Whether G v = h has a solution v >= 0 that is 0 on the columns that are not open.

    The dual simplex without rounding, by Bland's rule. Starts from ``basis`` (one column per equation;
    -1 - r, the choice for all unless given, is the artificial one of equation r, which also stands in
    for a column that depends on others of the basis). None where the pivots run out.

    >>> from flint import fmpq
    >>> one, two = fmpq(1), fmpq(2)
    >>> decide_program([[one, -one, two]], [True, True])   # v0 - v1 = 2
    Feasible(values={0: 2})
    >>> decide_program([[one, -one, two]], [False, True])
    Infeasible()
    """
    table, in_basis = program, [-1 - r for r in range(len(program))]
    if basis is not None:
        table, in_basis = _tableau(program, basis)
    table = [list(row) for row in table]
    size = len(program[0]) - 1
    for _ in range(MOST_PIVOTS):
        leave, sign = _leaving(table, in_basis, is_open)
        if leave < 0:
            return Feasible(
                {j: table[r][-1] for r, j in enumerate(in_basis) if j >= 0 and table[r][-1] != 0}
            )
        row = table[leave]
        enter = next((j for j in range(size) if is_open[j] and sign * row[j] < 0), -1)
        if enter < 0:
            return Infeasible()
        _pivot(table, leave, enter)
        in_basis[leave] = enter
    return None


def separates(program: Table, rounded: Array, guess: Array, is_open: Mask) -> bool:
    """Whether some y near ``guess`` has y' G_j >= 0 for every open column j and y' h < 0, exactly.

    Then G v = h has no solution v >= 0 on the open columns (Farkas). A simplex gives y at a corner, where
    many columns are exactly level, y' G_j = 0, and rounding may point them down by 1e-16. So y is moved to
    where they are level in fractions, on the equations where its weight is more than rounding, and
    checked. ``rounded``: G in float64, every entry between 2^-900 and 2^900 in size or 0, and off by at
    most three roundings.
    """
    size = float(np.abs(guess).max(initial=0.0))
    if not 0.0 < size < np.inf:
        return False
    rows = np.flatnonzero(np.abs(guess) > SMALL * size)
    y, part = guess[rows] / size, rounded[rows]
    level = np.abs(y @ part) <= LEVEL * np.abs(part).sum(axis=0)
    candidates = np.flatnonzero(is_open & level & part.any(axis=0))
    columns = candidates[independent(part[:, candidates].T)]
    exact = orthogonal_near([[program[r][j] for r in rows] for j in columns], y)

    def along(j: int) -> Rational:
        return sum(x * program[r][j] for r, x in zip(rows, exact, strict=True))

    # Most columns are far from level: float64 is sure of these, with four roundings in every factor.
    weights = np.array([to_float(x) for x in exact])
    bound = (2 * len(rows) + 12) * UNIT * (np.abs(weights) @ np.abs(part))
    rises = weights @ part > bound
    if np.abs(weights[weights != 0.0]).min(initial=1.0) < SMALLEST:
        rises[:] = False
    rises[columns] = True
    return bool(along(-1) < 0 and all(along(int(j)) >= 0 for j in np.flatnonzero(is_open & ~rises)))


def independent(vectors: Array) -> list[int]:
    """Rows that span the others to rounding, in float64."""
    from scipy.linalg import qr

    if not vectors.size or not np.isfinite(vectors).all():
        return list(range(len(vectors)))
    triangle, order = qr(vectors.T, mode="r", pivoting=True)
    sizes = np.abs(np.diagonal(triangle))
    return sorted(order[: int((sizes > DEPENDENT * sizes[0]).sum())].tolist())


def orthogonal(vectors: Table) -> list[dict[int, Rational]]:
    """A basis of what is orthogonal to rational vectors; each one has a 1 of its own, named first."""
    from flint import fmpq, fmpq_mat
    from scipy.linalg import qr

    m = len(vectors[0])
    rounded = np.array([[to_float(x) for x in row] for row in vectors])
    order = list(range(m))
    if np.isfinite(rounded).all():
        # Well-conditioned coordinates to solve for, so that the rounded basis stays of size 1.
        order = [int(s) for s in qr(rounded, mode="r", pivoting=True)[1]]
    reduced, rank = fmpq_mat([[row[s] for s in order] for row in vectors]).rref()
    table = reduced.tolist()[:rank]
    pivots = leading(table)
    out = []
    for free in (c for c in range(m) if c not in pivots):
        normal = {order[free]: fmpq(1)}
        for pivot, row in zip(pivots, table, strict=True):
            if row[free] != 0:
                normal[order[pivot]] = -row[free]
        out.append(normal)
    return out


def orthogonal_near(vectors: Table, near: Array) -> list[Rational]:
    """A vector near ``near`` that is orthogonal to rational vectors: what is free keeps its value.

    >>> import numpy as np
    >>> from flint import fmpq
    >>> orthogonal_near([[fmpq(1), fmpq(3)]], np.array([3.0, -1.0 + 1e-16]))
    [3, -1]
    """
    from flint import fmpq

    values = [fmpq(*float(x).as_integer_ratio()) for x in near]
    if not vectors:
        return values
    out = [fmpq(0)] * len(values)
    for normal in orthogonal(vectors):
        own = next(iter(normal))
        for p, x in normal.items():
            out[p] += values[own] * x
    return out


def power_of_two(size: float) -> Rational:
    """The power of 2 that brings ``size`` into [1/2, 1); 1 for 0 and for what is not finite."""
    from flint import fmpq

    return fmpq(2) ** -int(np.frexp(size)[1]) if size and np.isfinite(size) else fmpq(1)


def to_float(value: Rational) -> float:
    """The nearest float64; infinite beyond its range."""
    return quotient(int(value.p), int(value.q))


def to_floats(table: Table) -> Array:
    """The nearest float64 numbers, row by row."""
    return np.array([[to_float(x) if x != 0 else 0.0 for x in row] for row in table])


def _tableau(program: Table, basis: Sequence[int]) -> tuple[Table, list[int]]:
    """B^-1 (G | h), and the columns of B: the basis, mended where its columns depend on each other."""
    from flint import fmpq, fmpq_mat

    def columns(some: Sequence[int]) -> Table:
        return [
            [row[j] if j >= 0 else fmpq(int(r == -1 - j)) for j in some]
            for r, row in enumerate(program)
        ]

    kept = list(basis)
    try:
        inverse = fmpq_mat(columns(kept)).inv()
    except ZeroDivisionError:
        # The first columns that span: artificial ones come behind, for what the others leave out.
        every = kept + [-1 - r for r in range(len(program))]
        kept = [every[t] for t in leading(fmpq_mat(columns(every)).rref()[0].tolist())]
        inverse = fmpq_mat(columns(kept)).inv()
    # A hundred times as fast as solve, which puts all of the program over one denominator.
    table: Table = (inverse * fmpq_mat(program)).tolist()
    return table, kept


def _leaving(table: Table, basis: Sequence[int], is_open: Sequence[bool] | Mask) -> tuple[int, int]:
    """The equation whose basic unknown breaks its bounds and has the smallest column, or -1."""
    best, leave, sign = 0, -1, 1
    for r, column in enumerate(basis):
        x = table[r][-1]
        fixed = column < 0 or not is_open[column]
        if (x < 0 or (fixed and x > 0)) and (leave < 0 or column < best):
            best, leave, sign = column, r, 1 if x < 0 else -1
    return leave, sign


def _pivot(table: Table, leave: int, enter: int) -> None:
    scale = 1 / table[leave][enter]
    table[leave] = pivot = [x * scale if x != 0 else x for x in table[leave]]
    filled = [j for j, x in enumerate(pivot) if x != 0]
    for r, row in enumerate(table):
        factor = row[enter]
        if r != leave and factor != 0:
            for j in filled:
                row[j] -= factor * pivot[j]
