"""Best sizes: closed forms against brute force, and both against measured cycles."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

import sublearn as sl
from noise.given import given
from sublearn.experiments.raman2019 import (
    SIZES,
    implicit_size,
    sigmoid_path,
    slides_nonlinear_size,
    slides_size,
    slope_against_curvature,
)
from sublearn.noise import Best, Geometry, Noise, closed_form_size

Array = NDArray[np.float64]
NET = sl.LinearEstimator(inputs=10, outputs=5)
NOISE = Noise((0.8, 1.0, 0.05))
EVERY = [k / 5 for k in range(5, 30)]


def _task(seed: int = 1) -> sl.Instance:
    rng = np.random.default_rng([seed, 43])
    x = rng.standard_normal((10, 40))
    targets = rng.standard_normal((5, 10)) @ x
    return given(NET, {"W": rng.standard_normal((5, 10))}, x, targets)


@pytest.mark.parametrize(
    ("path", "reading", "a"),
    [
        ("both", "expanded", 0.5),
        ("inputs", "expanded", 0.0),
        ("outputs", "expanded", 1.0),
        ("both", "projected", 0.0),
    ],
)
def test_exponents_and_optima_of_linear_expansion(path: str, reading: str, a: float) -> None:
    factors = EVERY if path == "both" else [1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0]
    grown = sl.noise.expansion_path(_task(), factors, path=path, reading=reading)
    found = sl.best_size(grown, NOISE)
    assert found.exponent is not None
    assert found.exponent.value == pytest.approx(a, abs=1e-9)
    assert "It holds here" in found.closed_form.reason
    if a == 0.5:
        assert found.bracket[0] < 400 < found.bracket[1]
        assert found.closed_form.value == pytest.approx(400)
        for gamma1 in (0.05, 0.3, 1.5):  # gamma1 plays no part
            assert sl.best_size(found.geometries, NOISE.with_level(0, gamma1)).best == found.best
    elif a == 0.0:
        assert found.best.value == found.sizes[-1] and "beyond" in found.best.reason
        assert found.closed_form.value is None
    else:
        assert found.best.value == found.sizes[0] == 50
        assert found.closed_form.value == 0.0


def test_measured_best_size_settles_which_formula_is_right() -> None:
    """At gamma = (.8, 1, .05), T = 1: 400 = T gamma2^2/gamma3^2, and not 144 as on the slides."""
    path = sl.noise.expansion_path(_task(), [k / 5 for k in range(7, 29, 2)])
    found = sl.noise.measure_best_size(path, NOISE, draws=1000)
    assert not found.boundary
    assert 400 in found and 144 not in found
    assert slides_size(NOISE, 50).value == pytest.approx(144)
    low, high = found.interval
    assert high / low < 1.25


@pytest.mark.slow
def test_measured_best_size_of_expansion_is_sharp() -> None:
    path = sl.noise.expansion_path(_task(2), [k / 5 for k in range(7, 29, 2)])
    found = sl.noise.measure_best_size(path, NOISE, draws=10000, seed=1)
    assert 400 in found and found.interval[1] / found.interval[0] < 1.06


def test_redundant_synapses_follow_the_rate_and_not_the_closed_form() -> None:
    task = _task()
    base = sl.local_geometry(task)
    noise = Noise((0.1, 1.0, 0.05))  # small enough for a few hundred weights
    best = sl.noise.best_redundancy(base, noise)
    assert best.value is not None
    counts = sorted({round(best.value * 1.3**place) for place in range(-5, 6)})
    path = [sl.noise.add_synapses(task, c) for c in counts]
    curve = sl.best_size(path, noise)
    assert curve.exponent is not None and curve.exponent.value == pytest.approx(0.5)
    assert "It does not hold here: q/|g|" in curve.closed_form.reason
    found = sl.noise.measure_best_size(path, noise, draws=400)
    assert best.value * 50 in found
    assert curve.closed_form.value is None and "It would be 400" in curve.closed_form.reason
    assert 400 not in found


def test_best_redundancy_is_the_maximum() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        g, q, trace = rng.uniform(0.5, 4.0), rng.uniform(0.01, 0.3), rng.uniform(1.0, 20.0)
        geo = Geometry(loss=2.0, gradient_norm=g, q=q, trace=trace, plastic=50)
        gamma, T = (rng.uniform(0.05, 0.5), 1.0, rng.uniform(0.02, 0.2)), rng.uniform(0.5, 2.0)
        noise = Noise(gamma, T)
        best = sl.noise.best_redundancy(geo, noise).value
        rates = [geo.redundant(c).rate(noise) for c in range(1, 4000)]
        assert best is not None
        assert abs(1 + int(np.argmax(rates)) - best) <= 1 or best > 3999


def test_odd_redundancies_are_explained() -> None:
    flat = Geometry(loss=1.0, gradient_norm=1.0, q=-1.0, trace=0.0, plastic=5)
    assert sl.noise.best_redundancy(flat, NOISE).value is None
    steep = Geometry(loss=1.0, gradient_norm=0.1, q=9.0, trace=1.0, plastic=5)
    assert sl.noise.best_redundancy(steep, NOISE).value == 1.0
    still = Geometry(loss=1.0, gradient_norm=0.0, q=0.0, trace=1.0, plastic=5)
    assert "no gradient step" in sl.noise.best_redundancy(still, NOISE).reason
    # Nothing but the noise is left: where it costs, one synapse is best; where it gains, none is.
    for trace, best in ((1.0, 1.0), (-1.0, None)):
        geo = Geometry(loss=1.0, gradient_norm=0.0, q=0.0, trace=trace, plastic=5)
        rates = [geo.redundant(c).rate(NOISE) for c in (1, 2, 9)]
        assert rates == sorted(rates, reverse=trace > 0)
        assert sl.noise.best_redundancy(geo, NOISE).value == best


def test_without_task_irrelevant_change_the_smallest_is_best() -> None:
    path = sl.noise.expansion_path(_task(), EVERY)
    found = sl.best_size(path, Noise((0.8, 0.0, 0.05)), beside=SIZES)
    assert found.best.value == 50 and "no size is negative" in found.best.reason
    assert found.closed_form.value == 0.0 and "gamma2 = 0" in found.closed_form.reason
    slides = found.beside["slides, linear"]
    assert slides.value is not None and slides.value < 0  # what the slides wonder at
    quiet = sl.best_size(path, Noise((0.8, 1.0, 0.0)), beside=SIZES)
    assert quiet.best.value == quiet.sizes[-1]
    for formula in (quiet.closed_form, *quiet.beside.values()):
        assert formula.value is None and "gamma3 = 0" in formula.reason


def test_a_formula_of_ones_own_stands_beside_the_curve() -> None:
    path = [sl.local_geometry(one) for one in sl.noise.expansion_path(_task(), EVERY)]

    def tenfold(noise: Noise, base: int) -> Best:
        return Best(10.0 * base / noise.T, "Ten times the first.")

    found = sl.best_size(path, NOISE, beside={"mine": tenfold})
    assert found.beside == {"mine": Best(500.0, "Ten times the first.")}
    assert found.to_dict()["beside"] == {"mine": {"value": 500.0, "reason": "Ten times the first."}}
    lines = str(found).splitlines()
    assert "mine                 500  Ten times the first." in lines
    assert len(lines) == len(str(sl.best_size(path, NOISE)).splitlines()) + 1


@pytest.mark.parametrize("gamma", [(0.8, 1.0, 0.05), (0.007, 1.0, 0.1), (0.5, 0.0, 0.1)])
@pytest.mark.parametrize("T", [0.5, 1.0, 3.0])
def test_implicit_sizes_solve_their_equations(gamma: tuple[float, ...], T: float) -> None:
    g1, g2, g3 = gamma
    N = 110
    noise = Noise(gamma, T)
    size = float(implicit_size(noise, N))
    right = T / g3**2 * math.sqrt((g1**2 + g2**2) * (g2**2 + g1**2 * N / size))
    assert size == pytest.approx(right, rel=1e-9)
    if g2:
        size = float(slides_nonlinear_size(noise, N))
        right = T * g2**2 / g3**2 * (g1**2 * N / (g2**2 * size))
        assert size == pytest.approx(right, rel=1e-9)


@pytest.mark.parametrize("a", [0.2, 0.5, 0.8])
def test_closed_form_is_the_maximum_of_a_power_law(a: float) -> None:
    gamma, T = (0.5, 1.2, 0.07), 1.5
    sizes = np.geomspace(1, 1e5, 200001)
    cost = sizes**a * (gamma[1] ** 2 / sizes + gamma[2] ** 2 / T)
    best = closed_form_size(Noise(gamma, T), a).value
    assert best == pytest.approx(sizes[np.argmin(cost)], rel=1e-3)


def test_paths_that_are_none_are_refused() -> None:
    path = sl.noise.expansion_path(_task(), [1.0, 2.0])
    with pytest.raises(sl.BadInputError, match="at least 2 sizes"):
        sl.best_size(path[:1], NOISE)
    with pytest.raises(sl.BadInputError, match="from smaller to larger"):
        sl.best_size(path[::-1], NOISE)
    with pytest.raises(sl.BadInputError, match="path must hold more than 6 sizes"):
        sl.noise.measure_best_size(path, NOISE)
    with pytest.raises(sl.BadInputError, match="noise must be a Noise"):
        sl.best_size(path, (0.8, 1.0, 0.05))  # type: ignore[arg-type]
    with pytest.raises(sl.BadInputError, match="draws, 0 for none or else must be"):
        sl.best_size(path, NOISE, draws=1)


def test_a_trace_that_is_not_positive_has_no_power_law() -> None:
    path = [
        Geometry(loss=1.0, gradient_norm=1.0, q=0.1, trace=t, plastic=n)
        for n, t in ((10, 1.0), (20, -1.0))
    ]
    found = sl.best_size(path, NOISE)
    assert found.exponent is None and "not positive" in found.closed_form.reason
    same = [Geometry(loss=1.0, gradient_norm=1.0, q=1.0, trace=0.0, plastic=n) for n in (1, 2)]
    assert sl.best_size(same, NOISE).best.value is None


def test_less_noise_allows_larger_circuits() -> None:
    """The slides' prediction, along c1 = c2: size goes as 1/gamma3^2."""
    path = sl.noise.expansion_path(_task(), [k / 5 for k in range(5, 60)])
    curves = [sl.best_size(path, Noise((0.3, 1.0, g3))) for g3 in (0.03, 0.05, 0.07, 0.1)]
    for curve in curves:
        assert curve.bracket[0] < 1 / curve.noise.gamma[2] ** 2 < curve.bracket[1]
    best = [curve.best.value for curve in curves]
    assert best == sorted(best, reverse=True)


