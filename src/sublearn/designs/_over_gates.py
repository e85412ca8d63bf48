"""The best set of weights of a ReLU network, over all the gates that draws can have.

With its gates held, a ReLU network is a linear one: the sets of weights that are independent at these
gates form a matroid, and the greedy algorithm finds the best basis. Over the gates there is no matroid.
A set is *admissible* if its columns are independent at some gates of positive probability, and the best
admissible set is the best of the greedy bases of all such gates.

They are searched by branch and bound. A node holds some gates, 0 or 1, and leaves the others open. With
the open gates replaced by generic numbers the greedy basis is worth at least as much as at any gates of
the node: numbers 0 and 1 are special values of generic ones, and at special values an independent set
can only become dependent. Every basis that is found is proved: its columns are independent modulo a
prime at gates for which a point was found. What can fail, with a probability that the grade states, is
a bound, if generic numbers happen to behave like special ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import fsum

import numpy as np
from numpy.typing import NDArray

from sublearn._arrays import Array
from sublearn._grades import PROOF, Grade, wrong_by_chance
from sublearn._interrupts import heed
from sublearn._intervals import clopper_pearson
from sublearn._seeds import named_stream
from sublearn.allocations import Allocation
from sublearn.designs._choice import Choices, Ids
from sublearn.designs._witness import realise
from sublearn.ensembles import Problem
from sublearn.exact import eliminate, greedy
from sublearn.networks import Gates
from sublearn.verdicts import PrimePoint, drawn_gates, miss_probability, points_needed

EFFORT = 2000
"""How many nodes are bounded, unless told otherwise."""
DRAWN = 64
SAMPLED = 200
_SMALL = 200_000  # Jacobians of at most so many numbers are written down
_LARGE = 20_000_000  # searches this costly per node are cut short
_FAILURE = 20  # what it costs to look for a point in vain, in nodes

Gains = tuple[Array, ...]
"""What each weight is worth; of several gains, the first that differs decides."""
Value = tuple[float, ...]
"""What a basis is worth: its size, then the sum of each gain; compared one after the other."""
State = NDArray[np.int8]
"""A gate each, step by step and unit by unit: 0, 1, or -1 where it is open."""
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Basis:
    """Independent weights, what no others exceed, and how sure that is."""

    ids: Ids
    value: Value
    bound: Value
    grade: Grade

    @property
    def best(self) -> bool:
        """Whether no admissible set of weights is worth more."""
        return self.value >= self.bound


@dataclass(frozen=True)
class GateShare:
    """At how many of the gates sampled the chosen weights have full rank.

    Weights and inputs are drawn as the ensemble draws them; ``full`` of the ``sampled`` draws have
    gates at which the rank is full.
    """

    full: int
    sampled: int

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% interval of Clopper and Pearson for the share over all draws."""
        return clopper_pearson(self.full, self.sampled)

    def __str__(self) -> str:
        low, high = self.interval
        return f"full rank at {self.full} of {self.sampled} sampled gates (95%: {low:.3f} to {high:.3f})"

    def to_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        return {"full": self.full, "sampled": self.sampled, "interval": list(self.interval)}


@dataclass(frozen=True, kw_only=True)
class BasisQuery:
    """Which basis is looked for: ``start``, and the best others of ``order``, ``wanted`` in all.

    ``order`` falls in ``gains``. Only ReLU networks need ``effort`` and ``progress``.
    """

    problem: Problem
    choice: Choices
    order: Ids
    start: Ids = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    wanted: int
    gains: Gains = ()
    error: float
    seed: int
    effort: int = EFFORT
    progress: Progress | None = None

    @property
    def candidates(self) -> Ids:
        """What is required, and then the others in their order."""
        return np.concatenate([self.start, self.order[~np.isin(self.order, self.start)]])


def value_of(ids: Ids, gains: Gains) -> Value:
    """Size and sums, correctly rounded: equal sets of numbers have equal sums in any order."""
    return (float(ids.size), *(fsum(gain[ids]) for gain in gains))


