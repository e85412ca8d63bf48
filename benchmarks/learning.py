"""The deep sigmoid picture: how fast it is simulated, beside a plain loop over repeats in numpy.

    python benchmarks/learning.py [--quick] [--repeats N] [--json FILE]
    python benchmarks/learning.py --picture [--repeats N] [--cycles N] [--noise A,B,...] [--workers N]

Five hidden layers of 5 to 45 sigmoid units, gamma3 = 0, .05 and .1, 1500 cycles of 50 fresh inputs
(Raman, Rotondo and O'Leary 2019). The plain loop does the same arithmetic one repeat at a time, in
float64 and with numpy's default generator, as one writes it down first. Both are timed in turns, in
CPU seconds of one thread. Then the whole picture of 12 repeats is run with two threads. Floors: 10
times the plain loop in single precision; the picture in under 3 minutes.

With --picture the errors of the last 50 cycles are printed instead, each width beside the best one,
pair by pair.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from itertools import pairwise
from pathlib import Path

# One thread for numpy's BLAS as well: seconds of CPU are compared.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from sublearn.learning import DEEP_NOISE, DEEP_WIDTHS, deep_sigmoid

CYCLES, SAMPLES = 1500, 50


def plain_loop(width: int, gamma3: float, cycles: int, seed: int) -> np.ndarray:
    """One repeat, written with numpy: a list of layers, the bias as a last column."""
    rng = np.random.default_rng(seed)

    def layers(sizes):
        return [np.sqrt(48 / a) * (2 * rng.random((b, a + 1)) - 1) for a, b in pairwise(sizes)]

    def forward(weights, x):
        states = [x]
        for w in weights:
            states.append(1 / (1 + np.exp(-(w[:, :-1] @ states[-1] + w[:, -1:]))))
        return states

    def unit(parts):
        length = sum(np.sqrt((p * p).sum()) for p in parts)
        return [p / length for p in parts]

    def directions():
        return unit([rng.standard_normal(w.shape) for w in weights])

    teacher = layers([10, 5, 5, 5, 5, 5, 10])
    weights = layers([10, *[width] * 5, 10])
    size = sum(w.size for w in weights)
    n2 = directions()
    errors = np.empty(cycles)
    for t in range(cycles):
        x = rng.standard_normal((10, SAMPLES))
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
            scale = gamma3 * np.sqrt(size)
            weights = [w + scale * n for w, n in zip(weights, directions(), strict=True)]
    return errors


def cpu(work) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def compare(cycles: int, rounds: int, precision: str) -> list[dict[str, float]]:
    """CPU microseconds per cycle of both, measured in turns so that they see the same machine."""
    rows = []
    for width in DEEP_WIDTHS:
        for gamma3 in DEEP_NOISE:
            ours, plain = [], []

            def run(width=width, gamma3=gamma3):
                kinds = {"earlier_cycles": 0, "precision": precision, "repeats": 2}
                deep_sigmoid(width, gamma3, cycles=4 * cycles, **kinds)

            run()  # compiled, or loaded from disk, before it is timed
            for turn in range(rounds):
                plain.append(cpu(lambda w=width, g=gamma3, s=turn: plain_loop(w, g, cycles, s)))
                ours.append(cpu(run))
            rows.append(
                {
                    "width": width,
                    "gamma3": gamma3,
                    "plain_us": 1e6 * float(np.median(plain)) / cycles,
                    "ours_us": 1e6 * float(np.median(ours)) / (8 * cycles),
                }
            )
    return rows


def report(rows: list[dict[str, float]], precision: str) -> float:
    print(f"CPU microseconds per cycle, {precision} precision")
    print("width  gamma3    plain     ours   ratio")
    for row in rows:
        ratio = row["plain_us"] / row["ours_us"]
        print(
            f"{row['width']:5d}   {row['gamma3']:5.2f} {row['plain_us']:8.1f} {row['ours_us']:8.1f} "
            f"{ratio:7.1f}"
        )
    total = sum(r["plain_us"] for r in rows) / sum(r["ours_us"] for r in rows)
    print(f"whole picture: {total:.1f} times as fast as the plain loop", flush=True)
    return total


def picture(repeats: int, cycles: int, noise: list[float], workers: int) -> None:
    """Final errors by width, and how much more than the best, over paired repeats."""
    for gamma3 in noise:
        print(f"gamma3 = {gamma3:g}, {cycles} cycles, {repeats} repeats")
        print(
            "width       N   error of the last 50 cycles    more than the best    standard errors"
        )
        found = {}
        for width in DEEP_WIDTHS:
            run = deep_sigmoid(width, gamma3, cycles=cycles, repeats=repeats, workers=workers)
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
    cycles, rounds = (60, 3) if arguments.quick else (200, 5)
    found = {}
    for precision in ("single", "double"):
        found[precision] = report(compare(cycles, rounds, precision), precision)
    begin, used = time.perf_counter(), time.process_time()
    repeats = 2 if arguments.quick else arguments.repeats
    for gamma3 in DEEP_NOISE:
        for width in DEEP_WIDTHS:
            deep_sigmoid(width, gamma3, cycles=CYCLES, repeats=repeats, workers=2)
    wall, used = time.perf_counter() - begin, time.process_time() - used
    print(f"{repeats} repeats of the picture: {wall:.1f} s with 2 threads ({used:.1f} s of CPU)")
    good = found["single"] >= 10 and wall * 12 / repeats < 180
    print("PASS" if good else "FAIL", "(floors: 10 times in single precision, 12 repeats in 180 s)")
    if arguments.json:
        arguments.json.write_text(json.dumps({**found, "seconds": wall, "cpu": used}, indent=1))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