def test_difficulty_of_padded_sigmoid_networks() -> None:
    path = sigmoid_path(widths=(5, 8, 12), layers=2, samples=20, trained=20)
    assert [grown.network.sizes[1] for grown in path] == [5, 8, 12]
    low, high = (sl.best_size(path, Noise((0.05, 1.0, gamma3))) for gamma3 in (0.05, 0.1))
    for curve in (low, high):
        both = zip(curve.difficulties, curve.critical_difficulties, curve.rates, strict=True)
        assert all((difficulty < critical) == (rate > 0) for difficulty, critical, rate in both)
    # More synaptic noise: the critical difficulty falls at every size.
    falls = zip(low.critical_difficulties, high.critical_difficulties, strict=True)
    assert all(a > b for a, b in falls)


def test_turning_trades_slope_for_curvature() -> None:
    task = _task()
    rows = slope_against_curvature(task, length=2.0, angles=19)
    assert {row["towards"] for row in rows} == {"flatter", "random"}
    for row in rows:  # a quadratic loss: what is predicted happens
        assert row["predicted"] == pytest.approx(row["measured"], abs=1e-9)
        assert row["predicted"] == pytest.approx(row["slope"] - row["curvature"])
    flatter = [row for row in rows if row["towards"] == "flatter"]
    random = [row for row in rows if row["towards"] == "random"]
    assert [row["slope"] for row in flatter] == pytest.approx([row["slope"] for row in random])
    assert flatter[1]["curvature"] < random[1]["curvature"]
    assert flatter[1]["curvature"] < flatter[0]["curvature"]
    assert flatter[0]["angle"] == 0.0 and flatter[-1]["slope"] == pytest.approx(0.0, abs=1e-9)
    best = slope_against_curvature(task)[0]
    assert best["slope"] == pytest.approx(2 * best["curvature"])  # where slope and bending balance
    with pytest.raises(sl.BadInputError, match="length must be positive"):
        slope_against_curvature(task, length=0.0)


