"""A dual simplex on a tableau in float64 (compiled), for programs G v = h, v >= 0, some entries held at 0."""

from __future__ import annotations

import numpy as np

from sublearn._arrays import Array, Indices, Mask
from sublearn._compile import compiled

FEASIBLE, INFEASIBLE, STALLED = 0, 1, 2
TOLERANCE = 1e-9  # of values; the right sides are scaled to 1
PIVOT = 1e-8
ROOM = 1e-2  # costs are 1 to 1.5 at the start; they only steer


@compiled
def start_table(matrix: Array, right: Array, table: Array, basis: Indices) -> None:
    """The tableau (G | I | h), whose basis is artificial."""
    rows, size = matrix.shape
    for r in range(rows):
        for j in range(size):
            table[r, j] = matrix[r, j]
        for j in range(rows):
            table[r, size + j] = 0.0
        table[r, size + r] = 1.0
        table[r, size + rows] = right[r]
        basis[r] = -1 - r


@compiled
def solve_table(
    table: Array, basis: Indices, costs: Array, open_: Mask, most: int, out: Array
) -> None:
    """Dual simplex. ``out``: [status, leaving row, sign, pivots]. Costs stay >= 0 throughout.

    ``table`` is B^-1 (G | I | h). The columns of I are artificial: basic at the start, held at 0, and
    never enter again; what they become is the inverse of the basis.
    """
    rows, width = table.shape
    size, right = costs.size, width - 1
    for step in range(most):
        worst, leave, sign = TOLERANCE, -1, 1.0
        for r in range(rows):
            x = table[r, right]
            fixed = basis[r] < 0 or not open_[basis[r]]
            if -x > worst:
                worst, leave, sign = -x, r, 1.0
            elif fixed and x > worst:
                worst, leave, sign = x, r, -1.0
        if leave < 0:
            out[0], out[3] = FEASIBLE, step
            return
        # Two passes, as Harris: among the columns whose costs allow it within ROOM, the largest pivot.
        bound = np.inf
        for j in range(size):
            element = -sign * table[leave, j]
            if open_[j] and element > PIVOT:
                bound = min(bound, (costs[j] + ROOM) / element)
        enter, largest = -1, 0.0
        for j in range(size):
            element = -sign * table[leave, j]
            if open_[j] and element > max(PIVOT, largest) and costs[j] <= bound * element:
                enter, largest = j, element
        if enter < 0:
            out[0], out[1], out[2], out[3] = INFEASIBLE, leave, sign, step
            return
        scale = 1.0 / table[leave, enter]
        for j in range(width):
            table[leave, j] *= scale
        table[leave, enter] = 1.0
        for r in range(rows):
            factor = table[r, enter]
            if r != leave and factor != 0.0:
                for j in range(width):
                    table[r, j] -= factor * table[leave, j]
                table[r, enter] = 0.0
        factor = costs[enter]
        for j in range(size):
            costs[j] = max(costs[j] - factor * table[leave, j], 0.0)
        costs[enter] = 0.0
        basis[leave] = enter
    out[0], out[3] = STALLED, most
