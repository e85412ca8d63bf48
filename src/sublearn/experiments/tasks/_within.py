"""Exact matches and matches within eps of the same instances, each under its own name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sublearn._errors import BadInputError, one_of
from sublearn.ensembles import draw
from sublearn.estimates import clopper_pearson
from sublearn.estimates._within import Job, settled
from sublearn.experiments.tasks._asked import asked, learn_of, problem_of
from sublearn.experiments.tasks._decisions import Decisions, counted, verdict_of
from sublearn.runs import Json, Row
from sublearn.training import LEARNERS, Learner, learner_named

EXACT, WITHIN = "exact match", "match within eps"
_THERE, _NOT_THERE = "within", "not reached"


class ExactOrWithin(Decisions):
    """One of two questions about an instance, by the point's ``method``.

    ladder, search or reference: is there an exact match? Decided as in :class:`Decisions`. The name of
    a learner: does it bring the mean squared error below ``eps``, with at most ``steps`` steps from
    each of ``starts`` starts? Both are asked of the same instances. Their counts have columns of their
    own and are never added up. A point that decides may name a learner ``beside`` and ``eps``: the table
    then says how many of the matched and of the refuted instances that learner brings within eps, with
    its usual steps and starts.
    """

    @property
    def name(self) -> str:
        return "exact-or-within"

    @property
    def version(self) -> int:
        return 2  # targets are a teacher's outputs as real numbers, and no sample is left out

    @property
    def results(self) -> tuple[str, ...]:
        return (
            "question",
            *super().results,
            "matched_within",
            "refuted_within",
            *WITHIN_COUNTED[1:],
        )

    @property
    def columns(self) -> Mapping[str, type]:
        return {**super().columns, "mse": float, "square": float}

    def check(self, point: Mapping[str, Json]) -> None:
        if not trains(point):
            super().check(point)
            if point.get("beside"):
                _beside(point, 0)
            return
        job = within_job(point, 0)
        draw(job.problem, job.allocation)

    def run(self, point: Mapping[str, Json], seed: int, trials: range) -> list[Row]:
        if not trains(point):
            return [
                {**row, **more}
                for row, more in zip(
                    super().run(point, seed, trials), _errors(point, seed, trials), strict=True
                )
            ]
        return [
            {
                "kind": _THERE if record.within else _NOT_THERE,
                "rung": "",
                "grade": "",
                "error": 0.0,
                "starts": record.starts,
                "iterations": record.steps,
                "paths": 0,
                "mse": record.error,
                "square": record.square,
            }
            for record in within_job(point, seed).decide(trials)
        ]

    def summarise(
        self, point: Mapping[str, Json], rows: Mapping[str, np.ndarray[Any, Any]]
    ) -> list[Row]:
        if not trains(point):
            line: Row = {"question": EXACT, **verdict_of(point), **counted(rows)}
            if point.get("beside"):
                near = rows["mse"] < eps_of(point)
                for kind in ("matched", "refuted"):
                    line[f"{kind}_within"] = int((near & (rows["kind"] == kind)).sum())
            return [line]
        there = rows["kind"] == _THERE
        eps = eps_of(point)
        return [
            {
                "question": WITHIN,
                **within_counted(there, rows["starts"], rows["mse"], rows["square"], eps),
            }
        ]


def _beside(point: Mapping[str, Json], seed: int) -> Job:
    """The learner beside a decision; the point's starts are those of the decision."""
    learner = learner_named(one_of("beside", point.get("beside"), LEARNERS))
    return within_job({**point, "steps": None, "starts": None}, seed, learner)


def _errors(point: Mapping[str, Json], seed: int, trials: range) -> list[Row]:
    """What the learner beside comes to on these trials; nothing where there is none."""
    if not point.get("beside"):
        return [{"mse": None, "square": None} for _ in trials]
    found = _beside(point, seed).decide(trials)
    return [{"mse": record.error, "square": record.square} for record in found]


def trains(point: Mapping[str, Json]) -> bool:
    """Whether the point's method is a learner."""
    return point.get("method") in LEARNERS


def eps_of(point: Mapping[str, Json]) -> float:
    """The bound on the mean squared error; a point that trains has to name it."""
    eps = point.get("eps")
    if isinstance(eps, bool) or not isinstance(eps, (int, float)):
        raise BadInputError(f"eps must be a positive number, such as 0.01, not {eps!r}.")
    return float(eps)


def within_job(point: Mapping[str, Json], seed: int, learner: Learner | None = None) -> Job:
    """What is to be trained, and how far; ``learner`` stands in for the point's method."""
    problem = problem_of(point)
    if learner is None:
        learner = learner_named(one_of("method", point.get("method"), LEARNERS))
    counts: Any = (point.get("steps"), point.get("starts"))
    return settled(
        problem, asked(learn_of(point, problem), problem), seed, eps_of(point), learner, *counts
    )


WITHIN_COUNTED = (
    "trials", "within", "within_first", "not_reached", "within_share", "within_low",
    "within_high", "median_mse", "relative_eps",
)  # fmt: skip


def within_counted(
    there: np.ndarray[Any, Any],
    starts: np.ndarray[Any, Any],
    mse: np.ndarray[Any, Any],
    square: np.ndarray[Any, Any],
    eps: float,
) -> Row:
    """How many came within eps, with the 95% interval; "not reached" is not "no"."""
    trials, within = len(there), int(there.sum())
    low, high = clopper_pearson(within, trials)
    return {
        "trials": trials,
        "within": within,
        "within_first": int((there & (starts == 1)).sum()),
        "not_reached": trials - within,
        "within_share": within / trials,
        "within_low": low,
        "within_high": high,
        "median_mse": float(np.median(mse)),
        "relative_eps": eps / float(np.median(square)),
    }
