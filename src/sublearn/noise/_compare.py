"""A simulation beside its prediction: where noise stops learning, and what less noise would do."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Unpack

from sublearn.ensembles import Instance
from sublearn.noise._noise import Noise
from sublearn.noise._simulate import Repeated, Simulation, simulate
from sublearn.noise._steady import Known, SteadyPrediction, predict_steady_state
from sublearn.plots import COLOURS, Figure, Row, Shown, figure, finite, ink, legend


@dataclass(frozen=True, eq=False, repr=False)
class SteadyComparison(Shown):
    """Simulated error curves, the predicted steady state, and that with gamma2 and gamma3 halved.

    Both predictions are None where lengths are not by the L2 norm, for which no formula is known.
    """

    simulation: Simulation
    predicted: SteadyPrediction | None
    calmer: SteadyPrediction | None

    @property
    def meaning(self) -> str:
        """What both say together, in a sentence or two."""
        settled, start = self.simulation.steady_state, self.simulation.start
        share = f"{settled.mean:.3g}"
        if start:
            share = f"{settled.mean / start:.3g} of the error at the start"
        predicted, calmer = self.predicted, self.calmer
        if predicted is not None and predicted.drift:
            return f"There is no steady state: {predicted.reason}"
        if predicted is not None and predicted.kind is Known.NONE:
            level = "level" if settled.reached else "not level"
            return (
                f"No steady state is known: {predicted.reason} Over these "
                f"{self.simulation.errors.shape[1]} cycles the error is {level}, at {share}."
            )
        if not settled.reached:
            return f"The error has not settled; in the last stretch it is {share}."
        if settled.mean >= start:
            words = f"The noise wins: the error settles at {share}."
        else:
            words = f"Learning and noise balance at {share}."
        if predicted is None or calmer is None:
            return words
        if predicted.minimum > 0.5 * predicted.value:
            return f"{words} Most of it is error that no plastic weight can remove (F_min)."
        if calmer.kind is Known.NONE or not calmer.excess > 0.0:
            return words
        fewer = predicted.excess / calmer.excess
        return (
            f"{words} Most of it is noise: halving gamma2 and gamma3 would cut the excess {fewer:.2g} "
            f"times, to {calmer.excess:.2g}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        said = None if self.predicted is None else self.predicted.to_dict()
        return {**self.simulation.to_dict(), "predicted": said, "meaning": self.meaning}

    def __str__(self) -> str:
        said = "" if self.predicted is None else str(self.predicted)
        # Why there is none, the last line says.
        lines = [line for line in said.splitlines() if not line.startswith("  why ")]
        return "\n".join([str(self.simulation), *lines, self.meaning])

    @property
    def headline(self) -> str:
        """The simulation in one line."""
        return self.simulation.headline

    def table(self) -> list[Row]:
        """A row for every cycle of the simulation, with the predicted steady state beside it."""
        known = None if self.predicted is None else finite(self.predicted.value)
        return [{**row, "predicted": known} for row in self.simulation.table()]

    def plot(self) -> Figure:
        """The error against the cycle, with the predicted one and F_min."""
        fig, ax = figure()
        self.simulation.draw(ax)
        if self.predicted is not None and math.isfinite(self.predicted.value):
            ax.axhline(self.predicted.value, color=COLOURS[1], linestyle="--", label="predicted")
            lowest = self.predicted.minimum
            if lowest or ax.get_yscale() == "linear":
                ax.axhline(lowest, color=ink(), linestyle=":", linewidth=1.0, label="F_min")
        legend(ax)
        return fig


def compare_steady(instance: Instance, noise: Noise, **how: Unpack[Repeated]) -> SteadyComparison:
    """Simulate an instance, predict where it settles, and put both side by side.

    The options are those of :func:`sublearn.simulate`.
    """
    run = simulate(instance, noise, **how)
    if noise.norm != "l2":
        return SteadyComparison(run, None, None)
    g1, g2, g3 = noise.gamma
    calm = replace(noise, gamma=(g1, g2 / 2, g3 / 2))
    predictions = (predict_steady_state(instance, level) for level in (noise, calm))
    return SteadyComparison(run, *predictions)
