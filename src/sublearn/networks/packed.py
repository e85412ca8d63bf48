"""A chain as a table of whole numbers: the one form in which machine code reads a network.

All weights are one vector. A row of the table is a step; places are positions in the vector, -1 where
there is none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sublearn._arrays import Array, Indices
from sublearn.networks._activations import ACTIVATIONS
from sublearn.networks._network import Network

if TYPE_CHECKING:
    from sublearn.allocations import Allocation

# Columns of the table. BLOCK is the first row of the step's block among those of all blocks, of which
# it has BLOCK_ROWS; ADDS says of a gradient by the weight: written (0), added to (1), not wanted (2).
# LEAK is a float64 number, to be read from a view of the table; ASIDE is 1 or 0.
FIELDS = 12
WEIGHT, ROWS, COLUMNS, ACTIVATION, BLOCK, BLOCK_ROWS, ENCODER, BIAS, ADDS, DRIVE, LEAK, ASIDE = (
    range(FIELDS)
)
ACTIVATION_CODES = {name: code for code, name in enumerate(ACTIVATIONS)}
LINEAR, RELU, TANH, SIGMOID = (
    ACTIVATION_CODES[name] for name in ("linear", "relu", "tanh", "sigmoid")
)
# Kinds of use of a weight: as the matrix of a step, as its encoder, as its bias.
AS_WEIGHT, AS_ENCODER, AS_BIAS = range(3)


@dataclass(frozen=True, eq=False)
class Packed:
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
        return np.sort(self.labels_at(allocation))

    def bounds_of(self, positions: Indices) -> Indices:
        """Where the layers begin and end among these positions; layers without any are left out."""
        return np.unique(np.searchsorted(positions, self.bounds)).astype(np.int64)

    def labels_at(self, allocation: Allocation) -> Indices:
        """Positions of the learnable weights in the vector, in the order of the labels."""
        return np.concatenate([self.places[name] + allocation.flat(name) for name in self.shapes])

    def uses(self, allocation: Allocation) -> Indices:
        """(unknown, kind of use, step, row, column) of every use of the learnable weights."""
        by_name: dict[str, list[tuple[int, int]]] = {name: [] for name in self.shapes}
        names = {place: name for name, place in self.places.items()}
        for p, row in enumerate(self.table.tolist()):
            for kind, field in ((AS_WEIGHT, WEIGHT), (AS_ENCODER, ENCODER), (AS_BIAS, BIAS)):
                if row[field] >= 0:
                    by_name[names[row[field]]].append((kind, p))
        out = [
            (unknown, kind, p, i, j)
            for unknown, (name, i, j) in enumerate(allocation.labels())
            for kind, p in by_name[name]
        ]
        return np.array(out, dtype=np.int64).reshape(-1, 5)


def pack(network: Network, wanted: Collection[str] | None = None) -> Packed:
    """The table of a network; ``wanted`` are the weights whose gradients are (default: all)."""
    shapes = network.shapes
    layers: list[tuple[str, ...]] = []
    # A bias that several steps add belongs to the weight of the last one.
    owner = {step.bias: step.weight for step in network.steps if step.bias is not None}
    for step in network.steps:
        for name in (step.encoder, step.drive, step.weight):
            if name is not None:
                layer = (name, *(bias for bias, weight in owner.items() if weight == name))
                layers += [layer] if layer not in layers else []
    places, bounds, start = {}, [0], 0
    for layer in layers:
        for name in layer:
            places[name] = start
            start += shapes[name][0] * shapes[name][1]
        bounds.append(start)
    starts = np.concatenate([[0], np.cumsum(network.input_blocks)])
    uses = [name for step in network.steps for name in step.names]
    table = np.full((len(network.steps), FIELDS), -1, dtype=np.int64)
    for row, step in zip(table, network.steps, strict=True):
        row[WEIGHT] = places[step.weight]
        row[[ROWS, COLUMNS]] = shapes[step.weight]
        row[ACTIVATION] = ACTIVATION_CODES[step.activation]
        if step.block is not None:
            row[BLOCK], row[BLOCK_ROWS] = starts[step.block], network.input_blocks[step.block]
        if step.encoder is not None:
            row[ENCODER] = places[step.encoder]
        if step.bias is not None:
            row[BIAS] = places[step.bias]
        if step.drive is not None:
            row[DRIVE] = places[step.drive]
        row[ASIDE] = step.aside
        row[LEAK : LEAK + 1].view(np.float64)[:] = step.leak
        kept = wanted is None or step.weight in wanted
        row[ADDS] = int(uses.count(step.weight) > 1) if kept else 2
    return Packed(table, places, shapes, np.array(bounds, dtype=np.int64))
