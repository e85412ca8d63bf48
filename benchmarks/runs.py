"""What runs cost: the keeping of trials over a bare loop, and a folder of a million rows summed up.

    python benchmarks/runs.py [--quick]

A trivial trial is about the smallest decision there is: a recurrent network with two units, learnable in
its first row, drawn and decided. The bare loop calls the task chunk by chunk and keeps the rows in
memory; the run keeps them on disk, durably, with manifest, timings, shards and table. Its price is what it
takes more, in CPU seconds, and the share of its time for which it waits for the disk (fsync). Each is a
ratio of like to like, so that other work on the machine does not count: CPU to CPU, waiting to the clock.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import sublearn.runs as runs
from sublearn._threads import single_thread
from sublearn.experiments.tasks import TASKS
from sublearn.runs import Experiment, Plan, Point
from sublearn.runs._files import SHARDS
from sublearn.runs._manifest import declare, label, write_manifest
from sublearn.runs._shards import Piece, Shards

PARAMS = {"network": "lrnn:n=2,b=1,d=1,T=2", "samples": 2, "learn": "W:rows=0"}
OVERHEAD, SECONDS = 0.10, 2.0


def experiment(points: tuple[Point, ...]) -> Experiment:
    plan = Plan(points)
    return Experiment("trivial", "", "", "", TASKS["estimate"], plan, plan, 0.0)


def overhead(trials: int, repeats: int) -> tuple[float, float, float]:
    """CPU seconds of the bare loop and of the run, the best of several taken in turn; share waited."""
    chosen = experiment((Point(PARAMS, trials, chunk=8),))
    (point,) = chosen.quick.points

    def bare() -> None:
        with single_thread():
            rows = [chosen.task.run(point.params, 0, chunk) for chunk in point.chunks]
        chosen.task.summarise(
            point.params,
            {n: np.array([row[n] for part in rows for row in part]) for n in chosen.task.columns},
        )

    loops, kept, waits = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        bare()
        runs.execute([chosen], out=Path(folder) / "first")  # compiles and imports
        for repeat in range(repeats):
            loops.append(spent(bare)[0])
            out = Path(folder) / str(repeat)
            cpu, waited = spent(lambda out=out: runs.execute([chosen], out=out))
            kept.append(cpu)
            waits.append(waited)
    return min(loops), min(kept), min(waits)


def spent(work: Callable[[], object]) -> tuple[float, float]:
    """CPU seconds of some work, and the share of its time for which it waited for the disk."""
    real, waited = os.fsync, [0.0]

    def fsync(handle: int) -> None:
        begun, cpu = time.perf_counter(), time.process_time()
        real(handle)
        waited[0] += time.perf_counter() - begun - (time.process_time() - cpu)

    os.fsync = fsync
    try:
        clock, begun = time.perf_counter(), time.process_time()
        work()
        return time.process_time() - begun, waited[0] / (time.perf_counter() - clock)
    finally:
        os.fsync = real


def million(rows: int) -> tuple[float, float, int]:
    """CPU seconds to say how a folder stands, and to make its table from the trials; bytes on disk."""
    rng = np.random.default_rng(0)
    points, size = 20, 10_000
    each = rows // points
    grid = tuple(Point({**PARAMS, "repeat": i}, each, chunk=size) for i in range(points))
    chosen = experiment(grid)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        declared = declare(chosen, "quick", chosen.quick)
        write_manifest(folder, [declared], {}, ())
        mark = label("trivial", declared.entry)
        trials_of = [point.trials for point in grid]
        shards = Shards(folder / "trivial" / SHARDS, chosen.task.columns, mark, trials_of)
        words = {"kind": ["matched", "refuted"], "rung": ["search", "rank"], "grade": ["proof"]}
        for index, point in enumerate(grid):
            for trials in point.chunks:
                columns = {}
                for column, kind in chosen.task.columns.items():
                    if kind is str:
                        columns[column] = rng.choice(words.get(column, ["a"]), len(trials)).tolist()
                    elif kind is float:
                        columns[column] = rng.random(len(trials)).tolist()
                    else:
                        columns[column] = rng.integers(0, 1000, len(trials)).tolist()
                shards.append([Piece(index, trials, columns)])
        run = runs.open(folder)
        # Once beforehand, for what is only imported once.
        assert sum(int(str(r["trials"])) for r in run.summarise("trivial", chosen.task)) == rows
        size_on_disk = runs.summary(run)["bytes"]
        state = min(spent(lambda: runs.summary(run))[0] for _ in range(3))
        table = min(spent(lambda: run.summarise("trivial", chosen.task))[0] for _ in range(3))
    return state, table, size_on_disk


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    loop, kept, waited = overhead(1000, 3 if quick else 9)
    share = kept / loop - 1
    good = share + waited < OVERHEAD
    print(
        f"1,000 trivial trials: bare loop {loop:.3f} s of CPU, run {kept:.3f} s, {share:+.1%}; waits for "
        f"the disk {waited:.1%}; together {share + waited:+.1%} (limit {OVERHEAD:.0%}) "
        f"{'PASS' if good else 'FAIL'}"
    )
    state, table, size = million(1_000_000)
    fine = state + table < SECONDS
    print(
        f"1,000,000 rows, {size / 1e6:.1f} MB: state {state:.2f} s of CPU, table from all trials "
        f"{table:.2f} s, together {state + table:.2f} s (limit {SECONDS:.0f} s) "
        f"{'PASS' if fine else 'FAIL'}"
    )
    return 0 if good and fine else 1


if __name__ == "__main__":
    sys.exit(main())
