"""The predictions: the best size is inversely related to the noise of a synapse."""

from __future__ import annotations

import math

import numpy as np

from sublearn.experiments._linear_size import (
    TOO_FEW,
    best_words,
    predicted_words,
    rate_point,
    steady_point,
)
from sublearn.experiments._table import Declared, said
from sublearn.experiments._under_noise import best_sizes, power_law
from sublearn.experiments.tasks import LinearSizes
from sublearn.plots import COLOURS, Figure, figure, legend, name_axes
from sublearn.runs import Plan, Points, Table

# Factors c with N = 50 c^2 around the predicted best size 1 / gamma3^2.
_AROUND = {
    0.03: "2 2.6 3.2 3.8 4.4 5 5.6 6.4 7.2 8 9",
    0.04: "1.6 2 2.4 2.8 3.2 3.6 4.2 4.8 5.6 6.4 7",
    0.05: "1.2 1.6 2 2.4 2.8 3.2 3.6 4.2 4.8 5.4",
    0.07: "1 1.2 1.4 1.6 1.8 2 2.4 2.8 3.4 4",
    0.1: "1 1.2 1.4 1.6 1.8 2 2.2 2.6 3",
}
# Strong noise ends above the error at the start, and large networks take their time to get there.
_CYCLES = {0.07: 4500, 0.1: 6000}
_RATE1, _STEADY1 = 0.8, 0.05


def _points(draws: int, batches: int, repeats: int) -> Points:
    for g3, around in _AROUND.items():
        yield rate_point("expansion", (_RATE1, 1.0, g3), draws, batches, around)
    for g3, around in _AROUND.items():
        yield steady_point((_STEADY1, 1.0, g3), 0.0, repeats, around, _CYCLES.get(g3, 1500))


def curves(table: Table) -> dict[str, Table]:
    """One row per noise level whose best size was measured, by quantity."""
    firsts = Table(rows[0] for _, rows in table.apart("quantity", "gamma3"))
    measured = firsts.where(lambda row: row["best"] is not None)
    return {str(common["quantity"]): rows for common, rows in measured.apart("quantity")}


def exponent(rows: Table, name: str = "gamma3") -> tuple[float, float]:
    """b of best size ~ gamma3^b, or that of another column, weighted by the intervals, and its error."""
    x, y, low, high = (
        np.log(np.array(rows.column(column), dtype=float))
        for column in (name, "best", "best_low", "best_high")
    )
    weight = (3.92 / np.maximum(high - low, 1e-9)) ** 2
    x = x - np.average(x, weights=weight)
    spread = float(np.sum(weight * x**2))
    return float(np.sum(weight * x * y)) / spread, 1.0 / math.sqrt(spread)


def draw(table: Table) -> Figure:
    fig, ax = figure(width=6.4, height=4.0)
    names = {
        "rate": f"largest rate, gamma1 = {_RATE1:g}",
        "steady state": f"smallest steady-state error, gamma1 = {_STEADY1:g}",
    }
    for quantity, rows in curves(table).items():
        colour, aside = (0, 1.0) if quantity == "rate" else (2, 1.03)
        best_sizes(ax, rows, "gamma3", f"measured: {names[quantity]}", colour, aside)
    power_law(ax, list(_AROUND), -2.0)
    fine = np.geomspace(min(_AROUND), max(_AROUND), 50)
    slides = (1 - _RATE1**2) / fine**2
    label = f"slides, gamma1 = {_RATE1:g}"
    ax.plot(fine, slides, color=COLOURS[1], linestyle=":", linewidth=1.6, label=label)
    name_axes(ax, "synaptic noise gamma3", "best size N")
    legend(ax, place="lower left")
    return fig


def find(table: Table) -> str:
    lines = []
    for quantity, rows in curves(table).items():
        words = "rate is largest" if quantity == "rate" else "steady-state error is smallest"
        each = "; ".join(
            f"gamma3 = {row['gamma3']:g}: {best_words(row)}, {predicted_words(row)}, "
            f"{row['best_slides']:.0f} by the slides'"
            for row in rows
        )
        lines.append(f"The {words} at: {each}.")
        if len(rows) > 2:
            power, error = exponent(rows)
            lines.append(
                f"Best size by the {quantity}: proportional to gamma3 to the power {power:.2f} +- "
                f"{error:.2f}; -2 means inversely proportional to the variance that noise adds to a synapse."
            )
    return said(lines, TOO_FEW if table else "")


EXPERIMENT = Declared(
    title="Best size against the noise of a synapse",
    source="Slides, experimental predictions",
    claim="Circuit size should be inversely proportional to the per-synaptic rate of change; suppression "
    "of synaptic noise allows for larger circuit formation.",
    task=LinearSizes(),
    quick=Plan.of(_points(60, 12, 4)),
    full=Plan.of(_points(1000, 40, 96)),
    hours=0.045,
)
