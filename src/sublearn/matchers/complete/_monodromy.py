"""All complex solutions of one instance, by moving its targets around loops.

The solutions for all targets together form the graph of a polynomial map on affine space, which is
irreducible. So loops in the space of targets that avoid the branch points permute the solutions at the
base point transitively: from one solution they lead to every other. Only the targets move; the base
point is the instance itself, whose numbers are real, so the conjugate of a solution is one too.

Every end point is polished by Newton's method where it is used, so a path that jumps to another
solution does no harm. That no loop finds anything new proves nothing.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from sublearn._arrays import Array, Complex, Indices, Mask
from sublearn.ensembles import Instance
from sublearn.matchers.complete._states import lifted, track_states
from sublearn.matchers.complete._tracker import ARRIVED, SINGULAR
from sublearn.matchers.complete._weights import complex_chain, evaluate, polish, track, weight_room

MOST_STEPS = 2000
"""Steps after which a path is given up."""
FEW_STEPS = 600
"""Steps in the states after which a path is begun anew in the weights.

Where a row's weights are nearly undetermined by the states, the steps in the states become tiny.
"""

# Two points are one solution if they are closer than this, relative to their size, or than their
# own errors allow; and a point is a candidate for a real solution if its imaginary part is.
_SAME = 1e-9
_MARGIN = 100.0
_NEARLY_REAL = 1e-6


class Monodromy:
    """The solutions found so far at the base point, one of each conjugate pair, and the work done."""

    def __init__(self, instance: Instance, rng: np.random.Generator) -> None:
        self.chain, self.targets, divided = complex_chain(instance)
        self.room, self.states = weight_room(self.chain), lifted(instance, divided)
        self.rng = rng
        size, shapes = self.targets.size, instance.network.shapes
        widths = [shapes[name][1] for name, _, _ in instance.allocation.labels()]
        self.scale = 1.0 / np.sqrt(np.array(widths, dtype=np.float64))
        self.loudness = float(np.sqrt(np.mean(np.abs(self.targets) ** 2))) or 1.0
        self.points: Complex = np.empty((0, size), dtype=np.complex128)
        self.errors: Array = np.empty(0)
        self.nearly_real: Mask = np.empty(0, dtype=bool)
        self.paths = 0
        self.steps = 0

    @property
    def found(self) -> int:
        """How many solutions are known; a nearly real point counts once, any other with its conjugate."""
        return int(2 * len(self.points) - np.count_nonzero(self.nearly_real))

    def seed(self) -> int:
        """Move random complex weights and the targets they give to the base point; returns new ones."""
        gain = 10.0 ** self.rng.uniform(-0.3, 1.3)
        weights = gain * self.scale * self._normal(self.scale.size)
        values, _ = evaluate(self.chain, self.room, weights)
        return self._keep(*self._track(weights[None, :], values, self.targets))

    def loop(self, most: int) -> int:
        """Move at most ``most`` known solutions around a random triangle; returns new ones."""
        points = np.concatenate([self.points, self.points[~self.nearly_real].conj()])
        if len(points) > most:
            points = points[self.rng.permutation(len(points))[:most]]
        corners = [self.targets, self._elsewhere(), self._elsewhere(), self.targets]
        errors = np.empty(len(points))
        for begin, end in pairwise(corners):
            points, errors = self._track(points, begin, end)
        return self._keep(points, errors)

    def _normal(self, size: int) -> Complex:
        parts = self.rng.standard_normal((2, size))
        return np.asarray((parts[0] + 1j * parts[1]) / np.sqrt(2.0))

    def _elsewhere(self) -> Complex:
        """Random complex targets of very different sizes, in half of the cases entry by entry.

        Some solutions lie far away, where the targets are near those with a solution at infinity, and
        only loops of the right size lead to them.
        """
        size = self.targets.size
        scale = self.loudness * 10.0 ** self.rng.uniform(-2.0, 2.0)
        spread = 10.0 ** self.rng.uniform(-1.5, 1.5, size)
        uneven = self.rng.random() < 0.5
        return np.asarray(scale * (spread if uneven else 1.0) * self._normal(size))

    def _track(self, points: Complex, begin: Complex, end: Complex) -> tuple[Complex, Array]:
        if not len(points):
            return points, np.empty(0)
        moved = points.copy()
        status, left = np.full(len(points), SINGULAR), np.arange(len(points))
        if self.states is not None:
            moved, status, steps = track_states(self.states, points, begin, end, FEW_STEPS)
            self.steps += int(steps.sum())
            left = np.flatnonzero(status != ARRIVED)
        if left.size:
            moved[left], status[left], steps = track(
                self.chain, self.room, points[left], begin, end, MOST_STEPS
            )
            self.steps += int(steps.sum())
        moved, errors = polish(self.chain, self.room, moved, end)
        self.paths += len(points)
        good = (status == ARRIVED) & np.isfinite(errors) & np.isfinite(moved).all(axis=1)
        return moved[good], errors[good]

    def _keep(self, points: Complex, errors: Array) -> int:
        """Add what is new; returns how many solutions that makes more."""
        before = self.found
        for point, error in zip(points, errors, strict=True):
            size = float(np.abs(point).max())
            if not size or error > 1e-5:
                continue
            if len(self.points):
                gaps = np.minimum(
                    np.abs(self.points - point).max(axis=1),
                    np.abs(self.points - point.conj()).max(axis=1),
                )
                if (gaps <= size * np.maximum(_SAME, _MARGIN * (self.errors + error))).any():
                    continue
            self.points = np.concatenate([self.points, point[None, :]])
            self.errors = np.append(self.errors, error)
            imaginary = float(np.abs(point.imag).max())
            limit = size * max(_NEARLY_REAL, _MARGIN * float(error))
            self.nearly_real = np.append(self.nearly_real, imaginary <= limit)
        return self.found - before

    def is_pair(self, position: int) -> None:
        """Note that a nearly real point has been shown not to be real, so its conjugate is another."""
        self.nearly_real[position] = False

    def drop(self, positions: Indices) -> None:
        """Forget points that turned out to be the same solution as others."""
        self.points = np.delete(self.points, positions, axis=0)
        self.errors = np.delete(self.errors, positions)
        self.nearly_real = np.delete(self.nearly_real, positions)
