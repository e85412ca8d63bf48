"""A proof that no match satisfies the conditions of a leaf: one vector, checked unit by unit.

Let y_s in R^d be a weight on the equations of sample s, and eta_is = y_s . w_i. Every match has

    sum_s y_s . R_s = sum_i sum_s eta_is a_is >= sum_i min { eta_i . relu(z) : z on the leaf's sides },

so the leaf is refuted if the right side is larger than the left. The minimum of unit i is that over its
vertices, provided that no ray goes down: eta_i . relu(ray) >= 0 (see ``_program.py``).

The simplex gives y at a corner, where many rays are exactly level and rounding may point them down by
1e-16. Vertices and the final comparison have room for rounding; rays have none. So y is tilted a little,
in the direction of least length in which all level rays rise, and checked in float64 with every rounding
bounded. With numbers in general position there is such a direction: rays of one unit have outputs >= 0
and never add up to 0, and those of different units are level independently.

Where there is none (numbers on a grid, say) y is moved to where the level rays are level exactly: first
those that are up on one sample s only, which ask for y_s . w_i = 0, sample by sample; then the others,
by elimination in whole numbers. What is free keeps its rounded value.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sublearn._arrays import Array, Indices, Mask
from sublearn.matchers.relu._outputs import Outputs
from sublearn.matchers.relu._whole import WholeVectors

if TYPE_CHECKING:
    from sublearn.matchers.relu._program import Program

    Array = Array

LEVEL = 1e-9  # a ray this close to level, as a share of what y of size 1 could do, is made level
SILENT = 1e-12  # samples with y below this are left out
TILTS = (1e-3, 1e-5, 1e-7, 1e-8)  # of y, whose size is 1


class LeafProofs:
    """Proofs for the leaves of one program whose units are all given by their corners."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.outputs = Outputs(program)
        reach = np.abs(self.outputs.weights).sum(axis=0)[program.owner]
        self.room = LEVEL * reach * self.outputs.values.sum(axis=1)

    @cached_property
    def whole(self) -> WholeVectors:
        """What is needed for exact vectors; most programs never ask."""
        return WholeVectors(self.outputs)

    def proved(self, clause: Mask, vector: Array) -> bool:
        """Whether no match satisfies the conditions of ``clause``, by a vector near this one.

        Where rounding spoilt the simplex's own vector, the one of a program of its own is tried.
        """
        if not self.outputs.faithful:
            return False
        is_open = ~self.program.held(clause)
        if np.isinf(self.outputs.lowest(self.room, is_open)).any():
            return True  # a unit has no vertex on these sides, so no pre-activations either
        if self._proved_near(vector, is_open):
            return True
        other = self._by_program(is_open)
        return other is not None and self._proved_near(other, is_open)

    def _proved_near(self, vector: Array, is_open: Mask) -> bool:
        guess = self._guess(vector)
        level = self._level_rays(guess, is_open)
        if level is None:
            return False
        if self._proved_by_tilting(guess, level, is_open):
            return True
        exact = self.whole.moved(guess, level)
        return exact is not None and self.whole.check(exact, is_open)

    def _proved_by_tilting(self, guess: Array, level: Indices, is_open: Mask) -> bool:
        """Whether some y a little off the guess passes the check in float64."""
        active = np.abs(guess).max(axis=1) > 0.0
        # On a sample that has no say every ray is level, exactly.
        level = level[(self.outputs.up[level] & active).any(axis=1)]
        if not level.size:
            return self._check_rounded(guess, is_open)
        direction = self._uphill(level, active)
        if direction is None:
            return False
        size = np.abs(direction).max()
        return any(
            self._check_rounded(guess + direction * (step / size), is_open) for step in TILTS
        )

    def _uphill(self, level: Indices, active: Mask) -> Array | None:
        """The shortest q with q . ray >= 1 for these rays (Lawson and Hanson 1974, chapter 23)."""
        from scipy.optimize import nnls

        m, d = self.program.system.m, self.program.system.d
        rays = (self.outputs.values[level] * active)[:, :, None] * self.outputs.weights.T[
            self.program.owner[level], None, :
        ]
        rays = rays.reshape(len(level), m * d)
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

    def _check_rounded(self, y: Array, is_open: Mask) -> bool:
        """The inequality above for the float64 numbers y as they are, with all roundings bounded."""
        from sublearn.matchers.relu._rounded import refutes

        out = self.outputs
        return bool(
            refutes(
                out.values, out.weights, out.targets, out.owner, out.vertex, out.tiny, is_open, y
            )
        )

    def _by_program(self, is_open: Mask) -> Array | None:
        """y with y' G >= 0 on the open columns and the smallest y' h, entries between -1 and 1."""
        from scipy.optimize import linprog

        matrix = self.program.matrix[:, is_open]
        found = linprog(
            self.program.right, A_ub=-matrix.T, b_ub=np.zeros(matrix.shape[1]), bounds=(-1.0, 1.0)
        )
        return np.asarray(found.x) if found.status == 0 and found.fun < -LEVEL else None

    def _guess(self, vector: Array) -> Array:
        """y as the simplex left it: (m, d), at most 1 in size."""
        d, m = self.program.system.d, self.program.system.m
        out: Array = vector[: d * m].reshape(m, d).copy()
        size = np.abs(out).max()
        if size > 0.0:  # else it rests on one unit alone, which has no vertex left
            out = out / size
        out[np.abs(out).max(axis=1) < SILENT] = 0.0
        return out

    def _level_rays(self, guess: Array, is_open: Mask) -> Indices | None:
        """Open rays that are level to rounding; None where one goes down."""
        from sublearn.matchers.relu._rounded import rises

        out = self.outputs
        rise, slack = np.empty(len(out.owner)), np.empty(len(out.owner))
        rises(out.values, out.weights, out.owner, guess, rise, slack, out.tiny)
        rays = is_open & ~out.vertex
        if (rise[rays] < -self.room[rays]).any():
            return None
        return np.flatnonzero(rays & (rise <= self.room))
