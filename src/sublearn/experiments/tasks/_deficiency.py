"""How often an allocation keeps every degree bound and is deficient all the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sublearn._seeds import words
from sublearn.allocations import FirstRows
from sublearn.ensembles import Problem
from sublearn.estimates import clopper_pearson
from sublearn.experiments.tasks._asked import problem_of
from sublearn.experiments.tasks._verdicts import check_inside, inside_of
from sublearn.runs import Json, Row, Task
from sublearn.verdicts import census, generic_rank


class Deficiency(Task):
    """Of the allocations of d m' weights inside ``inside`` that keep the bounds: how many waste one?

    With ``every``, the one trial of the point goes through all of them, and the share is exact; else
    each trial draws one of them, uniformly, and its generic rank is taken.
    """

    @property
    def name(self) -> str:
        return "census"

    @property
    def results(self) -> tuple[str, ...]:
        return (
            "looked_at", "deficient", "share", "low", "high", "error",
        )  # fmt: skip

    @property
    def columns(self) -> Mapping[str, type]:
        return {"feasible": int, "deficient": int, "error": float}

    def check(self, point: Mapping[str, Json]) -> None:
        check_inside(problem_of(point), inside_of(point))

    def run(self, point: Mapping[str, Json], seed: int, trials: range) -> list[Row]:
        problem, inside = problem_of(point), inside_of(point)
        if point.get("every"):
            found = census(problem, inside, seed=seed)
            line: Row = {"feasible": found.feasible, "deficient": found.deficient}
            return [{**line, "error": found.grade.error} for _ in trials]
        return [_one(problem, inside, seed, trial) for trial in trials]

    def summarise(
        self, point: Mapping[str, Json], rows: Mapping[str, np.ndarray[Any, Any]]
    ) -> list[Row]:
        feasible, deficient = int(rows["feasible"].sum()), int(rows["deficient"].sum())
        share = deficient / feasible if feasible else 0.0
        exact = bool(point.get("every"))
        low, high = (share, share) if exact else clopper_pearson(deficient, feasible)
        line: Row = {"looked_at": feasible, "deficient": deficient, "share": share}
        return [{**line, "low": low, "high": high, "error": float(rows["error"].sum())}]


def _one(problem: Problem, inside: str, seed: int, trial: int) -> Row:
    digest = words(problem.digest)
    rng = np.random.default_rng([seed, *digest, trial])
    rule = {inside: FirstRows(problem.network.shape(inside)[0], problem.effective_equations)}
    held = problem.draw_allocation(rule, rng)
    found = generic_rank(problem, held, error=1e-12, seed=seed)
    lost = found.rank < len(held)
    return {"feasible": 1, "deficient": int(lost), "error": found.grade.error if lost else 0.0}
