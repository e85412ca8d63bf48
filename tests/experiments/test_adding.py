"""The experiment of docs/runs/adding-an-experiment.md: one file and one line, and it runs like ours."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sublearn as sl
from sublearn import cli, experiments
from sublearn.experiments.tasks import GAMMA, TASKS
from sublearn.runs import Table
from sublearn.runs import open as open_run


def test_the_page_adds_an_experiment(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (root / "docs" / "runs" / "adding-an-experiment.md").read_text(encoding="utf-8")
    (file,) = re.findall(r"^```python\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    (question,) = re.findall(r'^One line: `"rows": "([^"]+)",`', page, flags=re.MULTILINE)
    (tmp_path / "_rows.py").write_text(file, encoding="utf-8")
    monkeypatch.setattr(experiments, "__path__", [*experiments.__path__, str(tmp_path)])
    monkeypatch.setitem(experiments._QUESTIONS, "rows", question)
    monkeypatch.setitem(sys.modules, "sublearn.experiments._rows", None)
    del sys.modules["sublearn.experiments._rows"]  # forgotten again after the test
    run = CliRunner().invoke(cli.app, ["reproduce", "rows", "--out", str(tmp_path / "run")])
    assert run.exit_code == 0, run.output
    assert "rows: Decided, n = 4, k = 2 to 4 together: " in run.output
    table = open_run(tmp_path / "run").table("rows")
    # The same trials as those of the verb.
    problem = sl.Problem(sl.LinearRNN(n=4, b=1, d=2, T=2), samples=2)
    for row in table[:3]:
        found = sl.estimate(problem, {"W": sl.FirstRows(int(row["k"]))}, 20)
        assert (row["matched"], row["refuted"]) == (found.matched, found.refuted)
    assert (tmp_path / "run" / "rows" / "rows.png").is_file()
    experiment = experiments.find("rows")
    assert {name for row in table for name in row} <= set(experiment.headings)
    assert experiment.draw(Table()) and experiment.find(Table()) == "No point is finished yet."


def test_the_page_lists_every_task(root: Path) -> None:
    page = (root / "docs" / "runs" / "adding-an-experiment.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| .* \| (.*) \|$", page, flags=re.MULTILINE))
    assert set(rows) == set(TASKS)
    for name, says in rows.items():
        if not says.startswith(("the same", "as ")):
            told = set(re.findall(r"`(\w+)`", says)) | set(GAMMA if "gammas" in says else ())
            assert set(TASKS[name].takes) - told == set(), name
