"""Column echelon form modulo p: rank, column rank profile and both triangular factors.

The columns are halved recursively (the PLE decomposition of Jeannerod, Pernet and Storjohann,
"Rank-profile revealing Gaussian elimination and the CUP matrix decomposition", J. Symbolic
Comput. 56, 2013), so that nearly all work is matrix products. Unrolled, the recursion reads like
a binary counter: once t panels are done, the pivots of the last 2^v of them update the next 2^v
panels, where 2^v is the largest power of two that divides t.

Reductions are delayed as in FFLAS (Dumas, Giorgi and Pernet 2008): an entry is reduced when it is
about to become a factor, or when `field.delay` products have piled up on it, not after each update.
"""

from dataclasses import dataclass

import numpy as np

from sublearn._arrays import Array, Indices
from sublearn._compile import compiled
from sublearn.exact._blas import subtract_product
from sublearn.exact._field import PrimeField
from sublearn.exact._scalars import reciprocal, remainder

PANEL = 32  # columns eliminated by the compiled base case
STRIP = 256  # columns of a triangular solve that stay in the first-level cache


@dataclass(frozen=True, eq=False)
class Echelon:
    """P A = L U with unit lower L and U in row echelon form, packed into the place of A.

    `pivots` is the column rank profile: the columns that are independent of those to their left.
    Row k of U starts at column pivots[k] of `matrix`; column k of L lies below entry (k, k).
    """

    field: PrimeField
    matrix: Array
    pivots: Indices

    @property
    def rank(self) -> int:
        """The number of pivots."""
        return int(self.pivots.size)


@compiled
def _subtract_columns(
    panel: Array, column: int, sources: Indices, count: int, p: float, inverse: float
) -> None:
    """Apply the first `count` pivots of a panel to one of its columns, four at a time.

    Multipliers of a pivot lie in its own column below its row, so the coefficient of pivot k is
    the entry of row k once the pivots before it have been applied: it alone is reduced.
    """
    target = panel[column]
    first = 0
    while first < count:
        last = min(first + 4, count)
        for k in range(first, last):
            value = target[k]
            for earlier in range(first, k):
                value -= target[earlier] * panel[sources[earlier], k]
            target[k] = remainder(value, p, inverse)
        if last - first == 4:
            a, b, c, d = target[first], target[first + 1], target[first + 2], target[first + 3]
            one, two = panel[sources[first]], panel[sources[first + 1]]
            three, four = panel[sources[first + 2]], panel[sources[first + 3]]
            for row in range(last, target.size):
                target[row] -= (a * one[row] + b * two[row]) + (c * three[row] + d * four[row])
        else:
            for k in range(first, last):
                coefficient, source = target[k], panel[sources[k]]
                for row in range(last, target.size):
                    target[row] -= coefficient * source[row]
        first = last


@compiled
def _eliminate_panel(
    matrix: Array, top: int, start: int, stop: int, p: float, pivots: Indices, order: Indices
) -> int:
    """Eliminate columns start:stop, where `top` pivots are known; return how many were found.

    Works column by column on a transposed copy, where columns are contiguous. Row exchanges are
    applied to the whole matrix and recorded in `order`.
    """
    inverse = 1.0 / p
    height, width = matrix.shape[0] - top, stop - start
    panel = np.empty((width, height))
    for row in range(height):
        for column in range(width):
            panel[column, row] = remainder(matrix[top + row, start + column], p, inverse)
    sources = np.empty(width, np.int64)
    upper = np.empty(width, np.int64)  # how many leading entries of a column belong to U
    rank = width * 0  # not a literal, for which there would be a second copy of the loop
    for column in range(width):
        _subtract_columns(panel, column, sources, rank, p, inverse)
        target = panel[column]
        pivot = -1
        for row in range(rank, height):
            target[row] = remainder(target[row], p, inverse)
        for row in range(rank, height):
            if target[row] != 0.0:
                pivot = row
                break
        upper[column] = rank
        if pivot < 0:
            continue
        if pivot != rank:
            for other in range(width):
                kept = panel[other, rank]
                panel[other, rank] = panel[other, pivot]
                panel[other, pivot] = kept
            for other in range(matrix.shape[1]):
                kept = matrix[top + rank, other]
                matrix[top + rank, other] = matrix[top + pivot, other]
                matrix[top + pivot, other] = kept
            place = order[top + rank]
            order[top + rank] = order[top + pivot]
            order[top + pivot] = place
        scale = reciprocal(target[rank], p)
        for row in range(rank + 1, height):
            target[row] = remainder(target[row] * scale, p, inverse)
        sources[rank] = column
        pivots[top + rank] = start + column
        rank += 1
        upper[column] = rank
    for row in range(height):
        for column in range(width):
            matrix[top + row, start + column] = panel[column, row] if row < upper[column] else 0.0
        # Column top + k is at most the pivot's own column, and zero below row k by now.
        for k in range(min(rank, row)):
            matrix[top + row, top + k] = panel[sources[k], row]
    return rank


