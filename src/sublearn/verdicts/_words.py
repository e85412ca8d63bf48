"""A circuit in plain words."""

from __future__ import annotations

import numpy as np

from sublearn.allocations import Allocation
from sublearn.ensembles import Problem
from sublearn.verdicts._verdict import Circuit

_LISTED = 8  # weights that are named


def circuit_of(problem: Problem, weights: Allocation) -> Circuit:
    """Name the weights of a circuit and say what they share."""
    return Circuit(weights.entries, _words(problem, weights))


def _words(problem: Problem, weights: Allocation) -> str:
    size = len(weights)
    listed = _listed(weights)
    if size == 1:
        return f"{listed} does not change the outputs at all."
    start = f"{listed} change the outputs in only {size - 1} independent ways"
    if len(weights.names) > 1:
        return f"{start}: what any one of them does, the others can do."
    name = weights.names[0]
    bounds = problem.network.degree_bounds(name, problem.effective_samples)
    rows = np.flatnonzero(weights.row_counts(name))
    columns = np.flatnonzero(weights.column_counts(name))
    if rows.size == 1 and size > bounds.row:
        return (
            f"{start}: they share row {rows[0]}, and a row of {name} carries at most {bounds.row}."
        )
    if columns.size == 1 and bounds.column is not None and size > bounds.column:
        limit = bounds.column
        return f"{start}: they share column {columns[0]}, and a column of {name} carries at most {limit}."
    crossing = _crossing(weights, name)
    if crossing is not None:
        i, j = crossing
        return (
            f"{start}: row {i} and column {j} of {name} cross at ({i}, {j}), which is not learnable, "
            "and each of the two can do what it would do."
        )
    return f"{start}: what any one of them does, the others can do."


def _crossing(weights: Allocation, name: str) -> tuple[int, int] | None:
    """(i, j) if the weights lie in row i and column j, not at their crossing."""
    rows, columns = weights.row_counts(name), weights.column_counts(name)
    i, j = int(rows.argmax()), int(columns.argmax())
    crosses = not weights.mask(name)[i, j] and min(rows[i], columns[j])
    return (i, j) if crosses and rows[i] + columns[j] == len(weights) else None


def _listed(weights: Allocation) -> str:
    labels = [f"{name}({i}, {j})" for name, i, j in weights.labels()]
    if len(labels) == 1:
        return f"The weight {labels[0]}"
    more = ", ..." if len(labels) > _LISTED else ""
    return f"The {len(labels)} weights {', '.join(labels[:_LISTED])}{more}"
