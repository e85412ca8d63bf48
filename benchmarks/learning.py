"""The deep sigmoid picture: how fast it is simulated, beside a plain loop over repeats in numpy.

    python benchmarks/learning.py [--quick] [--repeats N] [--json FILE]
    python benchmarks/learning.py --picture [--repeats N] [--cycles N] [--noise A,B,...] [--workers N]

Five hidden layers of 5 to 45 sigmoid units, gamma3 = 0, .05 and .1, 1500 cycles of 50 fresh inputs
(Raman, Rotondo and O'Leary 2019). The plain loop does the same arithmetic one repeat at a time, with
numpy's default generator, as one writes it down first, in float32 and in float64. All four are timed
in turns, in CPU seconds of one thread. Then the whole picture of 12 repeats is run with two threads.
Floors: 10 times the plain loop of the same precision, in single precision, which is what
`deep_sigmoid` runs in; the picture in under 3 minutes.

With --picture the errors of the last 50 cycles are printed instead, each width beside the best one,
pair by pair.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from functools import partial
from itertools import pairwise
from pathlib import Path

# One thread for numpy's BLAS as well: seconds of CPU are compared.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from sublearn.experiments.raman2019 import DEEP_NOISE, DEEP_WIDTHS, deep_noise, deep_sigmoid

CYCLES, SAMPLES = 1500, 50
PRECISIONS = {"single": np.float32, "double": np.float64}


def plain_loop(width: int, gamma3: float, cycles: int, seed: int, dtype: type) -> np.ndarray:
    """One repeat, written with numpy: a list of layers, the bias as a last column.

    All factors are Python's numbers: those of numpy would turn float32 into float64.
    """
    rng = np.random.default_rng(seed)

    def layers(sizes):
        return [
            math.sqrt(48 / a) * (2 * rng.random((b, a + 1), dtype=dtype) - 1)
            for a, b in pairwise(sizes)
        ]

    def forward(weights, x):
        states = [x]
        for w in weights:
            states.append(1 / (1 + np.exp(-(w[:, :-1] @ states[-1] + w[:, -1:]))))
        return states

    def unit(parts):
        length = sum(np.sqrt((p * p).sum()) for p in parts)
        return [p / length for p in parts]

    def directions():
        return unit([rng.standard_normal(w.shape, dtype=dtype) for w in weights])

    teacher = layers([10, 5, 5, 5, 5, 5, 10])
    weights = layers([10, *[width] * 5, 10])
    size = sum(w.size for w in weights)
    n2 = directions()
    errors = np.empty(cycles)
    for t in range(cycles):
        x = rng.standard_normal((10, SAMPLES), dtype=dtype)
        y = forward(teacher, x)[-1]
        states = forward(weights, x)
        back = states[-1] - y
        errors[t] = (back * back).sum() / (2 * SAMPLES)
        gradient = []
        for w, below, above in zip(weights[::-1], states[-2::-1], states[:0:-1], strict=True):
            back = back * above * (1 - above)
            gradient.append(np.hstack([back @ below.T, back.sum(axis=1, keepdims=True)]))
            back = w[:, :-1].T @ back
        useful = unit(gradient[::-1])
        n2 = unit([0.1 * old + 0.9 * new for old, new in zip(n2, directions(), strict=True)])
        weights = [w - 0.007 * g + n for w, g, n in zip(weights, useful, n2, strict=True)]
        if gamma3:
            scale = gamma3 * math.sqrt(size)
            weights = [w + scale * n for w, n in zip(weights, directions(), strict=True)]
    assert all(w.dtype == dtype for w in weights)
    return errors


def cpu(work) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def compare(cycles: int, rounds: int) -> list[dict[str, float]]:
    """CPU microseconds per cycle of all four, measured in turns so that they see the same machine."""
    rows = []
    for width in DEEP_WIDTHS:
        for gamma3 in DEEP_NOISE:
            kinds = {"cycles": 4 * cycles, "earlier_cycles": 0, "repeats": 2}
            works = {}
            for precision, dtype in PRECISIONS.items():
                works[f"ours {precision}"] = partial(
                    deep_sigmoid, width, deep_noise(gamma3), precision=precision, **kinds
                )
                works[f"plain {precision}"] = partial(
                    plain_loop, width, gamma3, cycles, 0, dtype=dtype
                )
            spent = {name: [] for name in works}
            for turn in range(-1, rounds):
                for name, work in works.items():
                    seconds = cpu(work)
                    if turn >= 0:  # compiled, or loaded from disk, before it is timed
                        spent[name].append(seconds)
            row = {"width": width, "gamma3": gamma3}
            for name, seconds in spent.items():
                ran = 8 * cycles if name.startswith("ours") else cycles
                row[name] = 1e6 * float(np.median(seconds)) / ran
            rows.append(row)
    return rows


def report(rows: list[dict[str, float]]) -> dict[str, float]:
    """The table; how many times as fast over the whole picture, by precision."""
    print("CPU microseconds per cycle (ratios are plain over ours in the same precision)")
    print("                      single                     double")
    print("width  gamma3     ours    plain  ratio     ours    plain  ratio")

    def line(start: str, row: dict[str, float]) -> None:
        for precision in PRECISIONS:
            ours, plain = row[f"ours {precision}"], row[f"plain {precision}"]
            start += f" {ours:8.1f} {plain:8.1f} {plain / ours:6.1f}"
        print(start, flush=True)

    for row in rows:
        line(f"{row['width']:5d}   {row['gamma3']:5.2f}", row)
    whole = {name: sum(row[name] for row in rows) for name in rows[0] if " " in name}
    line("whole picture", whole)
    return {name: whole[f"plain {name}"] / whole[f"ours {name}"] for name in PRECISIONS}


def picture(repeats: int, cycles: int, noise: list[float], workers: int) -> None:
    """Final errors by width, and how much more than the best, over paired repeats."""
    for gamma3 in noise:
        print(f"gamma3 = {gamma3:g}, {cycles} cycles, {repeats} repeats")
        print(
            "width       N   error of the last 50 cycles    more than the best    standard errors"
        )
        found = {}
        for width in DEEP_WIDTHS:
            run = deep_sigmoid(
                width, deep_noise(gamma3), cycles=cycles, repeats=repeats, workers=workers
            )
            found[width] = run.final()
        best = min(found, key=lambda width: found[width].mean())
        for width, errors in found.items():
            gap = errors - found[best]
            mean, error = gap.mean(), gap.std(ddof=1) / np.sqrt(repeats)
            more = (
                f"{mean:+.3f} +- {error:.3f}    {mean / error:6.1f}" if width != best else "  best"
            )
            print(
                f"{width:5d}  {4 * width**2 + 25 * width + 10:6d}   {errors.mean():.3f} +- "
                f"{errors.std(ddof=1) / np.sqrt(repeats):.3f}                {more}",
                flush=True,
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--repeats", type=int, default=12)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", action="store_true")
    parser.add_argument("--cycles", type=int, default=CYCLES)
    parser.add_argument("--noise", default=",".join(str(g) for g in DEEP_NOISE))
    parser.add_argument("--workers", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.picture:
        noise = [float(text) for text in arguments.noise.split(",")]
        picture(arguments.repeats, arguments.cycles, noise, arguments.workers)
        return 0
    found = report(compare(*((60, 3) if arguments.quick else (200, 5))))
    begin, used = time.perf_counter(), time.process_time()
    repeats = 2 if arguments.quick else arguments.repeats
    for gamma3 in DEEP_NOISE:
        for width in DEEP_WIDTHS:
            deep_sigmoid(width, deep_noise(gamma3), cycles=CYCLES, repeats=repeats, workers=2)
    wall, used = time.perf_counter() - begin, time.process_time() - used
    print(f"{repeats} repeats of the picture: {wall:.1f} s with 2 threads ({used:.1f} s of CPU)")
    twelve = wall * 12 / repeats
    checks = (
        (found["single"] >= 10, f"single precision {found['single']:.1f} times (floor 10)"),
        (twelve < 180, f"12 repeats of the picture in {twelve:.0f} s (floor 180)"),
    )
    for good, words in checks:
        print("PASS" if good else "FAIL", words)
    print(f"     double precision {found['double']:.1f} times (no floor)")
    if arguments.json:
        arguments.json.write_text(json.dumps({**found, "seconds": wall, "cpu": used}, indent=1))
    return 0 if all(good for good, _ in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
