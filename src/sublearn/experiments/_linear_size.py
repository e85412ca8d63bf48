"""A linear network against its size: where errors settle, and where the rate is largest."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sublearn.experiments._lines import Figures
from sublearn.experiments._table import said
from sublearn.experiments._under_noise import interval
from sublearn.experiments.raman2019 import LINEAR_GAMMAS, LINEAR_MIXINGS, LINEAR_SIZES
from sublearn.experiments.tasks import GAMMA, LinearSizes
from sublearn.plots import COLOURS, curve, ink, log_ticks, name_axes, panels, shared_legend
from sublearn.runs import Experiment, Json, Plan, Point, Row, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STEADY = " ".join(f"{inputs / 10:g}" for inputs, _ in LINEAR_SIZES)
EXPANDED = "1.4 1.8 2.2 2.6 3 3.4 3.8 4.2 4.6 5 5.4"
SYNAPSES = "20 26 34 44 58 75 98 127 165 215"
RATE = (0.8, 1.0, 0.05)
TOO_FEW = "Too few sizes or repeats to tell where the best size lies."


def steady_point(
    gamma: tuple[float, float, float],
    mixing: float,
    repeats: int,
    factors: str = STEADY,
    cycles: int = 1500,
    **more: Json,
) -> Point:
    """A curve of simulated steady states over sizes; ``more`` may ask for another way to grow."""
    params: Row = {
        "quantity": "steady state",
        "grow": "expansion",
        **dict(zip(GAMMA, gamma, strict=True)),
        "mixing": mixing,
        "cycles": cycles,
        "factors": factors,
        **more,
    }
    sizes = len(factors.split())
    return Point(params, repeats * sizes, chunk=2 * sizes)


def rate_point(
    grow: str,
    gamma: tuple[float, float, float],
    draws: int,
    batches: int,
    factors: str = EXPANDED,
    **more: Json,
) -> Point:
    """A curve of measured rates over sizes; a cycle may be said to take another time ``T``."""
    params: Row = {
        "quantity": "rate",
        "grow": grow,
        **dict(zip(GAMMA, gamma, strict=True)),
        **more,
        "draws": draws,
        "factors": factors,
    }
    sizes = len(factors.split())
    return Point(params, batches * sizes, chunk=2 * sizes)


def _levels(row: Row) -> tuple[float, float, float]:
    one, two, three = (row[name] for name in GAMMA)
    return one, two, three


def steady_panel(ax: Axes, rows: Table) -> None:
    """Simulated steady states over sizes, with the predicted ones, for every noise."""
    for colour, gamma in enumerate(dict.fromkeys(_levels(row) for row in rows)):
        for mixing in rows.distinct("mixing"):
            held = rows.where(**dict(zip(GAMMA, gamma, strict=True)), mixing=mixing)
            if not held:
                continue
            label = f"gamma = {gamma[0]:g}, {gamma[1]:g}, {gamma[2]:g}"
            if len(rows.distinct("mixing")) > 1:
                label += f"; mixing {mixing:g}"
            shade = COLOURS[2 * colour + (1 if mixing else 0)]
            ax.plot(held.column("size"), held.column("predicted"), color=shade, linewidth=1.0)
            curve(
                ax,
                held.column("size"),
                held.column("value"),
                *interval(held),
                label=label,
                colour=2 * colour + (1 if mixing else 0),
                dashed=True,
            )
    log_ticks(ax)
    name_axes(
        ax, "number of weights N", "steady-state error", title="simulated; thin lines: predicted"
    )


def _rate_panel(ax: Axes, rows: Table, title: str) -> None:
    sizes = rows.column("size")
    curve(ax, sizes, rows.column("value"), *interval(rows), label="measured over random cycles")
    ax.plot(sizes, rows.column("predicted"), color=ink(), linewidth=1.0, label="formula")
    low, high = ax.get_ylim()
    marks = [("best_slides", COLOURS[1], "slides' best size", ":")]
    marks.append(("best_predicted", COLOURS[2], "predicted best size", "--"))
    for name, shade, words, line in marks:
        ax.axvline(rows[0][name], color=shade, linestyle=line, linewidth=1.4, label=words)
    if rows[0]["grow"] == "synapses":
        words = "power law, T gamma2^2 / gamma3^2"
        ax.axvline(_power_law(rows[0]), color=COLOURS[3], linestyle="-.", label=words)
    if rows[0]["best"] is not None:
        ends = (rows[0]["best_low"], rows[0]["best_high"])
        ax.axvspan(*ends, color=COLOURS[0], alpha=0.15, lw=0, label="measured best size, 95%")
    ax.set_ylim(low, high)
    log_ticks(ax)
    name_axes(ax, "number of weights N", "mean rate <k>", title=title)


def draw(table: Table) -> Figures:
    figures = {}
    steady = table.where(quantity="steady state")
    fig, axes = panels(1, width=6.4, height=3.8)
    steady_panel(axes[0], steady)
    shared_legend(fig, axes, across=2)
    figures["steady-state"] = fig
    rates = table.where(quantity="rate")
    if rates:
        grown = (rows := rates).distinct("grow")
        fig, axes = panels(len(grown), width=4.8)
        for ax, grow in zip(axes, grown, strict=True):
            title = "expansion, c1 = c2" if grow == "expansion" else "redundant synapses"
            _rate_panel(ax, rows.where(grow=grow), title)
        shared_legend(fig, axes, across=3)
        figures["best-size"] = fig
    return figures


def steady_words(rows: Table) -> list[str]:
    """How far simulated steady states lie from predicted ones, and where they are smallest."""
    ratios = np.array(rows.column("ratio"), dtype=float)
    inside = int(((ratios >= 0.9) & (ratios <= 1.15)).sum())
    gaps = [abs(row["value"] - row["predicted"]) / row["error"] for row in rows if row["error"]]
    lines = [
        f"Steady states, {rows[0]['repeats']} repeats: simulated over predicted lies between "
        f"{ratios.min():.2f} and {ratios.max():.2f}, from 0.9 to 1.15 in {inside} of {len(rows)} cells"
        + (
            f"; the prediction lies within 3 standard errors in {sum(gap <= 3 for gap in gaps)} of "
            f"{len(gaps)}."
            if gaps
            else "."
        )
    ]
    for gamma in dict.fromkeys(_levels(row) for row in rows):
        held = rows.where(**dict(zip(GAMMA, gamma, strict=True)))
        for mixing in held.distinct("mixing"):
            row = held.where(mixing=mixing)[0]
            if row["best"] is not None:
                lines.append(
                    f"gamma = ({gamma[0]:g}, {gamma[1]:g}, {gamma[2]:g}), mixing {mixing:g}: the error is "
                    f"smallest at {best_words(row)}; {predicted_words(row)}."
                )
    return lines


def best_words(row: Row) -> str:
    """For example "N = 397 (95%: 371 to 425)"."""
    low, high = row["best_low"], row["best_high"]
    edge = "" if row["inside"] else ", at an end of the range"
    return f"N = {row['best']:.0f} (95%: {low:.0f} to {high:.0f}{edge})"


def predicted_words(row: Row) -> str:
    """For example "predicted 407 on these inputs, 400 by formula"."""
    curve, formula = row["best_of_curve"], row["best_predicted"]
    return f"predicted {curve:.0f} on these inputs, {formula:.0f} by formula"


def _power_law(row: Row) -> float:
    """T gamma2^2 / gamma3^2, T = 1: it holds along expansion; along synapses it is the rival."""
    return float(row["gamma2"] ** 2 / row["gamma3"] ** 2)


def _rate_words(row: Row) -> str:
    gamma = ", ".join(f"{row[name]:g}" for name in GAMMA)
    # The interval is symmetric in log N, 3.92 standard errors wide.
    best, low, high = (row[name] for name in ("best", "best_low", "best_high"))
    spread = max(math.log(high / low) / 3.92, 1e-9)
    said_by = [("the maximum of <k>", row["best_predicted"])]
    if row["grow"] == "synapses":
        said_by.append(("the power law", _power_law(row)))
    said_by.append(("the slides' formula", row["best_slides"]))
    words = ", ".join(
        f"{size:.0f} by {name} ({abs(math.log(size / best)) / spread:.1f} standard errors away)"
        for name, size in said_by
    )
    path = "expansion with c1 = c2" if row["grow"] == "expansion" else "redundant synapses"
    return f"Rate at gamma = ({gamma}), {path}: largest at {best_words(row)}; {words}."


def find(table: Table) -> str:
    lines = []
    steady = table.where(quantity="steady state")
    if steady:
        lines += steady_words(steady)
    for grow in (rates := table.where(quantity="rate")).distinct("grow"):
        row = rates.where(grow=grow)[0]
        if row["best"] is not None:
            lines.append(_rate_words(row))
    return said(lines, TOO_FEW if table else "")


EXPERIMENT = Experiment(
    name="linear-size",
    title="Linear networks: error and rate against size",
    source="Slides, 'Optimal Linear Network Size'; Raman, Rotondo and O'Leary (2019)",
    claim="There is an optimal size N* = (T gamma2^2 / gamma3^2) (1 - gamma1^2 / gamma2^2) that maximises "
    "the learning rate, whether neurons or redundant synapses are added.",
    task=LinearSizes(),
    quick=Plan(
        (
            *(steady_point(gamma, 0.0, 4) for gamma in LINEAR_GAMMAS),
            rate_point("expansion", RATE, 250, 20),
            rate_point("synapses", RATE, 20, 10, SYNAPSES),
        )
    ),
    full=Plan(
        (
            *(steady_point(g, mixing, 48) for g in LINEAR_GAMMAS for mixing in LINEAR_MIXINGS),
            rate_point("expansion", RATE, 1000, 40),
            rate_point("synapses", RATE, 200, 40, SYNAPSES),
        )
    ),
    hours=0.025,
    draw=draw,
    find=find,
)
