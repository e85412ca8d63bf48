"""Rates and best sizes under noise: the formulas, and the slides', against random cycles.

    python benchmarks/learning_rate.py [--quick]

Prints how many cells of a grid each formula explains within three standard errors, where the measured
rate is largest, and how often an estimated trace's interval holds the exact one. --quick takes
fewer draws.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from itertools import product

import numpy as np

import sublearn as sl
from sublearn.experiments.raman2019 import sigmoid_path, slides_expanded_rate, slides_size
from sublearn.noise import basis_diagonal, layers_diagonal

GAMMA = (0.8, 1.0, 0.05)
OTHER = (0.3, 0.8, 0.1)
INPUTS, OUTPUTS, SAMPLES = 10, 5, 40


def task(seed: int) -> sl.Instance:
    rng = np.random.default_rng([seed, 11])
    net = sl.LinearEstimator(inputs=INPUTS, outputs=OUTPUTS)
    x = rng.standard_normal((INPUTS, SAMPLES))
    targets = rng.standard_normal((OUTPUTS, INPUTS)) @ x
    weights = {"W": rng.standard_normal((OUTPUTS, INPUTS))}
    return sl.Instance(net, sl.Allocation.whole(net), weights, x, targets)


def expansions(draws: int) -> bool:
    """Sizes x paths x readings x starts x gamma x T: one-step mean rate, formula and slides."""
    inside = slides_inside = cells = 0
    worst = 0.0
    small = task(0)
    base = sl.local_geometry(small)
    for path in ("both", "inputs", "outputs"):
        for factor in (1.4, 2.0, 3.0, 4.0):
            for reading in ("expanded", "projected"):
                for start in ("embedded", "random"):
                    (grown,) = sl.noise.expansion_path(
                        small, [factor], path=path, reading=reading, start=start, seed=cells
                    )
                    geo = sl.local_geometry(grown)
                    c1, c2 = (factor if path != other else 1.0 for other in ("outputs", "inputs"))
                    for gamma, T in product((GAMMA, OTHER), (1.0, 2.0)):
                        noise = sl.Noise(gamma, T)
                        found = geo.measure(noise, draws, seed=cells)
                        z = abs(found.mean - geo.rate(noise)) / found.error
                        said = slides_expanded_rate(base, c1, c2, noise)
                        inside += z <= 3
                        slides_inside += abs(found.mean - said) <= 3 * found.error
                        worst, cells = max(worst, z), cells + 1
    print(f"linear expansion: formula within 3 standard errors in {inside} of {cells} cells")
    print(f"  (worst {worst:.2f}); the slides' formula in {slides_inside} of {cells}")
    return inside >= 0.99 * cells and not slides_inside


def masks(draws: int) -> bool:
    """100 cells: random allocations, noise on the plastic or on all weights, white or correlated inputs."""
    inside, worst = 0, 0.0
    net = sl.LinearEstimator(inputs=32, outputs=8)
    for cell in range(100):
        rng = np.random.default_rng([cell, 12])
        samples = (8, 64)[cell % 2]
        x = rng.standard_normal((32, samples))
        if cell % 4 >= 2:
            x = rng.standard_normal((32, 2)) @ rng.standard_normal((2, samples)) + 0.5 * x
        mask = rng.permutation(256).reshape(8, 32) < (16, 64, 128, 200)[cell // 4 % 4]
        allocation = sl.Allocation.from_masks(net, {"W": mask})
        weights, targets = {"W": rng.standard_normal((8, 32))}, rng.standard_normal((8, 32)) @ x
        gamma, T = ((0.1, 1.0, 0.05), (0.3, 0.3, 0.1))[cell // 8 % 2], (1.0, 2.0)[cell // 16 % 2]
        noise = sl.Noise(gamma, T, on=("plastic", "all")[cell // 2 % 2])
        geo = sl.local_geometry(sl.Instance(net, allocation, weights, x, targets), on=noise.on)
        found = geo.measure(noise, draws, seed=cell)
        z = abs(found.mean - geo.rate(noise)) / found.error
        inside, worst = inside + (z <= 3), max(worst, z)
    print(f"subset plasticity: formula within 3 standard errors in {inside} of 100 cells")
    print(f"  (worst {worst:.2f})")
    return inside >= 99


def sizes(draws: int) -> bool:
    """Where the measured rate is largest, for expansion and for redundant synapses."""
    small, noise = task(1), sl.Noise(GAMMA)
    path = sl.noise.expansion_path(small, [k / 5 for k in range(7, 29, 2)])
    found = sl.noise.measure_best_size(path, noise, draws=draws)
    low, high = found.interval
    closed = sl.best_size(path, noise).closed_form.value
    good = 400 in found and 144 not in found
    print(f"best size, expansion at gamma = {GAMMA}: {found.best:.0f} [{low:.0f}, {high:.0f}]")
    print(
        f"  closed form {closed:.0f}, slides {slides_size(noise, len(small.allocation)).value:.0f}"
    )
    base = sl.local_geometry(small)
    best = sl.noise.best_redundancy(base, noise).value
    assert best is not None
    counts = sorted({max(1, round(best * 1.5 ** (place / 2))) for place in range(-6, 7)})
    path = [sl.noise.add_synapses(small, c) for c in counts]
    found = sl.noise.measure_best_size(path, noise, draws=max(400, draws // 4))
    low, high = found.interval
    print(f"best size, redundant synapses: {found.best:.0f} [{low:.0f}, {high:.0f}]")
    print(f"  maximum of <k> {best * base.plastic:.0f}, closed form {closed:.0f}")
    return good and best * base.plastic in found and closed not in found


def probes(problems: int) -> bool:
    """How often the interval of an estimated trace holds the exact one."""
    hits = {0.5: 0, 0.95: 0}
    for problem in range(problems):
        rng = np.random.default_rng([problem, 13])
        net = sl.RNN(n=6, b=2, d=3, T=3)
        weights = {name: rng.standard_normal(shape) / math.sqrt(shape[1])
                   for name, shape in net.shapes.items()}  # fmt: skip
        X, Y = rng.standard_normal(net.input_shape(9)), rng.standard_normal((3, 9))
        given = sl.Instance(net, sl.Allocation.whole(net), weights, X, Y)
        exact = sl.local_geometry(given, trace="exact").trace
        found = sl.local_geometry(given, trace="estimate", seed=problem)
        for level in hits:
            low, high = found.trace_interval(level)
            hits[level] += low <= exact <= high
    said = ", ".join(f"{100 * level:.0f}%: {count}" for level, count in hits.items())
    print(f"estimated traces: intervals that hold the exact one, of {problems}: {said}")
    # Within three binomial standard deviations of what is stated.
    wide = {level: 3 * math.sqrt(problems * level * (1 - level)) for level in hits}
    return all(abs(hits[level] - problems * level) <= wide[level] for level in hits)


def traces(width: int) -> bool:
    """The exact trace carried back through the layers, against one Hessian product per weight."""
    (grown,) = sigmoid_path(widths=(width,), layers=3, trained=0)
    size, spent, found = grown.network.size, [], []
    for way in (lambda: layers_diagonal(grown), lambda: basis_diagonal(grown, np.arange(size))):
        before = time.process_time()
        found.append(float(way().sum()))
        spent.append(time.process_time() - before)
    gap = abs(found[0] - found[1]) / abs(found[1])
    print(f"exact trace over {size} weights: {spent[1] / spent[0]:.0f} times as fast through")
    print(f"  the layers as with a Hessian product per weight (relative difference {gap:.0e})")
    return gap < 1e-9


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer draws")
    scale = 10 if parser.parse_args().quick else 1
    missed = 0
    for part, count in (
        (expansions, max(1000, 4000 // scale)),
        (masks, max(500, 2000 // scale)),
        (sizes, 10000 // scale),
        (probes, 200),
        (traces, 20),
    ):
        before = time.process_time()
        good = part(count)
        missed += not good
        spent = time.process_time() - before
        print(f"  {'PASS' if good else 'FAIL'} in {spent:.1f} s", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
