"""How many patterns leave the linear system of full rank."""

from __future__ import annotations

from itertools import product

import numpy as np

from sublearn._errors import BadInputError
from sublearn.allocations import Allocation
from sublearn.ensembles import Problem
from sublearn.patterns._pattern import enough_rows, enough_samples
from sublearn.patterns._shallow import learnable_rows, require_shallow
from sublearn.verdicts import gated_rank

MOST_BITS = 16


def full_rank_patterns(problem: Problem, allocation: Allocation, *, seed: int = 0) -> int:
    """The number of patterns of the k learnable rows whose linear system (5.1) has generic rank d m.

    Lemmas D.3 and D.4 are necessary for that, not sufficient: what is left depends on which columns
    are learnable, not only on how many there are in each row. Every pattern that passes both is put
    to :func:`gated_rank`; k m may be at most 16.

    >>> import sublearn as sl
    >>> problem = sl.Problem(sl.FeedForward((2, 2, 1), activation="relu"), samples=2)
    >>> held = sl.Allocation.from_entries(problem.network, {"W1": [(0, 0), (1, 0)]})
    >>> sl.patterns.full_rank_patterns(problem, held), sl.patterns.pattern_counts(1, 2, [1, 1]).both
    (6, 7)
    """
    layers = require_shallow(problem.network, allocation)
    rows = learnable_rows(allocation)
    k, m, d = len(rows), problem.samples, problem.network.output_size
    if not rows:
        raise BadInputError("the allocation has no learnable weight (r = 0).")
    if k * m > MOST_BITS:
        raise BadInputError(
            f"k m = {k * m} gives 2^{k * m} patterns; at most 2^{MOST_BITS} are listed."
        )
    gates = np.ones((layers.sizes[1], m))
    count = 0
    for bits in product((0.0, 1.0), repeat=k * m):
        gates[list(rows)] = np.array(bits).reshape(k, m)
        pattern = gates[list(rows)]
        if enough_rows(pattern, d) and enough_samples(pattern, list(rows.values()), d):
            count += gated_rank(problem, allocation, {0: gates}, seed=seed).rank == d * m
    return count
