"""What the tests of learners compare with: the textbook updates on whole matrices, with a mask.

Nothing here folds, gathers or batches. Gradients and Hessians are written out for the two problems used:
least squares Y = W X, and a shallow ReLU network of which only W1 learns. Away from kinks both are
piecewise quadratic, so the Hessian times a vector is (2 / d m) J' J v.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

import sublearn as sl

Array = NDArray[np.float64]


@dataclass
class Dense:
    """One instance as plain matrices; ``learns`` is the weight with the mask."""

    instance: sl.Instance
    learns: str
    weights: dict[str, Array]
    mask: Array
    moments: dict[str, Array] = field(default_factory=dict)

    @classmethod
    def of(cls, instance: sl.Instance, values: Array) -> Dense:
        (name,) = instance.allocation.names
        return cls(
            instance,
            name,
            instance.with_values(values),
            instance.allocation.mask(name).astype(np.float64),
        )

    @property
    def w(self) -> Array:
        return self.weights[self.learns]

    def parts(self, samples: NDArray[np.int64] | None) -> tuple[Array, Array, Array, Array]:
        """Outputs, targets, inputs, and d output / d (row of the learning weight), (d, n, m)."""
        x, y = self.instance.inputs, self.instance.targets
        if samples is not None:
            x, y = x[:, samples], y[:, samples]
        if self.learns == "W":
            left = np.repeat(np.eye(y.shape[0])[:, :, None], x.shape[1], axis=2)
            return self.w @ x, y, x, left
        before = self.w @ x
        out = self.weights["W2"]
        return out @ np.maximum(before, 0), y, x, out[:, :, None] * (before >= 0)[None]

    def gradient(self, samples: NDArray[np.int64] | None = None) -> Array:
        outputs, y, x, left = self.parts(samples)
        full = np.einsum("os,ois,js->ij", (2.0 / y.size) * (outputs - y), left, x)
        return full * self.mask

    def hessian_times(self, v: Array) -> Array:
        _, y, x, left = self.parts(None)
        moved = np.einsum("ois,ij,js->os", left, v, x)
        return np.einsum("os,ois,js->ij", (2.0 / y.size) * moved, left, x) * self.mask

    def momentum(self, name: str) -> Array:
        return self.moments.setdefault(name, np.zeros_like(self.w))

    # The updates, each from its paper.

    def gradient_descent(self, rate: float) -> None:
        self.weights[self.learns] = self.w - rate * self.gradient()

    def sgd(self, rate: float, momentum: float, samples: NDArray[np.int64]) -> None:
        self.moments["v"] = momentum * self.momentum("v") + self.gradient(samples)
        self.weights[self.learns] = self.w - rate * self.moments["v"]

    def adam(self, t: int, rate: float, b1: float, b2: float, eps: float) -> None:
        g = self.gradient()
        self.moments["m"] = b1 * self.momentum("m") + (1 - b1) * g
        self.moments["v"] = b2 * self.momentum("v") + (1 - b2) * g * g
        m, v = self.moments["m"] / (1 - b1**t), self.moments["v"] / (1 - b2**t)
        self.weights[self.learns] = self.w - rate * m / (np.sqrt(v) + eps)

    def adahessian(
        self, t: int, z: Array, rate: float, b1: float, b2: float, eps: float, power: float
    ) -> None:
        """Algorithm 1 of Yao et al. (2021) with block size 1; z holds the random signs."""
        g, d = self.gradient(), z * self.hessian_times(z)
        self.moments["m"] = b1 * self.momentum("m") + (1 - b1) * g
        self.moments["v"] = b2 * self.momentum("v") + (1 - b2) * d * d
        m, v = self.moments["m"] / (1 - b1**t), self.moments["v"] / (1 - b2**t)
        self.weights[self.learns] = self.w - rate * m / (np.sqrt(v) ** power + eps)
