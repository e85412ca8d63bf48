"""Instances of shallow ReLU networks for the tests, and the brute force over their patterns."""

from __future__ import annotations

import numpy as np

import sublearn as sl

# Of settings small enough to list every pattern: sizes, samples, first rows.
SMALL: list[tuple[tuple[int, int, int], int, int]] = [
    ((2, 3, 1), 2, 3),
    ((3, 4, 1), 3, 4),
    ((3, 4, 2), 3, 3),
    ((3, 5, 2), 3, 4),
    ((4, 4, 2), 2, 4),
    ((2, 4, 3), 2, 4),
]


def small(trial: int, seed: int = 21) -> sl.Instance:
    """Drawn, with targets of their own law: every singular pattern is infeasible with probability 1."""
    sizes, samples, rows = SMALL[trial % len(SMALL)]
    network = sl.FeedForward(sizes, activation="relu")
    problem = sl.Problem(network, samples, teacher=sl.Targets())
    return sl.draw(problem, {"W1": sl.FirstRows(rows)}, seed=seed, trial=trial)


def planted(network: sl.FeedForward, samples: int, rows: int, seed: int, trial: int) -> sl.Instance:
    """W1 first, then its outputs; on a grid, so that no target is rounded and the match stays exact."""
    problem = sl.Problem(network, samples)
    drawn = sl.draw(problem, {"W1": sl.FirstRows(rows)}, seed=seed, trial=trial)
    rng = np.random.default_rng([seed, rows, trial])
    weights = {name: np.round(value * 1024) / 1024 for name, value in drawn.weights.items()}
    x = np.round(drawn.inputs * 1024) / 1024
    values = np.round(rng.standard_normal(len(drawn.allocation)) * 400) / 1024
    empty = sl.Instance(network, drawn.allocation, weights, x, np.zeros_like(drawn.targets))
    targets = network.forward(empty.with_values(values), x)
    return sl.Instance(network, drawn.allocation, weights, x, targets)


def by_brute_force(instance: sl.Instance) -> tuple[bool, float]:
    """Whether some pattern's linear system has a solution with the right signs; and the closest call.

    For r = d m. Every pattern is solved in float64; the second number is the smallest distance of any
    pattern from changing its answer, so that a tiny one tells of a case that float64 cannot decide.
    """
    entries = np.array(instance.allocation.entries["W1"])
    rows = sorted(set(entries[:, 0].tolist()))
    w1, w2, x = instance.weights["W1"], instance.weights["W2"], instance.inputs
    k, m, d, r = len(rows), instance.samples, w2.shape[0], len(entries)
    others = [i for i in range(w1.shape[0]) if i not in rows]
    rest = instance.targets - w2[:, others] @ np.maximum(w1[others] @ x, 0)
    frozen = w1[rows] @ x
    slopes = np.zeros((k, m, r))
    for place, (i, j) in enumerate(entries):
        slopes[rows.index(i), :, place] = x[j]
    gates = ((np.arange(2 ** (k * m))[:, None] >> np.arange(k * m)) & 1).reshape(-1, k, m)
    readout = w2[:, rows]
    systems = np.einsum("oi,bis,isa->bsoa", readout, gates, slopes).reshape(-1, d * m, r)
    right = (rest.T[None] - np.einsum("oi,bis,is->bso", readout, gates, frozen)).reshape(-1, d * m)
    regular = np.linalg.svd(systems, compute_uv=False)[:, -1] > 1e-10
    values = np.linalg.solve(systems[regular], right[regular][..., None])[..., 0]
    before = np.einsum("isa,ba->bis", slopes, values) + frozen
    margins = np.where(gates[regular] == 1, before, -before).min(axis=(1, 2))
    return bool((margins >= 0).any()), float(np.abs(margins).min(initial=np.inf))
