"""Verdicts beside match probabilities that can be had without a solver: discriminants."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import sublearn as sl

Array = NDArray[np.float64]


def normal(rng: np.random.Generator, count: int, rows: int, columns: int) -> Array:
    """Matrices with rows of length n and variance 1/n (appendix E.3)."""
    return rng.standard_normal((count, rows, columns)) / np.sqrt(columns)


def has_real_root(values: Array) -> NDArray[np.bool_]:
    """Whether the quadratic with these values at -1, 0 and 1 (last axis) has a real root."""
    at_minus, at_zero, at_plus = values[..., 0], values[..., 1], values[..., 2]
    a, b = (at_plus + at_minus) / 2 - at_zero, (at_plus - at_minus) / 2
    # What is left of a coefficient that vanishes is rounding; the equation is linear then.
    linear = np.abs(a) <= 1e-9 * np.abs(values).max(axis=-1)
    return np.asarray(linear | (b**2 - 4 * a * at_zero >= 0))


def small_example(places: list[tuple[int, int]], draws: int, seed: int) -> float:
    """MP of two recurrent weights for b = d = 1, n = T = m = 2: D W B and D W^2 B must agree.

    The first equation leaves a line of weights; on it the second one is a quadratic.
    """
    rng = np.random.default_rng(seed)
    W, B, D = normal(rng, draws, 2, 2), normal(rng, draws, 2, 1), normal(rng, draws, 1, 2)
    W_, B_, D_ = normal(rng, draws, 2, 2), normal(rng, draws, 2, 1), normal(rng, draws, 1, 2)
    first, second = (D_ @ W_ @ B_)[:, 0, 0], (D_ @ W_ @ W_ @ B_)[:, 0, 0]
    slopes = np.stack([D[:, 0, i] * B[:, j, 0] for i, j in places], axis=1)
    for i, j in places:
        W[:, i, j] = 0
    missing = first - (D @ W @ B)[:, 0, 0]
    start = slopes * (missing / (slopes**2).sum(axis=1))[:, None]
    along = np.stack([-slopes[:, 1], slopes[:, 0]], axis=1)
    values = []
    for step in (-1.0, 0.0, 1.0):
        V = W.copy()
        for k, (i, j) in enumerate(places):
            V[:, i, j] = start[:, k] + step * along[:, k]
        values.append((D @ V @ V @ B)[:, 0, 0] - second)
    return float(has_real_root(np.stack(values, axis=-1)).mean())


@pytest.mark.parametrize(
    ("places", "printed", "expected"),
    [([(0, 0), (1, 1)], 0.74, 0.7155), ([(0, 1), (1, 0)], 0.83, 0.8290)],
)
def test_example_b_1_1(places: list[tuple[int, int]], printed: float, expected: float) -> None:
    problem = sl.Problem(sl.LinearRNN(n=2, b=1, d=1, T=2), samples=2)
    allocation = sl.Allocation.from_entries(problem.network, {"W": places})
    verdict = sl.certify(problem, allocation)
    assert (verdict.kind, verdict.rank, verdict.needed) == ("between", 2, 2)
    draws = 400_000
    found = small_example(places, draws, seed=0)
    noise = 4 * np.sqrt(0.25 / draws)
    assert found == pytest.approx(expected, abs=noise)
    if printed == 0.74:
        assert abs(found - printed) > 5 * noise


@pytest.mark.parametrize("places", [[(0, 0), (0, 1)], [(1, 0), (1, 1)], [(0, 0), (1, 0)]])
def test_example_b_1_1_saturated(places: list[tuple[int, int]]) -> None:
    # Along the line the second equation is linear: its quadratic coefficient vanishes.
    problem = sl.Problem(sl.LinearRNN(n=2, b=1, d=1, T=2), samples=2)
    verdict = sl.certify(problem, sl.Allocation.from_entries(problem.network, {"W": places}))
    assert verdict.kind == "maximal"
    assert small_example(places, 10_000, seed=1) == 1.0


def test_lemma_b_4s_counterexample_matches_with_probability_064() -> None:
    """n = 2, b = d = 1, T = m = 5, learn the diagonal of W and all of B.

    Five numbers of a linear recurrence of order 2 fix trace and determinant of W. So the diagonal
    entries are the roots of z^2 - tr z + det + w_01 w_10, which are real if and only if
    (a - d)^2 + 4 (b c - w_01 w_10) >= 0 for the teacher's W = (a b; c d). B then solves a linear
    system. With normal weights (a - d)^2 is twice a squared normal, and the difference of two
    products of normals is Laplace distributed: the probability is 1 - sqrt(2)/4.
    """
    problem = sl.Problem(sl.LinearRNN(n=2, b=1, d=1, T=5), samples=5)
    entries = {"W": [(0, 0), (1, 1)], "B": [(0, 0), (1, 0)]}
    verdict = sl.certify(problem, sl.Allocation.from_entries(problem.network, entries))
    assert (verdict.kind, verdict.rank, verdict.needed) == ("between", 4, 4)
    exact = 1 - np.sqrt(2) / 4
    assert exact == pytest.approx(0.6464, abs=1e-4)
    rng = np.random.default_rng(0)
    a, b, c, d, e, f = rng.standard_normal((6, 10**6))
    found = float(np.mean((a - d) ** 2 + 4 * (b * c - e * f) >= 0))
    assert found == pytest.approx(exact, abs=4 * 0.0005)


@pytest.mark.parametrize("real", [True, False])
def test_lemma_b_4s_counterexample_solved(real: bool) -> None:
    """The construction above, put into the network: it gives the teacher's outputs."""
    net = sl.LinearRNN(n=2, b=1, d=1, T=5)
    rng = np.random.default_rng(3)
    solved = 0
    for _ in range(200):
        student = {name: rng.standard_normal(shape) for name, shape in net.shapes.items()}
        teacher = {name: rng.standard_normal(shape) for name, shape in net.shapes.items()}
        inputs = rng.standard_normal(net.input_shape(5))
        W, W_ = student["W"].copy(), teacher["W"]
        roots = np.roots([1, -np.trace(W_), np.linalg.det(W_) + W[0, 1] * W[1, 0]])
        if np.isreal(roots).all() != real:
            continue
        if not real:
            solved += 1  # no real diagonal has this trace and determinant
            continue
        W[0, 0], W[1, 1] = roots
        rows = np.vstack([student["D"] @ W, student["D"] @ W @ W])
        targets = [teacher["D"] @ W_ @ teacher["B"], teacher["D"] @ W_ @ W_ @ teacher["B"]]
        B = np.linalg.solve(rows, np.vstack(targets))
        found = net.forward({"W": W, "B": B, "D": student["D"]}, inputs)
        wanted = net.forward(teacher, inputs)
        assert np.allclose(found, wanted, rtol=1e-6, atol=1e-6 * np.abs(wanted).max())
        solved += 1
    assert 100 < solved < 160 if real else 40 < solved < 100


