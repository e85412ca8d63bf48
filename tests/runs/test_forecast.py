"""--dry-run: what is left, how long it takes, how much disk; nothing is written."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from runs.toys import Walk, walks
from sublearn import BadInputError
from sublearn.cli import app
from sublearn.runs import Experiment, Json, Plan, Point, Progress, Row, execute, forecast
from sublearn.runs._forecast import processor_seconds

SPEC = """
task = "estimate"
trials = 600
axes.k = [1, 2]
[params]
network = "lrnn:n=2,b=1,d=1,T=2"
samples = 2
learn = "W:first-rows={k}"
"""


def test_what_is_left_is_what_a_run_would_compute(tmp_path: Path) -> None:
    grid = {"points": 3, "trials": 20, "chunk": 4}
    (found,) = forecast([walks(**grid)], out=tmp_path / "run")
    assert (found.points, found.trials, found.trials_left) == (3, 60, 60)
    assert found.seconds > 0 and not (tmp_path / "run").exists()

    def stop(now: Progress) -> None:
        if now.done >= 24:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute([walks(**grid)], out=tmp_path / "run", progress=stop)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    (found,) = forecast([walks(**grid)], out=tmp_path / "run")
    assert found.trials_left == 36
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    execute([walks(**grid)], out=tmp_path / "run")
    (found,) = forecast([walks(**grid)], out=tmp_path / "run")
    assert (found.trials_left, found.seconds, found.bytes) == (0, 0.0, 0)


def test_what_is_not_begun_is_told_at_the_price_that_it_declares(tmp_path: Path) -> None:
    long, short = (replace(walks(name), hours=hours) for name, hours in (("a", 5.0), ("b", 2.0)))
    seen: list[Progress] = []
    execute([short, long], out=tmp_path, progress=seen.append)
    between = next(now for now in seen if now.done == long.full.trials)
    assert between.seconds_left == pytest.approx(2.0 * 2 * 3600)  # one worker: twice as long


def test_the_disk_is_a_bound(tmp_path: Path) -> None:
    many = walks(points=2, trials=3000, chunk=100)
    (found,) = forecast([many], out=tmp_path / "run")
    execute([many], out=tmp_path / "run")
    taken = sum(path.stat().st_size for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert taken / 10 < found.bytes and taken < found.bytes


def test_a_damaged_shard_is_only_looked_at(tmp_path: Path) -> None:
    execute([walks()], out=tmp_path)
    (path,) = (tmp_path / "walks" / "shards").iterdir()
    path.write_bytes(b"")
    (found,) = forecast([walks()], out=tmp_path)
    assert found.trials_left == found.trials and path.exists()


def test_what_a_run_refuses_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(BadInputError, match="holds 'mine'"):
        forecast([walks()], out=tmp_path)


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.toml").write_text(SPEC)
    words = ["sweep", "rows.toml", "--dry-run", "--workers", "2"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "1200 of 1200" in result.stdout and "nothing was written" in result.stdout
    found = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert found["experiments"][0]["trials_left"] == 1200 and found["seconds"] > 0
    result = CliRunner().invoke(app, ["reproduce", "warmup", "--dry-run"])
    assert result.exit_code == 0 and "\nwarmup " in result.stdout, result.output
    assert list(tmp_path.iterdir()) == [tmp_path / "rows.toml"]


def test_the_time_is_that_of_all_chunks_of_all_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that the trials turn: a chunk takes 2 s and each of its trials ``steps`` more, and the first
    of all a minute, as if it had to be compiled."""
    clock = [0.0]

    def run(task: Walk, point: Mapping[str, Json], seed: int, trials: range) -> list[Row]:
        clock[0] += 2.0 + float(str(point["steps"])) * len(trials) + (60 if not clock[0] else 0)
        return plain(task, point, seed, trials)

    plain = Walk.run
    monkeypatch.setattr(Walk, "run", run)
    monkeypatch.setattr("time.process_time", lambda: clock[0])
    sizes = [(5, 40, 20), (7, 40, 20), (50, 3, 1)]  # steps, trials, chunk
    plan = Plan(tuple(Point({"steps": s}, trials=t, chunk=c) for s, t, c in sizes))
    uneven = Experiment("uneven", "Uneven", "", "", Walk(), plan, plan, hours=0)
    (found,) = forecast([uneven], out=tmp_path / "run")
    # The last one's chunks hold one trial: two seconds are not told from the trial's own.
    assert found.seconds == pytest.approx(2 * (2 + 20 * 5) + 2 * (2 + 20 * 7) + 3 * 52)


def test_programs_that_a_trial_starts_take_time_too() -> None:
    """msolve does: by the clock of this process alone, experiments that refute seemed cheap."""
    work = "import time\nwhile time.process_time() < 0.3: pass\nprint(time.process_time())"
    before = processor_seconds()
    said = subprocess.run([sys.executable, "-c", work], capture_output=True, text=True, check=True)
    # The system counts in hundredths of a second.
    assert processor_seconds() - before >= float(said.stdout) - 0.05 > 0
