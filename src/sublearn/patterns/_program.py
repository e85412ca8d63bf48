"""The linear program behind branching: every unit as a mixture of the corners of its own cells.

The pre-activations of unit i fill an affine space of dimension rho, cut by the hyperplanes z_s = 0 into
cells. On a cell relu is linear, and a cell is the convex hull of its vertices plus the cone of its rays
(Minkowski and Weyl; no cell contains a line, because the z_s together determine the weights). So with
the vertices and rays z_j of all cells, and a_j = relu(z_j),

    sum_ij lambda_ij w_i a_j,s = R_s for every sample s,     sum over i's vertices of lambda_ij = 1,

with lambda >= 0 holds for every match, and a solution is a match if no unit mixes two sides of a
hyperplane. To put unit i on one side of z_s = 0 is to hold the generators of the other side at 0. What
is relaxed is only the mixing: this is the smallest convex set that holds a unit's outputs, while the
equations of ``_system.py`` leave every output of a unit free to grow.

A unit with too many vertices (they grow as C(m, rho)) stays in those coordinates: its columns are the rays
a_is and u_is, which stand for 1 and -1 on sample s, with the equations N_i (a_i - u_i) = N_i c_i in the
place of the sum. Both kinds of column belong to one unit and stand on one side of every hyperplane,
which is all that branching asks.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np

from sublearn._arrays import Array, Indices, Mask
from sublearn.exact import Rational, Table, leading, orthogonal, power_of_two, to_float, to_floats
from sublearn.patterns._system import System

SMALLEST, LARGEST = 2.0**-900, 2.0**900  # outside, rounding to float64 has no relative bound
MOST_CORNERS = 250  # of one unit
MOST_NUMBERS = 12_000_000  # of all tableaux on the way down to a leaf, 8 bytes each


@dataclass(frozen=True)
class Corner:
    """A vertex or a ray of a unit's cells, as its pre-activations."""

    before: list[Rational]
    vertex: bool


@dataclass(frozen=True, eq=False)
class Unit:
    """The columns of one unit: its corners, or where ``normals`` N_i is given 2 m coordinates."""

    corners: list[Corner]
    normals: list[dict[int, Rational]] | None = None


class Columns(NamedTuple):
    """The numbers of a program: G and h, and for each column of G its unit and its pre-activations."""

    matrix: Array
    right: Array
    owner: Indices
    sides: Array  # (columns, m)
    influence: Array  # (k,): the lengths of the units' columns of W2; see :func:`_together`


@dataclass(frozen=True, eq=False)
class Program:
    """G v = h, v >= 0: ``exact`` has the rows of G, each with its entry of h behind.

    ``columns`` are the same numbers rounded once. Column j stands for pre-activations, in the scale of
    v; equations s d + o belong to sample s and output o, then come those of the units. ``usable`` is
    False where float64 does not hold the numbers.
    """

    system: System
    units: list[Unit]
    exact: Table
    columns: Columns
    vertex: Mask
    column_scales: list[Rational]
    row_scales: list[Rational]  # of the equations of each output
    factor: Rational  # v is in the scale of the targets times this
    usable: bool

    @property
    def by_corners(self) -> bool:
        """Whether every unit is given by its corners, but for free ones: their rays are all they have."""
        given = self.units[: self.system.k - self.system.free]
        return all(unit.normals is None for unit in given)

    def held(self, clause: Mask) -> Mask:
        """The columns that these conditions hold at 0; p: unit p // m is off on p % m, pairs + p: on."""
        off, on = clause.reshape(2, self.system.k, self.system.m)[:, self.columns.owner]
        sides = self.columns.sides
        return np.asarray(((off & (sides > 0.0)) | (on & (sides < 0.0))).any(axis=1))

    def pattern(self, values: dict[int, Rational]) -> Mask | None:
        """The pattern of a solution, or None where some unit mixes two sides of a hyperplane."""
        used = np.zeros((2, self.system.k, self.system.m), dtype=np.bool_)
        for j, value in values.items():
            if value != 0:
                used[0, self.columns.owner[j]] |= self.columns.sides[j] > 0
                used[1, self.columns.owner[j]] |= self.columns.sides[j] < 0
        return None if (used[0] & used[1]).any() else used[0]


