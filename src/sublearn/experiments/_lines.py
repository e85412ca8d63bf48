"""The two lines that most pictures hold: what is decided, and what the paper's protocol finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sublearn.experiments._table import found_interval, values
from sublearn.plots import bracket, curve
from sublearn.runs import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAPER = "paper's protocol (fsolve, 400 starts)"
MATCH_PROBABILITY = "match probability MP"


def decided(ax: Axes, rows: Table, x: str, label: str, colour: int = 0) -> None:
    """Shares matched, undecided as the gap to the shares not refuted, intervals shaded."""
    if rows:
        ends = [values(rows, name) for name in ("share", "possible", "low", "high")]
        gap = "undecided" if label.endswith("decided") else None
        bracket(ax, values(rows, x), *ends, label=label, colour=colour, gap=gap)


def protocol(ax: Axes, rows: Table, x: str, label: str = PAPER, colour: int = 1) -> None:
    """Shares that the paper's protocol finds, dashed; not found counts as no match there."""
    if rows:
        low, high = zip(*(found_interval(row) for row in rows), strict=True)
        curve(
            ax,
            values(rows, x),
            values(rows, "share"),
            low,
            high,
            label=label,
            colour=colour,
            dashed=True,
        )
