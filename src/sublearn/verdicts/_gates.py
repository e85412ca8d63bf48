"""Exact ranks of ReLU networks, whose gates are held fixed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
from numpy.typing import ArrayLike

from sublearn._arrays import Array
from sublearn._errors import BadInputError
from sublearn._grades import Grade, weakest
from sublearn._seeds import named_stream
from sublearn.allocations import Allocation
from sublearn.ensembles import Distribution, Normal, Problem, draw_weights
from sublearn.networks import REALS, Network, Trace, Weights, run
from sublearn.verdicts._points import check_options
from sublearn.verdicts._rank import GenericRank, generic_rank

GATED_POINTS = 50
"""At the gates of how many random points a ReLU network is looked at."""

ATTEMPTS = 20


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
        raise BadInputError(f"gates are for networks with ReLU steps, not for {network.spec}.")
    if set(gates) != wanted:
        raise BadInputError(
            f"gates must be given for the steps {sorted(wanted)}, not {sorted(gates)}."
        )
    held = {}
    for position, pattern in gates.items():
        shape = (network.shapes[network.steps[position].weight][0], problem.samples)
        array = np.asarray(pattern, dtype=np.float64)
        if array.shape != shape or not np.isin(array, (0.0, 1.0)).all():
            raise BadInputError(f"the gates of step {position} must be 0 or 1, of shape {shape}.")
        held[position] = array
    return generic_rank(problem, allocation, error=error, seed=seed, gates=held)


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
    problem: Problem, allocation: Allocation, *, error: float, seed: int
) -> GateRanks:
    """The rank at the gates of ``GATED_POINTS`` points, drawn as the ensemble draws them."""
    rng = named_stream(seed, "gates", problem.digest, allocation.digest)
    found = []
    for _ in range(GATED_POINTS):
        gates = occurring_gates(problem, problem.network, rng)
        each = error / GATED_POINTS
        found.append(generic_rank(problem, allocation, error=each, seed=seed, gates=gates))
    ranks = [one.rank for one in found]
    largest = max(ranks)
    grade = weakest(*(one.grade for one in found))
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
    for attempt in count():
        # Tails so heavy that numbers overflow are left out in the end.
        weights, inputs = draw_point(problem, network, rng, plain=attempt >= ATTEMPTS)
        with np.errstate(over="ignore", invalid="ignore"):
            trace = run(network, weights, inputs, REALS)
            if not _beyond_doubt(network, weights, trace):
                continue
        return {
            position: (trace.before[position] > 0).astype(np.float64)
            for position, step in enumerate(network.steps)
            if step.activation == "relu"
        }
    raise AssertionError("the loop has no end")


def _beyond_doubt(network: Network, weights: Weights, trace: Trace) -> bool:
    """Whether every pre-activation of a ReLU step is further from 0 than rounding can have moved it.

    A sum of k products in float64 is off by at most k 2^-53 / (1 - k 2^-53) of the sum of their sizes,
    in any order (Higham, "Accuracy and Stability of Numerical Algorithms", section 3.1). The slack is
    larger by far; it covers inputs that are rounded products, and tanh as numpy computes it. No
    activation stretches an error.
    """
    widest = max(columns for _, columns in network.shapes.values())
    slack = 2.0**-46 * (widest + 16)
    error: Array | float = 0.0
    for position, step in enumerate(network.steps):
        if step.block is not None:
            link = trace.links[position]
            block = np.abs(link.entering if link.encoder is None else link.block)
            size = float(
                block.max(initial=0.0)
            )  # LowRank: a small entry may be a rounded large sum
            injected = np.full_like(block, size)
            if step.encoder is not None:
                injected = np.abs(weights[step.encoder]) @ injected
            error = error + slack * injected
        matrix = np.abs(weights[step.weight])
        error = matrix @ (error + slack * np.abs(trace.entering[position]))
        if step.bias is not None:
            error = error + slack * np.abs(weights[step.bias])
        if step.activation == "relu":
            # No error at all: every unit before it is off, and then the gate makes no difference.
            sure = (np.abs(trace.before[position]) > error) | (error == 0)
            if not sure.all():
                return False
            error = np.where(trace.before[position] > 0, error, 0.0)
        elif step.activation != "linear":
            error = error + slack
    return True
