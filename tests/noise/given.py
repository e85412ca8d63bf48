"""Plain arrays as an instance, every weight learnable unless an allocation says otherwise."""

from __future__ import annotations

from collections.abc import Mapping

from numpy.typing import ArrayLike

import sublearn as sl


def given(
    network: sl.Network,
    weights: Mapping[str, ArrayLike],
    inputs: ArrayLike,
    targets: ArrayLike,
    allocation: sl.Allocation | None = None,
) -> sl.Instance:
    plastic = sl.Allocation.whole(network) if allocation is None else allocation
    return sl.Instance.given(network, plastic, weights, inputs, targets)
