"""Solved fraction: how many instances a learner solves within a named budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sublearn._errors import whole_number
from sublearn._intervals import clopper_pearson, confidence_sequence
from sublearn._limits import check_workers
from sublearn._seeds import Purpose, trial_key
from sublearn.allocations import Allocation, Rule
from sublearn.ensembles import Problem, draw
from sublearn.estimates._chunks import run_chunks
from sublearn.estimates._unfinished import keeping
from sublearn.training import Learner, Training, learner_named
from sublearn.training._named import settings_of
from sublearn.training._train import asked_of, train_keyed


@dataclass(frozen=True)
class SolvedTrial:
    """What is kept of training one instance; ``right`` is None where there are no labels."""

    trial: int
    solved: bool
    loss: float
    right: int | None
    steps: int


@dataclass(frozen=True, repr=False)
class SolvedEstimate:
    """How many instances a learner solved; on labelled data, in how many every label is right.

    The latter is what Figure 3c counts: a label match, weaker than a match of the output vectors. It is a
    solved fraction under a budget (this learner, so many steps from so many starts), no property of the
    network alone: not solved is not "no". ``confidence`` is the 95% interval of Clopper and Pearson, or
    where the run was stopped early (``early``) the one that may stop at any time.
    """

    problem: Problem
    goal: str
    loss: str
    learner: Learner
    steps: int
    starts: int
    precision: str
    seed: int
    records: tuple[SolvedTrial, ...]
    seconds: float = field(compare=False, default=0.0)
    early: bool = False

    @property
    def trials(self) -> int:
        """How many instances were trained."""
        return len(self.records)

    @property
    def solved(self) -> int:
        """How many of them reached the goal."""
        return sum(record.solved for record in self.records)

    @property
    def share(self) -> float:
        """Solved, of all."""
        return self.solved / self.trials

    @property
    def confidence(self) -> tuple[float, float]:
        """The 95% interval of the share: Clopper-Pearson, or a confidence sequence."""
        interval = confidence_sequence if self.early else clopper_pearson
        return interval(self.solved, self.trials)

    @property
    def median_steps(self) -> float | None:
        """Steps of those that were solved, the median."""
        counts = [record.steps for record in self.records if record.solved]
        return float(np.median(counts)) if counts else None

    @property
    def median_accuracy(self) -> float | None:
        """The share of labels right, the median over all instances."""
        counts = [record.right for record in self.records if record.right is not None]
        return float(np.median(counts)) / self.problem.samples if counts else None

    @property
    def median_loss(self) -> float:
        """The loss at the end, the median over all instances."""
        return float(np.median([record.loss for record in self.records]))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; seconds stand apart from what is reproducible."""
        return {
            "network": self.problem.network.spec,
            "samples": self.problem.samples,
            "goal": self.goal,
            "loss": self.loss,
            "learner": self.learner.name,
            "settings": settings_of(self.learner),
            "steps": self.steps,
            "starts": self.starts,
            "precision": self.precision,
            "seed": self.seed,
            "trials": self.trials,
            "solved": self.solved,
            "share": self.share,
            "confidence": list(self.confidence),
            "median_steps": self.median_steps,
            "median_accuracy": self.median_accuracy,
            "median_loss": self.median_loss,
            "timing": {"seconds": self.seconds},
        }

    def __str__(self) -> str:
        low, high = self.confidence
        steps = "" if self.median_steps is None else f", median {self.median_steps:g} steps"
        return (
            f"solved ({self.goal}): {self.solved} of {self.trials} instances, share {self.share:.4f} "
            f"(95%: {low:.4f} to {high:.4f}){steps}; {self.learner.name} on {self.loss}, at most "
            f"{self.steps} steps from {self.starts} start{'s' * (self.starts > 1)}"
        )

    def __repr__(self) -> str:
        return f"<SolvedEstimate {self}>"


@dataclass(frozen=True)
class SolveJob:
    """What a worker needs to know to train trials of a problem."""

    problem: Problem
    allocation: Allocation | Mapping[str, Rule]
    learner: Learner
    steps: int = 4000
    starts: int = 1
    seed: int = 0
    loss: str | None = None
    eps: float | None = None
    precision: str = "single"

    def train(self, trial: int) -> Training:
        """Draw trial number ``trial`` and train it; it depends on (seed, problem, trial) alone."""
        instance = draw(self.problem, self.allocation, seed=self.seed, trial=trial)
        return train_keyed(
            instance,
            self.learner,
            trial_key(self.problem.digest, trial, Purpose.TRAINING),
            steps=self.steps,
            starts=self.starts,
            seed=self.seed,
            loss=self.loss,
            eps=self.eps,
            scale=1.0,
            precision=self.precision,
        )

    def decide(self, trials: range) -> list[SolvedTrial]:
        """The records of these trials, in their order."""
        found = [(trial, self.train(trial)) for trial in trials]
        return [SolvedTrial(n, t.solved, t.loss, t.right, t.steps) for n, t in found]


def estimate_solved(
    problem: Problem,
    allocation: Allocation | Mapping[str, Rule],
    trials: int = 10,
    *,
    learner: str | Learner = "adam",
    steps: int = 4000,
    starts: int = 1,
    seed: int = 0,
    loss: str | None = None,
    eps: float | None = None,
    precision: str = "single",
    workers: int = 1,
    executor: Executor | None = None,
    progress: Callable[[SolvedEstimate], None] | None = None,
) -> SolvedEstimate:
    """Draw instances, train each, and count those that are solved.

    On labelled data solved means every label right, learned by cross-entropy, as in Figure 3c; with
    ``eps`` it means a mean squared error below it. Trial i depends on (seed, problem, i) alone. Steps
    are computed in float32 (``precision="single"``) and their result is judged in float64.

    >>> import sublearn as sl
    >>> network = sl.FeedForward((64, 60, 10), activation="relu")
    >>> problem = sl.Problem(network, samples=60, teacher=sl.Labels(sl.datasets.digits()))
    >>> e = sl.estimates.estimate_solved(problem, {"W1": sl.FirstRows(30)}, trials=3, steps=500)
    >>> e.solved, e.trials, e.goal
    (3, 3, 'every label right')
    """
    whole_number("trials", trials, least=1)
    check_workers(workers, started_here=executor is None)
    chosen = learner if isinstance(learner, Learner) else learner_named(learner)
    job = SolveJob(problem, allocation, chosen, steps, starts, seed, loss, eps, precision)
    name, goal = asked_of(problem, loss, eps)
    begun = time.perf_counter()
    records: list[SolvedTrial] = []

    def summary(early: bool = False) -> SolvedEstimate:
        seconds = time.perf_counter() - begun
        held = tuple(records)
        words = goal.words
        return SolvedEstimate(
            problem, words, name, chosen, steps, starts, precision, seed, held, seconds, early
        )

    with keeping(records, lambda: summary(early=True)):
        for chunk in run_chunks(job, trials, workers, executor, 1):
            records += chunk
            if progress is not None:
                progress(summary())
    return summary()
