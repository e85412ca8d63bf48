"""Columns, screening, growing bases and the greedy algorithm against flint."""

from __future__ import annotations

import numpy as np
import pytest

from exact.reference import (
    FIELD,
    SMALL_FIELD,
    Array,
    entry_column,
    flint_profile,
    flint_rank,
    largest_odd,
    recurrent_factors,
    sample_matrices,
)
from sublearn.exact import ColumnBasis, PrimeField, columns, greedy, screen

Block = tuple[Array, Array]


def random_block(rng: np.random.Generator, d: int, m: int, gated: bool) -> Block:
    """Factors of one weight matrix of random size, with and without gates."""
    uses, rows, cols = (int(x) for x in rng.integers(1, 5, 3))
    if gated:
        left = FIELD.random(rng, (uses, d, rows, m)) * (rng.random((uses, 1, rows, m)) < 0.6)
    else:
        left = FIELD.random(rng, (uses, d, rows))
    return left, FIELD.random(rng, (uses, cols, m))


def all_columns(blocks: list[Block]) -> Array:
    """The whole Jacobian, entry by entry from the definition."""
    found = [
        entry_column(left, right, i, j, FIELD.p)
        for left, right in blocks
        for i in range(left.shape[2])
        for j in range(right.shape[1])
    ]
    return FIELD.from_integers(np.array(found).T)


@pytest.mark.parametrize("gated", [False, True])
def test_columns_and_screen_follow_the_definition(gated: bool) -> None:
    rng = np.random.default_rng(14)
    for _ in range(40):
        d, m = (int(x) for x in rng.integers(1, 5, 2))
        left, right = random_block(rng, d, m, gated)
        rows, cols = left.shape[2], right.shape[1]
        jacobian = all_columns([(left, right)])
        i, j = rng.integers(0, rows, 9), rng.integers(0, cols, 9)
        found = columns(FIELD, left, right, i, j)
        assert found.flags.c_contiguous
        assert np.array_equal(found, jacobian[:, i * cols + j])
        w = FIELD.random(rng, d * m)
        expected = FIELD.matmul(w, jacobian).reshape(rows, cols)
        assert np.array_equal(screen(FIELD, left, right, w), expected)


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("field", [FIELD, SMALL_FIELD])
def test_many_uses_and_outputs_at_the_extremes(field: PrimeField, gated: bool) -> None:
    half = largest_odd(field)
    uses, d, m = 2101, 2, 2
    left = np.full((uses, d, 1, m) if gated else (uses, d, 1), half)
    right = np.full((uses, 1, m), -half)
    expected = -uses * int(half) ** 2
    assert (int(columns(field, left, right, [0], [0])[3, 0]) - expected) % field.p == 0
    wide = np.full((1, 2101, 1, m) if gated else (1, 2101, 1), half)
    found = screen(field, wide, right[:1], np.full(2101 * m, half))
    assert (int(found[0, 0]) + 2101 * m * int(half) ** 3) % field.p == 0


def test_bad_factors_are_refused() -> None:
    left, right = np.ones((2, 3, 4)), np.ones((2, 5, 6))
    with pytest.raises(ValueError, match="left must have shape"):
        columns(FIELD, left, right[:1], [0], [0])
    with pytest.raises(ValueError, match="left must have shape"):
        screen(FIELD, np.ones((2, 3, 4, 5)), right, np.ones(18))
    with pytest.raises(ValueError, match=r"rows must lie in 0\.\.3"):
        columns(FIELD, left, right, [4], [0])
    with pytest.raises(ValueError, match=r"cols must lie in 0\.\.4"):
        columns(FIELD, left, right, [0], [-1])
    with pytest.raises(ValueError, match="equally long"):
        columns(FIELD, left, right, [0, 1], [0])
    with pytest.raises(ValueError, match="d m = 18"):
        screen(FIELD, left, right, np.ones(17))


def test_pushing_blocks_gives_the_profile() -> None:
    rng = np.random.default_rng(15)
    for matrix in sample_matrices(rng, 150, 60):
        height, width = matrix.shape
        basis = ColumnBasis(FIELD, height)
        found: list[int] = []
        start = 0
        while start < width:
            stop = start + int(rng.integers(1, 20))
            kept = matrix[:, start:stop].copy()
            found += (start + basis.push(kept)).tolist()
            assert np.array_equal(kept, matrix[:, start:stop])
            assert basis.rank == len(found)
            vectors = basis.null_vectors(rng, 4)
            assert vectors.shape == (height, 4)
            assert not FIELD.matmul(vectors.T, matrix[:, found]).any()
            assert flint_rank(vectors) == min(4, height - basis.rank)
            start = stop
        assert found == flint_profile(matrix)


