"""A linear network against its size: where errors settle, and where the rate is largest."""

from __future__ import annotations

import math

import numpy as np

from sublearn.experiments._lines import Figures, in_panels
from sublearn.experiments._table import Declared, said
from sublearn.experiments._under_noise import levels, means, paired
from sublearn.experiments.raman2019 import LINEAR_GAMMAS, LINEAR_MIXINGS, LINEAR_SIZES
from sublearn.experiments.tasks import GAMMA, LinearSizes
from sublearn.plots import COLOURS, Axes, ink, log_ticks, name_axes, panels, shared_legend
from sublearn.runs import Json, Plan, Point, Row, Table

STEADY = " ".join(f"{inputs / 10:g}" for inputs, _ in LINEAR_SIZES)
EXPANDED = "1.4 1.8 2.2 2.6 3 3.4 3.8 4.2 4.6 5 5.4"
SYNAPSES = "20 26 34 44 58 75 98 127 165 215"
RATE = (0.8, 1.0, 0.05)
Gamma = tuple[float, float, float]
TOO_FEW = "Too few sizes or repeats to tell where the best size lies."


def steady_point(
    gamma: Gamma,
    mixing: float,
    repeats: int,
    factors: str = STEADY,
    cycles: int = 1500,
    **more: Json,
) -> Point:
    """A curve of simulated steady states over sizes; ``more`` may ask for another way to grow."""
    own: Row = {"mixing": mixing, "cycles": cycles, "factors": factors, **more}
    return _curve_point("steady state", "expansion", gamma, own, repeats)


def rate_point(
    grow: str, gamma: Gamma, draws: int, batches: int, factors: str = EXPANDED, **more: Json
) -> Point:
    """A curve of measured rates over sizes; a cycle may be said to take another time ``T``."""
    own: Row = {**more, "draws": draws, "factors": factors}
    return _curve_point("rate", grow, gamma, own, batches)


def _curve_point(quantity: str, grow: str, gamma: Gamma, own: Row, repeats: int) -> Point:
    params = {"quantity": quantity, "grow": grow, **levels(*gamma), **own}
    return paired(params, "factors", repeats, at_once=2)


def steady_panel(ax: Axes, rows: Table) -> None:
    """Simulated steady states over sizes, with the predicted ones, for every noise."""
    several = len(rows.distinct("mixing")) > 1
    for place, (gamma, some) in enumerate(rows.apart(*GAMMA)):
        for common, line in some.apart("mixing"):
            mixing, colour = common["mixing"], 2 * place + bool(common["mixing"])
            label = f"gamma = {_listed(gamma)}" + (f"; mixing {mixing:g}" if several else "")
            predicted = line.column("predicted")
            ax.plot(line.column("size"), predicted, color=COLOURS[colour], linewidth=1.0)
            means(ax, line, "size", label, colour=colour, dashed=True)
    log_ticks(ax)
    title = "simulated; thin lines: predicted"
    name_axes(ax, "number of weights N", "steady-state error", title=title)


def _listed(row: Row) -> str:
    return ", ".join(f"{row[name]:g}" for name in GAMMA)


def _rates(ax: Axes, rows: Table) -> None:
    sizes = rows.column("size")
    means(ax, rows, "size", "measured over random cycles")
    ax.plot(sizes, rows.column("predicted"), color=ink(), linewidth=1.0, label="formula")
    low, high = ax.get_ylim()
    for name, shade, words, line in (
        ("best_slides", COLOURS[1], "slides' best size", ":"),
        ("best_predicted", COLOURS[2], "predicted best size", "--"),
    ):
        ax.axvline(rows[0][name], color=shade, linestyle=line, linewidth=1.4, label=words)
    if rows[0]["grow"] == "synapses":
        words = "power law, T gamma2^2 / gamma3^2"
        ax.axvline(_power_law(rows[0]), color=COLOURS[3], linestyle="-.", label=words)
    if rows[0]["best"] is not None:
        ends = (rows[0]["best_low"], rows[0]["best_high"])
        ax.axvspan(*ends, color=COLOURS[0], alpha=0.15, lw=0, label="measured best size, 95%")
    ax.set_ylim(low, high)
    log_ticks(ax)


