"""Example B.1.1: n = T = m = 2, b = d = 1, where a discriminant decides every instance exactly."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import sublearn as sl
from sublearn.verdicts.counts._msolve import find_msolve

Array = NDArray[np.float64]
PROBLEM = sl.Problem(sl.LinearRNN(n=2, b=1, d=1, T=2), samples=2)
DIAGONAL = sl.Allocation.diagonal(PROBLEM.network, "W")
OFF_DIAGONAL = sl.Allocation.from_entries(PROBLEM.network, {"W": [(0, 1), (1, 0)]})


def discriminant(
    W: Array, B: Array, D: Array, first: Array, second: Array, diagonal: bool
) -> Array:
    """Of the quadratic that is left of D W B = first, D W^2 B = second; arrays (..., 2, 2) and so on.

    Worked out by hand: the linear equation gives one unknown, the other one stays.
    """
    b0, b1 = B[..., 0, 0], B[..., 1, 0]
    d0, d1 = D[..., 0, 0], D[..., 0, 1]
    if diagonal:
        # unknown x = W00 and y = W11 = u + v x; p = W01 and q = W10 are frozen
        p, q = W[..., 0, 1], W[..., 1, 0]
        u = (first - d0 * p * b1 - d1 * q * b0) / (d1 * b1)
        v = -d0 * b0 / (d1 * b1)
        mixed = d0 * p * b1 + d1 * q * b0
        a = d0 * b0 + d1 * b1 * v**2
        b = mixed * (1 + v) + 2 * d1 * b1 * u * v
        c = (d0 * b0 + d1 * b1) * p * q + mixed * u + d1 * b1 * u**2 - second
    else:
        # unknown x = W01 and y = W10 = u + v x; p = W00 and q = W11 are frozen
        p, q = W[..., 0, 0], W[..., 1, 1]
        u = (first - d0 * p * b0 - d1 * q * b1) / (d1 * b0)
        v = -d0 * b1 / (d1 * b0)
        both = d0 * b0 + d1 * b1
        a = both * v
        b = both * u + (p + q) * (d0 * b1 + d1 * b0 * v)
        c = d0 * b0 * p**2 + d1 * b1 * q**2 + (p + q) * d1 * b0 * u - second
    return np.asarray(b**2 - 4 * a * c)


def markov(W: Array, B: Array, D: Array) -> tuple[Array, Array]:
    once = W @ B
    return (D @ once)[..., 0, 0], (D @ W @ once)[..., 0, 0]


def drawn(rng: np.random.Generator, count: int) -> tuple[Array, Array, Array]:
    scale = 1 / np.sqrt(2)
    return (
        rng.standard_normal((count, 2, 2)) * scale,
        rng.standard_normal((count, 2, 1)),
        rng.standard_normal((count, 1, 2)) * scale,
    )


@pytest.mark.parametrize(("diagonal", "known"), [(True, 0.7155), (False, 0.8290)])
def test_a_million_discriminants_give_the_known_probabilities(diagonal: bool, known: float) -> None:
    rng = np.random.default_rng(20)
    student, teacher = drawn(rng, 1_000_000), drawn(rng, 1_000_000)
    good = int((discriminant(*student, *markov(*teacher), diagonal) >= 0).sum())
    low, high = sl.estimates.clopper_pearson(good, 1_000_000, 0.99)
    assert low <= known <= high
    assert not low <= 0.74 <= high, "the printed value for the diagonal is off"


def _agree(allocation: sl.Allocation, diagonal: bool, trials: range) -> None:
    for trial in trials:
        instance = sl.draw(PROBLEM, allocation, seed=3, trial=trial)
        # The inputs are invertible: the targets give the Markov parameters.
        inputs = instance.inputs[:, 0, :]  # (T, m), y = M_2 x_1 + M_1 x_2
        second, first = np.linalg.solve(inputs.T, instance.targets[0])
        w = instance.weights
        found = discriminant(
            w["W"], w["B"], w["D"], np.asarray(first), np.asarray(second), diagonal
        )
        decision = sl.decide(instance, seed=1)
        wanted = "matched" if found >= 0 else "refuted"
        if decision.kind == "undecided":
            assert find_msolve() is None, f"trial {trial}: {decision.reason}"
            assert wanted == "refuted"
        else:
            assert decision.kind == wanted, trial


@pytest.mark.parametrize(("allocation", "diagonal"), [(DIAGONAL, True), (OFF_DIAGONAL, False)])
def test_ladder_agrees_with_the_discriminant(allocation: sl.Allocation, diagonal: bool) -> None:
    _agree(allocation, diagonal, range(60))


@pytest.mark.slow
@pytest.mark.parametrize(("allocation", "diagonal"), [(DIAGONAL, True), (OFF_DIAGONAL, False)])
def test_ladder_agrees_with_two_thousand(allocation: sl.Allocation, diagonal: bool) -> None:
    _agree(allocation, diagonal, range(60, 1060))
