"""What the tests of exact arithmetic compare with: python-flint, and factors built at random."""

from __future__ import annotations

import flint
import numpy as np
from numpy.typing import NDArray

from sublearn.exact import PrimeField

Array = NDArray[np.float64]

FIELD = PrimeField(8388593)
SMALL_FIELD = PrimeField(4194319)


def largest_odd(field: PrimeField) -> float:
    """The largest odd balanced residue.

    Sums of products of even residues have zero low bits, so float64 would hold them exactly far
    beyond 2^53 and hide a reduction that comes too late.
    """
    return float(field.half if field.half % 2 else field.half - 1)


def flint_matrix(matrix: Array, p: int) -> flint.nmod_mat:
    """The same matrix in flint."""
    height, width = np.shape(matrix)
    return flint.nmod_mat(height, width, [int(x) % p for x in np.ravel(matrix)], p)


def flint_rank(matrix: Array, p: int = FIELD.p) -> int:
    """Rank modulo p."""
    return flint_matrix(matrix, p).rank() if np.size(matrix) else 0


def flint_profile(matrix: Array, p: int = FIELD.p) -> list[int]:
    """The column rank profile: where the rows of the reduced echelon form start."""
    if np.size(matrix) == 0:
        return []
    reduced, rank = flint_matrix(matrix, p).rref()
    profile: list[int] = []
    column = 0
    for row in range(rank):
        while int(reduced[row, column]) == 0:
            column += 1
        profile.append(column)
        column += 1
    return profile


def sample_matrices(rng: np.random.Generator, count: int, largest: int) -> list[Array]:
    """Dense, low-rank, sparse, repeated, permuted and zero matrices of random shapes."""
    found = []
    for k in range(count):
        height, width = (int(x) for x in rng.integers(1, largest + 1, 2))
        matrix = FIELD.random(rng, (height, width))
        kind = k % 6
        if kind == 1:
            rank = int(rng.integers(0, min(height, width) + 1))
            matrix = FIELD.matmul(matrix[:, :rank], FIELD.random(rng, (min(rank, width), width)))
        elif kind == 2:
            matrix *= rng.random((height, width)) < 2.0 / width
        elif kind == 3:
            matrix = matrix[:, rng.integers(0, width, width)]
        elif kind == 4:
            # Block upper triangular, rows shuffled: the pivots are far from the diagonal.
            matrix[height // 2 :, : width // 2] = 0.0
            matrix[:, : width // 4] = 0.0
            matrix = matrix[rng.permutation(height)]
        elif kind == 5 and k % 4 == 1:
            matrix = np.zeros((height, width))
        found.append(np.ascontiguousarray(matrix))
    return found


def recurrent_factors(
    field: PrimeField, rng: np.random.Generator, n: int, T: int, b: int, d: int, m: int
) -> tuple[Array, Array]:
    """Factors of W in Y = D sum_t W^(T-t+1) B X_t, at a random point."""
    W, B, D = (field.random(rng, shape) for shape in ((n, n), (n, b), (d, n)))
    X = field.random(rng, (T, b, m))
    left, states = [D], [field.matmul(B, X[0])]
    for t in range(1, T):
        left.append(field.matmul(left[-1], W))
        states.append(field.add(field.matmul(W, states[-1]), field.matmul(B, X[t])))
    return np.stack(left), np.stack(states[::-1])


def entry_column(left: Array, right: Array, i: int, j: int, p: int) -> list[int]:
    """One Jacobian column by the definition, in Python integers."""
    uses, d = left.shape[:2]
    m = right.shape[2]
    return [
        sum(
            int(left[(t, o, i) if left.ndim == 3 else (t, o, i, s)]) * int(right[t, j, s])
            for t in range(uses)
        )
        % p
        for o in range(d)
        for s in range(m)
    ]