def test_a_best_size_says_what_it_rests_on() -> None:
    """Second order, and traces that are estimates: both are said of the size they may move."""
    common = dict(loss=1.0, gradient_norm=1.0, q=0.1)
    rough = [
        sl.Geometry(**common, trace=trace, trace_error=0.5, plastic=size)
        for size, trace in ((10, 10.0), (20, 10.2), (40, 60.0))
    ]
    found = sl.best_size(rough, Noise((0.5, 1.0, 0.1))).best
    assert "any from 10 to 20" not in found.reason  # 10 dilutes gamma2 half as much: far slower
    assert "second order only" in found.reason
    flat = [
        sl.Geometry(**common, trace=size, trace_error=size / 5, plastic=size, quadratic=True)
        for size in (10, 11, 40)
    ]
    found = sl.best_size(flat, Noise((0.5, 1.0, 0.1))).best
    assert found.value == 10 and "any from 10 to 40" in found.reason
    assert "second order" not in found.reason


def test_an_exponent_that_may_be_0_gives_no_size() -> None:
    common = dict(loss=1.0, gradient_norm=1.0, q=0.1)
    for swing, told in ((0.0, True), (0.3, False)):
        sizes = [100, 200, 400, 800]
        traces = [n**0.03 * math.exp(swing * (-1) ** k) for k, n in enumerate(sizes)]
        path = [
            sl.Geometry(**common, trace=t, plastic=n) for t, n in zip(traces, sizes, strict=True)
        ]
        found = sl.best_size(path, Noise((0.5, 1.0, 0.1)))
        assert found.exponent is not None and found.exponent.error is not None
        assert (found.closed_form.value is not None) == told
        assert told == (found.exponent.value > 2 * found.exponent.error)


