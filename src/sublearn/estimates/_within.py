"""Match within eps: how often a learner brings the mean squared error below eps."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sublearn._arrays import Array
from sublearn._errors import one_of, positive, whole_number
from sublearn._intervals import clopper_pearson, confidence_sequence
from sublearn._seeds import Purpose, trial_key
from sublearn.allocations import Allocation, Rule
from sublearn.ensembles import Instance, Problem, draw
from sublearn.estimates._chunks import run_chunks
from sublearn.estimates._unfinished import keeping
from sublearn.training import (
    LEARNERS,
    Goal,
    Learner,
    LevenbergMarquardt,
    Objective,
    Streams,
    descend,
    learner_named,
    starting_values,
)
from sublearn.training._named import settings_of

CHUNK = 32  # instances that are trained at once
LARGEST_BATCH = 2**22  # numbers in the Jacobians of one batch
# Sizes of Levenberg-Marquardt's starts in units of frozen weights, taken in turn; others start at 1.
SCALES = (1.0, 3.0, 0.3, 10.0)


@dataclass(frozen=True)
class WithinTrial:
    """What is kept of one instance.

    ``error`` is the lowest mean squared error, ``square`` the mean square of the targets; ``starts``
    and ``steps`` are what it took to get there, or all that was spent.
    """

    trial: int
    within: bool
    error: float
    square: float
    starts: int
    steps: int


@dataclass(frozen=True, repr=False)
class WithinEstimate:
    """How many instances a learner brought within eps: mean squared error over the d m outputs < eps.

    This is the paper's criterion for ReLU networks (appendix E, eps = 1e-2). It is a fact about the
    learner, its ``steps`` and its ``starts`` as much as about the network, and never an exact match:
    an instance that came within eps may have no exact solution, and one that did not may have.
    ``confidence`` is the 95% interval of the share: Clopper-Pearson, or a confidence sequence when the
    run was allowed to stop early or was interrupted.
    """

    problem: Problem
    eps: float
    trials: int
    within: int
    confidence: tuple[float, float]
    learner: Learner
    steps: int
    starts: int
    seed: int
    records: tuple[WithinTrial, ...]
    seconds: float = field(compare=False, default=0.0)

    @property
    def share(self) -> float:
        """Instances within eps, of all."""
        return self.within / self.trials

    @property
    def relative_eps(self) -> float:
        """eps over the mean square of the targets, the median over the instances."""
        square = float(np.median([record.square for record in self.records]))
        return self.eps / square if square else float("inf")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; seconds stand apart from what is reproducible."""
        return {
            "network": self.problem.network.spec,
            "samples": self.problem.samples,
            "criterion": "mean squared error < eps",
            "eps": self.eps,
            "relative_eps": self.relative_eps,
            "learner": self.learner.name,
            "settings": settings_of(self.learner),
            "steps": self.steps,
            "starts": self.starts,
            "seed": self.seed,
            "trials": self.trials,
            "within": self.within,
            "not_reached": self.trials - self.within,
            "share": self.share,
            "confidence": list(self.confidence),
            "median_error": float(np.median([r.error for r in self.records])),
            "timing": {"seconds": self.seconds},
        }

    def __repr__(self) -> str:
        return f"<WithinEstimate {self}>"

    def __str__(self) -> str:
        low, high = self.confidence
        return (
            f"within eps = {self.eps:g} ({self.relative_eps:.2g} of the targets' mean square): share "
            f"{self.share:.4f} (95%: {low:.4f} to {high:.4f}); {self.learner.name} brought "
            f"{self.within} of {self.trials} instances there, {self.trials - self.within} not reached "
            f"in {self.starts} starts of {self.steps} steps"
        )


