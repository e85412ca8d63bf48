"""The one loss of this room, and the checks that all its verbs share.

Squared error: half the mean over the m samples of the squared distance,

    F(w) = 1/(2 m) sum_s |y_s(w) - y*_s|^2.

Rates, best sizes and every ratio F / F_min are the same for any multiple of it: a unit step along
the gradient does not see the scale of F.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from sublearn._arrays import Array, Indices
from sublearn._errors import BadInputError, one_of
from sublearn.allocations import Allocation
from sublearn.networks import Network

Gamma = tuple[float, float, float]

NOISE_ON = ("plastic", "all")


def squared_error(outputs: Array, targets: Array) -> Array:
    """F of outputs (..., d, m): half the mean over samples of the squared distance, shape (...)."""
    gap = outputs - targets
    out: Array = np.einsum("...os,...os->...", gap, gap) / (2.0 * gap.shape[-1])
    return out


def error_signal(outputs: Array, targets: Array) -> Array:
    """dF / d outputs = (outputs - targets) / m: the cotangent whose pullback is the gradient."""
    gap: Array = (outputs - targets) / outputs.shape[-1]
    return gap


def check_gamma(gamma: Sequence[float]) -> Gamma:
    """(gamma1, gamma2, gamma3) as floats: three finite numbers, none negative."""
    try:
        values = tuple(gamma)
    except TypeError:
        values = ()
    good = len(values) == 3 and all(
        isinstance(v, Real) and not isinstance(v, bool) and math.isfinite(v) and v >= 0
        for v in values
    )
    if not good:
        raise BadInputError(
            f"gamma must be three numbers of at least 0, (gamma1, gamma2, gamma3), not {gamma!r}."
        )
    return float(values[0]), float(values[1]), float(values[2])


def check_duration(T: float) -> float:
    """The time T of one cycle: a finite number above 0."""
    if not isinstance(T, Real) or isinstance(T, bool) or not math.isfinite(T) or T <= 0:
        raise BadInputError(f"T, the time of one cycle, must be a number above 0, not {T!r}.")
    return float(T)


@dataclass(frozen=True, eq=False)
class Setting:
    """A network at given weights, with data and the set of its plastic weights, all checked.

    Vectors of weights are flat: names in the network's order, each matrix row by row.
    """

    network: Network
    weights: Mapping[str, Array]
    inputs: Array
    targets: Array
    allocation: Allocation

    @property
    def samples(self) -> int:
        return int(self.targets.shape[-1])

    @property
    def vector(self) -> Array:
        """All weights as one vector."""
        return self.flatten(self.weights)

    @property
    def plastic(self) -> Indices:
        """Positions of the plastic weights in the vector."""
        parts, start = [], 0
        for name, (rows, columns) in self.network.shapes.items():
            parts.append(start + self.allocation.flat(name))
            start += rows * columns
        return np.concatenate(parts)

    def flatten(self, weights: Mapping[str, Array]) -> Array:
        """(..., N) from matrices by name."""
        parts = [np.asarray(weights[name]) for name in self.network.shapes]
        return np.concatenate([p.reshape(*p.shape[:-2], -1) for p in parts], axis=-1)

    def matrices(self, vector: Array) -> dict[str, Array]:
        """Matrices by name from (..., N)."""
        out, start = {}, 0
        for name, (rows, columns) in self.network.shapes.items():
            stop = start + rows * columns
            out[name] = vector[..., start:stop].reshape(*vector.shape[:-1], rows, columns)
            start = stop
        return out

    def loss(self, vectors: Array) -> Array:
        """F at each of the weight vectors (..., N), a bounded number of them at a time."""
        flat = vectors.reshape(-1, vectors.shape[-1])
        out = np.empty(flat.shape[0])
        for part in pieces(flat.shape[0], self.numbers_per_run):
            outputs = self.network.forward(self.matrices(flat[part]), self.inputs)
            out[part] = squared_error(outputs, self.targets)
        return out.reshape(vectors.shape[:-1])

    @property
    def numbers_per_run(self) -> int:
        """Numbers that one run of the chain holds at once, for :func:`pieces`."""
        states = sum(self.network.shape(step.weight)[0] for step in self.network.steps)
        return self.network.size + 2 * states * self.samples


def pieces(count: int, each: int, most: int = 1 << 22) -> Iterator[slice]:
    """Slices of range(count) such that ``most`` numbers, ``each`` per item, are held at a time."""
    width = max(1, most // max(each, 1))
    for start in range(0, count, width):
        yield slice(start, min(start + width, count))


def check_setting(
    network: Network,
    weights: Mapping[str, ArrayLike],
    inputs: ArrayLike,
    targets: ArrayLike,
    allocation: Allocation | None = None,
    noise_on: str = "plastic",
) -> Setting:
    """The arguments of a verb of this room as a :class:`Setting`, or a sentence on what is wrong."""
    if not isinstance(network, Network):
        raise BadInputError(f"network must be a Network such as FeedForward, not {network!r}.")
    if not isinstance(weights, Mapping):
        raise BadInputError(f"weights must be a dict of matrices by name, not {weights!r}.")
    one_of("noise_on", noise_on, NOISE_ON)
    held = {name: _numbers(f"weight {name}", value) for name, value in weights.items()}
    network.check_weights(held)
    for name, shape in network.shapes.items():
        if held[name].shape != shape:
            raise BadInputError(f"weight {name} must have shape {shape}, not {held[name].shape}.")
    x, y = _numbers("inputs", inputs), _numbers("targets", targets)
    network.split_inputs(x)
    samples = x.shape[-1]
    if x.shape != network.input_shape(samples) or not samples:
        raise BadInputError(f"inputs must be one set of at least one sample, not {x.shape}.")
    if y.shape != (network.output_size, samples):
        wanted = (network.output_size, samples)
        raise BadInputError(f"targets must have shape {wanted}, not {y.shape}.")
    if allocation is None:
        allocation = Allocation.whole(network)
    if not isinstance(allocation, Allocation):
        raise BadInputError(f"allocation must be an Allocation or None, not {allocation!r}.")
    if dict(allocation.shapes) != network.shapes:
        raise BadInputError("the allocation belongs to a network of other shapes.")
    if not len(allocation):
        raise BadInputError("the allocation is empty: no weight is plastic, so nothing is learned.")
    return Setting(network, held, x, y, allocation)


def _numbers(name: str, value: ArrayLike) -> Array:
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInputError(f"{name} must be an array of numbers.") from None
    if not np.isfinite(array).all():
        raise BadInputError(f"{name} must be finite.")
    return array
