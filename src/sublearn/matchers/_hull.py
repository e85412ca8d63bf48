"""What the outputs of one sample can be together, where the readout is frozen.

What enters the readout W lies in a box, so a sample's outputs lie in the image of a box, a zonotope. A
target outside of it is separated by a direction v: v.y exceeds the largest v.(W h + bias) over the box,
which is a sum over the entries of h. A linear program in float64 finds v; the inequality is then
checked in balls, so that nothing rests on the program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sublearn._arrays import Array
from sublearn.matchers._ranges import BITS, Range, ranges
from sublearn.matchers.proofs._balls import BALLS, Ball, precision, wanted

if TYPE_CHECKING:
    from sublearn.ensembles import Instance


SMALLEST_GAP = 1e-9  # of the targets' size: below it the program has found nothing


def out_of_hull(instance: Instance) -> str | None:
    """Why the outputs of some sample are reached by no values of the learnable weights, or None.

    >>> import numpy as np, sublearn as sl
    >>> net = sl.FeedForward((2, 2, 2), activation="tanh")
    >>> weights = {"W1": np.zeros((2, 2)), "W2": np.array([[1.0, 1.0], [1.0, -1.0]])}
    >>> targets = np.array([[1.5], [1.5]])   # each alone is within reach
    >>> first = sl.Allocation.whole(net, ["W1"])
    >>> out_of_hull(sl.Instance(net, first, weights, np.ones((2, 1)), targets))
    'the outputs of sample 0 exceed what the frozen readout can give in one direction by 1'
    """
    network, allocation = instance.network, instance.allocation
    last = network.steps[-1]
    touched = {last.weight, last.bias, last.encoder if last.block is not None else None}
    if last.activation == "relu" or touched & set(allocation.names):
        return None
    with precision(BITS):
        state = ranges(instance, entering_last=True)
        wanted = _wanted(instance, last.activation)
        if wanted is None:
            return None
        offset = instance.weights[last.bias] if last.bias is not None else None
        for s in range(instance.samples):
            gap = _gap(instance.weights[last.weight], offset, state, wanted, s)
            if gap is not None:
                return (
                    f"the outputs of sample {s} exceed what the frozen readout can give in one "
                    f"direction by {gap:.3g}"
                )
    return None


def _wanted(instance: Instance, activation: str) -> list[list[Ball]] | None:
    """The targets before the output activation, by output; None where one has no preimage."""
    from sublearn.matchers._behind import before_output

    m = instance.samples
    flat = before_output(activation, wanted(instance, BALLS).entries())
    if not all(e.is_finite() for e in flat):
        return None
    return [flat[o * m : (o + 1) * m] for o in range(instance.network.output_size)]


def _gap(
    readout: Array, offset: Array | None, state: Range, wanted: list[list[Ball]], s: int
) -> float | None:
    """A lower bound of the distance in the separating direction, or None if it is not certain."""
    target = [row[s] for row in wanted]
    if offset is not None:
        exact = BALLS.exact(offset).entries()
        target = [y - b for y, b in zip(target, exact, strict=True)]
    m = state.no_low.shape[1]
    low, high = state.low.entries()[s::m], state.high.entries()[s::m]
    direction = _direction(readout, state, s, low, high, target)
    if direction is None:
        return None
    v = BALLS.exact(direction[None, :])
    along = (v * BALLS.exact(readout)).entries()
    most: Ball = 0
    for i, slope in enumerate(along):
        if slope.is_zero():
            continue
        if state.no_high[i, s] or state.no_low[i, s]:
            # An end at infinity is harmless only where the slope certainly points away from it.
            if (state.no_high[i, s] and not slope < 0) or (state.no_low[i, s] and not slope > 0):
                return None
            most = most + slope * (low[i] if slope < 0 else high[i])
        else:
            most = most + (slope * low[i]).max(slope * high[i])
    gap = sum((y * x for y, x in zip(v.entries(), target, strict=True)), start=-most)
    return float(gap.lower()) if gap > 0 else None


def _direction(
    readout: Array, state: Range, s: int, low: list[Ball], high: list[Ball], target: list[Ball]
) -> Array | None:
    """The dual solution of: reach the target from the box with the least error, in float64."""
    from scipy.optimize import linprog

    y = np.array([float(e.mid()) for e in target])
    d, n = readout.shape
    bounds = [
        (
            None if state.no_low[i, s] else float(low[i].lower()),
            None if state.no_high[i, s] else float(high[i].upper()),
        )
        for i in range(n)
    ]
    eye = np.eye(d)
    found = linprog(
        np.r_[np.zeros(n), np.ones(2 * d)],
        A_eq=np.hstack([readout, eye, -eye]),
        b_eq=y,
        bounds=[*bounds, *[(0.0, None)] * (2 * d)],
        method="highs",
    )
    if found.status != 0 or not found.fun > SMALLEST_GAP * max(float(np.abs(y).max()), 1e-300):
        return None
    return np.asarray(found.eqlin.marginals, dtype=np.float64)
