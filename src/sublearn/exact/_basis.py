"""A basis that grows by blocks of columns, and random vectors orthogonal to it."""

import numpy as np

from sublearn._arrays import Array, Indices
from sublearn._compile import compiled
from sublearn.exact._elimination import apply_pivots, echelonise, reduce_block
from sublearn.exact._field import PrimeField
from sublearn.exact._scalars import remainder

BLOCK = 64


@compiled
def _solve_transposed(lower: Array, target: Array, p: float) -> None:
    """target <- (lower^T)^-1 target for a small unit lower triangle and few columns."""
    inverse = 1.0 / p
    for row in range(lower.shape[0] - 1, -1, -1):
        for column in range(target.shape[1]):
            value = target[row, column]
            for below in range(row + 1, lower.shape[0]):
                value -= lower[below, row] * target[below, column]
            target[row, column] = remainder(value, p, inverse)


class ColumnBasis:
    """The column rank profile of a matrix that arrives in blocks of columns.

    Holds the unit lower factor of the independent columns met so far, in a row order of its own.

    >>> basis = ColumnBasis(PrimeField(8388593), 2)
    >>> basis.push(np.array([[1.0, 2.0], [1.0, 2.0]])).tolist()
    [0]
    >>> basis.push(np.array([[3.0, 0.0], [3.0, 1.0]])).tolist(), basis.rank
    ([1], 2)
    """

    def __init__(self, field: PrimeField, height: int) -> None:
        self._field = field
        self._height = height
        self._rank = 0
        self._lower: Array = np.empty((height, 0))
        self._order: Indices = np.arange(height, dtype=np.int64)

    @property
    def rank(self) -> int:
        """The number of independent columns so far."""
        return self._rank

    def push(self, block: Array) -> Indices:
        """The columns of `block` independent of the basis and of the block's earlier columns.

        They join the basis. The block itself is left as it is.
        """
        if np.ndim(block) != 2 or block.shape[0] != self._height:
            raise ValueError(f"block must have {self._height} rows, got shape {np.shape(block)}")
        if self._rank == self._height or block.shape[1] == 0:
            return np.empty(0, dtype=np.int64)
        residual = self.modulo(block)
        chosen, order = echelonise(self._field, residual)
        if chosen.size:
            self._append(residual[:, : chosen.size], order)
        return chosen

    def modulo(self, block: Array) -> Array:
        """The columns of `block` modulo the span of the basis, in the rows without a pivot."""
        work = np.ascontiguousarray(block[self._order], dtype=np.float64)
        apply_pivots(self._field, self._lower, work, 0, self._rank, 0)
        residual = work[self._rank :]
        reduce_block(residual, float(self._field.p))
        return residual

    def _append(self, multipliers: Array, order: Indices) -> None:
        """Add columns of L; `multipliers` carries them below its diagonal."""
        rank, count = self._rank, multipliers.shape[1]
        if rank + count > self._lower.shape[1]:
            # Doubling keeps the copies linear in the final size.
            grown = np.empty((self._height, min(self._height, max(2 * rank, rank + count, 64))))
            grown[:, :rank] = self._lower[:, :rank]
            self._lower = grown
        moved = np.flatnonzero(order != np.arange(order.size))
        if moved.size:
            self._lower[rank + moved, :rank] = self._lower[rank + order[moved], :rank]
            self._order[rank + moved] = self._order[rank + order[moved]]
        self._lower[rank:, rank : rank + count] = multipliers
        self._rank = rank + count

    def null_vectors(self, rng: np.random.Generator, count: int) -> Array:
        """Random w, uniform among the vectors with w . b = 0 for every basis column b.

        The entries on the rows without a pivot are free; the others follow from L^T w = 0.
        """
        field, rank, lower = self._field, self._rank, self._lower
        vectors = np.empty((self._height, count))
        vectors[rank:] = field.random(rng, (self._height - rank, count))
        for stop in range(rank, 0, -BLOCK):
            start = max(0, stop - BLOCK)
            vectors[start:stop] = -field.matmul(lower[stop:, start:stop].T, vectors[stop:])
            _solve_transposed(lower[start:stop, start:stop], vectors[start:stop], float(field.p))
        result = np.empty_like(vectors)
        result[self._order] = vectors
        return field.reduce(result)
