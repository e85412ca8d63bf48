"""Estimates that are saved, loaded and continued: the counts of one run of them all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import sublearn as sl
from sublearn import cli
from sublearn.estimates import Counted, Unfinished, Within, confidence_sequence

SMALL = sl.Problem(sl.LinearRNN(n=6, b=1, d=4, T=3), samples=3)
RULE = {"W": sl.FirstRows(5)}
RELU = sl.Problem(sl.FeedForward((4, 6, 3), "relu"), 4)
ROWS = {"W1": sl.FirstRows(6)}
DIGITS = sl.Problem(
    sl.FeedForward((64, 20, 10), "relu"), 8, teacher=sl.Labels(sl.datasets.digits())
)


def some(kind: str, trials: int, **how: Any) -> Counted[Any, Any]:
    """A result of each kind."""
    if kind == "exact":
        return sl.estimate(SMALL, RULE, trials, seed=2, budget=sl.Budget(starts=50), **how)
    if kind == "within":
        adam = sl.training.Adam(rate=0.05)
        return sl.estimate_within(RELU, ROWS, trials, eps=0.1, learner=adam, steps=20, **how)
    if kind == "fresh":
        return sl.estimates.generalisation(
            RELU, ROWS, trials, fresh=9, by=Within(0.05, steps=20, starts=1), **how
        )
    rows = {"W1": sl.FirstRows(12)}
    return sl.estimates.estimate_solved(DIGITS, rows, trials, steps=30, **how)


KINDS = ("exact", "within", "fresh", "solved")


@pytest.mark.parametrize("kind", KINDS)
def test_a_continued_run_has_the_counts_of_one_run(kind: str, tmp_path: Path) -> None:
    whole, part, file = some(kind, 5), some(kind, 3), tmp_path / "trials.json"
    part.save(file)
    loaded = type(part).load(file, part.problem, part.question.allocation)
    # Text, since nan differs from itself.
    assert str(loaded.records) == str(part.records) and loaded.question == part.question
    assert (loaded.early, loaded.seconds) == (part.early, part.seconds)
    for found in (loaded.more(2), some(kind, 5, go_on=loaded)):
        assert str(found.records) == str(whole.records) and found.bounds == whole.bounds
        assert found.early and found.seconds >= part.seconds
        assert found.confidence[0] <= whole.confidence[0] <= whole.confidence[1]
    assert some(kind, 2, go_on=loaded) == loaded or kind == "fresh"


def test_whoever_goes_on_has_looked() -> None:
    """After a look the interval is the one that may stop at any time."""
    e = sl.estimate(SMALL, RULE, 4, seed=2).more(6)
    ends = [confidence_sequence(count, 10, 0.975) for count in e.bounds]
    assert e.trials == 10 and e.confidence == (ends[0][0], ends[1][1])


def test_what_was_interrupted_goes_on() -> None:
    def stop(now: sl.Estimate) -> None:
        raise KeyboardInterrupt

    with pytest.raises(Unfinished) as caught:
        sl.estimate(SMALL, RULE, 20, seed=2, progress=stop)
    found = sl.estimate(SMALL, RULE, 20, seed=2, go_on=caught.value.estimate)
    assert found.records == sl.estimate(SMALL, RULE, 20, seed=2).records


def test_what_certify_knew_is_saved_too(tmp_path: Path) -> None:
    rows = sl.Allocation.block(SMALL.network, "W", rows=range(4), columns=range(3))
    known = sl.estimate(SMALL, rows)
    known.save(tmp_path / "known.json")
    loaded = sl.Estimate.load(tmp_path / "known.json", SMALL, rows)
    assert not loaded.sampled and loaded.bracket == (1.0, 1.0) and str(loaded) == str(known)


def test_another_question_is_refused(tmp_path: Path) -> None:
    e, file = sl.estimate(SMALL, RULE, 2, seed=2), tmp_path / "e.json"
    e.save(file)
    others = {
        "seed": {"seed": 3},
        "method": {"seed": 2, "method": "search"},
        "budget": {"seed": 2, "budget": sl.Budget(starts=1)},
    }
    for name, options in others.items():
        with pytest.raises(sl.BadInputError, match=f"another question: its {name} is"):
            sl.estimate(SMALL, RULE, 4, go_on=e, **options)  # type: ignore[arg-type]
    with pytest.raises(sl.BadInputError, match="its problem is another one"):
        sl.Estimate.load(file, RELU, RULE)
    with pytest.raises(sl.BadInputError, match="its allocation is another one"):
        sl.Estimate.load(file, SMALL, {"W": sl.FirstRows(6)})
    with pytest.raises(sl.BadInputError, match="another kind of result, 'Estimate'"):
        sl.WithinEstimate.load(file, SMALL, RULE)
    with pytest.raises(sl.BadInputError, match="go_on must be a WithinEstimate"):
        sl.estimate_within(SMALL, RULE, 4, eps=0.1, go_on=e)  # type: ignore[arg-type]
    with pytest.raises(sl.BadInputError, match="there is no file"):
        sl.Estimate.load(tmp_path / "nowhere.json", SMALL, RULE)


def _spoilt(content: dict[str, Any], *path: str, value: Any) -> bytes:
    place = content
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps(content).encode()


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("format",), "sublearn trials 9", "e.json: it is not of the format"),
        (
            ("kind",),
            "Training",
            "e.json: it holds another kind of result, 'Training', not Estimate",
        ),
        (("more",), 1, "damaged estimate .its entries are not early, format"),
        (("early",), 1, "early or seconds"),
        (("seconds",), -1.0, "early or seconds"),
        (("question",), [], "damaged"),
        (("question", "seed"), {"zz": [1]}, "seed must be a whole number of at least 0, not {'zz'"),
        (("question", "seed"), -1, "seed must be a whole number of at least 0, not -1"),
        (("question", "method"), "guess", "method must be one of"),
        (("question", "budget"), {"starts": -1}, r"budget\.starts must be"),
        (("question", "budget"), {"luck": 7}, "damaged"),
        (("question", "more"), 1, "damaged"),
        (("trials", "kind"), ["matched"], "different lengths"),
        (("trials", "kind"), ["matched", "perhaps"], "other words"),
        (("trials", "kind"), None, "damaged"),
        (("trials", "starts"), [1, -5], "not negative"),
        (("trials", "starts"), [True, 1], "starts holds True"),
        (("trials", "error"), ["0x0p+0", "zero"], "damaged"),
        (("trials", "luck"), [1, 2], "must have the columns"),
    ],
)
def test_a_damaged_file_is_one_sentence(
    path: tuple[str, ...], value: Any, words: str, tmp_path: Path
) -> None:
    file = tmp_path / "e.json"
    sl.estimate(SMALL, RULE, 2, seed=2).save(file)
    file.write_bytes(_spoilt(json.loads(file.read_text()), *path, value=value))
    with pytest.raises(sl.BadInputError, match=words) as caught:
        sl.Estimate.load(file, SMALL, RULE)
    assert str(file) in str(caught.value) and "\n" not in str(caught.value)


def test_half_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "e.json"
    sl.estimate(SMALL, RULE, 2, seed=2).save(file)
    whole = file.read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"[]", b"\x00"):
        file.write_bytes(content)
        with pytest.raises(sl.BadInputError, match=r"not a whole JSON file|not of the format"):
            sl.Estimate.load(file, SMALL, RULE)
    with pytest.raises(sl.BadInputError, match="must be saved as a file"):
        sl.estimate(SMALL, RULE, 2, seed=2).save(tmp_path)


WORDS = ["--network", "lrnn:n=6,b=1,d=4,T=3", "--samples", "3", "--seed", "2", "--json"]


def test_the_command_line_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "e.json"

    def run(*words: str, command: str = "estimate") -> Any:
        return CliRunner().invoke(cli.app, [command, *WORDS, "--out", str(file), *words])

    first = json.loads(run("--learn", "W:first-rows=5", "--trials", "4").stdout)
    more = json.loads(run("--learn", "W:first-rows=5", "--trials", "9").stdout)
    assert (first["trials"], more["trials"], more["saved"]) == (4, 9, [str(file)])
    whole = sl.estimate(SMALL, RULE, 9, seed=2)
    assert (more["matched"], more["refuted"]) == (whole.matched, whole.refuted)
    assert sl.Estimate.load(file, SMALL, RULE).records == whole.records
    fewer = json.loads(run("--learn", "W:first-rows=5", "--trials", "3").stdout)
    assert fewer["trials"] == 9  # what is there is not thrown away
    before = file.read_bytes()
    for command, words, said in (
        ("estimate", ["W:first-rows=6"], "its allocation is another one"),
        ("estimate", ["W:first-rows=5", "--starts", "9"], "its budget is"),
        ("estimate-within", ["W:first-rows=5", "--eps", "0.1"], "another kind of result"),
        ("generalisation", ["W:first-rows=5"], "another kind of result"),
        ("trainability", ["W:first-rows=5", "--eps", "1"], "must name a folder"),
    ):
        result = run("--learn", *words, "--trials", "12", command=command)
        assert isinstance(result.exception, sl.BadInputError) and said in str(result.exception)
    assert file.read_bytes() == before
