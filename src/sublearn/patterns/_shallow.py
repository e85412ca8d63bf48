"""Which networks and allocations the pattern theory is about."""

from __future__ import annotations

from collections import Counter

from sublearn._errors import BadInputError
from sublearn.allocations import Allocation
from sublearn.networks import Layers, Network


def why_not_shallow(network: Network, allocation: Allocation | None = None) -> str | None:
    """Why this is no y = W2 relu(W1 x) with learnable weights in the first layer only, or None."""
    layers = network.layered
    if layers is None or not layers.is_shallow_relu:
        return f"{network.title} is not a shallow ReLU network such as ffn:6-8-4,activation=relu"
    return None if allocation is None else _outside(layers, allocation)


def why_not_deep(network: Network, allocation: Allocation) -> str | None:
    """Why these are no ReLU layers of any depth, with learnable weights in the first only, or None."""
    layers = network.layered
    if layers is None or set(layers.activations[:-1]) != {"relu"}:
        return f"{network.title} is not made of ReLU layers"
    if layers.activations[-1] != "linear":
        return f"{network.title} has an output activation"
    return _outside(layers, allocation)


def _outside(layers: Layers, allocation: Allocation) -> str | None:
    """Why the outputs are not linear in the learnable weights once the gates are fixed, or None."""
    outside = [name for name in allocation.names if layers.layer_of(name) > 0]
    if not outside:
        return None
    return (
        f"weights of {', '.join(outside)} are learnable: with the gates fixed the outputs "
        "are linear in the first layer's weights only"
    )


def require_shallow(network: Network, allocation: Allocation | None = None) -> Layers:
    """The two layers, or a :class:`BadInputError` that says why the network does not fit."""
    why = why_not_shallow(network, allocation)
    if why is not None:
        raise BadInputError(f"{why}.")
    assert network.layered is not None
    return network.layered


def learnable_rows(allocation: Allocation) -> dict[int, int]:
    """r_i by unit i of the first layer, for the units that have learnable weights."""
    return dict(sorted(Counter(row for _, row, _ in allocation.labels()).items()))
