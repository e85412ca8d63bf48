"""Exact rank of a ReLU network whose gates are held fixed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from sublearn._errors import BadInputError
from sublearn.allocations import Allocation
from sublearn.ensembles import Problem
from sublearn.exact import eliminate
from sublearn.verdicts._points import Point, check_options, generator, miss_probability
from sublearn.verdicts._rank import GenericRank, generic_rank, points_needed


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
    >>> opened = sl.gated_rank(problem, column, {0: [[1, 1, 1]] * 4}).rank
    >>> mixed = sl.gated_rank(problem, column, {0: [[1, 1, 0], [1, 0, 1], [0, 1, 1], [1, 1, 1]]}).rank
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


def rank_over_gates(problem: Problem, allocation: Allocation, *, error: float, seed: int) -> int:
    """An upper bound on the rank of a ReLU network's learnable columns, for all gates at once.

    It is the generic rank when every gate may be any number: a pattern of 0 and 1 is a special value
    of the gates, and at special values a rank can only fall. Too small with probability at most
    ``error``.
    """
    network = problem.network
    rng = generator(seed, "free gates", problem.digest, allocation.digest)
    # Gates at most double the degree of the outputs, hence of the minors.
    miss = 2 * miss_probability(problem, network, min(len(allocation), problem.equations))
    points = (
        Point(problem, network, rng, free_gates=True) for _ in range(points_needed(miss, error))
    )
    return max(eliminate(point.field, point.columns(allocation)).rank for point in points)
