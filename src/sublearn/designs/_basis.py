"""The weights worth most whose Jacobian columns are independent."""

from __future__ import annotations

import numpy as np

from sublearn._grades import PROOF, wrong_by_chance
from sublearn._seeds import named_stream
from sublearn.designs._choice import Ids
from sublearn.designs._over_gates import Basis, BasisQuery, GateSearch, value_of
from sublearn.exact import greedy
from sublearn.verdicts import PrimePoint, miss_probability, points_needed


def best_basis(query: BasisQuery) -> Basis:
    """The independent weights worth most.

    At any point the greedy finds the first basis in the order that is independent there. What is
    independent at a point is so generically, and the generic first basis shows up at a point unless the
    point misses it; so the first of the answers at several points is the generic one, with probability
    of error at most ``error``. ReLU networks have a rank for every pattern of gates: ``_over_gates.py``.
    """
    problem, choice, order, start = query.problem, query.choice, query.order, query.start
    network, wanted, gains = problem.network, query.wanted, query.gains
    if network.has_gates:
        return GateSearch(query).run(query.progress)
    rng = named_stream(query.seed, "design", problem.digest)
    place = np.empty(choice.allowed.size, dtype=np.int64)
    place[order] = np.arange(order.size)
    bases: list[Ids] = []
    miss = min(1.0, miss_probability(problem, network, wanted) + 1e-9)
    points = points_needed(miss, query.error)
    for _ in range(points):
        point = PrimePoint(problem, network, rng)
        blocks = point.blocks(choice.names)
        try:
            bases.append(greedy(point.field, blocks, order, rng, start=start, wanted=wanted))
        except ValueError:
            continue  # the start is dependent at this point; the caller has proved it independent
    assert bases, "an independent start is independent at almost every point"
    # Of two that begin alike the longer one comes first.
    best = min(bases, key=lambda ids: [*place[ids[start.size :]].tolist(), order.size])
    worth = value_of(best, gains)
    plain = value_of(query.candidates[:wanted], gains)
    grade = PROOF if worth >= plain else wrong_by_chance(miss**points)
    return Basis(best, worth, worth, grade)
