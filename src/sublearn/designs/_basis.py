"""The best-scoring basis of the matroid of generic Jacobian columns."""

from __future__ import annotations

import numpy as np

from sublearn.designs._choice import Choice, Ids
from sublearn.ensembles import Problem
from sublearn.exact import greedy
from sublearn.verdicts._gates import GATED_POINTS, draw_point
from sublearn.verdicts._points import Point, generator, miss_probability
from sublearn.verdicts._rank import points_needed


def best_basis(
    problem: Problem,
    choice: Choice,
    order: Ids,
    start: Ids,
    wanted: int,
    *,
    error: float,
    seed: int,
) -> Ids:
    """Ids of the greedy basis: ``start`` first, then ``order``, up to rank ``wanted``.

    At any point the greedy finds the first basis in this order that is independent there. What is
    independent at a point is so generically, and the generic first basis shows up at a point unless
    the point misses it; so the first of the answers at several points is the generic one, with
    probability of error at most ``error``.
    """
    network = problem.network
    if network.has_gates:
        return _numerical_basis(problem, choice, order, start, wanted, seed=seed)
    rng = generator(seed, "design", problem.digest)
    place = np.empty(choice.allowed.size, dtype=np.int64)
    place[order] = np.arange(order.size)
    best: Ids | None = None
    for _ in range(points_needed(miss_probability(problem, network, wanted) + 1e-9, error)):
        point = Point(problem, network, rng)
        blocks = point.blocks(choice.names)
        try:
            found = greedy(point.field, blocks, order, rng, start=start, wanted=wanted)
        except ValueError:
            continue  # the start is dependent at this point; the caller has proved it independent
        if best is None or _earlier(place[found[start.size :]], place[best[start.size :]]):
            best = found
    assert best is not None, "an independent start is independent at almost every point"
    return best


def _earlier(a: Ids, b: Ids) -> bool:
    common = min(a.size, b.size)
    differ = np.flatnonzero(a[:common] != b[:common])
    return a.size > b.size if not differ.size else bool(a[differ[0]] < b[differ[0]])


def _numerical_basis(
    problem: Problem, choice: Choice, order: Ids, start: Ids, wanted: int, *, seed: int
) -> Ids:
    """The same greedy in float64, for ReLU networks: columns are taken while they stand out.

    At the best of several random points: the rank depends on which units are on.
    """
    rng = generator(seed, "design", problem.digest)
    best = np.empty(0, dtype=np.int64)
    for _ in range(GATED_POINTS):
        found = _basis_at_point(problem, choice, order, start, wanted, rng)
        if found.size > best.size:
            best = found
        if best.size == wanted:
            break
    return best


def _basis_at_point(
    problem: Problem,
    choice: Choice,
    order: Ids,
    start: Ids,
    wanted: int,
    rng: np.random.Generator,
) -> Ids:
    network = problem.network
    weights, inputs = draw_point(problem, network, rng)
    candidates = np.concatenate([start, order[~np.isin(order, start)]])
    everything = choice.allocation(np.arange(choice.allowed.size))
    jacobian = network.jacobian(weights, inputs, everything)
    # Jacobian columns come name by name in the network's order; ids in the order of `learn`.
    labels = choice.ids(everything)
    column_of = np.empty(labels.size, dtype=np.int64)
    column_of[labels] = np.arange(labels.size)
    basis = np.zeros((problem.equations, 0))
    taken: list[int] = []
    for identity in candidates.tolist():
        if len(taken) == wanted:
            break
        column = jacobian[:, column_of[identity]]
        length = float(np.linalg.norm(column))
        rest = column - basis @ (basis.T @ column)
        rest -= basis @ (basis.T @ rest)  # once more: rounding leaves a trace the first time
        if length > 0 and np.linalg.norm(rest) > 1e-9 * length:
            basis = np.column_stack([basis, rest / np.linalg.norm(rest)])
            taken.append(identity)
    return np.array(taken, dtype=np.int64)
