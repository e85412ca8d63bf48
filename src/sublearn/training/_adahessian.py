"""AdaHessian (Yao, Gholami, Shen, Mustafa, Keutzer and Mahoney, AAAI 2021)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sublearn._arrays import Floats
from sublearn._errors import fraction, positive
from sublearn.training._learner import Learner, State
from sublearn.training._objective import Objective
from sublearn.training._streams import Streams


@dataclass(frozen=True)
class AdaHessianState(State):
    gradient: Floats
    diagonal: Floats  # Hutchinson's estimate of the Hessian's diagonal
    mean: Floats  # moving average of the gradient
    square: Floats  # and of the squared diagonal
    steps: int


@dataclass(frozen=True)
class AdaHessian(Learner):
    """values <- values - rate * mean / (sqrt(square)^power + eps), averages corrected for their start.

    mean <- beta1 mean + (1 - beta1) g and square <- beta2 square + (1 - beta2) D^2, where
    D = z * (H z), z of independent random signs, estimates the diagonal of the Hessian H without bias
    (Hutchinson). Of the original, spatial averaging is off: the matrices here are no convolutions. This
    is what the paper used for ReLU networks; it states no settings, and the defaults are those of the
    original.
    """

    rate: float = 0.15
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-4
    power: float = 1.0

    name = "adahessian"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", positive("rate", self.rate))
        object.__setattr__(self, "beta1", fraction("beta1", self.beta1))
        object.__setattr__(self, "beta2", fraction("beta2", self.beta2))
        object.__setattr__(self, "eps", positive("eps", self.eps))
        object.__setattr__(self, "power", positive("power", self.power))

    def init(self, objective: Objective, values: Floats, streams: Streams) -> AdaHessianState:
        zero = np.zeros_like(values)
        return self._look(objective, values, zero, zero, 0, streams)

    def step(
        self, objective: Objective, state: AdaHessianState, streams: Streams
    ) -> AdaHessianState:
        count = state.steps + 1
        mean = self.beta1 * state.mean + (1 - self.beta1) * state.gradient
        square = self.beta2 * state.square + (1 - self.beta2) * state.diagonal**2
        unbiased = mean / (1 - self.beta1**count)
        spread = np.sqrt(square / (1 - self.beta2**count)) ** self.power
        values = state.values - self.rate * unbiased / (spread + self.eps)
        return self._look(objective, values, mean, square, count, streams)

    @staticmethod
    def _look(
        objective: Objective,
        values: Floats,
        mean: Floats,
        square: Floats,
        steps: int,
        streams: Streams,
    ) -> AdaHessianState:
        z = streams.signs(objective.size).astype(objective.dtype)
        found, product = objective.evaluate_second(values, z)
        return AdaHessianState(
            values, found.loss, found.right, found.gradient, z * product, mean, square, steps
        )
