"""The equations of an instance, F(x) = outputs - targets, with their Jacobian: in balls or residues.

Where every step is linear, the left factors of the derivatives are the same for all samples; else they
are carried once per sample. Where a pre-activation of a ReLU step is not known to have a sign, its slope
is the ball [0, 1], which encloses Clarke's generalised derivative at the kink: the Krawczyk test stays
sound there, and away from kinks the gates are simply known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Protocol

import numpy as np

from sublearn._arrays import Array
from sublearn._errors import BadInputError
from sublearn.ensembles import Instance
from sublearn.matchers.proofs._balls import (
    BALLS,
    BENT,
    Ball,
    BallMatrix,
    Balls,
    Ring,
    input_blocks,
    wanted,
)
from sublearn.networks import Matrices, Trace, links, uses, walk


class RootEquations(Protocol):
    """F(x) = 0, as many equations as there are numbers in x, or fewer."""

    def residual(self, x: Sequence[Ball]) -> BallMatrix:
        """F(x), a matrix with one column."""

    def linearised(self, x: Sequence[Ball]) -> tuple[BallMatrix, BallMatrix]:
        """F(x) and its Jacobian."""


class FlintMatrices(Matrices):
    """The arithmetic of flint matrices over a ring.

    Slopes are flat lists, row by row. Adjoints are lists of (d, n) matrices: one for all samples as
    long as nothing was bent, then one for each.
    """

    def __init__(self, ring: Ring, samples: int) -> None:
        self.ring, self.samples, self.exact = ring, samples, ring.exact

    def bend(
        self, position: int, activation: str, before: BallMatrix
    ) -> tuple[BallMatrix, list[Ball]]:
        pairs = [BENT[activation](entry) for entry in before.entries()]
        values = self.ring.matrix(before.nrows(), before.ncols(), [pair[0] for pair in pairs])
        return values, [pair[1] for pair in pairs]

    def scale(self, adjoint: list[BallMatrix], slope: list[Ball]) -> list[BallMatrix]:
        height, width = adjoint[0].nrows(), adjoint[0].ncols()
        flat = [matrix.entries() for matrix in adjoint]
        out = []
        for s in range(self.samples):
            entries, mine = flat[s % len(flat)], slope[s :: self.samples]
            scaled = [entries[o * width + i] * mine[i] for o in range(height) for i in range(width)]
            out.append(self.ring.matrix(height, width, scaled))
        return out

    def back(self, adjoint: list[BallMatrix], matrix: BallMatrix) -> list[BallMatrix]:
        return [left * matrix for left in adjoint]

    # Adjoints have states in their columns, so they are weighed and cut from the right.

    def weigh(self, number: float, adjoint: list[BallMatrix]) -> list[BallMatrix]:
        return self.back(adjoint, self.ring.exact(number * np.eye(adjoint[0].ncols())))

    def join(self, one: list[BallMatrix], two: list[BallMatrix]) -> list[BallMatrix]:
        count = max(len(one), len(two))
        return [one[s % len(one)] + two[s % len(two)] for s in range(count)]

    def rows(self, adjoint: list[BallMatrix], start: int, stop: int) -> list[BallMatrix]:
        chosen = np.eye(adjoint[0].ncols())[:, start:stop]
        return self.back(adjoint, self.ring.exact(np.ascontiguousarray(chosen)))


class ChainEquations:
    """The equations of an instance, in the learnable weights that vary.

    ``free`` are the positions (in the order of the labels) of the weights that vary; the others
    hold the float64 numbers ``held``, which are then as exact as the frozen ones.
    """

    def __init__(
        self,
        instance: Instance,
        free: Sequence[int] | None = None,
        held: Array | None = None,
        ring: Ring = BALLS,
    ) -> None:
        network, allocation = instance.network, instance.allocation
        if not (network.is_linear or isinstance(ring, Balls)):
            raise BadInputError(f"{network.title} has steps that are not linear.")
        weights = dict(instance.weights)
        if free is not None:
            if held is None:
                raise BadInputError("held values are needed where some weights are not free.")
            weights = instance.with_values(held)
            allocation = allocation.select(free)
        self.network, self.ring = network, ring
        self.samples, self.equations = instance.samples, instance.equations
        self.size = len(allocation)
        self._instance = instance
        self._numbers = FlintMatrices(ring, self.samples)
        self._frozen = {name: ring.exact(np.asarray(weights[name])) for name in network.shapes}
        self._places = {
            name: [divmod(int(f), network.shapes[name][1]) for f in allocation.flat(name)]
            for name in allocation.names
        }
        ones = ring.exact(np.ones((1, self.samples)))
        self._links = links(network, input_blocks(instance, ring), ones)
        self._unit = [ring.exact(np.eye(network.output_size))]
        self._targets: BallMatrix | None = None

    @property
    def targets(self) -> BallMatrix:
        """The targets; where they are balls, at the precision that is asked for now."""
        if self._targets is None or self._instance.exact_targets is None:
            self._targets = wanted(self._instance, self.ring)
        return self._targets

    def _weights(self, x: Sequence[Ball]) -> dict[str, BallMatrix]:
        """Every weight by name, with the free entries set to x."""
        out, start = dict(self._frozen), 0
        for name, places in self._places.items():
            matrix = type(out[name])(out[name])
            for offset, (i, j) in enumerate(places, start):
                matrix[i, j] = x[offset]
            start += len(places)
            out[name] = matrix
        return out

    def _residual(self, trace: Trace) -> BallMatrix:
        return self.ring.matrix(self.equations, 1, (trace.outputs - self.targets).entries())

    def residual(self, x: Sequence[Ball]) -> BallMatrix:
        """F(x), a (d m, 1) matrix in the order (output, sample)."""
        return self._residual(walk(self._links, self._weights(x), self._numbers))

    def linearised(self, x: Sequence[Ball]) -> tuple[BallMatrix, BallMatrix]:
        """F(x) and its Jacobian: rows (output, sample), columns in the order of the labels."""
        weights = self._weights(x)
        trace = walk(self._links, weights, self._numbers)
        lefts: dict[str, list[list[list[Ball]]]] = {name: [] for name in self._places}
        rights: dict[str, list[list[Ball]]] = {name: [] for name in self._places}
        for name, left, right in uses(trace, weights, self._numbers, self._unit, self._places):
            lefts[name].append([matrix.entries() for matrix in left])
            rights[name].append(right.entries())
        m, size, column = self.samples, self.size, 0
        flat: list[Ball] = [None] * (self.equations * size)
        for name, places in self._places.items():
            for i, entries in groupby(places, key=itemgetter(0)):  # sorted, as labels are
                columns = [j for _, j in entries]
                width = len(columns)
                for first, row, product in self._products(lefts[name], rights[name], i, columns):
                    for k in range(len(product) // width):
                        start = (row * m + first + k) * size + column
                        flat[start : start + width] = product[k * width : (k + 1) * width]
                column += width
        return self._residual(trace), self.ring.matrix(self.equations, size, flat)

    def _products(
        self, lefts: list[list[list[Ball]]], rights: list[list[Ball]], i: int, columns: list[int]
    ) -> Iterator[tuple[int, int, list[Ball]]]:
        """Sums over uses of left[o, i, s] right[j, s]: (first s, o, the sums in the order (s, j)).

        All samples at once where the left factors are the same for all.
        """
        d, m, uses = self.network.output_size, self.samples, len(rights)
        height = len(lefts[0][0]) // d
        count = m if all(len(left) == 1 for left in lefts) else 1
        for first in range(0, m, count):
            mine = [left[first % len(left)] for left in lefts]
            tall = [entries[o * height + i] for o in range(d) for entries in mine]
            places = [j * m + s for s in range(first, first + count) for j in columns]
            wide = [entries[place] for entries in rights for place in places]
            product = self.ring.matrix(d, uses, tall) * self.ring.matrix(uses, len(places), wide)
            sums = product.entries()
            for o in range(d):
                yield first, o, sums[o * len(places) : (o + 1) * len(places)]
