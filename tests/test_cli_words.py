"""What commands print: lines of 80 columns at most, and what to do next."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from sublearn.cli import app

LAYER = ["--network", "ffn:3-3-2", "--samples", "2"]
WIDE = ["--network", "ffn:30-40-20,activation=relu,bias=yes", "--samples", "10"]
LRNN = ["--network", "lrnn:n=6,b=1,d=4,T=3", "--samples", "3"]
RELU = ["--network", "ffn:6-8-4,activation=relu", "--samples", "6", "--learn", "W1:first-rows=6"]
LESSON = ["--network", "linear:inputs=8,outputs=4", "--samples", "3", "--gamma", ".1,.3,.02"]
FEW = ["--cycles", "40", "--repeats", "3"]
COMMANDS = {
    "certify": ["certify", *LAYER, "--learn", "W1:entries=2.0/2.1/0.2/1.2"],
    "certify, in full": ["certify", *LRNN, "--learn", "W:rows=0-1", "--theorems"],
    "certify, between": ["certify", *LRNN, "--learn", "W:first-rows=5,seed=0"],
    "certify, wide": ["certify", *WIDE, "--learn", "W1:all", "--learn", "b1:all"],
    "certify, other laws": ["certify", *LAYER, "--learn", "W2:all", "--teacher", "ffn:3-9-2"],
    "design": ["design", *LRNN, "--learn", "W", "--plastic", "2 per row"],
    "design, wide": ["design", *WIDE, "--learn", "W1", "--plastic", "20%"],
    "repair": ["repair", *LAYER, "--learn", "W1:entries=2.0/2.1/0.2/1.2"],
    "census": ["census", *LAYER, "--learn", "W1"],
    "estimate": ["estimate", *LRNN, "--learn", "W:first-rows=5", "--trials", "5"],
    "estimate, proved": ["estimate", *LAYER, "--learn", "W2:all"],
    "estimate-within": ["estimate-within", *RELU, "--trials", "4", "--eps", ".1", "--starts", "1"],
    "estimate-solved": ["estimate-solved", *RELU, "--trials", "2", "--steps", "9"],
    "generalisation": ["generalisation", *LRNN, "--learn", "W:first-rows=5", "--trials", "4", "--fresh", "9"],
    "generalisation-within": ["generalisation-within", *RELU, "--trials", "4", "--eps", ".3"],
    "trainability": ["trainability", *RELU, "--trials", "4", "--eps", ".1", "--starts", "1", "--steps", "9"],
    "decide": ["decide", *LRNN, "--learn", "W:first-rows=5", "--trial", "2"],
    "decide, no": ["decide", *LAYER, "--learn", "W1:entries=2.0/2.1/0.2/1.2"],
    "decide-within": ["decide-within", *RELU, "--eps", "0.1"],
    "train": ["train", *RELU, "--steps", "20", "--starts", "2"],
    "patterns": [
        *("patterns", "--network", "ffn:2-3-1,activation=relu", "--samples", "3"),
        *("--learn", "W1:entries=0.0/1.1/2.0"),
    ],
    "rate": ["noise", "rate", *LESSON, "--draws", "9", "--slides"],
    "size": ["noise", "size", *LESSON, "--draws", "9"],
    "steady": ["noise", "steady", *LESSON, *FEW],
    "steady, no formula": ["noise", "steady", *LESSON, *FEW, "--noise-on", "all", "--learn", "W:rows=0"],
    "place": ["noise", "place", *LESSON, *FEW, "--plastic", "25%"],
    "list": ["reproduce", "--list"],
    "doctor": ["doctor"],
    "help": ["--help"],
    "help of estimate": ["estimate", "--help"],
    "help of trainability": ["trainability", "--help"],
}  # fmt: skip


def run(words: list[str], monkeypatch: pytest.MonkeyPatch) -> Result:
    monkeypatch.setenv("COLUMNS", "80")
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, (done.output, done.exception)
    return done


def copied(command: str) -> list[str]:
    """The words that a shell makes of it."""
    return shlex.split(command.replace("\\\n", ""))


@pytest.mark.parametrize("name", COMMANDS)
def test_lines_have_80_columns_at_most(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    output = run(COMMANDS[name], monkeypatch).output
    # A path, or a word of a command to copy, may be longer than a line; nothing else is.
    long = [line for line in output.splitlines() if len(line.rstrip()) > 80]
    assert long == []
    assert not re.search(r"(?<![\d.])0(\.0)? (s|min|hours)\b", output)


def test_runs_keep_to_80_columns_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(tmp_path / "run")
    asked = ["reproduce", "warmup", "theorem-map", "--out", folder]
    for words in ([*asked, "--dry-run"], asked, ["runs", folder]):
        lines = run(words, monkeypatch).output.replace(folder, "run").splitlines()
        assert [line for line in lines if len(line.rstrip()) > 80] == []


def test_between_says_what_to_run_next(monkeypatch: pytest.MonkeyPatch) -> None:
    output = run(COMMANDS["certify, wide"], monkeypatch).output
    command = output[output.index("next: ") + len("next: ") :]
    assert " \\\n" in command
    words = copied(command)
    assert words[:2] == ["sublearn", "estimate"] and words[-2:] == ["--learn", "b1:all"]
    assert run([*words[1:], "--trials", "1", "--starts", "1"], monkeypatch).exit_code == 0


UNDECIDED = ["--network", "ffn:3-4-2,activation=tanh", "--samples", "3"]


def test_what_is_undecided_is_a_sentence_and_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [*UNDECIDED, "--learn", "W1:first-rows=3"]
    sentence, step = run(["decide", *asked], monkeypatch).output.split("next: ")
    assert sentence.startswith("undecided: ") and sentence.count("\n") == 1
    words = copied(step)
    assert words[:2] == ["sublearn", "decide-within"] and "--eps" in words
    assert run(words[1:], monkeypatch).exit_code == 0
    counted = run(["estimate", *asked, "--trials", "2", "--starts", "5"], monkeypatch).output
    assert "undecided" in counted
    assert copied(counted.split("next: ")[1])[-2:] == ["--starts", "20"]


def test_theorems_are_one_line_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ["certify", *LRNN, "--learn", "W:rows=0-1"]
    short, full = (run([*asked, *more], monkeypatch).output for more in ([], ["--theorems"]))
    assert "In the source: " in short and "--theorems" in short
    assert "minimal if a row has more than" in " ".join(full.split()) and len(full) > len(short)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("sublearn re", "repair"),
        ("sublearn estimate-", "estimate-within"),
        ("sublearn reproduce fig2", "fig2a"),
    ],
)
def test_the_shell_completes(typed: str, meant: str) -> None:
    place = str(len(typed.split()) - 1)
    wanted = {"_SUBLEARN_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": place}
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv[0] = 'sublearn'; import sublearn.cli as c; c.main()"],
        env={**os.environ, **wanted}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert meant in done.stdout.split(), done.stderr


OTHERS = {
    "--no-deps",
    "--porcelain",
    "--untracked-files",
    "--multiprocessing-fork",
}  # pip, git, Python


def test_every_option_that_is_spoken_of_exists() -> None:
    import ast

    import typer

    import sublearn

    waiting, options = [typer.main.get_command(app)], set(OTHERS)
    while waiting:
        command = waiting.pop()
        waiting += getattr(command, "commands", {}).values()
        for param in command.params:
            options |= {*param.opts, *param.secondary_opts}
    options |= {"--help"}
    for path in Path(sublearn.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                spoken = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*\b", node.value))
                assert spoken <= options, f"{path.name}:{node.lineno} speaks of {spoken - options}"
