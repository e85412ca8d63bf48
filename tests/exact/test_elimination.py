"""Rank and column rank profile against flint."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from exact.reference import (
    FIELD,
    SMALL_FIELD,
    flint_profile,
    flint_rank,
    largest_odd,
    recurrent_factors,
    sample_matrices,
)
from sublearn.exact import PrimeField, columns, eliminate, subset_ranks


@pytest.mark.parametrize("largest", [6, 40, 110])
def test_profile_equals_flint(largest: int) -> None:
    rng = np.random.default_rng(largest)
    for matrix in sample_matrices(rng, 120, largest):
        echelon = eliminate(FIELD, matrix.copy())
        assert echelon.pivots.tolist() == flint_profile(matrix)
        assert echelon.rank == flint_rank(matrix)
        assert echelon.pivots.dtype == np.int64


@pytest.mark.parametrize(
    ("height", "width", "rank"), [(700, 650, 600), (300, 1500, 290), (1300, 200, 150)]
)
def test_profile_equals_flint_beyond_one_delay(height: int, width: int, rank: int) -> None:
    """Large enough that products pile up to the limit and must be reduced on the way."""
    rng = np.random.default_rng(5)
    for field in (FIELD, SMALL_FIELD):
        matrix = field.matmul(field.random(rng, (height, rank)), field.random(rng, (rank, width)))
        matrix[:, 7:50:3] = matrix[:, :1]
        matrix[: height // 2, :3] = 0.0
        assert eliminate(field, matrix.copy()).pivots.tolist() == flint_profile(matrix, field.p)


@pytest.mark.parametrize("field", [FIELD, SMALL_FIELD])
def test_extreme_residues_stay_exact(field: PrimeField) -> None:
    """All multipliers and all of U extreme: every delayed sum is as large as can be."""
    size, half = field.delay + 200, largest_odd(field)
    for sign in (1.0, -1.0):
        lower = np.tril(np.full((size, size), half), -1) + np.eye(size)
        upper = np.triu(np.full((size, size), sign * half))
        echelon = eliminate(field, field.matmul(lower, upper))
        assert echelon.pivots.tolist() == list(range(size))
        assert np.array_equal(field.reduce(echelon.matrix), np.tril(lower, -1) + upper)


def test_factors_multiply_back() -> None:
    rng = np.random.default_rng(7)
    matrix = FIELD.matmul(FIELD.random(rng, (90, 60)), FIELD.random(rng, (60, 130)))
    echelon = eliminate(FIELD, matrix.copy())
    rank, packed = echelon.rank, echelon.matrix
    lower = np.tril(packed[:, :rank], -1) + np.eye(90, rank)
    upper = np.zeros((rank, 130))
    for k, pivot in enumerate(echelon.pivots):
        upper[k, pivot:] = packed[k, pivot:]
    product = FIELD.matmul(lower, upper)
    # Rows may have been exchanged: compare as sets.
    assert sorted(map(tuple, product)) == sorted(map(tuple, FIELD.reduce(matrix)))


def test_in_place_only_where_it_can_be() -> None:
    rng = np.random.default_rng(8)
    matrix = FIELD.random(rng, (50, 50))
    assert eliminate(FIELD, matrix).matrix is matrix
    frozen = FIELD.random(rng, (50, 50))
    frozen.flags.writeable = False
    for given in (frozen, np.asfortranarray(frozen), frozen[::2], np.eye(3, dtype=np.int64)):
        kept = given.copy()
        assert eliminate(FIELD, given).rank == min(given.shape)
        assert np.array_equal(given, kept)


@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (5, 0), (1, 1), (1, 200), (200, 1)])
def test_thin_and_empty(shape: tuple[int, int]) -> None:
    assert eliminate(FIELD, np.zeros(shape)).rank == 0
    assert eliminate(FIELD, np.ones(shape)).pivots.tolist() == ([0] if min(shape) else [])


def test_refuses_vectors() -> None:
    with pytest.raises(ValueError, match="two axes"):
        eliminate(FIELD, np.ones(3))


def test_subset_ranks_equal_flint() -> None:
    rng = np.random.default_rng(9)
    for height, width, size in ((4, 7, 4), (3, 6, 5), (5, 8, 3), (1, 4, 2), (6, 6, 6)):
        matrix = FIELD.random(rng, (height, width)) * (rng.random((height, width)) < 0.6)
        subsets = np.array(list(itertools.combinations(range(width), size)))
        expected = [flint_rank(matrix[:, list(subset)]) for subset in subsets]
        assert subset_ranks(FIELD, matrix, subsets).tolist() == expected
        shuffled = rng.permutation(len(subsets))
        assert subset_ranks(FIELD, matrix, subsets[shuffled]).tolist() == [
            expected[k] for k in shuffled
        ]


def test_subset_ranks_of_a_recurrent_network() -> None:
    """All 11,440 sets of 7 among 16 weights, a thousand of them against flint."""
    rng = np.random.default_rng(10)
    left, right = recurrent_factors(FIELD, rng, n=4, T=2, b=2, d=2, m=4)
    jacobian = columns(FIELD, left, right, *np.divmod(np.arange(16), 4))
    subsets = np.array(list(itertools.combinations(range(16), 7)))
    found = subset_ranks(FIELD, jacobian, subsets)
    for k in rng.choice(len(subsets), 1000, replace=False):
        assert found[k] == flint_rank(jacobian[:, subsets[k]])


def test_subset_ranks_at_the_edges() -> None:
    assert subset_ranks(FIELD, np.eye(3), np.empty((2, 0), dtype=np.int64)).tolist() == [0, 0]
    assert subset_ranks(FIELD, np.eye(3), np.empty((0, 2), dtype=np.int64)).tolist() == []
    assert subset_ranks(FIELD, np.empty((0, 3)), [[0, 1]]).tolist() == [0]
    assert subset_ranks(FIELD, np.eye(3), [[0, 0], [1, 0]]).tolist() == [1, 2]
    with pytest.raises(ValueError, match=r"0\.\.2"):
        subset_ranks(FIELD, np.eye(3), [[0, 3]])
    with pytest.raises(ValueError, match="equally long"):
        subset_ranks(FIELD, np.eye(3), [0, 1])
