"""The best independent set of weights, without ever forming the Jacobian.

The sets of weights with independent Jacobian columns form a matroid, so taking every weight that
is independent of those taken before gives the best basis for any score (Edmonds, "Matroids and
the greedy algorithm", Math. Programming 1, 1971).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from sublearn._arrays import Array, Indices, Mask
from sublearn.exact._basis import ColumnBasis
from sublearn.exact._factors import check_factors, columns, screen, within
from sublearn.exact._field import PrimeField

SMALLEST_BLOCK, LARGEST_BLOCK = 32, 256
SCREENS = 3
OVERHEAD = 2_000_000  # what a screening costs in any case, counted in multiplications


class _Weights:
    """All weights of a network under one flat numbering, with their Jacobian factors."""

    def __init__(self, field: PrimeField, blocks: Sequence[tuple[Array, Array]]) -> None:
        if not blocks:
            raise ValueError("blocks must hold at least one (left, right) pair")
        self.field = field
        self.blocks = [
            (np.ascontiguousarray(left, np.float64), np.ascontiguousarray(right, np.float64))
            for left, right in blocks
        ]
        self.sizes = [check_factors(left, right) for left, right in self.blocks]
        if len({size[:2] for size in self.sizes}) != 1:
            raise ValueError("blocks must agree in the number of outputs and of samples")
        self.height = self.sizes[0][0] * self.sizes[0][1]
        counts = [rows * cols for _, _, rows, cols in self.sizes]
        self.offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    def columns(self, ids: Indices) -> Array:
        """The Jacobian columns of these weights, in this order."""
        owner = np.searchsorted(self.offsets, ids, side="right") - 1
        present = np.unique(owner)
        out = np.empty((self.height, ids.size)) if present.size != 1 else None
        for b in present:
            mine = np.flatnonzero(owner == b)
            rows, cols = np.divmod(ids[mine] - self.offsets[b], self.sizes[b][3])
            left, right = self.blocks[b]
            part = columns(self.field, left, right, rows, cols)
            if out is None:
                return part
            out[:, mine] = part
        assert out is not None
        return out

    def screening_work(self) -> int:
        """About how many multiplications one null vector costs over all weights."""
        work = OVERHEAD
        for (left, _), (d, m, rows, cols) in zip(self.blocks, self.sizes, strict=True):
            work += left.shape[0] * rows * m * (cols + d)
        return work

    def survivors(self, basis: ColumnBasis, rng: np.random.Generator, open_: Mask) -> Mask:
        """Which of the weights marked in `open_` are not orthogonal to all random null vectors."""
        vectors = basis.null_vectors(rng, SCREENS)
        alive = np.zeros(open_.size, dtype=bool)
        for b, (left, right) in enumerate(self.blocks):
            _, _, rows, cols = self.sizes[b]
            part = slice(self.offsets[b], self.offsets[b + 1])
            doubtful = open_[part].reshape(rows, cols).copy()
            still = alive[part].reshape(rows, cols)
            for k in range(SCREENS):
                # Only rows with a weight still in doubt: after the first vector these are few.
                rest = np.flatnonzero(doubtful.any(axis=1))
                if rest.size == 0:
                    break
                values = screen(self.field, left[:, :, rest], right, vectors[:, k])
                still[rest] |= doubtful[rest] & (values != 0.0)
                doubtful[rest] &= values == 0.0
        return alive


def greedy(
    field: PrimeField,
    blocks: Sequence[tuple[Array, Array]],
    order: ArrayLike,
    rng: np.random.Generator,
    start: ArrayLike = (),
    wanted: int | None = None,
) -> Indices:
    """The lexicographically first basis: each weight of `order` independent of those before it.

    Equals the column rank profile of the Jacobian with its columns in this order. `blocks` holds
    the factors (left, right) of each weight matrix; entry (i, j) of a matrix is numbered, after
    all entries of the matrices before it, by i cols + j. The weights in `start` are taken first
    and must be independent. Stops at rank `wanted` (default: d m).

    A weight whose column is orthogonal to 3 random vectors of the null space is discarded for
    good. A dependent weight always is; an independent one with probability p^-3 < 2^-66 in each
    screening. Screening waits until the work lost on dependent weights since the last one exceeds
    the estimated price of one null vector, so orders that waste nothing are never screened.

    >>> left, right = np.array([[[1.0, 2.0]]]), np.array([[[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]])
    >>> greedy(PrimeField(8388593), [(left, right)], range(6), np.random.default_rng(0)).tolist()
    [0, 2]
    """
    weights = _Weights(field, blocks)
    total = int(weights.offsets[-1])
    first, rest = (
        within(f"{name} must hold weight numbers", np.reshape(ids, -1), total)
        for name, ids in (("start", start), ("order", order))
    )
    wanted = weights.height if wanted is None else wanted
    if not 0 <= wanted <= weights.height:
        raise ValueError(f"wanted must lie in 0..{weights.height}, got {wanted}")
    basis = ColumnBasis(field, weights.height)
    taken = [first]
    for begin in range(0, first.size, LARGEST_BLOCK):
        block = first[begin : begin + LARGEST_BLOCK]
        accepted = basis.push(weights.columns(block))
        if accepted.size < block.size:
            position = begin + int(np.setdiff1d(np.arange(block.size), accepted)[0])
            raise ValueError(f"start is dependent: position {position} follows from those before")
    rest = rest[~np.isin(rest, first)] if first.size else rest

    size, lost, price = 2 * SMALLEST_BLOCK, 0, weights.screening_work()
    while basis.rank < wanted and rest.size:
        block, rest = rest[:size], rest[size:]
        before = basis.rank
        accepted = basis.push(weights.columns(block))
        taken.append(block[accepted[: wanted - before]])
        lost += (block.size - accepted.size) * (before + 1) * weights.height
        if lost > price and basis.rank < wanted:
            open_ = np.zeros(total, dtype=bool)
            open_[rest] = True
            rest = rest[weights.survivors(basis, rng, open_)[rest]]
            lost = 0
        if accepted.size > 0.9 * block.size:
            size = min(LARGEST_BLOCK, 2 * size)
        elif accepted.size < 0.3 * block.size:
            size = max(SMALLEST_BLOCK, size // 2)
    return np.concatenate(taken)
