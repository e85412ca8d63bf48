"""Lemma D.2: whether some learnable weights match the targets with a given pattern, without rounding."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from sublearn._arrays import Array, Mask
from sublearn._errors import BadInputError
from sublearn.ensembles import Instance
from sublearn.exact import (
    INFEASIBLE,
    Feasible,
    Infeasible,
    Rational,
    decide_program,
    leading,
    separates,
    solve_table,
    start_table,
    to_float,
)
from sublearn.patterns._pattern import as_pattern
from sublearn.patterns._program import Program, build_program, coordinates
from sublearn.patterns._shallow import learnable_rows
from sublearn.patterns._system import System, require_system


@dataclass(frozen=True, eq=False, repr=False)
class PatternFeasibility:
    """Whether a pattern is feasible, by proof; with learnable ``values`` (rounded) where it is."""

    feasible: bool
    values: Array | None = None

    def __bool__(self) -> bool:
        return self.feasible

    def __repr__(self) -> str:
        return f"<PatternFeasibility {'feasible' if self.feasible else 'infeasible'} (proof)>"


def pattern_feasible(instance: Instance, pattern: ArrayLike) -> PatternFeasibility:
    """Lemma D.2 for one pattern P (rows: the k units with learnable weights, in order).

    Feasible if some learnable weights solve W2^1 P_s W1^1 x_s = y_s - W2^2 relu(W1^2 x_s) with
    (2 P_s - I) W1^1 x_s >= 0 for every sample s. A linear program, decided in rational arithmetic: the
    answer is a proof about the instance's float64 numbers.

    >>> import sublearn as sl
    >>> net = sl.FeedForward((1, 2, 1), activation="relu")
    >>> held = sl.Allocation.from_entries(net, {"W1": [(0, 0)]})
    >>> given = sl.Instance(net, held, {"W1": [[0], [1]], "W2": [[2, 1]]}, [[1.0]], [[5.0]])
    >>> found = sl.patterns.pattern_feasible(given, [[1]])
    >>> found, found.values.tolist(), sl.patterns.pattern_feasible(given, [[0]]).feasible
    (<PatternFeasibility feasible (proof)>, [2.0], False)
    """
    system = require_system(instance)
    rows = learnable_rows(instance.allocation)
    signs = as_pattern(pattern, (len(rows), instance.samples))
    answer = decide_pattern(system, signs)
    if answer is None:
        raise BadInputError("the numbers of the instance are too far apart for the exact program.")
    if isinstance(answer, Infeasible):
        return PatternFeasibility(False)
    return PatternFeasibility(True, rounded_weights(system, answer.values))


def decide_pattern(system: System, pattern: Mask) -> Feasible | Infeasible | None:
    """The program of one pattern: a float64 simplex finds the basis, rationals decide."""
    program, on = in_coordinates(system), pattern.reshape(system.k, system.m)
    is_open = np.stack([on, ~on], axis=1).reshape(-1)
    if not program.usable:
        return decide_program(program.exact, is_open)
    matrix, right = program.columns.matrix, program.columns.right
    rows, size = matrix.shape
    table, basis, out = np.empty((rows, size + rows + 1)), np.empty(rows, np.int64), np.zeros(4)
    start_table(matrix, right, table, basis)
    solve_table(table, basis, np.ones(size), is_open, 50 * rows + 200, out)
    if out[0] == INFEASIBLE:
        vector = out[2] * table[int(out[1]), size : size + rows]
        if separates(program.exact, matrix, vector, is_open):
            return Infeasible()
    return decide_program(program.exact, is_open, basis.tolist())


@lru_cache(maxsize=4)
def in_coordinates(system: System) -> Program:
    """G v = h in the coordinates a_i and u_i, unit by unit: m columns a_is, then m columns u_is."""
    return build_program(system, [coordinates(system, i) for i in range(system.k)])


def rounded_weights(system: System, values: dict[int, Rational]) -> Array:
    """The learnable weights, in the order of the labels, of a solution (a, u), each rounded once.

    X_J' w_i = a_i - u_i - c_i has a solution because the right side is orthogonal to N_i; where it has
    several, the weights that are not needed are 0.
    """
    from flint import fmpq, fmpq_mat

    out = [fmpq(0)] * system.size
    zero, m, factor = fmpq(0), system.m, in_coordinates(system).factor
    for i in range(system.k - system.free):
        columns = system.columns[i]
        lines = []
        for s in range(m):
            a_is, u_is = 2 * i * m + s, (2 * i + 1) * m + s
            want = (values.get(a_is, zero) - values.get(u_is, zero)) / factor
            lines.append([system.inputs[j][s] for j in columns] + [want - system.frozen[i][s]])
        reduced, rank = fmpq_mat(lines).rref()
        pivoted = reduced.tolist()[:rank]
        for pivot, line in zip(leading(pivoted), pivoted, strict=True):
            assert pivot < len(columns), "a_i - u_i lies in c_i + V_i"
            out[system.places[i][pivot]] = line[-1]
    return np.array([to_float(x) for x in out])
