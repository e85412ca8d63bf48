"""Arithmetic modulo p is exact, at the extremes too."""

from __future__ import annotations

import flint
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from exact.reference import FIELD, SMALL_FIELD, largest_odd
from sublearn.exact import PrimeField, random_prime

FIELDS = [FIELD, SMALL_FIELD]
residues = st.one_of(
    st.integers(-FIELD.half, FIELD.half),
    st.sampled_from([FIELD.half, -FIELD.half, FIELD.half - 1, 0, 1, -1]),
).map(float)


def test_primes_are_the_extreme_ones() -> None:
    assert not any(flint.fmpz(n).is_prime() for n in range(FIELD.p + 1, 2**23))
    assert not any(flint.fmpz(n).is_prime() for n in range(2**22, SMALL_FIELD.p))


@pytest.mark.parametrize("p", [2, 97, 2**22 - 3, 2**23 + 9, 2**61 - 1, 8388591, 4194305, 2.0, "7"])
def test_other_moduli_are_refused(p: object) -> None:
    with pytest.raises(ValueError, match="p must be"):
        PrimeField(p)  # type: ignore[arg-type]


def test_random_primes() -> None:
    rng = np.random.default_rng(1)
    primes = [random_prime(rng) for _ in range(300)]
    assert all(flint.fmpz(p).is_prime() and 2**22 < p < 2**23 for p in primes)
    assert len(set(primes)) > 290
    # The primes thin out slowly: a uniform draw is near the middle on average.
    assert abs(np.mean(primes) / 2**22 - 1.5) < 0.06


@pytest.mark.parametrize("field", FIELDS)
def test_random_residues_are_balanced_and_uniform(field: PrimeField) -> None:
    values = field.random(np.random.default_rng(2), (300, 300))
    assert np.abs(values).max() <= field.half
    assert np.array_equal(values, np.rint(values))
    assert abs(values.mean()) < 0.01 * field.p
    assert abs(values.std() / (field.p / 12**0.5) - 1) < 0.01


@pytest.mark.parametrize("field", FIELDS)
def test_reduce_is_canonical_up_to_two_to_the_53(field: PrimeField) -> None:
    rng = np.random.default_rng(3)
    quotients = rng.integers(-(2**53 // field.p) + 1, 2**53 // field.p, 2000)
    rests = rng.choice([0, 1, -1, field.half, -field.half, field.half - 1, 3 - field.half], 2000)
    values = quotients * field.p + rests
    assert np.array_equal(field.reduce(values.astype(np.float64)), rests.astype(np.float64))
    for extreme in (2.0**53, -(2.0**53)):
        assert int(field.reduce(extreme)) % field.p == int(extreme) % field.p


@given(st.lists(st.integers(-(10**40), 10**40), min_size=1, max_size=5))
def test_from_integers(numbers: list[int]) -> None:
    for field in FIELDS:
        found = field.from_integers(numbers)
        assert np.abs(found).max() <= field.half
        assert [int(x) % field.p for x in found] == [x % field.p for x in numbers]


def test_from_integers_refuses_fractions() -> None:
    with pytest.raises(ValueError, match="integers"):
        FIELD.from_integers([0.5])
    extremes = np.array([2**64 - 1, 2**63], dtype=np.uint64)
    assert [int(x) % FIELD.p for x in FIELD.from_integers(extremes)] == [
        (2**64 - 1) % FIELD.p,
        2**63 % FIELD.p,
    ]


@given(*(arrays(np.float64, 4, elements=residues) for _ in range(3)))
def test_field_axioms(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    add, multiply = FIELD.add, FIELD.multiply
    assert np.array_equal(add(a, b), add(b, a))
    assert np.array_equal(multiply(a, b), multiply(b, a))
    assert np.array_equal(add(add(a, b), c), add(a, add(b, c)))
    assert np.array_equal(multiply(multiply(a, b), c), multiply(a, multiply(b, c)))
    assert np.array_equal(multiply(a, add(b, c)), add(multiply(a, b), multiply(a, c)))
    assert np.array_equal(FIELD.subtract(add(a, b), b), a)
    assert [int(x) % FIELD.p for x in multiply(a, b)] == [
        int(x) * int(y) % FIELD.p for x, y in zip(a, b, strict=True)
    ]


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("inner", [1, 511, 512, 513, 1024, 2049, 5000])
def test_products_of_extreme_residues_are_exact(field: PrimeField, inner: int) -> None:
    assert 512 <= field.delay <= 2048
    half = largest_odd(field)
    a = np.full((3, inner), half)
    a[1], a[2, ::2] = -half, -half
    b = np.full((inner, 2), half)
    b[:, 1] *= -1
    found = field.matmul(a, b)
    for i in range(3):
        for j in range(2):
            exact = sum(int(x) * int(y) for x, y in zip(a[i], b[:, j], strict=True))
            assert (int(found[i, j]) - exact) % field.p == 0
    assert np.abs(found).max() <= field.half


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ((700,), (700,)),
        ((3, 700), (700,)),
        ((700,), (700, 3)),
        ((5, 1, 2, 700), (4, 700, 3)),
        ((2, 0), (0, 3)),
        ((4, 2, 3), (3, 2)),
    ],
)
def test_products_broadcast_like_numpy(one: tuple[int, ...], two: tuple[int, ...]) -> None:
    rng = np.random.default_rng(4)
    a, b = FIELD.random(rng, one), FIELD.random(rng, two)
    expected = np.matmul(a.astype(object), b.astype(object)) if 0 not in one else np.zeros((2, 3))
    found = FIELD.matmul(a, b)
    assert found.shape == np.matmul(a, b).shape
    assert np.array_equal(found, FIELD.from_integers(np.vectorize(int, otypes=[object])(expected)))
