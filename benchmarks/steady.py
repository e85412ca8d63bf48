"""Steady states with few modes and with many: predictions beside cycles written out in plain numpy.

    python benchmarks/steady.py [--quick]

Prints the error over equal modes, without and with the fluctuations of |g|; how far predictions are
off over random spectra, and whether the proved bounds hold; the same with n2 correlated in time; and
how the error goes on rising where F is not quadratic in what moves. --quick takes fewer cells.
"""

from __future__ import annotations

import argparse
import math
import sys

import numpy as np

import sublearn as sl
from sublearn.noise import step_correlation
from sublearn.noise._balance import ModeNoise, balance
from sublearn.noise._steady import doubt


def directions(rng: np.random.Generator, repeats: int, size: int) -> np.ndarray:
    drawn = rng.standard_normal((repeats, size))
    return drawn / np.linalg.norm(drawn, axis=1)[:, None]


def measured(
    lam: np.ndarray,
    size: int,
    gamma: tuple[float, float, float],
    cycles: int,
    repeats: int,
    seed: int,
    mixing: float = 0.0,
) -> tuple[float, float]:
    """<1/2 sum lam x^2> over the last two thirds of the cycles, with its standard error; T = 1."""
    rng = np.random.default_rng(seed)
    x, total, first = np.full((repeats, lam.size), 0.1), np.zeros(repeats), cycles // 3
    n2 = directions(rng, repeats, size)
    for cycle in range(cycles):
        if cycle >= first:
            total += 0.5 * (x * x) @ lam
        g = x * lam
        x -= gamma[0] * g / np.linalg.norm(g, axis=1)[:, None]
        n2 = mixing * n2 + (1 - mixing) * directions(rng, repeats, size)
        n2 /= np.linalg.norm(n2, axis=1)[:, None]
        x += gamma[1] * n2[:, : lam.size]
        if gamma[2]:
            x += gamma[2] * math.sqrt(size) * directions(rng, repeats, size)[:, : lam.size]
    each = total / (cycles - first)
    return float(each.mean()), float(each.std(ddof=1) / math.sqrt(repeats))


def equal_modes(repeats: int) -> bool:
    good = True
    print("equal modes, lambda = 1, as many weights as two per mode, gamma = (.1, .3, .05)")
    for k in (1, 2, 4, 8, 16):
        size, (h, b, c) = 2 * k, (0.1, 0.3, 0.05)
        noise = ModeNoise(b**2 / size, c**2, size, size)
        found = balance(np.ones(k), noise, h)
        plain = (h**2 + k * (noise.irrelevant + noise.synaptic)) ** 2 / (8 * h**2)
        mean, error = measured(np.ones(k), size, (h, b, c), 4000, repeats, k)
        good = good and abs(mean - found.excess) < 4 * error
        print(
            f"  {k:>2} modes: |g| taken as fixed {plain:.4f}, law {found.excess:.4f}, "
            f"measured {mean:.4f} +- {error:.4f}, {mean / plain:.2f} times the first"
        )
    return good


def spectra(cells: int, mixing: float) -> bool:
    rng = np.random.default_rng([7, round(10 * mixing)])
    many, few, outside = [], [], 0
    cell = 0
    while cell < cells:
        # Correlated n2 has a prediction with many modes alone.
        k = int(rng.choice([16, 24, 40, 60] if mixing else [2, 3, 4, 6, 8, 12, 16, 24, 40]))
        size = k + int(rng.choice([0, 0, k, 3 * k]))
        shapes = (
            rng.uniform(0.05, 1.0, k),
            np.geomspace(1.0, 10 ** -rng.uniform(0.2, 2.0), k),
            np.concatenate([[1.0], np.full(k - 1, 10 ** -rng.uniform(0.3, 2.5))]),
            np.linalg.svd(rng.standard_normal((k, 2 * k)))[1] ** 2 / k,
        )
        lam = shapes[rng.integers(len(shapes))]
        h, b = 10 ** rng.uniform(-1.7, -0.3), 10 ** rng.uniform(-0.7, 0.0) * math.sqrt(size) / 2
        c = float(rng.choice([0.0, 0.05, 0.2]))
        rho = step_correlation(mixing, size)
        found = balance(lam, ModeNoise(b**2 / size, c**2, size, size, rho=rho), h)
        if math.isnan(found.slowest) or found.slowest > 1000:
            continue  # would not settle
        cell += 1
        count = int(max(2000, 50 * found.slowest))
        mean, error = measured(lam, size, (h, b, c), count, 40, cell, mixing)
        if found.lower is not None and found.upper is not None:
            outside += not found.lower - 4 * error <= mean <= found.upper + 4 * error
        # The difference relative to the prediction, and what chance makes of it.
        off = (abs(mean / found.excess - 1), error / found.excess)
        (few if doubt(found, rho) else many).append(off)
    proved = "no bounds are proved" if mixing else f"{outside} outside their proved bounds"
    print(f"{cells} random spectra, mixing {mixing:g}: {proved}")
    for name, held in (("limit", many), ("others", few)):
        off, chance = max(held, default=(0.0, 0.0))
        print(f"  {name}: {len(held)} cells, at most {off:.1%} off (+- {chance:.1%})")
    return not outside and max((off - 3 * chance for off, chance in many), default=0.0) < 0.05


def rising(cycles: int) -> bool:
    network = sl.FeedForward((4, 6, 2))
    rng = np.random.default_rng(0)
    weights = {"W1": rng.standard_normal((6, 4)) / 2, "W2": rng.standard_normal((2, 6)) / 6**0.5}
    X, Y = rng.standard_normal((4, 2)), rng.standard_normal((2, 2))
    given = sl.Instance(network, sl.Allocation.whole(network, ["W2"]), weights, X, Y)
    noise = sl.Noise((0.1, 0.3, 0.05), on="all")
    run = sl.simulate(given, noise, cycles=cycles, repeats=24)
    found = sl.predict_steady_state(given, noise)
    print("ffn:4-6-2, W2 plastic, noise on all, gamma = (.1, .3, .05), 2 samples")
    for end in (500, 10_000, 40_000):
        if end <= cycles:
            held = run.errors[:, end - 100 : end].mean(axis=1)
            error = held.std(ddof=1) / math.sqrt(held.size)
            print(f"  error at cycle {end}: {held.mean():.3g} +- {error:.2g}")
    print(f"  predicted: {found.kind}, {found.reason}")
    return found.kind == "none"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    good = [
        equal_modes(100 if quick else 400),
        spectra(20 if quick else 200, 0.0),
        spectra(10 if quick else 60, 0.4),
        rising(10_000 if quick else 40_000),
    ]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
