"""A long run: 20,000 points, 2 million trials of the smallest example, killed and resumed three times.

    python tests/attack_files/soak.py [--light] [--share 0.01] [--workers 2] [--out build/attack-soak]

The driver is killed (kill -9) when a quarter, a half and three quarters of the trials are on disk. At the
end every trial must be there, every point must have the counts that a plain loop gives, no process may be
left, and memory must have been seen and have stayed level. A soak that was stopped goes on; each state of
the code has a folder of its own, where sessions.jsonl keeps what came of every session. ``--share`` takes
that part of the points. ``--light`` takes trials that cost nothing: all of it is then the work of keeping
them.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

import sublearn.runs as runs
from sublearn.experiments.tasks import TASKS
from sublearn.runs import Experiment, Json, Plan, Point, Row, Task

TESTS = Path(__file__).resolve().parents[1]
POINTS, TRIALS, CHUNK = 20_000, 100, 50
PARAMS = {"network": "lrnn:n=2,b=1,d=1,T=2", "samples": 2, "learn": "W:rows=0"}
# The second: semaphores of a killed driver are cleaned up by multiprocessing, which tells of it.
QUIET = {"OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore:resource_tracker"}
STOPS = (0.25, 0.5, 0.75)  # shares of the trials at which the driver is killed
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


class Session(NamedTuple):
    """What came of a driver: (share, its bytes, a worker's bytes) while it ran, and how it ended."""

    seen: list[tuple[float, int, int]]
    killed: bool
    code: int
    seconds: float


def session(out: Path, points: int, workers: int, light: bool, stop: float) -> Session:
    """Run until ``stop`` is reached, then kill."""
    words = [sys.executable, __file__, "--drive", str(out / "run"), str(points), str(workers)]
    words += ["light"] * light
    begun, killed, seen = time.perf_counter(), False, []
    process = subprocess.Popen(words, env={**os.environ, **QUIET})
    while process.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.05 if light else 0.5)
        share, used = told(out), memory(process.pid)
        if process.pid in used:
            others = [size for pid, size in used.items() if pid != process.pid]
            seen.append((share, used[process.pid], max(others, default=0)))
        if share >= stop:
            process.send_signal(signal.SIGKILL)
            killed = True
    killed = killed and process.returncode == -signal.SIGKILL
    return Session(seen, killed, process.returncode, time.perf_counter() - begun)


def sessions(log: Path) -> list[Session]:
    """The sessions that ended; a line that was cut short counts for none."""
    found = []
    if log.exists():
        for line in log.read_text(encoding="utf-8").splitlines():
            with suppress(ValueError):
                found.append(Session(**json.loads(line)))
    return found


def level(held: list[Session], which: int) -> tuple[float, float]:
    """Bytes around a quarter and around three quarters of what is there: medians, which skip spikes.

    Nan where nothing was seen.
    """

    def median(low: float, high: float) -> float:
        found = [row[which] for each in held for row in each.seen if low <= row[0] <= high]
        return float(np.median(found)) if found else np.nan

    return median(0.2, 0.4), median(0.6, 0.8)


def faults(held: list[Session]) -> list[str]:
    """What the sessions lack of a soak."""
    out = []
    kills = sum(each.killed for each in held)
    if kills != len(STOPS):
        out.append(f"{kills} kills, not {len(STOPS)}")
    for name, which in (("driver", 1), ("worker", 2)):
        early, late = level(held, which)
        if not early > 0 or not late > 0:
            out.append(f"memory of the {name} was not seen")
        elif late - early >= GROWTH:
            out.append(f"memory of the {name} grew by {(late - early) / 1e6:.0f} MB")
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--light", action="store_true")
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    usual = Path("build/attack-soak-light" if asked.light else "build/attack-soak")
    from adversary.code import commit, fingerprint

    points = max(4, round(asked.share * POINTS))
    out = (asked.out or usual).resolve() / f"{fingerprint('attack_files')}-{points}"
    out.mkdir(parents=True, exist_ok=True)
    log = out / "sessions.jsonl"
    held = sessions(log)
    while not held or held[-1].code != 0:
        stop = (*STOPS, np.inf)[min(sum(each.killed for each in held), len(STOPS))]
        held.append(session(out, points, asked.workers, asked.light, stop))
        with open(log, "a", encoding="utf-8") as file:
            file.write(json.dumps(held[-1]._asdict()) + "\n")
        if not held[-1].killed and held[-1].code != 0:
            print(f"a session ended with {held[-1].code}")
            return 1
    run = runs.open(out / "run")
    state, table = run.state("soak"), run.table("soak")
    loop = experiment(1, asked.light).task.run(PARAMS, 0, range(TRIALS))
    wanted = tuple(sum(row["kind"] == kind for row in loop) for kind in ("matched", "refuted"))
    wrong = faults(held)
    if {(row["matched"], row["refuted"]) for row in table} != {wanted}:
        wrong.append("a point has other counts than a plain loop gives")
    if len(table) != points or not state.finished or run.failures:
        wrong.append("the run is not whole")
    print(
        f"commit {commit()}: {len(table)} points, {state.trials_done} trials, {len(held)} sessions, "
        f"{sum(each.killed for each in held)} kills, {sum(each.seconds for each in held):.0f} s"
    )
    for name, which in (("driver", 1), ("worker", 2)):
        early, late = level(held, which)
        print(
            f"{name}: {early / 1e6:.0f} MB in the second quarter, {late / 1e6:.0f} MB in the third"
        )
    peak = max((row[1] for each in held for row in each.seen), default=0)
    print(f"driver at most {peak / 1e6:.0f} MB; {state.bytes / 1e6:.1f} MB on disk")
    print(f"NOT as it should be: {'; '.join(wrong)}" if wrong else "as it should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--drive"]:
        drive(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), "light" in sys.argv[5:])
    else:
        sys.path.insert(0, str(TESTS))
        raise SystemExit(main())
