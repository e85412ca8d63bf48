"""Many instances decided: the task of most experiments, whose trials are those of ``estimate``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import partial
from itertools import count
from typing import Any, Generic, NamedTuple, TypeVar, get_type_hints

import numpy as np

from sublearn._errors import whole_number
from sublearn._kinds import DecisionKind, GradeKind
from sublearn.ensembles import Instance
from sublearn.estimates import Counted, Estimate, MatchQuestion, Question, clopper_pearson
from sublearn.experiments.tasks._point import (
    INTERVAL,
    SETTING,
    Columns,
    Params,
    learnable_of,
    problem_of,
    settled_learn,
)
from sublearn.matchers import Budget, Decision, Reference, single_thread
from sublearn.runs import Json, Row, Task
from sublearn.verdicts import equation_counts
from sublearn.verdicts.counts import find_msolve

Result = TypeVar("Result", bound=Counted[Any, Any])
COUNTS = {
    "trials": "trials",
    "matched": "matched",
    "refuted": "refuted",
    "undecided": "undecided",
    "proved": "decisions proved",
    "numerical": "decisions that are numerical",
    "error": "chance that any decision is wrong, at most",
    "share": "share matched",
    "possible": "share not refuted",
    **INTERVAL,
}


class Counting(Task, Generic[Result]):
    """A task whose trials are those of an estimate: a row is a record, and the table sums them up."""

    counted: type[Result]

    @abstractmethod
    def question(self, point: Params, seed: int) -> Question[Any]:
        """What is asked of every trial of the point."""

    @property
    def columns(self) -> Mapping[str, type]:
        kinds = get_type_hints(self.counted.record)
        return {name: kind for name, kind in kinds.items() if name != "trial"}

    def settled(self, params: dict[str, Json]) -> dict[str, Json]:
        return settled_learn(params)

    def check(self, point: Params) -> None:
        # One draw shows whether the rules can be kept at all.
        self.question(point, 0).draw(0)

    def run(self, point: Params, seed: int, trials: range) -> list[Row]:
        return [row_of(record) for record in self.question(point, seed).answer(trials)]

    def result(self, point: Params, rows: Columns) -> Result:
        """What the rows come to, as the estimate that has them as its records."""
        return self.of(self.question(point, 0), rows)

    def of(self, question: Question[Any], rows: Columns) -> Result:
        """The same of a question that is known."""
        names = self.counted.record._fields[1:]
        # As tuples made by C: a named tuple's own way is Python's, and there may be millions.
        make: Any = partial(tuple.__new__, self.counted.record)
        records = map(make, zip(count(), *(rows[name].tolist() for name in names), strict=False))
        return self.counted(question, tuple(records))


def row_of(record: Any) -> Row:
    """What is kept of a trial: its record without its number, which is its place."""
    row: Row = record._asdict()
    del row["trial"]
    return row


class Decided(NamedTuple):
    """A trial whose instance is decided."""

    question: MatchQuestion
    trial: int
    instance: Instance
    decision: Decision


class Decisions(Counting[Estimate]):
    """Draw an instance per trial and decide it.

    A point says ``network``, ``samples``, ``learn``, and may say ``ensemble``, ``method`` and
    ``starts``. The method is the ladder, the search alone, or the paper's protocol (reference:
    fsolve from ``starts`` starts, 400 unless told). Points of one problem share their instances,
    whatever the method, so that methods are compared on the same draws.
    """

    name = "estimate"
    version = 2  # targets are a teacher's outputs as real numbers, and no sample is left out
    counted = Estimate
    shares = None

    takes: Mapping[str, str] = {**SETTING, "method": "method", "starts": "starts allowed"}
    headings: Mapping[str, str] = {
        "verdict": "verdict of certify",
        "verdict_grade": "its grade",
        **COUNTS,
    }

    @property
    def tools(self) -> Mapping[str, bool]:
        return {"msolve": find_msolve() is not None}

    def question(self, point: Params, seed: int) -> MatchQuestion:
        problem = problem_of(point)
        method = str(point.get("method") or "ladder")
        budget = Budget(starts=starts_of(point))
        return MatchQuestion(problem, learnable_of(point, problem), seed, method, budget)

    def beside(self, decided: Decided) -> Row:
        """What is kept of a trial besides its record."""
        return {}

    def run(self, point: Params, seed: int, trials: range) -> list[Row]:
        question, lines = self.question(point, seed), []
        with single_thread():
            for record, instance, decision in question.decided(trials):
                more = self.beside(Decided(question, record.trial, instance, decision))
                lines.append({**row_of(record), **more})
        return lines

    def summarise(self, point: Params, rows: Columns) -> list[Row]:
        estimate = self.result(point, rows)
        verdict = estimate.question.verdict()
        said = ("", "") if verdict is None else (verdict.kind, verdict.grade.kind)
        return [{"verdict": said[0], "verdict_grade": said[1], **match_line(estimate)}]


class Saturation(Decisions):
    """Decisions, summarised as matches against starts: the curve of appendix E.1."""

    name = "saturation"
    headings: Mapping[str, str] = {
        "after": "starts so far",
        "trials": "instances",
        "matched": "matched so far",
        "share": "share matched so far",
        **INTERVAL,
    }

    def summarise(self, point: Params, rows: Columns) -> list[Row]:
        most = starts_of(point)
        matched = rows["kind"] == DecisionKind.MATCHED
        trials, used = len(matched), rows["starts"]
        lines: list[Row] = []
        for starts in (s for s in CHECKPOINTS if s <= most):
            count = int((matched & (used <= starts)).sum())
            low, high = clopper_pearson(count, trials)
            line: Row = {"after": starts, "trials": trials, "matched": count}
            lines.append({**line, "share": count / trials, "low": low, "high": high})
        return lines


class ByEquations(Decisions):
    """Decisions with the count of Lemma 3.3 beside each: T b k - d m, for the k rows in use.

    The table has a line for each value that was drawn. (A rule for the first k rows may leave some
    of them empty.)
    """

    name = "estimate-by-equations"
    headings: Mapping[str, str] = {"left": "quadratic equations left", **COUNTS}

    @property
    def columns(self) -> Mapping[str, type]:
        return {**super().columns, "left": int}

    def beside(self, decided: Decided) -> Row:
        counts = equation_counts(decided.question.problem, decided.instance.allocation)
        return {"left": -1 if counts is None else counts.by_rows.left}

    def summarise(self, point: Params, rows: Columns) -> list[Row]:
        lines: list[Row] = []
        for left in np.unique(rows["left"]):
            part = {name: values[rows["left"] == left] for name, values in rows.items()}
            lines.append({"left": int(left), **match_line(self.result(point, part))})
        return lines


CHECKPOINTS = (1, 2, 5, 10, 25, 50, 100, 200, 400, 800, 1600, 3200)


def starts_of(point: Params) -> int:
    """How many starts a point allows: 400 for the paper's protocol, else what the budget says."""
    usual = Reference.starts if point.get("method") == "reference" else Budget().starts
    return whole_number("starts", point.get("starts") or usual, least=1)


def match_line(estimate: Estimate) -> Row:
    """Counts of the three decisions, the bracket, and the 95% interval around it.

    ``error``: the chance that any of the decisions is wrong, added up over those that are not proofs;
    ``numerical``: how many rest on float64 rounding alone.
    """
    (share, possible), (low, high), grades = estimate.bracket, estimate.confidence, estimate.grades
    return {
        **estimate.plain("trials", "matched", "refuted", "undecided"),
        "proved": grades.get(GradeKind.PROOF, 0),
        "numerical": grades.get(GradeKind.NUMERICAL, 0),
        "error": float(np.sum([record.error for record in estimate.records])),
        "share": share,
        "possible": possible,
        "low": low,
        "high": high,
    }
