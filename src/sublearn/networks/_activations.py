"""Activation functions with their first two derivatives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sublearn._arrays import Array


@dataclass(frozen=True)
class Activation:
    """phi, phi' and phi'', each as a function of the pre-activation."""

    value: Callable[[Array], Array]
    slope: Callable[[Array], Array]
    curvature: Callable[[Array], Array]


def _sigmoid(a: Array) -> Array:
    # The two branches keep exp from overflowing at either end.
    e = np.exp(-np.abs(a))
    return np.where(a >= 0, 1.0 / (1.0 + e), e / (1.0 + e))


def _sigmoid_slope(a: Array) -> Array:
    y = _sigmoid(a)
    return y * (1.0 - y)


def _sigmoid_curvature(a: Array) -> Array:
    y = _sigmoid(a)
    return y * (1.0 - y) * (1.0 - 2.0 * y)


def _tanh_curvature(a: Array) -> Array:
    y = np.tanh(a)
    return -2.0 * y * (1.0 - y**2)


ACTIVATIONS: dict[str, Activation] = {
    "linear": Activation(lambda a: a, np.ones_like, np.zeros_like),
    # The slope at 0 is 1, as in Lemma D.1 of the paper (P_i = 1 when v_i >= 0).
    "relu": Activation(
        lambda a: np.maximum(a, 0.0), lambda a: (a >= 0).astype(a.dtype), np.zeros_like
    ),
    "tanh": Activation(lambda a: np.tanh(a), lambda a: 1.0 - np.tanh(a) ** 2, _tanh_curvature),
    "sigmoid": Activation(_sigmoid, _sigmoid_slope, _sigmoid_curvature),
}
