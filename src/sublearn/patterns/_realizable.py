"""Patterns that one row can have on the samples, whatever the other rows do."""

from __future__ import annotations

from math import comb

import numpy as np

from sublearn._arrays import Mask
from sublearn._errors import BadInputError, whole_number
from sublearn.ensembles import Instance
from sublearn.exact import Feasible, decide_program
from sublearn.patterns._shallow import learnable_rows
from sublearn.patterns._system import System, require_system

MOST_PATTERNS = 20_000


def realizable_patterns(instance: Instance, row: int) -> Mask:
    """The sign patterns of row ``row`` of W1 x over its learnable weights: one line per pattern.

    The pre-activations of unit i are z = c_i + sum_{j in J_i} w_j X_j: an affine subspace of R^m, cut by
    the m hyperplanes z_s = 0 into cells. A pattern is realizable if it is on where z > 0 and off where
    z < 0 for some z with no zero. For generic inputs there are sum_{j <= r_i} C(m, j) of them, and
    2 sum_{j < r_i} C(m - 1, j) where nothing of the row is frozen (Zaslavsky 1975). Sample by sample:
    each pattern of s samples is carried on with both signs, and kept where a linear program in
    rationals says so.

    >>> import sublearn as sl
    >>> problem = sl.Problem(sl.FeedForward((4, 3, 2), activation="relu"), samples=4)
    >>> held = sl.Allocation.from_entries(problem.network, {"W1": [(0, 0), (0, 1)]})
    >>> len(sl.patterns.realizable_patterns(sl.draw(problem, held), 0))
    11
    """
    system = require_system(instance)
    rows = learnable_rows(instance.allocation)
    if whole_number("row", row, least=0) not in rows:
        raise BadInputError(f"row must be one with learnable weights ({list(rows)}), not {row}.")
    most = sum(comb(instance.samples, j) for j in range(rows[row] + 1))
    if most > MOST_PATTERNS:
        raise BadInputError(f"row {row} can have {most} patterns, more than {MOST_PATTERNS}.")
    cells: list[list[bool]] = [[]]
    for _ in range(instance.samples):
        longer = [[*signs, on] for signs in cells for on in (False, True)]
        cells = [signs for signs in longer if _has_cell(system, list(rows).index(row), signs)]
    return np.array(sorted(cells), dtype=np.bool_)


def _has_cell(system: System, unit: int, signs: list[bool]) -> bool:
    """Whether sigma_s (x_s' w + c_s t) >= 1 has a solution with t >= 1: scaling makes it strict."""
    from flint import fmpq

    count, program = len(signs), []
    for s, on in enumerate(signs):
        sign = -1 if on else 1  # the equation is -sigma (..) + slack = -1
        weighed = [sign * system.inputs[j][s] for j in system.columns[unit]]
        shift = sign * system.frozen[unit][s]
        slack = [fmpq(int(s == t)) for t in range(count)]
        both_ways = [x for value in weighed for x in (value, -value)]
        program.append([*both_ways, shift, *slack, -1 - shift])
    width = len(program[0]) - 1
    basis = list(range(width - count, width))
    return isinstance(decide_program(program, [True] * width, basis), Feasible)
