"""Spread or concentrated plastic weights, under another task's gradient or homeostasis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sublearn.experiments._irrelevant_change import NAMES
from sublearn.experiments._lines import Figures
from sublearn.experiments._table import said
from sublearn.experiments._under_noise import decided_words, half_width, interval, with_error
from sublearn.experiments.tasks import GAMMA, IRRELEVANT, Placements
from sublearn.plots import curve, ink, log_ticks, name_axes, panels, shared_legend
from sublearn.runs import Experiment, Plan, Point, Row, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# 8 plastic weights in every row if they are spread: room for 8 samples of both tasks together.
_SETTINGS = {"room for both tasks, m = 4": 4, "room for one of them, m = 6": 6}
_GAMMA2 = (0.05, 0.09, 0.2, 0.5, 1.0)
_GAMMA1 = 0.1


def _plan(cycles: int, repeats: int) -> Plan:
    def point(setting: str, samples: int, kind: str, gamma2: float) -> Point:
        params: Row = {
            "setting": setting,
            "network": "linear:inputs=32,outputs=8",
            "samples": samples,
            "ensemble": "weights=normal*4 teacher=normal*4",
            "plastic": 64,
            **dict(zip(GAMMA, (_GAMMA1, gamma2, 0.01), strict=True)),
            "cycles": cycles,
            "irrelevant": kind,
        }
        return Point(params, 2 * repeats, chunk=16)

    return Plan(
        tuple(
            point(setting, samples, kind, gamma2)
            for setting, samples in _SETTINGS.items()
            for kind in IRRELEVANT
            for gamma2 in _GAMMA2
        )
    )


def _lines(ax: Axes, rows: Table) -> None:
    for colour, (kind, words) in enumerate(NAMES.items()):
        for placement in ("spread", "concentrated"):
            held = rows.where(irrelevant=kind, placement=placement)
            label = f"{words}, {placement}"
            ends = interval(held)
            curve(ax, held.column("gamma2"), held.column("value"), *ends, label=label,
                  colour=colour, dashed=placement == "concentrated")  # fmt: skip
    ax.axvline(_GAMMA1, color=ink(), linewidth=0.8, linestyle=":", label="gamma2 = gamma1")


def draw(table: Table) -> Figures:
    fig, axes = panels(len(_SETTINGS), width=4.8, height=3.8)
    for ax, setting in zip(axes, _SETTINGS, strict=True):
        _lines(ax, table.where(setting=setting))
        log_ticks(ax)
        ax.set_xticks(_GAMMA2, [f"{level:g}" for level in _GAMMA2], minor=False)
        ax.minorticks_off()
        ax.set_yscale("log")
        name_axes(ax, "task-irrelevant change gamma2", "error / error at the start", title=setting)
    shared_legend(fig, axes, across=3)
    return {"irrelevant-placement": fig}


def winner(row: Row) -> int:
    """1 where spreading wins over the concentrated row, -1 where it loses, 0 where chance may be all."""
    sure = row["more_error"] is not None and abs(row["more"]) > half_width(row, "more_error")
    return 0 if not sure else 1 if row["more"] > 0 else -1


def find(table: Table) -> str:
    rows, lines = table.where(placement="concentrated"), list[str]()
    if rows:
        wins = [winner(row) for row in rows]
        yes = False if -1 in wins else True if all(wins) else None
        words = f"of {len(wins)} settings spreading wins in {wins.count(1)} and loses in {wins.count(-1)}."
        lines.append(decided_words(yes, words))
    for setting in table.distinct("setting"):
        for kind in table.where(setting=setting).distinct("irrelevant"):
            held = rows.where(setting=setting, irrelevant=kind)
            last = table.where(setting=setting, irrelevant=kind)[-1]["gamma2"]
            both = "; ".join(
                f"{row['placement']} {with_error(row, 'value', 'error')}"
                for row in table.where(setting=setting, irrelevant=kind, gamma2=last)
            )
            lost = [row["gamma2"] for row in held if winner(row) < 0]
            ends = f", and loses at gamma2 = {', '.join(f'{g:g}' for g in lost)}" if lost else ""
            won = f"spreading wins in {sum(winner(row) > 0 for row in held)} of {len(held)}{ends}"
            lines.append(f"{setting}, {NAMES[str(kind)]}, gamma2 = {last:g}: {both}; {won}.")
    return said(lines)


EXPERIMENT = Experiment(
    name="irrelevant-placement",
    title="Spread or concentrated under another task and homeostasis",
    source="The paper's allocations (section 2.1) under the slides' task-irrelevant plasticity",
    claim="Learnable weights should be spread over the rows; what other tasks and homeostasis do to that "
    "is not said.",
    task=Placements(),
    quick=_plan(2000, 6),
    full=_plan(6000, 48),
    hours=0.01,
    columns={"setting": "setting"},
    draw=draw,
    find=find,
)
