"""Linear systems with bands, low <= J x + c <= high: a point by a linear program, or a proof of none.

One program in float64 looks for the point farthest inside the bands; its dual solution is a vector y with
y'J = 0, nearly. A refutation needs y'J = 0 exactly, because x may be any real numbers. Then

    y'c = y'(J x + c) >= sum_i min { y_i z : low_i <= z <= high_i }   for every x within the bands,

and y refutes if the right side exceeds the left. Two ways make y exact. In balls: as many equations as
there are unknowns are solved for their y, the other y are taken as they are; that y exists and is
orthogonal to every column. Where columns depend on each other that system is singular, and the same is
done in fractions, if the numbers are fractions (linear steps and ReLU, no tanh or sigmoid).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sublearn._arrays import Array, Indices
from sublearn.exact import orthogonal_near
from sublearn.matchers._behind import shortest_solution
from sublearn.matchers.proofs._balls import BALLS, Ball, BallMatrix, column_vector, middles
from sublearn.matchers.proofs._krawczyk import float_matrix
from sublearn.matchers.within._bands import Bands, rational

SUPPORT = 1e-9  # entries of y below this share of the largest are taken for 0
DEPENDENT = 1e-11  # pivots below this share of the largest: the columns may depend on each other
MOST_ENTRIES = 2**20  # of a system that is looked at
MOST_FRACTIONS = 2**14  # entries of a system that is reduced in fractions


@dataclass(frozen=True)
class Linear:
    """J (equations x unknowns) and c in balls, and J in float64."""

    matrix: BallMatrix
    constants: list[Ball]
    rough: Array

    @classmethod
    def of(cls, matrix: BallMatrix, constants: Sequence[Ball]) -> Linear | None:
        """None where the numbers do not fit into float64, or are too many."""
        rows, columns = matrix.nrows(), matrix.ncols()
        if rows * columns > MOST_ENTRIES:
            return None
        rough = float_matrix(matrix)
        finite = all(c.is_finite() for c in constants)
        return cls(matrix, list(constants), rough) if finite and np.isfinite(rough).all() else None


def parts(matrix: BallMatrix) -> list[tuple[Indices, Indices]]:
    """Equations and unknowns that have nothing to do with each other: one output's, often."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    rows, columns = matrix.nrows(), matrix.ncols()
    filled = np.array([not e.is_zero() for e in matrix.entries()]).reshape(rows, columns)
    i, k = np.nonzero(filled)
    size = rows + columns
    graph = coo_matrix((np.ones(len(i)), (i, rows + k)), shape=(size, size))
    count, label = connected_components(graph, directed=False)
    out = []
    for part in range(count):
        mine = np.flatnonzero(label[:rows] == part)
        if mine.size:
            out.append((mine, np.flatnonzero(label[rows:] == part)))
    return out


def solve(linear: Linear, bands: Bands) -> tuple[Array, list[Array]] | None:
    """The point farthest inside the bands and, where it is outside, vectors near y'J = 0.

    The point is in float64 and promises nothing; the vectors may refute.
    """
    middle, half = bands.middle_and_half()
    bounded = half > 0
    if not bounded.any() or not (np.isfinite(middle).all() and np.isfinite(half).all()):
        return (np.zeros(linear.rough.shape[1]), []) if not bounded.any() else None
    scaled = linear.rough[bounded] / half[bounded, None]
    sizes = np.linalg.norm(scaled, axis=0)
    sizes[sizes == 0] = 1.0
    scaled /= sizes
    constants = middles(linear.constants)
    start = shortest_solution(scaled, (middle - constants)[bounded] / half[bounded])
    if start is None:
        return None
    x = start / sizes
    # The rest is taken in balls: it may be many digits below the numbers it comes from.
    product = (linear.matrix * BALLS.exact(x[:, None])).entries()
    rest = [a + c for a, c in zip(product, linear.constants, strict=True)]  # J x + c
    above, below = np.zeros(len(rest)), np.zeros(len(rest))
    for i in np.flatnonzero(bounded).tolist():
        above[i] = np.inf if bands.no_high[i] else float((bands.high[i] - rest[i]).mid()) / half[i]
        below[i] = np.inf if bands.no_low[i] else float((rest[i] - bands.low[i]).mid()) / half[i]
    above, below = above[bounded], below[bounded]
    if min(above.min(), below.min()) >= 0.5:
        return x, []
    vectors = []
    places = np.flatnonzero(bounded)
    miss = np.where(np.isfinite(above) & np.isfinite(below), (above - below) / 2, 0.0)
    if float(np.mean(miss**2)) > 1.0:
        # The residual of least squares is orthogonal to J: often enough to refute.
        vectors.append(_placed(miss / half[bounded], places, len(rest)))
    up, down = np.isfinite(above), np.isfinite(below)
    solved = deepest(np.vstack([scaled[up], -scaled[down]]), np.r_[above[up], below[down]])
    if solved.status != 0:
        return x, vectors
    if solved.x[-1] < 0:
        duals = -np.asarray(solved.ineqlin.marginals)
        y = np.zeros(places.size)
        y[up] -= duals[: int(up.sum())]
        y[down] += duals[int(up.sum()) :]
        vectors.insert(0, _placed(y / half[bounded], places, len(rest)))
    return x + np.asarray(solved.x[:-1]) / sizes, vectors


