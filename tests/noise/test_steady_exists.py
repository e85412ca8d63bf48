"""Steady states only where they exist: predictions beside cycles written out in plain numpy.

Nothing here uses the package's simulator. Means over repeats carry standard errors, and a claim holds
if it lies within four of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from typer.testing import CliRunner

import sublearn as sl
from noise.given import given
from sublearn.cli import app
from sublearn.noise import Noise, step_correlation
from sublearn.noise._balance import ModeNoise, balance
from sublearn.noise._steady import doubt

Array = np.ndarray


def directions(rng: np.random.Generator, repeats: int, size: int) -> Array:
    drawn = rng.standard_normal((repeats, size))
    return drawn / np.linalg.norm(drawn, axis=1)[:, None]


def cycles(
    surface: Callable[[Array], tuple[Array, Array]],
    start: Array,
    plastic: Array,
    noisy: Array,
    gamma: tuple[float, float, float],
    count: int,
    *,
    T: float = 1.0,
    mixing: float = 0.0,
    seed: int = 0,
) -> tuple[Array, Array]:
    """Errors (repeats, count) and the last weights; ``surface`` gives losses and gradients."""
    rng = np.random.default_rng(seed)
    w, repeats = start.copy(), len(start)
    errors = np.empty((repeats, count))
    n2 = directions(rng, repeats, plastic.size)
    for t in range(count):
        errors[:, t], slope = surface(w)
        g = slope[:, plastic]
        w[:, plastic] -= T * gamma[0] * g / np.linalg.norm(g, axis=1)[:, None]
        fresh = directions(rng, repeats, plastic.size)
        n2 = mixing * n2 + (1 - mixing) * fresh
        n2 /= np.linalg.norm(n2, axis=1)[:, None]
        w[:, plastic] += T * gamma[1] * n2
        w[:, noisy] += math.sqrt(noisy.size * T) * gamma[2] * directions(rng, repeats, noisy.size)
    return errors, w


def estimator_surface(x: Array, y: Array) -> Callable[[Array], tuple[Array, Array]]:
    def surface(w: Array) -> tuple[Array, Array]:
        gap = w.reshape(-1, y.shape[0], x.shape[0]) @ x - y
        loss = (gap**2).sum(axis=(1, 2)) / (2 * x.shape[1])
        return loss, (gap @ x.T / x.shape[1]).reshape(len(w), -1)

    return surface


def mean_and_error(each: Array) -> tuple[float, float]:
    return float(each.mean()), float(each.std(ddof=1) / math.sqrt(each.size))


# Finding: a steady state was predicted, as exact, where the loss is not quadratic in what moves.

GAMMA = (0.1, 0.3, 0.05)


def two_layers() -> tuple[dict[str, Array], Array, Array, Callable[[Array], tuple[Array, Array]]]:
    rng = np.random.default_rng(3)
    w1, w2 = rng.standard_normal((6, 4)) / 2, rng.standard_normal((2, 6)) / math.sqrt(6)
    x, y = rng.standard_normal((4, 2)), rng.standard_normal((2, 2))

    def surface(w: Array) -> tuple[Array, Array]:
        first, second = w[:, :24].reshape(-1, 6, 4), w[:, 24:].reshape(-1, 2, 6)
        hidden = first @ x
        gap = (second @ hidden - y) / 2
        back = (second.transpose(0, 2, 1) @ gap) @ x.T
        slopes = [back.reshape(len(w), -1), (gap @ hidden.transpose(0, 2, 1)).reshape(len(w), -1)]
        return (gap**2).sum(axis=(1, 2)), np.concatenate(slopes, axis=1)

    return {"W1": w1, "W2": w2}, x, y, surface


@pytest.mark.parametrize("learn", ["W2", "all"])
def test_no_steady_state_where_the_loss_is_not_quadratic_in_what_moves(learn: str) -> None:
    weights, x, y, surface = two_layers()
    network = sl.FeedForward((4, 6, 2))
    plastic = np.arange(24, 36) if learn == "W2" else np.arange(36)
    start = np.concatenate([w.ravel() for w in weights.values()])
    errors, _ = cycles(surface, np.tile(start, (30, 1)), plastic, np.arange(36), GAMMA, 5000)
    change = errors[:, 4000:].mean(axis=1) - errors[:, 300:700].mean(axis=1)
    growth, error = mean_and_error(change)
    assert growth > 5 * error, "what the issue saw: the error rises"
    whole = given(network, weights, x, y)
    readout = whole.with_allocation(sl.Allocation.whole(network, ["W2"]))
    asked = whole if learn == "all" else readout
    found = sl.predict_steady_state(asked, Noise(GAMMA, on="all"))
    assert found.kind == "none" and math.isnan(found.value) and not found.quadratic
    assert found.to_dict()["value"] is None
    walks = {walk.where: (walk.directions, walk.per_cycle) for walk in found.walks}
    # Four numbers are learned; the other directions of the plastic weights are flat.
    s = 0.3**2 / plastic.size + 0.05**2
    assert walks["plastic"] == (plastic.size - 4, pytest.approx(s))
    if learn == "W2":
        assert walks["frozen"] == (24, pytest.approx(0.05**2))
        assert "noise moves the frozen weights too" in found.reason
    else:
        assert "frozen" not in walks and "not quadratic" in found.reason
    # Where the frozen layer stands still, F is quadratic in what moves.
    for noise in (Noise(GAMMA), Noise((0.1, 0.3, 0.0), on="all")):
        found = sl.predict_steady_state(readout, noise)
        assert found.kind != "none" and found.quadratic


def test_flat_directions_walk_and_leave_a_quadratic_loss_alone() -> None:
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((6, 1)), np.zeros((1, 1))
    network = sl.LinearEstimator(inputs=6, outputs=1)
    asked = given(network, {"W": np.ones((1, 6))}, x, y)
    found = sl.predict_steady_state(asked, Noise(GAMMA, T=2.0, mixing=0.4))
    (walk,) = found.walks
    assert (walk.where, walk.directions) == ("plastic", 5)
    # <n2(t) n2(t+j)> = rho^j for six weights, not for many.
    rho = step_correlation(0.4, 6)
    assert walk.per_cycle == pytest.approx(4 * 0.09 / 6 * (1 + rho) / (1 - rho) + 2 * 0.0025)
    everything = np.arange(6)
    squares = []
    for count in (100, 500):
        errors, w = cycles(
            estimator_surface(x, y), np.ones((3000, 6)), everything, everything, GAMMA, count, T=2.0,
            mixing=0.4, seed=count,
        )  # fmt: skip
        moved = w - np.ones((1, 6))
        flat = moved - (moved @ x) / float((x**2).sum()) * x.T
        squares.append((flat**2).sum(axis=1))
    (early, e1), (late, e2) = (mean_and_error(each) for each in squares)
    rate, error = (late - early) / 400, math.hypot(e1, e2) / 400
    assert rate == pytest.approx(5 * walk.per_cycle, abs=4 * error) and error < 0.03 * rate
    before, after = errors[:, 100:200].mean(axis=1), errors[:, 400:].mean(axis=1)
    change, error = mean_and_error(after - before)
    assert abs(change) < 4 * error


# Few modes.

EQUAL = [
    # inputs, modes (outputs on one sample), gamma: from short steps to long ones
    (4, 1, (0.1, 0.3, 0.05)),
    (2, 1, (0.3, 0.3, 0.05)),
    (4, 2, (0.1, 0.3, 0.05)),
    (1, 2, (0.3, 0.2, 0.0)),
    (3, 4, (0.1, 0.3, 0.05)),
    (2, 4, (0.3, 0.1, 0.02)),
]


@pytest.mark.parametrize("inputs, modes, gamma", EQUAL)
def test_equal_modes_have_the_exact_balance(inputs: int, modes: int, gamma) -> None:
    rng = np.random.default_rng([inputs, modes])
    x, y = rng.standard_normal((inputs, 1)), rng.standard_normal((modes, 1))
    network = sl.LinearEstimator(inputs=inputs, outputs=modes)
    asked = given(network, {"W": np.ones((modes, inputs))}, x, y)
    found = sl.predict_steady_state(asked, Noise(gamma))
    assert (found.kind, found.rank) == ("exact", modes)
    every = np.arange(modes * inputs)
    start = np.zeros((250, every.size))
    start[:] = (y @ np.linalg.pinv(x)).ravel()
    start += 0.1 * rng.standard_normal(start.shape)
    errors, _ = cycles(estimator_surface(x, y), start, every, every, gamma, 2000, seed=1)
    mean, error = mean_and_error(errors[:, 700:].mean(axis=1))
    assert error < 0.02 * mean
    assert mean == pytest.approx(found.value, abs=4 * error + 1e-3 * found.value)
    assert found.lower <= mean + 4 * error and mean - 4 * error <= found.upper


def test_short_steps_on_equal_modes_by_the_density_written_out() -> None:
    """|x|^(k-1) exp(-2 h |x| / s): k (k + 1) where the formula for many modes has k^2."""
    s = 0.01
    # Below and above where the law is solved for on a grid.
    for k, h in ((1, 0.001), (2, 0.001), (5, 0.001), (1, 0.012), (2, 0.018)):
        found = balance(np.full(k, 2.0), ModeNoise(s, 0.0, 40, 40), h)
        assert found.exact
        slack = 2.0 * h**2 / s  # of the order of the step
        assert found.excess == pytest.approx(k * (k + 1) * (s / (2 * h)) ** 2, rel=slack + 1e-3)
        assert found.leading == pytest.approx(2.0 * k**2 * s**2 / (8 * h**2))


def spectrum_cell(
    lam: Array, size: int, h: float, b: float, c: float, count: int, repeats: int, seed: int
) -> tuple[float, float]:
    """<F> by plain cycles on F = 1/2 sum lam x^2 in the first of ``size`` weights."""
    wide = np.concatenate([lam, np.zeros(size - lam.size)])

    def surface(w: Array) -> tuple[Array, Array]:
        return 0.5 * (w * w) @ wide, w * wide

    every = np.arange(size)
    errors, _ = cycles(
        surface, np.full((repeats, size), 0.1), every, every, (h, b, c), count, seed=seed
    )
    return mean_and_error(errors[:, count // 3 :].mean(axis=1))


SPECTRA = [
    # eigenvalues, weights, gamma
    ((1.0, 0.2), 2, (0.1, 0.3, 0.05)),
    ((1.0, 0.05), 6, (0.3, 0.3, 0.05)),
    ((1.0, 0.3, 0.1), 3, (0.05, 0.3, 0.0)),
    ((1.0, 0.1, 0.1, 0.1), 8, (0.3, 0.1, 0.02)),
    ((2.0,), 1, (0.3, 0.4, 0.05)),
]


@pytest.mark.parametrize("lam, size, gamma", SPECTRA)
def test_few_modes_stay_within_proved_bounds(lam, size, gamma) -> None:
    noise = ModeNoise(gamma[1] ** 2 / size, gamma[2] ** 2, size, size)
    found = balance(np.array(lam), noise, gamma[0])
    mean, error = spectrum_cell(np.array(lam), size, *gamma, count=3000, repeats=150, seed=2)
    assert error < 0.04 * mean
    assert found.lower - 4 * error <= mean <= found.upper + 4 * error
    assert mean == pytest.approx(found.excess, rel=0.35)


def test_what_few_and_many_modes_are_called() -> None:
    x = np.diag([2.0, 1.5, 1.0])
    network = sl.LinearEstimator(inputs=3, outputs=1)
    narrow, noise = given(network, {"W": np.ones((1, 3))}, x, np.zeros((1, 3))), Noise(GAMMA)
    few = sl.predict_steady_state(narrow, noise)
    assert few.kind == "bound" and "few modes" in few.reason
    assert few.lower < few.value < few.upper
    wide = sl.LinearEstimator(inputs=3, outputs=12)
    broad = given(wide, {"W": np.ones((12, 3))}, x, np.zeros((12, 3)))
    many = sl.predict_steady_state(broad, noise)
    assert many.kind == "limit" and many.lower < many.value < many.upper
    # The closed form's upper bound: 1 + 2 L / Tr H for short steps.
    calm = sl.predict_steady_state(broad, Noise((1e-4, 0.3, 0.0)))
    trace = 12 * (4 + 2.25 + 1) / 3
    assert calm.upper == pytest.approx(calm.leading * (1 + 2 * (4 / 3) / trace), rel=1e-3)
    # Correlated n2 with few modes: no formula.
    assert sl.predict_steady_state(narrow, Noise(GAMMA, mixing=0.3)).kind == "none"
    long = sl.predict_steady_state(broad, Noise((1.0, 0.1, 0.0)))
    assert long.kind == "bound" and "long" in long.reason


def test_many_modes_are_within_two_percent() -> None:
    lam = np.linspace(0.2, 1.0, 16)
    for gamma, mixing in (((0.1, 0.6, 0.05), 0.0), ((0.1, 0.6, 0.05), 0.4)):
        rho = step_correlation(mixing, 16)
        found = balance(
            lam, ModeNoise(gamma[1] ** 2 / 16, gamma[2] ** 2, 16, 16, rho=rho), gamma[0]
        )

        def surface(w: Array) -> tuple[Array, Array]:
            return 0.5 * (w * w) @ lam, w * lam

        every = np.arange(16)
        errors, _ = cycles(
            surface, np.full((80, 16), 0.3), every, every, gamma, 2000, mixing=mixing
        )
        mean, error = mean_and_error(errors[:, 600:].mean(axis=1))
        assert error < 0.02 * mean and mean == pytest.approx(
            found.excess, abs=3 * error + 0.02 * mean
        )


def test_noise_on_frozen_weights_that_one_mode_makes_up_for() -> None:
    rng = np.random.default_rng(11)
    x, y = rng.standard_normal((5, 1)), np.ones((1, 1))
    network = sl.LinearEstimator(inputs=5, outputs=1)
    plastic = np.array([0, 3])
    allocation = sl.Allocation.from_entries(network, {"W": [(0, 0), (0, 3)]})
    asked = given(network, {"W": np.zeros((1, 5))}, x, y, allocation)
    found = sl.predict_steady_state(asked, Noise((0.1, 0.2, 0.1), on="all"))
    assert (found.kind, found.rank, found.drift) == ("exact", 1, 0.0)
    assert {w.where: w.directions for w in found.walks} == {"plastic": 1, "frozen": 3}
    errors, _ = cycles(
        estimator_surface(x, y), np.zeros((300, 5)), plastic, np.arange(5), (0.1, 0.2, 0.1), 3000
    )
    mean, error = mean_and_error(errors[:, 1000:].mean(axis=1))
    assert error < 0.03 * mean and mean == pytest.approx(found.value, abs=4 * error)


def test_without_learning_the_error_grows_at_the_predicted_rate() -> None:
    rng = np.random.default_rng(12)
    x, y = rng.standard_normal((4, 6)), rng.standard_normal((2, 6))
    network = sl.LinearEstimator(inputs=4, outputs=2)
    weights = rng.standard_normal((2, 4))
    rows = sl.Allocation.from_rows(network, "W", [0])
    gamma = (0.0, 0.2, 0.1)
    asked = given(network, {"W": weights}, x, y)
    found = sl.predict_steady_state(asked.with_allocation(rows), Noise(gamma, on="all"))
    assert found.kind == "none" and found.value == math.inf and "gamma1 = 0" in found.reason
    start = np.tile(weights.ravel(), (2000, 1))
    errors, _ = cycles(estimator_surface(x, y), start, np.arange(4), np.arange(8), gamma, 41)
    rate, error = mean_and_error((errors[:, 40] - errors[:, 0]) / 40)
    assert rate == pytest.approx(found.drift, abs=4 * error) and error < 0.05 * rate
    # Nothing moves: the error stays where it is, not at the minimum.
    still = sl.predict_steady_state(asked, Noise((0, 0, 0)))
    assert still.kind == "exact" and still.value == pytest.approx(errors[0, 0])
    # Plastic weights that reach no output.
    zero = sl.predict_steady_state(given(network, {"W": weights}, 0 * x, y), Noise(gamma))
    assert zero.kind == "exact" and zero.excess == 0.0


# Correlated n2 is a limit of many weights.


@pytest.mark.parametrize("size", [1, 2, 3, 8])
@pytest.mark.parametrize("mixing", [0.1, 0.45, 0.8])
def test_correlation_of_mixed_directions_at_few_weights(size: int, mixing: float) -> None:
    rng = np.random.default_rng([size, round(100 * mixing)])
    first = directions(rng, 40_000, size)
    now, means = first, []
    for _ in range(2):
        now = mixing * now + (1 - mixing) * directions(rng, 40_000, size)
        now = now / np.linalg.norm(now, axis=1)[:, None]
        means.append(mean_and_error((now * first).sum(axis=1)))
    rho = step_correlation(mixing, size)
    for power, (mean, error) in enumerate(means, 1):
        assert mean == pytest.approx(rho**power, abs=4 * error + 1e-12)
    assert step_correlation(mixing, 10**6) == pytest.approx(step_correlation(mixing), abs=1e-5)


def test_correlated_directions_must_forget_before_the_modes_do() -> None:
    lam, h = np.linspace(0.5, 1.0, 40), 0.3
    words = {
        mixing: doubt(balance(lam, ModeNoise(3e-4, 0.01, 80, 80, rho=step_correlation(mixing, 80)), h),
                      step_correlation(mixing, 80))
        for mixing in (0.0, 0.2, 0.9)
    }  # fmt: skip
    assert not words[0.0] and not words[0.2] and "stays the same for longer" in words[0.9]


def test_one_weight_that_is_pushed_one_way() -> None:
    asked = given(sl.LinearEstimator(1, 1), {"W": [[1.0]]}, [[1.0]], [[0.0]])
    found = sl.predict_steady_state(asked, Noise((0.1, 0.05, 0.0), mixing=0.7))
    assert found.kind == "none" and "never changes" in found.reason
    for verb in (sl.predict_steady_state, sl.simulate):
        with pytest.raises(sl.BadInputError, match=r"mixing must not be .* for one plastic"):
            verb(asked, Noise((0.1, 0.05, 0.0), mixing=0.5))


def test_a_local_drift_is_not_called_compensated() -> None:
    weights, x, y, _ = two_layers()
    network = sl.FeedForward((4, 6, 2))
    readout = sl.Allocation.whole(network, ["W2"])
    found = sl.noise.predict_drift(given(network, weights, x, y, readout), Noise((0, 0, 0.05)))
    assert found.schur_trace == 0.0 and found.local and not found.compensated


def test_command_says_that_there_is_none() -> None:
    asked = ["noise", "steady", "--network", "ffn:4-6-2", "--samples", "2", "--gamma", ".1,.3,.05"]
    asked += ["--learn", "W2:all", "--noise-on", "all", "--cycles", "60", "--repeats", "2"]
    found = CliRunner().invoke(app, asked)
    assert found.exit_code == 0, found.output
    assert (
        "predicted            none" in found.output and "No steady state is known" in found.output
    )
    assert "24 frozen weights walk at random" in found.output
    few = ["noise", "steady", "--network", "linear:inputs=3,outputs=1", "--samples", "5"]
    found = CliRunner().invoke(app, [*few, "--gamma", ".1,.3,.05", "--cycles", "60"])
    assert (
        "(bound)" in found.output
        and "few modes share" in found.output
        and "proved bounds" in found.output
    )


@pytest.mark.slow
def test_a_hundred_spectra() -> None:
    """Bounds in all; where many modes and short steps are at hand, the value within 5%."""
    rng = np.random.default_rng(21)
    limits = 0
    for cell in range(100):
        k = int(rng.choice([2, 3, 5, 8, 12, 20, 32]))
        size = k + int(rng.choice([0, k]))
        shapes = (
            rng.uniform(0.1, 1.0, k),
            np.geomspace(1.0, 10 ** -rng.uniform(0.2, 1.5), k),
            np.concatenate([[1.0], np.full(k - 1, 10 ** -rng.uniform(0.3, 1.5))]),
        )
        lam = shapes[rng.integers(3)]
        h, b = 10 ** rng.uniform(-1.3, -0.4), 10 ** rng.uniform(-0.7, 0) * math.sqrt(size) / 2
        c = float(rng.choice([0.0, 0.05, 0.2]))
        found = balance(lam, ModeNoise(b**2 / size, c**2, size, size), h)
        rate = 2.0 if math.isnan(found.step) else found.step
        slowest = lam.max() / (rate * lam.min())
        if slowest > 600:
            continue
        count = int(max(1500, 30 * slowest))
        mean, error = spectrum_cell(lam, size, h, b, c, count, repeats=40, seed=cell)
        assert found.lower - 4 * error <= mean <= found.upper + 4 * error
        if not doubt(found, 0.0):
            limits += 1
            assert mean == pytest.approx(found.excess, abs=3 * error + 0.05 * found.excess)
    assert limits >= 25
