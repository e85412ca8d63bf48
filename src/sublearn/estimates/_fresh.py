"""Generalisation: after a match on m samples, the error on fresh samples of the teacher."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Unpack

import numpy as np

from sublearn._arrays import Array
from sublearn._errors import whole_number
from sublearn.allocations import Allocation, Rule
from sublearn.ensembles import Instance, Problem, fresh_samples
from sublearn.estimates._count import Counted, How, Question, count_trials
from sublearn.estimates._within import Within, WithinQuestion, within_of
from sublearn.matchers import Budget, decide, single_thread
from sublearn.plots import COLOURS, Figure, Row, figure, ink, legend, name_axes


class FreshTrial(NamedTuple):
    """One instance: whether it was solved, and mean squared errors on its own and on fresh samples.

    ``square`` is the mean square of the fresh targets: the error of answering 0 everywhere. The errors
    are nan where nothing was solved.
    """

    trial: int
    solved: bool
    own_error: float
    fresh_error: float
    square: float

    @property
    def relative(self) -> float:
        """fresh_error / square: 0 for the teacher itself, 1 for answering 0."""
        return self.fresh_error / self.square if self.square else float("inf")


@dataclass(frozen=True)
class FreshQuestion(Question[FreshTrial]):
    """What is a solution of the instance worth on ``fresh`` samples of its teacher?

    ``by`` says how it is solved: within a :class:`Budget`, exactly; or :class:`Within` eps, by a learner.
    """

    fresh: int = 1000
    by: Budget | Within = field(default_factory=Budget)

    chunk = 16
    parts = {  # noqa: RUF012
        "by": lambda plain: within_of(plain) if "eps" in plain else Budget(**plain)
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("fresh", self.fresh, least=1)
        fresh_samples(self.problem, self.fresh)  # refused before anything is solved

    def answer(self, trials: range) -> list[FreshTrial]:
        instances = [self.draw(trial) for trial in trials]
        if isinstance(self.by, Within):
            question = WithinQuestion(self.problem, self.allocation, self.seed, by=self.by)
            trained = question.train(trials, instances)
            solutions = [best.values if best.within else None for best in trained]
        else:
            with single_thread():
                solutions = [decide(i, budget=self.by, seed=self.seed).values for i in instances]
        return [
            self._one(trial, instance, values)
            for trial, instance, values in zip(trials, instances, solutions, strict=True)
        ]

    def _one(self, trial: int, instance: Instance, values: Array | None) -> FreshTrial:
        inputs, targets = fresh_samples(self.problem, self.fresh, seed=self.seed, trial=trial)
        square = float(np.mean(targets**2))
        if values is None:
            return FreshTrial(trial, False, float("nan"), float("nan"), square)
        with np.errstate(over="ignore", invalid="ignore"):
            outputs = instance.network.forward(instance.with_values(values), inputs)
            own = float(np.mean(instance.residual(values) ** 2))
            return FreshTrial(trial, True, own, float(np.mean((outputs - targets) ** 2)), square)


@dataclass(frozen=True, repr=False)
class Generalisation(Counted[FreshQuestion, FreshTrial]):
    """The error on ``fresh`` new samples, of instances that were solved on their m samples.

    ``eps`` is None where solved means an exact match, which was proved; else it means a mean squared
    error below eps on the instance's own samples. Nothing is said of instances that were not solved.
    """

    asks = FreshQuestion
    record = FreshTrial

    @staticmethod
    def counts(record: FreshTrial) -> bool:
        return record.solved

    @property
    def solved(self) -> int:
        """How many instances were solved."""
        return self.bounds[0]

    @property
    def fresh(self) -> int:
        """Fresh samples of each."""
        return self.question.fresh

    @property
    def eps(self) -> float | None:
        """The bound on the mean squared error; None for exact matches."""
        by = self.question.by
        return by.eps if isinstance(by, Within) else None

    @property
    def method(self) -> str:
        """Who solved them: the ladder, or a learner by its name."""
        by = self.question.by
        return by.learner.name if isinstance(by, Within) else "the ladder"

    @property
    def relative(self) -> Array:
        """fresh error / mean square of the fresh targets, of each solved instance."""
        return np.array([record.relative for record in self.records if record.solved])

    def quantiles(self, *levels: float) -> list[float]:
        """Quantiles of the relative error over the solved instances; nan where there is none."""
        errors = self.relative
        return [float(np.quantile(errors, q)) if errors.size else float("nan") for q in levels]

    @property
    def better_than_zero(self) -> int:
        """Solved instances whose fresh error is below that of answering 0."""
        return int((self.relative < 1.0).sum())

    @property
    def brief(self) -> str:
        return f"{self.solved} solved"

    def table(self) -> list[Row]:
        """A row for every trial, with its relative error."""
        relative = ({"relative": record.relative} for record in self.records)
        return [{**row, **more} for row, more in zip(super().table(), relative, strict=True)]

    def plot(self) -> Figure:
        """The share of solved instances whose fresh error is below a level; 1 is that of answering 0."""
        fig, ax = figure()
        errors = np.sort(self.relative)
        ax.step(
            errors, np.arange(1, errors.size + 1) / max(1, errors.size), where="post",
            color=COLOURS[0], linewidth=1.6, label=f"{self.solved} of {self.trials} instances solved",
        )  # fmt: skip
        ax.axvline(1.0, color=ink(), linestyle="--", linewidth=1.0, label="answering 0")
        if (errors > 0).all():
            ax.set_xscale("log")
        about = f"error on {self.fresh} fresh samples / mean square of their targets"
        name_axes(ax, about, "share of the solved, at most so much", unit_interval=True)
        legend(ax)
        return fig

    def facts(self) -> dict[str, Any]:
        quartiles = self.quantiles(0.25, 0.5, 0.75) if self.solved else None
        return {
            "solved_means": "exact match" if self.eps is None else "mean squared error < eps",
            "eps": self.eps,
            "method": self.method,
            "solved": self.solved,
            "fresh_samples": self.fresh,
            "relative_error_quartiles": quartiles,
            "better_than_zero": self.better_than_zero,
        }

    def __str__(self) -> str:
        what = "matched exactly" if self.eps is None else f"within eps = {self.eps:g}"
        head = f"{self.solved} of {self.trials} instances {what} by {self.method}"
        if not self.solved:
            return f"{head}: nothing to say about fresh samples"
        low, middle, high = self.quantiles(0.25, 0.5, 0.75)
        return (
            f"{head}; error on {self.fresh} fresh samples over the mean square of their targets: median "
            f"{middle:.3g} (quartiles {low:.3g} and {high:.3g}); below 1, that of answering 0, in "
            f"{self.better_than_zero} of {self.solved}"
        )


def generalisation(
    problem: Problem,
    allocation: Allocation | Mapping[str, Rule],
    trials: int = 100,
    *,
    fresh: int = 1000,
    by: Budget | Within | None = None,
    seed: int = 0,
    **how: Unpack[How[Generalisation]],
) -> Generalisation:
    """Solve instances on their m samples, then measure the error on ``fresh`` samples of the same teacher.

    ``by`` a :class:`Budget` the solution is the exact match that :func:`sublearn.decide` proves (where the
    outputs are affine in more learnable weights than equations, the one of least norm); ``by``
    :class:`Within` it is where a learner came within eps, as in :func:`sublearn.estimate_within`.

    >>> import sublearn as sl
    >>> net = sl.LinearEstimator(inputs=4, outputs=2)
    >>> problem = sl.Problem(net, samples=4)
    >>> all_samples = sl.estimates.generalisation(problem, sl.Allocation.whole(net, ["W"]), 5)
    >>> all_samples.solved, bool(all_samples.relative.max() < 1e-20)   # W is determined by 4 samples
    (5, True)
    """
    question = FreshQuestion(problem, allocation, seed, fresh, by or Budget())
    return count_trials(Generalisation(question), trials, **how)
