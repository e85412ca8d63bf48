"""Solved fraction: how many instances a learner solves within a named budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Unpack

import numpy as np

from sublearn._seeds import Purpose, trial_key
from sublearn.allocations import Allocation, Rule
from sublearn.ensembles import Problem
from sublearn.estimates._count import Counted, How, Question, count_trials
from sublearn.estimates._files import learner_of
from sublearn.training import (
    Adam,
    Course,
    Learner,
    Training,
    asked_of,
    learner_named,
    settings_of,
    train_keyed,
)

_COURSE = ("steps", "starts", "seed", "loss", "eps", "precision")


class SolvedTrial(NamedTuple):
    """What is kept of training one instance; ``right`` is None where there are no labels."""

    trial: int
    solved: bool
    loss: float
    right: int | None
    steps: int


@dataclass(frozen=True)
class SolvedQuestion(Question[SolvedTrial]):
    """Does a learner solve the instance, within ``steps`` steps from each of ``starts`` starts?

    Solved is a mean squared error below ``eps``; without it, on labelled data, every label right. Steps are
    computed in ``precision`` and their result is judged in float64.
    """

    learner: Learner = field(default_factory=Adam)
    steps: int = 4000
    starts: int = 1
    loss: str | None = None
    eps: float | None = None
    precision: str = "single"

    chunk = 1
    parts = {"learner": learner_of}  # noqa: RUF012

    def __post_init__(self) -> None:
        super().__post_init__()
        asked_of(self.problem, self.loss, self.eps)

    def train(self, trial: int) -> Training:
        """Draw trial number ``trial`` and train it."""
        key = trial_key(self.problem.digest, trial, Purpose.TRAINING)
        given = {name: getattr(self, name) for name in _COURSE}
        return train_keyed(self.draw(trial), self.learner, key, Course(**given))

    def answer(self, trials: range) -> list[SolvedTrial]:
        trained = [(trial, self.train(trial)) for trial in trials]
        return [SolvedTrial(n, t.solved, t.loss, t.right, t.steps) for n, t in trained]


@dataclass(frozen=True, repr=False)
class SolvedEstimate(Counted[SolvedQuestion, SolvedTrial]):
    """How many instances a learner solved; on labelled data, in how many every label is right.

    The latter is what Figure 3c counts: a label match, weaker than a match of the output vectors. It is a
    solved fraction under a budget (this learner, so many steps from so many starts), no property of the
    network alone: not solved is not "no".
    """

    asks = SolvedQuestion
    record = SolvedTrial

    @staticmethod
    def counts(record: SolvedTrial) -> bool:
        return record.solved

    @property
    def learner(self) -> Learner:
        """Who trained."""
        return self.question.learner

    @property
    def loss(self) -> str:
        """What was made small."""
        return asked_of(self.problem, self.question.loss, self.question.eps)[0]

    @property
    def goal(self) -> str:
        """What solved means, in words."""
        return asked_of(self.problem, self.question.loss, self.question.eps)[1].words

    @property
    def solved(self) -> int:
        """How many instances reached the goal."""
        return self.bounds[0]

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

    @property
    def brief(self) -> str:
        return f"{self.solved} solved  [{self.share:.3f}]"

    def facts(self) -> dict[str, Any]:
        return {
            **self.plain("goal", "loss"),
            "learner": self.learner.name,
            "settings": settings_of(self.learner),
            **{name: getattr(self.question, name) for name in ("steps", "starts", "precision")},
            **self.plain("solved", "share", "confidence"),
            **self.plain("median_steps", "median_accuracy", "median_loss"),
        }

    def __str__(self) -> str:
        low, high = self.confidence
        question = self.question
        steps = "" if self.median_steps is None else f", median {self.median_steps:g} steps"
        return (
            f"solved ({self.goal}): {self.solved} of {self.trials} instances, share {self.share:.4f} "
            f"(95%: {low:.4f} to {high:.4f}){steps}; {self.learner.name} on {self.loss}, at most "
            f"{question.steps} steps from {question.starts} start{'s' * (question.starts > 1)}"
        )


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
    **how: Unpack[How[SolvedEstimate]],
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
    chosen = learner if isinstance(learner, Learner) else learner_named(learner)
    question = SolvedQuestion(
        problem, allocation, seed, chosen, steps, starts, loss, eps, precision
    )
    return count_trials(SolvedEstimate(question), trials, **how)
