"""The linear program behind branching: every unit as a mixture of the corners of its own cells.

The pre-activations of unit i fill an affine space of dimension rho, cut by the hyperplanes z_s = 0 into
cells. On a cell relu is linear, and a cell is the convex hull of its vertices plus the cone of its rays
(Minkowski and Weyl; no cell contains a line, because the z_s together determine the weights). So with
the vertices and rays z_j of all cells, and a_j = relu(z_j),

    sum_ij lambda_ij w_i a_j,s = R_s for every sample s,     sum over i's vertices of lambda_ij = 1,

with lambda >= 0 holds for every match, and a solution is a match if no unit mixes two sides of a
hyperplane. To put unit i on one side of z_s = 0 is to hold the generators of the other side at 0. What
is relaxed is only the mixing: this is the smallest convex set that holds a unit's outputs, while the
equations of ``patterns/_system.py`` leave every output of a unit free to grow.

A unit with too many vertices (they grow as C(m, rho)) stays in those coordinates: columns a_is and u_is
with the equations N_i (a_i - u_i) = N_i c_i. Both kinds of column belong to one unit and stand on one
side of every hyperplane, which is all that branching asks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from sublearn._arrays import Array, Indices, Mask
from sublearn.patterns._system import (
    LARGEST,
    SMALLEST,
    Rational,
    System,
    Table,
    orthogonal,
    power_of_two,
    to_float,
)

if TYPE_CHECKING:
    Array = Array

MOST_CORNERS = 250  # of one unit
MOST_NUMBERS = 12_000_000  # of all tableaux on the way down to a leaf, 8 bytes each


@dataclass(frozen=True)
class Corner:
    """A vertex or a ray of a unit's cells, as its pre-activations."""

    before: list[Rational]
    vertex: bool


@dataclass(frozen=True, eq=False)
class Unit:
    """The columns of one unit: its corners, or where ``corners`` is None 2 m coordinates."""

    corners: list[Corner] | None
    normals: list[dict[int, Rational]]

    def width(self, m: int) -> int:
        return 2 * m if self.corners is None else len(self.corners)

    def equations(self) -> int:
        return len(self.normals) if self.corners is None else 1


@dataclass(frozen=True, eq=False)
class Program:
    """G v = h, v >= 0, rounded; ``exact`` has the rows of G, each with its entry of h behind.

    Column j belongs to unit ``owner[j]`` and stands for the pre-activations ``sides[j]`` (rounded, in
    the scale of v). ``partner[j]`` is the column that has the opposite normals, or -1. Equations
    s d + o belong to sample s and output o; then come those of the units.
    """

    system: System
    units: list[Unit]
    matrix: Array
    right: Array
    owner: Indices
    sides: Array
    partner: Indices
    influence: Array  # (k,): lengths of the columns w_i
    column_scales: list[Rational]
    row_scales: list[Rational]
    factor: Rational  # v is in the scale of the targets times this
    usable: bool

    @cached_property
    def exact(self) -> Table:
        """The same numbers without rounding: asked for only where float64 proves nothing."""
        return _exact(self)

    @property
    def by_corners(self) -> bool:
        """Whether every unit is given by its corners."""
        return all(unit.corners is not None for unit in self.units)

    def held(self, literals: Mask) -> Mask:
        """The columns that these conditions hold at 0; p: unit p // m is off on p % m, pairs + p: on."""
        from sublearn.matchers.relu._rounded import held_columns

        return np.asarray(held_columns(self.owner, self.sides, literals))

    def pattern(self, values: dict[int, Rational]) -> Mask | None:
        """The pattern of a solution, or None where some unit mixes two sides of a hyperplane."""
        used = np.zeros((2, self.system.k, self.system.m), dtype=np.bool_)
        for j, value in values.items():
            if value != 0:
                used[0, self.owner[j]] |= self.sides[j] > 0
                used[1, self.owner[j]] |= self.sides[j] < 0
        return None if (used[0] & used[1]).any() else used[0]


def build_program(system: System, units: list[Unit] | None = None) -> Program:
    """The program of a system, with as many units by their corners as its size allows."""
    units = choose_units(system) if units is None else units
    d, k, m = system.d, system.k, system.m
    sizes = [unit.width(m) for unit in units]
    rows, columns = d * m + sum(unit.equations() for unit in units), sum(sizes)
    matrix, right = np.zeros((rows, columns)), np.zeros(rows)
    sides = np.zeros((columns, m))
    partner = np.full(columns, -1)
    owner = np.repeat(np.arange(k), sizes)
    column_scales: list[Rational] = []
    outer = [power_of_two(max(abs(to_float(x)) for x in row)) for row in system.readout]
    largest = max(
        abs(to_float(x * scale)) for row, scale in zip(system.rest, outer, strict=True) for x in row
    )
    factor = power_of_two(largest)
    row_scales = outer * m
    readout = np.array(
        [[_kept(x * scale) for x in row] for row, scale in zip(system.readout, outer, strict=True)]
    )
    for s in range(m):
        for o in range(d):
            right[s * d + o] = _kept(system.rest[o][s] * outer[o] * factor)
    lost = False
    row, column = d * m, 0
    for i, held in enumerate(units):
        width = held.width(m)
        if held.corners is None:
            for s in range(m):
                matrix[s * d : (s + 1) * d, column + s] = readout[:, i]
            sides[column : column + m] = np.eye(m)
            sides[column + m : column + width] = -np.eye(m)
            partner[column : column + width] = column + (np.arange(width) + m) % width
            column_scales += [power_of_two(0.0)] * width
            for normal in held.normals:
                scale = power_of_two(max(abs(to_float(x)) for x in normal.values()))
                row_scales.append(scale)
                for s, x in normal.items():
                    matrix[row, column + s] = _kept(x * scale)
                    matrix[row, column + m + s] = -matrix[row, column + s]
                total = sum(x * system.frozen[i][s] for s, x in normal.items())
                right[row] = _kept(total * scale * factor)
                row += 1
        else:
            most = float(np.abs(readout[:, i]).max())
            for c, corner in enumerate(held.corners, start=column):
                before = np.array([_kept(x * factor) for x in corner.before])
                # Rays have no length of their own; far vertices would drown the others.
                scale = power_of_two(max(most * float(before.max()), float(corner.vertex)))
                size = to_float(scale)
                sides[c] = before * size
                entries = np.outer(np.maximum(sides[c], 0.0), readout[:, i])
                lost |= bool(
                    ((entries == 0.0) & (sides[c] > 0.0)[:, None] & (readout[:, i] != 0.0)).any()
                )
                matrix[: d * m, c] = entries.ravel()
                matrix[row, c] = size if corner.vertex else 0.0
                column_scales.append(scale)
            right[row] = 1.0
            row_scales.append(power_of_two(0.0))
            row += 1
        column += width
    usable = all(_usable(numbers) for numbers in (matrix, right, sides))
    usable = usable and not lost and _faithful(units, sides)
    return Program(
        system,
        units,
        matrix,
        right,
        owner,
        sides,
        partner,
        np.linalg.norm(readout, axis=0),
        column_scales,
        row_scales,
        factor,
        usable,
    )


