"""Stochastic gradient descent: mini-batches, momentum."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from sublearn._arrays import Floats
from sublearn._errors import fraction, positive, whole_number
from sublearn.training._learner import Learner, State, check_settings
from sublearn.training._objective import Objective
from sublearn.training._streams import Streams


@dataclass(frozen=True)
class SGDState(State):
    velocity: Floats


@dataclass(frozen=True)
class SGD(Learner):
    """velocity <- momentum * velocity + g, values <- values - rate * velocity (Polyak 1964).

    g is the gradient on a mini-batch of ``size`` samples; mini-batches run through a random order of
    the samples, drawn anew for each epoch. More samples than there are means all of them.
    """

    rate: float = 0.1
    size: int = 32
    momentum: float = 0.0

    name = "sgd"

    def __post_init__(self) -> None:
        check_settings(self, rate=positive, size=partial(whole_number, least=1), momentum=fraction)

    def init(self, objective: Objective, values: Floats, streams: Streams) -> SGDState:
        seen = objective.evaluate(values)
        return SGDState(values, seen.loss, seen.right, np.zeros_like(values))

    def step(self, objective: Objective, state: SGDState, streams: Streams) -> SGDState:
        samples = objective.samples
        chosen = streams.mini_batches(samples, min(self.size, samples))
        seen = objective.at(chosen).evaluate(state.values)
        velocity = self.momentum * state.velocity + seen.gradient
        values = state.values - self.rate * velocity
        return SGDState(values, seen.loss, seen.right, velocity)

    def epoch(self, objective: Objective) -> int:
        return objective.samples // min(self.size, objective.samples)
