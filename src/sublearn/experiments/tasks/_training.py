"""Instances trained: until they are within eps, by several learners, and what it is worth after."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import count

import numpy as np

from sublearn._errors import BadInputError, one_of, positive
from sublearn.ensembles import fresh_samples
from sublearn.estimates import (
    DecidedWithinQuestion,
    FreshQuestion,
    Generalisation,
    MatchQuestion,
    Within,
    WithinEstimate,
    WithinQuestion,
    WithinTrial,
    clopper_pearson,
)
from sublearn.experiments.tasks._decisions import Counting, Decisions
from sublearn.experiments.tasks._point import (
    PICTURES,
    SETTING,
    Columns,
    Params,
    learnable_of,
    problem_of,
)
from sublearn.experiments.tasks._repeats import turns, whole
from sublearn.matchers import Budget
from sublearn.runs import Row, Task
from sublearn.training import LEARNERS, Learner, learner_named

EXACT, WITHIN = "exact match", "match within eps"
DECIDED_WITHIN = "every output within eps, decided"
DECIDE_WITHIN = "decide-within"  # the method that asks it
KEPT: Mapping[str, type] = {
    "within": bool,
    **dict.fromkeys(("mse", "square"), float),
    **dict.fromkeys(("starts", "steps"), int),
}
"""What is kept of a trained instance: a :class:`WithinTrial` without its number, in its order."""
_TRAINED = "trained_"  # before these names, where decided instances have columns too


def trains(point: Params) -> bool:
    """Whether the point's method is a learner."""
    return point.get("method") in LEARNERS


def eps_of(point: Params) -> float:
    """The bound on the mean squared error; a point that trains has to name it."""
    eps = point.get("eps")
    if isinstance(eps, bool) or not isinstance(eps, (int, float)):
        raise BadInputError(f"eps must be a positive number, such as 0.01, not {eps!r}.")
    return positive("eps", eps)


def within_of(point: Params, learner: Learner | None = None) -> Within:
    """Who trains, and how far; ``learner`` stands in for the point's method."""
    if learner is None:
        learner = learner_named(one_of("method", point.get("method"), LEARNERS))
    steps, starts = (
        None if point.get(name) is None else whole(point, name, 1) for name in ("steps", "starts")
    )
    return Within(eps_of(point), learner, steps, starts)


def within_question(point: Params, seed: int, learner: Learner | None = None) -> WithinQuestion:
    """What is asked of a trial that trains."""
    problem = problem_of(point)
    learnable = learnable_of(point, problem)
    return WithinQuestion(problem, learnable, seed, by=within_of(point, learner))


TRAINING = {
    "eps": "eps, bound on the mean squared error",
    "steps": "steps allowed from each start",
}
REACHED = {
    "within": "within eps",
    "within_first": "of these from the first start",
    "not_reached": "not reached",
    "within_share": "share within eps",
    "within_low": "within eps: 95% interval, low end",
    "within_high": "within eps: 95% interval, high end",
    "median_mse": "median mean squared error",
    "relative_eps": "eps / mean square of the targets",
}


def kept_of(record: WithinTrial, of: str = "") -> Row:
    """A trained instance by column; ``of`` stands before the names of the columns."""
    return dict(zip((f"{of}{name}" for name in KEPT), record[1:], strict=True))


def trained_records(trials: Iterable[int], rows: Columns, of: str = "") -> tuple[WithinTrial, ...]:
    """The instances that :func:`kept_of` put into columns."""
    return tuple(map(WithinTrial, trials, *(rows[f"{of}{name}"].tolist() for name in KEPT)))


def within_line(estimate: WithinEstimate) -> Row:
    """How many came within eps, with the 95% interval; "not reached" is not "no"."""
    low, high = estimate.confidence
    return {
        **estimate.plain("trials", "within"),
        "within_first": estimate.from_first,
        "not_reached": estimate.trials - estimate.within,
        "within_share": estimate.share,
        "within_low": low,
        "within_high": high,
        "median_mse": estimate.median_error,
        "relative_eps": estimate.relative_eps,
    }