class GateSearch:
    """The search for a query; what it finds are the best admissible weights that were met."""

    def __init__(self, query: BasisQuery) -> None:
        problem, choice, wanted, effort = query.problem, query.choice, query.wanted, query.effort
        self.problem, self.choice, self.gains = problem, choice, query.gains
        self.start, self.wanted = query.start.size, wanted
        self.candidates = query.candidates
        self.rng = named_stream(query.seed, "design", problem.digest)
        # The gates that are tried do not depend on the seed, so that the answer does not.
        self.draws = named_stream(0, "gates of designs", problem.digest)
        network = problem.network
        self.shapes = {
            position: (network.shapes[step.weight][0], problem.samples)
            for position, step in enumerate(network.steps)
            if step.activation == "relu"
        }
        self.gates = sum(units * samples for units, samples in self.shapes.values())
        rank = problem.ensemble.inputs.rank_of(sum(network.input_blocks))
        self.single = 0 in self.shapes and rank == 1 and network.steps[0].bias is None
        size = problem.equations * self.candidates.size
        self.pool = choice.allocation(self.candidates) if size <= _SMALL else None
        if self.pool is not None:
            place = np.empty(choice.allowed.size, dtype=np.int64)
            place[choice.ids(self.pool)] = np.arange(len(self.pool))
            self.columns = place[self.candidates]
        cost = problem.equations**2 * self.candidates.size
        self.effort = effort if cost <= _LARGE else effort * _LARGE // cost
        self.drawn = max(8, DRAWN if cost <= _LARGE else DRAWN * _LARGE // cost)
        # Open gates at most double the degree of the outputs, hence of the minors.
        miss = min(1.0, 2 * miss_probability(problem, network, wanted) + 1e-9)
        bounds = 2 * self.effort + 1
        self.points = points_needed(miss, query.error / bounds)
        self.grade = wrong_by_chance(bounds * miss**self.points)

    def run(self, progress: Progress | None) -> Basis:
        root = np.full(self.gates, -1, dtype=np.int8)
        ids, top = self._bound(root, None)
        best, value = self._best(self._drawn(), top, self.candidates[:0], (-1.0,))
        if value < top:
            best, value = self._best(self._guessed(ids), top, best, value)
        heap = [(tuple(-v for v in top), 0, 0, root, ids)]
        unsettled: Value = (-1.0,)
        count, nodes = 0, 0
        while heap and nodes < self.effort:
            heed()
            key, depth, _, state, ids = heap[0]
            bound = tuple(-v for v in key)
            if bound <= value:
                break
            heappop(heap)
            if -depth == self.gates:
                if realise(self.problem, self._fixed(state), self.draws):
                    best, value = ids, bound
                else:
                    unsettled = max(unsettled, bound)
                    nodes += _FAILURE
                continue
            nodes += 1
            if progress is not None:
                progress(min(nodes, self.effort), self.effort)
            for child in self._children(state, -depth):
                basis, worth = self._bound(child, bound)
                if worth > value:
                    count += 1
                    entry = (tuple(-v for v in worth), depth - 1, count, child, basis)
                    heappush(heap, entry)
        left = tuple(-v for v in heap[0][0]) if heap else value
        bound = max(value, unsettled, left)
        # No weights are worth more than the first of the order: that needs no point to show it.
        plain = value_of(self.candidates[: self.wanted], self.gains)
        return Basis(best, value, bound, PROOF if bound >= plain else self.grade)

    def _children(self, state: State, depth: int) -> list[State]:
        """The next gate set both ways; samples may be renamed, so the first unit's gates only fall."""
        values: tuple[int, ...] = (1, 0)
        if 0 < depth < self.problem.samples and state[depth - 1] == 0:
            values = (0,)
        children = []
        for gate in values:
            child = state.copy()
            child[depth] = gate
            if self._possible(child):
                children.append(child)
        return children

    def _possible(self, state: State) -> bool:
        """False if no draw has these gates: with one feature, units of the first layer fire alike.

        The pre-activations are w_i x_s, so two rows of gates are equal or opposite. More features leave
        more freedom, which is not decided here: such gates only count if a point is found.
        """
        if not self.single:
            return True
        units, samples = self.shapes[0]
        rows = state[: units * samples].reshape(units, samples)
        known = (rows >= 0) & (rows[0] >= 0)
        differs = rows != rows[0]
        mixed = (known & differs).any(axis=1) & (known & ~differs).any(axis=1)
        return not mixed.any()

    def _best(
        self, states: Iterable[tuple[State, bool]], top: Value, best: Ids, value: Value
    ) -> tuple[Ids, Value]:
        """The best basis at some gates, known to occur or not, or what was the best before."""
        for state, occurs in states:
            ids, worth = self._basis(state)
            if worth > value and (occurs or realise(self.problem, self._fixed(state), self.draws)):
                best, value = ids, worth
            if value >= top:
                break
        return best, value

    def _drawn(self) -> Iterator[tuple[State, bool]]:
        """The gates of random draws."""
        seen = set()
        for _ in range(self.drawn):
            gates = drawn_gates(self.problem, self.problem.network, self.draws)
            if gates is not None:
                state = np.concatenate([gates[p].ravel() for p in self.shapes]).astype(np.int8)
                if state.tobytes() not in seen:
                    seen.add(state.tobytes())
                    yield state, True

    def _guessed(self, aim: Ids) -> Iterator[tuple[State, bool]]:
        """Gates that leave room for ``aim``, the basis with all gates open.

        A unit that is on for k samples lets at most k weights of its row be independent.
        """
        network, rows = self.problem.network, self.choice.allocation(aim)
        for _ in range(self.drawn // 2):
            parts = []
            for position, shape in self.shapes.items():
                load = rows.row_counts(network.steps[position].weight)
                least = np.clip(load, 1, shape[1])
                count = self.draws.integers(least, shape[1] + 1)
                rank = np.argsort(np.argsort(self.draws.random(shape), axis=1), axis=1)
                parts.append((rank < count[:, None]).ravel())
            state = np.concatenate(parts).astype(np.int8)
            if self._possible(state):
                yield state, False

    def _fixed(self, state: State) -> Gates:
        return self._gates(state.astype(np.float64))

    def _gates(self, flat: Array) -> dict[int, Array]:
        out, begin = {}, 0
        for position, shape in self.shapes.items():
            end = begin + shape[0] * shape[1]
            out[position] = flat[begin:end].reshape(shape)
            begin = end
        return out

    def _bound(self, state: State, limit: Value | None) -> tuple[Ids, Value]:
        """The best of several points; more than ``limit``, the bound of the node above, is impossible."""
        best, value = self._basis(state)
        for _ in range(self.points - 1):
            if limit is not None and value >= limit:
                break
            ids, worth = self._basis(state)
            if worth > value:
                best, value = ids, worth
        return best, value

    def _basis(self, state: State) -> tuple[Ids, Value]:
        """The greedy basis at one random point modulo a random prime."""
        numbers = self.rng.integers(-(2**21), 2**21, state.size)
        gates = self._gates(np.where(state < 0, numbers, state).astype(np.float64))
        point = PrimePoint(self.problem, self.problem.network, self.rng, gates)
        if self.pool is not None:
            columns = np.ascontiguousarray(point.columns(self.pool)[:, self.columns])
            ids = self.candidates[eliminate(point.field, columns).pivots[: self.wanted]]
        else:
            blocks = point.blocks(self.choice.names)
            ids = greedy(point.field, blocks, self.candidates, self.rng, wanted=self.wanted)
        if not np.array_equal(ids[: self.start], self.candidates[: self.start]):
            return ids[:0], (-1.0,)  # what is required is dependent at these gates
        return ids, value_of(ids, self.gains)


def share_of_gates(
    problem: Problem, allocation: Allocation, wanted: int, *, seed: int
) -> GateShare:
    """How many of some random draws have gates at which the allocation has rank ``wanted``."""
    network = problem.network
    rng = named_stream(seed, "share of gates", problem.digest, allocation.digest)
    cost = problem.equations * wanted * len(allocation)
    sampled = SAMPLED if cost <= _LARGE // 20 else SAMPLED // 4
    known: dict[bytes, bool] = {}
    full = 0
    for _ in range(sampled):
        gates = None
        while gates is None:
            gates = drawn_gates(problem, network, rng)
        key = b"".join(gate.astype(np.int8).tobytes() for gate in gates.values())
        if key not in known:
            # Twice: a point that misses full rank is rarer than one in a thousand.
            known[key] = any(
                eliminate(point.field, point.columns(allocation)).rank >= wanted
                for point in (PrimePoint(problem, network, rng, gates) for _ in range(2))
            )
        full += known[key]
    return GateShare(full, sampled)
