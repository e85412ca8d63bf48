"""Counting verdicts: how many allocations of one weight keep the degree bounds and are still deficient."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, islice
from math import comb
from typing import Any

import numpy as np

from sublearn._arrays import Indices
from sublearn._errors import BadInputError, whole_number
from sublearn._grades import Grade, wrong_by_chance
from sublearn._interrupts import heed
from sublearn._seeds import named_stream
from sublearn.allocations import Allocation, FirstRows
from sublearn.ensembles import Problem
from sublearn.exact import subset_ranks
from sublearn.plots import COLOURS, Figure, Row, Shown, figure, ink
from sublearn.verdicts._points import PrimePoint, check_options, miss_probability
from sublearn.verdicts._rank import generic_rank, points_needed

LARGEST = 20_000_000
"""Enumerations beyond this many allocations are refused; draw instead."""

_CHUNK = 100_000


@dataclass(frozen=True, repr=False)
class Census(Shown):
    """Allocations of ``size`` = d m' weights inside one ``weight`` matrix, counted.

    ``total`` were looked at: all of them, or ``draws`` random ones that keep the degree bounds.
    ``feasible`` keep the degree bounds, ``deficient`` of these have a rank below r all the same, and
    ``unbound`` break a bound but have full rank (always 0 where the bounds are right).
    """

    weight: str
    size: int
    total: int
    feasible: int
    deficient: int
    unbound: int
    drawn: bool
    grade: Grade

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**vars(self), "grade": self.grade.to_dict()}

    def table(self) -> list[Row]:
        """One row."""
        return [{**vars(self), "grade": str(self.grade)}]

    def plot(self) -> Figure:
        """One bar: the deficient, those of full rank, and those that break a bound."""
        fig, ax = figure(height=1.5)
        parts = {
            "deficient": self.deficient,
            "full rank": self.feasible - self.deficient,
            "break a bound": self.total - self.feasible,
        }
        left = 0
        for (word, count), colour in zip(parts.items(), (*COLOURS[:2], ink()), strict=False):
            if count:
                ax.barh(0, count, left=left, color=colour, label=f"{word}: {count}")
            left += count
        ax.set_yticks([0], [self.weight])
        ax.set_xlim(0, self.total)
        ax.set_xlabel("random allocations" if self.drawn else "allocations")
        ax.grid(False, axis="y")
        fig.legend(loc="outside lower left", ncols=3, frameon=False, fontsize=9, labelcolor=ink())
        return fig

    def __str__(self) -> str:
        looked = "random allocations" if self.drawn else "allocations"
        share = f" ({self.deficient / self.feasible:.1%})" if self.feasible else ""
        lines = [f"{self.total} {looked} of {self.size} weights of {self.weight}"]
        if not self.drawn:
            lines.append(f"{self.feasible} of them keep every degree bound")
        lines.append(f"{self.deficient} of these {self.feasible} are deficient all the same{share}")
        if self.unbound:
            lines.append(f"{self.unbound} break a bound and have full rank")
        return "\n".join([*lines, f"grade: {self.grade}"])


def census(
    problem: Problem,
    name: str,
    *,
    draws: int | None = None,
    error: float = 1e-12,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Census:
    """Count deficient allocations of the weight ``name``, all of them, or of so many random ``draws``.

    Those drawn keep the degree bounds. That any is called deficient and is not has a chance of at most
    ``error``. ``progress`` is told (done, of how many) now and then.

    >>> import sublearn as sl
    >>> count = sl.census(sl.Problem(sl.FeedForward((3, 3, 2)), samples=2), "W1")
    >>> count.deficient, count.feasible, count.total
    (9, 90, 126)
    """
    check_options(error, seed)
    tell = progress or (lambda done, total: None)
    network = problem.network
    if network.has_gates:
        raise BadInputError(
            f"a census counts ranks that do not depend on gates, so not those of {network.title}."
        )
    if problem.ensemble.without_density or problem.source.is_labelled:
        raise BadInputError("a census counts generic ranks, so every law must have a density.")
    size = problem.effective_equations
    existing = len(Allocation.whole(network, [name]))
    if size > existing:
        raise BadInputError(f"{name} has {existing} weights, fewer than the {size} needed.")
    if draws is not None:
        draws = whole_number("draws", draws, least=1)
        rng = named_stream(seed, "census draws", problem.digest, name)
        deficient, doubt = 0, 0.0
        for number in range(draws):
            tell(number, draws)
            lost = deficient_draw(problem, name, rng, error / draws, seed)
            deficient += lost is not None
            doubt += lost or 0.0
        return Census(name, size, draws, draws, deficient, 0, True, wrong_by_chance(doubt))
    if comb(existing, size) > LARGEST:
        raise BadInputError(
            f"{name} has {comb(existing, size):.1e} allocations of {size} weights, more than "
            f"{LARGEST:.0e} to enumerate: give a number of draws."
        )
    return _enumerated(problem, name, error, seed, tell)


def deficient_draw(
    problem: Problem, name: str, rng: np.random.Generator, error: float, seed: int
) -> float | None:
    """Of one random allocation within the degree bounds: None, or if deficient the chance that it is not."""
    rule = {name: FirstRows(problem.network.shape(name)[0], problem.effective_equations)}
    drawn = problem.draw_allocation(rule, rng)
    found = generic_rank(problem, drawn, error=error, seed=seed)
    return found.grade.error if found.rank < len(drawn) else None


def _enumerated(
    problem: Problem, name: str, error: float, seed: int, tell: Callable[[int, int], None]
) -> Census:
    network, size = problem.network, problem.effective_equations
    rows, columns = network.shape(name)
    bounds = network.degree_bounds(name, problem.effective_samples)
    rng = named_stream(seed, "census", problem.digest, name)
    whole = Allocation.whole(network, [name])
    total, places = comb(len(whole), size), whole.flat(name)
    # The error of the whole count is at most the sum over its members.
    miss = miss_probability(problem, network, size)
    draws = points_needed(miss, error / total)
    points = [PrimePoint(problem, network, rng) for _ in range(draws)]
    matrices = [(point.field, point.columns(whole)) for point in points]
    feasible = deficient = unbound = doubtful = looked = 0
    for subsets in _chunks(len(whole), size):
        heed()
        fits = _largest_count(places[subsets] // columns, rows) <= bounds.row
        if bounds.column is not None:
            fits &= _largest_count(places[subsets] % columns, columns) <= bounds.column
        rest = np.arange(len(subsets))
        for field, matrix in matrices:  # full rank anywhere is a proof; look again at the others
            rest = rest[subset_ranks(field, matrix, subsets[rest]) < size]
        lost = np.zeros(len(subsets), dtype=bool)
        lost[rest] = True
        feasible += int(fits.sum())
        deficient += int((fits & lost).sum())
        unbound += int((~fits & ~lost).sum())
        doubtful += int(rest.size)
        looked += len(subsets)
        tell(looked, total)
    grade = wrong_by_chance(doubtful * miss**draws)
    return Census(name, size, total, feasible, deficient, unbound, False, grade)


def _chunks(items: int, size: int) -> Iterator[Indices]:
    subsets = combinations(range(items), size)
    while chunk := list(islice(subsets, _CHUNK)):
        yield np.array(chunk, dtype=np.int64)


def _largest_count(lines: Indices, number: int) -> Indices:
    """For each subset, how many of its entries share the fullest row (or column)."""
    counts = np.zeros((len(lines), number), dtype=np.int64)
    np.add.at(counts, (np.arange(len(lines))[:, None], lines), 1)
    return np.asarray(counts.max(axis=1))
