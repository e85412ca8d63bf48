"""The weights worth most whose Jacobian columns are independent."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sublearn.designs._choice import Choice, Ids
from sublearn.designs._over_gates import (
    EFFORT,
    Basis,
    Gains,
    Progress,
    basis_over_gates,
    value_of,
)
from sublearn.ensembles import LowRank, Normal, Problem
from sublearn.exact import greedy
from sublearn.verdicts._grade import NUMERICAL, PROOF, Grade
from sublearn.verdicts._numerical import POINTS, draw_point
from sublearn.verdicts._points import Point, generator, miss_probability
from sublearn.verdicts._rank import points_needed


def best_basis(
    problem: Problem,
    choice: Choice,
    order: Ids,
    start: Ids,
    wanted: int,
    gains: Gains,
    effort: int = EFFORT,
    progress: Progress | None = None,
    *,
    error: float,
    seed: int,
) -> Basis:
    """The ``wanted`` independent weights worth most: ``start``, and the best others of ``order``.

    ``order`` falls in ``gains``. At any point the greedy finds the first basis in this order that is
    independent there. What is independent at a point is so generically, and the generic first basis
    shows up at a point unless the point misses it; so the first of the answers at several points is the
    generic one, with probability of error at most ``error``. Analytic networks have one generic rank as
    well, found in float64. ReLU networks have one per gates: see ``_over_gates.py``, which alone needs
    ``effort`` and ``progress``.
    """
    network = problem.network
    if not network.is_linear and network.is_piecewise_linear:
        return basis_over_gates(
            problem,
            choice,
            order,
            start,
            wanted,
            gains,
            effort,
            progress,
            error=error,
            seed=seed,
        )
    if not network.is_linear:
        found = _numerical_basis(problem, choice, order, start, wanted, seed=seed)
        worth = value_of(found, gains)
        return Basis(found, worth, worth, NUMERICAL)
    rng = generator(seed, "design", problem.digest)
    place = np.empty(choice.allowed.size, dtype=np.int64)
    place[order] = np.arange(order.size)
    best: Ids | None = None
    miss = min(1.0, miss_probability(problem, network, wanted) + 1e-9)
    points = points_needed(miss, error)
    for _ in range(points):
        point = Point(problem, network, rng)
        blocks = point.blocks(choice.names)
        try:
            found = greedy(point.field, blocks, order, rng, start=start, wanted=wanted)
        except ValueError:
            continue  # the start is dependent at this point; the caller has proved it independent
        if best is None or _earlier(place[found[start.size :]], place[best[start.size :]]):
            best = found
    assert best is not None, "an independent start is independent at almost every point"
    worth = value_of(best, gains)
    plain = value_of(np.concatenate([start, order[~np.isin(order, start)]])[:wanted], gains)
    grade = PROOF if worth >= plain else Grade("probability", miss**points)
    return Basis(best, worth, worth, grade)


def _earlier(a: Ids, b: Ids) -> bool:
    common = min(a.size, b.size)
    differ = np.flatnonzero(a[:common] != b[:common])
    return a.size > b.size if not differ.size else bool(a[differ[0]] < b[differ[0]])


def _numerical_basis(
    problem: Problem, choice: Choice, order: Ids, start: Ids, wanted: int, *, seed: int
) -> Ids:
    """The same greedy in float64, at several random points: columns are taken while they stand out.

    An analytic network has one generic rank, whatever the laws, so weights and inputs are drawn at unit
    scale: there activations are not saturated, and rounding hides the fewest columns. What it hides at
    one point shows at another, so the first of the answers is taken.
    """
    ensemble = problem.ensemble
    inputs = ensemble.inputs if isinstance(ensemble.inputs, LowRank) else Normal()
    tame = replace(problem, ensemble=replace(ensemble, weights=Normal(), inputs=inputs))
    rng = generator(seed, "design", problem.digest)
    candidates = np.concatenate([start, order[~np.isin(order, start)]])
    best = candidates[:0]
    for _ in range(POINTS):
        places = _places_at_point(tame, choice, candidates, wanted, rng)
        if _earlier(places, best):
            best = places
    return np.asarray(candidates[best])


def _places_at_point(
    problem: Problem, choice: Choice, candidates: Ids, wanted: int, rng: np.random.Generator
) -> Ids:
    """Which candidates are independent of those before them at one point."""
    network = problem.network
    weights, inputs = draw_point(problem, network, rng)
    everything = choice.allocation(np.arange(choice.allowed.size))
    jacobian = network.jacobian(weights, inputs, everything)
    # Jacobian columns come name by name in the network's order; ids in the order of `learn`.
    labels = choice.ids(everything)
    column_of = np.empty(labels.size, dtype=np.int64)
    column_of[labels] = np.arange(labels.size)
    basis = np.zeros((problem.equations, 0))
    taken: list[int] = []
    for place, identity in enumerate(candidates.tolist()):
        if len(taken) == wanted:
            break
        column = jacobian[:, column_of[identity]]
        length = float(np.linalg.norm(column))
        rest = column - basis @ (basis.T @ column)
        rest -= basis @ (basis.T @ rest)  # once more: rounding leaves a trace the first time
        if length > 0 and np.linalg.norm(rest) > 1e-9 * length:
            basis = np.column_stack([basis, rest / np.linalg.norm(rest)])
            taken.append(place)
    return np.array(taken, dtype=np.int64)