@compiled
def _solve_strips(lower: Array, target: Array, p: float, strip: int) -> None:
    """target <- lower^-1 target for a small unit lower triangle, reduced once per entry."""
    inverse = 1.0 / p
    size, width = target.shape
    for start in range(0, width, strip):
        stop = min(start + strip, width)
        for row in range(size):
            current = target[row, start:stop]
            k = 0
            while k + 4 <= row:
                a, b, c, d = lower[row, k], lower[row, k + 1], lower[row, k + 2], lower[row, k + 3]
                one, two = target[k, start:stop], target[k + 1, start:stop]
                three, four = target[k + 2, start:stop], target[k + 3, start:stop]
                for j in range(stop - start):
                    current[j] -= (a * one[j] + b * two[j]) + (c * three[j] + d * four[j])
                k += 4
            while k < row:
                coefficient, source = lower[row, k], target[k, start:stop]
                for j in range(stop - start):
                    current[j] -= coefficient * source[j]
                k += 1
            for j in range(stop - start):
                current[j] = remainder(current[j], p, inverse)


@compiled
def reduce_block(block: Array, p: float) -> None:
    """Reduce every entry of a two-dimensional block in place."""
    inverse = 1.0 / p
    for row in range(block.shape[0]):
        for column in range(block.shape[1]):
            block[row, column] = remainder(block[row, column], p, inverse)


def _solve_lower(field: PrimeField, lower: Array, target: Array) -> None:
    """target <- lower^-1 target for a unit lower triangle of at most `field.delay` rows."""
    size = lower.shape[0]
    if size <= PANEL:
        _solve_strips(lower, target, float(field.p), STRIP)
        return
    middle = size // 2
    _solve_lower(field, lower[:middle, :middle], target[:middle])
    subtract_product(target[middle:], lower[middle:, :middle], target[:middle])
    _solve_lower(field, lower[middle:, middle:], target[middle:])


def apply_pivots(
    field: PrimeField, lower: Array, target: Array, first: int, last: int, pending: int
) -> int:
    """Eliminate pivots first:last of the unit lower factor `lower` from the rows of `target`.

    Rows first:last of `target` become rows of U, reduced; the rows below keep a backlog of
    unreduced products. Takes the backlog so far and returns the new one.
    """
    while first < last:
        stop = min(last, first + field.delay)
        if pending + stop - first > field.delay:
            reduce_block(target[first:], float(field.p))
            pending = 0
        _solve_lower(field, lower[first:stop, first:stop], target[first:stop])
        subtract_product(target[stop:], lower[stop:, first:stop], target[first:stop])
        pending += stop - first
        first = stop
    return pending


def echelonise(field: PrimeField, matrix: Array) -> tuple[Indices, Indices]:
    """Eliminate a row-major matrix in place; return the pivots and the row order P."""
    height, width = matrix.shape
    pivots = np.empty(min(height, width), dtype=np.int64)
    order = np.arange(height, dtype=np.int64)
    panels = -(-width // PANEL)
    before = [0]  # before[t]: the rank of the first t panels
    backlog = [0] * panels
    for panel in range(panels):
        start, stop = panel * PANEL, min((panel + 1) * PANEL, width)
        rank = before[-1]
        if rank < height:
            rank += _eliminate_panel(matrix, rank, start, stop, float(field.p), pivots, order)
        before.append(rank)
        done = panel + 1
        span = done & -done
        if stop < width:
            target = matrix[:, stop : stop + span * PANEL]
            pending = apply_pivots(field, matrix, target, before[done - span], rank, backlog[done])
            backlog[done : done + span] = [pending] * len(backlog[done : done + span])
    return pivots[: before[-1]], order


def eliminate(field: PrimeField, matrix: Array) -> Echelon:
    """The echelon form, rank and column rank profile of a matrix of residues.

    The column rank profile is the lexicographically first set of columns that is a basis of the
    column space: column j belongs to it when it is not a combination of columns 0..j-1.
    The matrix is overwritten when it is a row-major float64 array, and copied otherwise.

    >>> field = PrimeField(8388593)
    >>> echelon = eliminate(field, np.array([[0.0, 1, 2, 0], [0, 2, 4, 1]]))
    >>> echelon.rank, echelon.pivots.tolist()
    (2, [1, 3])
    """
    if np.ndim(matrix) != 2:
        raise ValueError(f"matrix must have two axes, got shape {np.shape(matrix)}")
    if not (isinstance(matrix, np.ndarray) and matrix.flags.writeable):
        matrix = np.array(matrix, dtype=np.float64)
    matrix = np.ascontiguousarray(matrix, dtype=np.float64)
    pivots, _ = echelonise(field, matrix)
    return Echelon(field, matrix, pivots)
