"""A proof that no match satisfies the conditions of a leaf: one vector, in float64 or in fractions.

Let y_s in R^d be a weight on the equations of sample s, and eta_is = y_s . w_i. Every match has

    sum_s y_s . R_s = sum_i sum_s eta_is a_is >= sum_i min { eta_i . relu(z) : z on the leaf's sides },

so the leaf is refuted if the right side is larger than the left. The minimum of unit i is that over its
vertices, provided that no ray goes down: eta_i . relu(ray) >= 0 (see ``patterns/_program.py``).

The simplex gives y at a corner, where many rays are exactly level and rounding may point them down by
1e-16. Vertices and the final comparison have room for rounding; rays have none. So y is tilted a little,
in the direction of least length in which all level rays rise, and checked in float64 with every rounding
bounded: that proves most leaves. Where positive multiples of level rays add up to 0 there is no such
direction, and units in coordinates have opposite rays; there the rays are made exactly level in fractions
(``exact.separates``), at twenty times the cost.

A unit of a deeper layer, which puts out a_is to one set of equations and u_is to another, is two units here,
each with the vertex 0 and a ray for every sample: the minimum over both is no larger than that over the unit.
"""

from __future__ import annotations

import numpy as np

from sublearn._arrays import UNIT, Array, Indices, Mask
from sublearn._compile import compiled
from sublearn.exact import Table, separates, to_float, to_floats
from sublearn.patterns import LARGEST, SMALLEST, Program

TINY = 1e-290  # covers underflow
LEVEL = 1e-9  # a ray this close to level, as a share of what y of size 1 could do, is tilted up
SILENT = 1e-12  # samples with y below this are left out
TILTS = (1e-3, 1e-5, 1e-7, 1e-8)  # of y, whose size is 1


class LeafProofs:
    """Proofs for the leaves of one program.

    ``values``: what its columns put out, vertices in the scale of the targets; ``weights`` and
    ``targets``: W2 and the targets of the units, every output in the scale of its equations, so that no
    number is larger than 1. ``faithful`` is False where an output leaves the range in which its rounding
    is bounded.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        system, columns = program.system, program.columns
        scales = np.array([to_float(x) for x in program.column_scales])
        self.vertex, self.owner = program.vertex, columns.owner
        self.weights = self._scaled(system.readout)
        self.targets = columns.right[: system.d * system.m].reshape(system.m, system.d).T.copy()
        sides = columns.sides / np.where(self.vertex, scales, 1.0)[:, None]
        self.added = 2 * system.free
        if system.free and system.lower is not None:
            sides = self._with_free(sides, system.k - system.free, self._scaled(system.lower))
        self.values = np.maximum(sides, 0.0)
        good = (self.values > SMALLEST) & (self.values < LARGEST)
        self.faithful = bool((good == (sides > 0.0)).all())
        # An underflow in eta counts as often as the output it meets.
        self.tiny = TINY * np.maximum(self.values.max(axis=1), 1.0)
        reach = np.abs(self.weights).sum(axis=0)[self.owner]
        self.room = LEVEL * reach * self.values.sum(axis=1)

    def _scaled(self, table: Table) -> Array:
        scales = self.program.row_scales
        return to_floats([[x * e for x in row] for row, e in zip(table, scales, strict=True)])

    def _with_free(self, sides: Array, first: int, lower: Array) -> Array:
        """Units of deeper layers as two each, for a_is and for u_is: the vertex 0 and rays up."""
        free, m = self.added // 2, sides.shape[1]
        below = (self.owner >= first) & (sides < 0.0).any(axis=1)
        owners = np.where(below, self.owner + free, self.owner)
        self.owner = np.concatenate([owners, np.arange(first, first + self.added)])
        self.vertex = np.concatenate([self.vertex, np.ones(self.added, dtype=np.bool_)])
        self.weights = np.ascontiguousarray(np.hstack([self.weights, lower[:, first:]]))
        return np.vstack([np.where(below[:, None], -sides, sides), np.zeros((self.added, m))])

    def _all_open(self, is_open: Mask) -> Mask:
        return np.concatenate([is_open, np.ones(self.added, dtype=np.bool_)])

    def proved(self, clause: Mask, vector: Array) -> bool:
        """Whether no match satisfies the conditions of ``clause``, by a vector near this one."""
        is_open = ~self.program.held(clause)
        if self.program.by_corners:
            with_vertex = np.unique(self.program.columns.owner[is_open & self.program.vertex])
            if len(with_vertex) < self.program.system.k - self.program.system.free:
                return True  # a unit has no vertex on these sides, so no pre-activations either
        if self.program.by_corners and self.faithful and self._proved_by_tilting(vector, is_open):
            return True
        return separates(self.program.exact, self.program.columns.matrix, vector, is_open)

    def _proved_by_tilting(self, vector: Array, is_open: Mask) -> bool:
        """Whether some y a little off the simplex's passes the check in float64."""
        d, m = self.program.system.d, self.program.system.m
        is_open = self._all_open(is_open)
        guess: Array = vector[: d * m].reshape(m, d).copy()
        size = np.abs(guess).max()
        if size > 0.0:  # else it rests on one unit alone, which has no vertex left
            guess = guess / size
        guess[np.abs(guess).max(axis=1) < SILENT] = 0.0
        rise, _ = rises(self.values, self.weights, self.owner, guess, self.tiny)
        rays = is_open & ~self.vertex
        if (rise[rays] < -self.room[rays]).any():
            return False
        active = np.abs(guess).max(axis=1) > 0.0
        # On a sample that has no say every ray is level, exactly.
        level = rays & (rise <= self.room) & ((self.values > 0.0) & active).any(axis=1)
        if not level.any():
            return self._check(guess, is_open)
        direction = self._uphill(np.flatnonzero(level), active)
        if direction is None:
            return False
        size = np.abs(direction).max()
        return any(self._check(guess + direction * (step / size), is_open) for step in TILTS)

    def _uphill(self, level: Indices, active: Mask) -> Array | None:
        """The shortest q with q . ray >= 1 for these rays (Lawson and Hanson 1974, chapter 23)."""
        from scipy.optimize import nnls

        m, d = self.program.system.m, self.program.system.d
        outputs, weights = self.values[level] * active, self.weights.T[self.owner[level]]
        rays = (outputs[:, :, None] * weights[:, None, :]).reshape(len(level), m * d)
        lengths = np.linalg.norm(rays, axis=1)
        if not (lengths > 0.0).all():
            return None
        table = np.vstack([(rays / lengths[:, None]).T, np.ones(len(level))])
        goal = np.zeros(m * d + 1)
        goal[-1] = 1.0
        try:
            share, _ = nnls(table, goal)
        except RuntimeError:
            return None
        rest = table @ share - goal
        if not rest[-1] < -LEVEL:
            return None
        return np.asarray(-rest[:-1] / rest[-1]).reshape(m, d)

    def check(self, y: Array, is_open: Mask) -> bool:
        """The inequality above for the float64 numbers y as they are, with all roundings bounded."""
        return self._check(y, self._all_open(is_open))

    def _check(self, y: Array, is_open: Mask) -> bool:
        rise, slack = rises(self.values, self.weights, self.owner, y, self.tiny)
        return refutes(rise, slack, self.owner, self.vertex, is_open, y, self.targets)


