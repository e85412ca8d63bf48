"""Match within eps: how often a learner brings the mean squared error below eps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Unpack

import numpy as np

from sublearn._arrays import Array
from sublearn._errors import one_of, positive, whole_number
from sublearn._seeds import Purpose, trial_key
from sublearn.allocations import Allocation, Rule
from sublearn.ensembles import Instance, Problem
from sublearn.estimates._count import Counted, HowFar, Question, count_trials
from sublearn.estimates._files import learner_of
from sublearn.training import (
    LEARNERS,
    Descent,
    Goal,
    Learner,
    Objective,
    Streams,
    descend,
    learner_named,
    settings_of,
    starting_values,
)

LARGEST_BATCH = 2**22  # numbers in the Jacobians of one batch
NEWTON = "levenberg-marquardt"


@dataclass(frozen=True, init=False)
class Within:
    """A mean squared error below ``eps``, reached by a learner: at most ``steps`` from each of ``starts``.

    Unless told, Levenberg-Marquardt has 200 steps and the others 2000, from 10 starts.

    >>> Within(eps=1e-2, learner="adam").steps
    2000
    """

    eps: float
    learner: Learner
    steps: int
    starts: int

    def __init__(
        self,
        eps: float,
        learner: str | Learner = NEWTON,
        steps: int | None = None,
        starts: int | None = None,
    ) -> None:
        if not isinstance(learner, Learner):
            learner = learner_named(one_of("learner", learner, LEARNERS))
        usual = learner.usual_steps
        values = {
            "eps": positive("eps", eps),
            "learner": learner,
            "steps": whole_number("steps", usual if steps is None else steps, least=1),
            "starts": whole_number("starts", 10 if starts is None else starts, least=1),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)


def within_of(plain: Mapping[str, Any]) -> Within:
    """What a file says of it."""
    return Within(**{**plain, "learner": learner_of(plain["learner"])})


class WithinTrial(NamedTuple):
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


@dataclass(frozen=True, kw_only=True)
class WithinQuestion(Question[WithinTrial]):
    """Does a learner bring the instance within eps? The instances of a chunk are trained at once."""

    by: Within

    chunk = 32
    parts = {"by": within_of}  # noqa: RUF012

    def answer(self, trials: range) -> list[WithinTrial]:
        instances = [self.draw(trial) for trial in trials]
        squares = (float(np.mean(instance.targets**2)) for instance in instances)
        trained = zip(trials, squares, self.train(trials, instances), strict=True)
        return [
            WithinTrial(trial, best.within, best.error, square, best.starts, best.steps)
            for trial, square, best in trained
        ]

    def train(self, trials: range, instances: list[Instance]) -> list[BestStart]:
        """The best of the starts of each instance, in the order of the instances.

        One start for each, then more and more for those not there yet.
        """
        best = [BestStart() for _ in instances]
        # What one row of a batch may need: the Jacobian of Levenberg-Marquardt.
        row = instances[0].equations * len(instances[0].allocation)
        most = max(1, LARGEST_BATCH // row)
        used, wave = 0, 1
        while used < self.by.starts:
            open_ones = [i for i, one in enumerate(best) if not one.within]
            if not open_ones:
                break
            wave = min(wave, self.by.starts - used, most)
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
        best: list[BestStart],
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
        scales = self.by.learner.scales
        sizes = [scales[start % len(scales)] for start in numbers]
        values *= np.tile(sizes, len(mine))[:, None]
        ended = descend(
            Objective(mine, starts=count),
            self.by.learner,
            values,
            steps=self.by.steps,
            goal=Goal(eps=self.by.eps),
            streams=streams,
        )
        for place, i in enumerate(chosen):
            rows = slice(place * count, (place + 1) * count)
            best[i].add(ended, rows)


class BestStart:
    """The best of the starts of one instance, in the order of their numbers."""

    def __init__(self) -> None:
        self.within, self.error, self.starts, self.steps = False, float("inf"), 0, 0
        self.values: Array | None = None

    def add(self, ended: Descent, rows: slice) -> None:
        """Some more starts; those behind the first that is within eps do not count."""
        for row in range(rows.start, rows.stop):
            self.starts += 1
            self.steps += int(ended.steps[row])
            self.within = bool(ended.reached[row])
            if self.within or ended.loss[row] < self.error:
                self.error, self.values = float(ended.loss[row]), ended.values[row]
            if self.within:
                return


@dataclass(frozen=True, repr=False)
class WithinEstimate(Counted[WithinQuestion, WithinTrial]):
    """How many instances a learner brought within eps: mean squared error over the d m outputs < eps.

    This is the paper's criterion for ReLU networks (appendix E, eps = 1e-2). It is a fact about the
    learner, its ``steps`` and its ``starts`` as much as about the network, and never an exact match:
    an instance that came within eps may have no exact solution, and one that did not may have.
    """

    outcomes = ("within eps", "undecided", "not reached")
    asks = WithinQuestion
    record = WithinTrial

    @staticmethod
    def counts(record: WithinTrial) -> bool:
        return record.within

    @property
    def eps(self) -> float:
        """The bound on the mean squared error."""
        return self.question.by.eps

    @property
    def learner(self) -> Learner:
        """Who trained."""
        return self.question.by.learner

    @property
    def steps(self) -> int:
        """Allowed from each start."""
        return self.question.by.steps

    @property
    def starts(self) -> int:
        """Allowed for each instance."""
        return self.question.by.starts

    @property
    def within(self) -> int:
        """Instances within eps."""
        return self.bounds[0]

    @property
    def from_first(self) -> int:
        """Instances that the first start brought within eps."""
        return sum(record.within and record.starts == 1 for record in self.records)

    @property
    def median_error(self) -> float:
        """The lowest mean squared error, the median over the instances."""
        return float(np.median([record.error for record in self.records]))

    @property
    def relative_eps(self) -> float:
        """eps over the mean square of the targets, the median over the instances."""
        square = float(np.median([record.square for record in self.records]))
        return self.eps / square if square else float("inf")

    @property
    def brief(self) -> str:
        return f"{self.learner.name}: {self.within} within eps"

    def facts(self) -> dict[str, Any]:
        return {
            "criterion": "mean squared error < eps",
            **self.plain("eps", "relative_eps"),
            "learner": self.learner.name,
            "settings": settings_of(self.learner),
            **self.plain("steps", "starts", "within"),
            "not_reached": self.trials - self.within,
            **self.plain("share", "confidence", "median_error"),
        }

    def __str__(self) -> str:
        low, high = self.confidence
        return (
            f"within eps = {self.eps:g} ({self.relative_eps:.2g} of the targets' mean square): share "
            f"{self.share:.4f} (95%: {low:.4f} to {high:.4f}); {self.learner.name} brought "
            f"{self.within} of {self.trials} instances there, {self.trials - self.within} not reached "
            f"in {self.starts} starts of {self.steps} steps"
        )


def estimate_within(
    problem: Problem,
    allocation: Allocation | Mapping[str, Rule],
    trials: int = 1000,
    *,
    eps: float,
    learner: str | Learner = NEWTON,
    steps: int | None = None,
    starts: int | None = None,
    seed: int = 0,
    **how: Unpack[HowFar[WithinEstimate]],
) -> WithinEstimate:
    """Draw instances of a problem, train each, and count those with a mean squared error below ``eps``.

    ``learner`` is a learner or its name ("levenberg-marquardt", "adahessian", "adam", "sgd",
    "gradient-descent"), with at most ``steps`` steps from each of ``starts`` random starts. "Not reached"
    is not "no", and within eps is not an exact match, which :func:`sublearn.estimate` counts; the other
    arguments are as there, and the instances are the same.

    >>> import sublearn as sl
    >>> relu = sl.Problem(sl.FeedForward((6, 8, 4), activation="relu"), samples=6)
    >>> w = sl.estimate_within(relu, {"W1": sl.FirstRows(8)}, trials=20, eps=1e-2)
    >>> 0 < w.within < w.trials
    True
    """
    question = WithinQuestion(problem, allocation, seed, by=Within(eps, learner, steps, starts))
    return count_trials(WithinEstimate(question), trials, **how)
