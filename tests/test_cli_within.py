"""What learners reach, and what a match is worth on fresh samples, from the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

import sublearn as sl
from sublearn import cli
from sublearn.estimates import confidence_sequence
from sublearn.training import LEARNERS, Adam

RELU = ["--network", "ffn:4-6-3,activation=relu", "--samples", "4", "--learn", "W1:first-rows=6"]
PROBLEM = sl.Problem(sl.FeedForward((4, 6, 3), "relu"), 4)
RULE = {"W1": sl.FirstRows(6)}


def run(*words: str) -> str:
    result = CliRunner().invoke(cli.app, list(words))
    assert result.exit_code == 0, result.output
    return result.output


def refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str
) -> str:
    monkeypatch.setattr(sys, "argv", ["sublearn", *words])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    said = capsys.readouterr()
    assert stopped.value.code == 2 and not said.out and "Traceback" not in said.err
    return said.err


COUNTED = {"--trials", "--starts"}
TRAINED = {"--learner", "--rate", "--steps"}
TAKEN = {
    "estimate": COUNTED | {"--precision", "--method", "--count", "--always"},
    "estimate-within": COUNTED | TRAINED | {"--precision", "--eps"},
    "trainability": COUNTED | TRAINED | {"--eps"},
    "estimate-solved": COUNTED | TRAINED,
    "generalisation": COUNTED | {"--fresh"},
    "generalisation-within": COUNTED | TRAINED | {"--fresh", "--eps"},
}


@pytest.mark.parametrize("command", TAKEN)
def test_a_command_takes_what_its_question_means(command: str) -> None:
    """Beside what says which instances are drawn, by whom, and where it goes, which is the same for all."""
    words = run(command, "--help").split()
    taken = {word for word in words if word.startswith("--")}
    shared = {"--network", "--samples", "--data", "--workers", "--seed", "--out", "--json"}
    assert shared <= taken
    every = set.union(*TAKEN.values(), {"--within", "--labels", "--by"})
    assert taken & every == TAKEN[command]


def test_within_is_the_api() -> None:
    options = ["--eps", "0.05", "--learner", "adam", "--steps", "40", "--starts", "2"]
    found = json.loads(
        run("estimate-within", *RELU, "--trials", "8", *options, "--rate", "0.1", "--json")
    )
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
    text = run("estimate-within", *RELU, "--trials", "8", *options)
    assert "within eps = 0.05" in text and "of 8 instances" in text and "matched" not in text


def test_several_learners_make_a_table() -> None:
    words = ["trainability", *RELU, "--trials", "6", "--eps", "0.1", "--steps", "30"]
    words += ["--starts", "2"]
    names = ["sgd", "levenberg-marquardt"]
    text = run(*words, "--learner", ",".join(names))
    lines = [line.split()[0] for line in text.splitlines()]
    assert lines[lines.index("learner") + 1 :] == names
    found = json.loads(run(*words, "--learner", ",".join(names), "--json"))
    same = sl.estimates.trainability(PROBLEM, RULE, 6, eps=0.1, learners=names, steps=30, starts=2)
    assert [run["within"] for run in found["learners"]] == [run.within for run in same.runs]
    assert found["by_any"] == same.by_any
    every = json.loads(run(*words, "--json"))["learners"]
    assert {one["learner"] for one in every} == set(LEARNERS)


def test_fresh_samples() -> None:
    linear = ["--network", "lrnn:n=5,b=1,d=2,T=3", "--samples", "3", "--learn", "W:first-rows=5"]
    found = json.loads(run("generalisation", *linear, "--trials", "3", "--fresh", "50", "--json"))
    assert found["solved_means"] == "exact match" and found["solved"] == 3
    assert found["relative_error_quartiles"][2] < 1e-10
    words = ["generalisation-within", *RELU, "--trials", "6", "--fresh", "50", "--eps", "0.3"]
    text = run(*words, "--starts", "2")
    assert "within eps = 0.3 by levenberg-marquardt" in text and "50 fresh samples" in " ".join(
        text.split()
    )


def test_the_other_spelling_of_learner_still_works() -> None:
    words = ["train", *RELU, "--steps", "9", "--json"]
    found = [json.loads(run(*words, option, "sgd")) for option in ("--learner", "--method")]
    assert found[0] == found[1] and found[0]["learner"] == "sgd"
    help_text = run("train", "--help")
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
        (
            ["estimate-within", *RELU, "--eps", "0.3", "--starts", "1", "--steps", "5"],
            32,
            "within",
        ),
        (["generalisation", *LINEAR, "--fresh", "5"], 16, "solved"),
        (
            ["estimate-solved", *DIGITS, "--learn", "W1:first-rows=20", "--steps", "5"],
            2,
            "solved",
        ),
    ],
    ids=["within", "fresh", "solved"],
)
def test_ctrl_c_prints_the_counts_so_far(
    words: list[str], stop: int, count: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an exact estimate: what was counted, the interval that may stop at any time, code 130."""
    stops_after(stop, monkeypatch)
    words = [*words, "--trials", "1000"]
    result = CliRunner().invoke(cli.app, [*words, "--json"])
    found = json.loads(result.stdout)
    assert (result.exit_code, found["unfinished"], found["trials"]) == (130, True, stop)
    if "confidence" in found:
        assert found["confidence"] == list(confidence_sequence(found[count], stop))
    text = CliRunner().invoke(cli.app, words)
    assert text.exit_code == 130 and text.stdout.startswith(f"unfinished, {stop} of 1000 trials: ")


def test_ctrl_c_keeps_the_learners_that_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    stops_after(64 + 32, monkeypatch)
    words = ["trainability", *RELU, "--eps", "0.3", "--learner", "sgd,adam,adahessian"]
    more = ["--starts", "1", "--steps", "5", "--trials", "64", "--json"]
    result = CliRunner().invoke(cli.app, [*words, *more])
    found = json.loads(result.stdout)
    assert (result.exit_code, found["trials"]) == (130, 32)
    assert [(one["learner"], one["trials"]) for one in found["learners"]] == [
        ("sgd", 64),
        ("adam", 32),
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["estimate-within", "--eps", "-1"], "eps must be positive"),
        (["estimate-within"], "Missing option '--eps'."),
        (["estimate-within", "--eps", "0.1", "--learner", "newton"], "must be one of levenberg-"),
        (["estimate-within", "--eps", "0.1", "--learner", "sgd,adam"], "not 'sgd,adam'"),
        (["estimate-within", "--eps", "0.1", "--rate", "0.1"], "no setting 'rate'"),
        (["estimate-within", "--eps", "0.1", "--method", "adam"], "No such option: --method"),
        (["trainability", "--eps", "0.1", "--learner", "sgd,newton"], "not 'newton'"),
        (["trainability", "--eps", "0.1", "--precision", "0.1"], "No such option: --precision"),
        (["trainability", "--eps", "0.1", "--out", "t.json"], "--out must name a folder here"),
        (["estimate-solved", "--learner", "sgd,adam"], "not 'sgd,adam'"),
        (["generalisation", "--fresh", "0"], "--fresh must be a whole number of at least 1"),
        (["generalisation", "--learner", "adam"], "No such option: --learner"),
        (["generalisation-within"], "Missing option '--eps'."),
        (["estimate", "--method", "adam"], "method must be one of ladder"),
    ],
)
def test_bad_requests(
    words: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert said in refused(capsys, monkeypatch, *words, *RELU, "--trials", "2")
