"""estimate --within, several learners, and --fresh from the command line."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

import sublearn as sl
from sublearn import cli
from sublearn.estimates import confidence_sequence
from sublearn.training import Adam

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


def test_the_help_says_which_question_takes_which_option() -> None:
    """What stands below a heading is what --help says, and what is refused elsewhere."""
    text = run("--help")
    headings = [
        "Another question than exact matches",
        "For exact matches",
        "For --within and --labels",
    ]
    below = [part.partition("╭─")[0] for part in text.split("╭─ ")[2:]]
    assert [part.split(" ─")[0] for part in below] == headings
    found = [re.findall(r"^│ (--[a-z]+)", part, flags=re.MULTILINE) for part in below]
    assert found == [
        ["--within", "--fresh", "--labels"],
        ["--method", "--count", "--always"],
        ["--learner", "--steps", "--rate"],
    ]


def test_within_is_the_api() -> None:
    options = ["--within", "0.05", "--learner", "adam", "--steps", "40", "--starts", "2"]
    found = json.loads(run(*RELU, "--trials", "8", *options, "--rate", "0.1", "--json"))
    adam = Adam(rate=0.1)
    plain = sl.estimate_within(
        PROBLEM, RULE, 8, eps=0.05, learner=adam, steps=40, starts=2
    ).to_dict()
    assert found.pop("rules") == {"W1": {"rule": "FirstRows", "k": 6, "count": None}}
    assert (found.pop("sublearn"), found.pop("problem")) == (sl.__version__, PROBLEM.digest)
    assert found.pop("teacher") is None and found.pop("unfinished") is False
    assert found.pop("saved") is None
    assert {k: v for k, v in found.items() if k != "timing"} == {
        k: v for k, v in plain.items() if k != "timing"
    }
    text = run(*RELU, "--trials", "8", *options)
    assert "within eps = 0.05" in text and "of 8 instances" in text and "matched" not in text


def test_several_learners_make_a_table() -> None:
    words = [*RELU, "--trials", "6", "--within", "0.1", "--steps", "30", "--starts", "2"]
    names = ["sgd", "levenberg-marquardt"]
    text = run(*words, "--learner", ",".join(names))
    lines = [line.split()[0] for line in text.splitlines()]
    assert lines[lines.index("learner") + 1 :] == names
    found = json.loads(run(*words, "--learner", ",".join(names), "--json"))
    same = sl.estimates.trainability(PROBLEM, RULE, 6, eps=0.1, learners=names, steps=30, starts=2)
    assert [run["within"] for run in found["learners"]] == [run.within for run in same.runs]
    assert found["by_any"] == same.by_any


def test_fresh_samples() -> None:
    linear = ["--network", "lrnn:n=5,b=1,d=2,T=3", "--samples", "3", "--learn", "W:first-rows=5"]
    found = json.loads(run(*linear, "--trials", "3", "--fresh", "50", "--json"))
    assert found["solved_means"] == "exact match" and found["solved"] == 3
    assert found["relative_error_quartiles"][2] < 1e-10
    text = run(*RELU, "--trials", "6", "--fresh", "50", "--within", "0.3", "--starts", "2")
    assert "within eps = 0.3 by levenberg-marquardt" in text and "50 fresh samples" in " ".join(
        text.split()
    )


def test_the_other_spelling_of_learner_still_works() -> None:
    words = [*RELU, "--trials", "4", "--within", "0.1", "--steps", "20", "--starts", "1", "--json"]
    found = [json.loads(run(*words, option, "adam")) for option in ("--learner", "--method")]
    for one in found:
        del one["timing"]
    assert found[0] == found[1] and found[0]["learner"] == "adam"
    help_text = CliRunner().invoke(cli.app, ["train", "--help"]).output
    assert "--learner" in help_text and "--method" not in help_text


def stops_after(trials: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C as the progress bar is told of so many trials."""

    @contextmanager
    def bar(*_: object, **__: object) -> Iterator[object]:
        def advance(done: float, words: str) -> None:
            if done >= trials:
                raise KeyboardInterrupt

        yield advance

    monkeypatch.setattr("sublearn.cli._estimates.progress_bar", bar)


LINEAR = ["--network", "lrnn:n=5,b=1,d=2,T=3", "--samples", "3", "--learn", "W:first-rows=5"]
DIGITS = ["--network", "ffn:64-20-10,activation=relu", "--samples", "10", "--data", "digits"]


@pytest.mark.parametrize(
    ("words", "stop", "count"),
    [
        ([*RELU, "--within", "0.3", "--starts", "1", "--steps", "5"], 32, "within"),
        ([*LINEAR, "--fresh", "5"], 16, "solved"),
        ([*DIGITS, "--learn", "W1:first-rows=20", "--labels", "--steps", "5"], 2, "solved"),
    ],
    ids=["within", "fresh", "labels"],
)
def test_ctrl_c_prints_the_counts_so_far(
    words: list[str], stop: int, count: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an exact estimate: what was counted, the interval that may stop at any time, code 130."""
    stops_after(stop, monkeypatch)
    words = ["estimate", *words, "--trials", "1000"]
    result = CliRunner().invoke(cli.app, [*words, "--json"])
    found = json.loads(result.stdout)
    assert (result.exit_code, found["unfinished"], found["trials"]) == (130, True, stop)
    if "confidence" in found:
        assert found["confidence"] == list(confidence_sequence(found[count], stop))
    text = CliRunner().invoke(cli.app, words)
    assert text.exit_code == 130 and text.stdout.startswith(f"unfinished, {stop} of 1000 trials: ")


def test_ctrl_c_keeps_the_learners_that_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    stops_after(64 + 32, monkeypatch)
    words = [*RELU, "--within", "0.3", "--learner", "sgd,adam,adahessian", "--starts", "1"]
    result = CliRunner().invoke(
        cli.app, ["estimate", *words, "--steps", "5", "--trials", "64", "--json"]
    )
    found = json.loads(result.stdout)
    assert (result.exit_code, found["trials"]) == (130, 32)
    assert [(one["learner"], one["trials"]) for one in found["learners"]] == [
        ("sgd", 64),
        ("adam", 32),
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--within", "-1"], "eps must be positive"),
        (
            ["--within", "0.1", "--learner", "newton"],
            "--learner must be one of levenberg-marquardt",
        ),
        (
            ["--within", "0.1", "--method", "reference"],
            "--method reference goes with an exact match, and not with --within.",
        ),
        (["--learner", "adam"], "--learner adam goes with --within or"),
        (["--method", "adam"], "--learner adam goes with --within or"),
        (
            ["--fresh", "5", "--method", "reference"],
            "--method reference goes with an exact match, and not with --fresh.",
        ),
        (["--within", "0.1", "--rate", "0.1"], "no setting 'rate'"),
        (["--within", "0.1", "--always"], "--always"),
        (["--steps", "5"], "--within"),
        (["--within", "0.1", "--learner", "sgd,adam", "--precision", "0.1"], "--precision"),
        (["--fresh", "5", "--learner", "adam"], "and not with --fresh."),
        (["--fresh", "5", "--precision", "0.1"], "--precision"),
        (["--fresh", "5", "--within", "0.1", "--learner", "sgd,adam"], "one learner"),
    ],
)
def test_bad_requests(
    words: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert said in refused(capsys, monkeypatch, *RELU, "--trials", "2", *words)
