"""Gradient against curvature: how the direction of a step trades slope for curvature."""

from __future__ import annotations

from sublearn.experiments._lines import Figures, in_panels
from sublearn.experiments._table import Declared, said
from sublearn.experiments.tasks import Directions
from sublearn.plots import COLOURS, Axes, curve, ink, name_axes, panels, shared_legend
from sublearn.runs import Plan, Point, Row, Table

ANGLES = 19
_STEPS = (1.0, 2.0, 4.0)
_BENDS = {"up": "F bends up along the gradient", "down": "F bends down along the gradient"}


def _point(towards: str, steps: float, students: int) -> Point:
    params: Row = {"towards": towards, "steps": steps, "approached": 30, "angles": ANGLES}
    return Point(params, students * ANGLES, chunk=4 * ANGLES)


def _plane(ax: Axes, rows: Table, bends: str) -> None:
    """Slope across, curvature up: above the diagonal a step undoes more than it gains."""
    for colour, towards in enumerate(("flatter", "random")):
        label = f"towards {'the flatter' if towards == 'flatter' else 'a random'} direction"
        look: Row = {"color": COLOURS[colour], "marker": "os"[colour], "markersize": 3.0}
        for _, line in rows.where(bends=bends, towards=towards).apart("steps"):
            slope, curvature, start = line.column("slope"), line.column("curvature"), line[0]
            ax.plot(slope, curvature, linewidth=1.3, label=label, **look)
            if towards == "flatter":
                ax.annotate(
                    f"{start['steps']:g} |g|/|q|",
                    (start["slope"], start["curvature"]),
                    xytext=(5, -3),
                    textcoords="offset points",
                    fontsize=8,
                    color=ink(),
                )
    low, high = ax.get_ylim()
    ax.fill_between(
        [0.0, 1.3],
        [0.0, 1.3],
        10.0,
        color="#777777",
        alpha=0.15,
        lw=0,
        label="curvature above slope: F rises (second order)",
    )
    ax.axhline(0.0, color="#777777", linewidth=0.8)
    ax.set_xlim(-0.03, 1.28)
    ax.set_ylim(low, max(high, 1.2))
    name_axes(ax, "slope (gradient step: 1)", "curvature, same unit", title=_BENDS[bends])


def _turning(ax: Axes, rows: Table) -> None:
    for colour, (towards, bends) in enumerate(
        (t, b) for b in ("up", "down") for t in ("flatter", "random")
    ):
        part = rows.where(towards=towards, bends=bends)
        if part:
            ends = (part.column("fall_low"), part.column("fall_high"))
            label = f"{towards}, bends {bends}"
            curve(ax, part.column("angle"), part.column("fall"), *ends, label=label, colour=colour)
    ax.axhline(0.0, color="#777777", linewidth=0.8)


def draw(table: Table) -> Figures:
    fig, axes = panels(2, width=4.6, height=3.8)
    for ax, bends in zip(axes, _BENDS, strict=True):
        _plane(ax, table, bends)
    shared_legend(fig, axes, across=3)
    figures = {"slope-against-curvature": fig}
    words, title = "angle to the gradient (degrees)", "steps of {steps:g} |g|/|q|"
    look: Row = {"y": "fall of F / slope", "unit_interval": False, "width": 3.6}
    turning = in_panels(table.apart("steps"), _turning, words, title, **look)
    return {**figures, "fall-against-angle": turning}


def _words(rows: Table, steps: float, bends: str) -> str:
    flat = rows.where(steps=steps, bends=bends, towards="flatter")
    start = flat[0]
    top = max(flat, key=lambda row: row["fall"])
    text = (
        f"Steps of {steps:g} |g|/|q|, F bending {bends}: the gradient step lowers F for {start['learn']} of "
        f"{start['students']} students, by {start['fall']:.2f} of its slope (median)"
    )
    if top is not start:
        text += (
            f"; turned by {top['angle']:.0f} degrees towards the flatter direction it lowers F for "
            f"{top['learn']}, by {top['fall']:.2f}, with {top['slope']:.2f} of the slope and "
            f"a curvature of {top['curvature']:.2f} instead of {start['curvature']:.2f}"
        )
    return f"{text}."


def find(table: Table) -> str:
    lines = [
        _words(table, steps, bends)
        for bends in _BENDS
        for steps in table.distinct("steps")
        if table.where(steps=steps, bends=bends, towards="flatter")
    ]
    for bends in _BENDS:
        whole = table.where(towards="random", steps=1.0, bends=bends)
        if whole:
            last = whole[-1]
            lines.append(
                f"A wholly random step of length |g|/|q|, F bending {bends}, lowers F for {last['learn']} of "
                f"{last['students']} students: no slope, and a curvature of "
                f"{last['curvature']:.2f} (median)."
            )
    return said(lines)


EXPERIMENT = Declared(
    title="Gradient against curvature",
    source="Slides, 'Error Reduction Depends on Gradient, Hessian' (Figure 3A of the source)",
    claim="Curvature competes with the gradient to accelerate, slow or reverse learning.",
    task=Directions(),
    quick=Plan.of(_point(t, s, 16) for t in ("flatter", "random") for s in _STEPS),
    full=Plan.of(_point(t, s, 400) for t in ("flatter", "random") for s in _STEPS),
    hours=0.01,
)
