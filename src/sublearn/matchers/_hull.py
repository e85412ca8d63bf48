"""What the outputs of one sample can be together, where rows of the readout are frozen.

What enters the readout W lies in a box, so a sample's outputs lie in the image of a box, a zonotope. Bands
around targets (of width 0, where a match is asked for) that miss it are separated by a direction v: the
least v.z over the bands exceeds the largest v.(W h + bias) over the box, which is a sum over the entries
of h. A linear program in float64 finds v; the inequality is then checked in balls, so that nothing
rests on the program.
"""

from __future__ import annotations

import numpy as np

from sublearn._arrays import Array, Indices
from sublearn.ensembles import Instance
from sublearn.matchers._behind import before_output
from sublearn.matchers._ranges import BITS, ranges
from sublearn.matchers.proofs._balls import BALLS, middles, precision, wanted
from sublearn.matchers.within._bands import Bands

MARGIN = 1e-7  # by which a direction is kept away from what is infinite


def out_of_hull(instance: Instance) -> str | None:
    """Why the outputs of some sample are reached by no values of the learnable weights, or None.

    >>> import numpy as np, sublearn as sl
    >>> net = sl.FeedForward((2, 2, 2), activation="tanh")
    >>> weights = {"W1": np.zeros((2, 2)), "W2": np.array([[1.0, 1.0], [1.0, -1.0]])}
    >>> targets = np.array([[1.5], [1.5]])   # each alone is within reach
    >>> first = sl.Allocation.whole(net, ["W1"])
    >>> out_of_hull(sl.Instance(net, first, weights, np.ones((2, 1)), targets))
    'the outputs of sample 0, together, are out of reach of the frozen rows of the readout'
    """
    activation = instance.network.steps[-1].activation
    if activation == "relu":
        return None
    with precision(BITS):
        targets = before_output(activation, wanted(instance, BALLS).entries())
        if not all(target.is_finite() for target in targets):
            return None
        none = np.zeros(len(targets), dtype=bool)
        s = sample_out_of_hull(instance, Bands(targets, targets, none, none))
    if s is None:
        return None
    return (
        f"the outputs of sample {s}, together, are out of reach of the frozen rows of the readout"
    )


def sample_out_of_hull(instance: Instance, allowed: Bands) -> int | None:
    """A sample whose bands miss all that its outputs can be together, for certain, or None."""
    network, allocation = instance.network, instance.allocation
    if any(step.aside for step in network.steps):
        return None  # the last readout is one of several
    last = network.steps[-1]
    weight = np.asarray(instance.weights[last.weight])
    free = allocation.mask(last.weight).any(axis=1)
    offset = np.zeros((len(weight), 1))
    if last.bias is not None:
        free = free | allocation.mask(last.bias)[:, 0]
        offset = np.asarray(instance.weights[last.bias])
    kept = np.flatnonzero(~free)
    if not kept.size:
        return None
    box, m = ranges(instance, entering_last=True), instance.samples
    low, high = box.low.entries(), box.high.entries()
    for s in range(m):
        inside = Bands(low[s::m], high[s::m], box.no_low[:, s], box.no_high[:, s])
        if _separated(weight[kept], offset[kept, 0], inside, allowed.select(kept * m + s)):
            return s
    return None


def _separated(weight: Array, offset: Array, box: Bands, allowed: Bands) -> bool:
    """Whether a direction v has min over the bands of v.z > max over the box of v.(W h + b)."""
    v = _direction(weight, offset, box, allowed)
    if v is None:
        return False
    along = BALLS.exact(v[None, :])
    least = allowed.least(along.entries())
    most = box.least((along * BALLS.exact(-weight)).entries())  # with the sign turned
    if least is None or most is None:
        return False
    return bool(least + most > (along * BALLS.exact(offset[:, None]))[0, 0])


def _direction(weight: Array, offset: Array, box: Bands, allowed: Bands) -> Array | None:
    """v = l - u, l and u >= 0 of size at most 1, with the largest gap; in float64.

    Unknowns: l, u, and p_i >= v.W_i h for both ends h of entry i. Where an end is infinite the slope
    must point away from it, with a margin, so that rounding cannot turn it.
    """
    from scipy.optimize import linprog

    d, n = weight.shape
    lows, highs = (middles(ends) - offset for ends in (allowed.low, allowed.high))
    size = max(float(np.abs(np.r_[lows, highs]).max()), 1e-300)
    widest = np.abs(weight).max(axis=0)
    used: Indices = np.flatnonzero(widest > 0)
    rows, right = [], []
    for sign, ends, infinite in ((1.0, box.high, box.no_high), (-1.0, box.low, box.no_low)):
        values = middles(ends) / size
        for i in used.tolist():
            factor, inside, bound = values[i], -1.0, 0.0
            if infinite[i]:
                factor, inside, bound = sign, 0.0, -MARGIN * widest[i]
            row = np.zeros(2 * d + n)
            row[:d], row[d : 2 * d] = factor * weight[:, i], -factor * weight[:, i]
            row[2 * d + i] = inside
            rows.append(row)
            right.append(bound)
    goal = np.r_[-lows / size, highs / size, np.zeros(n)]
    goal[2 * d + used] = 1.0
    limits = [(0.0, 0.0 if lost else 1.0) for lost in (*allowed.no_low, *allowed.no_high)]
    if not (np.isfinite(goal).all() and np.isfinite(rows).all()):
        return None
    solved = linprog(
        goal,
        A_ub=np.array(rows) if rows else None,
        b_ub=np.array(right) if rows else None,
        bounds=[*limits, *[(None, None)] * n],
        method="highs",
    )
    if solved.status != 0 or not solved.fun < -1e-12:
        return None
    return np.asarray(solved.x[:d] - solved.x[d : 2 * d], dtype=np.float64)
