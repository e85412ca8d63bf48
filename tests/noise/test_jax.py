"""Any differentiable JAX loss: the same numbers as our own derivatives, and closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sublearn as sl
from noise.given import given

jax = pytest.importorskip("jax")


def _quadratic(n: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(6)
    a = rng.standard_normal((n, n))
    return a @ a.T - 0.5 * np.eye(n), rng.standard_normal(n)


def test_a_quadratic_has_its_own_matrix_as_hessian() -> None:
    H, w = _quadratic()

    def loss(p: dict[str, Any]) -> Any:
        v = jax.numpy.concatenate([p["a"].ravel(), p["b"]])
        return 0.5 * v @ H @ v + 40.0

    params = {"a": w[:4].reshape(2, 2), "b": w[4:]}
    mask = {"a": np.array([[1, 0], [1, 1]]), "b": np.array([0, 1])}
    held = np.array([0, 2, 3, 5])
    g = (H @ w)[held]
    u = g / np.linalg.norm(g)
    geo = sl.noise.loss_geometry(loss, params, mask, on="all")
    assert geo.loss == pytest.approx(0.5 * w @ H @ w + 40.0, rel=1e-12)
    assert geo.gradient_norm == pytest.approx(np.linalg.norm(g), rel=1e-12)
    assert geo.q == pytest.approx(u @ H[np.ix_(held, held)] @ u, rel=1e-10)
    assert geo.trace == pytest.approx(np.trace(H[np.ix_(held, held)]), rel=1e-12)
    assert geo.noise_trace == pytest.approx(np.trace(H), rel=1e-12)
    assert (geo.plastic, geo.noisy, geo.size) == (4, 6, 6)
    noise = sl.Noise((0.3, 0.5, 0.1), on="all")
    assert geo.measure(noise, draws=500).agrees(geo.rate(noise))


def test_networks_agree_with_our_own_derivatives() -> None:
    rng = np.random.default_rng(7)
    net = sl.FeedForward((3, 5, 2), activation="tanh")
    weights = {name: rng.standard_normal(shape) for name, shape in net.shapes.items()}
    x, y = rng.standard_normal((3, 8)), rng.standard_normal((2, 8))
    mask = {name: rng.random(shape) < 0.5 for name, shape in net.shapes.items()}

    def loss(p: dict[str, Any]) -> Any:
        gap = p["W2"] @ jax.numpy.tanh(p["W1"] @ x) - y
        return (gap**2).sum(axis=0).mean() / 2

    held = sl.Allocation.from_masks(net, mask)
    ours = sl.local_geometry(given(net, weights, x, y, held), on="all")
    theirs = sl.noise.loss_geometry(loss, weights, mask, on="all")
    for name in ("loss", "gradient_norm", "q", "trace", "noise_trace"):
        assert getattr(theirs, name) == pytest.approx(getattr(ours, name), rel=1e-10)
    estimate = sl.noise.loss_geometry(loss, weights, mask, trace="estimate")
    assert estimate.trace_error > 0
    assert abs(estimate.trace - ours.trace) < 4 * estimate.trace_error


def test_single_precision_is_left_alone_outside() -> None:
    H, w = _quadratic()
    geo = sl.noise.loss_geometry(lambda p: 0.5 * p @ H @ p + 40.0, jax.numpy.asarray(w))
    assert geo.trace == pytest.approx(np.trace(H), rel=1e-9)
    assert jax.numpy.asarray(1.0).dtype == np.float32


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"mask": [1.0]}, "mask must be a tree"),
        ({"mask": np.zeros(6)}, "mask is empty"),
        ({"mask": np.full(6, 2)}, "mask must hold only 0 and 1"),
        ({"params": None}, "params a tree of arrays"),
        ({"params": np.zeros(0)}, "params holds no numbers"),
        ({"loss": 3}, "loss must be a function"),
        ({"loss": lambda p: p}, "loss must return one number"),
        ({"loss": lambda p: 0.0 * p.sum()}, "loss must be above 0"),
    ],
)
def test_bad_input_is_named(change: dict[str, Any], words: str) -> None:
    good: dict[str, Any] = {"loss": lambda p: (p**2).sum() + 1.0, "params": np.ones(6)}
    with pytest.raises(sl.BadInputError, match=words):
        sl.noise.loss_geometry(**{**good, **change})
