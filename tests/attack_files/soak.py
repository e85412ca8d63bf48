"""A long run: 20,000 points, 2 million trials of the smallest example, killed and resumed three times.

    python tests/attack_files/soak.py [--light] [--share 0.01] [--workers 2] [--out build/attack-soak]

The driver is killed (kill -9) when a quarter, a half and three quarters of the trials are on disk. At the
end every trial must be there, every point must have the counts that a plain loop gives, no process may be
left, and memory must have stayed level. A soak that was stopped goes on. ``--share`` takes that part of
the points. ``--light`` takes trials that cost nothing: all of it is then the work of keeping them.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

import sublearn.runs as runs
from sublearn.experiments.tasks import TASKS
from sublearn.runs import Experiment, Json, Plan, Point, Row, Task

TESTS = Path(__file__).resolve().parents[1]
POINTS, TRIALS, CHUNK = 20_000, 100, 50
PARAMS = {"network": "lrnn:n=2,b=1,d=1,T=2", "samples": 2, "learn": "W:rows=0"}
# The second: semaphores of a killed driver are cleaned up by multiprocessing, which tells of it.
QUIET = {"OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore:resource_tracker"}
GROWTH = 100e6  # bytes that a process may grow by over the middle half of the run


class Coin(Task):
    """Trials that cost nothing: every third one is matched."""

    name = "coin"
    columns = {"kind": str, "mse": float, "starts": int}  # noqa: RUF012

    def run(self, point: Mapping[str, Json], seed: int, trials: range) -> list[Row]:
        kinds = ("matched", "refuted", "refuted")
        return [{"kind": kinds[i % 3], "mse": i / 7, "starts": i} for i in trials]

    def summarise(self, point: Mapping[str, Json], rows: Mapping[str, np.ndarray]) -> list[Row]:
        return [{kind: int((rows["kind"] == kind).sum()) for kind in ("matched", "refuted")}]


def experiment(points: int, light: bool) -> Experiment:
    """The points differ in a number that nothing reads, so every one has the same counts."""
    plan = Plan(tuple(Point({"place": i, **PARAMS}, TRIALS, CHUNK) for i in range(points)))
    task = Coin() if light else TASKS["estimate"]
    return Experiment("soak", "A long run", "", "", task, plan, plan, 0.0)


def drive(folder: Path, points: int, workers: int, light: bool) -> None:
    """One session of the run, told in a file that the watcher reads."""

    def tell(now: runs.Progress) -> None:
        with open(folder.with_name("told"), "w") as file:
            file.write(f"{now.done} {now.trials}\n")

    runs.execute([experiment(points, light)], out=folder, workers=workers, progress=tell)


def memory(pid: int) -> dict[int, int]:
    """Bytes in use by a process and by its children, by process."""
    found = {}
    for place in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            if place.name.isdigit():
                parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
                if pid in (int(place.name), parent):
                    pages = int((place / "statm").read_text().split()[1])
                    found[int(place.name)] = pages * os.sysconf("SC_PAGE_SIZE")
    return found


def told(out: Path) -> float:
    """The share that is done, as the driver told it last."""
    try:
        done, total = (out / "told").read_text().split()
        return int(done) / int(total)
    except (OSError, ValueError):
        return 0.0


def session(
    out: Path, points: int, workers: int, light: bool, stop: float
) -> tuple[list[tuple[float, int, int]], int]:
    """Run until ``stop`` is reached, then kill; (share, driver's bytes, a worker's bytes), and the code."""
    words = [sys.executable, __file__, "--drive", str(out / "run"), str(points), str(workers)]
    words += ["light"] * light
    process = subprocess.Popen(words, env={**os.environ, **QUIET})
    seen = []
    while process.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.05 if light else 0.5)
        share, used = told(out), memory(process.pid)
        if process.pid in used:
            others = [size for pid, size in used.items() if pid != process.pid]
            seen.append((share, used[process.pid], max(others, default=0)))
        if share >= stop:
            process.send_signal(signal.SIGKILL)
    return seen, process.returncode


def level(seen: list[tuple[float, int, int]], which: int) -> tuple[int, int]:
    """Bytes around a quarter and around three quarters of what is there: medians, which skip spikes."""
    early = [row[which] for row in seen if 0.2 <= row[0] <= 0.4]
    late = [row[which] for row in seen if 0.6 <= row[0] <= 0.8]
    return int(np.median(early or [0])), int(np.median(late or [0]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--light", action="store_true")
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    usual = Path("build/attack-soak-light" if asked.light else "build/attack-soak")
    points, out = max(4, round(asked.share * POINTS)), (asked.out or usual).resolve()
    out.mkdir(parents=True, exist_ok=True)
    begun, seen, sessions, kills = time.perf_counter(), [], 0, 0
    for stop in (0.25, 0.5, 0.75, 2.0):
        if told(out) >= min(stop, 1.0):
            continue  # a soak that was stopped goes on
        rows, code = session(out, points, asked.workers, asked.light, stop)
        seen += rows
        sessions += 1
        kills += code == -signal.SIGKILL
        if stop > 1 and code != 0:
            print(f"the last session ended with {code}")
            return 1
    seconds = time.perf_counter() - begun
    run = runs.open(out / "run")
    state, table = run.state("soak"), run.table("soak")
    loop = experiment(1, asked.light).task.run(PARAMS, 0, range(TRIALS))
    wanted = tuple(sum(row["kind"] == kind for row in loop) for kind in ("matched", "refuted"))
    same = {(row["matched"], row["refuted"]) for row in table} == {wanted}
    driver, worker = level(seen, 1), level(seen, 2)
    flat = all(late - early < GROWTH for early, late in (driver, worker))
    peak = max((row[1] for row in seen), default=0)
    print(
        f"{len(table)} points, {state.trials_done} trials, {sessions} sessions, {kills} kills, "
        f"{seconds:.0f} s"
    )
    for name, (early, late) in (("driver", driver), ("worker", worker)):
        print(
            f"{name}: {early / 1e6:.0f} MB in the second quarter, {late / 1e6:.0f} MB in the third"
        )
    print(f"driver at most {peak / 1e6:.0f} MB; {state.bytes / 1e6:.1f} MB on disk")
    good = len(table) == points and state.finished and not run.failures and same and flat
    print("as it should be" if good else "NOT as it should be")
    return 0 if good else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--drive"]:
        drive(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), "light" in sys.argv[5:])
    else:
        raise SystemExit(main())
