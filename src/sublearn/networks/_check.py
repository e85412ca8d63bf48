"""Whether a network is the one that a person has in mind: do its outputs reproduce theirs?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from sublearn._arrays import Array, Mask, finite_numbers
from sublearn._errors import positive
from sublearn.plots import COLOURS, Figure, Row, Shown, figure, finite, ink, legend, name_axes

if TYPE_CHECKING:
    from sublearn.networks._network import Network, Weights

# Differences below this share of the largest output may be roundings of float32.
_SINGLE = 1e-5


@dataclass(frozen=True, eq=False, repr=False)
class ForwardCheck(Shown):
    """How far a network's outputs are from those that somebody computed elsewhere.

    ``difference`` is the largest absolute difference, ``relative`` the same over the largest absolute
    output; ``first`` is the first (output, sample), sample by sample, that differs by more than
    ``tolerance`` times the largest output, None where none does. True where the outputs are reproduced.
    ``steps`` are the time steps that outputs are read at, one after the other; all numbers count from 0.
    """

    network: str
    here: Array
    there: Array
    tolerance: float
    steps: int = 1

    def __bool__(self) -> bool:
        return self.first is None

    @cached_property
    def _wrong(self) -> Mask:
        # Not <=: a NaN of ours differs from everything.
        return ~(np.abs(self.here - self.there) <= self.tolerance * self._largest)

    @property
    def _largest(self) -> float:
        return float(max(np.abs(self.here).max(), np.abs(self.there).max()))

    @property
    def difference(self) -> float:
        return float(np.abs(self.here - self.there).max())

    @property
    def relative(self) -> float:
        return self.difference / self._largest if self._largest else 0.0

    @property
    def first(self) -> tuple[int, int] | None:
        if not self._wrong.any():
            return None
        sample, row = (int(v) for v in np.argwhere(self._wrong.T)[0])
        return row, sample

    @property
    def ours(self) -> float | None:
        """The first output that differs, here."""
        return None if self.first is None else float(self.here[self.first])

    @property
    def theirs(self) -> float | None:
        """The first output that differs, there."""
        return None if self.first is None else float(self.there[self.first])

    @property
    def differing(self) -> int:
        return int(self._wrong.sum())

    @property
    def of(self) -> int:
        """How many outputs there are."""
        return self.here.size

    def _place(self, row: int, sample: int) -> str:
        if self.steps == 1:
            return f"output {row} of sample {sample}"
        step, output = divmod(row, len(self.here) // self.steps)
        return f"output {output} at step {step} of sample {sample}"

    def __str__(self) -> str:
        if self.first is None:
            if not self.difference:
                return f"{self.network} reproduces all {self.of} outputs, to the last bit."
            return (
                f"{self.network} reproduces all {self.of} outputs: they differ by at most "
                f"{self.difference:.1e}, {self.relative:.1e} of the largest."
            )
        where = self._place(*self.first)
        if self.relative < _SINGLE:
            return (
                f"{self.network} reproduces these outputs only up to {self.relative:.1e} of the largest, "
                f"as numbers in float32 would be; if that is what they are, say tolerance={_SINGLE:g}. "
                f"The first that differs is {where}."
            )
        return (
            f"{self.network} is not the model that made these outputs: {self.differing} of {self.of} "
            f"differ, first {where}, {self.ours:.6g} here and {self.theirs:.6g} there; the largest "
            f"difference is {self.difference:.2g}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        names = ("difference", "relative", "ours", "theirs")
        out = {name: value and finite(value) for name in names for value in [getattr(self, name)]}
        out |= {"first": None if self.first is None else list(self.first), "steps": self.steps}
        out |= {"tolerance": self.tolerance, "differing": self.differing, "of": self.of}
        return {"network": self.network, "reproduced": bool(self), **out}

    def table(self) -> list[Row]:
        """A row for every output of every sample."""
        return [
            {"output": int(i), "sample": int(s), "here": float(self.here[i, s])}
            | {"there": float(self.there[i, s]), "differs": bool(self._wrong[i, s])}
            for s, i in np.ndindex(self.here.T.shape)
        ]

    def plot(self) -> Figure:
        """The outputs here against theirs: on the line where they are the same."""
        fig, ax = figure(width=4.2, height=4.0)
        wrong = self._wrong
        ends = [min(self.here.min(), self.there.min()), max(self.here.max(), self.there.max())]
        if np.isfinite(ends).all():
            ax.plot(ends, ends, color=ink(), linewidth=0.8, zorder=1)
        for held, colour, label in ((~wrong, 0, "reproduced"), (wrong, 1, "differs")):
            if held.any():
                ax.plot(
                    self.there[held], self.here[held], "o", color=COLOURS[colour],
                    markersize=4, linestyle="none", label=label,
                )  # fmt: skip
        name_axes(ax, "outputs there", "outputs here")
        legend(ax)
        return fig


def check_forward(
    network: Network, weights: Weights, inputs: ArrayLike, outputs: ArrayLike, tolerance: float
) -> ForwardCheck:
    """See :meth:`Network.check`."""
    positive("tolerance", tolerance)
    network.check_weights(weights)
    x, theirs = finite_numbers("inputs", inputs), finite_numbers("outputs", outputs)
    ours = network.forward(
        {name: finite_numbers(name, weights[name]) for name in network.shapes}, x
    )
    network.check_outputs("outputs", theirs.shape, ours.shape[-1])
    return ForwardCheck(network.title, ours, theirs, tolerance, _steps_read(network))


def _steps_read(network: Network) -> int:
    """How many time steps the outputs are of; 1 where they are not alike."""
    read = [network.shape(step.weight)[0] for step in network.steps if step.aside]
    alike = [*read, network.shape(network.steps[-1].weight)[0]]
    return len(alike) if network.is_sequence and len(set(alike)) == 1 else 1
