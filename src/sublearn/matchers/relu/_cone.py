"""The cone test: the targets of a sample must be a nonnegative combination of columns of W2."""

from __future__ import annotations

import numpy as np

from sublearn.patterns._system import Rational, System, Table, to_float


def cone_contradiction(system: System) -> str | None:
    """Why some R_s lies outside the cone of the columns w_i, or None.

    Nonnegative least squares projects R_s on the cone. Its active columns A are taken over and the
    projection is repeated in rationals: the rest rho = R_s - proj_A R_s separates if rho . w_i <= 0 for
    every i and rho . R_s > 0, because every point of the cone has rho . y <= 0.
    """
    for s in range(system.m):
        if outside_cone(system.readout, [row[s] for row in system.rest]):
            return (
                f"on sample {s} the targets lie outside the cone of the {system.k} units' columns of "
                "W2: no outputs >= 0 give them"
            )
    return None


def outside_cone(readout: Table, target: list[Rational]) -> bool:
    """Whether it is proved that no a >= 0 has readout a = target."""
    from scipy.optimize import nnls

    matrix = np.array([[to_float(x) for x in row] for row in readout])
    right = np.array([to_float(x) for x in target])
    size = float(np.abs(right).max())
    if not (np.isfinite(matrix).all() and np.isfinite(size)) or size == 0.0:
        return False
    # Of size 1: numbers whose squares overflow send nnls out of its arrays.
    widest = float(np.abs(matrix).max()) or 1.0
    try:
        found, distance = nnls(matrix / widest, right / size)
    except RuntimeError:
        return False
    if distance < 1e-12:
        return False
    rest = _rest(readout, target, np.flatnonzero(found).tolist())
    if rest is None:
        return False
    columns = list(zip(*readout, strict=True))
    return dot(rest, target) > 0 and all(dot(rest, column) <= 0 for column in columns)


def _rest(readout: Table, target: list[Rational], active: list[int]) -> list[Rational] | None:
    """target minus its orthogonal projection on the span of the active columns."""
    from flint import fmpq_mat

    if not active:
        return target
    part = fmpq_mat([[row[i] for i in active] for row in readout])
    right = fmpq_mat([[x] for x in target])
    try:
        weights = (part.transpose() * part).solve(part.transpose() * right)
    except ZeroDivisionError:
        return None
    return [row[0] for row in (right - part * weights).tolist()]


def dot(left: list[Rational], right: list[Rational] | tuple[Rational, ...]) -> Rational:
    """The sum of products."""
    return sum(a * b for a, b in zip(left, right, strict=True))
