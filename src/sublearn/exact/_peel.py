"""Generic rank of one linear feed-forward layer, mostly by counting.

The columns are u_i (x) v_j for the learnable entries (i, j), with generic u_i in F^d and v_j in
F^m. This tensor matroid is dual to the bipartite rigidity matroid (Brakensiek, Dhar, Gao, Gopi and
Larson, "Rigidity matroids and linear algebraic matroids with applications to matrix completion
and tensor codes", arXiv:2405.00778). Combinatorial descriptions are known only in special cases,
but whole rows and columns peel off.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sublearn._arrays import Mask
from sublearn.exact._basis import ColumnBasis
from sublearn.exact._elimination import eliminate
from sublearn.exact._factors import columns
from sublearn.exact._field import PrimeField


@dataclass(frozen=True)
class Peeled:
    """A generic rank, and whether counting alone proved it.

    Otherwise a dense rank modulo p finished the work: a proved lower bound, and the true value
    unless the random point was an unlucky one.
    """

    rank: int
    exact: bool


def peel(mask: ArrayLike, d: int, m: int, field: PrimeField, rng: np.random.Generator) -> Peeled:
    """The rank of {u_i (x) v_j : mask[i, j]} for generic u_i in F^d and v_j in F^m.

    1. A row with at least m entries spans u_i (x) F^m. It counts m; modulo this space the other
       u's are generic in F^(d-1). So delete the row and lower d. Columns alike, with d entries.
    2. With at most d rows left the u_i are independent, and so are the rows' spans, each of a
       size below m: every remaining entry counts. Columns alike.
    3. Else take the d fullest rows as a basis of F^d. Their entries are independent. Modulo them,
       F^d (x) F^m is the sum over these rows of F^m / span(v_j of the row), a smaller space where
       the entries of the other rows are ranked densely.

    >>> field, rng = PrimeField(8388593), np.random.default_rng(0)
    >>> peel([[0, 0, 1], [0, 0, 1], [1, 1, 0]], 2, 2, field, rng)
    Peeled(rank=3, exact=True)
    """
    left: Mask = np.array(mask, dtype=bool)
    if left.ndim != 2:
        raise ValueError(f"mask must have two axes, got shape {left.shape}")
    if d < 0 or m < 0:
        raise ValueError(f"d and m must not be negative, got {d} and {m}")
    rank = 0
    while d and m:
        full = np.flatnonzero(left.sum(axis=1) >= m)[:d]
        if full.size:
            rank += m * int(full.size)
            left[full] = False
            d -= int(full.size)
            continue
        full = np.flatnonzero(left.sum(axis=0) >= d)[:m]
        if not full.size:
            break
        rank += d * int(full.size)
        left[:, full] = False
        m -= int(full.size)
    if not (d and m):
        return Peeled(rank, True)
    left = left[np.ix_(left.any(axis=1), left.any(axis=0))]
    if left.shape[0] <= d or left.shape[1] <= m:
        return Peeled(rank + int(left.sum()), True)
    by_row = int(np.sort(left.sum(axis=1))[-d:].sum())
    by_column = int(np.sort(left.sum(axis=0))[-m:].sum())
    if by_column > by_row:  # the more entries the basis holds, the smaller the dense rest
        left, d, m = np.ascontiguousarray(left.T), m, d
    return Peeled(rank + _quotient_rank(left, d, m, field, rng), False)


def _quotient_rank(mask: Mask, d: int, m: int, field: PrimeField, rng: np.random.Generator) -> int:
    """Step 3, for a mask with more than d rows, each of fewer than m entries."""
    sizes = mask.sum(axis=1)
    ranked = np.argsort(-sizes, kind="stable")
    basis, others = ranked[:d], ranked[d:]
    i, j = np.nonzero(mask[others])
    # In the basis of the chosen rows, the other u's are again generic.
    u = field.random(rng, (d, others.size))
    v = field.random(rng, (m, mask.shape[1]))
    quotient = np.empty((int((m - sizes[basis]).sum()), i.size))
    rank = top = 0
    for k, row in enumerate(basis):
        span = ColumnBasis(field, m)
        span.push(v[:, mask[row]])
        rank += span.rank
        images = span.modulo(v)
        bottom = top + images.shape[0]
        quotient[top:bottom] = columns(field, u[None, k : k + 1], images.T[None], i, j)
        top = bottom
    return rank + eliminate(field, quotient[:top]).rank
