"""The commands: what they print, what they leave behind, how they refuse."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest
from typer.testing import CliRunner

from runs.toys import tables
from sublearn.cli import _runs, app, main
from sublearn.runs import Table
from sublearn.runs import open as open_run

SPEC = """
task = "estimate"
trials = 6
axes.k = [1, 2]
[params]
network = "lrnn:n=2,b=1,d=1,T=2"
samples = 2
learn = "W:first-rows={k}"
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "rows.toml"
    path.write_text(SPEC)
    return path


def command(*words: str) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    monkeypatch.setattr(sys, "argv", ["sublearn", *words])
    with pytest.raises(SystemExit) as stopped:
        main()
    captured = capsys.readouterr()
    assert stopped.value.code == 2 and captured.out == "" and "Traceback" not in captured.err
    return captured.err.splitlines()[-1]


def test_a_sweep_from_file_to_page(
    spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "report: runs/rows/report.html" in command("sweep", str(spec))
    folder = tmp_path / "runs" / "rows"
    kept = tables(folder)
    page = (folder / "report.html").read_text()
    assert "rows" in page and "</html>" in page
    found = json.loads(command("sweep", str(spec), "--json"))
    assert found["finished"] and found["report"] == "runs/rows/report.html"
    assert tables(folder) == kept
    other = tmp_path / "other"
    command("sweep", str(spec), "--out", str(other), "--seed", "1")
    assert open_run(other).declared("rows")["seed"] == 1
    (folder / "report.html").unlink()
    assert command("report", str(folder)).strip() == str(folder / "report.html")
    assert (folder / "report.html").is_file()


def test_runs_says_how_a_folder_stands(spec: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    command("sweep", str(spec), "--out", out)
    text = command("runs", out)
    head, row, *_ = text.splitlines()
    assert head.split() == ["experiment", "budget", "points", "trials", "disk", "state"]
    assert row.split()[:8] == ["rows", "full", "2", "of", "2", "12", "of", "12"]
    assert row.endswith("done") and "on disk" in text
    found = json.loads(command("runs", out, "--json"))
    assert found["experiments"][0]["trials_done"] == 12 and found["failures"] == []
    (path,) = (tmp_path / "out" / "rows" / "shards").iterdir()
    path.write_bytes(b"")
    assert "12 trials left" in command("runs", out)
    command("sweep", str(spec), "--out", out)
    assert "set aside as damaged: rows/shards/" in " ".join(command("runs", out).split())


def test_one_line_per_point_when_nobody_looks(spec: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["sweep", str(spec), "--out", str(tmp_path / "out")])
    lines = result.stderr.splitlines()
    assert [line.partition("  (")[0] for line in lines] == [
        " 50%  rows: k = 1, learn = W:first-rows=1: 6 trials",
        "100%  rows: k = 2, learn = W:first-rows=2: 6 trials",
        "100%  rows: done",
    ]


def test_the_list_of_experiments() -> None:
    text = command("reproduce", "--list")
    assert text.splitlines()[0].startswith("warmup") and "fig2a" in text
    (entry,) = json.loads(command("reproduce", "fig2a", "--list", "--json"))["experiments"]
    assert entry["name"] == "fig2a" and entry["full"]["hours"] > 0


@pytest.mark.slow
def test_reproduce_goes_on_and_adds(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    told = command("reproduce", "warmup", "--out", out)
    assert "report: " in told and "\\n" not in told
    before = tables(tmp_path / "out")
    found = json.loads(command("reproduce", "warmup", "--quick", "--out", out, "--json"))
    assert found["finished"] and tables(tmp_path / "out") == before
    assert {path.suffix for path in open_run(out).pictures("warmup")} == {".png", ".svg"}


def test_the_hours_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sublearn.runs as runs

    def not_now(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "execute", not_now)
    result = CliRunner().invoke(app, ["reproduce", "fig2a", "--full", "--out", str(tmp_path / "x")])
    assert "the full budget of 1 experiment is expected to take" in result.stderr
    assert "min on 2 cores" in result.stderr
    assert "the same command goes on" in result.stderr, "after Ctrl-C"


def test_failures_end_with_code_1(
    spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_ink(*args: object, **kwargs: object) -> None:
        raise RuntimeError("no ink")

    monkeypatch.setattr("sublearn.runs._sweep.curve", no_ink)
    spec.write_text(SPEC.replace("[params]", '[plot]\nx = "k"\ny = "share"\n[params]'))
    result = CliRunner().invoke(app, ["sweep", str(spec), "--out", str(tmp_path / "out")])
    assert result.exit_code == 1
    assert "1 failure, listed in" in result.stderr and "failures.json" in result.stderr
    assert "failed: rows, draw: " in command("runs", str(tmp_path / "out"))


def test_refusals(
    spec: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    spec.write_text(SPEC.replace("trials = 6", "trials = 0"))
    for words, message in (
        (["reproduce", "fig2"], "experiment must be one of"),
        (["reproduce", "warmup", "--workers", "0"], "workers must be a whole number"),
        (["reproduce", "warmup", "--dask", "nowhere"], "dask must be the address of a scheduler"),
        (["sweep", "rows.toml"], "rows.toml: trials must be a whole number of at least 1, not 0."),
        (["sweep", "absent.toml"], "there is no file absent.toml."),
        (["runs", "absent"], "there is no folder absent."),
        (["runs", "."], "it has no manifest.json."),
        (["report", "absent"], "there is no folder absent."),
    ):
        assert message in refused(words, monkeypatch, capsys), words
        assert list(tmp_path.iterdir()) == [spec], "nothing may be written"


class _Found:
    """A run that computed three experiments, whose findings are their first words."""

    SAYS: ClassVar[dict[str, str]] = {
        "own": "Yes: 3 of 3 are matched.\nMore about it.",
        "another": "No, 2 of 9 fail.",
        "third": "Not decided by this: too few trials.",
    }

    def finds(self, name: str) -> str:
        return self.SAYS[name]

    def table(self, name: str) -> Table:
        return Table()

    def declared(self, name: str) -> dict[str, str]:
        return {"title": f"Does {name} hold, " + "and hold " * 12 + "at every size?"}


def test_several_experiments_are_told_in_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    _runs._tell(cast(Any, _Found()), list(_Found.SAYS))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and all(len(line) <= 80 for line in lines)
    told = [line.split("  Does")[0] for line in lines]
    assert told == ["own      yes        ", "another  no         ", "third    not decided"]


def test_one_experiment_is_told_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    _runs._tell(cast(Any, _Found()), ["own"])
    assert "More about it." in capsys.readouterr().out
