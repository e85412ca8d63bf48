"""Steady states: the formulas against simulation, closed forms and normal equations."""

from __future__ import annotations

import numpy as np
import pytest

import sublearn as sl
from noise.given import given
from sublearn.experiments.raman2019 import (
    LINEAR_GAMMAS,
    LINEAR_MIXINGS,
    LINEAR_SIZES,
    linear_lessons,
)
from sublearn.noise import Noise, step_correlation


def estimator(samples: int, seed: int = 0, inputs: int = 12, outputs: int = 6):
    network = sl.LinearEstimator(inputs=inputs, outputs=outputs)
    rng = np.random.default_rng([seed, samples])
    w = {"W": rng.standard_normal((outputs, inputs))}
    return network, w, rng.standard_normal((inputs, samples)), rng


def test_leading_term_is_the_closed_form() -> None:
    # H = 2 times the identity on 72 weights.
    network, w, _, _ = estimator(12)
    x = np.sqrt(24.0) * np.eye(12)
    g1, g2, g3, T = 0.05, 0.7, 0.02, 1.5
    rho = step_correlation(0.3, 72)  # measured in test_steady_exists.py
    noise = Noise((g1, g2, g3), T, mixing=0.3)
    found = sl.predict_steady_state(given(network, w, x, np.zeros((6, 12))), noise)
    s = g2**2 * (1 + rho) / (1 - rho) / 72 + g3**2 / T
    assert found.leading == pytest.approx(T**2 * 72 * 144.0 * s**2 / (8 * g1**2))
    assert (found.kind, found.rank, found.minimum) == ("limit", 72, 0.0) and found.exact_minimum
    assert found.trace == pytest.approx(144.0)
    # Equal modes have a closed balance too: lambda^2 n s2 eta = 2 (g1 T)^2 lambda - ..., solved here
    # by iterating eta = g1 T / G with <e^2> = drive / (eta lambda (2 - eta lambda)).
    eta = 1e-3
    for _ in range(2000):
        a = 1 - 2 * eta
        drive = T**2 * g2**2 / 72 * (1 + a * rho) / (1 - a * rho) + T * g3**2
        square = 72 * 4 * drive / (2 * eta * (2 - 2 * eta))
        eta = 0.9 * eta + 0.1 * g1 * T / np.sqrt(square)
    plain = 0.5 * 2 * 72 * drive / (2 * eta * (2 - 2 * eta))
    # Short steps on k equal modes: k (k + 1) for k^2, here up to a few percent of 1/k.
    assert found.excess / plain - 1 == pytest.approx(1 / 72, rel=0.1)


def test_minimum_over_some_weights_is_that_of_the_normal_equations() -> None:
    network, w, x, rng = estimator(samples=30)
    y = rng.standard_normal((6, 30))
    mask = rng.random((6, 12)) < 0.4
    mask[2] = False  # a row with nothing plastic
    allocation = sl.Allocation.from_masks(network, {"W": mask})
    expected, modes, trace = 0.0, 0, 0.0
    for row, plastic, target in zip(w["W"], mask, y, strict=True):
        rest = target - row[~plastic] @ x[~plastic]
        if plastic.any():
            gram = x[plastic] @ x[plastic].T
            rest = rest - np.linalg.solve(gram, x[plastic] @ rest) @ x[plastic]
            modes, trace = modes + plastic.sum(), trace + np.trace(gram) / 30
        expected += rest @ rest / 60
    asked = given(network, w, x, y, allocation)
    found = sl.predict_steady_state(asked, Noise((0.1, 0.1, 0.0)))
    assert found.minimum == pytest.approx(expected)
    assert found.rank == modes and found.trace == pytest.approx(trace)


SETTINGS = [
    # samples, plastic weights, gamma, mixing, noise on
    (40, 72, (0.05, 0.5, 0.02), 0.0, "plastic"),
    (40, 72, (0.05, 0.5, 0.02), 0.3, "plastic"),
    (40, 30, (0.1, 0.3, 0.02), 0.0, "plastic"),
    (4, 60, (0.3, 0.3, 0.05), 0.0, "plastic"),
    (4, 60, (0.3, 0.3, 0.05), 0.0, "all"),
]


