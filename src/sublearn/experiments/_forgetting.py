"""What is left of a task that nothing practises, while task-irrelevant change goes on."""

from __future__ import annotations

from typing import Any

import numpy as np

from sublearn.experiments._irrelevant_change import NAMES
from sublearn.experiments._table import Declared, said
from sublearn.experiments._under_noise import (
    answered,
    half_width,
    levels,
    means,
    placed,
    with_error,
)
from sublearn.experiments.tasks import IRRELEVANT, Forgetting
from sublearn.plots import (
    COLOURS,
    MARKERS,
    Axes,
    Figure,
    curve,
    ink,
    log_ticks,
    name_axes,
    panels,
    shared_legend,
)
from sublearn.runs import Plan, Point, Points, Table

_CYCLES = (10, 30, 100, 300, 1000, 3000)
_PLACEMENTS = ("spread", "concentrated")


def _points(repeats: int) -> Points:
    shared = placed(4, levels(0.0, 0.05, 0.0))
    shared["norm"] = 4.0  # what a row has on average before it learns
    for kind in IRRELEVANT:
        for cycles in _CYCLES:
            yield Point({**shared, "irrelevant": kind, "cycles": cycles}, 2 * repeats, chunk=32)


def _over_time(ax: Axes, table: Table) -> None:
    for colour, (kind, words) in enumerate(NAMES.items()):
        rows = table.where(irrelevant=kind, placement="spread")
        cycles = rows.column("cycles")
        means(ax, rows, "cycles", words, colour=colour)
        look: dict[str, Any] = {"color": ink(), "linewidth": 1.0, "linestyle": ":"}
        label = None if colour else "predicted; but for white, where it ends"
        ax.plot(cycles, rows.column("predicted"), label=label, **look)
    rows = table.where(irrelevant="second task", placement="spread")
    label = "the second task itself"
    curve(ax, rows.column("cycles"), rows.column("other"), label=label, colour=3, dashed=True)
    log_ticks(ax)
    ax.set_ylim(bottom=0.0)
    title = "64 weights spread over the rows"
    name_axes(ax, "cycles without practice", "error / error before learning", title=title)


def _by_placement(ax: Axes, last: Table) -> None:
    for colour, (kind, words) in enumerate(NAMES.items()):
        for at, placement in enumerate(_PLACEMENTS):
            rows = last.where(irrelevant=kind, placement=placement)
            if rows:
                look: dict[str, Any] = {"color": COLOURS[colour], "marker": MARKERS[colour]}
                label = words if not at else None
                gap, half = max(rows[0]["forgotten"], 1e-6), half_width(rows[0], "forgotten")
                down = min(half, 0.9 * gap)  # the logarithm has no room for 0
                place = at + 0.15 * (colour - 1)
                ax.errorbar(place, gap, yerr=[[down], [half]], capsize=3, label=label, **look)
    ax.set_xticks(range(2), _PLACEMENTS)
    ax.set_xlim(-0.5, 1.5)
    ax.set_yscale("log")
    name_axes(ax, "placement", "forgotten / error before learning",
              title=f"after {last[0]['cycles']} cycles" if last else "")  # fmt: skip


def draw(table: Table) -> Figure:
    fig, (left, right) = panels(2, width=4.8, height=3.8)
    _over_time(left, table)
    _by_placement(right, _last(table))
    shared_legend(fig, (left, right), across=3)
    return fig


def _last(table: Table) -> Table:
    """The rows of the longest time that every kind of change has been given."""
    times = [set(table.where(irrelevant=kind).distinct("cycles")) for kind in IRRELEVANT]
    common = set.intersection(*times)
    return table.where(cycles=max(common)) if common else Table()


def as_white(rows: Table) -> bool | None:
    """Whether every kind forgets as much as white change, within two standard errors of the difference."""
    lost = {str(row["irrelevant"]): row for row in rows if row["forgotten_error"] is not None}
    if set(lost) != set(IRRELEVANT):
        return None
    white = lost.pop("white")
    apart = [
        abs(row["forgotten"] - white["forgotten"])
        > 2 * np.hypot(row["forgotten_error"], white["forgotten_error"])
        for row in lost.values()
    ]
    return False if all(apart) else None


def find(table: Table) -> str:
    last, lines = _last(table), list[str]()
    for placement in _PLACEMENTS:
        rows = last.where(placement=placement)
        if not rows:
            continue
        each = "; ".join(
            f"{NAMES[str(row['irrelevant'])]} {with_error(row, 'forgotten')}" for row in rows
        )
        text = (
            f"{rows[0]['cycles']} cycles of the same length, {placement} weights: of a learned task is "
            f"forgotten, by {each}."
        )
        lines.append(answered(as_white(rows), text) if not lines else text)
        drawn = rows.where(irrelevant="second task")
        if drawn and drawn[0]["other"] is not None:
            lines.append(
                f"{placement}: the first task's error ends at {with_error(drawn[0])} "
                f"where the nearest weights that solve the second have {drawn[0]['predicted']:.3f}; the "
                f"second's own is then {with_error(drawn[0], 'other')}."
            )
    for row in last.where(lambda row: row["more_error"], placement="concentrated"):
        sure = abs(row["more"]) > half_width(row, "more")
        way = "less" if row["more"] < 0 else "more"
        lines.append(
            f"{NAMES[str(row['irrelevant'])]}: concentrated weights forget "
            f"{way if sure else 'neither less nor more, as far as can be seen'}: pair by pair "
            f"{with_error(row, 'more', sign=True)}."
        )
    return said(lines)


EXPERIMENT = Declared(
    title="What is forgotten while something else changes the weights",
    source="Slides, model: 'task irrelevant plasticity e.g. homeostatic plasticity, learning on other tasks'",
    claim="Homeostatic plasticity and learning on other tasks act on a task as a random direction of the "
    "same length would.",
    task=Forgetting(),
    quick=Plan.of(_points(8)),
    full=Plan.of(_points(96)),
    hours=0.003,
)
