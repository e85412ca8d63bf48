"""Allocations of the recurrent matrix with saturated rows or columns, best score first."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sublearn._arrays import Array, Indices, Mask
from sublearn.allocations import Allocation
from sublearn.designs._choice import Choice
from sublearn.ensembles import Problem
from sublearn.networks import LinearRNN


def saturated_allocations(
    problem: Problem, choice: Choice, required: Allocation
) -> Iterator[Allocation]:
    """The best-scoring allocation with rows of T min(b, m) or 0, and the one with columns of T d or 0.

    Each row's best weights, required ones first, then the best rows: no other choice of saturated
    rows scores higher. Whether the rank is full is left to the caller.
    """
    network = problem.network
    if not isinstance(network, LinearRNN) or "W" not in choice.names:
        return
    if any(name != "W" for name in required.names):
        return
    shape, samples = network.shapes["W"], problem.effective_samples
    score = choice.part(choice.score, "W").reshape(shape)
    ties = choice.part(choice.evenly(), "W").reshape(shape)
    allowed = choice.part(choice.allowed, "W").reshape(shape)
    must = required.mask("W")
    for turned, size in (
        (False, network.T * min(network.b, samples)),
        (True, network.T * network.d),
    ):
        turn = np.transpose if turned else np.asarray
        grids = (turn(score), turn(ties), turn(allowed), turn(must))
        mask = _best_lines(*grids, size=size, total=problem.effective_equations)
        if mask is not None:
            yield Allocation.from_masks(network, {"W": mask.T if turned else mask})


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
