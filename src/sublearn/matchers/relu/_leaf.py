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

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sublearn.patterns._system import Rational, power_of_two, to_float

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sublearn.matchers.relu._program import Program

    Array = NDArray[np.float64]

Whole = Any  # flint.fmpz; python-flint carries no types

LEVEL = 1e-9  # a ray this close to level, as a share of what y of size 1 could do, is made level
SILENT = 1e-12  # samples with y below this are left out
NEARLY = 1e-7  # samples with y below this may be left out
TILTS = (1e-3, 1e-5, 1e-7, 1e-8)  # of y, whose size is 1
UNIT = 2.0**-53
TINY = 1e-290  # covers underflow


class LeafProofs:
    """Proofs for the leaves of one program whose units are all given by their corners."""

    def __init__(self, program: Program) -> None:
        from flint import fmpz_mat

        system = program.system
        self.program = program
        d, m = system.d, system.m
        rest = [[x * program.factor for x in row] for row in system.rest]
        scale = _denominator([x for row in (*system.readout, *rest) for x in row])
        self.readout = [[(x * scale).p for x in row] for row in system.readout]
        self.columns = fmpz_mat(self.readout).transpose()
        self.rest = [[(x * scale).p for x in row] for row in rest]
        self.targets = np.array([[to_float(x) for x in row] for row in rest])
        self.weights = np.array([[to_float(x) for x in row] for row in system.readout])
        self.outer = np.array([to_float(x) for x in program.row_scales[:d]])
        corners = [c for unit in program.units for c in unit.corners or []]
        self.vertex = np.array([corner.vertex for corner in corners])
        # Rays have any length, here about 1.
        self.outputs = np.zeros((len(corners), m))
        for j, corner in enumerate(corners):
            size = power_of_two(max(to_float(x) for x in corner.before))
            scale = program.factor if corner.vertex else size
            self.outputs[j] = [to_float(x * scale) if x > 0 else 0.0 for x in corner.before]
        self.up = self.outputs > 0.0
        reach = np.abs(self.weights).sum(axis=0)[program.owner]
        self.room = LEVEL * reach * self.outputs.sum(axis=1)
        self.corners = corners
        self._whole_rays: dict[int, list[Whole]] = {}
        self._spaces: dict[tuple[int, ...], list[list[Whole]]] = {}

    def proved(self, clause: NDArray[np.bool_], vector: Array) -> bool:
        """Whether no match satisfies the conditions of ``clause``, by a vector near this one.

        Where rounding spoilt the simplex's own vector, the one of a program of its own is tried.
        """
        is_open = ~self.program.held(clause)
        if self._proved_near(vector, is_open):
            return True
        other = self._by_program(is_open)
        return other is not None and self._proved_near(other, is_open)

    def _proved_near(self, vector: Array, is_open: NDArray[np.bool_]) -> bool:
        guess = self._guess(vector)
        level = self._level_rays(guess, is_open)
        if level is None:
            return False
        if self._proved_by_tilting(guess, level, is_open):
            return True
        exact = self._moved(guess, level)
        return exact is not None and self._check(exact, is_open)

    def _proved_by_tilting(
        self, guess: Array, level: NDArray[np.int64], is_open: NDArray[np.bool_]
    ) -> bool:
        """Whether some y a little off the guess passes the check in float64."""
        active = np.abs(guess).max(axis=1) > 0.0
        # On a sample that has no say every ray is level, exactly.
        level = level[(self.up[level] & active).any(axis=1)]
        if not level.size:
            return self._check_rounded(guess, is_open)
        direction = self._uphill(level, active)
        if direction is None:
            return False
        size = np.abs(direction).max()
        return any(
            self._check_rounded(guess + direction * (step / size), is_open) for step in TILTS
        )

    def _uphill(self, level: NDArray[np.int64], active: NDArray[np.bool_]) -> Array | None:
        """The shortest q with q . ray >= 1 for these rays (Lawson and Hanson 1974, chapter 23)."""
        from scipy.optimize import nnls

        m, d = self.program.system.m, self.program.system.d
        rays = (self.outputs[level] * active)[:, :, None] * self.weights.T[
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

    def _check_rounded(self, y: Array, is_open: NDArray[np.bool_]) -> bool:
        """The inequality above for the float64 numbers y as they are, with all roundings bounded."""
        system, owner = self.program.system, self.program.owner
        k, d, m = system.k, system.d, system.m
        rise = (self.outputs * (y @ self.weights).T[owner]).sum(axis=1)
        terms = (self.outputs * (np.abs(y) @ np.abs(self.weights)).T[owner]).sum(axis=1)
        slack = (m + d + 12) * UNIT * terms + np.where(terms > 0.0, TINY, 0.0)
        rays = is_open & ~self.vertex
        if (rise[rays] < slack[rays]).any():
            return False
        lowest = self._lowest(rise - slack, is_open)
        left = float((y.T * self.targets).sum())
        room = (
            (d * m + k + 12)
            * UNIT
            * (float((np.abs(y.T) * np.abs(self.targets)).sum()) + float(np.abs(lowest).sum()))
        )
        return bool(left + room + TINY < lowest.sum())

    def _lowest(self, values: Array, is_open: NDArray[np.bool_]) -> Array:
        """The least of a value over the open vertices of each unit; infinite where it has none."""
        out = np.full(self.program.system.k, np.inf)
        vertices = np.flatnonzero(is_open & self.vertex)
        np.minimum.at(out, self.program.owner[vertices], values[vertices])
        return out

    def _by_program(self, is_open: NDArray[np.bool_]) -> Array | None:
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
        out: Array = vector[: d * m].reshape(m, d) * self.outer
        size = np.abs(out).max()
        if size > 0.0:  # else it rests on one unit alone, which has no vertex left
            out = out / size
        out[np.abs(out).max(axis=1) < SILENT] = 0.0
        return out

    def _level_rays(self, guess: Array, is_open: NDArray[np.bool_]) -> NDArray[np.int64] | None:
        """Open rays that are level to rounding; None where one goes down."""
        owner = self.program.owner
        rise = (self.outputs * (guess @ self.weights).T[owner]).sum(axis=1)
        rays = is_open & ~self.vertex
        if (rise[rays] < -self.room[rays]).any():
            return None
        return np.flatnonzero(rays & (rise <= self.room))

    def _moved(self, guess: Array, level: NDArray[np.int64]) -> list[list[Whole]] | None:
        """Whole numbers y_s, near a multiple of the guess, for which these rays are exactly level."""
        sizes = np.abs(guess).max(axis=1)
        active = sizes > 0.0
        flat, left = self._flat(level, active)
        m, d = guess.shape
        spaces = [self._space(flat[:, s]) if active[s] else [] for s in range(m)]
        if any(sizes[s] > NEARLY and not spaces[s] for s in range(m)):
            return None
        places = [(s, c) for s in range(m) for c in range(len(spaces[s]))]
        out: list[list[Whole]] = [[0] * d for _ in range(m)]
        if not places:
            return out
        near = []
        for s in range(m):
            if spaces[s]:
                basis = np.array([_shares(vector) for vector in spaces[s]])
                near += np.linalg.lstsq(basis.T, guess[s], rcond=None)[0].tolist()
        if not np.isfinite(near).all():
            return None
        chosen = _whole_near(near, [spaces[s][c] for s, c in places])
        if left.size:
            solved = self._solved(chosen, places, spaces, flat, left)
            if solved is None:
                return None
            chosen = solved
        for value, (s, c) in zip(chosen, places, strict=True):
            if value != 0:
                out[s] = [x + value * v for x, v in zip(out[s], spaces[s][c], strict=True)]
        return out

    def _flat(
        self, level: NDArray[np.int64], active: NDArray[np.bool_]
    ) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Pairs (unit, sample) whose eta must be 0, and the level rays that ask for more than that."""
        owner = self.program.owner
        flat = np.zeros((self.program.system.k, len(active)), dtype=np.bool_)
        left = level
        while True:
            asks = self.up[left] & active & ~flat[owner[left]]
            count = asks.sum(axis=1)
            single = count == 1
            if not single.any():
                return flat, left[count > 0]
            flat[owner[left[single]], asks[single].argmax(axis=1)] = True
            left = left[count > 1]

    def _space(self, units: NDArray[np.bool_]) -> list[list[Whole]]:
        """A basis of the y_s that are orthogonal to the columns w_i of these units."""
        from flint import fmpz, fmpz_mat

        key = tuple(np.flatnonzero(units).tolist())
        if key not in self._spaces:
            d = len(self.readout)
            if not key:
                found = [[fmpz(int(o == c)) for o in range(d)] for c in range(d)]
            else:
                kernel, rank = fmpz_mat([[row[i] for row in self.readout] for i in key]).nullspace()
                found = [[kernel[o, c] for o in range(d)] for c in range(rank)]
            self._spaces[key] = [_reduced(vector) for vector in found]
        return self._spaces[key]

    def _solved(
        self,
        near: list[Whole],
        places: list[tuple[int, int]],
        spaces: list[list[list[Whole]]],
        flat: NDArray[np.bool_],
        left: NDArray[np.int64],
    ) -> list[Whole] | None:
        """Coordinates in the spaces for which the rays ``left`` are level too."""
        from flint import fmpz_mat
        from scipy.linalg import qr

        owner = self.program.owner
        across = self.columns * fmpz_mat([spaces[s][c] for s, c in places]).transpose()
        slopes = {}
        for i in set(owner[left].tolist()):
            slopes[i] = [0 if flat[i, s] else across[i, c] for c, (s, _) in enumerate(places)]
        lines = []
        for j in left.tolist():  # a sample without a space has y_s = 0
            ray = self._whole_ray(j)
            line = slopes[int(owner[j])]
            lines.append([ray[s] * x for (s, _), x in zip(places, line, strict=True)])
        lengths = [_bits(spaces[s][c]) for s, c in places]
        even = [1 << (max(lengths) - bits) for bits in lengths]
        rough = np.array([_shares([x * e for x, e in zip(r, even, strict=True)]) for r in lines])
        sizes, kept = qr(rough.T, mode="r", pivoting=True)
        count = int((np.abs(np.diagonal(sizes)) > LEVEL * abs(sizes[0, 0])).sum())
        # The others follow from these, or the check will say so.
        lines, rough = [lines[r] for r in kept[:count]], rough[kept[:count]]
        order = qr(rough, mode="r", pivoting=True)[1].tolist()
        reduced, scale, rank = fmpz_mat([[line[c] for c in order] for line in lines]).rref()
        if rank == len(places):
            return None
        pivots = []
        for r in range(rank):
            pivots.append(next(c for c in range(len(order)) if reduced[r, c] != 0))
        free = [c for c in range(len(order)) if c not in pivots]
        out: list[Whole] = [0] * len(places)
        for c in free:
            out[order[c]] = near[order[c]] * scale
        for r, pivot in enumerate(pivots):
            total = 0
            for c in free:
                total -= reduced[r, c] * near[order[c]]
            out[order[pivot]] = total
        if scale < 0:
            out = [-x for x in out]
        return out

    def _check(self, y: list[list[Whole]], is_open: NDArray[np.bool_]) -> bool:
        """The inequality above for these exact y_s, and that no ray goes down."""
        from flint import fmpz_mat

        system, owner = self.program.system, self.program.owner
        k, m = system.k, system.m
        eta = (self.columns * fmpz_mat(y).transpose()).tolist()
        bits = max(_bits(line) for line in eta)
        if bits == 0:
            rounded = np.zeros((k, m))
        else:
            rounded = np.array([[int(x) / (1 << bits) for x in line] for line in eta])
        terms = self.outputs * rounded[owner]
        rise = terms.sum(axis=1)
        # One rounding in each factor, one in the product, the rest in the sum.
        slack = (m + 8) * UNIT * np.abs(terms).sum(axis=1) + TINY
        for j in np.flatnonzero(is_open & ~self.vertex & (rise < slack)).tolist():
            line = eta[int(owner[j])]
            if _dot(self._whole_ray(j), line) < 0:
                return False
        lowest = self._lowest(rise - slack, is_open)
        if np.isinf(lowest).any():
            return True  # a unit has no vertex on these sides, so no pre-activations either
        left = sum(_dot([row[s] for row in self.rest], y[s]) for s in range(m))
        bound = float(lowest.sum()) - (k + 8) * UNIT * float(np.abs(lowest).sum())
        return bool(np.isfinite(bound)) and int(left) < Fraction(bound) * (1 << bits)

    def _whole_ray(self, j: int) -> list[Whole]:
        """relu of a ray in whole numbers, at a length of its own."""
        if j not in self._whole_rays:
            before = self.corners[j].before
            outputs = [x if x > 0 else 0 * x for x in before]
            scale = _denominator(outputs)
            self._whole_rays[j] = _reduced([(x * scale).p for x in outputs])
        return self._whole_rays[j]


def _dot(left: list[Whole], right: list[Whole]) -> Whole:
    return sum(a * b for a, b in zip(left, right, strict=True))


def _denominator(values: list[Rational]) -> Whole:
    """The smallest positive whole number that makes all of them whole."""
    from flint import fmpz

    out = fmpz(1)
    for x in values:
        out = out.lcm(x.q)
    return out


def _reduced(vector: list[Whole]) -> list[Whole]:
    """The same direction in the smallest whole numbers."""
    from flint import fmpz

    common = fmpz(0)
    for x in vector:
        common = common.gcd(x)
    return [x // common for x in vector] if common > 1 else vector


def _bits(vector: list[Whole]) -> int:
    return max(abs(int(x)).bit_length() for x in vector)


def _shares(vector: list[Whole]) -> list[float]:
    """The vector in float64, divided by a power of 2 so that it is of size 1."""
    size = 1 << _bits(vector)
    return [int(x) / size for x in vector]


def _whole_near(values: list[float], vectors: list[list[Whole]]) -> list[Whole]:
    """Whole coordinates proportional to ``values``, which belong to the vectors as shares."""
    from flint import fmpz

    bits = [_bits(vector) for vector in vectors]
    most = max(bits)
    size = max(abs(x) for x in values) or 1.0
    return [
        fmpz(int(x / size * 2.0**60)) * (fmpz(1) << (most - b))
        for x, b in zip(values, bits, strict=True)
    ]
