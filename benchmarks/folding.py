"""What a learner's step costs with folding, beside the same step of a dense masked implementation.

    python benchmarks/folding.py [--quick] [--json FILE]

Figure 3c's network: q = 784 pixels, n = 1000 hidden ReLU units, d = 10, m = 1000 MNIST digits, r = 10,000
learnable weights in the first k rows of W1, W2 frozen, cross-entropy, float32, one BLAS thread. The dense
step runs the whole network forward and back, as a framework with masks would: the gradient of all of W1,
times the mask, then Adam on all of W1. CPU time of the same run, in turns, the median: read the ratio. The
gradients are compared in the 2-norm. Exits with 1 if a floor is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

# Before numpy is imported.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from numpy.typing import NDArray

import sublearn as sl
from sublearn.ensembles import Instance
from sublearn.training import Adam, Objective, Streams, starting_values

SINGLE = np.float32
FLOORS = {40: 15.0}  # on the ratio of the two Adam steps
CLOSE = 2e-7  # largest relative difference of the gradients
RATE, BETA1, BETA2, EPS = 1e-2, 0.9, 0.999, 1e-8


class Dense:
    """The network as it stands, with a mask on W1."""

    def __init__(self, instance: Instance, values: NDArray[np.float32]) -> None:
        weights = instance.with_values(values)
        self.w1 = weights["W1"].astype(SINGLE)
        self.w2 = weights["W2"].astype(SINGLE)
        self.mask = instance.allocation.mask("W1").astype(SINGLE)
        self.x = instance.inputs.astype(SINGLE)
        self.targets = instance.targets.astype(SINGLE)
        self.mean, self.square = np.zeros_like(self.w1), np.zeros_like(self.w1)
        self.steps = 0

    def gradient(self) -> NDArray[np.float32]:
        before = self.w1 @ self.x
        outputs = self.w2 @ np.maximum(before, 0)
        raised = np.exp(outputs - outputs.max(axis=0))
        slope = (raised / raised.sum(axis=0) - self.targets) / SINGLE(outputs.shape[1])
        back = self.w2.T @ slope
        back *= before >= 0
        out = back @ self.x.T
        out *= self.mask
        return out

    def step(self) -> None:
        g = self.gradient()
        self.steps += 1
        self.mean = SINGLE(BETA1) * self.mean + SINGLE(1 - BETA1) * g
        self.square = SINGLE(BETA2) * self.square + SINGLE(1 - BETA2) * g * g
        mean = self.mean / SINGLE(1 - BETA1**self.steps)
        spread = np.sqrt(self.square / SINGLE(1 - BETA2**self.steps))
        self.w1 -= SINGLE(RATE) * mean / (spread + SINGLE(EPS))


def cost(action: Callable[[], object], times: int) -> float:
    begun = time.process_time()
    for _ in range(times):
        action()
    return (time.process_time() - begun) / times


def measure(k: int, rounds: int) -> dict[str, float]:
    network = sl.FeedForward((784, 1000, 10), activation="relu")
    problem = sl.Problem(network, samples=1000, teacher=sl.Labels(sl.datasets.mnist()))
    instance = sl.draw(problem, {"W1": sl.FirstRows(k)}, seed=0)
    objective = Objective(instance, loss="cross-entropy", dtype=SINGLE)
    streams = Streams(0, [(0,)])
    values = starting_values([instance], streams, 1).astype(SINGLE)
    dense = Dense(instance, values[0])
    flat = instance.allocation.flat("W1")
    ours, theirs = objective.gradient(values)[0], dense.gradient().ravel()[flat]
    difference = float(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs))

    learner = Adam(rate=RATE, beta1=BETA1, beta2=BETA2, eps=EPS)
    state = learner.init(objective, values, streams)

    def folded_step() -> None:
        nonlocal state
        state = learner.step(objective, state, streams)

    slow, quick, slow_gradient, quick_gradient = [], [], [], []
    for _ in range(rounds):  # in turns, so that a busy machine slows both
        slow.append(cost(dense.step, 3))
        quick.append(cost(folded_step, 30))
        slow_gradient.append(cost(dense.gradient, 3))
        quick_gradient.append(cost(lambda: objective.evaluate(values), 30))
    return {
        "k": k,
        "dense_ms": 1e3 * median(slow),
        "folded_ms": 1e3 * median(quick),
        "ratio": median(slow) / median(quick),
        "gradient_ratio": median(slow_gradient) / median(quick_gradient),
        "difference": difference,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows, missed = [], 0
    print("  k   dense step   folded step   ratio   of gradients alone   gradients differ by")
    for k in (40,) if arguments.quick else (13, 20, 40, 100):
        row = measure(k, 5 if arguments.quick else 11)
        floor = FLOORS.get(k)
        good = row["difference"] <= CLOSE and (floor is None or row["ratio"] >= floor)
        missed += not good
        wanted = "" if floor is None else f"   >= {floor:g}x"
        print(
            f"{k:3d}   {row['dense_ms']:7.2f} ms   {row['folded_ms']:8.2f} ms   {row['ratio']:4.1f}x"
            f"   {row['gradient_ratio']:17.1f}x   {row['difference']:.1e}{wanted}"
            f"   {'PASS' if good else 'FAIL'}",
            flush=True,
        )
        rows.append(row)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print("all floors kept" if not missed else f"{missed} floors missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
