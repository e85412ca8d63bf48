"""Which networks and allocations the pattern theory is about."""

from __future__ import annotations

from sublearn._errors import BadInputError
from sublearn.allocations import Allocation
from sublearn.networks import FeedForward, Network


def why_not_shallow(network: Network, allocation: Allocation | None = None) -> str | None:
    """Why this is no y = W2 relu(W1 x) with learnable weights in the first layer only, or None."""
    if (
        not isinstance(network, FeedForward)
        or network.layers != 2
        or (network.activation, network.output) != ("relu", "linear")
    ):
        return f"{network.spec} is not a shallow ReLU network such as ffn:6-8-4,activation=relu"
    if allocation is not None:
        outside = [name for name in allocation.names if name not in ("W1", "b1")]
        if outside:
            return (
                f"weights of {', '.join(outside)} are learnable: with the gates fixed the outputs "
                "are linear in the first layer's weights only"
            )
    return None


def require_shallow(network: Network, allocation: Allocation | None = None) -> FeedForward:
    """The network, or a :class:`BadInputError` that says why it does not fit."""
    why = why_not_shallow(network, allocation)
    if why is not None:
        raise BadInputError(f"{why}.")
    assert isinstance(network, FeedForward)
    return network


def learnable_rows(allocation: Allocation) -> dict[int, int]:
    """r_i by unit i of the first layer, for the units that have learnable weights."""
    out: dict[int, int] = {}
    for _, row, _ in allocation.labels():
        out[row] = out.get(row, 0) + 1
    return dict(sorted(out.items()))
