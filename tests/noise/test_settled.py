"""Steady states are detected, not assumed."""

from __future__ import annotations

import numpy as np
import pytest

import sublearn as sl


def curves(repeats: int, cycles: int, seed: int, memory: float = 0.95) -> np.ndarray:
    """1 plus noise that remembers, of standard deviation about .15."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((repeats, cycles + 200)) * 0.15 * np.sqrt(1 - memory**2)
    out = np.zeros((repeats, cycles + 200))
    for t in range(1, cycles + 200):
        out[:, t] = memory * out[:, t - 1] + noise[:, t]
    return 1.0 + out[:, 200:]


def test_level_curves_are_steady_and_the_error_is_honest() -> None:
    found = [sl.noise.find_steady_state(curves(12, 800, seed)) for seed in range(60)]
    assert sum(f.reached for f in found) >= 57
    inside = [abs(f.mean - 1.0) < 2.2 * f.standard_error for f in found]  # Student, 11 df: 95%
    assert sum(inside) >= 51


def test_a_descent_is_cut_off() -> None:
    for seed in range(10):
        fall = 3.0 * np.exp(-np.arange(1500) / 80)
        found = sl.noise.find_steady_state(curves(12, 1500, seed) + fall)
        assert found.reached and found.start > 100
        assert found.mean == pytest.approx(1.0, abs=0.06)


@pytest.mark.parametrize("repeats", [1, 12])
def test_curves_that_still_move_are_not_steady(repeats: int) -> None:
    time = np.arange(800)
    for seed in range(10):
        level = curves(repeats, 800, seed, memory=0.5)
        falling = sl.noise.find_steady_state(level + 3.0 * np.exp(-time / 1000))
        rising = sl.noise.find_steady_state(level + time / 400)
        assert not falling.reached and falling.change < 0
        assert not rising.reached and rising.change > 0
        # A fall is by a positive number.
        for found, way in ((falling, "falling"), (rising, "rising")):
            words = f"still {way} in the last half of 800 cycles, by {abs(found.change):.2g} +- "
            assert found.reason.startswith(words)


def test_curves_too_noisy_to_tell_are_not_called_steady() -> None:
    rough = 1.0 + 4.0 * (curves(3, 400, 5, memory=0.99) - 1.0)
    found = sl.noise.find_steady_state(rough)
    assert not found.reached and found.reason


def test_one_repeat_has_an_error_too() -> None:
    found = [sl.noise.find_steady_state(curves(1, 2000, seed, memory=0.5)) for seed in range(40)]
    inside = [abs(f.mean - 1.0) < 2.4 * f.standard_error for f in found]
    assert sum(inside) >= 33
    assert sum(f.reached for f in found) >= 30


def test_few_cycles_and_bad_curves() -> None:
    assert not sl.noise.find_steady_state(np.ones((3, 10))).reached
    assert sl.noise.find_steady_state(np.ones((3, 100))).reached  # level to the last digit
    for bad in (np.empty((0, 5)), np.full((2, 50), np.nan), np.ones((2, 2, 50))):
        with pytest.raises(sl.BadInputError, match="errors"):
            sl.noise.find_steady_state(bad)
