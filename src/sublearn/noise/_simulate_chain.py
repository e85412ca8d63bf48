"""A network as the table of whole numbers that the simulation's machine code reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sublearn._arrays import Array, Indices
from sublearn.allocations import Allocation
from sublearn.networks import Network


@dataclass(frozen=True, eq=False)
class Chain:
    """The table of a network and the order of its weights in one vector.

    A *layer* is a matrix with its bias; layers stand one after the other, so that the norm of a
    layer is that of a stretch of the vector. ``bounds`` are where the layers begin and end.
    """

    table: Indices
    places: Mapping[str, int]
    shapes: Mapping[str, tuple[int, int]]
    bounds: Indices

    @property
    def size(self) -> int:
        return int(self.bounds[-1])

    def flatten(self, weights: Mapping[str, Array]) -> Array:
        """(..., p) from matrices by name; leading axes are carried along."""
        lead = np.broadcast_shapes(*(np.shape(weights[name])[:-2] for name in self.places))
        out = np.empty((*lead, self.size))
        for name, place in self.places.items():
            rows, columns = self.shapes[name]
            part = np.asarray(weights[name])
            flat = part.reshape(*part.shape[:-2], rows * columns)
            out[..., place : place + rows * columns] = flat
        return out

    def matrices(self, vector: Array) -> dict[str, Array]:
        """Matrices by name, in the network's order, from (..., p)."""
        out = {}
        for name, (rows, columns) in self.shapes.items():
            place = self.places[name]
            part = vector[..., place : place + rows * columns]
            out[name] = part.reshape(*vector.shape[:-1], rows, columns)
        return out

    def positions(self, allocation: Allocation) -> Indices:
        """Sorted positions of the learnable weights in the vector."""
        parts = [place + allocation.flat(name) for name, place in self.places.items()]
        return np.sort(np.concatenate(parts))

    def bounds_of(self, positions: Indices) -> Indices:
        """Where the layers begin and end among these positions; layers without any are left out."""
        return np.unique(np.searchsorted(positions, self.bounds)).astype(np.int64)


def chain_of(network: Network, allocation: Allocation | None = None) -> Chain:
    """The chain of a network; gradients are computed for the weights that the allocation touches."""
    from sublearn.noise._simulate_activations import ACTIVATION_CODES
    from sublearn.noise._simulate_kernel import (
        ACTIVATION,
        ADDS,
        BIAS,
        BLOCK,
        COLUMNS,
        ENCODER,
        ENCODER_COLUMNS,
        FIELDS,
        ROWS,
        WEIGHT,
    )

    shapes = network.shapes
    layers: list[tuple[str, ...]] = []
    for step in network.steps:
        names = (step.weight,) if step.bias is None else (step.weight, step.bias)
        encoder = () if step.encoder is None else (step.encoder,)
        layers += [layer for layer in (encoder, names) if layer and layer not in layers]
    places, bounds, start = {}, [0], 0
    for layer in layers:
        for name in layer:
            places[name] = start
            start += shapes[name][0] * shapes[name][1]
        bounds.append(start)
    starts = np.concatenate([[0], np.cumsum(network.input_blocks)])
    uses = [step.weight for step in network.steps]
    wanted = set(shapes) if allocation is None else set(allocation.names)
    table = np.full((len(network.steps), FIELDS), -1, dtype=np.int64)
    for row, step in zip(table, network.steps, strict=True):
        row[WEIGHT] = places[step.weight]
        row[[ROWS, COLUMNS]] = shapes[step.weight]
        row[ACTIVATION] = ACTIVATION_CODES[step.activation]
        if step.block is not None:
            row[BLOCK] = starts[step.block]
        if step.encoder is not None:
            row[ENCODER] = places[step.encoder]
            row[ENCODER_COLUMNS] = shapes[step.encoder][1]
        if step.bias is not None:
            row[BIAS] = places[step.bias]
        row[ADDS] = 2 if step.weight not in wanted else int(uses.count(step.weight) > 1)
    return Chain(table, places, shapes, np.array(bounds, dtype=np.int64))
