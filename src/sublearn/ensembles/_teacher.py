"""A teacher: a network with weights of its own, whose outputs are the targets, as real numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from sublearn._arrays import Array, finite_numbers
from sublearn._errors import BadInputError
from sublearn.networks import Network, evaluate

if TYPE_CHECKING:
    from sublearn.exact import Dyadics


@dataclass(frozen=True, eq=False)
class Teacher:
    """A network with float64 weights. What it asks for are its outputs, not their rounding.

    >>> import numpy as np, sublearn as sl
    >>> teacher = Teacher(sl.FeedForward((2, 1)), {"W1": np.array([[0.1, 0.2]])})
    >>> teacher.outputs(np.array([[1.0], [1.0]])), teacher.is_rational
    (array([[0.3]]), True)
    """

    network: Network
    weights: Mapping[str, Array]

    def __post_init__(self) -> None:
        self.network.check_weights(self.weights)
        kept = {}
        for name in self.network.shapes:
            kept[name] = settled(f"the teacher's weight {name}", self.weights[name])
        object.__setattr__(self, "weights", MappingProxyType(kept))

    @property
    def is_rational(self) -> bool:
        """Whether its outputs at rational inputs are rational numbers: every step linear or ReLU."""
        return self.network.is_piecewise_linear

    def outputs(self, inputs: Array) -> Array:
        """The outputs in float64."""
        return self.network.forward(self.weights, inputs)

    def exact_outputs(self, inputs: Dyadics) -> Dyadics:
        """The outputs of a teacher that :attr:`is_rational`, without rounding; inputs (features, m)."""
        from sublearn.exact import Dyadics

        if not self.is_rational:
            raise BadInputError(f"the outputs of {self.network.title} are not rational numbers.")
        weights = {name: Dyadics.of(value) for name, value in self.weights.items()}
        out: Dyadics = evaluate(
            self.network,
            weights,
            split_rows(self.network, inputs),
            inputs.shape[1],
            Dyadics.of,
            lambda _, before: before.positive_part(),
        )
        return out


def split_rows(network: Network, inputs: Dyadics) -> list[Dyadics]:
    """The input blocks of a matrix with one row per number of a sample."""
    out, start = [], 0
    for size in network.input_blocks:
        out.append(inputs if size == inputs.shape[0] else inputs.take(range(start, start + size)))
        start += size
    return out


def settled(name: str, value: ArrayLike) -> Array:
    """A finite float64 array that nobody can write to: its memory is bytes, and stays read-only."""
    found = finite_numbers(name, value)
    return np.ndarray(found.shape, np.float64, found.tobytes())
