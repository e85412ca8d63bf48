"""What a simulation learns from: fixed samples, or fresh ones from a teacher in every cycle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from sublearn._arrays import Array
from sublearn._errors import BadInputError, whole_number
from sublearn.allocations import Allocation
from sublearn.networks import Network

if TYPE_CHECKING:
    from sublearn.noise._simulate_chain import Chain


@dataclass(frozen=True, eq=False)
class FreshInputs:
    """``samples`` new standard normal inputs in every cycle, with targets from a teacher.

    ``weights`` are the teacher's, with a leading axis if every repeat has its own.
    """

    samples: int
    teacher: Network
    weights: Mapping[str, ArrayLike]


@dataclass(frozen=True, eq=False)
class SimulationData:
    """Fixed samples, or the teacher of fresh ones; everything has a leading axis, 1 or repeats."""

    inputs: Array
    targets: Array
    scale: float  # of the sum of squared differences in F
    rest: Array  # the part of F that the inputs cannot explain, (1 or repeats,)
    teacher: Chain | None = None
    teacher_weights: Array | None = None


def read_data(
    network: Network, inputs: ArrayLike | FreshInputs, targets: ArrayLike | None, repeats: int
) -> SimulationData:
    if isinstance(inputs, FreshInputs):
        if targets is not None:
            raise BadInputError(
                "targets must not be given with FreshInputs: the teacher makes them."
            )
        return _fresh(network, inputs, repeats)
    if targets is None:
        raise BadInputError("targets must be given with inputs; only FreshInputs has a teacher.")
    x = numbers("inputs", inputs)
    network.split_inputs(x)
    if not x.shape[-1]:
        raise BadInputError("inputs must hold at least one sample.")
    x = x.reshape(*x.shape[: -3 if network.is_sequence else -2], -1, x.shape[-1])
    y = numbers("targets", targets)
    m = x.shape[-1]
    if y.shape[-2:] != (network.output_size, m):
        raise BadInputError(
            f"targets must have shape (d, m) = {(network.output_size, m)}, not {y.shape}."
        )
    x, y = one_per_repeat("inputs", x, repeats, 2), one_per_repeat("targets", y, repeats, 2)
    scale, rest = 1.0 / (2 * m), np.zeros(1)
    biased = any(step.bias is not None for step in network.steps)
    if network.is_linear and not biased and m > x.shape[-2]:
        x, y, rest = compress(x, y)
    return SimulationData(x, y, scale, rest * scale)


def compress(x: Array, y: Array) -> tuple[Array, Array, Array]:
    """Fewer samples with the same F up to a constant, for outputs that are linear in the inputs.

    With X = L Q and orthonormal rows Q, |M X - Y|^2 = |M L - Y Q'|^2 + |Y - Y Q'Q|^2 for every M.
    """
    left, values, q = np.linalg.svd(x, full_matrices=False)
    largest = values[..., 0].max()
    floor = largest * x.shape[-1] * np.finfo(np.float64).eps
    kept = max(1, int((values > floor).sum(axis=-1).max()))
    q = q[..., :kept, :]
    short = y @ np.swapaxes(q, -1, -2)
    rest = y - short @ q
    narrow = left[..., :kept] * values[..., None, :kept]
    return narrow, short, np.atleast_1d(np.einsum("...os,...os->...", rest, rest))


def _fresh(network: Network, fresh: FreshInputs, repeats: int) -> SimulationData:
    from sublearn.noise._simulate_chain import chain_of

    whole_number("samples of FreshInputs", fresh.samples, least=1)
    teacher = fresh.teacher
    if not isinstance(teacher, Network):
        raise BadInputError(f"the teacher must be a Network, not {teacher!r}.")
    same = teacher.input_blocks == network.input_blocks
    if not same or teacher.output_size != network.output_size:
        raise BadInputError(
            f"the teacher must have the inputs and outputs of the network, {network.spec}, "
            f"not those of {teacher.spec}."
        )
    chain = chain_of(teacher)
    w = one_per_repeat(
        "the teacher's weights", flat_weights(teacher, chain, fresh.weights), repeats, 1
    )
    m = fresh.samples
    x = np.zeros((1, sum(network.input_blocks), m))
    y = np.zeros((1, network.output_size, m))
    return SimulationData(x, y, 1.0 / (2 * m), np.zeros(1), chain, w)


def flat_weights(network: Network, chain: Chain, weights: Mapping[str, ArrayLike]) -> Array:
    if not isinstance(weights, Mapping):
        raise BadInputError(f"weights must be a dict of matrices by name, not {weights!r}.")
    held = {name: numbers(f"weight {name}", value) for name, value in weights.items()}
    network.check_weights(held)
    return chain.flatten(held)


def one_per_repeat(name: str, array: Array, repeats: int, rank: int) -> Array:
    """``array`` with one leading axis, of length 1 or ``repeats``."""
    if array.ndim == rank:
        return array[None]
    if array.ndim != rank + 1 or array.shape[0] not in (1, repeats):
        raise BadInputError(
            f"{name} may have one leading axis of length {repeats}, one item per repeat, "
            f"not {array.shape[: array.ndim - rank]}."
        )
    return array


def numbers(name: str, value: ArrayLike) -> Array:
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInputError(f"{name} must be an array of numbers.") from None
    if not np.isfinite(array).all():
        raise BadInputError(f"{name} must be finite.")
    return array


def plastic_set(network: Network, allocation: Allocation | None) -> Allocation:
    if not isinstance(network, Network):
        raise BadInputError(f"network must be a Network such as FeedForward, not {network!r}.")
    if allocation is None:
        return Allocation.whole(network)
    if not isinstance(allocation, Allocation):
        raise BadInputError(f"allocation must be an Allocation or None, not {allocation!r}.")
    if dict(allocation.shapes) != network.shapes:
        raise BadInputError("the allocation belongs to a network of other shapes.")
    if not len(allocation):
        raise BadInputError("the allocation is empty: no weight is plastic, so nothing is learned.")
    return allocation
