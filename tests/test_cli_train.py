"""train and estimate-solved from the command line."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import sublearn as sl
from sublearn import cli
from sublearn.cli._progress import drawing

RELU = ["--network", "ffn:6-8-4,activation=relu", "--samples", "6", "--learn", "W1:first-rows=6"]
DIGITS = ["--network", "ffn:64-90-10,activation=relu", "--samples", "50", "--data", "digits"]
ROWS = ["--learn", "W1:first-rows=40"]


def run(*words: str) -> str:
    result = CliRunner().invoke(cli.app, list(words))
    assert result.exit_code == 0, result.output
    return result.output


def refuse(*words: str) -> str:
    result = CliRunner().invoke(cli.app, list(words))
    assert isinstance(result.exception, sl.BadInputError), result.output
    return str(result.exception)


def test_train_is_the_api_and_saves(tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["train", *RELU, "--learner", "adahessian", "--rate", "0.1", "--steps", "30"]
    text = run(*words, "--starts", "3", "--trial", "2", "--seed", "5", "--out", str(out))
    problem = sl.Problem(sl.FeedForward((6, 8, 4), activation="relu"), 6)
    instance = sl.draw(problem, {"W1": sl.FirstRows(6)}, seed=5, trial=2)
    expected = sl.train(instance, sl.training.AdaHessian(rate=0.1), steps=30, starts=3, seed=5)
    assert " ".join(text.split()).startswith(str(expected)) and str(out) in text
    assert sorted(p.name for p in out.iterdir()) == [
        "curve.csv",
        "curve.png",
        "curve.svg",
        "mask.json",
        "weights.npz",
    ]
    saved = np.load(out / "weights.npz")
    assert all((saved[name] == expected.weights[name]).all() for name in ("W1", "W2"))
    with (out / "curve.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    best = [float(row["loss"]) for row in rows if int(row["start"]) == expected.best]
    assert best == expected.curve[1].tolist() and min(best) == pytest.approx(expected.loss)
    assert sl.Allocation.load(out / "mask.json", problem.network) == instance.allocation
    assert "is there already" in refuse(*words, "--out", str(out))
    # The same command, the same bytes.
    again = tmp_path / "again"
    run(*words, "--starts", "3", "--trial", "2", "--seed", "5", "--out", str(again))
    for name in ("curve.csv", "curve.png", "weights.npz"):
        assert (again / name).read_bytes() == (out / name).read_bytes()


def test_labels_as_json() -> None:
    found = json.loads(run("train", *DIGITS, *ROWS, "--steps", "400", "--single", "--json"))
    assert found["solved"] is True and found["labels_right"] == 50
    assert found["goal"] == "every label right" and found["loss"] == "cross-entropy"
    other = json.loads(run("train", *DIGITS, *ROWS, "--steps", "5", "--within", "1e-3", "--json"))
    assert other["goal"] == "mean squared error < 0.001" and other["loss"] == "squared error"


def test_estimate_solved_is_the_api() -> None:
    words = ["estimate-solved", *DIGITS, *ROWS, "--trials", "2", "--steps", "40", "--json"]
    found = json.loads(run(*words))
    problem = sl.Problem(
        sl.FeedForward((64, 90, 10), activation="relu"), 50, teacher=sl.Labels(sl.datasets.digits())
    )
    expected = sl.estimates.estimate_solved(problem, {"W1": sl.FirstRows(40)}, trials=2, steps=40)
    assert found["solved"] == expected.solved and found["learner"] == "adam"
    assert "every label right" in run(*words[:-1])
    teacher = run("estimate-solved", *RELU, "--trials", "1", "--steps", "3")
    assert teacher.startswith("solved (mean squared error < 0.01): ")


def test_bad_requests_write_nothing(tmp_path: Path) -> None:
    out = tmp_path / "never"
    assert "learner must be one of" in refuse("train", *RELU, "--learner", "x", "--out", str(out))
    assert "steps" in refuse("train", *RELU, "--steps", "0", "--out", str(out))
    assert "no setting 'rate'" in refuse(
        "train", *RELU, "--learner", "levenberg-marquardt", "--rate", "1", "--out", str(out)
    )
    assert "--data must be mnist" in refuse("train", *DIGITS[:-1], "letters", *ROWS)
    assert "there is no file lesson.npz" in refuse("train", *DIGITS[:-1], "lesson.npz", *ROWS)
    assert "no --teacher" in refuse("train", *DIGITS, *ROWS, "--teacher", "none")
    assert not out.exists()
    file = tmp_path / "file"
    file.write_text("")
    assert "is a file" in refuse("train", *RELU, "--out", str(file))


def test_the_drawing_follows_the_curve() -> None:
    lines = drawing([10.0 ** (-i / 10) for i in range(40)], columns=20, rows=4)
    assert len(lines) == 4 and max(len(line) for line in lines) == 20
    # It falls from left to right: no row is wider than the one below it.
    assert [len(line) for line in lines] == sorted(len(line) for line in lines)
    assert lines[0][0] == "█" and lines[-1][-1] == "▁"
    assert drawing([float("nan")], 10) == [] and len(drawing([2.0], 10)[-1]) == 1
