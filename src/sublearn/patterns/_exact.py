"""The linear program of one node in rationals: a dual simplex without rounding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sublearn._arrays import Array
from sublearn.patterns._system import Rational, Table

MOST_PIVOTS = 200
SMALL = 1e-11  # as in _farkas.py, which is compiled and stays unloaded here


@dataclass(frozen=True)
class Feasible:
    """An exact solution v >= 0 of G v = h, as its entries that are not 0."""

    values: dict[int, Rational]


@dataclass(frozen=True)
class Infeasible:
    """y' G_j < 0 only for the columns in ``used``, and y' h < 0."""

    used: frozenset[int]


def decide_node(
    program: Table, basis: Sequence[int], is_open: Sequence[bool]
) -> Feasible | Infeasible | None:
    """Whether G v = h has a solution v >= 0 that is 0 on the columns that are not open.

    ``program``: the rows of G, each with its entry of h behind.

    Starts from ``basis`` (one column per equation; -1 - r is the artificial one of equation r) and
    follows Bland's rule. None where the basis is singular or the pivots run out.
    """
    table = _tableau(program, basis)
    if table is None:
        return None
    held = list(basis)
    size = len(program[0]) - 1
    for _ in range(MOST_PIVOTS):
        leave, sign = _leaving(table, held, is_open)
        if leave < 0:
            return Feasible(
                {j: table[r][-1] for r, j in enumerate(held) if j >= 0 and table[r][-1] != 0}
            )
        row = table[leave]
        enter = next((j for j in range(size) if is_open[j] and sign * row[j] < 0), -1)
        if enter < 0:
            return Infeasible(frozenset(j for j in range(size) if sign * row[j] < 0))
        _pivot(table, leave, enter)
        held[leave] = enter
    return None


def farkas(
    program: Table, matrix: Array, basis: Sequence[int], row: int, sign: int
) -> Infeasible | None:
    """The certificate of an infeasible node in rationals, from the basis and the equation ``row``.

    As in ``_farkas.py``: y is 0 where its float64 value is at rounding level, and on the equations that
    are left it is orthogonal to every basic column but the one of ``row``. None where these conditions
    leave more or less than one direction, or where it proves nothing.
    """
    from flint import fmpq, fmpq_mat

    rows, size = matrix.shape
    square = np.zeros((rows, rows))
    for t, column in enumerate(basis):
        if column < 0:
            square[-1 - column, t] = 1.0
        else:
            square[:, t] = matrix[:, column]
    goal = np.zeros(rows)
    goal[row] = float(sign)
    try:
        guess = np.linalg.solve(square.T, goal)
    except np.linalg.LinAlgError:
        return None
    support = np.flatnonzero(np.abs(guess) > SMALL * np.abs(guess).max()).tolist()

    def entries(column: int) -> list[Rational]:
        if column < 0:
            return [fmpq(int(r == -1 - column)) for r in support]
        return [program[r][column] for r in support]

    tight = [entries(column) for t, column in enumerate(basis) if t != row]
    tight = [column for column in tight if any(x != 0 for x in column)]
    if len(support) > 1 and not tight:
        return None
    y = _orthogonal_to(tight, len(support))
    if y is None:
        return None
    leaving = sum((a * b for a, b in zip(y, entries(basis[row]), strict=True)), fmpq(0))
    if leaving * sign < 0:
        y = [-x for x in y]
    lines = fmpq_mat([y]) * fmpq_mat([program[r] for r in support])
    found = lines.tolist()[0]
    if leaving == 0 or not found[-1] < 0:
        return None
    return Infeasible(frozenset(j for j in range(size) if found[j] < 0))


def _orthogonal_to(vectors: Table, size: int) -> list[Rational] | None:
    """The direction orthogonal to all of the vectors, or None unless there is exactly one."""
    from flint import fmpq, fmpq_mat

    if not vectors:
        return [fmpq(1)] if size == 1 else None
    reduced, rank = fmpq_mat(vectors).rref()
    if rank != size - 1:
        return None
    table = reduced.tolist()[:rank]
    pivots = [next(c for c in range(size) if line[c] != 0) for line in table]
    free = next(c for c in range(size) if c not in pivots)
    out = [fmpq(0)] * size
    out[free] = fmpq(1)
    for pivot, line in zip(pivots, table, strict=True):
        out[pivot] = -line[free]
    return out


def _tableau(program: Table, basis: Sequence[int]) -> list[list[Rational]] | None:
    """B^-1 (G | h)."""
    from flint import fmpq, fmpq_mat

    rows = len(program)
    square = [[fmpq(0)] * rows for _ in range(rows)]
    for t, column in enumerate(basis):
        if column < 0:
            square[-1 - column][t] = fmpq(1)
        else:
            for r in range(rows):
                square[r][t] = program[r][column]
    try:
        found: list[list[Rational]] = fmpq_mat(square).solve(fmpq_mat(program)).tolist()
    except ZeroDivisionError:
        return None
    return found


def _leaving(
    table: list[list[Rational]], basis: list[int], is_open: Sequence[bool]
) -> tuple[int, int]:
    """The equation whose basic unknown breaks its bounds and has the smallest column, or -1."""
    best, leave, sign = 0, -1, 1
    for r, column in enumerate(basis):
        x = table[r][-1]
        held = column < 0 or not is_open[column]
        if (x < 0 or (held and x > 0)) and (leave < 0 or column < best):
            best, leave, sign = column, r, 1 if x < 0 else -1
    return leave, sign


def _pivot(table: list[list[Rational]], leave: int, enter: int) -> None:
    scale = 1 / table[leave][enter]
    table[leave] = pivot = [x * scale if x != 0 else x for x in table[leave]]
    filled = [j for j, x in enumerate(pivot) if x != 0]
    for r, row in enumerate(table):
        factor = row[enter]
        if r != leave and factor != 0:
            for j in filled:
                row[j] -= factor * pivot[j]
