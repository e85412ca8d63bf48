"""Spread or concentrated: where should a fixed number of plastic weights sit when they are noisy?"""

from __future__ import annotations

import numpy as np

from sublearn.experiments._table import Declared, said
from sublearn.experiments._under_noise import half_width, levels, means, placed, with_error
from sublearn.experiments.tasks import GAMMA, Placements
from sublearn.plots import COLOURS, Axes, Figure, ink, name_axes, panels, shared_legend
from sublearn.runs import Plan, Point, Points, Table

_PLAIN = (0.1, 1.0, 0.05)
_STRONG = (0.1, 1.8, 0.12)
_SETTINGS: dict[str, tuple[int, int, tuple[float, float, float]]] = {
    "white inputs, m = 8": (8, 0, _PLAIN),
    "white inputs, m = 400": (400, 0, _PLAIN),
    "correlated inputs, m = 400": (400, 2, _PLAIN),
    "white inputs, m = 8, strong noise": (8, 0, _STRONG),
}
_SWEEP = "white inputs, m = 8, noise varied"
_SCALES = (0.25, 0.5, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0)
_NAMES = ("spread", "concentrated", "designed")


def _points(cycles: int, repeats: int) -> Points:
    swept = [(_SWEEP, (8, 0, (0.1, scale, 0.05 * scale))) for scale in _SCALES]
    for setting, (samples, factors, gamma) in [*_SETTINGS.items(), *swept]:
        params = {"setting": setting, **placed(samples, levels(*gamma), factors=factors)}
        yield Point({**params, "cycles": cycles}, 2 * repeats, chunk=16)


def _bars(ax: Axes, table: Table) -> None:
    settings = [name for name in _SETTINGS if table.where(setting=name)]
    for colour, name in enumerate(_NAMES):
        tables = [table.where(setting=setting, placement=name) for setting in settings]
        places = [k for k, rows in enumerate(tables) if rows]
        rows = Table(rows[0] for rows in tables if rows)
        if not rows:
            continue
        at = np.array(places) + (colour - 0.5) * 0.3
        ax.bar(at, rows.column("value"), 0.28, color=COLOURS[colour], label=f"{name}, simulated",
               yerr=[half_width(row) for row in rows], ecolor=ink(), capsize=2)  # fmt: skip
        ax.plot(at, rows.column("predicted"), "_", color=ink(), markersize=16,
                label="predicted" if not colour else None)  # fmt: skip
        ax.plot(at, rows.column("minimum"), ".", color=ink(),
                label="without noise, F_min" if not colour else None)  # fmt: skip
    words = [name.replace(", ", "\n").replace(" inputs", "") for name in settings]
    ax.set_xticks(range(len(settings)), words, fontsize=8)
    name_axes(ax, "setting", "steady-state error / start", title="64 of 256 weights plastic")


def _swept(ax: Axes, rows: Table) -> None:
    for colour, name in enumerate(_NAMES):
        part = rows.where(placement=name)
        if part:
            means(ax, part, "gamma2", f"{name}, simulated", colour=colour)
            ax.plot(
                part.column("gamma2"),
                part.column("predicted"),
                "--",
                color=COLOURS[colour],
                linewidth=1.0,
            )
    ax.set_yscale("log")
    name_axes(
        ax,
        "noise: gamma2 = 20 gamma3",
        "steady-state error / start",
        title="white inputs, m = 8; dashed: predicted",
    )


def draw(table: Table) -> Figure:
    fig, (left, right) = panels(2, width=5.2, height=3.8)
    _bars(left, table)
    _swept(right, table.where(setting=_SWEEP))
    shared_legend(fig, (left, right))
    return fig


def _line(rows: Table) -> str:
    spread, other = rows[0], rows[1]
    gamma = ", ".join(f"{spread[name]:g}" for name in GAMMA)
    gap = with_error(other, "more", sign=True)
    half = half_width(other, "more")
    more = other["more"]
    verdict = "no clear difference"
    if abs(more) > half:
        verdict = "spreading wins" if more > 0 else "concentrating wins"
    settled = "" if spread["level"] and other["level"] else "; not all have settled"
    return (
        f"{spread['setting']}, gamma = ({gamma}), {spread['repeats']} repeats: spread "
        f"{with_error(spread)} (predicted {spread['predicted']:.3f}, F_min "
        f"{spread['minimum']:.3f}, {spread['modes']:.0f} modes), concentrated "
        f"{with_error(other)} (predicted {other['predicted']:.3f}, F_min "
        f"{other['minimum']:.3f}, {other['modes']:.0f} modes); paired {gap}: "
        f"{verdict}{settled}."
    )


def _crossing(rows: Table) -> list[str]:
    """Between which noise levels the two change places."""
    pairs = [rows.where(gamma2=level) for level in rows.distinct("gamma2")]
    more = [(p[1]["gamma2"], p[1]["more"], half_width(p[1], "more"))
            for p in pairs if len(p) > 1]  # fmt: skip
    wins = [level for level, gap, half in more if gap > half]
    loses = [level for level, gap, half in more if gap < -half]
    if wins and loses and max(wins) < min(loses):
        return [
            f"With white inputs and m = 8 spreading wins up to gamma2 = {max(wins):g} and concentrating from "
            f"{min(loses):g} on (gamma3 = gamma2 / 20): spreading has more modes for the noise to excite."
        ]
    return []


def find(table: Table) -> str:
    lines = []
    for setting in _SETTINGS:
        rows = table.where(setting=setting)
        if len(rows) > 1 and rows[0]["error"] is not None:
            lines.append(_line(rows))
    lines += _crossing(table.where(setting=_SWEEP))
    slow = table.where(lambda row: row["error"] is not None and not row["level"])
    if slow:
        lines.append(
            f"{len(slow)} of {len(table)} curves have not settled in {slow[0]['cycles']} cycles (noise "
            f"down to gamma2 = {min(slow.column('gamma2')):g}): flat directions of square systems are slow."
        )
    return said(lines, "Too few repeats to tell the placements apart." if table else "")


EXPERIMENT = Declared(
    title="Spread or concentrated under noise",
    source="The paper's allocations (section 2.1) under the slides' noise; neither source asks",
    claim="Without noise an allocation should spread the learnable weights over the rows, so that its rank "
    "is full; what noise does to that is not said.",
    task=Placements(),
    quick=Plan.of(_points(6000, 8)),
    full=Plan.of(_points(24_000, 96)),
    hours=0.025,
    columns={"setting": "setting"},
)
