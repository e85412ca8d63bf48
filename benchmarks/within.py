"""Match within eps: the setting of Figure 3b, and learners side by side.

    python benchmarks/within.py [--quick] [--seed N] [--part curve|learners] [--json FILE]

Curve: shallow ReLU networks (q = 6, d = 4, m = 6), r = 24 learnable weights at random in the first k of
n rows of W1; a trial counts where the mean squared error falls below 1e-2, as in the paper. Printed for
AdaHessian, which the paper used, and for Levenberg-Marquardt: the share reached from the first start,
and from any of the starts. Beside it, of the same instances: how many have an exact match, have none,
and are undecided.

Learners: on the same instances of a linear RNN and of a ReLU network, the fraction that each learner
solves, its 95% interval, and the CPU time of one core.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import sublearn as sl

EPS = 1e-2
ORDER = ("gradient-descent", "sgd", "adam", "adahessian", "levenberg-marquardt")


def curve(quick: bool, seed: int) -> list[dict[str, Any]]:
    trials, starts = (12, 2) if quick else (100, 10)
    methods = {"adahessian": 500 if quick else 2000, "levenberg-marquardt": 200}
    points = [(n, k) for n in (8, 12, 16) for k in (4, 6, 8, 10, 12, 16) if k <= n]
    print(f"within eps = {EPS:g}, {trials} trials, {starts} starts: share from one start, from any")
    heads = "".join(f"{name:>22}{'95%':>16}{'CPU s':>7}" for name in methods)
    print(f"  n   k  {heads}     exact: matched, refuted, undecided")
    rows = []
    for n, k in points:
        problem = sl.Problem(sl.FeedForward((6, n, 4), "relu"), samples=6)
        line = f"{n:3d} {k:3d}  "
        for name, steps in methods.items():
            begun = time.process_time()
            found = sl.estimate_within(
                problem,
                {"W1": sl.FirstRows(k)},
                trials,
                eps=EPS,
                learner=name,
                steps=steps,
                starts=starts,
                seed=seed,
            )
            spent = time.process_time() - begun
            first = sum(r.within and r.starts == 1 for r in found.records) / trials
            low, high = found.confidence
            line += f"{f'{first:.2f}  {found.share:.2f}':>22}{f'{low:.2f} to {high:.2f}':>16}{spent:7.1f}"
            rows.append({"n": n, "k": k, "first": first, "cpu": spent, **found.to_dict()})
        exact = sl.estimate(problem, {"W1": sl.FirstRows(k)}, trials, seed=seed)
        rows.append({"n": n, "k": k, **exact.to_dict()})
        line += f"{exact.matched:11d} {exact.refuted:5d} {exact.undecided:5d}"
        print(line, flush=True)
    return rows


def learners(quick: bool, seed: int) -> list[dict[str, Any]]:
    trials, starts = (12, 2) if quick else (100, 5)
    steps = {name: 300 if quick else 2000 for name in ORDER[:-1]}
    cases = {
        "linear RNN, n = 8, d = 4, T = 4, m = 4, k = 8": (
            sl.Problem(sl.LinearRNN(n=8, b=1, d=4, T=4), samples=4),
            {"W": sl.FirstRows(8)},
        ),
        "ReLU, q = 6, n = 16, d = 4, m = 6, k = 16": (
            sl.Problem(sl.FeedForward((6, 16, 4), "relu"), samples=6),
            {"W1": sl.FirstRows(16)},
        ),
    }
    rows = []
    for words, (problem, rule) in cases.items():
        print(f"\n{words}: within eps = {EPS:g}, {trials} trials, {starts} starts")
        print(f"{'learner':<22}{'steps':>6}{'solved':>8}{'95%':>16}{'CPU s':>8}")
        for name in ORDER:
            begun = time.process_time()
            found = sl.estimate_within(
                problem,
                rule,
                trials,
                eps=EPS,
                learner=name,
                steps=steps.get(name),
                starts=starts,
                seed=seed,
            )
            spent = time.process_time() - begun
            low, high = found.confidence
            interval = f"{low:.2f} to {high:.2f}"
            print(
                f"{name:<22}{found.steps:>6}{found.share:>8.2f}{interval:>16}{spent:>8.1f}",
                flush=True,
            )
            rows.append({"case": words, "cpu": spent, **found.to_dict()})
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", choices=("curve", "learners"))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    if arguments.part in (None, "curve"):
        rows += curve(arguments.quick, arguments.seed)
    if arguments.part in (None, "learners"):
        rows += learners(arguments.quick, arguments.seed)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
