"""Running a learner on a batch until its goal is reached or its steps are spent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sublearn._arrays import Floats, Indices, Mask
from sublearn._errors import BadInputError, positive, whole_number
from sublearn._interrupts import heed
from sublearn._threads import single_thread
from sublearn.ensembles import Instance
from sublearn.training._learner import Learner
from sublearn.training._objective import Objective
from sublearn.training._streams import Streams

Watch = Callable[[int, Floats], None]


@dataclass(frozen=True)
class Goal:
    """When a row has learned enough: ``eps``, a loss below it; ``labels``, every label right.

    With neither, all steps are made and nothing counts as reached.
    """

    eps: float | None = None
    labels: bool = False

    def __post_init__(self) -> None:
        if self.eps is not None:
            object.__setattr__(self, "eps", positive("eps", self.eps))

    @property
    def words(self) -> str:
        """The goal in words."""
        parts = ["every label right"] if self.labels else []
        parts += [] if self.eps is None else [f"mean squared error < {self.eps:g}"]
        return " and ".join(parts) or "none"

    def reached(self, loss: Floats, right: Indices | None, samples: int) -> Mask:
        """Which rows are there: all that was asked for holds."""
        out = np.full(loss.shape, self.labels or self.eps is not None)
        if self.eps is not None:
            out &= loss < self.eps
        if self.labels:
            if right is None:
                raise BadInputError("the goal labels needs targets that are labels (one-hot).")
            out &= right == samples
        return out


@dataclass(frozen=True, repr=False)
class Descent:
    """Where a batch came to: for each row the values with the lowest loss, and what they give.

    A row that reaches the goal stops there and keeps those values. ``steps`` counts its steps.
    ``looks`` are the steps at which ``curve`` (looks, batch) holds the loss over all samples; behind
    the last step of a row it is nan.
    """

    values: Floats
    loss: Floats
    right: Indices | None
    reached: Mask
    steps: Indices
    looks: Indices
    curve: Floats


def descend(
    objective: Objective,
    learner: Learner,
    values: Floats,
    *,
    steps: int,
    goal: Goal,
    streams: Streams,
    watch: Watch | None = None,
) -> Descent:
    """At most ``steps`` steps of the learner for every row of the batch.

    A row is left alone once it has reached the goal, its learner has given it up, or its loss is no
    longer finite. ``watch`` is
    called with the number of steps and the losses so far at every look, which is at every step, or once
    an epoch for learners that take mini-batches.
    """
    whole_number("steps", steps, least=0)
    with single_thread(), np.errstate(over="ignore", invalid="ignore"):
        batch, epoch = objective.batch, learner.epoch(objective)
        rows = np.arange(batch)  # of the batch as it was given, those still under way
        state = learner.init(objective, np.asarray(values, dtype=objective.dtype), streams)
        best, lowest = np.array(state.values), np.full(batch, np.inf)
        labels, made = np.zeros(batch, dtype=np.int64), np.zeros(batch, dtype=np.int64)
        reached = np.zeros(batch, dtype=bool)
        looks, curve = [], []
        for step in range(steps + 1):
            heed()
            if step:
                state = learner.step(objective, state, streams)
            if step % (epoch or 1) and step < steps:
                continue
            # Of learners that take mini-batches the state's loss is that of the last one.
            here = state if epoch is None else objective.evaluate(state.values)
            loss, right = here.loss, here.right
            made[rows] = step
            there = goal.reached(loss, right, objective.samples)
            reached[rows] = there
            better = there | (loss < lowest[rows])
            chosen = rows[better]
            best[chosen] = state.values[better]
            lowest[chosen] = loss[better]
            if right is not None:
                labels[chosen] = right[better]
            line = np.full(batch, np.nan)
            line[rows] = loss
            looks.append(step)
            curve.append(line)
            if watch is not None:
                watch(step, line)
            going = ~there & np.isfinite(loss)
            stuck = learner.stuck(state)
            if stuck is not None:
                going &= ~stuck
            rows = rows[going]
            if not rows.size:
                break
            if rows.size < going.size:
                objective, state = objective.select(going), state.select(going)
                streams = streams.select(going)
        labelled = labels if objective.has_labels else None
        return Descent(best, lowest, labelled, reached, made, np.array(looks), np.array(curve))


def starting_values(
    instances: Sequence[Instance], streams: Streams, starts: int, scale: float = 1.0
) -> Floats:
    """Random starts, N(0, scale^2 / row length) as frozen weights are drawn (appendix E.3).

    Row a of the result is a start for instance a // starts.
    """
    degrees = np.stack([instance.in_degrees for instance in instances])
    spread = scale / np.sqrt(np.repeat(degrees, starts, axis=0))
    return np.asarray(spread * streams.normal(spread.shape[1]))