def build_program(system: System, units: list[Unit] | None = None) -> Program:
    """The program of a system, with as many units by their corners as its size allows."""
    from flint import fmpq

    units = choose_units(system) if units is None else units
    d, m = system.d, system.m
    outer = [power_of_two(max(abs(to_float(x)) for x in row)) for row in system.readout]
    readout, rest, lower = (
        None
        if table is None
        else [[x * scale for x in row] for row, scale in zip(table, outer, strict=True)]
        for table in (system.readout, system.rest, system.lower)
    )
    assert readout is not None and rest is not None
    factor = power_of_two(max(abs(to_float(x)) for row in rest for x in row))
    owner = np.repeat(np.arange(len(units)), [len(unit.corners) for unit in units])
    zero, one = fmpq(0), fmpq(1)
    exact = [[zero] * (len(owner) + 1) for _ in range(d * m)]
    for s in range(m):
        for o in range(d):
            exact[s * d + o][-1] = rest[o][s] * factor
    column_scales: list[Rational] = []
    sides: Table = []
    for i, unit in enumerate(units):
        weights = [line[i] for line in readout]
        most, first = max(abs(to_float(x)) for x in weights), len(sides)
        for corner in unit.corners:
            scale = 1 / factor
            if unit.normals is None:
                # Rays have no length of their own; far vertices would drown the others.
                top = max(to_float(x * factor) for x in corner.before)
                scale = power_of_two(max(most * top, float(corner.vertex)))
            before = [x * factor * scale for x in corner.before]
            for s, x in enumerate(before):
                if x > 0:
                    for o in range(d):
                        exact[s * d + o][len(sides)] = weights[o] * x
                elif x < 0 and lower is not None:
                    for o in range(d):
                        exact[s * d + o][len(sides)] = lower[o][i] * -x
            sides.append(before)
            column_scales.append(scale)
        mine = range(first, len(sides))
        if unit.normals is None:
            exact.append([zero] * len(owner) + [one])
            for j in mine:
                exact[-1][j] = column_scales[j] if unit.corners[j - first].vertex else zero
        for normal in unit.normals or []:
            scale = power_of_two(max(abs(to_float(x)) for x in normal.values()))
            right = sum(x * system.frozen[i][s] for s, x in normal.items()) * scale * factor
            exact.append([zero] * len(owner) + [right])
            for j in mine:
                exact[-1][j] = sum(x * sides[j][s] for s, x in normal.items()) * scale
    numbers, rounded_sides = to_floats(exact), to_floats(sides)
    columns = Columns(
        np.ascontiguousarray(numbers[:, :-1]),
        np.ascontiguousarray(numbers[:, -1]),
        owner,
        rounded_sides,
        np.linalg.norm(_together(readout, lower), axis=0),
    )
    usable = _is_held(exact, numbers) and _is_held(sides, rounded_sides)
    vertex = np.array([corner.vertex for unit in units for corner in unit.corners])
    return Program(system, units, exact, columns, vertex, column_scales, outer, factor, usable)


def _together(readout: Table, lower: Table | None) -> Array:
    """What one more of both a_is and u_is, the mark of a mixture, changes in the equations."""
    if lower is None:
        return to_floats(readout)
    pairs = zip(readout, lower, strict=True)
    return to_floats([[x + y for x, y in zip(*pair, strict=True)] for pair in pairs])


def _is_held(exact: Table, rounded: Array) -> bool:
    """Whether float64 holds the numbers, each with a relative error of one rounding."""
    sizes = np.abs(rounded)
    filled = np.array([[x != 0 for x in row] for row in exact])
    return bool(((sizes < LARGEST) & ((sizes >= SMALLEST) == filled)).all())


