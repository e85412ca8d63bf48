"""Generalisation: after a match on m samples, the error on fresh samples of the teacher."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sublearn._arrays import Array
from sublearn._errors import BadInputError, whole_number
from sublearn._limits import check_workers
from sublearn.allocations import Allocation, Rule
from sublearn.ensembles import Instance, Problem, draw, fresh_samples
from sublearn.estimates._chunks import run_chunks
from sublearn.estimates._unfinished import keeping
from sublearn.estimates._within import Job as WithinJob
from sublearn.estimates._within import settled
from sublearn.matchers import Budget, decide, single_thread
from sublearn.training import Learner

CHUNK = 16


@dataclass(frozen=True)
class FreshTrial:
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


@dataclass(frozen=True, repr=False)
class Generalisation:
    """The error on ``fresh`` new samples, of instances that were solved on their m samples.

    ``eps`` is None where solved means an exact match, which was proved; else it means a mean squared
    error below eps on the instance's own samples. Nothing is said of instances that were not solved.
    """

    problem: Problem
    trials: int
    solved: int
    fresh: int
    method: str
    eps: float | None
    seed: int
    records: tuple[FreshTrial, ...]
    seconds: float = field(compare=False, default=0.0)

    @property
    def relative(self) -> Array:
        """fresh error / mean square of the fresh targets, of each solved instance."""
        return np.array([record.relative for record in self.records if record.solved])

    def quantiles(self, *levels: float) -> list[float]:
        """Quantiles of the relative error over the solved instances; nan where there is none."""
        found = self.relative
        return [float(np.quantile(found, q)) if found.size else float("nan") for q in levels]

    @property
    def better_than_zero(self) -> int:
        """Solved instances whose fresh error is below that of answering 0."""
        return int((self.relative < 1.0).sum())

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        quartiles = self.quantiles(0.25, 0.5, 0.75) if self.solved else None
        return {
            "network": self.problem.network.spec,
            "samples": self.problem.samples,
            "solved_means": "exact match" if self.eps is None else "mean squared error < eps",
            "eps": self.eps,
            "method": self.method,
            "seed": self.seed,
            "trials": self.trials,
            "solved": self.solved,
            "fresh_samples": self.fresh,
            "relative_error_quartiles": quartiles,
            "better_than_zero": self.better_than_zero,
            "timing": {"seconds": self.seconds},
        }

    def __repr__(self) -> str:
        return f"<Generalisation {self}>"

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


@dataclass(frozen=True)
class FreshJob:
    """What a worker needs to know; ``training`` is None where solved means an exact match."""

    problem: Problem
    allocation: Allocation | Mapping[str, Rule]
    seed: int
    fresh: int
    budget: Budget
    training: WithinJob | None

    def decide(self, trials: range) -> list[FreshTrial]:
        """Solve these trials, and ask for fresh samples."""
        instances = [
            draw(self.problem, self.allocation, seed=self.seed, trial=trial) for trial in trials
        ]
        if self.training is not None:
            found = self.training.train(trials, instances)
            solutions = [best.values if best.within else None for best in found]
        else:
            with single_thread():
                solutions = [
                    decide(i, budget=self.budget, seed=self.seed).values for i in instances
                ]
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


def generalisation(
    problem: Problem,
    allocation: Allocation | Mapping[str, Rule],
    trials: int = 100,
    *,
    fresh: int = 1000,
    eps: float | None = None,
    method: str | Learner | None = None,
    steps: int | None = None,
    starts: int | None = None,
    budget: Budget | None = None,
    seed: int = 0,
    workers: int = 1,
    executor: Executor | None = None,
    progress: Callable[[Generalisation], None] | None = None,
) -> Generalisation:
    """Solve instances on their m samples, then measure the error on ``fresh`` samples of the same teacher.

    Without ``eps`` the solution is the exact match that :func:`sublearn.decide` proves (where the
    outputs are affine in more learnable weights than equations, the one of least norm); with ``eps`` it
    is where a learner came within eps, as in :func:`sublearn.estimate`.

    >>> import sublearn as sl
    >>> net = sl.LinearEstimator(inputs=4, outputs=2)
    >>> problem = sl.Problem(net, samples=4)
    >>> all_samples = sl.estimates.generalisation(problem, sl.Allocation.whole(net, ["W"]), 5)
    >>> all_samples.solved, bool(all_samples.relative.max() < 1e-20)   # W is determined by 4 samples
    (5, True)
    """
    whole_number("trials", trials, least=1)
    whole_number("fresh", fresh, least=1)
    check_workers(workers, started_here=executor is None)
    begun = time.perf_counter()
    training = None
    if eps is not None:
        if budget is not None:
            raise BadInputError("budget belongs to exact matches; with eps give steps and starts.")
        training = settled(problem, allocation, seed, eps, method, steps, starts)
        name = training.learner.name
    elif method is not None or steps is not None or starts is not None:
        raise BadInputError("method, steps and starts belong to a match within eps: give eps.")
    else:
        name = "the ladder"
    job = FreshJob(problem, allocation, seed, fresh, budget or Budget(), training)
    records: list[FreshTrial] = []

    def summary() -> Generalisation:
        solved = sum(record.solved for record in records)
        seconds = time.perf_counter() - begun
        return Generalisation(
            problem, len(records), solved, fresh, name, eps, seed, tuple(records), seconds
        )

    with keeping(records, summary):
        for chunk in run_chunks(job, trials, workers, executor, CHUNK):
            records.extend(chunk)
            if progress is not None:
                progress(summary())
    return summary()
