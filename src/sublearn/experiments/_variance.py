"""Appendix E.3: does the scale g of the weights matter?"""

from __future__ import annotations

from typing import Any

from sublearn.experiments._lines import Figure, decided, in_panels, protocol
from sublearn.experiments._table import (
    OURS,
    Declared,
    by_ladder,
    by_protocol,
    decided_words,
    found_words,
    full_trials,
    point,
    pooled,
    said,
)
from sublearn.experiments.tasks import Decisions
from sublearn.runs import Plan, Point, Row, Table

_SCALED = {"both": "weights=normal*{g} teacher=normal*{g}", "student": "weights=normal*{g}"}
_WORDS = {"both": "student and teacher", "student": "student only"}
_SETTINGS = {
    "diagonal, n = 2": ("lrnn:n=2,b=1,d=1,T=2", 2, "W:diagonal"),
    "k = 5 rows, n = 6": ("lrnn:n=6,b=1,d=4,T=3", 3, "W:first-rows=5"),
}


def _point(setting: str, scaled: str, g: float, method: str, trials: int) -> Point:
    own: Row = {"setting": setting, "scaled": scaled, "g": g}
    more: Row = {"ensemble": _SCALED[scaled].format(g=g), "method": method}
    return point(own, _SETTINGS[setting], trials, 2 if method == "reference" else 25, **more)


def draw(table: Table) -> Figure:
    def lines(ax: Any, rows: Table) -> None:
        for colour, scaled in ((0, "both"), (2, "student")):
            some = rows.where(scaled=scaled)
            decided(ax, some, "g", f"decided, {_WORDS[scaled]} scaled", colour)
        protocol(ax, rows.where(scaled="both"), "g", "paper's protocol, both scaled")
        ax.set_xscale("log", base=2)
        ax.set_xticks(rows.distinct("g"), [f"{g:g}" for g in rows.distinct("g")])

    groups = table.apart("setting")
    return in_panels(groups, lines, "scale g of the weights", "{setting}", width=4.8)


def find(table: Table) -> str:
    lines = [
        "For a teacher of the same scale the match probability cannot depend on g: W, B and D times g "
        "change both sides of every equation by the same power of g."
    ]
    for common, rows in table.apart("setting"):
        setting = common["setting"]
        both, alone = (by_ladder(rows.where(scaled=scaled)) for scaled in ("both", "student"))
        if both:
            lines.append(f"{setting}, both scaled, all g together: {decided_words(pooled(both))}.")
        if alone:
            ends = " and ".join(
                f"g = {row['g']:g}: {decided_words(row)}" for row in (alone[0], alone[-1])
            )
            lines.append(f"{setting}, only the student scaled: {ends}.")
        if paper := by_protocol(rows):
            each = "; ".join(f"g = {row['g']:g}: {found_words(row)}" for row in paper)
            lines.append(f"{setting}: the paper's protocol, both scaled ({OURS}), finds {each}.")
    return said(lines if table else [])


_SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)
EXPERIMENT = Declared(
    title="The scale of the weights",
    source="Appendix E.3",
    claim="All matrices with rows of length n are drawn with variance g^2 / n, so that hidden states "
    "neither explode nor vanish; that the match probability depends on g is not said.",
    task=Decisions(),
    quick=Plan.of(
        (
            _point(setting, scaled, g, "ladder", trials)
            for setting, trials in zip(_SETTINGS, (150, 60), strict=True)
            for scaled in _SCALED
            for g in _SCALES
        ),
        (_point("k = 5 rows, n = 6", "both", g, "reference", 16) for g in (0.25, 1.0, 4.0)),
    ),
    full=Plan.of(
        _point(setting, scaled, g, method, full_trials(method))
        for method in ("ladder", "reference")
        for setting in _SETTINGS
        for scaled in _SCALED
        for g in _SCALES
        if method == "ladder" or scaled == "both"
    ),
    hours=0.02,
    columns={"setting": "setting", "scaled": "whose weights are scaled", "g": "scale g"},
)
