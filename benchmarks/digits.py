"""Figure 3c with real digits, and the paper's two conjectures about it.

    python benchmarks/digits.py [--quick] [--trials N] [--workers N] [--only figure|conjectures] [--json FILE]

q = 784, n = 1000 hidden ReLU units, d = 10, m = 1000 MNIST digits, r = 10,000 learnable weights at random
in the first k rows of W1, W2 frozen; Adam, rate 0.01, cross-entropy, at most 4000 steps from one start.
Prints for each k how many trials have every label right, with the 95% interval. Then, at k = 40: digits,
digits with shuffled labels, and noise, each for labels and for one-hot vectors within 1e-2. Exits with 1
if a trial with more than 40 rows is not solved, which the paper says never happens.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import sublearn as sl
from sublearn.experiments import find
from sublearn.experiments.tasks import Labelled

NETWORK = sl.FeedForward((784, 1000, 10), activation="relu")
SAMPLES = 1000
ROWS = (13, 14, 16, 20, 30, 40, 60, 100)


def _share(found: sl.estimates.SolvedEstimate) -> str:
    low, high = found.confidence
    steps = "-" if found.median_steps is None else f"{found.median_steps:g}"
    return (
        f"{found.solved:3d} of {found.trials:3d}  {found.share:.2f} ({low:.2f} to {high:.2f})"
        f"  {steps:>12}  {found.median_accuracy:8.4f}  {found.median_loss:8.2g}  {found.seconds:6.1f} s"
    )


def figure(rows: tuple[int, ...], trials: int, workers: int) -> tuple[list[dict[str, Any]], int]:
    problem = sl.Problem(NETWORK, SAMPLES, teacher=sl.Labels(sl.datasets.mnist()))
    out, missed = [], 0
    print("  k       solved  share (95% interval)  median steps  accuracy      loss (medians)")
    for k in rows:
        found = sl.estimates.estimate_solved(
            problem, {"W1": sl.FirstRows(k)}, trials, workers=workers
        )
        print(f"{k:3d}  {_share(found)}", flush=True)
        missed += k > 40 and found.solved < found.trials
        out.append({"k": k, **found.to_dict()})
    return out, missed


def conjectures(trials: int, steps: int, workers: int) -> list[dict[str, Any]]:
    """The points of the experiment of that name, whose trials are those of `estimate_solved`."""
    experiment, out = find("conjectures"), []
    print(f"\nk = 40, at most {steps} steps")
    print(
        "data            target       solved  share (95% interval)  median steps  accuracy      loss"
    )
    for point in experiment.full.points:
        cell = {name: str(point.params[name]) for name in ("data", "target")}
        question = Labelled().question({**point.params, "steps": steps}, seed=0)
        start = sl.estimates.SolvedEstimate(question)
        found = sl.estimates.count_trials(start, trials, workers=workers)
        print(f"{cell['data']:<14}  {cell['target']:<6}  {_share(found)}", flush=True)
        out.append({**cell, **found.to_dict()})
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--trials", type=int)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", choices=("figure", "conjectures"))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    trials = arguments.trials or (2 if arguments.quick else 10)
    content: dict[str, Any] = {}
    missed = 0
    if arguments.only != "conjectures":
        rows = (16, 20, 40, 100) if arguments.quick else ROWS
        content["figure"], missed = figure(rows, trials, arguments.workers)
        print("above 40 rows every trial is solved" if not missed else "above 40 rows some are not")
    if arguments.only != "figure":
        steps = 500 if arguments.quick else 4000
        content["conjectures"] = conjectures(trials, steps, arguments.workers)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