def test_a_column_with_fewer_samples_than_steps_is_not_saturated() -> None:
    """d = m = 1, T = 2, n = 2, learn W(0, 0): d min(T, m) = 1 weight in its column, but not T d.

    The one equation is a quadratic in the weight, which may lack real roots.
    """
    problem = sl.Problem(sl.LinearRNN(n=2, b=1, d=1, T=2), samples=1)
    diagonal = sl.Allocation.from_entries(problem.network, {"W": [(0, 0)]})
    verdict = sl.certify(problem, diagonal)
    assert (verdict.kind, verdict.rank, verdict.needed) == ("between", 1, 1)
    assert verdict.grade.kind == "proof"

    rng = np.random.default_rng(0)
    draws = 20_000
    W, B, D = normal(rng, draws, 2, 2), normal(rng, draws, 2, 1), normal(rng, draws, 1, 2)
    W_, B_, D_ = normal(rng, draws, 2, 2), normal(rng, draws, 2, 1), normal(rng, draws, 1, 2)
    x1, x2 = rng.standard_normal((2, draws))
    target = (D_ @ W_ @ W_ @ B_)[:, 0, 0] * x1 + (D_ @ W_ @ B_)[:, 0, 0] * x2
    values = []
    for weight in (-1.0, 0.0, 1.0):
        W[:, 0, 0] = weight
        values.append((D @ W @ W @ B)[:, 0, 0] * x1 + (D @ W @ B)[:, 0, 0] * x2 - target)
    found = float(has_real_root(np.stack(values, axis=-1)).mean())
    assert 0.5 < found < 0.95

    # Off the diagonal W(0, 1) meets itself never within two steps: affine, so always a match.
    beside = sl.Allocation.from_entries(problem.network, {"W": [(0, 1)]})
    assert sl.certify(problem, beside).kind == "maximal"
