"""The command line says what the verbs say, in pictures, words and JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sublearn as sl
from sublearn.cli import main
from sublearn.ensembles import learn_from_text

CROSS = "W1:entries=2.0/2.1/0.2/1.2"
LAYER = ["--network", "ffn:3-3-2", "--samples", "2"]


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process."""

    def call(*arguments: str) -> Result:
        monkeypatch.setattr(sys, "argv", ["sublearn", *arguments])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return Result(int(stopped.value.code or 0), captured.out, captured.err)

    return call


def plain(content: object) -> object:
    """As it looks after a journey through JSON."""
    return json.loads(json.dumps(content))


def test_the_first_command_of_the_issue(run: Run) -> None:
    arguments = ["--network", "lrnn:n=8,b=1,d=4,T=4", "--samples", "4"]
    learn = ["--learn", "W:first-rows=5,seed=0"]
    shown = run("certify", *arguments, *learn)
    assert (shown.code, shown.err) == (0, "")
    problem = sl.Problem(sl.LinearRNN(n=8, b=1, d=4, T=4), 4)
    held = learn_from_text(problem.network, learn[1:]).draw(problem)
    verdict = sl.certify(problem, held)
    assert str(held) in shown.out
    assert shown.out.count("#") == 16 + 1  # the legend shows one more
    assert "between (proof)" in shown.out and "rank 16 of 16 needed" in shown.out
    assert "quadratic equations left: 4 by rows" in shown.out
    found = run("certify", *arguments, *learn, "--json")
    assert (found.code, found.err) == (0, "")
    expected = plain(verdict.to_dict())
    assert {key: found.json[key] for key in expected} == expected
    assert found.json["digest"] == held.digest and found.json["network"] == "lrnn:n=8,b=1,d=4,T=4"
    assert found.json["entries"] == plain({"W": held.entries["W"]})


def test_the_second_command_of_the_issue(run: Run, tmp_path: Path) -> None:
    problem = sl.Problem(sl.FeedForward((4, 8, 8, 6)), 4)
    held = problem.draw_allocation({"W2": sl.FirstRows(6)}, np.random.default_rng(0))
    file = tmp_path / "mask.json"
    held.save(file)
    found = run(
        "certify", "--network", "ffn:4-8-8-6", "--samples", "4", "--allocation", str(file), "--json"
    )
    assert (found.code, found.err) == (0, "")
    expected = plain(sl.certify(problem, held).to_dict())
    assert {key: found.json[key] for key in expected} == expected


def test_a_deficient_allocation_is_pictured(run: Run) -> None:
    shown = run("certify", *LAYER, "--learn", CROSS)
    assert shown.code == 0
    assert "minimal (proof)" in shown.out and "rank 3 of 4 needed" in shown.out
    grid = "".join(line[4:] for line in shown.out.splitlines()[1:4])
    assert (grid.count("#"), grid.count("x"), grid.count(".")) == (3, 1, 5)
    assert "x learnable but wasted" in shown.out
    assert "In the source: Theorem 4.1 wrong here (see --theorems)." in shown.out
    full = " ".join(run("certify", *LAYER, "--learn", CROSS, "--theorems").out.split())
    assert "says maximal: wrong here; its proof rests on Lemma B.12" in full