def deepest(table: Array, right: Array, sides: Array | None = None) -> Any:
    """The program for x and the largest t <= 1 with A x + t <= b, and A x <= b where ``sides`` follow A."""
    from scipy.optimize import linprog

    rows = np.hstack([table, np.ones((len(table), 1))])
    if sides is not None:
        rows = np.vstack([rows, np.hstack([sides, np.zeros((len(sides), 1))])])
    goal = np.r_[np.zeros(table.shape[1]), -1.0]
    limits = [(None, None)] * table.shape[1] + [(None, 1.0)]
    return linprog(goal, A_ub=rows, b_ub=right, bounds=limits, method="highs")


def refutes(linear: Linear, bands: Bands, vectors: Sequence[Array]) -> bool:
    """Whether a vector near one of these proves that no x lies within the bands."""
    return any(_refutes(linear, bands, y) for y in vectors)


def _refutes(linear: Linear, bands: Bands, y: Array) -> bool:
    size = float(np.abs(y).max(initial=0.0))
    if not (0.0 < size < np.inf):
        return False
    support = np.flatnonzero(np.abs(y) > SUPPORT * size)
    inside = BALLS.met(linear.matrix, support.tolist())
    exact = _in_balls(linear, support, inside, y / size)
    if exact is None or not _gap(linear, bands, support, exact):
        exact = _in_fractions(linear, support, inside, y / size)
    return exact is not None and _gap(linear, bands, support, exact)


def _gap(linear: Linear, bands: Bands, support: Indices, y: list[Ball]) -> bool:
    """Whether sum_i min over the bands of y_i z_i certainly exceeds y'c."""
    least = bands.select(support).least(y)
    terms = (value * linear.constants[i] for i, value in zip(support, y, strict=True))
    return least is not None and bool(least > sum(terms))


def _in_balls(linear: Linear, support: Indices, inside: list[int], y: Array) -> list[Ball] | None:
    """Enclosures of an exact y, 0 outside the support, with y'J = 0; None where J seems dependent."""
    from flint import arb
    from scipy.linalg import qr

    count = len(inside)
    if not count:
        return [arb(v) for v in y[support].tolist()]
    if len(support) <= count:
        return None
    rough = linear.rough[support][:, inside]
    sizes = np.abs(rough).max(axis=0)
    if not (sizes > 0).all():
        return None
    triangle, order = qr((rough / sizes).T, mode="r", pivoting=True)
    pivots = np.abs(np.diagonal(triangle))[:count]
    if pivots[-1] <= DEPENDENT * pivots[0]:
        return None
    chosen, others = order[:count].tolist(), order[count:].tolist()

    def part(places: list[int]) -> BallMatrix:
        return BALLS.part(linear.matrix, support[places].tolist(), inside).transpose()

    taken = [arb(float(y[support[p]])) for p in others]
    try:
        solved = part(chosen).solve(-(part(others) * column_vector(taken))).entries()
    except ZeroDivisionError:
        return None
    out: list[Ball] = [arb(0)] * len(support)
    for p, value in zip([*chosen, *others], [*solved, *taken], strict=True):
        out[p] = value
    return out


def _in_fractions(
    linear: Linear, support: Indices, inside: list[int], y: Array
) -> list[Ball] | None:
    """The same in fractions, whatever the rank is; None where an entry of J is not exact."""
    from flint import arb

    if not inside or len(support) * len(inside) > MOST_FRACTIONS:
        return None
    columns = BALLS.part(linear.matrix, support.tolist(), inside).transpose().tolist()
    if not all(e.is_exact() for column in columns for e in column):
        return None
    table = [[rational(e, upper=False) for e in column] for column in columns]
    out = orthogonal_near(table, y[support])
    return [arb(x) for x in out] if any(x != 0 for x in out) else None


def _placed(values: Array, places: Indices, size: int) -> Array:
    out = np.zeros(size)
    out[places] = values
    return out