@pytest.mark.parametrize("samples, plastic, gamma, mixing, noise_on", SETTINGS)
def test_prediction_beside_simulation(samples, plastic, gamma, mixing, noise_on) -> None:
    network, w, x, rng = estimator(samples)
    y = network.forward({"W": rng.standard_normal((6, 12))}, x)
    asked = given(network, w, x, y, sl.Allocation.spread(network, {"W": plastic}))
    noise = Noise(gamma, mixing=mixing, on=noise_on)
    predicted = sl.predict_steady_state(asked, noise)
    found = sl.simulate(asked, noise, cycles=4000, repeats=8).steady_state
    assert found.reached, found
    excess = found.mean - predicted.minimum
    assert excess == pytest.approx(predicted.excess, rel=0.06, abs=3 * found.standard_error)


def test_a_step_without_noise_jumps_across_the_steepest_mode() -> None:
    network, w, x, _ = estimator(samples=40)
    asked, noise = given(network, w, x, np.zeros((6, 40))), Noise((0.02, 0.0, 0.0))
    found = sl.simulate(asked, noise, cycles=4000, repeats=1)
    predicted = sl.predict_steady_state(asked, noise)
    assert found.errors[0, -100:].mean() == pytest.approx(predicted.value, rel=0.05)


def test_where_nothing_learns_or_nothing_moves() -> None:
    network, w, x, _ = estimator(samples=4)
    asked = given(network, w, x, np.zeros((6, 4)))
    still = sl.predict_steady_state(asked, Noise((0.0, 0.0, 0.0)))
    gap = w["W"] @ x
    assert still.value == pytest.approx((gap**2).sum() / 8) and still.minimum == 0.0
    adrift = sl.predict_steady_state(asked, Noise((0.0, 0.1, 0.0)))
    assert adrift.value == float("inf") and adrift.to_dict()["value"] is None
    row = asked.with_allocation(sl.Allocation.from_rows(network, "W", [0]))
    frozen = sl.predict_steady_state(row, Noise((0.1, 0.1, 0.1), on="all"))
    assert frozen.drift > 0 and frozen.value == float("inf")


def test_local_minimum_of_a_network_that_is_not_quadratic() -> None:
    network = sl.FeedForward((3, 4, 2), activation="tanh")
    rng = np.random.default_rng(5)
    teacher = {name: rng.standard_normal(shape) for name, shape in network.shapes.items()}
    w = {name: part + 0.1 * rng.standard_normal(part.shape) for name, part in teacher.items()}
    x = rng.standard_normal((3, 20))
    y = network.forward(teacher, x) + 0.1 * rng.standard_normal((2, 20))
    asked = given(network, w, x, y)
    found = sl.predict_steady_state(asked, Noise((0.01, 0.0, 0.0)))
    assert not found.exact_minimum
    # Long gradient descent cannot come below it from here, and comes close.
    run = sl.simulate(asked, Noise((0.0005, 0.0, 0.0)), cycles=20000, repeats=1)
    assert found.minimum <= run.errors.min() <= 1.1 * found.minimum
    # The readout alone is affine: there the minimum is linear least squares.
    readout = asked.with_allocation(sl.Allocation.whole(network, ["W2"]))
    affine = sl.predict_steady_state(readout, Noise((0.01, 0.0, 0.0)))
    hidden = np.tanh(w["W1"] @ x)
    rest = np.linalg.lstsq(hidden.T, y.T, rcond=None)[1].sum()
    assert affine.exact_minimum and affine.minimum == pytest.approx(rest / 40)


@pytest.mark.slow
def test_linear_picture_in_sixty_cells() -> None:
    ratios = []
    for mixing in LINEAR_MIXINGS:
        for gamma in LINEAR_GAMMAS:
            for inputs, outputs in LINEAR_SIZES:
                noise = Noise(gamma, mixing=mixing)
                lessons = linear_lessons(inputs, outputs, range(12))
                run = sl.noise.simulate(lessons, noise, cycles=1500, repeats=12)
                predicted = sl.predict_steady_state(lessons[0], noise)
                ratios.append(run.final(600).mean() / predicted.value)
    assert len(ratios) == 60
    assert all(0.9 <= ratio <= 1.15 for ratio in ratios)
