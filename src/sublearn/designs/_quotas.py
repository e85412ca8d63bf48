"""The best weights of which each row or column may give only so many.

Independent columns and quotas are two matroids, and the best set that keeps both is found exactly
(:func:`sublearn.exact.within_quotas`). More weights than can be independent: with as many generic rows more
as weights may be dependent, all of them are independent (the union with a uniform matroid), so that the same
search finds the best set of full rank and full quotas.
"""

from __future__ import annotations

from dataclasses import replace
from math import fsum

import numpy as np

from sublearn._arrays import Array, Indices
from sublearn._grades import PROOF, wrong_by_chance
from sublearn._seeds import named_stream
from sublearn.designs._basis import best_basis
from sublearn.designs._choice import Ids
from sublearn.designs._count import Count
from sublearn.designs._over_gates import Basis, BasisQuery
from sublearn.exact import PrimeField, within_quotas
from sublearn.verdicts import PrimePoint, miss_probability, occurring_gates, points_needed

_MOST_WORK = 400_000_000  # rows x columns x weights; beyond it a good set is found, not the best
_GATES = 8
_NEAR = 1e-9
"""Sums of scores are compared to this part of the largest score."""


def best_in_quotas(query: BasisQuery, count: Count) -> tuple[Basis, int]:
    """The best weights within quotas, and their rank, which no other weights within them exceed.

    ``value`` and ``bound`` are (rank, sum of scores). Of ReLU networks the best at the gates of some draws
    is kept, and free gates give the bound; of large ones the best of each row or column that are independent.
    """
    problem, network, pool = query.problem, query.problem.network, np.sort(query.candidates)
    rows = problem.equations + count.total
    if rows * pool.size * count.total > _MOST_WORK:
        return _good(query, count)
    gated = network.has_gates
    rng = named_stream(query.seed, "quotas", problem.digest)
    search = _Search(query, count, pool, rng)
    miss = miss_probability(problem, network, query.wanted, free_gates=gated)
    miss = min(1.0, miss + count.total / 2**22)
    points = points_needed(miss, query.error)
    top = max(
        (search.at(PrimePoint(problem, network, rng, free_gates=gated)) for _ in range(points)),
        key=lambda basis: basis.value,
    )
    best = top
    if gated:
        drawn = [occurring_gates(problem, network, rng) for _ in range(_GATES)]
        best = max(
            (search.at(PrimePoint(problem, network, rng, gates)) for gates in drawn),
            key=lambda basis: basis.value,
        )
    bound = top.bound if gated else best.bound
    if bound[0] > best.value[0]:  # what has a smaller rank may score higher
        bound = (bound[0], search.most())
    plain = (float(min(query.wanted, count.total)), search.most())
    grade = PROOF if best.value >= plain else wrong_by_chance(miss**points)
    return Basis(best.ids, best.value, max(best.value, bound), grade), int(best.value[0])


class _Search:
    def __init__(
        self, query: BasisQuery, count: Count, pool: Ids, rng: np.random.Generator
    ) -> None:
        self.query, self.count, self.pool, self.rng = query, count, pool, rng
        groups, self.quotas = count.groups(query.choice)
        self.groups = groups[pool]
        self.start = np.searchsorted(pool, np.sort(query.start))
        self.allocation = query.choice.allocation(pool)
        self.score = query.choice.score[pool]
        self.worth, self.unit = self._whole_numbers()

    def _whole_numbers(self) -> tuple[Indices, float]:
        """Scores as whole numbers, ties by the order; and the number that one of them stands for."""
        place = np.empty(self.query.choice.allowed.size, dtype=np.int64)
        candidates = self.query.candidates
        place[candidates] = np.arange(candidates.size)[::-1]
        ties = np.unique(self.score).size < self.score.size
        terms = 2 * (self.count.total + 1)
        below = (terms * candidates.size).bit_length() if ties else 0
        bits = 60 - below - terms.bit_length()
        largest = float(np.abs(self.score).max(initial=0.0))
        unit = 2.0 ** (np.frexp(largest)[1] - bits) if largest else 1.0
        whole = np.rint(self.score / unit).astype(np.int64)
        exact = bool((whole * unit == self.score).all())
        worth = (whole << below) + (place[self.pool] if ties else 0)
        return worth, 0.0 if exact else unit

    def at(self, point: PrimePoint) -> Basis:
        """The best weights at one point."""
        field, count = point.field, self.count
        columns = point.columns(self.allocation)
        wanted = min(self.query.wanted, count.total)
        try:
            kept = self._within(field, columns, wanted)
            rank = kept.size
            if rank < count.total:
                more = field.random(self.rng, (count.total - rank, columns.shape[1]))
                kept = self._within(field, np.vstack([columns, more]), count.total)
        except ValueError:  # what is required is dependent at this point
            return Basis(self.pool[:0], (-1.0, 0.0), (-1.0, 0.0), PROOF)
        value = (float(rank), fsum(self.score[kept]))
        slack = self.unit * kept.size
        largest = float(np.abs(self.score).max(initial=0.0))
        bound = value if slack <= _NEAR * largest else (value[0], value[1] + slack)
        return Basis(self.pool[kept], value, bound, PROOF)

    def _within(self, field: PrimeField, columns: Array, wanted: int) -> Ids:
        rules = (self.worth, self.groups, self.quotas)
        return within_quotas(field, columns, *rules, wanted, self.start)

    def most(self) -> float:
        """What the quotas alone allow: no set within them is worth more."""
        ids = self.count.filled(self.query.choice, self.query.candidates, self.query.start)
        return fsum(self.query.choice.score[ids])


def _good(query: BasisQuery, count: Count) -> tuple[Basis, int]:
    """Independent ones among the best of each row or column, and the rest by score."""
    choice, order = query.choice, query.candidates
    best_of_each = count.filled(choice, order, query.start)
    basis = best_basis(replace(query, order=best_of_each))
    ids = count.filled(choice, order, basis.ids)
    score = choice.score
    return Basis(
        ids,
        (basis.value[0], fsum(score[ids])),
        (float(min(query.wanted, count.total)), fsum(score[best_of_each])),
        basis.grade,
    ), basis.ids.size
