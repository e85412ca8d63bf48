"""sublearn patterns."""

from __future__ import annotations

import json
import subprocess
import sys

import sublearn as sl

COLUMN = ["--learn", "W1:columns=0", "--learn", "W1:entries=0.1/1.1"]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sublearn.cli", "patterns", *words], capture_output=True, text=True
    )


def test_counts_are_printed_and_given_as_json() -> None:
    words = ["--network", "ffn:3-4-2,activation=relu", "--samples", "3", *COLUMN]
    shown = run(*words)
    assert shown.returncode == 0
    wanted = sl.patterns.pattern_counts(2, 3, [2, 2, 1, 1])
    assert [line.split()[-1] for line in shown.stdout.splitlines()[1:]] == [
        str(row["count"]) for row in wanted.table()
    ]
    plain = json.loads(run(*words, "--json").stdout)
    assert plain["both"] == wanted.both and plain["full_rank"] is None
    assert plain["rows"] == {"0": 2, "1": 2, "2": 1, "3": 1}


def test_what_does_not_fit_is_one_sentence() -> None:
    for words, why in (
        (["--network", "ffn:3-4-2", "--samples", "3", *COLUMN], "shallow ReLU"),
        (["--network", "ffn:3-4-2,activation=relu", "--samples", "2", *COLUMN], "r = d m = 4"),
    ):
        found = run(*words)
        assert found.returncode == 2 and why in found.stderr and "Traceback" not in found.stderr
