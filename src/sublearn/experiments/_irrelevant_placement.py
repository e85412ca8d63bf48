"""Spread or concentrated plastic weights, under another task's gradient or homeostasis."""

from __future__ import annotations

from itertools import product

from sublearn.experiments._irrelevant_change import NAMES
from sublearn.experiments._lines import level_ticks
from sublearn.experiments._table import Declared, said
from sublearn.experiments._under_noise import (
    answered,
    half_width,
    levels,
    means,
    placed,
    with_error,
)
from sublearn.experiments.tasks import IRRELEVANT, Placements
from sublearn.plots import Axes, Figure, ink, log_ticks, name_axes, panels, shared_legend
from sublearn.runs import Plan, Point, Points, Row, Table

# 8 plastic weights in every row if they are spread: room for 8 samples of both tasks together.
_SETTINGS = {"room for both tasks, m = 4": 4, "room for one of them, m = 6": 6}
_GAMMA2 = (0.05, 0.09, 0.2, 0.5, 1.0)
_GAMMA1 = 0.1


def _points(cycles: int, repeats: int) -> Points:
    for (setting, samples), kind, gamma2 in product(_SETTINGS.items(), IRRELEVANT, _GAMMA2):
        params = {"setting": setting, **placed(samples, levels(_GAMMA1, gamma2, 0.01))}
        params |= {"cycles": cycles, "irrelevant": kind}
        yield Point(params, 2 * repeats, chunk=16)


def _lines(ax: Axes, rows: Table) -> None:
    for colour, (kind, words) in enumerate(NAMES.items()):
        for placement in ("spread", "concentrated"):
            held = rows.where(irrelevant=kind, placement=placement)
            dashed = placement == "concentrated"
            means(ax, held, "gamma2", f"{words}, {placement}", colour=colour, dashed=dashed)
    ax.axvline(_GAMMA1, color=ink(), linewidth=0.8, linestyle=":", label="gamma2 = gamma1")


def draw(table: Table) -> Figure:
    fig, axes = panels(len(_SETTINGS), width=4.8, height=3.8)
    for ax, setting in zip(axes, _SETTINGS, strict=True):
        _lines(ax, table.where(setting=setting))
        log_ticks(ax)
        level_ticks(ax, _GAMMA2)
        ax.set_yscale("log")
        name_axes(ax, "task-irrelevant change gamma2", "error / error at the start", title=setting)
    shared_legend(fig, axes, across=3)
    return fig


def winner(row: Row) -> int:
    """1 where spreading wins over the concentrated row, -1 where it loses, 0 where chance may be all."""
    sure = row["more_error"] is not None and abs(row["more"]) > half_width(row, "more")
    return 0 if not sure else 1 if row["more"] > 0 else -1


def find(table: Table) -> str:
    rows, lines = table.where(placement="concentrated"), list[str]()
    if rows:
        wins = [winner(row) for row in rows]
        yes = False if -1 in wins else True if all(wins) else None
        words = f"of {len(wins)} settings spreading wins in {wins.count(1)} and loses in {wins.count(-1)}."
        lines.append(answered(yes, words))
    for common, some in table.apart("setting", "irrelevant"):
        duels, last = some.where(placement="concentrated"), some[-1]["gamma2"]
        both = "; ".join(f"{row['placement']} {with_error(row)}" for row in some.where(gamma2=last))
        lost = [row["gamma2"] for row in duels if winner(row) < 0]
        ends = f", and loses at gamma2 = {', '.join(f'{g:g}' for g in lost)}" if lost else ""
        won = f"spreading wins in {sum(winner(row) > 0 for row in duels)} of {len(duels)}{ends}"
        where = f"{common['setting']}, {NAMES[str(common['irrelevant'])]}, gamma2 = {last:g}"
        lines.append(f"{where}: {both}; {won}.")
    return said(lines)


EXPERIMENT = Declared(
    title="Spread or concentrated under another task and homeostasis",
    source="The paper's allocations (section 2.1) under the slides' task-irrelevant plasticity",
    claim="Learnable weights should be spread over the rows; what other tasks and homeostasis do to that "
    "is not said.",
    task=Placements(),
    quick=Plan.of(_points(2000, 6)),
    full=Plan.of(_points(6000, 48)),
    hours=0.01,
    columns={"setting": "setting"},
)