@dataclass(frozen=True)
class Job:
    """What a worker needs to know."""

    problem: Problem
    allocation: Allocation | Mapping[str, Rule]
    seed: int
    eps: float
    learner: Learner
    steps: int
    starts: int

    def decide(self, trials: range) -> list[WithinTrial]:
        """Train a chunk of instances at once, and keep what counts."""
        instances = [
            draw(self.problem, self.allocation, seed=self.seed, trial=trial) for trial in trials
        ]
        return [
            WithinTrial(
                trial,
                best.within,
                best.error,
                float(np.mean(instance.targets**2)),
                best.starts,
                best.steps,
            )
            for trial, instance, best in zip(
                trials, instances, self.train(trials, instances), strict=True
            )
        ]

    def train(self, trials: range, instances: list[Instance]) -> list[Best]:
        """The best of the starts of each instance, in the order of the instances.

        One start for each, then more and more for those not there yet.
        """
        best = [Best() for _ in instances]
        # What one row of a batch may need: the Jacobian of Levenberg-Marquardt.
        row = instances[0].equations * len(instances[0].allocation)
        most = max(1, LARGEST_BATCH // row)
        used, wave = 0, 1
        while used < self.starts:
            open_ones = [i for i, found in enumerate(best) if not found.within]
            if not open_ones:
                break
            wave = min(wave, self.starts - used, most)
            group = max(1, most // wave)
            for i in range(0, len(open_ones), group):
                self._wave(trials, instances, open_ones[i : i + group], best, used, wave)
            used += wave
            wave = used
        return best

    def _wave(
        self,
        trials: range,
        instances: list[Instance],
        chosen: list[int],
        best: list[Best],
        first: int,
        count: int,
    ) -> None:
        """Starts number ``first`` to ``first + count`` of the instances that are not there yet."""
        numbers = range(first, first + count)
        digest = self.problem.digest
        keys = [
            (*trial_key(digest, trials[i], Purpose.TRAINING), start)
            for i in chosen
            for start in numbers
        ]
        streams = Streams(self.seed, keys)
        mine = [instances[i] for i in chosen]
        values = starting_values(mine, streams, count)
        if isinstance(self.learner, LevenbergMarquardt):
            sizes = [SCALES[start % len(SCALES)] for start in numbers]
            values *= np.tile(sizes, len(mine))[:, None]
        found = descend(
            Objective(mine, starts=count),
            self.learner,
            values,
            steps=self.steps,
            goal=Goal(eps=self.eps),
            streams=streams,
        )
        for place, i in enumerate(chosen):
            rows = slice(place * count, (place + 1) * count)
            best[i].add(
                found.loss[rows], found.reached[rows], found.steps[rows], found.values[rows]
            )


class Best:
    """The best of the starts of one instance, in the order of their numbers."""

    def __init__(self) -> None:
        self.within, self.error, self.starts, self.steps = False, float("inf"), 0, 0
        self.values: Array | None = None

    def add(self, errors: Any, reached: Any, steps: Any, values: Any) -> None:
        """Some more starts; those behind the first that is within eps do not count."""
        for error, there, count, found in zip(errors, reached, steps, values, strict=True):
            self.starts += 1
            self.steps += int(count)
            if there or error < self.error:
                self.error, self.values = float(error), found
            if there:
                self.within = True
                return


def settled(
    problem: Problem,
    allocation: Allocation | Mapping[str, Rule],
    seed: int,
    eps: float,
    method: str | Learner | None,
    steps: int | None,
    starts: int | None,
) -> Job:
    """The job, with what was left open filled in."""
    learner = method if isinstance(method, Learner) else None
    if learner is None:
        name = "levenberg-marquardt" if method is None else one_of("method", method, LEARNERS)
        learner = learner_named(name)
    if steps is None:
        steps = 200 if isinstance(learner, LevenbergMarquardt) else 2000
    whole_number("steps", steps, least=1)
    starts = whole_number("starts", 10 if starts is None else starts, least=1)
    return Job(problem, allocation, seed, positive("eps", eps), learner, steps, starts)


def within(
    problem: Problem,
    allocation: Allocation | Mapping[str, Rule],
    trials: int,
    *,
    eps: float,
    method: str | Learner | None,
    steps: int | None,
    starts: int | None,
    seed: int,
    precision: float | None,
    workers: int,
    executor: Executor | None,
    progress: Callable[[WithinEstimate], None] | None,
) -> WithinEstimate:
    """See :func:`sublearn.estimate` with ``eps``."""
    begun = time.perf_counter()
    job = settled(problem, allocation, seed, eps, method, steps, starts)
    records: list[WithinTrial] = []

    def interval(early: bool) -> tuple[float, float]:
        count, there = len(records), sum(record.within for record in records)
        return (confidence_sequence if early else clopper_pearson)(there, count)

    def summary(early: bool = precision is not None) -> WithinEstimate:
        there = sum(record.within for record in records)
        seconds = time.perf_counter() - begun
        return WithinEstimate(
            problem, job.eps, len(records), there, interval(early), job.learner, job.steps,
            job.starts, seed, tuple(records), seconds,
        )  # fmt: skip

    with keeping(records, lambda: summary(early=True)):
        for chunk in run_chunks(job, trials, workers, executor, CHUNK):
            for record in chunk:
                records.append(record)
                if precision is not None:
                    low, high = interval(early=True)
                    if (high - low) / 2 <= precision:
                        return summary()
            if progress is not None:
                progress(summary())
    return summary()
