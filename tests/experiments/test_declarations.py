"""Every experiment through the same door: points that run, headings, pictures, words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sublearn._errors import BadInputError
from sublearn.estimates import clopper_pearson
from sublearn.experiments import ALL, find, rehearse
from sublearn.experiments.tasks import TASKS, Decisions, ExactOrWithin
from sublearn.runs import Experiment, Point, Row, Table

NAMES = list(ALL)


def _light(experiment: Experiment, point: Point) -> Point:
    """The same point with next to no work."""
    params: Row = dict(point.params)
    if params.get("method") == "reference" or "starts" in params:
        params["starts"] = 25
    if "steps" in params:  # a point that trains
        params |= {"steps": 20, "starts": 2}
    return replace(point, params=params, trials=1)


def _table(experiment: Experiment) -> Table:
    table = Table()
    for declared in experiment.quick.points:
        point = _light(experiment, declared)
        rows = experiment.task.run(point.params, 0, range(point.trials))
        assert len(rows) == point.trials
        assert all(set(row) == set(experiment.task.columns) for row in rows)
        columns = {
            name: np.array([row[name] for row in rows], dtype=object if kind is str else kind)
            for name, kind in experiment.task.columns.items()
        }
        lines = experiment.task.summarise(point.params, columns)
        said = set(experiment.task.headings)
        assert all(set(line) <= said for line in lines) and not said & set(point.params)
        table += [{**declared.params, **line} for line in lines]
    return table


@pytest.mark.parametrize("name", TASKS)
def test_every_task_says_its_results(name: str) -> None:
    # Only then is an axis that is called like one refused before the trials.
    assert TASKS[name].headings


@pytest.mark.parametrize("name", NAMES)
def test_from_points_to_pictures_and_words(name: str) -> None:
    experiment = find(name)
    if not experiment.can_run:
        pytest.skip(f"{experiment.needs} is not installed")
    table = _table(experiment)
    used = {column for row in table for column in row}
    assert used <= set(experiment.headings), "a column has no heading"
    figures = experiment.draw(table)
    assert figures
    for figure in figures.values():
        for ax in figure.axes:
            if ax.axison:
                assert ax.get_xlabel() and ax.get_ylabel(), "an axis has no name"
    assert len(experiment.find(table)) > 40
    # A run that stopped half-way, or has not begun: less to show, and no crash.
    for part in (Table(table[: len(table) // 2]), Table()):
        experiment.draw(part)
        assert experiment.find(part)


def test_full_budgets_can_be_run_and_are_sharp() -> None:
    assert sum(experiment.hours for experiment in ALL.values()) <= 3.0
    for name, experiment in ALL.items():
        if not isinstance(experiment.task, (Decisions, ExactOrWithin)) or name == "saturation":
            continue
        decided = [p for p in experiment.full.points if p.params.get("method") in (None, "ladder")]
        assert decided
        for point in decided:
            low, high = clopper_pearson(point.trials // 2, point.trials)
            assert high - low <= 0.1, f"{name}: {point.trials} trials"


@pytest.mark.parametrize("name", NAMES)
def test_declarations_are_complete(name: str) -> None:
    experiment = find(name)
    assert experiment.name == name
    assert experiment.title and experiment.source and experiment.claim.endswith(".")
    assert experiment.hours > 0
    assert experiment.full.trials > experiment.quick.trials
    for point in experiment.quick.points:
        experiment.task.check(point.params)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_point_of_the_full_budget_can_be_run(name: str) -> None:
    experiment = find(name)
    for point in experiment.full.points:
        experiment.task.check(point.params)


def test_names_are_listed_and_wrong_ones_refused() -> None:
    assert len(ALL) == len(NAMES) == len(set(NAMES))
    with pytest.raises(BadInputError, match=r"one of warmup, .*Did you mean 'growth'"):
        find("grow")


def test_tasks_go_by_their_names() -> None:
    assert all(task.name == name for name, task in TASKS.items())
    assert {"estimate", "certify", "census", "saturation"} <= set(TASKS)


def test_a_rehearsal_by_two_processes_does_the_same() -> None:
    said: list[str] = []
    rehearse([ALL["warmup"]], lambda done, name: said.append(f"{done} {name}"), workers=2)
    assert [word.split()[0] for word in said] == ["0", "1", "2", "3", "4"]
    names = sorted(word.split()[1] for word in said)
    assert names == ["matchers", "matchers", "matchers", "warmup", "warmup"]


def test_a_rehearsal_goes_through_every_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, range]] = []
    chosen = [ALL["warmup"], ALL["fig2a"]]
    for experiment in chosen:
        task = type(experiment.task)
        monkeypatch.setattr(
            task, "run", lambda self, point, seed, trials: seen.append((point["learn"], trials))
        )
    said: list[str] = []
    rehearse(chosen, lambda done, name: said.append(name))
    assert said == ["matchers", "matchers", "matchers", "warmup", "warmup", "fig2a", "fig2a"]
    ends = [p.params["learn"] for e in chosen for p in (e.quick.points[0],)]
    assert [seen[0][0], seen[2][0]] == ends
    assert {trials for _, trials in seen} == {range(1)}
