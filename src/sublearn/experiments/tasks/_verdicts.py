"""Allocations certified: every one of a small network, or random ones within the degree bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, islice
from math import comb
from typing import Any

import numpy as np

from sublearn._errors import BadInputError
from sublearn._kinds import GradeKind
from sublearn._seeds import trial_stream
from sublearn.allocations import Allocation
from sublearn.ensembles import Problem
from sublearn.estimates import clopper_pearson
from sublearn.experiments.tasks._point import INTERVAL, Columns, Params, problem_of
from sublearn.runs import Row, Task
from sublearn.verdicts import Verdict, census, certify, deficient_draw

# As printed, with "or", and then read with "and".
_TWICE = ["Theorem 4.1"] * 2
INSIDE = {"network": "network", "samples": "samples m", "inside": "weight"}


class Verdicts(Task):
    """Trial i certifies the i-th of all allocations of d m' weights inside the weight ``inside``.

    The order is that of the subsets of the flat indices, written in ascending order. With ``count``,
    complex solutions are counted where ranks leave the verdict open. The table has a line for each
    number of rows and columns in use, each verdict, and each answer of the paper, as printed; also whether
    it is wrong with the "and" that Theorem 4.1 needs.
    """

    name = "certify"
    version = 2  # verdicts of tanh, sigmoid and ReLU networks are of exact ranks
    takes: Mapping[str, str] = {**INSIDE, "count": "complex solutions counted"}
    headings: Mapping[str, str] = {
        "rows": "rows in use",
        "cols": "columns in use",
        "verdict": "verdict",
        "paper": "what the paper says",
        "wrong": "the paper is wrong",
        "wrong_meant": 'wrong too where Theorem 4.1 is read with "and"',
        "allocations": "allocations",
        "proved": "by proof",
    }
    columns: Mapping[str, type] = {
        "verdict": str,
        "grade": str,
        "rank": int,
        "solutions": int,
        "rows": int,
        "cols": int,
        "paper": str,
        "wrong": bool,
        "wrong_meant": bool,
    }

    def check(self, point: Params) -> None:
        check_inside(problem_of(point), inside_of(point))

    def run(self, point: Params, seed: int, trials: range) -> list[Row]:
        problem, inside = problem_of(point), inside_of(point)
        lines = []
        for mask in islice(allocations(problem, inside), trials.start, trials.stop):
            verdict = certify(problem, mask, count=bool(point.get("count")), seed=seed)
            lines.append(_row(verdict, mask, inside))
        return lines

    def summarise(self, point: Params, rows: Columns) -> list[Row]:
        keys = ("rows", "cols", "verdict", "paper", "wrong", "wrong_meant")
        groups: dict[tuple[Any, ...], list[int]] = {}
        for place, group in enumerate(zip(*(rows[key].tolist() for key in keys), strict=True)):
            groups.setdefault(group, []).append(place)
        lines = []
        for group in sorted(groups):
            proved = int((rows["grade"][groups[group]] == GradeKind.PROOF).sum())
            line = dict(zip(keys, group, strict=True))
            lines.append({**line, "allocations": len(groups[group]), "proved": proved})
        return lines


def allocations(problem: Problem, inside: str) -> Iterator[Allocation]:
    """All allocations of d m' weights inside one weight matrix, in a fixed order."""
    network, size = problem.network, problem.effective_equations
    rows, columns = network.shape(inside)
    for flat in combinations(range(rows * columns), size):
        yield Allocation(network.shapes, {inside: np.array(flat, dtype=np.int64)})


def how_many(problem: Problem, inside: str) -> int:
    """How many :func:`allocations` there are."""
    rows, columns = problem.network.shape(inside)
    return comb(rows * columns, problem.effective_equations)


def inside_of(point: Params) -> str:
    """The weight that a point is about."""
    name = point.get("inside")
    if not isinstance(name, str):
        raise BadInputError(f"a point needs 'inside', the name of a weight, not {name!r}.")
    return name


def check_inside(problem: Problem, inside: str) -> None:
    """Whether d m' weights fit into the weight, and ranks are exact."""
    network, size = problem.network, problem.effective_equations
    rows, columns = network.shape(inside)
    if network.has_gates:
        raise BadInputError(f"the rank must not depend on gates, as that of {network.title} does.")
    if size > rows * columns:
        raise BadInputError(f"{inside} has {rows * columns} weights, fewer than the {size} needed.")


def _row(verdict: Verdict, mask: Allocation, inside: str) -> Row:
    says = [check for check in verdict.theorems if check.says is not None]
    meant = says[1:] if [check.theorem for check in says] == _TWICE else says
    return {
        "verdict": verdict.kind,
        "grade": verdict.grade.kind,
        "rank": verdict.rank,
        "solutions": -1 if verdict.solutions is None else verdict.solutions,
        "rows": int(np.count_nonzero(mask.row_counts(inside))),
        "cols": int(np.count_nonzero(mask.column_counts(inside))),
        "paper": str(says[0].says) if says else "silent",
        "wrong": any(check.holds is False for check in says),
        "wrong_meant": any(check.holds is False for check in meant),
    }


class Deficiency(Task):
    """Of the allocations of d m' weights inside ``inside`` that keep the bounds: how many waste one?

    With ``every``, the one trial of the point goes through all of them, and the share is exact; else
    each trial draws one of them, uniformly, and its generic rank is taken.
    """

    name = "census"
    takes: Mapping[str, str] = {**INSIDE, "every": "all looked at"}
    headings: Mapping[str, str] = {
        "looked_at": "allocations within the bounds looked at",
        "deficient": "deficient",
        "share": "share deficient",
        **INTERVAL,
        "error": "chance that any rank is wrong, at most",
    }
    columns: Mapping[str, type] = {"feasible": int, "deficient": int, "error": float}

    def check(self, point: Params) -> None:
        check_inside(problem_of(point), inside_of(point))

    def run(self, point: Params, seed: int, trials: range) -> list[Row]:
        problem, inside = problem_of(point), inside_of(point)
        if point.get("every"):
            counts = census(problem, inside, seed=seed)
            line: Row = {"feasible": counts.feasible, "deficient": counts.deficient}
            return [{**line, "error": counts.grade.error} for _ in trials]
        return [_one(problem, inside, seed, trial) for trial in trials]

    def summarise(self, point: Params, rows: Columns) -> list[Row]:
        feasible, deficient = int(rows["feasible"].sum()), int(rows["deficient"].sum())
        share = deficient / feasible if feasible else 0.0
        exact = bool(point.get("every"))
        low, high = (share, share) if exact else clopper_pearson(deficient, feasible)
        line: Row = {"looked_at": feasible, "deficient": deficient, "share": share}
        return [{**line, "low": low, "high": high, "error": float(rows["error"].sum())}]


def _one(problem: Problem, inside: str, seed: int, trial: int) -> Row:
    rng = trial_stream(seed, problem.digest, trial)
    lost = deficient_draw(problem, inside, rng, 1e-12, seed)
    return {"feasible": 1, "deficient": int(lost is not None), "error": lost or 0.0}