def _kept(value: Rational) -> float:
    """The nearest float64; nan, which is never usable, for what is not 0 but would become 0."""
    out = to_float(value)
    return out if out != 0.0 or value == 0 else float("nan")


def _usable(values: Array) -> bool:
    """Whether float64 holds the numbers with a relative error."""
    sizes = np.abs(values)
    return bool(
        np.isfinite(values).all() and not ((sizes > 0) & (sizes < SMALLEST)).any()
    ) and bool((sizes < LARGEST).all())


def _faithful(units: list[Unit], sides: Array) -> bool:
    """Whether every corner stands on its own side of every hyperplane after rounding too."""
    column = 0
    for unit in units:
        if unit.corners is None:
            column += 2 * sides.shape[1]
            continue
        for corner in unit.corners:
            for x, rounded in zip(corner.before, sides[column], strict=True):
                if (x > 0) != (rounded > 0) or (x < 0) != (rounded < 0):
                    return False
            column += 1
    return True


def choose_units(system: System) -> list[Unit]:
    """Corners where they are few, the cheapest units first, until the tableaux are full."""
    k, d, m = system.k, system.d, system.m
    bases = [_span(system, i) for i in range(k)]
    counts = [_most_corners(m, len(basis)) for basis in bases]
    columns, rows = 2 * system.pairs, d * m + sum(m - len(basis) for basis in bases)
    chosen = set()
    for i in sorted(range(k), key=lambda i: counts[i]):
        columns += counts[i] - 2 * m
        rows += 1 - (m - len(bases[i]))
        if counts[i] > MOST_CORNERS or (columns + rows + 1) * rows * system.pairs > MOST_NUMBERS:
            break
        chosen.add(i)
    units = []
    for i in range(k):
        if i in chosen:
            units.append(Unit(_corners(bases[i], system.frozen[i]), []))
        else:
            units.append(Unit(None, orthogonal([system.inputs[j] for j in system.columns[i]])))
    return units


def _most_corners(m: int, rho: int) -> int:
    return comb(m, rho) + (2 * comb(m, rho - 1) if rho else 0)


def _span(system: System, i: int) -> Table:
    """Input rows that unit i may weigh, without those that the others before them span."""
    from flint import fmpq_mat

    rows = [system.inputs[j] for j in system.columns[i]]
    reduced, rank = fmpq_mat([list(column) for column in zip(*rows, strict=True)]).rref()
    lines = reduced.tolist()[:rank]
    return [rows[next(c for c in range(len(rows)) if line[c] != 0)] for line in lines]


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
            pivots = [next(c for c in range(rho) if line[c] != 0) for line in lines]
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


def _exact(program: Program) -> Table:
    from flint import fmpq

    system = program.system
    d, m = system.d, system.m
    zero, columns = fmpq(0), len(program.column_scales)
    out = [[zero] * (columns + 1) for _ in program.row_scales]
    for s in range(m):
        for o in range(d):
            out[s * d + o][-1] = system.rest[o][s] * program.factor
    row, column = d * m, 0
    for i, held in enumerate(program.units):
        weights = [line[i] for line in system.readout]
        if held.corners is None:
            for s in range(m):
                for o in range(d):
                    out[s * d + o][column + s] = weights[o]
            for normal in held.normals:
                for s, x in normal.items():
                    out[row][column + s], out[row][column + m + s] = x, -x
                    out[row][-1] += x * system.frozen[i][s] * program.factor
                row += 1
        else:
            for c, corner in enumerate(held.corners, start=column):
                scale = program.column_scales[c]
                for s, x in enumerate(corner.before):
                    if x > 0:
                        for o in range(d):
                            out[s * d + o][c] = weights[o] * x * scale * program.factor
                if corner.vertex:
                    out[row][c] = scale
            out[row][-1] = fmpq(1)
            row += 1
        column += held.width(m)
    return [
        [x * scale if x != 0 else x for x in line]
        for line, scale in zip(out, program.row_scales, strict=True)
    ]
