"""Allocations of the recurrent matrix with saturated rows or columns, best score first."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sublearn._arrays import Array, Indices, Mask
from sublearn.allocations import Allocation
from sublearn.designs._choice import Choices
from sublearn.ensembles import Problem


def saturated_allocations(
    problem: Problem, choice: Choices, required: Allocation
) -> Iterator[Allocation]:
    """The best-scoring allocation with rows of T min(b, m) or 0, and the one with columns of T d or 0.

    Each row's best weights, required ones first, then the best rows: no other choice of saturated
    rows scores higher. Whether the rank is full is left to the caller.
    """
    form = problem.network.recurrence
    if form is None or form.weight not in choice.names:
        return
    name = form.weight
    if any(other != name for other in required.names):
        return
    grids = [
        choice.part(values, name).reshape(form.n, form.n)
        for values in (choice.score, choice.evenly(), choice.allowed)
    ]
    grids.append(required.mask(name))
    rows, columns = form.saturated(problem.effective_samples)
    total = problem.effective_equations
    by_rows = _best_lines(*grids, size=rows, total=total)
    if by_rows is not None:
        yield Allocation.from_masks(problem.network, {name: by_rows})
    by_columns = _best_lines(*(grid.T for grid in grids), size=columns, total=total)
    if by_columns is not None:
        yield Allocation.from_masks(problem.network, {name: by_columns.T})


def _best_lines(
    score: Array,
    ties: Indices,
    allowed: Mask,
    must: Mask,
    *,
    size: int,
    total: int,
) -> Mask | None:
    lines, rest = divmod(total, size)
    if rest or size > score.shape[1] or lines > score.shape[0]:
        return None
    usable = (allowed.sum(axis=1) >= size) & (must.sum(axis=1) <= size)
    forced = must.any(axis=1)
    if (forced & ~usable).any() or forced.sum() > lines or usable.sum() < lines:
        return None
    picks = np.zeros(score.shape, dtype=bool)
    value = np.full(score.shape[0], -np.inf)
    for i in np.flatnonzero(usable):
        ranked = np.lexsort((ties[i], -score[i], ~must[i], ~allowed[i]))[:size]
        picks[i, ranked] = True
        value[i] = score[i, ranked].sum()
    order = np.lexsort((np.arange(value.size), -value, ~forced))[:lines]
    out = np.zeros_like(picks)
    out[order] = picks[order]
    return out
