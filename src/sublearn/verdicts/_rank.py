"""The generic rank of the learnable columns, exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sublearn._arrays import Indices
from sublearn._grades import PROOF, Grade, wrong_by_chance
from sublearn._interrupts import heed
from sublearn._seeds import named_stream
from sublearn.allocations import Allocation
from sublearn.ensembles import Problem
from sublearn.exact import dependencies, eliminate, greedy, peel, smallest_circuit
from sublearn.networks import Gates
from sublearn.verdicts._bounds import rank_bound
from sublearn.verdicts._points import PrimePoint, miss_probability

Positions = Indices

# How often a draw may turn out unlucky before something must be wrong with the code.
_LIVES = 20


@dataclass(frozen=True)
class GenericRank:
    """Rank of the Jacobian's learnable columns at generic weights and inputs.

    ``rank`` is never too large; ``grade`` says how sure it is that it is not too small. ``basis``
    and ``idle`` are positions in ``allocation.labels()``: a largest independent set, and the rest.
    ``circuit`` is a smallest-found dependent set, empty if all columns are independent.
    """

    rank: int
    basis: Positions
    idle: Positions
    circuit: Positions
    grade: Grade


def generic_rank(
    problem: Problem,
    allocation: Allocation,
    *,
    error: float,
    seed: int,
    gates: Gates | None = None,
    free_gates: bool = False,
) -> GenericRank:
    """Generic rank of a network, exactly; ReLU networks need fixed gates, or free ones.

    With ``free_gates`` every gate of a ReLU step may be any number. A pattern of 0 and 1 is a special
    value of the gates, and at special values a rank can only fall: the rank is then a bound for all
    gates at once, and what depends on each other does so whatever the gates are.

    One elimination at a random point modulo a random prime gives independent columns, and those are
    independent at almost every real point too: a proof. That the rest depends on them is proved
    where :func:`rank_bound`, or peeling a single layer, says so; else all the columns that take
    part in a dependency are drawn again, at fresh points modulo fresh primes, until the chance of a
    mistake is at most ``error``.
    """
    heed()
    network = problem.network
    count = len(allocation)
    everything = np.arange(count, dtype=np.int64)
    nothing = everything[:0]
    rng = named_stream(seed, "rank", problem.digest, allocation.digest)
    limit = problem.equations if network.has_gates else rank_bound(problem, allocation)
    layers = network.layered if gates is None and network.is_linear else None
    if layers is not None and not layers.biases and len(allocation.names) == 1:
        layer = layers.layer_of(allocation.names[0])
        leaving, entering = layers.ranks(layer, problem.effective_samples)
        point = PrimePoint(problem, network, rng)
        peeled = peel(allocation.mask(allocation.names[0]), leaving, entering, point.field, rng)
        if peeled.rank == count:
            return GenericRank(count, everything, nothing, nothing, PROOF)
        if peeled.exact:
            limit = peeled.rank
    for _ in range(_LIVES):
        point = PrimePoint(problem, network, rng, gates, free_gates=free_gates)
        basis, circuit, involved = look(point, allocation, limit, rng)
        rank = basis.size
        idle = np.setdiff1d(everything, basis, assume_unique=True)
        if rank in (count, limit):
            return GenericRank(rank, basis, idle, circuit, PROOF)
        # rank(A) <= rank(U) + |A - U| for the set U of columns that take part in a dependency, so
        # it is enough that U loses as much at fresh points.
        expected = involved.size - idle.size
        part = allocation.select(involved)
        miss = miss_probability(problem, network, expected + 1, free_gates=free_gates)
        draws = points_needed(miss, error)
        for _ in range(draws):
            heed()
            again = PrimePoint(problem, network, rng, gates, free_gates=free_gates)
            if look(again, part, limit, rng)[0].size > expected:
                break  # the first point was unlucky: start over
        else:
            return GenericRank(rank, basis, idle, circuit, wrong_by_chance(miss**draws))
    raise RuntimeError("random points keep disagreeing; please report this as a bug")


def look(
    point: PrimePoint, allocation: Allocation, limit: int, rng: np.random.Generator
) -> tuple[Positions, Positions, Positions]:
    """Basis, a small circuit, and all columns that take part in a dependency, at one point."""
    count = len(allocation)
    everything = np.arange(count, dtype=np.int64)
    if count > 2 * limit + 64:
        # Many more columns than can be independent: never form them all.
        basis = _greedy_basis(point, allocation, limit, rng)
        idle = np.setdiff1d(everything, basis, assume_unique=True)
        some = np.concatenate([basis, idle[:16]])
        small = eliminate(point.field, point.columns_at(allocation, some))
        return basis, np.sort(some[smallest_circuit(small, rng)]), everything
    echelon = eliminate(point.field, point.columns(allocation))
    if echelon.rank == count:
        return everything, everything[:0], everything[:0]
    involved = np.flatnonzero((dependencies(echelon) != 0).any(axis=0))
    return echelon.pivots, smallest_circuit(echelon, rng), involved


def _greedy_basis(
    point: PrimePoint, allocation: Allocation, limit: int, rng: np.random.Generator
) -> Positions:
    names = list(allocation.names)
    sizes = [int(np.prod(allocation.shapes[name])) for name in names]
    starts = np.cumsum([0, *sizes[:-1]])
    parts = [allocation.flat(n) + start for n, start in zip(names, starts, strict=True)]
    order = np.concatenate(parts)
    # In a random order the basis fills up early.
    shuffled = rng.permutation(order)
    basis = greedy(point.field, point.blocks(names), shuffled, rng, wanted=limit)
    return np.searchsorted(order, np.sort(basis)).astype(np.int64)


def points_needed(miss: float, error: float) -> int:
    """How many independent points make ``miss ** points <= error``; at least 1, at most 64."""
    points = 1
    while miss < 1.0 and points < 64 and miss**points > error:
        points += 1
    return points
