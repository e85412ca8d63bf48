"""Size against task-irrelevant change that is no white noise: another task's gradient, homeostasis."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from sublearn.experiments._linear_size import steady_point
from sublearn.experiments._table import Declared, said
from sublearn.experiments._under_noise import answered, means, with_error
from sublearn.experiments.tasks import IRRELEVANT, LinearSizes
from sublearn.plots import Figure, ink, log_ticks, name_axes, panels, shared_legend
from sublearn.runs import Plan, Points, Table

_SIZES = "1 1.6 2.4 3.2 4 5"
_LEVELS = (0.0, 0.05)
NAMES = dict(zip(IRRELEVANT, ("white", "a second task's gradient", "homeostasis"), strict=True))
"""How words and legends call the kinds of task-irrelevant change."""


def _points(repeats: int) -> Points:
    for g3 in _LEVELS:
        for kind in IRRELEVANT:
            yield steady_point((0.05, 1.0, g3), 0.0, repeats, _SIZES, irrelevant=kind)


def draw(table: Table) -> Figure:
    fig, axes = panels(len(_LEVELS), width=4.6, height=3.6)
    for ax, gamma3 in zip(axes, _LEVELS, strict=True):
        for colour, (kind, words) in enumerate(NAMES.items()):
            rows = table.where(gamma3=gamma3, irrelevant=kind)
            sizes = rows.column("size")
            means(ax, rows, "size", words, colour=colour)
            if rows and rows[0]["predicted"] is not None:
                said_so = rows.column("predicted")
                ax.plot(sizes, said_so, color=ink(), linewidth=1.0, label="white, predicted")
        log_ticks(ax)
        log_ticks(ax, "y")
        title = f"gamma3 = {gamma3:g}" if gamma3 else "no synaptic noise"
        name_axes(ax, "number of weights N", "steady-state error", title=title)
    shared_legend(fig, axes)
    return fig


def power(rows: Table) -> tuple[float, float]:
    """b of error ~ N^b, every size weighing the same, and its standard error from those of the means."""
    x, y = (np.log(np.array(rows.column(name), dtype=float)) for name in ("size", "value"))
    x = x - x.mean()
    relative = np.array([row["error"] / row["value"] for row in rows])
    spread = float(x @ x)
    return float(x @ y) / spread, math.sqrt(float(x**2 @ relative**2)) / spread


def diluted(measured: Iterable[tuple[float, float]]) -> bool | None:
    """Whether every error falls with size: power and standard error of each; None where one is unclear.

    A power within two standard errors of 0 says no only if it is sharp enough to part 0 from -1/2.
    """
    each = [
        True if b < -2 * error else False if b + 2 * error > -0.5 and error < 0.125 else None
        for b, error in measured
    ]
    return False if False in each else True if each and all(each) else None


def find(table: Table) -> str:
    lines, calm = [], table.where(lambda row: row["error"] is not None, gamma3=0.0)
    held = {kind: calm.where(irrelevant=kind) for kind in IRRELEVANT}
    powers = {kind: power(rows) for kind, rows in held.items() if len(rows) > 2}
    if len(powers) == len(IRRELEVANT):
        yes = diluted(power for kind, power in powers.items() if kind != "white")
        each = "; ".join(f"{NAMES[c]} {b:.2f} +- {error:.2f}" for c, (b, error) in powers.items())
        lines.append(
            answered(yes, f"without synaptic noise the error goes as N to the power: {each}.")
        )
    for common, rows in table.apart("gamma3", "irrelevant"):
        ends = " to ".join(
            f"{with_error(row, digits=2)} at N = {row['size']}" for row in (rows[0], rows[-1])
        )
        kind = NAMES[str(common["irrelevant"])]
        lines.append(f"gamma3 = {common['gamma3']:g}, {kind}: from {ends}.")
    return said(lines)


EXPERIMENT = Declared(
    title="Size against another task's gradient and homeostasis",
    source="Slides, model: 'task irrelevant plasticity e.g. homeostatic plasticity, learning on other tasks'",
    claim="Task-irrelevant plasticity is a random direction, of which each of N weights gets one part in "
    "N: larger networks dilute it.",
    task=LinearSizes(),
    quick=Plan.of(_points(4)),
    full=Plan.of(_points(64)),
    hours=0.01,
)
