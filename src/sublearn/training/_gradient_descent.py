"""Gradient descent on all samples."""

from __future__ import annotations

from dataclasses import dataclass

from sublearn._arrays import Floats
from sublearn._errors import positive
from sublearn.training._learner import Learner, State, check_settings
from sublearn.training._objective import Objective
from sublearn.training._streams import Streams


@dataclass(frozen=True)
class GradientState(State):
    gradient: Floats


@dataclass(frozen=True)
class GradientDescent(Learner):
    """values <- values - rate * gradient.

    >>> GradientDescent(rate=0.05).name
    'gradient-descent'
    """

    rate: float = 0.1

    name = "gradient-descent"

    def __post_init__(self) -> None:
        check_settings(self, rate=positive)

    def init(self, objective: Objective, values: Floats, streams: Streams) -> GradientState:
        seen = objective.evaluate(values)
        return GradientState(values, seen.loss, seen.right, seen.gradient)

    def step(self, objective: Objective, state: GradientState, streams: Streams) -> GradientState:
        return self.init(objective, state.values - self.rate * state.gradient, streams)
