"""Losses of the outputs, with the two derivatives that learners need."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from sublearn._arrays import Floats


class Loss(ABC):
    """A function of outputs Y and targets, both (..., d, m), that is small when they agree."""

    @property
    @abstractmethod
    def name(self) -> str:
        """As it is asked for."""

    def value(self, outputs: Floats, targets: Floats) -> Floats:
        """The loss, (...)."""
        return self.value_and_slope(outputs, targets)[0]

    @abstractmethod
    def value_and_slope(self, outputs: Floats, targets: Floats) -> tuple[Floats, Floats]:
        """The loss, and d loss / d outputs, (..., d, m)."""

    @abstractmethod
    def curvature(self, outputs: Floats, targets: Floats, tangent: Floats) -> Floats:
        """Derivative of the slope along a change ``tangent`` of the outputs, (..., d, m)."""


class SquaredError(Loss):
    """Mean of (y - target)^2 over the d m outputs: what the paper calls MSE."""

    name = "squared error"

    def value_and_slope(self, outputs: Floats, targets: Floats) -> tuple[Floats, Floats]:
        difference = outputs - targets
        count = outputs.shape[-1] * outputs.shape[-2]
        value: Floats = np.einsum("...ij,...ij->...", difference, difference) / count
        difference *= 2.0 / count
        return value, difference

    def curvature(self, outputs: Floats, targets: Floats, tangent: Floats) -> Floats:
        out: Floats = tangent * (2.0 / (outputs.shape[-1] * outputs.shape[-2]))
        return out


class CrossEntropy(Loss):
    """Mean over the samples of -log softmax(y)[label]; targets are one-hot."""

    name = "cross-entropy"

    def value_and_slope(self, outputs: Floats, targets: Floats) -> tuple[Floats, Floats]:
        lowered = outputs - outputs.max(axis=-2, keepdims=True)  # exp cannot overflow
        said: Floats = np.einsum("...ij,...ij->...j", targets, lowered)
        raised = np.exp(lowered, out=lowered)
        total = raised.sum(axis=-2)
        value = (np.log(total) - said).mean(axis=-1)
        raised /= total[..., None, :]
        raised -= targets
        raised /= outputs.shape[-1]
        return value, raised

    def curvature(self, outputs: Floats, targets: Floats, tangent: Floats) -> Floats:
        raised = np.exp(outputs - outputs.max(axis=-2, keepdims=True))
        chance = raised / raised.sum(axis=-2, keepdims=True)
        weighted = chance * tangent
        out: Floats = weighted - chance * weighted.sum(axis=-2, keepdims=True)
        out /= outputs.shape[-1]
        return out


LOSSES: dict[str, Loss] = {loss.name: loss for loss in (SquaredError(), CrossEntropy())}
