"""A network's packed table and the places of its learnable weights in it, made once for many instances."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sublearn._arrays import Indices
from sublearn.allocations import Allocation
from sublearn.networks import Network, pack

packed = lru_cache(maxsize=64)(pack)


@lru_cache(maxsize=64)
def _unknowns(network: Network, allocation: Allocation) -> tuple[Indices, Indices]:
    table = packed(network)
    return table.labels_at(allocation), table.uses(allocation)


def unknowns(
    network: Network, allocation: Allocation, positions: Indices | None = None
) -> tuple[Indices, Indices]:
    """Where the learnable weights stand among all, and their uses (see ``networks/packed.py``).

    ``positions``: some of them, in the order of the labels; these are the unknowns then, in this order.
    """
    at, uses = _unknowns(network, allocation)
    if positions is None:
        return at, uses
    number = np.full(at.size, -1)
    number[positions] = np.arange(positions.size)
    uses = uses[number[uses[:, 0]] >= 0]
    uses[:, 0] = number[uses[:, 0]]
    return at[positions], uses
