"""The mean rate and its critical levels, against random cycles and against brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sublearn as sl
from noise.given import given as arrays
from sublearn.experiments.raman2019 import slides_rate
from sublearn.noise import Geometry, Noise


def _linear(
    seed: int, plastic: int, noise_on: str = "plastic", samples: int = 8, correlated: bool = False
) -> Geometry:
    rng = np.random.default_rng([seed, 41])
    net = sl.LinearEstimator(inputs=32, outputs=8)
    x = rng.standard_normal((32, samples))
    if correlated:
        x = rng.standard_normal((32, 2)) @ rng.standard_normal((2, samples)) + 0.5 * x
    mask = rng.permutation(256).reshape(8, 32) < plastic
    weights, targets = {"W": rng.standard_normal((8, 32))}, rng.standard_normal((8, 32)) @ x
    plastic_set = sl.Allocation.from_masks(net, {"W": mask})
    return sl.local_geometry(arrays(net, weights, x, targets, plastic_set), on=noise_on)


def test_measuring_is_a_plain_loop_over_cycles() -> None:
    """The measured rate against cycles written out one by one: other code, other random numbers."""
    rng = np.random.default_rng(5)
    i, o, m, T, gamma = 4, 3, 6, 2.0, (0.4, 0.7, 0.2)
    W, X, Y = rng.standard_normal((o, i)), rng.standard_normal((i, m)), rng.standard_normal((o, m))
    mask = np.zeros((o, i))
    mask[:2, 1:] = 1.0

    def loss(matrix: np.ndarray) -> float:
        return 0.5 * float(np.mean(np.sum((matrix @ X - Y) ** 2, axis=0)))

    slope = mask * ((W @ X - Y) @ X.T) / m
    found = []
    for _ in range(5000):
        n2, n3 = mask * rng.standard_normal((o, i)), rng.standard_normal((o, i))
        wdot = (
            -gamma[0] * slope / np.linalg.norm(slope)
            + gamma[1] * n2 / np.linalg.norm(n2)
            + gamma[2] * math.sqrt(o * i / T) * n3 / np.linalg.norm(n3)
        )
        found.append((1 - loss(W + T * wdot) / loss(W)) / T)
    error = np.std(found) / math.sqrt(len(found))
    net = sl.LinearEstimator(inputs=i, outputs=o)
    plastic = sl.Allocation.from_masks(net, {"W": mask.astype(bool)})
    geo = sl.local_geometry(arrays(net, {"W": W}, X, Y, plastic), on="all")
    noise = Noise(gamma, T, on="all")
    measured = geo.measure(noise, draws=4000)
    assert abs(np.mean(found) - geo.rate(noise)) < 3 * error
    assert abs(np.mean(found) - measured.mean) < 3 * math.hypot(error, measured.error)
    assert measured.agrees(geo.rate(noise))
    assert not measured.agrees(slides_rate(geo, noise))


CELLS = [
    (seed, plastic, noise_on, samples, correlated, T)
    for seed, (plastic, noise_on, (samples, correlated), T) in enumerate(
        (plastic, noise_on, inputs, T)
        for plastic in (1, 16, 64, 128, 200, 256)
        for noise_on in ("plastic", "all")
        for inputs in ((8, False), (64, False), (8, True), (64, True))
        for T in (1.0, 2.0)
    )
]


def test_masked_rates_are_what_cycles_do() -> None:
    """96 cells, and the number that may lie outside 3 standard errors: one in a hundred."""
    assert len(CELLS) == 96
    outside = 0
    for seed, plastic, noise_on, samples, correlated, T in CELLS:
        geo = _linear(seed, plastic, noise_on, samples, correlated)
        gamma = ((0.1, 1.0, 0.05), (0.3, 0.3, 0.1))[seed % 2]
        noise = Noise(gamma, T, on=noise_on)
        outside += not geo.measure(noise, draws=200, seed=seed).agrees(geo.rate(noise))
    assert outside <= 1


LEVEL = st.floats(0.01, 3.0)
SIGNED = st.one_of(st.just(0.0), st.floats(0.01, 5.0), st.floats(-5.0, -0.01))
GEOMETRIES = st.builds(
    Geometry,
    loss=st.floats(0.1, 10.0),
    gradient_norm=st.one_of(st.just(0.0), st.floats(0.05, 5.0)),
    q=SIGNED,
    trace=SIGNED,
    noise_trace=SIGNED,
    plastic=st.integers(1, 50),
    noisy=st.integers(1, 50),
)


@settings(max_examples=60, deadline=None)
@given(GEOMETRIES, LEVEL, LEVEL, LEVEL, LEVEL)
def test_critical_levels_part_learning_from_not(
    geo: Geometry, g1: float, g2: float, g3: float, T: float
) -> None:
    noise = Noise((g1, g2, g3), T)
    criticals = (geo.critical_gamma1, geo.critical_gamma2, geo.critical_gamma3)
    for place, critical in enumerate(criticals):
        found = critical(noise)
        assert found.reason.endswith(".")
        for level in np.geomspace(1e-3, 1e3, 13):
            at = noise.with_level(place, float(level))
            rate, scale = geo.rate(at), sum(abs(v) for v in _terms(geo, at))
            if abs(rate) > 1e-9 * scale:  # on the edge itself rounding decides
                assert (level in found) == (rate > 0)
        assert found.empty or (0 <= found.low < found.high)


def _terms(geo: Geometry, noise: Noise) -> list[float]:
    (g1, g2, g3), T = noise.gamma, noise.T
    parts = [g1 * geo.gradient_norm, T / 2 * g1**2 * geo.q, T / 2 * g2**2 / geo.plastic * geo.trace]
    return [part / geo.loss for part in (*parts, g3**2 / 2 * geo.noise_trace)]


@settings(max_examples=60, deadline=None)
@given(GEOMETRIES, LEVEL, LEVEL, LEVEL, LEVEL)
def test_learning_is_a_difficulty_below_the_critical_one(
    geo: Geometry, g1: float, g2: float, g3: float, T: float
) -> None:
    noise = Noise((g1, g2, g3), T)
    rate = geo.rate(noise)
    terms = _terms(geo, noise)
    assert rate == pytest.approx(terms[0] - sum(terms[1:]), abs=1e-12 * sum(map(abs, terms)))
    if geo.gradient_norm and abs(rate) > 1e-9 * sum(map(abs, terms)):
        assert (geo.difficulty(noise) < geo.critical_difficulty(noise)) == (rate > 0)


@settings(max_examples=60, deadline=None)
@given(GEOMETRIES, LEVEL, LEVEL, LEVEL)
def test_best_gamma1_is_the_maximum(geo: Geometry, g2: float, g3: float, T: float) -> None:
    best = geo.best_gamma1(Noise((0.0, g2, g3), T))
    if best.value is None:
        assert geo.q <= 0 or not geo.gradient_norm
        far, further = (geo.rate(Noise((g1, g2, g3), T)) for g1 in (1e3, 2e3))
        assert further >= far or not geo.gradient_norm
        with pytest.raises(sl.BadInputError, match="no best value"):
            float(best)
    else:
        top = geo.rate(Noise((float(best), g2, g3), T))
        for level in best.value * np.array([0.0, 0.5, 0.9, 1.1, 2.0]):
            assert geo.rate(Noise((float(level), g2, g3), T)) <= top


def test_difficulty_is_the_weighted_mean_over_steps() -> None:
    """<|wdot|^2 G_F> / <|wdot|^2> over drawn steps, with the Hessian written out."""
    rng = np.random.default_rng(8)
    X, W, Y = rng.standard_normal((5, 9)), rng.standard_normal((3, 5)), rng.standard_normal((3, 9))
    hessian = np.kron(np.eye(3), X @ X.T / 9)
    g = ((W @ X - Y) @ X.T / 9).ravel()
    gamma, T, n = (0.5, 1.0, 0.2), 2.0, 15
    count = 40000
    n2, n3 = rng.standard_normal((2, count, n))
    n2 /= np.linalg.norm(n2, axis=1, keepdims=True)
    n3 /= np.linalg.norm(n3, axis=1, keepdims=True)
    wdot = -gamma[0] * g / np.linalg.norm(g) + gamma[1] * n2 + gamma[2] * math.sqrt(n / T) * n3
    bend = np.einsum("ki,ij,kj->k", wdot, hessian, wdot) / (2 * np.linalg.norm(g))
    speed = np.einsum("ki,ki->k", wdot, wdot)
    geo = sl.local_geometry(arrays(sl.LinearEstimator(inputs=5, outputs=3), {"W": W}, X, Y))
    noise = Noise(gamma, T)
    assert speed.mean() == pytest.approx(geo.speed(noise), rel=0.02)
    assert bend.mean() / speed.mean() == pytest.approx(geo.difficulty(noise), rel=0.02)


def test_negative_curvature_is_explained() -> None:
    geo = Geometry(loss=1.0, gradient_norm=1.0, q=-0.5, trace=-2.0, plastic=10)
    assert "larger gamma1 is always better" in geo.best_gamma1(Noise((0.1, 1.0, 0.1))).reason
    assert geo.critical_gamma1(Noise((0.1, 1.0, 0.1))).low == 0.0
    assert "random steps lower the loss" in geo.critical_gamma3(Noise((0.1, 1.0, 0.1))).reason
    up = Geometry(loss=1.0, gradient_norm=1.0, q=50.0, trace=-2.0, plastic=10)
    assert up.critical_gamma3(Noise((1.0, 0.0, 0.0))).low == pytest.approx(math.sqrt(24.0))


def test_a_single_critical_level_is_a_number() -> None:
    geo = Geometry(loss=1.0, gradient_norm=1.0, q=0.5, trace=2.0, plastic=10)
    high = float(geo.critical_gamma3(Noise((1.0, 0.0, 0.0))))  # 1 - 1/4 - gamma3^2 = 0
    assert high == pytest.approx(math.sqrt(0.75))
    assert geo.rate(Noise((1.0, 0.0, high))) == pytest.approx(0.0, abs=1e-12)
    both = geo.critical_gamma1(Noise((1.0, 1.0, 0.1)))
    assert str(both).startswith("from 0.1")
    with pytest.raises(sl.BadInputError, match="no single critical level"):
        float(both)
    assert str(geo.critical_gamma3(Noise((0.0, 1.0, 0.0)))) == "nowhere"


def test_validity_holds_where_the_loss_is_quadratic_and_warns_where_it_bends() -> None:
    geo = _linear(0, 64)
    assert geo.check(Noise((0.5, 1.0, 0.05)))
    rng = np.random.default_rng(2)
    net = sl.FeedForward((4, 6, 3), activation="tanh")
    weights = {name: rng.standard_normal(shape) for name, shape in net.shapes.items()}
    x, y = rng.standard_normal((4, 9)), rng.standard_normal((3, 9))
    bent = sl.local_geometry(arrays(net, weights, x, y))
    with pytest.warns(sl.noise.SecondOrderWarning, match="is measured"):
        found = bent.check(Noise((3.0, 0.1, 0.0), T=3.0))
    assert not found and not found.holds
    assert abs(found.predicted - found.measured.mean) > 0.1 * found.scale
    small = bent.check(Noise((0.02, 0.02, 0.001)))
    assert small and small.holds_half and "enough" in small.reason


def test_same_seed_same_numbers() -> None:
    geo = _linear(1, 64)
    a, b, c = (geo.measure(Noise((0.1, 1.0, 0.1)), draws=50, seed=s) for s in (3, 3, 4))
    assert a == b and a != c


@pytest.mark.parametrize(
    ("gamma", "T", "words"),
    [
        ((-0.1, 1.0, 0.0), 1.0, "gamma must be three numbers of at least 0"),
        ((0.1, 1.0), 1.0, "gamma must be three numbers"),
        ((0.1, 1.0, math.nan), 1.0, "gamma must be three numbers"),
        ((0.1, "1", 0.0), 1.0, "gamma must be three numbers"),
        (0.1, 1.0, "gamma must be three numbers"),
        ((0.1, 1.0, 0.0), 0.0, "T, the time of one cycle, must be positive and finite"),
        ((0.1, 1.0, 0.0), -1.0, "T, the time of one cycle"),
        ((0.1, 1.0, 0.0), math.inf, "T, the time of one cycle"),
    ],
)
def test_nonsense_levels_are_refused(gamma: object, T: float, words: str) -> None:
    with pytest.raises(sl.BadInputError, match=words):
        Noise(gamma, T)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"mixing": 1.0}, r"mixing must lie in \[0, 1\)"),
        ({"mixing": True}, "mixing must lie"),
        ({"on": "some"}, "noise on must be one of plastic, all"),
        ({"norm": "max"}, "norm must be one of l2, layers"),
    ],
)
def test_noise_that_falls_nowhere_is_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(sl.BadInputError, match=words):
        Noise((0.1, 1.0, 0.1), **change)  # type: ignore[arg-type]


def test_numbers_that_make_no_geometry_are_refused() -> None:
    good = {"loss": 1.0, "gradient_norm": 1.0, "q": 1.0, "trace": 1.0, "plastic": 3}
    for change, words in (
        ({"loss": 0.0}, "loss must be above 0"),
        ({"loss": math.nan}, "loss must be above 0"),
        ({"gradient_norm": -1.0}, "gradient_norm must be at least 0"),
        ({"plastic": 0}, "plastic must be at least 1"),
    ):
        with pytest.raises(sl.BadInputError, match=words):
            Geometry(**{**good, **change})
    with pytest.raises(sl.BadInputError, match="numbers alone"):
        Geometry(**good).measure(Noise((1.0, 1.0, 1.0)))
    with pytest.raises(sl.BadInputError, match="a level above 0"):
        Geometry(**good).difficulty(Noise((0.0, 0.0, 0.0)))
