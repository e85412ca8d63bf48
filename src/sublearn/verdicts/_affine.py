"""Whether the outputs are affine in the learnable weights."""

from __future__ import annotations

import numpy as np

from sublearn._arrays import Mask
from sublearn.allocations import Allocation
from sublearn.networks import Network

Reach = Mask


def is_affine(network: Network, allocation: Allocation) -> bool:
    """Whether every output is an affine function of the learnable weights, the others fixed.

    An output is a sum over paths from an input to it, each path a product of the weights it uses. All
    these products have positive coefficients (1, or powers of leaks), so none cancel: the outputs of a
    linear chain are affine exactly if no path uses two learnable weights, or one twice. Where an
    activation is not linear, no learnable weight may come before it. Both are counted here over the
    chain, without drawing anything, so the answer is exact.

    >>> import sublearn as sl
    >>> net = sl.LinearRNN(n=3, b=1, d=2, T=2)
    >>> is_affine(net, sl.Allocation.whole(net, ["D"])), is_affine(net, sl.Allocation.whole(net, ["W"]))
    (True, False)
    """
    # reach[c, i]: some path into unit i uses exactly c learnable weights (2: two or more).
    reach: Reach | None = None

    def through(name: str, reach: Reach) -> Reach:
        learnable, exists = allocation.mask(name), network.connections.get(name, True)
        frozen = exists & ~learnable
        out = np.empty((3, learnable.shape[0]), dtype=bool)
        out[0] = (frozen & reach[0]).any(axis=1)
        out[1] = ((frozen & reach[1]) | (learnable & reach[0])).any(axis=1)
        out[2] = ((exists & reach[2]) | (learnable & reach[1])).any(axis=1)
        return out

    for step in network.steps:
        old, driven = reach, None
        if step.block is not None:
            entering = _given(network.input_blocks[step.block])
            if step.drive is not None:
                driven = through(step.drive, entering)
            else:
                if step.encoder is not None:
                    entering = through(step.encoder, entering)
                reach = entering if reach is None else reach | entering
        reach = through(step.weight, _given(1) if reach is None else reach)
        if driven is not None:
            reach |= driven
        if step.bias is not None:
            reach |= through(step.bias, _given(1))
        if step.activation != "linear":
            reach[2] |= reach[1]
        if step.aside:
            if reach[2].any():
                return False
            reach = old
        elif step.kept and old is not None:
            reach |= old
    assert reach is not None
    return not reach[2].any()


def _given(size: int) -> Reach:
    """So many numbers that no weight has come to yet."""
    out = np.zeros((3, size), dtype=bool)
    out[0] = True
    return out
