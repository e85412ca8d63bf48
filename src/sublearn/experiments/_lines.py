"""The lines that most pictures hold, and the panels that hold them.

Lines: what is decided, what the paper's protocol finds, what a learner reaches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sublearn.experiments._table import by_ladder, by_protocol, found_interval
from sublearn.plots import COLOURS, bracket, curve, name_axes, panels, shared_legend
from sublearn.plots import Figure as Figure
from sublearn.runs import Row, Table

Figures = dict[str, Figure]
"""Pictures by their names."""
Groups = Sequence[tuple[Row, Table]]
"""Rows that agree in some columns, and what these say."""
PAPER = "paper's protocol (fsolve, 400 starts)"
MATCH_PROBABILITY = "match probability MP"


def decided(ax: Any, table: Table, x: str, label: str = "decided", colour: int = 0) -> None:
    """Shares matched, undecided as the gap to the shares not refuted, intervals shaded."""
    if rows := by_ladder(table):
        ends = [rows.column(name) for name in ("share", "possible", "low", "high")]
        bracket(ax, rows.column(x), *ends, label=label, colour=colour)


def protocol(ax: Any, table: Table, x: str, label: str = PAPER) -> None:
    """Shares that the paper's protocol finds, dashed; not found counts as no match there."""
    if rows := by_protocol(table):
        low, high = zip(*(found_interval(row) for row in rows), strict=True)
        ends = rows.column("share"), low, high
        curve(ax, rows.column(x), *ends, label=label, colour=1, dashed=True)


def shares(
    ax: Any, rows: Table, x: str, label: str, colour: int = 0, dashed: bool = False, of: str = ""
) -> None:
    """Other shares against x, intervals shaded; ``of`` stands before the names of their columns."""
    if rows:
        ends = [rows.column(f"{of}{name}") for name in ("share", "low", "high")]
        curve(ax, rows.column(x), *ends, label=label, colour=colour, dashed=dashed)


def reached(ax: Any, rows: Table, x: str, label: str, colour: int, dashed: bool = False) -> None:
    """Shares within eps against x."""
    shares(ax, rows, x, label, colour, dashed, of="within_")


def quartiles(ax: Any, rows: Table, x: str, name: str, label: str, **look: Any) -> None:
    """Medians against x, the quartiles shaded."""
    ends = [rows.column(column) for column in (name, f"{name}_quarter", f"{name}_rest")]
    curve(ax, rows.column(x), *ends, label=label, **look)


def spans(ax: Any, rows: Table, places: Sequence[float], colour: int, of: str = "") -> None:
    """The 95% intervals of shares as lines from left to right, each at its place."""
    for place, row in zip(places, rows, strict=True):
        ends = [row[f"{of}low"], row[f"{of}high"]]
        ax.plot(ends, [place] * 2, color=COLOURS[colour], lw=1.4)


def level_ticks(ax: Any, levels: Sequence[float]) -> None:
    """Ticks at these levels alone, on a logarithmic axis."""
    ax.set_xticks(levels, [f"{level:g}" for level in levels], minor=False)
    ax.minorticks_off()


def in_panels(
    groups: Groups,
    lines: Callable[[Any, Table], None],
    x: str,
    title: str | Callable[[Row], str],
    *,
    y: str = MATCH_PROBABILITY,
    unit_interval: bool = True,
    legend_across: int = 4,
    **layout: Any,
) -> Figure:
    """A panel for each group of rows (:meth:`Table.apart`), its ``lines``, and one legend for all.

    ``title`` may name columns in braces; ``unit_interval`` says whether y is a share. ``layout`` is for
    the panels.
    """
    fig, axes = panels(len(groups), **layout)
    for ax, (common, rows) in zip(axes, groups, strict=False):
        lines(ax, rows)
        words = title.format(**common) if isinstance(title, str) else title(common)
        name_axes(ax, x, y, title=words, unit_interval=unit_interval)
    if not groups:
        name_axes(axes[0], x, y)
    shared_legend(fig, axes, across=legend_across)
    return fig


def beside(
    groups: Groups,
    x: str,
    words: str,
    title: str | Callable[[Row], str],
    first: Callable[[Any], object] = lambda ax: None,
    **layout: Any,
) -> Figure:
    """Panels of what is decided beside what the paper's protocol finds; ``first`` draws below them."""

    def lines(ax: Any, rows: Table) -> None:
        first(ax)
        decided(ax, rows, x)
        protocol(ax, rows, x)
        if x.endswith("_used"):  # a share
            ax.set_xlim(0, 1.03)

    return in_panels(groups, lines, words, title, **layout)
