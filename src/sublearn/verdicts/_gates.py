"""Exact ranks of ReLU networks, whose gates are held fixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sublearn._arrays import Array, Mask
from sublearn._errors import BadInputError
from sublearn._grades import Grade, weakest
from sublearn._seeds import named_stream
from sublearn.allocations import Allocation
from sublearn.ensembles import Distribution, Normal, Problem, draw_weights
from sublearn.networks import ACTIVATIONS, Network, Weights, links, walk
from sublearn.verdicts._points import check_options
from sublearn.verdicts._rank import GenericRank, generic_rank

GATED_POINTS = 50
"""At the gates of how many random points a ReLU network is looked at."""
FEW_POINTS = 5
"""The same for a large network where counting has settled the verdict: its range is told in passing."""

ATTEMPTS = 20
_EPS = float(np.finfo(float).eps)


def gated_rank(
    problem: Problem,
    allocation: Allocation,
    gates: Mapping[int, ArrayLike],
    *,
    error: float = 1e-12,
    seed: int = 0,
) -> GenericRank:
    """Generic rank of the learnable columns when every ReLU is replaced by given 0/1 gates.

    ``gates`` maps the position of each ReLU step in the chain (0 is the first layer) to its (units,
    m) pattern, the P of eq. (5.1). With all gates open this is the linear network's rank.

    >>> import sublearn as sl
    >>> net = sl.FeedForward((5, 4, 2), activation="relu")
    >>> problem = sl.Problem(net, samples=3)
    >>> column = sl.Allocation.from_entries(net, {"W1": [(0, 0), (1, 0), (2, 0), (3, 0), (0, 1), (1, 1)]})
    >>> opened = sl.verdicts.gated_rank(problem, column, {0: [[1, 1, 1]] * 4}).rank
    >>> gates = {0: [[1, 1, 0], [1, 0, 1], [0, 1, 1], [1, 1, 1]]}
    >>> mixed = sl.verdicts.gated_rank(problem, column, gates).rank
    >>> opened, mixed
    (4, 6)
    """
    check_options(error, seed)
    network = problem.network
    wanted = {p for p, step in enumerate(network.steps) if step.activation != "linear"}
    if not network.is_piecewise_linear or not wanted:
        raise BadInputError(f"gates are for networks with ReLU steps, not for {network.title}.")
    if set(gates) != wanted:
        raise BadInputError(
            f"gates must be given for the steps {sorted(wanted)}, not {sorted(gates)}."
        )
    masks = {}
    for position, pattern in gates.items():
        shape = (network.shapes[network.steps[position].weight][0], problem.samples)
        array = np.asarray(pattern, dtype=np.float64)
        if array.shape != shape or not np.isin(array, (0.0, 1.0)).all():
            raise BadInputError(f"the gates of step {position} must be 0 or 1, of shape {shape}.")
        masks[position] = array
    return generic_rank(problem, allocation, error=error, seed=seed, gates=masks)


@dataclass(frozen=True)
class GateRanks:
    """Exact ranks of the learnable columns at the gates of random points, the gates held fixed.

    ``smallest`` and ``largest`` over the ``sampled`` gates, and at how many of them the rank is
    ``largest``. All of these gates occur with positive probability, so a match that the largest rank
    allows is no accident of measure zero. Gates that were not sampled may have other ranks.
    """

    sampled: int
    smallest: int
    largest: int
    at_largest: int
    grade: Grade

    def to_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        return {**vars(self), "grade": self.grade.to_dict()}


def ranks_at_gates(
    problem: Problem, allocation: Allocation, *, error: float, seed: int, points: int = GATED_POINTS
) -> GateRanks:
    """The rank at the gates of so many points, drawn as the ensemble draws them."""
    rng = named_stream(seed, "gates", problem.digest, allocation.digest)
    generic = []
    for _ in range(points):
        gates = occurring_gates(problem, problem.network, rng)
        each = error / points
        generic.append(generic_rank(problem, allocation, error=each, seed=seed, gates=gates))
    ranks = [one.rank for one in generic]
    largest = max(ranks)
    grade = weakest(*(one.grade for one in generic))
    return GateRanks(len(ranks), min(ranks), largest, ranks.count(largest), grade)


def draw_point(
    problem: Problem, network: Network, rng: np.random.Generator, *, plain: bool = False
) -> tuple[dict[str, Array], Array]:
    """Weights of ``network`` and inputs, as the ensemble draws them (appendix E.3 scaling).

    Laws without a density are replaced by Gaussians, as all are if ``plain``: what is generic is not seen
    at their points. Scales beyond 2^20 would only bring float64 to its limits, so they stop there.
    """
    laws: list[Distribution] = []
    for law in (problem.ensemble.weights, problem.ensemble.inputs):
        usable = law.has_density and not plain
        laws.append(replace(law, g=min(max(law.g, 2.0**-20), 2.0**20)) if usable else Normal())
    weights = draw_weights(network, laws[0], rng)
    return weights, laws[1].draw(rng, network.input_shape(problem.samples))


def occurring_gates(
    problem: Problem, network: Network, rng: np.random.Generator
) -> dict[int, Array]:
    """The gates of a random point, all of them beyond doubt: they hold in a neighbourhood of it."""
    # Tails so heavy that numbers overflow are left out in the end.
    plain = (attempt >= ATTEMPTS for attempt in count())
    drawn = (drawn_gates(problem, network, rng, plain=only) for only in plain)
    return next(gates for gates in drawn if gates is not None)


def drawn_gates(
    problem: Problem, network: Network, rng: np.random.Generator, *, plain: bool = False
) -> dict[int, Array] | None:
    """The gates of one :func:`draw_point`; None if rounding leaves doubt."""
    weights, inputs = draw_point(problem, network, rng, plain=plain)
    settled = settled_gates(network, weights, inputs, doubt_of(problem, inputs))
    return None if settled is None else settled[0]


@np.errstate(over="ignore", invalid="ignore")
def settled_gates(
    network: Network, weights: Weights, inputs: Array, doubt: float = 0.0
) -> tuple[dict[int, Array], dict[int, Mask]] | None:
    """The gates of every ReLU step at a point, and where they are free; None if rounding leaves doubt.

    Every number carries a bound on its rounding error (Higham 2002, section 3.1, doubled to cover the
    rounding of the bound), inputs that of ``doubt``; no activation stretches an error. A gate is free
    where nothing reaches the unit, for all weights nearby: its pre-activation is exactly 0, and so is
    all that the gate multiplies.
    """
    blocks = [_Rounded(block, np.full_like(block, doubt)) for block in network.split_inputs(inputs)]
    numbers = _Rounding()
    walk(links(network, blocks, _Rounded(np.ones((1, 1)), np.zeros((1, 1)))), weights, numbers)
    return (numbers.gates, numbers.free) if numbers.settled else None


class _Rounded(NamedTuple):
    """A matrix as float64 has it, and bounds on the errors of its entries."""

    value: Array
    error: Array


class _Rounding:
    """The arithmetic of rounded matrices, which notes the gates that it meets; a weight is exact."""

    def __init__(self) -> None:
        self.gates: dict[int, Array] = {}
        self.free: dict[int, Mask] = {}
        self.settled = True

    def matmul(self, a: Array, b: _Rounded) -> _Rounded:
        error = np.abs(a) @ (b.error + (a.shape[1] + 2) * _EPS * np.abs(b.value))
        return _Rounded(a @ b.value, error)

    def add(self, a: _Rounded, b: _Rounded) -> _Rounded:
        value = a.value + b.value
        return _Rounded(value, a.error + b.error + _EPS * np.abs(value))

    def bend(self, position: int, activation: str, before: _Rounded) -> tuple[_Rounded, None]:
        value, error = before
        bent = ACTIVATIONS[activation].value(value)
        if activation != "relu":
            return _Rounded(bent, error + 8 * _EPS), None  # of tanh as numpy computes it
        silent = (value == 0) & (error == 0)
        self.settled &= bool((silent | (np.abs(value) > 2 * error)).all())
        self.gates[position], self.free[position] = (value > 0).astype(np.float64), silent
        return _Rounded(bent, error * self.gates[position]), None

    def times(self, number: float, a: _Rounded) -> _Rounded:
        return _Rounded(number * a.value, number * (a.error + 2 * _EPS * np.abs(a.value)))

    def stack(self, parts: Sequence[_Rounded]) -> _Rounded:
        return parts[-1]  # no gate comes behind what is put out


def doubt_of(problem: Problem, inputs: Array) -> float:
    """What rounding does to inputs that are a product: the point meant has the product itself."""
    if problem.ensemble.inputs.inner is None:
        return 0.0
    return 1e-12 * float(np.abs(inputs).max())
