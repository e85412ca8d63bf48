"""The interface that every learner keeps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np

from sublearn._arrays import Floats, Indices, Mask
from sublearn.training._objective import Objective
from sublearn.training._streams import Streams


@dataclass(frozen=True)
class State:
    """Where a learner stands: every array has a row for each row of the batch.

    ``loss`` and ``right`` are those at ``values``, over all samples; where the learner takes mini-batches
    (:meth:`Learner.epoch`) they are those it saw last. A learner adds what it carries along.
    """

    values: Floats
    loss: Floats
    right: Indices | None

    def select(self, kept: Any) -> Self:
        """The state of some rows only."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        arrays = {n: value[kept] for n, value in values.items() if isinstance(value, np.ndarray)}
        return replace(self, **arrays)


def check_settings(learner: Learner, **checks: Callable[[str, object], Any]) -> None:
    """Settings as plain numbers, each by its check, which refuses it by name."""
    for name, check in checks.items():
        object.__setattr__(learner, name, check(name, getattr(learner, name)))


class Learner(ABC):
    """A rule that moves the learnable weights of a batch, one step at a time.

    A learner is an immutable value that holds its settings and nothing else. It draws random numbers
    only from the streams it is given, and rows of a batch never influence each other.
    """

    usual_steps: ClassVar[int] = 2000
    """From each start, unless told."""
    most_steps: ClassVar[int | None] = None
    """More of them are not worth their time; None: they may be."""
    scales: ClassVar[tuple[float, ...]] = (1.0,)
    """Sizes of its starts in units of frozen weights, taken in turn."""

    @property
    @abstractmethod
    def name(self) -> str:
        """As it is asked for."""

    @abstractmethod
    def init(self, objective: Objective, values: Floats, streams: Streams) -> State:
        """The state at the starting values (batch, r)."""

    @abstractmethod
    def step(self, objective: Objective, state: Any, streams: Streams) -> State:
        """One step for every row; ``state`` is what this learner returned last."""

    def stuck(self, state: Any) -> Mask | None:
        """Which rows have given up, because no step of this learner helps them; None: none."""
        return None

    def epoch(self, objective: Objective) -> int | None:
        """How many steps see every sample once, for learners that take mini-batches; else None.

        The loss and the labels right in the state of the former are those of the last mini-batch.
        """
        return None