def test_large_basis() -> None:
    rng = np.random.default_rng(16)
    matrix = FIELD.matmul(FIELD.random(rng, (700, 640)), FIELD.random(rng, (640, 800)))
    matrix[:, 100:300:3] = matrix[:, :67]
    basis = ColumnBasis(FIELD, 700)
    found = np.concatenate([k + basis.push(matrix[:, k : k + 90]) for k in range(0, 800, 90)])
    assert found.tolist() == flint_profile(matrix)
    vectors = basis.null_vectors(rng, 3)
    assert not FIELD.matmul(vectors.T, matrix).any()
    assert flint_rank(vectors) == 3


def test_a_basis_refuses_other_heights() -> None:
    with pytest.raises(ValueError, match="3 rows"):
        ColumnBasis(FIELD, 3).push(np.ones((2, 2)))


@pytest.mark.parametrize("overhead", [0, 2_000_000])
def test_greedy_is_the_profile_in_every_order(
    overhead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With and without a price that keeps problems as small as these from screening at all."""
    monkeypatch.setattr("sublearn.exact._greedy.OVERHEAD", overhead)
    monkeypatch.setattr("sublearn.exact._greedy.SMALLEST_BLOCK", 2)
    rng = np.random.default_rng(17)
    for trial in range(120):
        d, m = (int(x) for x in rng.integers(1, 5, 2))
        blocks = [
            random_block(rng, d, m, bool(rng.integers(2))) for _ in range(int(rng.integers(1, 4)))
        ]
        if trial % 3 == 0:
            blocks.append(recurrent_factors(FIELD, rng, 5, 2, 2, d, m))
        jacobian = all_columns(blocks)
        order = rng.permutation(jacobian.shape[1])
        if trial % 2:
            order = np.sort(order)
        order = order[: int(rng.integers(1, order.size + 1))]
        expected = order[flint_profile(jacobian[:, order])]
        assert greedy(FIELD, blocks, order, rng).tolist() == expected.tolist()
        wanted = int(rng.integers(0, d * m + 1))
        found = greedy(FIELD, blocks, order, rng, wanted=wanted)
        assert found.tolist() == expected[:wanted].tolist()
        start = rng.permutation(expected)[: expected.size // 2]
        found = greedy(FIELD, blocks, order, rng, start=start)
        both = np.concatenate([start, order])
        assert found.tolist() == both[flint_profile(jacobian[:, both])].tolist()


@pytest.mark.parametrize("arrangement", ["random", "by row", "by column"])
def test_greedy_with_screening_at_a_larger_size(arrangement: str) -> None:
    rng = np.random.default_rng(18)
    left, right = recurrent_factors(FIELD, rng, n=60, T=3, b=5, d=9, m=12)
    right[:, :, -1] = right[:, :, 0]  # a repeated sample: the basis never fills
    numbers = np.arange(3600)
    order = {
        "random": rng.permutation(3600),
        "by row": numbers,
        "by column": numbers.reshape(60, 60).T.ravel(),
    }[arrangement]
    jacobian = columns(FIELD, left, right, *np.divmod(order, 60))
    found = greedy(FIELD, [(left, right)], order, rng)
    assert found.tolist() == order[flint_profile(jacobian)].tolist()
    assert found.size == 9 * 11


def test_greedy_refuses() -> None:
    rng = np.random.default_rng(19)
    block = recurrent_factors(FIELD, rng, 4, 1, 2, 2, 3)
    with pytest.raises(ValueError, match="at least one"):
        greedy(FIELD, [], [0], rng)
    with pytest.raises(ValueError, match=r"order must hold weight numbers in 0\.\.15"):
        greedy(FIELD, [block], [16], rng)
    with pytest.raises(ValueError, match=r"wanted must lie in 0\.\.6"):
        greedy(FIELD, [block], [0], rng, wanted=7)
    # A row of W reaches only b = 2 dimensions.
    with pytest.raises(ValueError, match="position 2 follows"):
        greedy(FIELD, [block], range(16), rng, start=[0, 1, 2])
    with pytest.raises(ValueError, match="agree"):
        greedy(FIELD, [block, recurrent_factors(FIELD, rng, 4, 1, 2, 2, 4)], [0], rng)
    assert greedy(FIELD, [block], [], rng).size == 0
