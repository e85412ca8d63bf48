"""Ranks of many small sets of columns, for exhaustive enumerations."""

import numpy as np
from numpy.typing import ArrayLike

from sublearn._arrays import Array, Indices
from sublearn._compile import compiled
from sublearn.exact._factors import within
from sublearn.exact._field import PrimeField
from sublearn.exact._scalars import remainder


@compiled
def _ranks(vectors: Array, subsets: Indices, p: float, out: Indices) -> None:
    """out[k] = rank of the rows of `vectors` listed in subsets[k].

    One vector is reduced at a time against those kept before it, by cross-multiplication so that
    no inverse is needed. What a subset shares with the one before it, from the left, is not done
    again: in lexicographic order that is nearly everything.
    """
    inverse = 1.0 / p
    count, size = subsets.shape
    height = vectors.shape[1]
    kept = np.empty((size, height))
    leading = np.empty(size, np.int64)
    rank_after = np.zeros(size + 1, np.int64)
    for k in range(count):
        shared = 0
        if k > 0:
            while shared < size and subsets[k, shared] == subsets[k - 1, shared]:
                shared += 1
        for place in range(shared, size):
            rank = rank_after[place]
            rank_after[place + 1] = rank
            if rank == height:
                continue
            current = kept[rank]
            current[:] = vectors[subsets[k, place]]
            for earlier in range(rank):
                source, row = kept[earlier], leading[earlier]
                factor, scale = current[row], source[row]
                if factor != 0.0:
                    for h in range(height):
                        current[h] = remainder(scale * current[h] - factor * source[h], p, inverse)
            for h in range(height):
                if current[h] != 0.0:
                    leading[rank] = h
                    rank_after[place + 1] = rank + 1
                    break
        out[k] = rank_after[size]


def subset_ranks(field: PrimeField, matrix: Array, subsets: ArrayLike) -> Indices:
    """For each row of `subsets`, the rank of the columns of `matrix` that it lists.

    Fastest when the subsets come in lexicographic order, as from `itertools.combinations`.

    >>> matrix = np.array([[1.0, 0, 1], [0, 1, 0]])
    >>> subset_ranks(PrimeField(8388593), matrix, [[0, 1], [0, 2], [1, 2]]).tolist()
    [2, 1, 2]
    """
    chosen = np.ascontiguousarray(subsets, dtype=np.int64)
    if chosen.ndim != 2:
        raise ValueError(f"subsets must be a list of equally long lists, got shape {chosen.shape}")
    within("subsets must hold columns", chosen, np.shape(matrix)[1])
    out = np.zeros(chosen.shape[0], dtype=np.int64)
    _ranks(np.ascontiguousarray(np.transpose(matrix)), chosen, float(field.p), out)
    return out