def test_units_stand_beside_weights_and_small_gains_are_said_to_be_small() -> None:
    net = sl.RateRNN(n=3, b=2, d=2, T=2, leak=0.5)
    rng = np.random.default_rng(0)
    weights = {name: rng.standard_normal(shape) for name, shape in net.shapes.items()}
    x, y = rng.standard_normal((2, 2, 4)), rng.standard_normal((2, 4))
    noise = Noise((0.05, 0.05, 0.001))
    path = sl.noise.grow(given(net, weights, x, y), noise, "widths", [3, 4, 6])
    found = sl.best_size(path, noise)
    # n^2 recurrent weights, 2 n of the inputs and 2 n of the outputs
    assert found.sizes == (21, 32, 60) and found.units == ("3", "4", "6")
    assert [row["units"] for row in found.table()] == ["3", "4", "6"]
    assert str(found).splitlines()[0].split()[:2] == ["N", "units"]
    assert found.to_dict()["units"] == ["3", "4", "6"]
    assert "units" not in str(sl.best_size(found.geometries, noise)).splitlines()[0]
    common = dict(loss=1.0, gradient_norm=1.0, q=0.1)
    near = [sl.Geometry(**common, trace=1.0, plastic=size) for size in (10**6, 2 * 10**6)]
    assert "learns fastest, by less than 1% over the first" in str(sl.best_size(near, NOISE))
