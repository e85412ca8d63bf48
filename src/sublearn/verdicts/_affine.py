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
    these products have coefficient +1, so none cancel: the outputs of a linear chain are affine
    exactly if no path uses two learnable weights, or one twice. Where an activation is not linear,
    no learnable weight may come before it. Both are counted here over the chain, without drawing
    anything, so the answer is exact.

    >>> import sublearn as sl
    >>> net = sl.LinearRNN(n=3, b=1, d=2, T=2)
    >>> is_affine(net, sl.Allocation.whole(net, ["D"])), is_affine(net, sl.Allocation.whole(net, ["W"]))
    (True, False)
    """
    # reach[c, i]: some path into unit i uses exactly c learnable weights (2: two or more).
    reach: Reach | None = None
    for step in network.steps:
        if step.block is not None:
            size = network.input_blocks[step.block]
            entering = np.zeros((3, size), dtype=bool)
            entering[0] = True
            if step.encoder is not None:
                entering = _through(allocation.mask(step.encoder), entering)
            reach = entering if reach is None else reach | entering
        assert reach is not None
        reach = _through(allocation.mask(step.weight), reach)
        if step.bias is not None:
            learnable = allocation.mask(step.bias)[:, 0]
            reach[0] |= ~learnable
            reach[1] |= learnable
        if step.activation != "linear":
            reach[2] |= reach[1]
        # A path goes on to every unit of the next step, by a weight that is learnable or not.
        if reach[2].any():
            return False
    return True


def _through(learnable: Mask, reach: Reach) -> Reach:
    frozen = ~learnable
    out = np.empty((3, learnable.shape[0]), dtype=bool)
    out[0] = (frozen & reach[0]).any(axis=1)
    out[1] = ((frozen & reach[1]) | (learnable & reach[0])).any(axis=1)
    out[2] = (reach[2] | (learnable & reach[1])).any(axis=1)
    return out