@compiled
def rises(
    values: Array, weights: Array, owner: Indices, y: Array, tiny: Array
) -> tuple[Array, Array]:
    """eta_i . relu(corner) for every corner, and a bound on all that rounding can do to it.

    eta_is = y_s . w_i takes d products and sums, the corner m more; every factor is itself rounded.
    """
    d, k = weights.shape
    size, m = values.shape
    rise, slack = np.empty(size), np.empty(size)
    eta, terms = np.zeros((k, m)), np.zeros((k, m))
    met = np.zeros((k, m), np.bool_)
    for i in range(k):
        for s in range(m):
            for o in range(d):
                product = y[s, o] * weights[o, i]
                eta[i, s] += product
                terms[i, s] += abs(product)
                met[i, s] = met[i, s] or (y[s, o] != 0.0 and weights[o, i] != 0.0)
    unit = (m + d + 12) * UNIT
    for j in range(size):
        i = owner[j]
        total, mass = 0.0, 0.0
        rounded = False
        for s in range(m):
            if values[j, s] > 0.0:
                total += values[j, s] * eta[i, s]
                mass += values[j, s] * terms[i, s]
                rounded = rounded or met[i, s]
        rise[j] = total
        # Only where every product has a factor 0 is nothing rounded.
        slack[j] = unit * mass + (tiny[j] if rounded else 0.0)
    return rise, slack


@compiled
def refutes(
    rise: Array,
    slack: Array,
    owner: Indices,
    vertex: Mask,
    is_open: Mask,
    y: Array,
    targets: Array,
) -> bool:
    """Whether no open ray goes down and the sum of the units' minima exceeds y . R, for certain."""
    d, m = targets.shape
    k = owner[-1] + 1
    lowest = np.full(k, np.inf)
    for j in range(owner.size):
        if not is_open[j]:
            continue
        if vertex[j]:
            if not rise[j] - slack[j] >= lowest[owner[j]]:
                lowest[owner[j]] = rise[j] - slack[j]
        elif not rise[j] >= slack[j]:
            return False
    left, right, mass = 0.0, 0.0, 0.0
    for i in range(k):
        right += lowest[i]
        mass += abs(lowest[i])
    for s in range(m):
        for o in range(d):
            left += y[s, o] * targets[o, s]
            mass += abs(y[s, o] * targets[o, s])
    out: bool = left + (d * m + k + 12) * UNIT * mass + TINY < right
    return out
