"""Peeling one layer against dense ranks of the full set of products."""

from __future__ import annotations

import numpy as np
import pytest

from exact.reference import FIELD, flint_rank
from sublearn.exact import PrimeField, columns, eliminate, peel, random_prime

MERSENNE = 2**61 - 1


def random_mask(rng: np.random.Generator, trial: int) -> tuple[np.ndarray, int, int]:
    """A mask with d and m: any number of entries, or exactly d m, or with crowded rows."""
    d, m = (int(x) for x in rng.integers(1, 8, 2))
    rows, cols = (int(x) for x in rng.integers(1, 13, 2))
    size = rows * cols
    count = min(d * m, size) if trial % 3 == 0 else int(rng.integers(0, size + 1))
    mask = np.zeros(size, dtype=bool)
    if trial % 3 == 2:
        score = rng.random(size) * np.repeat(rng.random(rows), cols) ** 2
        mask[np.argsort(-score)[:count]] = True
    else:
        mask[rng.permutation(size)[:count]] = True
    return mask.reshape(rows, cols), d, m


def test_peel_equals_the_dense_rank() -> None:
    rng = np.random.default_rng(20)
    proved = deficient = 0
    trials = 1500
    for trial in range(trials):
        mask, d, m = random_mask(rng, trial)
        rows, cols = mask.shape
        left, right = FIELD.random(rng, (1, d, rows)), FIELD.random(rng, (1, cols, m))
        dense = eliminate(FIELD, columns(FIELD, left, right, *np.nonzero(mask))).rank
        kept = mask.copy()
        found = peel(mask, d, m, FIELD, rng)
        assert found.rank == dense
        assert np.array_equal(mask, kept)
        assert peel(mask.T, m, d, FIELD, rng).rank == dense
        proved += found.exact
        deficient += dense < min(int(mask.sum()), d * m)
    # The sample must exercise both ways out, and true deficiencies.
    assert proved > 300
    assert trials - proved > 100
    assert deficient > 200


def test_peel_equals_flint_modulo_a_large_prime() -> None:
    rng = np.random.default_rng(21)
    for trial in range(150):
        mask, d, m = random_mask(rng, trial)
        u = rng.integers(0, MERSENNE, (mask.shape[0], d)).astype(object)
        v = rng.integers(0, MERSENNE, (mask.shape[1], m)).astype(object)
        products = [np.outer(u[i], v[j]).ravel() % MERSENNE for i, j in np.argwhere(mask)]
        expected = flint_rank(np.array(products), MERSENNE) if products else 0
        assert peel(mask, d, m, FIELD, rng).rank == expected


def test_large_layer() -> None:
    rng = np.random.default_rng(22)
    for n in (18, 24, 40):
        mask = np.zeros(n * n, dtype=bool)
        mask[rng.permutation(n * n)[:256]] = True
        mask = mask.reshape(n, n)
        left, right = FIELD.random(rng, (1, 16, n)), FIELD.random(rng, (1, n, 16))
        dense = eliminate(FIELD, columns(FIELD, left, right, *np.nonzero(mask))).rank
        assert peel(mask, 16, 16, FIELD, rng).rank == dense


@pytest.mark.parametrize(
    ("mask", "d", "m", "rank", "exact"),
    [
        (np.zeros((3, 4)), 2, 2, 0, True),
        (np.zeros((0, 4)), 2, 2, 0, True),
        (np.ones((3, 4)), 0, 2, 0, True),
        (np.ones((3, 4)), 2, 0, 0, True),
        (np.ones((3, 4)), 2, 2, 4, True),
        (np.ones((3, 4)), 9, 9, 12, True),
        # A full row and a full column without their crossing: one dimension is shared.
        ([[0, 0, 1], [0, 0, 1], [1, 1, 0]], 2, 2, 3, True),
        # Two weights in a column, one output.
        ([[1, 0], [1, 0]], 1, 2, 1, True),
        # A hexagon: every row is full, and two of them span everything.
        ([[1, 1, 0], [0, 1, 1], [1, 0, 1]], 2, 2, 4, True),
    ],
)
def test_small_cases(mask: np.ndarray, d: int, m: int, rank: int, exact: bool) -> None:
    found = peel(mask, d, m, FIELD, np.random.default_rng(23))
    assert (found.rank, found.exact) == (rank, exact)


def test_any_prime_will_do() -> None:
    rng = np.random.default_rng(24)
    mask = rng.random((9, 9)) < 0.3
    ranks = {peel(mask, 4, 4, PrimeField(random_prime(rng)), rng).rank for _ in range(20)}
    assert len(ranks) == 1


def test_peel_refuses() -> None:
    rng = np.random.default_rng(25)
    with pytest.raises(ValueError, match="two axes"):
        peel([1, 0], 1, 1, FIELD, rng)
    with pytest.raises(ValueError, match="negative"):
        peel([[1]], -1, 1, FIELD, rng)
