"""The worked example of the page on sweeps, run as it stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sublearn.runs as runs
from sublearn.cli import app


@pytest.mark.slow
def test_the_worked_example(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (root / "docs" / "runs" / "sweeps.md").read_text(encoding="utf-8")
    (spec,) = re.findall(r"^```toml\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    (commands,) = re.findall(r"^```sh\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    Path("rows.toml").write_text(spec)
    for line in commands.splitlines():
        result = CliRunner().invoke(app, shlex.split(line)[1:])
        assert result.exit_code == 0, result.output
    run = runs.open("runs/rows")
    table = run.table("rows")
    assert [(row["n"], row["k"]) for row in table] == [(n, k) for n in (4, 6) for k in (2, 3, 4)]
    assert all(row["trials"] == 40 and row["low"] <= row["share"] <= row["high"] for row in table)
    assert [path.name for path in run.pictures("rows")] == ["rows.png", "rows.svg"]
