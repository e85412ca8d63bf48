"""Whether a network is the one that a person has in mind: do its outputs reproduce theirs?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from sublearn._arrays import Array, finite_numbers, real_numbers
from sublearn._errors import positive

if TYPE_CHECKING:
    from sublearn.networks._network import Network, Weights

# Differences below this share of the largest output may be roundings of float32.
_SINGLE = 1e-5


@dataclass(frozen=True)
class ForwardCheck:
    """How far a network's outputs are from those that somebody computed elsewhere.

    ``difference`` is the largest absolute difference, ``relative`` the same over the largest absolute
    output; ``first`` is the first (output, sample), sample by sample, that differs by more than
    ``tolerance`` times the largest output, None where none does. True where the outputs are reproduced.
    """

    network: str
    difference: float
    relative: float
    tolerance: float
    first: tuple[int, int] | None
    ours: float | None
    theirs: float | None
    differing: int
    of: int

    def __bool__(self) -> bool:
        return self.first is None

    def __str__(self) -> str:
        if self.first is None:
            return (
                f"{self.network} reproduces all {self.of} outputs: they differ by at most "
                f"{self.difference:.1e}, {self.relative:.1e} of the largest."
            )
        row, sample = self.first
        if self.relative < _SINGLE:
            return (
                f"{self.network} reproduces these outputs only up to {self.relative:.1e} of the largest, "
                f"as numbers in float32 would be; if that is what they are, say tolerance={_SINGLE:g}. "
                f"The first that differs is output {row} of sample {sample}."
            )
        return (
            f"{self.network} is not the model that made these outputs: {self.differing} of {self.of} "
            f"differ, first output {row} of sample {sample}, {self.ours:.6g} here and {self.theirs:.6g} "
            f"there; the largest difference is {self.difference:.2g}."
        )


def check_forward(
    network: Network, weights: Weights, inputs: ArrayLike, outputs: ArrayLike, tolerance: float
) -> ForwardCheck:
    """See :meth:`Network.check`."""
    positive("tolerance", tolerance)
    network.check_weights(weights)
    x, theirs = _finite("inputs", inputs), _finite("outputs", outputs)
    ours = network.forward({name: _finite(name, weights[name]) for name in network.shapes}, x)
    network.check_outputs("outputs", theirs.shape, ours.shape[-1])
    gap = np.abs(ours - theirs)
    largest = float(max(np.abs(ours).max(), np.abs(theirs).max()))
    # Not <=: a NaN of ours differs from everything.
    wrong = ~(gap <= tolerance * largest)
    first = None
    if wrong.any():
        sample, row = (int(v) for v in np.argwhere(wrong.T)[0])
        first = row, sample
    return ForwardCheck(
        network.title,
        float(gap.max()),
        float(gap.max() / largest) if largest else 0.0,
        tolerance,
        first,
        None if first is None else float(ours[first]),
        None if first is None else float(theirs[first]),
        int(wrong.sum()),
        ours.size,
    )


def _finite(name: str, value: ArrayLike) -> Array:
    return finite_numbers(name, real_numbers(name, value))
