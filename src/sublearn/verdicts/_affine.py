"""Whether the outputs are affine in the learnable weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sublearn._arrays import Mask
from sublearn.allocations import Allocation
from sublearn.networks import Network, links, walk

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
    weights = {name: (allocation.mask(name), network.existing(name)) for name in network.shapes}
    blocks = [_given(size) for size in network.input_blocks]
    reach: Reach = walk(links(network, blocks, _given(1)), weights, _Paths()).outputs
    return not reach[2].any()


class _Paths:
    """The arithmetic of paths: [c, i] says that some path into unit i uses exactly c learnable weights.

    2 stands for two or more. A weight is the masks of its learnable and of its existing entries.
    """

    def matmul(self, a: tuple[Mask, Mask], b: Reach) -> Reach:
        learnable, exists = a
        frozen = exists & ~learnable
        lines = (
            frozen & b[0],
            (frozen & b[1]) | (learnable & b[0]),
            (exists & b[2]) | (learnable & b[1]),
        )
        return np.stack([line.any(axis=1) for line in lines])

    def add(self, a: Reach, b: Reach) -> Reach:
        return a | b

    def bend(self, position: int, activation: str, before: Reach) -> tuple[Reach, None]:
        return np.stack([before[0], before[1], before[1] | before[2]]), None

    def times(self, number: float, a: Reach) -> Reach:
        return a

    def stack(self, parts: Sequence[Reach]) -> Reach:
        return np.concatenate(parts, axis=1)


def _given(size: int) -> Reach:
    """So many numbers that no weight has come to yet."""
    out = np.zeros((3, size), dtype=bool)
    out[0] = True
    return out
