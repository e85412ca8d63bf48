"""The cheap proof: polish in pairs of float64 numbers, test in float64 with counted roundings.

It decides most roots that a search finds, at a tenth of the cost of balls at 106 bits. It fails where
the conditioning exceeds float64, and on long chains, whose a priori bounds grow with every step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sublearn._arrays import Array, Indices
from sublearn.ensembles import Instance
from sublearn.matchers._packed import packed, unknowns
from sublearn.matchers.proofs._balls import BALLS, precision, wanted
from sublearn.matchers.proofs._doubles import (
    FLOOR,
    RADIUS,
    SLACK,
    VALUE,
    Doubles,
    bound_moves,
    descend,
    doubles,
    inflate,
    jacobian,
    residual,
)
from sublearn.matchers.proofs._krawczyk import finite_inverse
from sublearn.networks import Network

RESTARTS = 6  # of Newton's method, each with a new inverse
LARGEST_WORK = 2**20
PAIR_BITS = 212


def packed_doubles(
    network: Network, weights: Mapping[str, Array], inputs: Array, targets: Array
) -> Doubles | None:
    """The chain of a network with no free weights; ``targets`` are (hi, lo, error), (3, d, m).

    None where there are too many operations behind one bound: SLACK covers fewer than 2^20.
    """
    chain = packed(network)
    steps, block = len(chain.table), max(network.input_blocks)
    widest = max(max(shape) for shape in chain.shapes.values())
    if (steps + 2) * (widest + block + 8) >= LARGEST_WORK:
        return None
    # At most a block and a bias per step.
    terms = steps * (block + 1)
    return doubles(chain.table, widest, terms, chain.flatten(weights), inputs, targets)


def free(chain: Doubles, instance: Instance, positions: Indices, values: Array) -> Doubles:
    """The same with the learnable weights set to ``values``, those at some positions free to vary."""
    network, allocation = instance.network, instance.allocation
    everywhere, uses = unknowns(network, allocation)
    chain.weights[VALUE, everywhere] = values
    at = everywhere
    if positions.size < values.size:
        at, uses = unknowns(network, allocation, positions)
    return chain._replace(at=at, uses=uses)


def jacobian_over(chain: Doubles, high: Array, radius: Array | float) -> Array:
    """(midpoint, radius) of the Jacobian over the box of ``radius`` around ``high``."""
    chain.weights[VALUE, chain.at], chain.weights[RADIUS, chain.at] = high, radius
    out = np.zeros((2, chain.residual[0].size, high.size))
    jacobian(chain, out)
    return out


@dataclass(frozen=True)
class Quick:
    """What the quick proof came to: the point hi + lo, and a box around it if the test holds."""

    high: Array
    low: Array
    radius: Array | None = None
    near: bool = False  # whether Newton's method came so near that about 106 bits may be enough


def quick_proof(instance: Instance, positions: Indices, values: Array, low: Array) -> Quick:
    """Try the Krawczyk test around ``values + low`` at some positions, the others held.

    Without a proof, the point is the best that was reached: the start, if Newton's method did not
    converge.
    """
    start = Quick(values[positions], low[positions])
    if instance.inputs_are_rounded:
        return start
    targets = target_pairs(instance)
    chain = packed_doubles(instance.network, instance.weights, instance.inputs, targets)
    if chain is None:
        return start
    chain = free(chain, instance, positions, values)
    high, rest = _split(start.high, start.low)
    room = np.zeros((high.size + 3, high.size))
    for _ in range(RESTARTS):
        slopes = jacobian_over(chain, high, 0.0)
        inverse = finite_inverse(slopes[0])
        if inverse is None:
            return start
        converged = descend(chain, inverse, high, rest, room[0])
        if not (np.isfinite(high).all() and np.isfinite(rest).all()):
            return start
        if converged:
            break
    else:
        return start
    radius = np.zeros(high.size)
    widest = bound_moves(inverse, chain.residual.reshape(3, -1), high, radius)
    if not widest < 2.0**-10 * np.abs(high).max():
        return Quick(high, rest)
    # The low parts belong to the distance from the midpoint of the Jacobian.
    over_box = jacobian_over(chain, high, (widest + np.abs(rest)) * SLACK)
    if inflate(inverse, over_box, widest, radius, room):
        return Quick(high, rest, radius, near=True)
    # Rounding of the slopes shrinks with more bits; what the width of the box does to them only
    # shrinks with the box, which is as wide at 106 bits.
    width = np.abs(inverse) @ (over_box[1] - slopes[1]).sum(axis=1)
    return Quick(high, rest, near=bool(width.max() < 2.0**8))


def rehearse() -> None:
    """A tiny proof, so that its machine code is there for others."""
    from sublearn.allocations import Allocation
    from sublearn.networks import FeedForward

    network = FeedForward((1, 1))
    (name,) = network.shapes
    weights, inputs, at = {name: np.ones((1, 1))}, np.ones((1, 1)), np.zeros(1, np.int64)
    whole = Allocation.whole(network)
    instance = Instance(network, whole, weights, inputs, np.full((1, 1), 2.0))
    quick_proof(instance, at, np.full(1, 2.0), np.zeros(1))


def target_pairs(instance: Instance) -> Array:
    """The targets as (hi, lo, error), (3, d, m): |true - hi - lo| <= error."""
    out = np.zeros((3, *instance.targets.shape))
    out[0] = instance.targets
    if instance.asking is None:
        return out
    teacher, inputs = instance.teacher, instance.inputs
    if teacher is not None and teacher.network.is_linear and teacher.network.is_plain:
        # The outputs of the teacher: what its chain leaves where nothing is asked of it.
        chain = packed_doubles(teacher.network, teacher.weights, inputs, np.zeros_like(out))
        if chain is not None:
            residual(chain)
            return chain.residual
    with precision(PAIR_BITS):
        for place, ball in zip(
            np.ndindex(*instance.targets.shape), wanted(instance, BALLS).entries(), strict=True
        ):
            high = float(ball.mid())
            low = float((ball - high).mid())
            rest = abs(ball - high - low).upper()
            out[(slice(None), *place)] = high, low, float(rest) * SLACK + FLOOR
    return out


def _split(one: Array, two: Array) -> tuple[Array, Array]:
    """hi = one + two rounded, lo = what rounding lost, exactly (Knuth): so |lo| <= u |hi|."""
    with np.errstate(all="ignore"):
        total = one + two
        virtual = total - one
        return total, (one - (total - virtual)) + (two - virtual)
