"""Instances whose solution is known: the frozen weights are the teacher's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

import sublearn as sl

LAWS = ("normal", "uniform", "student-t", "signs", "sparse", "saturated", "whole")


def drawn(law: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Numbers under a law, by name."""
    if law == "uniform":
        return rng.uniform(-1.0, 1.0, shape)
    if law == "student-t":
        return rng.standard_t(3.0, shape)
    if law == "signs":
        return rng.choice([-1.0, 1.0], shape)
    if law == "sparse":
        return rng.standard_normal(shape) * (rng.random(shape) < 0.6)
    if law == "whole":
        return rng.integers(-2, 3, shape).astype(float)
    return rng.standard_normal(shape) * (20.0 if law == "saturated" else 1.0)


def planted(
    networks: Sequence[tuple[sl.Network, tuple[str, ...]]], count: int, seed: int, most: int = 6
) -> Iterator[sl.Instance]:
    """Instances with a solution, by proof: targets are the exact outputs of the weights themselves.

    A network comes with the names of what may learn; at most ``most`` weights do, on one to four samples.
    """
    for trial in range(count):
        network, names = networks[trial % len(networks)]
        law = LAWS[trial // len(networks) % len(LAWS)]
        rng = np.random.default_rng([seed, trial])
        pool = sl.Allocation.whole(network, list(names))
        size = int(rng.integers(1, min(most, len(pool)) + 1))
        held = pool.select(rng.choice(len(pool), size, replace=False))
        weights = {name: drawn(law, shape, rng) for name, shape in network.shapes.items()}
        inputs = drawn(
            "normal" if law == "saturated" else law,
            network.input_shape(int(rng.integers(1, 5))),
            rng,
        )
        yield sl.Instance.from_teacher(network, held, weights, inputs, weights)