def test_an_open_answer_says_what_to_run_next(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    asked = ("--network", "rnn:n=5,b=1,d=1,T=3", "--samples", "3", "--learn", "W:rows=0")
    shown = run("certify", *asked)
    assert "between" in shown.out
    last = " ".join(shown.out.replace("\\\n", " ").splitlines()[-1].split())
    assert last == f"next: sublearn estimate {' '.join(asked)}"
    assert max(len(line) for line in shown.out.splitlines()) <= 80
    large = ("--network", "rnn:n=60,b=2,d=2,T=6", "--samples", "8", "--learn", "W:rows=0-3")
    open_ = run("decide", *large)
    first, then = open_.out.replace("\\\n", " ").splitlines()
    assert first.startswith("undecided: neither") and len(first) <= 80
    again = f"sublearn decide-within {' '.join(large)} --eps 0.001 --seed 0 --trial 0"
    assert " ".join(then.split()) == f"next: {again}"
    why = run("decide", *large, "--why").out.splitlines()
    assert len(why) > 3 and max(map(len, why)) <= 80


def test_durations_are_never_no_hours(run: Run) -> None:
    listed = run("reproduce", "--list").out
    assert " min on 2 cores)" in listed and " 0.0 hours" not in listed


def test_shells_complete_the_commands(run: Run) -> None:
    assert "--install-completion" in run("--help").out


def test_files_of_every_kind(run: Run, tmp_path: Path) -> None:
    network = sl.FeedForward((3, 3, 2))
    held = sl.Allocation.from_entries(network, {"W1": [(2, 0), (2, 1), (0, 2), (1, 2)]})
    wanted = run("certify", *LAYER, "--learn", CROSS, "--json").json
    for suffix in (".json", ".npz", ".csv", ".npy"):
        file = tmp_path / f"mask{suffix}"
        held.save(file)
        more = ["--weight", "W1"] if suffix in (".csv", ".npy") else []
        assert run("certify", *LAYER, "--allocation", str(file), *more, "--json").json == wanted
    joined = run(
        "certify", *LAYER, "--learn", "W1:entries=2.0/2.1", "--learn", "W1:entries=0.2/1.2"
    )
    assert "rank 3 of 4" in joined.out


def test_ensembles_and_teachers(run: Run) -> None:
    arguments = [
        "certify",
        "--network",
        "ffn:4-4-2",
        "--samples",
        "4",
        "--learn",
        "W2:all",
        "--json",
    ]
    assert run(*arguments, "--input-rank", "2").json["needed"] == 4
    assert run(*arguments, "--teacher", "none").json["needed"] == 8
    assert run(*arguments, "--teacher", "ffn:4-1-2").json["needed"] == 5


def test_design(run: Run, tmp_path: Path) -> None:
    problem = sl.Problem(sl.FeedForward((3, 3, 2)), 2)
    scores = np.arange(9.0).reshape(3, 3)
    np.save(tmp_path / "scores.npy", scores)
    np.savetxt(tmp_path / "scores.csv", scores, delimiter=",")
    out = tmp_path / "best.json"
    for suffix in ("npy", "csv"):
        found = run(
            *("design", *LAYER, "--learn", "W1", "--scores", f"W1:{tmp_path}/scores.{suffix}"),
            *("--forbidden", "W1:entries=2.2", "--required", "W1:entries=0.0"),
            *("--out", str(out), "--overwrite", "--json"),
        )
        assert (found.code, found.err) == (0, "")
        barred = sl.Allocation.from_entries(problem.network, {"W1": [(2, 2)]})
        must = sl.Allocation.from_entries(problem.network, {"W1": [(0, 0)]})
        best = sl.design(problem, ["W1"], {"W1": scores}, forbidden=barred, required=must)
        assert found.json["entries"] == plain({"W1": best.entries["W1"]})
        assert sl.Allocation.load(out, problem.network) == best
    shown = run("design", *LAYER, "--learn", "W1", "--learn", "W2", "--want", "maximal")
    assert "maximal (proof)" in shown.out


def test_repair(run: Run, tmp_path: Path) -> None:
    problem = sl.Problem(sl.FeedForward((3, 3, 2)), 2)
    held = learn_from_text(problem.network, [CROSS]).draw(problem)
    whole = sl.repair(problem, held)
    out = tmp_path / "whole.csv"
    found = run("repair", *LAYER, "--learn", CROSS, "--out", str(out), "--json")
    assert (found.code, found.err) == (0, "")
    assert found.json["entries"] == plain({"W1": whole.entries["W1"]})
    assert found.json["removed"] == plain({"W1": (held - whole).entries["W1"]})
    assert found.json["added"] == plain({"W1": (whole - held).entries["W1"]})
    assert sl.Allocation.load(out, problem.network, "W1") == whole
    shown = run("repair", *LAYER, "--learn", CROSS)
    (left,), (came,) = (held - whole).labels(), (whole - held).labels()
    assert f"moved W1({left[1]}, {left[2]}) to W1({came[1]}, {came[2]})" in shown.out
    into = run("repair", *LAYER, "--learn", CROSS, "--into", "W2", "--json")
    assert list(into.json["added"]) == ["W2"]
    nothing = run("repair", *LAYER, "--learn", "W1:entries=0.0/0.1/1.1/1.2")
    assert "nothing to repair" in nothing.out and nothing.code == 0


def test_forbidden_and_required_from_files(run: Run, tmp_path: Path) -> None:
    network = sl.FeedForward((3, 3, 2))
    kept = sl.Allocation.from_entries(network, {"W1": [(0, 0), (1, 1)]})
    frozen = sl.Allocation.from_columns(network, "W1", [2])
    for suffix in (".json", ".npz", ".csv", ".npy"):
        names = []
        for held, stem in ((kept, "kept"), (frozen, "frozen")):
            file = tmp_path / f"{stem}{suffix}"
            held.save(file)
            names.append(f"W1:{file}" if suffix in (".csv", ".npy") else str(file))
        limits = ["--required", names[0], "--forbidden", names[1], "--forbidden", "W1:entries=2.0"]
        found = run("design", *LAYER, "--learn", "W1", *limits, "--json")
        assert (found.code, found.err) == (0, "")
        chosen = {tuple(entry) for entry in found.json["entries"]["W1"]}
        assert {(0, 0), (1, 1)} <= chosen
        assert (2, 0) not in chosen and not any(column == 2 for _, column in chosen)
        rows = ["--learn", "W1:entries=0.0/0.1/1.0/1.1"]
        mended = run("repair", *LAYER, *rows, "--forbidden", names[1], "--json")
        assert mended.code == 0 and all(column != 2 for _, column in mended.json["entries"]["W1"])


def test_census(run: Run) -> None:
    shown = run("census", *LAYER, "--learn", "W1")
    assert "9 of these 90 are deficient all the same (10.0%)" in shown.out
    assert shown.out.strip() == str(sl.census(sl.Problem(sl.FeedForward((3, 3, 2)), 2), "W1"))
    found = run("census", *LAYER, "--learn", "W1", "--json").json
    assert (found["deficient"], found["feasible"], found["total"]) == (9, 90, 126)
    drawn = run("census", *LAYER, "--learn", "W1", "--draws", "20", "--seed", "3", "--json").json
    count = sl.census(sl.Problem(sl.FeedForward((3, 3, 2)), 2), "W1", draws=20, seed=3)
    assert (drawn["drawn"], drawn["deficient"]) == (True, count.deficient)


@pytest.mark.parametrize("columns", ["40", "20", "10"])
@pytest.mark.parametrize(
    "arguments",
    [
        ["certify", *LAYER, "--learn", CROSS],
        ["certify", "--network", "lrnn:n=70,b=1,d=2,T=2", "--samples", "2", "--learn", "W:rows=0"],
        [
            "certify",
            "--network",
            "lrnn:n=12,b=1,d=2,T=2",
            "--samples",
            "2",
            "--learn",
            "W:diagonal",
        ],
        ["design", *LAYER, "--learn", "W1"],
        ["repair", *LAYER, "--learn", CROSS],
        ["census", *LAYER, "--learn", "W1"],
        ["certify", "--help"],
    ],
    ids=lambda a: " ".join(a[:3]),
)
def test_narrow_terminals(
    run: Run, monkeypatch: pytest.MonkeyPatch, columns: str, arguments: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    found = run(*arguments)
    assert (found.code, found.err) == (0, "") and found.out


def test_large_matrices_are_counted_not_drawn(run: Run) -> None:
    found = run(
        "certify", "--network", "lrnn:n=70,b=1,d=2,T=2", "--samples", "2", "--learn", "W:rows=0-1"
    )
    assert "W (70 x 70): 140 learnable" in found.out and "#" not in found.out


def test_colours_are_asked_for_and_can_be_refused(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["certify", *LAYER, "--learn", CROSS]
    assert "\x1b[" not in run(*arguments).out, "not to a pipe"
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[1;38;" in run(*arguments).out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "38;" not in run(*arguments).out
    assert "\x1b[" not in run(*arguments, "--json").out


@pytest.mark.parametrize("command", ["certify", "design", "repair", "census"])
def test_every_command_has_help(run: Run, command: str) -> None:
    found = run(command, "--help")
    assert found.code == 0
    assert "--network" in found.out and "--samples" in found.out and "--json" in found.out


def test_version_and_bare_call(run: Run) -> None:
    assert run("--version").out == f"sublearn {sl.__version__}\n"
    bare = run()
    assert bare.code == 2 and "Usage" in bare.out + bare.err


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['sublearn', '--help']\n"
        "from sublearn.cli import main\n"
        "try: main()\n"
        "except SystemExit as stop: assert not stop.code\n"
        "heavy = ('numpy', 'numba', 'scipy', 'flint')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "certify" in done.stdout


@pytest.mark.parametrize("module", ["sublearn", "sublearn.cli"])
def test_as_a_module(module: str) -> None:
    arguments = ["-m", module, "certify", *LAYER, "--learn", CROSS, "--json"]
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["rank"] == 3 and done.stderr == ""


def test_design_within_a_budget(run: Run) -> None:
    asked = ("design", "--network", "lrnn:n=6,b=1,d=2,T=3", "--samples", "3", "--learn", "W")
    found = run(*asked, "--plastic", "20%", "--no-autapses", "--json").json
    assert found["design"]["needed"] == 6 and found["design"]["short"] == 0  # 20% of 30
    assert found["learnable"] == 6 and all(i != j for i, j in found["entries"]["W"])
    shown = " ".join(run(*asked, "--plastic", "4").out.split())
    assert "2 of the 6 dimensions needed stay out of reach." in shown
    quota = run(*asked, "--plastic", "2 per column", "--json").json["entries"]["W"]
    assert sorted(j for _, j in quota) == sorted([*range(6), *range(6)])
    refused = run(*asked, "--plastic", "lots")
    assert refused.code == 2 and "--plastic: the count must be a number such" in refused.err


def test_design_and_repair_of_relu_networks_say_what_is_proved(run: Run, tmp_path: Path) -> None:
    np.savetxt(tmp_path / "s.csv", [[-0.54, 0.58], [0.36, 0.29], [0.03, 0.55]], delimiter=",")
    relu = ("--network", "ffn:2-3-2,activation=relu", "--samples", "2")
    asked = ("design", *relu, "--learn", "W1", "--scores", f"W1:{tmp_path}/s.csv")
    shown = " ".join(run(*asked).out.split())
    assert "best score 1.78 (proof): no admissible allocation scores higher." in shown
    assert "of 200 sampled gates (95%:" in shown
    found = run(*asked, "--effort", "5", "--json").json["design"]
    assert (found["claim"], found["bound"]) == ("best score", pytest.approx(1.78))
    assert found["gates"]["sampled"] == 200 and len(found["gates"]["interval"]) == 2
    wide = ("--network", "ffn:4-3-2,activation=relu", "--samples", "2", "--learn", "W1:rows=0")
    mended = run("repair", *wide)
    assert "fewest moves: 2 (" in mended.out and mended.code == 0
    assert run("repair", *wide, "--json").json["design"]["value"] == 2
