"""Slope and curvature of the squared error, against finite differences of the loss itself."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import sublearn as sl
from noise.given import given
from sublearn.noise import _curvature as curvature

Array = NDArray[np.float64]

NETWORKS = [
    sl.LinearEstimator(inputs=4, outputs=3),
    sl.FeedForward((4, 5, 3)),
    sl.FeedForward((4, 6, 3), activation="tanh"),
    sl.FeedForward((3, 4, 5, 2), activation="sigmoid", output="sigmoid", bias=True),
    sl.FeedForward((3, 6, 2), activation="relu", bias=True),
    sl.RNN(n=4, b=2, d=2, T=3),
    sl.LinearRNN(n=3, b=1, d=2, T=3),
]


def _case(
    net: sl.Network, seed: int = 0, samples: int = 7
) -> tuple[dict[str, Array], Array, Array]:
    rng = np.random.default_rng([seed, 40])
    weights = {n: rng.standard_normal(s) / np.sqrt(s[1]) for n, s in net.shapes.items()}
    inputs = rng.standard_normal(net.input_shape(samples))
    return weights, inputs, rng.standard_normal((net.output_size, samples))


def _loss(net: sl.Network, vector: Array, inputs: Array, targets: Array) -> float:
    """F written out again: half the mean over samples of the squared distance."""
    weights, start = {}, 0
    for name, (rows, columns) in net.shapes.items():
        weights[name] = vector[start : start + rows * columns].reshape(rows, columns)
        start += rows * columns
    gap = net.forward(weights, inputs) - targets
    return float(np.mean(np.sum(gap**2, axis=0)) / 2)


@pytest.mark.parametrize("net", NETWORKS, ids=lambda net: net.spec)
def test_geometry_is_that_of_the_loss(net: sl.Network) -> None:
    """Central differences of F: along each weight, and along the gradient."""
    weights, inputs, targets = _case(net)
    w = np.concatenate([weights[name].ravel() for name in net.shapes])
    h = 1e-4

    def f(shift: Array) -> float:
        return _loss(net, w + shift, inputs, targets)

    shifts = h * np.eye(w.size)
    gradient = np.array([f(e) - f(-e) for e in shifts]) / (2 * h)
    diagonal = np.array([f(e) - 2 * f(0 * e) + f(-e) for e in shifts]) / h**2
    rng = np.random.default_rng(3)
    masks = {name: rng.random(shape) < 0.6 for name, shape in net.shapes.items()}
    allocation = sl.Allocation.from_masks(net, masks)
    plastic = np.concatenate([masks[name].ravel() for name in net.shapes])
    norm = float(np.linalg.norm(gradient * plastic))
    along = h * gradient * plastic / norm
    q = (f(along) - 2 * f(0 * along) + f(-along)) / h**2
    for noise_on, noisy in (("plastic", plastic), ("all", np.ones(w.size, dtype=bool))):
        geo = sl.local_geometry(given(net, weights, inputs, targets, allocation), on=noise_on)
        assert geo.loss == pytest.approx(f(0 * along), rel=1e-12)
        assert geo.gradient_norm == pytest.approx(norm, rel=1e-6)
        assert geo.q == pytest.approx(q, abs=2e-6, rel=1e-5)
        assert geo.trace == pytest.approx(diagonal[plastic].sum(), abs=2e-5, rel=1e-5)
        assert geo.noise_trace == pytest.approx(diagonal[noisy].sum(), abs=2e-5, rel=1e-5)
        assert geo.trace_error == geo.noise_trace_error == 0.0
        assert (geo.plastic, geo.noisy, geo.size) == (plastic.sum(), noisy.sum(), net.size)


@pytest.mark.parametrize("net", NETWORKS[:5], ids=lambda net: net.spec)
def test_two_exact_diagonals_agree(net: sl.Network) -> None:
    case = given(net, *_case(net))
    by_basis = curvature.basis_diagonal(case, np.arange(net.size))
    np.testing.assert_allclose(curvature.layers_diagonal(case), by_basis, atol=1e-13)


def test_pieces_of_samples_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    net = NETWORKS[3]
    case = given(net, *_case(net))
    whole = curvature.layers_diagonal(case), curvature.gauss_newton_diagonal(case)
    monkeypatch.setattr(
        curvature, "pieces", lambda count, each: [slice(k, k + 1) for k in range(count)]
    )
    np.testing.assert_allclose(curvature.layers_diagonal(case), whole[0], rtol=1e-12)
    np.testing.assert_allclose(curvature.gauss_newton_diagonal(case), whole[1], rtol=1e-12)


def test_estimated_traces_cover_at_their_confidence() -> None:
    """200 problems: intervals of 95% and of 50% hold the exact trace about as often as they say."""
    hits = {0.5: 0, 0.95: 0}
    for problem in range(200):
        net = sl.RNN(n=4, b=2, d=2, T=3) if problem % 2 else NETWORKS[3]
        case = given(net, *_case(net, seed=problem, samples=6))
        exact = sl.local_geometry(case, trace="exact")
        found = sl.local_geometry(case, trace="estimate", seed=problem)
        assert exact.trace_interval() == (exact.trace, exact.trace)
        for level in hits:
            low, high = found.trace_interval(level)
            hits[level] += low <= exact.trace <= high
    # Binomial counts of 200: 190 +- 3.1 and 100 +- 7.1; three standard deviations each.
    assert 181 <= hits[0.95] <= 199
    assert 79 <= hits[0.5] <= 121


def test_large_networks_are_estimated_and_small_ones_exact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net = sl.RNN(n=9, b=2, d=2, T=3)
    case = given(net, *_case(net))
    exact = sl.local_geometry(case)
    assert exact.trace_error == 0.0
    monkeypatch.setattr(curvature, "EXACT_WORK", 1e3)
    found = sl.local_geometry(case)
    assert found.trace_error > 0
    again = sl.local_geometry(case)
    assert (found.trace, found.trace_error) == (again.trace, again.trace_error)
    few = sl.local_geometry(case, probes=4, seed=1)
    assert few.trace_error > found.trace_error
    assert abs(found.trace - exact.trace) < 5 * found.trace_error
    noise = sl.Noise((0.1, 1.0, 0.1))
    assert found.rate_error(noise) > 0 == exact.rate_error(noise)


def test_the_estimate_knows_the_gauss_newton_part() -> None:
    """Where the errors are small, H is J'J, which is exact: nothing is left to estimate."""
    net = NETWORKS[3]
    weights, inputs, _ = _case(net)
    targets = net.forward(weights, inputs) + 1e-9
    geo = sl.local_geometry(given(net, weights, inputs, targets), trace="estimate")
    jacobian = net.jacobian(weights, inputs)
    assert geo.trace == pytest.approx(np.sum(jacobian**2) / inputs.shape[1], rel=1e-6)


