"""The activations of the machine code against numpy in extended precision."""

from __future__ import annotations

import numpy as np
import pytest

from sublearn.networks.packed import ACTIVATION_CODES
from sublearn.noise._simulate_activations import activate

WIDE = np.concatenate([np.linspace(-80, 80, 4001), np.linspace(-1, 1, 4001)])


def both(name: str, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    state, slope = x.copy(), np.empty_like(x)
    activate(ACTIVATION_CODES[name], state, slope)
    return state, slope


@pytest.mark.parametrize("dtype, close", [(np.float32, 1e-6), (np.float64, 1e-15)])
def test_sigmoid_to_rounding(dtype: type, close: float) -> None:
    x = WIDE.astype(dtype)
    state, slope = both("sigmoid", x)
    exact = 1 / (1 + np.exp(-x.astype(np.longdouble)))
    assert np.abs(state / exact - 1).max() < close
    assert np.abs(slope - exact * (1 - exact)).max() < close


@pytest.mark.parametrize("dtype, close", [(np.float32, 1e-6), (np.float64, 1e-15)])
def test_tanh_to_rounding(dtype: type, close: float) -> None:
    x = WIDE.astype(dtype)
    state, slope = both("tanh", x)
    exact = np.tanh(x.astype(np.longdouble))
    assert np.abs(state - exact).max() < close
    assert np.abs(slope - (1 - exact**2)).max() < 3 * close


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_far_inputs_saturate_without_nan(dtype: type) -> None:
    state, slope = both("sigmoid", np.array([-1e30, -750, 750, 1e30], dtype=dtype))
    assert np.allclose(state, [0, 0, 1, 1], rtol=0, atol=1e-30)
    assert np.allclose(slope, 0, rtol=0, atol=1e-30)
