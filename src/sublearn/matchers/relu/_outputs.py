"""The outputs of all corners of a program in float64, and what their roundings can do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sublearn._arrays import Array, Mask
from sublearn.patterns._system import LARGEST, SMALLEST, Rational, power_of_two, to_float

if TYPE_CHECKING:
    from sublearn.matchers.relu._program import Program

    Array = Array

UNIT = 2.0**-53
TINY = 1e-290  # covers underflow


class Outputs:
    """What the corners of a program put out: vertices in the scale of the targets, rays of size 1.

    ``readout`` and ``rest``: W2 and the targets of the units, every output in the scale of its
    equations, so that no number is larger than 1; ``weights`` and ``targets`` are the same in float64.
    ``faithful`` is False where an output leaves the range in which its rounding is bounded.
    """

    def __init__(self, program: Program) -> None:
        system = program.system
        d, m = system.d, system.m
        outer = program.row_scales[:d]
        self.owner, self.k = program.owner, system.k
        self.readout = [[x * e for x in row] for row, e in zip(system.readout, outer, strict=True)]
        self.rest: list[list[Rational]] = [
            [x * e * program.factor for x in row] for row, e in zip(system.rest, outer, strict=True)
        ]
        self.weights = np.array([[to_float(x) for x in row] for row in self.readout])
        self.targets = np.array([[to_float(x) for x in row] for row in self.rest])
        self.corners = [c for unit in program.units for c in unit.corners or []]
        self.vertex = np.array([corner.vertex for corner in self.corners])
        self.values = np.zeros((len(self.corners), m))
        self.faithful = True
        for j, corner in enumerate(self.corners):
            size = power_of_two(max(to_float(x) for x in corner.before))
            scale = program.factor if corner.vertex else size
            self.values[j] = [to_float(x * scale) if x > 0 else 0.0 for x in corner.before]
            good = (self.values[j] > SMALLEST) & (self.values[j] < LARGEST)
            self.faithful &= int(good.sum()) == sum(x > 0 for x in corner.before)
        self.up = self.values > 0.0
        # An underflow in eta counts as often as the output it meets.
        self.tiny = TINY * np.maximum(self.values.max(axis=1), 1.0)

    def lowest(self, values: Array, is_open: Mask) -> Array:
        """The least of a value over the open vertices of each unit; infinite where it has none."""
        out = np.full(self.k, np.inf)
        vertices = np.flatnonzero(is_open & self.vertex)
        np.minimum.at(out, self.owner[vertices], values[vertices])
        return out
