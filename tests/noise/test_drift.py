"""Noise on frozen weights: the Schur complement written out, and simulations."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import sublearn as sl
from noise.given import given


def lesson(samples: int, inputs: int = 10, outputs: int = 5):
    network = sl.LinearEstimator(inputs=inputs, outputs=outputs)
    rng = np.random.default_rng(samples)
    w = {"W": rng.standard_normal((outputs, inputs))}
    x = rng.standard_normal((inputs, samples))
    return network, w, x, network.forward(w, x)


@pytest.mark.parametrize("samples", [3, 30])
@pytest.mark.parametrize("rule", ["spread", "rows"])
def test_trace_is_that_of_the_schur_complement(samples: int, rule: str) -> None:
    network, w, x, y = lesson(samples)
    allocation = (
        sl.Allocation.spread(network, {"W": 20})
        if rule == "spread"
        else sl.Allocation.from_rows(network, "W", [0, 3])
    )
    J = np.kron(np.eye(5), x.T)  # outputs in the order (output, sample)
    H = J.T @ J / samples
    m = allocation.mask("W").ravel()
    inverse = np.linalg.pinv(H[np.ix_(m, m)], rcond=1e-10)
    schur = H[np.ix_(~m, ~m)] - H[np.ix_(~m, m)] @ inverse @ H[np.ix_(m, ~m)]
    noise = sl.Noise((0.0, 0.0, 0.2), T=3.0, on="all")
    found = sl.noise.predict_drift(given(network, w, x, y, allocation), noise)
    assert found.schur_trace == pytest.approx(np.trace(schur), abs=1e-10)
    assert found.per_cycle == pytest.approx(0.2**2 / 2 * 3.0 * np.trace(schur), abs=1e-10)
    # Four plastic weights in every row make up for anything on three samples.
    assert found.compensated == (rule == "spread" and samples == 3)


@pytest.mark.parametrize("rule", ["spread", "rows"])
def test_measured_drift_is_the_predicted_one(rule: str) -> None:
    # Many frozen modes, so that few repeats do.
    network, w, x, y = lesson(40, inputs=20, outputs=12)
    allocation = (
        sl.Allocation.spread(network, {"W": 60})
        if rule == "spread"
        else sl.Allocation.from_rows(network, "W", [0, 3, 7])
    )
    lesson_of, noise = given(network, w, x, y, allocation), sl.Noise((0.1, 0.3, 0.02), on="all")
    predicted = sl.noise.predict_drift(lesson_of, noise)
    run = sl.simulate(lesson_of, noise, cycles=2000, repeats=50, precision="single")
    found = sl.noise.measure_drift(run, start=500)
    assert 3 * found.standard_error < 0.1 * predicted.per_cycle
    assert abs(found.per_cycle - predicted.per_cycle) < 3 * found.standard_error


def test_nothing_drifts_where_every_weight_is_plastic() -> None:
    found = sl.noise.predict_drift(given(*lesson(8)), sl.Noise((0.0, 0.0, 0.1)))
    assert found.per_cycle == 0.0 and found.compensated


def test_bad_input() -> None:
    asked, noise = given(*lesson(8)), sl.Noise((0.1, 0, 0))
    with pytest.raises(sl.BadInputError, match="noise must be a Noise"):
        sl.noise.predict_drift(asked, 0.1)  # type: ignore[arg-type]
    run = sl.simulate(asked, noise, cycles=5, repeats=2)
    with pytest.raises(sl.BadInputError, match="start"):
        sl.noise.measure_drift(run, start=4)
    one = sl.simulate(asked, noise, cycles=5, repeats=1)
    with pytest.raises(sl.BadInputError, match="repeats"):
        sl.noise.measure_drift(one, start=0)


def _run(errors: np.ndarray) -> sl.Simulation:
    return SimpleNamespace(errors=errors)  # type: ignore[return-value]


def test_slopes_of_straight_lines() -> None:
    """Slopes 1 and 3 after a start of another kind: mean 2, standard error 1."""
    cycles = np.arange(8.0)
    errors = np.stack([5.0 + cycles, 7.0 + 3.0 * cycles])
    errors[:, :3] = 100.0
    found = sl.noise.measure_drift(_run(errors), start=3)
    assert (found.per_cycle, found.standard_error) == pytest.approx((2.0, 1.0), abs=1e-12)
    assert sl.noise.measure_drift(_run(errors), start=6).per_cycle == pytest.approx(2.0, abs=1e-12)


@pytest.mark.parametrize(
    ("shape", "start", "words"),
    [
        ((3, 8), -1, "start must be a whole number"),
        ((3, 8), 7, "start must leave at least 2 of the 8 cycles, not 7"),
        ((1, 8), 0, "at least 2 repeats"),
    ],
)
def test_drifts_that_cannot_be_measured(shape: tuple[int, int], start: int, words: str) -> None:
    with pytest.raises(sl.BadInputError, match=words):
        sl.noise.measure_drift(_run(np.ones(shape)), start)