def draw(table: Table) -> Figures:
    fig, axes = panels(1, width=6.4, height=3.8)
    steady_panel(axes[0], table.where(quantity="steady state"))
    shared_legend(fig, axes, across=2)
    rates = table.where(quantity="rate")
    if not rates:
        return {"steady-state": fig}
    titles = {"expansion": "expansion, c1 = c2", "synapses": "redundant synapses"}
    look: Row = {"y": "mean rate <k>", "unit_interval": False, "legend_across": 3, "width": 4.8}
    words = "number of weights N"
    best = in_panels(rates.apart("grow"), _rates, words, lambda row: titles[row["grow"]], **look)
    return {"steady-state": fig, "best-size": best}


def steady_words(rows: Table) -> list[str]:
    """How far simulated steady states lie from predicted ones, and where they are smallest."""
    ratios = np.array(rows.column("ratio"), dtype=float)
    inside = int(((ratios >= 0.9) & (ratios <= 1.15)).sum())
    gaps = [abs(row["value"] - row["predicted"]) / row["error"] for row in rows if row["error"]]
    near = f"{sum(gap <= 3 for gap in gaps)} of {len(gaps)}"
    sure = f"; the prediction lies within 3 standard errors in {near}" if gaps else ""
    lines = [
        f"Steady states, {rows[0]['repeats']} repeats: simulated over predicted lies between "
        f"{ratios.min():.2f} and {ratios.max():.2f}, from 0.9 to 1.15 in {inside} of {len(rows)} "
        f"cells{sure}."
    ]
    for _, part in rows.apart(*GAMMA):
        for row in (some[0] for _, some in part.apart("mixing") if some[0]["best"] is not None):
            lines.append(
                f"gamma = ({_listed(row)}), mixing {row['mixing']:g}: the error is "
                f"smallest at {best_words(row)}; {predicted_words(row)}."
            )
    return lines


def best_words(row: Row) -> str:
    """For example "N = 397 (95%: 371 to 425)"."""
    low, high = row["best_low"], row["best_high"]
    edge = "" if row["inside"] else ", at an end of the range"
    return f"N = {row['best']:.0f} (95%: {low:.0f} to {high:.0f}{edge})"


WIDE = 3.0
"""Ends of an interval of best sizes that are further apart than so many times say nothing."""


def measured_at(row: Row, name: str) -> bool | None:
    """Whether the size of column ``name`` lies in the measured interval; None where that is too wide."""
    low, high = row["best_low"], row["best_high"]
    if not low <= row[name] <= high:
        return False
    return True if row["inside"] and high < WIDE * low else None


def predicted_words(row: Row) -> str:
    """For example "predicted 407 on these inputs, 400 by formula"."""
    curve, formula = row["best_of_curve"], row["best_predicted"]
    return f"predicted {curve:.0f} on these inputs, {formula:.0f} by formula"


def _power_law(row: Row) -> float:
    """T gamma2^2 / gamma3^2, T = 1: it holds along expansion; along synapses it is the rival."""
    return float(row["gamma2"] ** 2 / row["gamma3"] ** 2)


def _rate_words(row: Row) -> str:
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
    return f"Rate at gamma = ({_listed(row)}), {path}: largest at {best_words(row)}; {words}."


def find(table: Table) -> str:
    steady = table.where(quantity="steady state")
    lines = steady_words(steady) if steady else []
    for _, rows in table.where(quantity="rate").apart("grow"):
        lines += [_rate_words(rows[0])] if rows[0]["best"] is not None else []
    return said(lines, TOO_FEW if table else "")


EXPERIMENT = Declared(
    title="Linear networks: error and rate against size",
    source="Slides, 'Optimal Linear Network Size'; Raman, Rotondo and O'Leary (2019)",
    claim="There is an optimal size N* = (T gamma2^2 / gamma3^2) (1 - gamma1^2 / gamma2^2) that maximises "
    "the learning rate, whether neurons or redundant synapses are added.",
    task=LinearSizes(),
    quick=Plan.of(
        (steady_point(gamma, 0.0, 4) for gamma in LINEAR_GAMMAS),
        [rate_point("expansion", RATE, 250, 20), rate_point("synapses", RATE, 20, 10, SYNAPSES)],
    ),
    full=Plan.of(
        (steady_point(g, mixing, 48) for g in LINEAR_GAMMAS for mixing in LINEAR_MIXINGS),
        [rate_point("expansion", RATE, 1000, 40), rate_point("synapses", RATE, 200, 40, SYNAPSES)],
    ),
    hours=0.025,
)
