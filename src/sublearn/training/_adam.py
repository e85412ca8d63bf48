"""Adam (Kingma and Ba, 2015)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sublearn._arrays import Floats, Indices
from sublearn._errors import fraction, positive
from sublearn.training._learner import Learner, State, check_settings
from sublearn.training._objective import Objective
from sublearn.training._streams import Streams


@dataclass(frozen=True)
class AdamState(State):
    gradient: Floats
    scale: Floats  # whose square is averaged: the gradient again, or a guess of the curvature
    mean: Floats  # moving average of the gradient
    square: Floats  # and of the squared scale
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
        check_settings(self, rate=positive, beta1=fraction, beta2=fraction, eps=positive)

    def init(self, objective: Objective, values: Floats, streams: Streams) -> AdamState:
        zero = np.zeros_like(values)
        return AdamState(values, *self.look(objective, values, streams), zero, zero, 0)

    def step(self, objective: Objective, state: AdamState, streams: Streams) -> AdamState:
        count = state.steps + 1
        mean = self.beta1 * state.mean + (1 - self.beta1) * state.gradient
        square = self.beta2 * state.square + (1 - self.beta2) * state.scale**2
        unbiased = mean / (1 - self.beta1**count)
        spread = self.spread(np.sqrt(square / (1 - self.beta2**count)))
        values = state.values - self.rate * unbiased / (spread + self.eps)
        return AdamState(values, *self.look(objective, values, streams), mean, square, count)

    def look(
        self, objective: Objective, values: Floats, streams: Streams
    ) -> tuple[Floats, Indices | None, Floats, Floats]:
        """Loss, labels right, gradient and scale at some values."""
        seen = objective.evaluate(values)
        return seen.loss, seen.right, seen.gradient, seen.gradient

    def spread(self, root: Floats) -> Floats:
        """What a step is divided by, but for eps, from the root of the averaged square."""
        return root
