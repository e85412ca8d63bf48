"""Random allocations and their generic ranks: beyond d m weights, and in several components at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sublearn._errors import BadInputError
from sublearn._seeds import trial_stream
from sublearn.allocations import Allocation
from sublearn.ensembles import Problem
from sublearn.estimates import clopper_pearson
from sublearn.experiments.tasks._point import (
    INTERVAL,
    SETTING,
    Columns,
    Params,
    learnable_of,
    problem_of,
)
from sublearn.runs import Row, Task
from sublearn.verdicts import generic_rank

_ERROR = 1e-12  # chance of a wrong rank, at most


class Ranks(Task):
    """Each trial draws an allocation by the rules of ``learn`` and takes its generic rank.

    It is *enough* if the rank is the d m' that is needed. The bounds on rows and columns make so many
    of its weights useless at least; it *may* be enough by them if what is left is d m' or more, which is
    what appendix F.1 asks of an allocation with weights to spare. Its components are *good alone* if
    the learnable weights of each matrix, taken by themselves, are independent.
    """

    name = "ranks"
    takes = SETTING
    headings: Mapping[str, str] = {
        "trials": "allocations drawn",
        "enough": "of rank d m",
        "share": "share of rank d m",
        **INTERVAL,
        "may": "may be by the bounds",
        "may_not_enough": "may be by the bounds, and are not",
        "alone": "every component good alone",
        "alone_not_enough": "every component good alone, rank below d m",
        "alone_low": "share of these among those good alone: 95% interval, low end",
        "alone_high": "the same, high end",
        "error": "chance that any rank is wrong, at most",
    }
    columns: Mapping[str, type] = {"rank": int, "may": bool, "alone": bool, "error": float}

    def check(self, point: Params) -> None:
        problem = problem_of(point)
        if problem.network.has_gates:
            spec = problem.network.spec
            raise BadInputError(f"the rank must not depend on gates, as that of {spec} does.")
        _drawn(point, problem, 0, 0)

    def run(self, point: Params, seed: int, trials: range) -> list[Row]:
        problem = problem_of(point)
        return [_one(problem, _drawn(point, problem, seed, trial), seed) for trial in trials]

    def summarise(self, point: Params, rows: Columns) -> list[Row]:
        enough = rows["rank"] == problem_of(point).effective_equations
        trials, count = len(enough), int(enough.sum())
        line: Row = {"trials": trials, "enough": count, "share": count / trials}
        line |= zip(("low", "high"), clopper_pearson(count, trials), strict=True)
        alone, short = int(rows["alone"].sum()), int((rows["alone"] & ~enough).sum())
        may, lost = int(rows["may"].sum()), int((rows["may"] & ~enough).sum())
        line |= {"may": may, "may_not_enough": lost}
        line |= {"alone": alone, "alone_not_enough": short}
        ends = clopper_pearson(short, alone) if alone else (None, None)
        line |= zip(("alone_low", "alone_high"), ends, strict=True)
        return [{**line, "error": float(rows["error"].sum())}]


def _drawn(point: Params, problem: Problem, seed: int, trial: int) -> Allocation:
    learn = learnable_of(point, problem)
    if isinstance(learn, Allocation):
        return learn
    rng = trial_stream(seed, problem.digest, trial)
    return problem.draw_allocation(learn, rng)


def _one(problem: Problem, mask: Allocation, seed: int) -> Row:
    whole = generic_rank(problem, mask, error=_ERROR, seed=seed)
    alone, error = True, whole.grade.error
    for name in mask.names:
        part = Allocation(mask.shapes, {name: mask.flat(name)})
        own = generic_rank(problem, part, error=_ERROR, seed=seed)
        alone, error = alone and own.rank == len(part), error + own.grade.error
    useless = sum(_useless(problem, mask, name) for name in mask.names)
    may = len(mask) - useless >= problem.effective_equations
    return {"rank": whole.rank, "may": may, "alone": alone, "error": error}


def _useless(problem: Problem, mask: Allocation, name: str) -> int:
    """How many learnable weights of a matrix the bounds on its rows, or on its columns, make useless."""
    bounds = problem.network.degree_bounds(name, problem.samples)
    over = int(np.maximum(mask.row_counts(name) - bounds.row, 0).sum())
    if bounds.column is None:
        return over
    return max(over, int(np.maximum(mask.column_counts(name) - bounds.column, 0).sum()))