def choose_units(system: System) -> list[Unit]:
    """Corners where they are few, the cheapest units first, until the tableaux are full."""
    k, d, m = system.k, system.d, system.m
    bases = [_span(system, i) for i in range(k)]
    # The most corners of each: vertices, and rays both ways.
    counts = [comb(m, rho) + (2 * comb(m, rho - 1) if rho else 0) for rho in map(len, bases)]
    columns, rows = 2 * system.pairs, d * m + sum(m - len(basis) for basis in bases)
    chosen = set()
    for i in sorted(range(k - system.free), key=lambda i: counts[i]):
        columns += counts[i] - 2 * m
        rows += 1 - (m - len(bases[i]))
        if counts[i] > MOST_CORNERS or (columns + rows + 1) * rows * system.pairs > MOST_NUMBERS:
            break
        chosen.add(i)
    return [
        Unit(_corners(bases[i], system.frozen[i])) if i in chosen else coordinates(system, i)
        for i in range(k)
    ]


def coordinates(system: System, i: int) -> Unit:
    """a_is for every sample s, then u_is."""
    from flint import fmpq

    m = system.m
    rays = [
        Corner([fmpq(sign * (s == t)) for t in range(m)], False)
        for sign in (1, -1)
        for s in range(m)
    ]
    if i >= system.k - system.free:
        return Unit(rays, [])
    return Unit(rays, orthogonal([system.inputs[j] for j in system.columns[i]]))


def _span(system: System, i: int) -> Table:
    """Input rows that unit i may weigh, without those that the others before them span."""
    from flint import fmpq, fmpq_mat

    if i >= system.k - system.free:
        return [[fmpq(int(s == t)) for t in range(system.m)] for s in range(system.m)]
    rows = [system.inputs[j] for j in system.columns[i]]
    reduced, rank = fmpq_mat([list(column) for column in zip(*rows, strict=True)]).rref()
    return [rows[c] for c in leading(reduced.tolist()[:rank])]


def _corners(basis: Table, frozen: list[Rational]) -> list[Corner]:
    """All vertices and all rays of the cells of c + span(basis), each once."""
    from flint import fmpq, fmpq_mat

    rho, m = len(basis), len(frozen)
    if rho == 0:
        return [Corner(list(frozen), True)]
    slopes = [[line[s] for line in basis] for s in range(m)]
    space = fmpq_mat(slopes)
    out: list[Corner] = []
    known: list[set[int]] = []

    def keep(before: list[Rational], vertex: bool) -> None:
        out.append(Corner(before, vertex))
        known.append({s for s, x in enumerate(before) if x == 0})

    for tight in combinations(range(m), rho):
        if any(zeros.issuperset(tight) for zeros in known):
            continue
        try:
            weights = fmpq_mat([slopes[s] for s in tight]).solve(
                fmpq_mat([[-frozen[s]] for s in tight])
            )
        except ZeroDivisionError:
            continue
        moved = (space * weights).tolist()
        keep([line[0] + c for line, c in zip(moved, frozen, strict=True)], True)
    known.clear()
    for tight in combinations(range(m), rho - 1):
        if any(zeros.issuperset(tight) for zeros in known):
            continue
        free, along = 0, [fmpq(0)] * rho
        if tight:
            reduced, rank = fmpq_mat([slopes[s] for s in tight]).rref()
            if rank < rho - 1:
                continue
            lines = reduced.tolist()
            pivots = leading(lines)
            free = next(c for c in range(rho) if c not in pivots)
            for pivot, line in zip(pivots, lines, strict=True):
                along[pivot] = -line[free]
        along[free] = fmpq(1)
        ray = [line[0] for line in (space * fmpq_mat([[x] for x in along])).tolist()]
        for before in (ray, [-x for x in ray]):
            # A ray along which every output stays 0 changes nothing.
            if any(x > 0 for x in before):
                keep(before, False)
    return out
