"""Attack on predicted steady states: cycles by plain Monte Carlo."""

from __future__ import annotations

from typing import Any

import numpy as np

import sublearn as sl
from adversary.cells import Cell, ImpossibleError, network_of, rng_of
from adversary.network import Layout, float_phi, forward, layout
from adversary.verbs import Outcome

REPEATS = 1500
MOST_CYCLES = 2500
ROUNDED = 1e-3  # of the excess: what the law that is solved for numerically may be off


def steady(cell: Cell, index: int) -> Outcome:
    """A predicted steady state, exact or between proved bounds, against cycles made here.

    The last layer learns, or some weights of a single one under noise on all. One sample gives equal modes.
    """
    rng = rng_of("steady", *cell, index)
    network = network_of(cell.network, index, rng)
    chain = layout(network)
    weights = {name: rng.standard_normal((h, w)) for name, h, w in chain.shapes}
    weights = chain.without_missing(weights)
    m = {"below": 1, "at": 1, "above": 2}[cell.samples]
    flat = rng.standard_normal((sum(chain.blocks), m))
    if cell.samples == "at" and len(chain.links) == 1:
        flat = 1.5 * np.eye(len(flat))  # as many equal modes as weights
        m = flat.shape[1]
    last = chain.links[-1]
    pool = [x for x in chain.labels if x[0] in (last.matrix, last.bias)]
    alone = len(chain.links) == 1
    if alone and index % 2:
        pool = [x for x in pool if rng.random() < 0.7] or pool
    inputs, targets = flat.reshape(network.input_shape(m)), rng.standard_normal((chain.outputs, m))
    entries: dict[str, list[tuple[int, int]]] = {}
    for name, i, j in pool:
        entries.setdefault(name, []).append((i, j))
    allocation = sl.Allocation.from_entries(network, entries)
    gamma = (float(rng.uniform(0.1, 0.5)), float(rng.uniform(0.1, 0.6)), float(rng.uniform(0, 0.2)))
    noise = sl.Noise(gamma, float(rng.uniform(0.5, 1.5)), on="all" if alone else "plastic")
    given = sl.Instance(network, allocation, weights, inputs, targets)
    said = sl.predict_steady_state(given, noise)
    if said.kind == "none":
        return Outcome(False, None, "", "none")
    moving = chain.labels if alone else pool
    learns = np.array([label in set(pool) for label in moving])
    J, rest = _affine(chain, weights, moving, flat)
    if float(np.linalg.norm(J[:, learns])) < 1e-6:
        raise ImpossibleError("no slope to speak of")
    cycles = 1000 if np.isnan(said.slowest) else int(30 * said.slowest) + 300
    if cycles > MOST_CYCLES:
        raise ImpossibleError("settles too slowly for a case")
    mean, error = _cycles(J, rest - targets.reshape(-1), learns, m, noise, cycles, rng)
    slack = 5.5 * error + ROUNDED * (said.value - said.minimum) + 1e-12
    note, ours = None, f"{mean:.6g} +- {error:.2g}"
    if said.kind == "exact" and abs(mean - said.value) > slack:
        note = f"F = {ours} by Monte Carlo, said {said.value:.6g} (exact)"
    if said.lower is not None and mean < said.lower - slack:
        note = f"F = {ours} by Monte Carlo, said at least {said.lower:.6g}"
    if said.upper is not None and mean > said.upper + slack:
        note = f"F = {ours} by Monte Carlo, said at most {said.upper:.6g}"
    return Outcome(True, note, ours, f"{said.value:.6g} {said.kind}")


def _affine(
    chain: Layout, weights: dict[str, np.ndarray], moving: list[Any], flat: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Outputs = J w + rest, in the weights that move: (d m, r), by setting them to 0 and 1."""
    cut = np.split(flat, np.cumsum(chain.blocks)[:-1])

    def run(values: np.ndarray) -> np.ndarray:
        held = {name: value.copy() for name, value in weights.items()}
        for (name, i, j), value in zip(moving, values, strict=True):
            held[name][i, j] = value
        out = forward(chain, held, cut, float_phi)
        return np.concatenate([np.broadcast_to(v, flat.shape[1:]) for v in out])

    rest = run(np.zeros(len(moving)))
    return np.array([run(row) - rest for row in np.eye(len(moving))]).T, rest


def _cycles(
    J: np.ndarray,
    gap: np.ndarray,
    learns: np.ndarray,
    m: int,
    noise: sl.Noise,
    cycles: int,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """The mean error over the later two thirds of the cycles, and its standard error over repeats."""
    size, r, T = J.shape[1], int(learns.sum()), noise.T
    N = size if noise.on == "all" else r
    noisy = np.ones(size, dtype=bool) if noise.on == "all" else learns
    w = np.tile(np.linalg.lstsq(J, -gap, rcond=None)[0], (REPEATS, 1))
    w += 1e-3 * rng.standard_normal(w.shape) * learns
    seen, count = np.zeros(REPEATS), 0
    for t in range(cycles):
        y = w @ J.T + gap
        if t >= cycles // 3:
            seen += (y**2).sum(axis=1) / (2 * m)
            count += 1
        g = (y @ J / m) * learns
        n2 = rng.standard_normal(w.shape) * learns
        n3 = rng.standard_normal(w.shape) * noisy
        for v in (g, n2, n3):
            v /= np.linalg.norm(v, axis=1, keepdims=True) + 1e-300
        a, b, c = noise.gamma
        w = w + T * (-a * g + b * n2 + c * np.sqrt(N / T) * n3)
    each = seen / count
    return float(each.mean()), float(each.std(ddof=1) / np.sqrt(REPEATS))
