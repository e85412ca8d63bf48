"""Known reasons for an allocation of full rank to match with probability 1."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from sublearn._arrays import Mask
from sublearn.allocations import Allocation
from sublearn.ensembles import Problem
from sublearn.networks import Network, Recurrence
from sublearn.verdicts._affine import is_affine
from sublearn.verdicts._needed import reachable_equations, teacher_may_collapse


def saturated(problem: Problem, allocation: Allocation) -> str | None:
    """Say how an allocation of the recurrent matrix is saturated, or None.

    Rows: every row has exactly T min(b, m) learnable weights or none. Columns: every column has
    exactly T d or none. With r = rank = d m (m counting independent samples only), the states (or
    the readouts) solve a square linear system that does not involve the learnable weights, and each
    saturated row (column) then solves one of its own (Theorems B.6 and B.9), so a match exists with
    probability 1.

    The rank decides: Theorem 3.5 for rows is false without it. The limit d min(T, m) for columns is
    not enough when m < T: with d = m = 1, T = 2 a single diagonal weight keeps it, but has to solve a
    quadratic equation that may have no real root.
    """
    form = problem.network.recurrence
    if form is None or allocation.names != (form.weight,):
        return None
    name, (row, column) = form.weight, form.saturated(problem.effective_samples)
    if np.isin(allocation.row_counts(name), (0, row)).all():
        return f"every row of {name} has T min(b, m) = {row} learnable weights or none"
    if np.isin(allocation.column_counts(name), (0, column)).all():
        return f"every column of {name} has T d = {column} learnable weights or none"
    return None


@dataclass(frozen=True)
class Candidate:
    """A part of an allocation that is maximal if its rank is *needed*, and why.

    ``onto``: the argument holds only where the rank is d m', the outputs being free of each other.
    ``problem``: another problem to which the argument belongs, where full rank means all of the part.
    """

    part: Allocation
    why: str
    onto: bool
    problem: Problem | None = None


def rank_wanted(
    problem: Problem, known: Candidate, rank: int, needed: int, most: int | None = None
) -> int | None:
    """The rank that makes the part of a candidate maximal, or None where its argument does not apply.

    ``rank`` is that of the whole allocation; *needed* is at least ``needed``, and at most ``most``, where
    that is not the same.
    """
    if problem.teacher is None:
        # An affine image of dimension `needed` inside the teacher's irreducible image is all of it;
        # the saturated constructions need all d m' dimensions, and so do analytic teachers.
        full = rank >= problem.effective_equations
        applies = full or (problem.network.is_linear and not known.onto)
        wanted = needed if most is None else most
    else:
        # What is affine and onto matches any targets; the others need generic ones.
        wanted = reachable_equations(problem)
        generic = needed >= wanted and not teacher_may_collapse(problem)
        applies = rank >= wanted and (generic or not known.onto)
    if not applies:
        return None
    return wanted if known.problem is None else len(known.part)


def candidates(problem: Problem, allocation: Allocation) -> Iterator[Candidate]:
    """Parts that are maximal if their rank is full.

    An allocation that contains a maximal one is maximal: the additional weights may keep the values
    they have.
    """
    affine = "the outputs are affine in the learnable weights"
    if is_affine(problem.network, allocation):
        yield Candidate(allocation, affine, onto=False)
    if len(allocation) < problem.effective_equations:
        return
    if len(allocation) == problem.effective_equations:
        reason = saturated(problem, allocation)
        if reason is not None:
            yield Candidate(allocation, reason, onto=True)
    for part in _affine_parts(problem.network, allocation):
        yield Candidate(part, f"{affine} of {' and '.join(part.names)} alone", onto=False)
    form = problem.network.recurrence
    if form is not None and allocation.flat(form.weight).size:
        yield from _saturated_parts(problem, form, allocation)
        yield from _saturated_for_more(problem, form, allocation)


def _saturated_for_more(
    problem: Problem, form: Recurrence, allocation: Allocation
) -> Iterator[Candidate]:
    """Saturated for more samples than are asked: a match on those is a match on fewer."""
    part = Allocation(allocation.shapes, {form.weight: allocation.flat(form.weight)})
    samples, rest = divmod(len(part), form.d)
    independent = problem.effective_samples == problem.samples
    if rest or not independent or not problem.samples < samples <= form.T * form.b:
        return
    larger = replace(problem, samples=samples)
    reason = saturated(larger, part)
    if reason is not None:
        why = f"it matches {samples} samples already: {reason}"
        yield Candidate(part, why, onto=True, problem=larger)


def _affine_parts(network: Network, allocation: Allocation) -> Iterator[Allocation]:
    """The learnable weights of one name, with those of other names that keep the outputs affine."""
    pieces = [
        Allocation(allocation.shapes, {name: allocation.flat(name)}) for name in allocation.names
    ]
    seen = {allocation}
    for part in pieces:
        if not is_affine(network, part):
            continue
        for other in pieces:
            part = part | other if is_affine(network, part | other) else part
        if part not in seen:
            seen.add(part)
            yield part


def _saturated_parts(
    problem: Problem, form: Recurrence, allocation: Allocation
) -> Iterator[Candidate]:
    """The fullest rows (columns) of W, cut down to exactly T min(b, m) (T d) weights each."""
    equations, mask = problem.effective_equations, allocation.mask(form.weight)
    sizes = form.saturated(problem.effective_samples)
    for axis, size in zip(("row", "column"), sizes, strict=True):
        lines, rest = divmod(equations, size)
        grid = mask if axis == "row" else mask.T
        if rest or (grid.sum(axis=1) >= size).sum() < lines:
            continue
        cut = _fullest(grid, lines, size)
        part = Allocation.from_masks(
            problem.network, {form.weight: cut if axis == "row" else cut.T}
        )
        if part != allocation:
            why = f"it contains {lines} {axis}s of {form.weight} with {size} learnable weights each"
            yield Candidate(part, why, onto=True)


def _fullest(grid: Mask, lines: int, size: int) -> Mask:
    out = np.zeros_like(grid)
    for i in np.sort(np.argsort(-grid.sum(axis=1), kind="stable")[:lines]):
        out[i, np.flatnonzero(grid[i])[:size]] = True
    return out