def test_quadratic_losses_are_known() -> None:
    linear, deep = sl.LinearEstimator(inputs=4, outputs=3), sl.FeedForward((4, 5, 3), bias=True)

    def quadratic(net: sl.Network, names: list[str], noise_on: str = "plastic") -> bool:
        case = given(net, *_case(net), sl.Allocation.whole(net, names))
        return sl.local_geometry(case, on=noise_on).quadratic

    assert quadratic(linear, ["W"])
    assert quadratic(deep, ["W1"]) and quadratic(deep, ["W2", "b1"]) is False
    assert quadratic(deep, ["W1", "b1", "b2"]) and quadratic(deep, ["W2", "b2"])
    assert not quadratic(deep, ["W1", "W2"]) and not quadratic(deep, ["W1"], "all")
    assert not quadratic(sl.FeedForward((4, 5, 3), activation="relu"), ["W1"])


def test_a_gradient_of_zero_has_no_direction() -> None:
    net = sl.LinearEstimator(inputs=2, outputs=1)
    x = np.array([[1.0, -1.0], [0.0, 0.0]])
    geo = sl.local_geometry(given(net, {"W": np.zeros((1, 2))}, x, np.array([[1.0, 1.0]])))
    noise = sl.Noise((0.5, 1.0, 0.0))
    assert (geo.gradient_norm, geo.q, geo.trace) == (0.0, 0.0, 1.0)
    assert geo.rate(noise) == pytest.approx(-0.5 * (1 / 2) / 0.5)
    assert geo.measure(noise, draws=4000).agrees(geo.rate(noise))
    assert geo.best_gamma1(noise).value is None and "gradient is 0" in geo.best_gamma1(noise).reason
    assert geo.critical_gamma1(noise).empty
    assert geo.difficulty(noise) == np.inf


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"on": "some"}, "noise on must be one of plastic, all"),
        ({"trace": "guess"}, "trace must be one of auto, exact, estimate"),
        ({"probes": 1}, "probes must be a whole number of at least 2"),
        ({"seed": -1}, "seed must be a whole number"),
    ],
)
def test_bad_input_is_named(change: dict[str, object], words: str) -> None:
    with pytest.raises(sl.BadInputError, match=words):
        sl.local_geometry(given(NETWORKS[0], *_case(NETWORKS[0])), **change)


def test_what_is_no_instance_and_noise_elsewhere_are_refused() -> None:
    with pytest.raises(sl.BadInputError, match="instance must be an Instance"):
        sl.local_geometry(NETWORKS[0])  # type: ignore[arg-type]
    net = NETWORKS[0]
    geo = sl.local_geometry(given(net, *_case(net), sl.Allocation.from_rows(net, "W", [0])))
    with pytest.raises(sl.BadInputError, match="taken with noise on='plastic'"):
        geo.rate(sl.Noise((0.1, 1.0, 0.1), on="all"))
    with pytest.raises(sl.BadInputError, match="formulas are for lengths by norm 'l2'"):
        geo.rate(sl.Noise((0.1, 1.0, 0.1), norm="layers"))


def test_a_loss_of_zero_is_refused() -> None:
    weights, inputs, _ = _case(NETWORKS[0])
    case = given(NETWORKS[0], weights, inputs, NETWORKS[0].forward(weights, inputs))
    with pytest.raises(sl.BadInputError, match="loss must be above 0"):
        sl.local_geometry(case)
