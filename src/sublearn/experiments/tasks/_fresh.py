"""What a match on m samples is worth on fresh ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from sublearn.ensembles import draw, fresh_samples
from sublearn.estimates import clopper_pearson
from sublearn.estimates._fresh import FreshJob
from sublearn.experiments.tasks._asked import asked, learn_of, problem_of
from sublearn.experiments.tasks._repeats import whole
from sublearn.experiments.tasks._within import EXACT, WITHIN, trains, within_job
from sublearn.matchers import Budget
from sublearn.runs import Json, Row, Task


class FreshErrors(Task):
    """Solve an instance on its samples, then measure the error on ``fresh`` samples of its teacher.

    Without a ``method`` solved means an exact match, which is proved; with the name of a learner it
    means a mean squared error below ``eps``. The relative error is that on fresh samples over the mean
    square of their targets: 0 for the teacher itself, 1 for answering 0. The table has its quartiles
    over the solved instances.
    """

    @property
    def name(self) -> str:
        return "generalisation"

    @property
    def version(self) -> int:
        return 2  # targets are a teacher's outputs as real numbers, and no sample is left out

    @property
    def results(self) -> tuple[str, ...]:
        return (
            "question", "trials", "solved", "quarter", "median", "three_quarters", "below_one",
            "below_low", "below_high",
        )  # fmt: skip

    @property
    def columns(self) -> Mapping[str, type]:
        return {"solved": bool, "own_error": float, "relative": float}

    def check(self, point: Mapping[str, Json]) -> None:
        job = _job(point, 0)
        draw(job.problem, job.allocation)
        fresh_samples(job.problem, 1)

    def run(self, point: Mapping[str, Json], seed: int, trials: range) -> list[Row]:
        return [
            {
                "solved": record.solved,
                "own_error": record.own_error if record.solved else None,
                "relative": record.relative if record.solved else None,
            }
            for record in _job(point, seed).decide(trials)
        ]

    def summarise(
        self, point: Mapping[str, Json], rows: Mapping[str, np.ndarray[Any, Any]]
    ) -> list[Row]:
        solved = rows["solved"]
        relative = rows["relative"][solved]
        count = int(solved.sum())
        below = int((relative < 1.0).sum())
        quartiles: list[float | None] = [None] * 3
        ends: tuple[float | None, float | None] = (None, None)
        if count:
            quartiles = [float(value) for value in np.quantile(relative, [0.25, 0.5, 0.75])]
            quartiles = [value if math.isfinite(value or 0) else None for value in quartiles]
            ends = clopper_pearson(below, count)
        return [
            {
                "question": WITHIN if trains(point) else EXACT,
                "trials": len(solved),
                "solved": count,
                "quarter": quartiles[0],
                "median": quartiles[1],
                "three_quarters": quartiles[2],
                "below_one": below if count else None,
                "below_low": ends[0],
                "below_high": ends[1],
            }
        ]


def _job(point: Mapping[str, Json], seed: int) -> FreshJob:
    problem = problem_of(point)
    fresh = whole(point, "fresh", 1000)
    # Any method but none has to be a learner, which within_job asks for.
    training = within_job(point, seed) if point.get("method") else None
    return FreshJob(
        problem, asked(learn_of(point, problem), problem), seed, fresh, Budget(), training
    )
