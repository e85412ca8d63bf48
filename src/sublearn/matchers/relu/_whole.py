"""Vectors in whole numbers for which given rays are exactly level, and their check (see ``_leaf.py``)."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sublearn._arrays import Array, Indices, Mask
from sublearn.matchers.relu._outputs import UNIT, Outputs
from sublearn.patterns._system import Rational

if TYPE_CHECKING:
    Array = Array

Whole = Any  # flint.fmpz; python-flint carries no types

NEARLY = 1e-7  # samples with y below this, whose size is 1, may be left out
DEPENDENT = 1e-9  # a ray this close to the span of others follows from them


class WholeVectors:
    """y with exactly level rays, from rounded ones, for the leaves of one program."""

    def __init__(self, outputs: Outputs) -> None:
        from flint import fmpz_mat

        self.outputs = outputs
        scale = _denominator([x for row in (*outputs.readout, *outputs.rest) for x in row])
        self.readout = [[(x * scale).p for x in row] for row in outputs.readout]
        self.columns = fmpz_mat(self.readout).transpose()
        self.rest = [[(x * scale).p for x in row] for row in outputs.rest]
        self._rays: dict[int, list[Whole]] = {}
        self._spaces: dict[tuple[int, ...], list[list[Whole]]] = {}

    def moved(self, guess: Array, level: Indices) -> list[list[Whole]] | None:
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

    def check(self, y: list[list[Whole]], is_open: Mask) -> bool:
        """The inequality of a leaf for these exact y_s, and that no ray goes down."""
        from flint import fmpz_mat

        owner, k = self.outputs.owner, self.outputs.k
        m = len(y)
        eta = (self.columns * fmpz_mat(y).transpose()).tolist()
        bits = max(_bits(line) for line in eta)
        if bits == 0:
            rounded = np.zeros((k, m))
        else:
            rounded = np.array([[int(x) / (1 << bits) for x in line] for line in eta])
        terms = self.outputs.values * rounded[owner]
        rise = terms.sum(axis=1)
        # One rounding in each factor, one in the product, the rest in the sum.
        slack = (m + 8) * UNIT * np.abs(terms).sum(axis=1) + self.outputs.tiny
        for j in np.flatnonzero(is_open & ~self.outputs.vertex & (rise < slack)).tolist():
            line = eta[int(owner[j])]
            if _dot(self._ray(j), line) < 0:
                return False
        lowest = self.outputs.lowest(rise - slack, is_open)
        left = sum(_dot([row[s] for row in self.rest], y[s]) for s in range(m))
        bound = float(lowest.sum()) - (k + 8) * UNIT * float(np.abs(lowest).sum())
        return bool(np.isfinite(bound)) and int(left) < Fraction(bound) * (1 << bits)

    def _flat(self, level: Indices, active: Mask) -> tuple[Mask, Indices]:
        """Pairs (unit, sample) whose eta must be 0, and the level rays that ask for more than that."""
        owner = self.outputs.owner
        flat = np.zeros((self.outputs.k, len(active)), dtype=np.bool_)
        left = level
        while True:
            asks = self.outputs.up[left] & active & ~flat[owner[left]]
            count = asks.sum(axis=1)
            single = count == 1
            if not single.any():
                return flat, left[count > 0]
            flat[owner[left[single]], asks[single].argmax(axis=1)] = True
            left = left[count > 1]

    def _space(self, units: Mask) -> list[list[Whole]]:
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
        flat: Mask,
        left: Indices,
    ) -> list[Whole] | None:
        """Coordinates in the spaces for which the rays ``left`` are level too."""
        from flint import fmpz_mat
        from scipy.linalg import qr

        owner = self.outputs.owner
        across = self.columns * fmpz_mat([spaces[s][c] for s, c in places]).transpose()
        slopes = {}
        for i in set(owner[left].tolist()):
            slopes[i] = [0 if flat[i, s] else across[i, c] for c, (s, _) in enumerate(places)]
        lines = []
        for j in left.tolist():  # a sample without a space has y_s = 0
            ray = self._ray(j)
            line = slopes[int(owner[j])]
            lines.append([ray[s] * x for (s, _), x in zip(places, line, strict=True)])
        lengths = [_bits(spaces[s][c]) for s, c in places]
        even = [1 << (max(lengths) - bits) for bits in lengths]
        rough = np.array([_shares([x * e for x, e in zip(r, even, strict=True)]) for r in lines])
        sizes, kept = qr(rough.T, mode="r", pivoting=True)
        count = int((np.abs(np.diagonal(sizes)) > DEPENDENT * abs(sizes[0, 0])).sum())
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

    def _ray(self, j: int) -> list[Whole]:
        """relu of a ray in whole numbers, at a length of its own."""
        if j not in self._rays:
            before = self.outputs.corners[j].before
            outputs = [x if x > 0 else 0 * x for x in before]
            scale = _denominator(outputs)
            self._rays[j] = _reduced([(x * scale).p for x in outputs])
        return self._rays[j]


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