class ExactOrWithin(Decisions):
    """One of three questions about an instance, by the point's ``method``.

    ladder, search or reference: is there an exact match? Decided as in :class:`Decisions`. The name of
    a learner: does it bring the mean squared error below ``eps``, with at most ``steps`` steps from
    each of ``starts`` starts? decide-within: do some weights bring every output within ``eps`` of its
    target? Decided by proof (:func:`sublearn.decide_within`). All are asked of the same instances. What
    is reached has columns of its own, in the rows of trials (``trained_``) as in the table; what is
    decided shares its columns and is told apart by the question, and counts of two questions are never
    added up. A column that a trial has nothing for is empty: nan, 0, "" or False. A point that decides
    may name a learner ``beside`` and ``eps``: the table then says how many of the matched and of the
    refuted instances that learner brings within eps, with its usual steps and starts.
    """

    name = "exact-or-within"

    takes: Mapping[str, str] = {
        **Decisions.takes,
        **PICTURES,
        **TRAINING,
        "beside": "learner beside the decision",
    }
    headings: Mapping[str, str] = {
        "question": "question",
        **Decisions.headings,
        "matched_within": "matched, and within eps by the learner",
        "refuted_within": "refuted, yet within eps by the learner",
        **REACHED,
    }

    @property
    def columns(self) -> Mapping[str, type]:
        return {**super().columns, **{f"{_TRAINED}{name}": kind for name, kind in KEPT.items()}}

    def question(self, point: Params, seed: int) -> MatchQuestion:
        if point.get("method") != DECIDE_WITHIN:
            return super().question(point, seed)
        exact = super().question({**point, "method": "ladder"}, seed)
        return DecidedWithinQuestion(**vars(exact), eps=eps_of(point))

    def check(self, point: Params) -> None:
        # Whether the pictures can be had is not asked before the first trial.
        point = {name: value for name, value in point.items() if name not in PICTURES}
        if trains(point):
            within_question(point, 0).draw(0)
            return
        super().check(point)
        if point.get("beside"):
            _beside(point, 0)

    def run(self, point: Params, seed: int, trials: range) -> list[Row]:
        empty = {n: math.nan if kind is float else kind() for n, kind in self.columns.items()}
        rows = [{**empty} for _ in trials]
        if not trains(point):
            for row, decided in zip(rows, super().run(point, seed, trials), strict=True):
                row |= decided
        if trains(point) or point.get("beside"):
            question = within_question(point, seed) if trains(point) else _beside(point, seed)
            for row, record in zip(rows, question.answer(trials), strict=True):
                row |= kept_of(record, _TRAINED)
        return rows

    def summarise(self, point: Params, rows: Columns) -> list[Row]:
        if trains(point):
            records = trained_records(count(), rows, _TRAINED)
            estimate = WithinEstimate(within_question(point, 0), records)
            return [{"question": WITHIN, **within_line(estimate)}]
        (line,) = super().summarise(point, rows)
        if point.get("beside"):
            within = rows[f"{_TRAINED}within"]
            for kind in ("matched", "refuted"):
                line[f"{kind}_within"] = int((within & (rows["kind"] == kind)).sum())
        question = DECIDED_WITHIN if point.get("method") == DECIDE_WITHIN else EXACT
        return [{"question": question, **line}]


def _beside(point: Params, seed: int) -> WithinQuestion:
    """The learner beside a decision; the point's starts are those of the decision."""
    learner = learner_named(one_of("beside", point.get("beside"), LEARNERS))
    return within_question({**point, "steps": None, "starts": None}, seed, learner)


class Learners(Task):
    """Each instance trained by each of the ``learners``, until its mean squared error is below ``eps``.

    Learners are set apart by spaces; one may say its rate, as in ``adam:rate=0.1``. Trial i is instance
    i // L with the (i % L)-th of L learners. All have ``starts`` starts of at most ``steps`` steps;
    Levenberg-Marquardt, whose steps are dear, has at most 200. The table has a line per learner.
    ``only`` counts the instances that it solved and the last learner did not, ``missed`` the other way
    round.
    """

    name = "trainability"
    version = 2  # targets are a teacher's outputs as real numbers, and no sample is left out
    takes: Mapping[str, str] = {
        **SETTING,
        "learners": "learners compared",
        **TRAINING,
        "starts": "starts allowed",
    }
    headings: Mapping[str, str] = {
        "learner": "learner",
        "trials": "instances",
        **REACHED,
        "only": "solved, and not by Levenberg-Marquardt",
        "missed": "not solved, but by Levenberg-Marquardt",
        "median_steps": "median steps spent",
    }
    columns: Mapping[str, type] = {
        "instance": int,
        "learner": str,
        **KEPT,
    }

    def check(self, point: Params) -> None:
        for question in _by_learner(point, 0).values():
            question.draw(0)

    def run(self, point: Params, seed: int, trials: range) -> list[Row]:
        questions = _by_learner(point, seed)
        names = list(questions)
        rows: dict[tuple[int, str], Row] = {}
        for number, (name, question) in enumerate(questions.items()):
            mine = [instance for instance, place in turns(trials, len(names)) if place == number]
            if not mine:
                continue
            # The instances of a learner in a chunk follow one another: one batch.
            for record in question.answer(range(mine[0], mine[-1] + 1)):
                own: Row = {"instance": record.trial, "learner": name}
                rows[record.trial, name] = {**own, **kept_of(record)}
        return [rows[instance, names[place]] for instance, place in turns(trials, len(names))]

    def summarise(self, point: Params, rows: Columns) -> list[Row]:
        estimates: dict[str, WithinEstimate] = {}
        for name, question in _by_learner(point, 0).items():
            here = rows["learner"] == name
            mine = {column: values[here] for column, values in rows.items()}
            records = trained_records(mine["instance"].tolist(), mine)
            estimates[name] = WithinEstimate(question, records)
        solved = {
            name: {record.trial for record in one.records if record.within}
            for name, one in estimates.items()
        }
        last = solved[list(solved)[-1]]
        return [
            {
                "learner": name,
                **within_line(one),
                "only": len(solved[name] - last),
                "missed": len(last - solved[name]),
                "median_steps": float(np.median([record.steps for record in one.records])),
            }
            for name, one in estimates.items()
            if one.trials
        ]


