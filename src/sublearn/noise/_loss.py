"""The one loss of this room: squared error, half the mean over the m samples of the squared distance,

    F(w) = 1/(2 m) sum_s |y_s(w) - y*_s|^2,

as a function of the weights of an instance. Vectors of weights are flat: names in the network's order,
each matrix row by row. Rates, best sizes and every ratio F / F_min are the same for any multiple of F:
a unit step along the gradient does not see its scale.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from sublearn._arrays import Array, Indices
from sublearn.allocations import Allocation
from sublearn.ensembles import Instance
from sublearn.networks import Network


def squared_error(outputs: Array, targets: Array) -> Array:
    """F of outputs (..., d, m): half the mean over samples of the squared distance, shape (...)."""
    gap = outputs - targets
    out: Array = np.einsum("...os,...os->...", gap, gap) / (2.0 * gap.shape[-1])
    return out


def error_signal(outputs: Array, targets: Array) -> Array:
    """dF / d outputs = (outputs - targets) / m: the cotangent whose pullback is the gradient."""
    gap: Array = (outputs - targets) / outputs.shape[-1]
    return gap


def plastic_positions(instance: Instance) -> Indices:
    """Positions of the plastic weights in the vector of all."""
    return positions(instance.network, instance.allocation)


def positions(network: Network, allocation: Allocation) -> Indices:
    """Positions of some weights in the vector of all entries."""
    parts, start = [], 0
    for name, (rows, columns) in network.shapes.items():
        parts.append(start + allocation.flat(name))
        start += rows * columns
    return np.concatenate(parts)


def flatten(network: Network, weights: Mapping[str, Array]) -> Array:
    """(..., N) from matrices by name, in the network's order, which :func:`positions` and users read.

    Compiled code has an order of its own, layer by layer (:mod:`sublearn.networks.packed`).
    """
    parts = [np.asarray(weights[name]) for name in network.shapes]
    return np.concatenate([p.reshape(*p.shape[:-2], -1) for p in parts], axis=-1)


def matrices(network: Network, vector: Array) -> dict[str, Array]:
    """Matrices by name from (..., N)."""
    out, start = {}, 0
    for name, (rows, columns) in network.shapes.items():
        stop = start + rows * columns
        out[name] = vector[..., start:stop].reshape(*vector.shape[:-1], rows, columns)
        start = stop
    return out


def loss_at(instance: Instance, vectors: Array) -> Array:
    """F at each of the weight vectors (..., N), a bounded number of them at a time."""
    network = instance.network
    flat = vectors.reshape(-1, vectors.shape[-1])
    out = np.empty(flat.shape[0])
    for part in pieces(flat.shape[0], numbers_per_run(instance)):
        outputs = network.forward(matrices(network, flat[part]), instance.inputs)
        out[part] = squared_error(outputs, instance.targets)
    return out.reshape(vectors.shape[:-1])


def numbers_per_run(instance: Instance) -> int:
    """Numbers that one run of the chain holds at once, for :func:`pieces`."""
    network = instance.network
    states = sum(network.shape(step.weight)[0] for step in network.steps)
    return network.cells + 2 * states * instance.samples


def pieces(count: int, each: int, most: int = 1 << 22) -> Iterator[slice]:
    """Slices of range(count) such that ``most`` numbers, ``each`` per item, are held at a time."""
    width = max(1, most // max(each, 1))
    for start in range(0, count, width):
        yield slice(start, min(start + width, count))
