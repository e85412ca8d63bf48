"""Shallow ReLU networks, decided exactly: the settings of Figure 3b.

    python benchmarks/relu.py [--quick] [--seed N] [--json FILE]

q = 6, d = 4, m = 6, learnable weights r = d m = 24 at random in the first k rows of W1. Prints how many
drawn instances are matched and refuted, how many of these answers are proofs, the nodes and the CPU
time; the same for instances that were planted so that a match exists; and the CPU time of HiGHS on the
mixed-integer program of the same instances, in the same run. Exits with 1 if a floor is missed: every
drawn instance decided, by proof; 95% of the planted ones matched.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import sublearn as sl
from sublearn.matchers import Relu, single_thread

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from matchers.mixed_integer import MixedInteger

SETTINGS = [(8, k) for k in range(4, 9)] + [(12, k) for k in (*range(4, 9), 10, 12)]
SETTINGS += [(16, k) for k in (4, 6, 8, 10, 12, 14, 16)]
GRID = 1024.0  # planted numbers are multiples of 1 / GRID, so that their outputs are not rounded


def problem(n: int) -> sl.Problem:
    """The setting of Figure 3b with n hidden units."""
    return sl.Problem(sl.FeedForward((6, n, 4), activation="relu"), samples=6)


def planted(n: int, k: int, seed: int, trial: int, grid: float | None) -> sl.Instance:
    """Draw W1 first and take its outputs as targets."""
    drawn = sl.draw(problem(n), {"W1": sl.FirstRows(k)}, seed=seed, trial=trial)
    rng = np.random.default_rng([seed, n, k, trial])

    def settle(values: np.ndarray) -> np.ndarray:
        return np.array(values) if grid is None else np.round(values * grid) / grid

    weights = {name: settle(value) for name, value in drawn.weights.items()}
    x = settle(drawn.inputs)
    empty = sl.Instance(drawn.network, drawn.allocation, weights, x, np.zeros_like(drawn.targets))
    values = settle(rng.standard_normal(len(drawn.allocation)) / np.sqrt(6))
    targets = drawn.network.forward(empty.with_values(values), x)
    return sl.Instance(drawn.network, drawn.allocation, weights, x, targets)


def decide(instances: Iterator[sl.Instance], **budget: int) -> dict[str, float]:
    """Counts over decisions of the rung alone, with CPU time."""
    out = dict.fromkeys(("trials", "matched", "refuted", "undecided", "proofs"), 0.0)
    nodes, seconds = [], []
    for instance in instances:
        begin = time.process_time()
        found = sl.decide(instance, ladder=[Relu()], budget=sl.Budget(**budget))
        seconds.append(time.process_time() - begin)
        nodes.append(found.effort.nodes)
        out["trials"] += 1
        out[found.kind] += 1
        out["proofs"] += found.grade is not None and found.grade.kind == "proof"
    return {**out, "nodes": max(nodes), "mean": float(np.mean(seconds)), "max": max(seconds)}


def show(n: int, k: int, row: dict[str, float]) -> None:
    low, high = sl.estimates.clopper_pearson(int(row["matched"]), int(row["trials"]))
    counts = [int(row[name]) for name in ("trials", "matched", "refuted", "undecided", "proofs")]
    print(
        f"{n:3d} {k:3d} " + " ".join(f"{c:9d}" for c in counts) + f"   {low:.3f} to {high:.3f} "
        f"{int(row['nodes']):9d} {row['mean']:8.3f} {row['max']:8.2f}",
        flush=True,
    )


HEAD = (
    "  n   k    trials   matched   refuted undecided    proofs   95% interval       nodes"
    "   mean s    max s"
)


def against_highs(seed: int, count: int) -> tuple[float, float, int]:
    """CPU seconds of the rung and of HiGHS (one M) on instances that the cone test leaves."""
    mine = other = 0.0
    used = trial = 0
    with single_thread():
        while used < count:
            instance = sl.draw(problem(8), {"W1": sl.FirstRows(7)}, seed=seed, trial=trial)
            trial += 1
            begin = time.process_time()
            found = sl.decide(instance, ladder=[Relu()])
            spent = time.process_time() - begin
            if found.effort.nodes < 2:
                continue
            begin = time.process_time()
            sl.decide(instance, ladder=[MixedInteger(bounds=(50.0,))])
            other += time.process_time() - begin
            mine += spent
            used += 1
    return mine, other, used


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    drawn_count, planted_count, highs_count = (8, 3, 2) if arguments.quick else (50, 20, 10)
    seed, missed, rows = arguments.seed, [], []
    sl.decide(next(_drawn(8, 7, seed, 13)))  # compile outside the clock
    print("drawn: teacher of the same shape")
    print(HEAD)
    for n, k in SETTINGS:
        row = decide(_drawn(n, k, seed, drawn_count))
        show(n, k, row)
        rows.append({"table": "drawn", "n": n, "k": k, **row})
        if row["undecided"] or row["proofs"] < row["trials"]:
            missed.append(f"drawn n={n} k={k}")
    print(f"\nplanted, all numbers multiples of 1/{GRID:g}: the match is exact")
    print(HEAD)
    for n, k in SETTINGS:
        row = decide(planted(n, k, seed, t, GRID) for t in range(planted_count))
        show(n, k, row)
        rows.append({"table": "planted", "n": n, "k": k, **row})
        if row["matched"] < 0.95 * row["trials"]:
            missed.append(f"planted n={n} k={k}")
    print("\nplanted, Gaussian numbers: rounding the targets breaks a match at a singular pattern")
    print(HEAD)
    for n, k in [(8, 4), (8, 6)]:
        few = range(min(planted_count, 5))
        row = decide(planted(n, k, seed, t, None) for t in few)
        show(n, k, row)
        rows.append({"table": "planted, rounded", "n": n, "k": k, **row})
    mine, other, used = against_highs(seed, highs_count)
    print(
        f"\nn=8 k=7, {used} instances that need branching: {mine:.2f} s with proofs, "
        f"{other:.2f} s by HiGHS at one M without: {other / mine:.1f}x"
    )
    rows.append({"table": "highs", "mine": mine, "highs": other, "instances": used})
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print("all floors kept" if not missed else f"missed: {', '.join(missed)}")
    return 1 if missed else 0


def _drawn(n: int, k: int, seed: int, count: int) -> Iterator[sl.Instance]:
    for trial in range(count):
        yield sl.draw(problem(n), {"W1": sl.FirstRows(k)}, seed=seed, trial=trial)


if __name__ == "__main__":
    sys.exit(main())