def _by_learner(point: Params, seed: int) -> dict[str, WithinQuestion]:
    """What is asked of each learner, by what the point calls it."""
    texts = str(point.get("learners") or "").split()
    if not texts or len(set(texts)) < len(texts):
        raise BadInputError(
            f"learners must be different names set apart by spaces, not {point.get('learners')!r}."
        )
    return {text: within_question(*_own(point, text, seed)) for text in texts}


def _own(point: Params, text: str, seed: int) -> tuple[Params, int, Learner]:
    """A learner such as ``adam:rate=0.1``, and the point with the steps that it may make."""
    name, colon, setting = text.partition(":")
    one_of("a name in learners", name, LEARNERS)
    try:
        settings = {"rate": float(setting.removeprefix("rate="))} if colon else {}
    except ValueError:
        raise BadInputError(f"a learner with a rate reads adam:rate=0.1, not {text!r}.") from None
    learner, steps = learner_named(name, **settings), point.get("steps")
    if learner.most_steps is not None and isinstance(steps, int):
        steps = min(steps, learner.most_steps)
    return {**point, "steps": steps}, seed, learner


class FreshErrors(Counting[Generalisation]):
    """Solve an instance on its samples, then measure the error on ``fresh`` samples of its teacher.

    Without a ``method`` solved means an exact match, which is proved; with the name of a learner it
    means a mean squared error below ``eps``. The relative error is that on fresh samples over the mean
    square of their targets: 0 for the teacher itself, 1 for answering 0. The table has its quartiles
    over the solved instances.
    """

    name = "generalisation"
    version = 3  # the mean square of the targets has a column of its own
    counted = Generalisation
    takes: Mapping[str, str] = {**Decisions.takes, **TRAINING, "fresh": "fresh samples"}
    headings: Mapping[str, str] = {
        "question": "solved means",
        "trials": "trials",
        "solved": "solved",
        "quarter": "relative error, lower quartile",
        "median": "relative error, median",
        "three_quarters": "relative error, upper quartile",
        "below_one": "solved with a relative error below 1",
        "below_low": "its share: 95% interval, low end",
        "below_high": "its share: 95% interval, high end",
    }

    def question(self, point: Params, seed: int) -> FreshQuestion:
        problem = problem_of(point)
        # Any method but none has to be a learner, which within_of asks for.
        by = within_of(point) if point.get("method") else Budget()
        fresh = whole(point, "fresh", 1000)
        return FreshQuestion(problem, learnable_of(point, problem), seed, fresh, by)

    def check(self, point: Params) -> None:
        super().check(point)
        fresh_samples(problem_of(point), 1)

    def summarise(self, point: Params, rows: Columns) -> list[Row]:
        estimate = self.result(point, rows)
        line: Row = {"question": WITHIN if trains(point) else EXACT}
        line |= {"trials": estimate.trials, "solved": estimate.solved}
        quartiles = [q if math.isfinite(q) else None for q in estimate.quantiles(0.25, 0.5, 0.75)]
        line |= zip(("quarter", "median", "three_quarters"), quartiles, strict=True)
        below = estimate.better_than_zero if estimate.solved else None
        ends = (None, None) if below is None else clopper_pearson(below, estimate.solved)
        return [{**line, "below_one": below, "below_low": ends[0], "below_high": ends[1]}]
