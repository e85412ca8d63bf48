"""estimate --within, several learners, and --fresh from the command line."""

from __future__ import annotations

import json
import sys

import pytest
from typer.testing import CliRunner

import sublearn as sl
from sublearn import cli
from sublearn.learners import Adam

RELU = ["--network", "ffn:4-6-3,activation=relu", "--samples", "4", "--learn", "W1:first-rows=6"]
PROBLEM = sl.Problem(sl.FeedForward((4, 6, 3), "relu"), 4)
RULE = {"W1": sl.FirstRows(6)}


def run(*words: str) -> str:
    result = CliRunner().invoke(cli.app, ["estimate", *words])
    assert result.exit_code == 0, result.output
    return result.output


def refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str
) -> str:
    monkeypatch.setattr(sys, "argv", ["sublearn", "estimate", *words])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    said = capsys.readouterr()
    assert stopped.value.code == 2 and not said.out and "Traceback" not in said.err
    return said.err


def test_within_is_the_api() -> None:
    options = ["--within", "0.05", "--method", "adam", "--steps", "40", "--starts", "2"]
    found = json.loads(run(*RELU, "--trials", "8", *options, "--rate", "0.1", "--json"))
    adam = Adam(rate=0.1)
    plain = sl.estimate(PROBLEM, RULE, 8, eps=0.05, method=adam, steps=40, starts=2).to_dict()
    assert found.pop("rules") == {"W1": {"rule": "FirstRows", "k": 6, "count": None}}
    assert (found.pop("sublearn"), found.pop("problem")) == (sl.__version__, PROBLEM.digest)
    assert found.pop("teacher") is None
    assert {k: v for k, v in found.items() if k != "timing"} == {
        k: v for k, v in plain.items() if k != "timing"
    }
    text = run(*RELU, "--trials", "8", *options)
    assert "within eps = 0.05" in text and "of 8 instances" in text and "matched" not in text


def test_several_learners_make_a_table() -> None:
    words = [*RELU, "--trials", "6", "--within", "0.1", "--steps", "30", "--starts", "2"]
    names = ["sgd", "levenberg-marquardt"]
    text = run(*words, "--method", ",".join(names))
    assert [line.split()[0] for line in text.splitlines()[2:]] == names
    found = json.loads(run(*words, "--method", ",".join(names), "--json"))
    same = sl.trainability(PROBLEM, RULE, 6, eps=0.1, learners=names, steps=30, starts=2)
    assert [run["within"] for run in found["learners"]] == [run.within for run in same.runs]
    assert found["by_any"] == same.by_any


def test_fresh_samples() -> None:
    linear = ["--network", "lrnn:n=5,b=1,d=2,T=3", "--samples", "3", "--learn", "W:first-rows=5"]
    found = json.loads(run(*linear, "--trials", "3", "--fresh", "50", "--json"))
    assert found["solved_means"] == "exact match" and found["solved"] == 3
    assert found["relative_error_quartiles"][2] < 1e-10
    text = run(*RELU, "--trials", "6", "--fresh", "50", "--within", "0.3", "--starts", "2")
    assert "within eps = 0.3 by levenberg-marquardt" in text and "50 fresh samples" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--within", "-1"], "eps must be positive"),
        (["--within", "0.1", "--method", "newton"], "--method must be one of levenberg-marquardt"),
        (["--within", "0.1", "--rate", "0.1"], "no setting 'rate'"),
        (["--within", "0.1", "--always"], "--always"),
        (["--steps", "5"], "--within"),
        (["--within", "0.1", "--method", "sgd,adam", "--precision", "0.1"], "--precision"),
        (["--fresh", "5", "--method", "adam"], "needs --within"),
        (["--fresh", "5", "--precision", "0.1"], "--precision"),
        (["--fresh", "5", "--within", "0.1", "--method", "sgd,adam"], "one learner"),
    ],
)
def test_bad_requests(
    words: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert said in refused(capsys, monkeypatch, *RELU, "--trials", "2", *words)
