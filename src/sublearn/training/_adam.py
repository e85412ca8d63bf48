"""Adam (Kingma and Ba, 2015)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sublearn._arrays import Floats
from sublearn._errors import fraction, positive
from sublearn.training._learner import Learner, State
from sublearn.training._objective import Objective
from sublearn.training._streams import Streams


@dataclass(frozen=True)
class AdamState(State):
    gradient: Floats
    mean: Floats  # moving average of the gradient
    square: Floats  # and of its square
    steps: int


@dataclass(frozen=True)
class Adam(Learner):
    """values <- values - rate * mean / (sqrt(square) + eps), both averages corrected for their start.

    mean <- beta1 mean + (1 - beta1) g and square <- beta2 square + (1 - beta2) g^2, with g the gradient
    on all samples (Algorithm 1 of Kingma and Ba, 2015). This is what the paper used on MNIST.
    """

    rate: float = 1e-2
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8

    name = "adam"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", positive("rate", self.rate))
        object.__setattr__(self, "beta1", fraction("beta1", self.beta1))
        object.__setattr__(self, "beta2", fraction("beta2", self.beta2))
        object.__setattr__(self, "eps", positive("eps", self.eps))

    def init(self, objective: Objective, values: Floats, streams: Streams) -> AdamState:
        found = objective.evaluate(values)
        zero = np.zeros_like(values)
        return AdamState(values, found.loss, found.right, found.gradient, zero, zero, 0)

    def step(self, objective: Objective, state: AdamState, streams: Streams) -> AdamState:
        g, count = state.gradient, state.steps + 1
        mean = self.beta1 * state.mean + (1 - self.beta1) * g
        square = self.beta2 * state.square + (1 - self.beta2) * g**2
        unbiased = mean / (1 - self.beta1**count)
        spread = np.sqrt(square / (1 - self.beta2**count))
        values = state.values - self.rate * unbiased / (spread + self.eps)
        found = objective.evaluate(values)
        return AdamState(values, found.loss, found.right, found.gradient, mean, square, count)
