"""Sweeps: what the file says is what is run; what it cannot mean is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

import sublearn as sl
from runs.toys import Walk
from sublearn import BadInputError
from sublearn.experiments.tasks import TASKS
from sublearn.runs import execute, sweep_from_dict, sweep_from_file

TOYS = {"walk": Walk()}
PARAMS = {"network": "lrnn:n={n},b=1,d=1,T={T}", "samples": "{T}", "learn": "W:first-rows={k}"}
ROWS = {
    "task": "estimate",
    "trials": 4,
    "axes": {"size": [{"n": 3, "T": 2}, {"n": 4, "T": 3}], "k": [1, 2]},
    "params": PARAMS,
}


def test_every_combination_is_a_point() -> None:
    plan = sweep_from_dict(ROWS, TASKS).full
    assert [(p.params["n"], p.params["T"], p.params["k"]) for p in plan.points] == [
        (3, 2, 1),
        (3, 2, 2),
        (4, 3, 1),
        (4, 3, 2),
    ]
    first, last = plan.points[0].params, plan.points[-1].params
    assert first["network"] == "lrnn:n=3,b=1,d=1,T=2" and first["learn"] == "W:first-rows=1"
    assert last["samples"] == 3 and isinstance(last["samples"], int)
    assert plan.trials == 16 and plan.seed == 0


def test_a_sweep_counts_what_estimate_counts(tmp_path: Path) -> None:
    table = execute([sweep_from_dict(ROWS, TASKS)], out=tmp_path).table("sweep")
    assert len(table) == 4
    for row in table:
        net = sl.LinearRNN(n=int(str(row["n"])), b=1, d=1, T=int(str(row["T"])))
        problem = sl.Problem(net, samples=int(str(row["T"])))
        found = sl.estimate(problem, {"W": sl.FirstRows(int(str(row["k"])))}, 4)
        assert (row["matched"], row["refuted"]) == (found.matched, found.refuted)
        assert (row["low"], row["high"]) == found.confidence


def test_skipped_combinations_and_other_keys(tmp_path: Path) -> None:
    file = tmp_path / "some-walks.toml"
    file.write_text(
        'title = "Walks"\ntask = "walk"\ntrials = 5\nchunk = 2\nseed = 3\nskip = [{a = 1, b = 2}]\n'
        'axes.a = [1, 2]\naxes.b = [1, 2]\nparams.steps = "{a}{b}"\n'
        '[plot]\nx = "b"\ny = "mean"\nlines = "a"\n'
    )
    found = sweep_from_file(file, TOYS)
    assert (found.name, found.title, found.full.seed) == ("some-walks", "Walks", 3)
    assert [p.params["steps"] for p in found.full.points] == ["11", "21", "22"]
    assert found.full.points[0].chunk == 2
    run = execute([found], out=tmp_path / "run", budget="full")
    assert [path.name for path in run.pictures("some-walks")] == [
        "some-walks.png",
        "some-walks.svg",
    ]
    assert run.failures == []


def changed(**changes: object) -> dict[str, object]:
    return {key: value for key, value in {**ROWS, **changes}.items() if value is not None}


WRONG = [
    (changed(trails=3), "a key must be one of .*, not 'trails'. Did you mean 'trials'?"),
    (changed(task=None), "the key task is missing"),
    (changed(task="estimat"), "task must be one of .*Did you mean 'estimate'?"),
    (changed(trials=0), "trials must be a whole number of at least 1, not 0"),
    (changed(chunk="8"), "chunk must be"),
    (changed(seed=-1), "seed must be"),
    (changed(axes=[1]), r"axes must be a table, \[axes\]"),
    (changed(axes={"k": 3}), "axes.k must be a list of values, not 3"),
    (changed(axes={"k": []}), "axes.k must be a list"),
    (changed(axes={"s": [{"n": 1}, {"T": 1}]}), "axes.s must all set the same names"),
    (changed(axes={"n": [1], "s": [{"n": 1}]}), "axes.s sets n, which another axis sets too"),
    (changed(axes={"k": list(range(1000)), "n": list(range(1000))}), "1000000 points"),
    (changed(params={**PARAMS, "k": 1}), "k stands among the axes and in params"),
    (changed(params={**PARAMS, "learn": "W:rows={r}"}), r"params.learn .* not \{r\}"),
    (changed(params={**PARAMS, "learn": "W:rows={k"}), "params.learn .* cannot be read"),
    (changed(params={**PARAMS, "learn": "W:rows={k:d}"}), "may hold the names of axes in braces"),
    (changed(params={**PARAMS, "methd": "ladder"}), "methd is not read by task estimate"),
    (changed(params={**PARAMS, "method": "guess"}), "at n = 3, T = 2, k = 1: method must be"),
    (changed(params={**PARAMS, "network": "lrnn:n={n}"}), "at n = 3, T = 2, k = 1: .*lacks"),
    (changed(params={**PARAMS, "learn": ["W:all"]}), "param learn must be text"),
    (changed(skip=[{"q": 1}]), "a name in skip must be one of"),
    (changed(skip={"n": 1}), "skip must be a list of tables"),
    (changed(skip=[{"n": 3}, {"n": 4}]), "skip leaves no point"),
    (changed(plot={"x": "k"}), "plot must say x and y"),
    (changed(plot={"x": "k", "y": "share", "z": "n"}), "a key of plot must be one of"),
    (changed(name="My Sweep"), "name must be at most 100 lower-case"),
    (changed(title=3), "title must be text, not 3"),
]


@pytest.mark.parametrize(("content", "message"), WRONG, ids=[m for _, m in WRONG])
def test_what_it_cannot_mean_is_refused(content: dict, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        sweep_from_dict(content, TASKS)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="there is no file"):
        sweep_from_file(tmp_path / "absent.toml", TASKS)
    file = tmp_path / "odd.toml"
    file.write_text("task = ")
    with pytest.raises(BadInputError, match=r"odd\.toml cannot be read as TOML"):
        sweep_from_file(file, TASKS)
    file.write_text('task = "none"\ntrials = 1\naxes = {}\n')
    with pytest.raises(BadInputError, match=r"odd\.toml: task must be one of"):
        sweep_from_file(file, TASKS)


def test_a_plot_of_no_column_is_refused_before_the_trials() -> None:
    with pytest.raises(BadInputError, match=r"plot\.y must be one of .*Did you mean 'share'"):
        sweep_from_dict({**ROWS, "plot": {"x": "k", "y": "shar"}}, TASKS)


def test_an_axis_that_counts_things_has_whole_ticks() -> None:
    sweep = sweep_from_dict({**ROWS, "plot": {"x": "k", "y": "share"}}, TASKS)
    rows = [{"k": k, "share": k / 10} for k in (2, 3, 4)]
    (fig,) = sweep.draw(rows).values()
    (ax,) = fig.axes
    assert all(tick == round(tick) for tick in ax.get_xticks())
    assert any(tick != round(tick) for tick in ax.get_yticks())


@pytest.mark.parametrize("name", ["matched", "share", "low", "trials", "verdict"])
def test_an_axis_called_like_a_result_is_refused(name: str) -> None:
    with pytest.raises(BadInputError, match=f"{name} is a result of task estimate"):
        sweep_from_dict({**ROWS, "axes": {**ROWS["axes"], name: [1, 2]}}, TASKS)
