"""Shallow ReLU networks, decided exactly: the settings of Figure 3b.

    python benchmarks/relu.py [--quick] [--seed N] [--json FILE]
    python benchmarks/relu.py --ways [--quick] [--seed N]

q = 6, d = 4, m = 6, learnable weights r = d m = 24 at random in the first k rows of W1. Prints how many
drawn instances are matched and refuted, how many of these answers are proofs, the nodes and the CPU
time; the same for instances that were planted so that a match exists; and the CPU time of HiGHS on the
mixed-integer program of the same instances, in the same run. Exits with 1 if a floor is missed: every
drawn instance decided, by proof; 95% of the planted ones matched.

With --ways the hardest settings are decided again without each way to prove a leaf: what stays
undecided then, and how long it takes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import numpy as np

import sublearn as sl
from sublearn.matchers import Relu, single_thread
from sublearn.matchers.relu import _branch, _leaf

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from matchers.mixed_integer import MixedInteger

SETTINGS = [(8, k) for k in range(4, 9)] + [(12, k) for k in (*range(4, 9), 10, 12)]
SETTINGS += [(16, k) for k in (4, 6, 8, 10, 12, 14, 16)]
HARDEST = [(8, 8), (12, 12), (16, 10), (16, 14), (16, 16)]  # of these, for --ways
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


def ways(seed: int, count: int) -> None:
    """What every way to prove a leaf is worth: the same instances without it, in turns."""
    never = {
        "all ways": {},
        "without the tilt": {"LeafProofs._proved_by_tilting": lambda *_: False},
        "without fractions near y": {"separates": lambda *_: False},
        "without rational programs": {"decide_leaf": lambda *_: None},
    }
    spent = {name: np.zeros(len(HARDEST)) for name in never}
    undecided = {name: np.zeros(len(HARDEST), int) for name in never}
    for place, (n, k) in enumerate(HARDEST):
        for instance in _drawn(n, k, seed, count):
            for name, off in never.items():
                with ExitStack() as stack:
                    for what, instead in off.items():
                        module = _leaf if what != "decide_leaf" else _branch
                        stack.enter_context(patch(f"{module.__name__}.{what}", instead))
                    row = decide(iter([instance]))
                spent[name][place] += row["max"]
                undecided[name][place] += int(row["undecided"])
    print(f"leaves proved in fewer ways: undecided of {count} (CPU seconds)")
    print("".join([f"{'':26s}", *(f"{f'n={n} k={k}':>17s}" for n, k in HARDEST)]))
    for name, seconds in spent.items():
        cells = (f"{u:6d} ({s:7.2f})" for u, s in zip(undecided[name], seconds, strict=True))
        print("".join([f"{name:26s}", *(f"{cell:>17s}" for cell in cells)]), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--ways", action="store_true")
    arguments = parser.parse_args()
    drawn_count, planted_count, highs_count = (8, 3, 2) if arguments.quick else (50, 20, 10)
    seed, missed, rows = arguments.seed, [], []
    sl.decide(next(_drawn(8, 7, seed, 13)))  # compile outside the clock
    if arguments.ways:
        ways(seed, drawn_count)
        return 0
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
