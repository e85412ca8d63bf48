"""Many instances decided: the task of most experiments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sublearn._errors import one_of, whole_number
from sublearn.allocations import Allocation
from sublearn.ensembles import Instance, draw
from sublearn.estimates import clopper_pearson
from sublearn.experiments.tasks._asked import asked, learn_of, problem_of
from sublearn.matchers import Budget, Decision, Reference, Search, decide, single_thread
from sublearn.runs import Json, Row, Task
from sublearn.verdicts import certify

METHODS = ("ladder", "search", "reference")


class Decisions(Task):
    """Draw an instance per trial and decide it.

    A point says ``network``, ``samples``, ``learn``, and may say ``ensemble``, ``method`` and
    ``starts``. The method is the ladder, the search alone, or the paper's protocol (reference:
    fsolve from ``starts`` starts, 400 unless told). Points of one problem share their instances,
    whatever the method, so that methods are compared on the same draws.
    """

    @property
    def name(self) -> str:
        return "estimate"

    @property
    def version(self) -> int:
        return 2  # targets are a teacher's outputs as real numbers, and no sample is left out

    @property
    def results(self) -> tuple[str, ...]:
        return ("verdict", "verdict_grade", *COUNTED)

    @property
    def columns(self) -> Mapping[str, type]:
        return {
            "kind": str,
            "rung": str,
            "grade": str,
            "error": float,
            "starts": int,
            "iterations": int,
            "paths": int,
        }

    def check(self, point: Mapping[str, Json]) -> None:
        problem = problem_of(point)
        _method(point)
        starts_of(point)
        # One draw shows whether the rules can be kept at all.
        draw(problem, asked(learn_of(point, problem), problem))

    def run(self, point: Mapping[str, Json], seed: int, trials: range) -> list[Row]:
        return [record(point, seed, trial)[1] for trial in trials]

    def summarise(
        self, point: Mapping[str, Json], rows: Mapping[str, np.ndarray[Any, Any]]
    ) -> list[Row]:
        return [{**verdict_of(point), **counted(rows)}]


class Saturation(Decisions):
    """Decisions, summarised as matches against starts: the curve of appendix E.1."""

    @property
    def name(self) -> str:
        return "saturation"

    @property
    def results(self) -> tuple[str, ...]:
        return ("after", "trials", "matched", "share", "low", "high")

    def summarise(
        self, point: Mapping[str, Json], rows: Mapping[str, np.ndarray[Any, Any]]
    ) -> list[Row]:
        most = starts_of(point)
        matched = rows["kind"] == "matched"
        trials, used = len(matched), rows["starts"]
        found: list[Row] = []
        for starts in (s for s in CHECKPOINTS if s <= most):
            count = int((matched & (used <= starts)).sum())
            low, high = clopper_pearson(count, trials)
            line: Row = {"after": starts, "trials": trials, "matched": count}
            found.append({**line, "share": count / trials, "low": low, "high": high})
        return found


CHECKPOINTS = (1, 2, 5, 10, 25, 50, 100, 200, 400, 800, 1600, 3200)


def _method(point: Mapping[str, Json]) -> str:
    return one_of("method", point.get("method") or "ladder", METHODS)


def starts_of(point: Mapping[str, Json]) -> int:
    """How many starts a point allows: 400 for the paper's protocol, else what the budget says."""
    usual = 400 if point.get("method") == "reference" else Budget().starts
    return whole_number("starts", point.get("starts") or usual, least=1)


def record(point: Mapping[str, Json], seed: int, trial: int) -> tuple[Instance, Row]:
    """One trial: its instance, and what is kept of the decision."""
    problem = problem_of(point)
    instance = draw(problem, asked(learn_of(point, problem), problem), seed=seed, trial=trial)
    found = _decide(instance, point, seed, trial)
    grade = found.grade
    return instance, {
        "kind": found.kind,
        "rung": found.rung,
        "grade": "" if grade is None else grade.kind,
        "error": 0.0 if grade is None else grade.error,
        "starts": found.effort.starts,
        "iterations": found.effort.iterations,
        "paths": found.effort.paths,
    }


def _decide(instance: Instance, point: Mapping[str, Json], seed: int, trial: int) -> Decision:
    method = _method(point)
    budget = Budget(starts=starts_of(point))
    if method == "reference":
        # The stream is the trial's, not the point's: the paper's starts know nothing of k.
        with single_thread():
            rng = np.random.default_rng([seed, trial])
            return Reference(budget.starts).attempt(instance, budget, rng)
    rungs = [Search()] if method == "search" else None
    return decide(instance, budget=budget, seed=seed, ladder=rungs)


COUNTED = (
    "trials", "matched", "refuted", "undecided", "proved", "numerical", "error",
    "share", "possible", "low", "high",
)  # fmt: skip


def counted(rows: Mapping[str, np.ndarray[Any, Any]]) -> Row:
    """Counts of the three decisions, the bracket, and the 95% interval around it.

    ``error``: the chance that any of the decisions is wrong, added up over those that are not proofs;
    ``numerical``: how many rest on float64 rounding alone.
    """
    kinds, grades = rows["kind"], rows["grade"]
    trials = len(kinds)
    matched, refuted = int((kinds == "matched").sum()), int((kinds == "refuted").sum())
    undecided = trials - matched - refuted
    return {
        "trials": trials,
        "matched": matched,
        "refuted": refuted,
        "undecided": undecided,
        "proved": int((grades == "proof").sum()),
        "numerical": int((grades == "numerical").sum()),
        "error": float(rows["error"].sum()),
        "share": matched / trials,
        "possible": (matched + undecided) / trials,
        "low": clopper_pearson(matched, trials)[0],
        "high": clopper_pearson(matched + undecided, trials)[1],
    }


def verdict_of(point: Mapping[str, Json]) -> Row:
    """What certify says of a fixed allocation; empty where rules draw one per trial."""
    problem = problem_of(point)
    learn = learn_of(point, problem)
    held = asked(learn, problem)
    if not isinstance(held, Allocation):
        return {"verdict": "", "verdict_grade": ""}
    found = certify(problem, held)
    return {"verdict": found.kind, "verdict_grade": found.grade.kind}
