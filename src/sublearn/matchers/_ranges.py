"""What the outputs can be at all: ranges over every value of the learnable weights.

A pre-activation that a learnable weight touches can be any real number; behind tanh it lies in (-1, 1),
behind a sigmoid in (0, 1), behind a ReLU in [0, inf). Frozen layers carry such ranges on. Every use of
a weight is treated as if it were a weight of its own, which can only widen the ranges, so a target
outside of them is reached by no values: a proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sublearn._arrays import Array, Mask
from sublearn.ensembles import Instance
from sublearn.matchers.proofs._balls import (
    BALLS,
    BENT,
    Ball,
    BallMatrix,
    input_blocks,
    precision,
    wanted,
)
from sublearn.networks import links, walk

BITS = 128
# The open or closed interval that an activation's values fill, by name; None: no bound.
IMAGES: dict[str, tuple[float | None, float | None]] = {
    "linear": (None, None),
    "relu": (0.0, None),
    "tanh": (-1.0, 1.0),
    "sigmoid": (0.0, 1.0),
}
# Whether the ends of that interval are never reached.
OPEN = {"tanh", "sigmoid"}


@dataclass(frozen=True)
class Range:
    """Lower and upper ends (n, m) as balls, and where they are infinite (their balls are then 0)."""

    low: BallMatrix
    high: BallMatrix
    no_low: Mask
    no_high: Mask

    @property
    def fixed(self) -> Mask:
        """Entries that are known to be exactly 0."""
        shape = self.no_low.shape
        zero = [
            bool(a.is_zero() and b.is_zero())
            for a, b in zip(self.low.entries(), self.high.entries(), strict=True)
        ]
        return np.array(zero).reshape(shape) & ~self.no_low & ~self.no_high


def out_of_range(instance: Instance) -> str | None:
    """Why some target is reached by no values of the learnable weights, or None.

    >>> import numpy as np, sublearn as sl
    >>> net = sl.FeedForward((2, 3, 1), activation="sigmoid")
    >>> weights = {"W1": np.zeros((3, 2)), "W2": np.array([[1.0, -1.0, 0.5]])}
    >>> all_first = sl.Allocation.whole(net, ["W1"])
    >>> out_of_range(sl.Instance(net, all_first, weights, np.ones((2, 1)), np.array([[1.75]])))
    'output 0 of sample 0 lies in [-1, 1.5] whatever the learnable weights are; its target is 1.75'
    """
    with precision(BITS):
        final, last = ranges(instance), instance.network.steps[-1].activation
        targets = wanted(instance, BALLS).entries()
        entry = beyond(final, targets)
        first, second = IMAGES[last]
        if last in OPEN and first is not None and second is not None:
            # The ends of an open image are exact numbers, which no pre-activation reaches.
            ends = (at for at, x in enumerate(targets) if x <= first or x >= second)
            entry = min((at for at in (entry, next(ends, None)) if at is not None), default=None)
        if entry is None:
            return None
        o, s = divmod(entry, instance.samples)
        left = "-inf" if final.no_low[o, s] else f"{float(final.low[o, s].mid()):.6g}"
        right = "inf" if final.no_high[o, s] else f"{float(final.high[o, s].mid()):.6g}"
        shown = f"({left}, {right})" if last in OPEN else f"[{left}, {right}]"
        return (
            f"output {o} of sample {s} lies in {shown} whatever the learnable weights are; its target is "
            f"{float(instance.targets[o, s]):.6g}"
        )


def beyond(final: Range, targets: Sequence[Ball], room: Ball = 0) -> int | None:
    """The first target, by (output, sample), that is certainly farther than ``room`` from its range."""
    ends = zip(targets, final.low.entries(), final.high.entries(), strict=True)
    bounded = zip(~final.no_low.ravel(), ~final.no_high.ravel(), strict=True)
    for at, ((target, low, high), (below, above)) in enumerate(zip(ends, bounded, strict=True)):
        if (below and low - target > room) or (above and target - high > room):
            return at
    return None


def ranges(instance: Instance, entering_last: bool = False) -> Range:
    """Ranges of the outputs, or of what enters the last step, at the working precision."""
    network, allocation = instance.network, instance.allocation
    weights = {name: (instance.weights[name], allocation.mask(name)) for name in network.shapes}
    blocks = [_exact(block) for block in input_blocks(instance, BALLS)]
    ones = _exact(BALLS.exact(np.ones((1, instance.samples))))
    trace = walk(links(network, blocks, ones), weights, _Ranges())
    out: Range = trace.entering[-1] if entering_last else trace.outputs
    return out


class _Ranges:
    """The arithmetic of ranges; a weight is a matrix and the mask of its learnable entries."""

    def matmul(self, a: tuple[Array, Mask], b: Range) -> Range:
        return _through(*a, b)

    def add(self, a: Range, b: Range) -> Range:
        return Range(a.low + b.low, a.high + b.high, a.no_low | b.no_low, a.no_high | b.no_high)

    def bend(self, position: int, activation: str, before: Range) -> tuple[Range, None]:
        return _bent(before, activation), None

    def times(self, number: float, a: Range) -> Range:
        return Range(a.low * number, a.high * number, a.no_low, a.no_high)  # leaks are not negative

    def stack(self, parts: Sequence[Range]) -> Range:
        return Range(
            BALLS.stacked([part.low for part in parts]),
            BALLS.stacked([part.high for part in parts]),
            np.vstack([part.no_low for part in parts]),
            np.vstack([part.no_high for part in parts]),
        )


def _exact(matrix: BallMatrix) -> Range:
    none = np.zeros((matrix.nrows(), matrix.ncols()), dtype=bool)
    return Range(matrix, matrix, none, none)


def _through(weights: Array, learnable: Mask, state: Range) -> Range:
    """The ranges of W state; the learnable entries of W are 0 there and may be anything."""
    up, down = np.maximum(weights, 0.0), np.minimum(weights, 0.0)
    plus, minus = BALLS.exact(up), BALLS.exact(down)
    anything = (learnable @ ~state.fixed).astype(bool)
    return Range(
        plus * state.low + minus * state.high,
        plus * state.high + minus * state.low,
        anything | ((up > 0) @ state.no_low) | ((down < 0) @ state.no_high),
        anything | ((up > 0) @ state.no_high) | ((down < 0) @ state.no_low),
    )


def _bent(state: Range, activation: str) -> Range:
    """The image under an increasing activation."""
    first, second = IMAGES[activation]
    bend = BENT[activation]

    def ends(matrix: BallMatrix, infinite: Mask, end: float | None) -> BallMatrix:
        from flint import arb

        spare = arb(0 if end is None else end)
        flat = [
            spare if lost else bend(e)[0]
            for e, lost in zip(matrix.entries(), infinite.ravel(), strict=True)
        ]
        return BALLS.matrix(matrix.nrows(), matrix.ncols(), flat)

    # No activation is bounded above and not below.
    return Range(
        ends(state.low, state.no_low, first),
        ends(state.high, state.no_high, second),
        np.zeros_like(state.no_low),
        state.no_high if second is None else np.zeros_like(state.no_high),
    )
