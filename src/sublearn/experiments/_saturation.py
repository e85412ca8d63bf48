"""Appendix E.1: matches against the number of starts, and where the paper would have stopped."""

from __future__ import annotations

from typing import Any

from sublearn.experiments._lines import PAPER, in_panels, shares
from sublearn.experiments._table import OURS, Declared, named, point, said
from sublearn.experiments.tasks import Saturation
from sublearn.plots import Figure, ink
from sublearn.runs import Plan, Point, Table

_LABELS = {"reference": PAPER.split(",")[0] + ")", "search": "our search alone"}


def _point(n: int, k: int, method: str, starts: int, trials: int) -> Point:
    setting = f"lrnn:n={n},b=1,d=4,T={n // 2}", n // 2, f"W:first-rows={k}"
    chunk = 2 if method == "reference" else 10
    return point({"n": n, "k": k}, setting, trials, chunk, method=method, starts=starts)


def threshold(rows: Table) -> int | None:
    """Where the paper's rule would stop looking: the first s after which 2 s starts find no more.

    The rule is read on the table's own grid, from 25 starts on; None if the matches never stand still.
    """
    matched = {int(row["after"]): row["matched"] for row in rows}
    for starts in sorted(matched):
        if starts >= 25 and matched.get(2 * starts) == matched[starts]:
            return starts
    return None


def draw(table: Table) -> Figure:
    def lines(ax: Any, rows: Table) -> None:
        for colour, method in enumerate(("search", "reference")):
            some, dashed = rows.where(method=method), method == "reference"
            shares(ax, some, "after", _LABELS[method], colour, dashed)
        for starts, words in ((200, "paper: nothing new"), (400, "paper: stops")):
            ax.axvline(starts, color=ink(), linewidth=0.9, linestyle=":")
            ax.annotate(
                words,
                (starts, 0.02),
                rotation=90,
                fontsize=7.5,
                ha="right",
                va="bottom",
                color=ink(),
            )
        ax.set_xscale("log")
        ax.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1000"])
        ax.set_xlim(0.9, 1.15 * max(rows.column("after")))

    y, title = "share of instances matched so far", "n = {n}, k = {k}"
    return in_panels(table.apart("n", "k"), lines, "random starts", title, y=y, width=4.6)


def find(table: Table) -> str:
    lines = []
    for common, both in table.apart("n", "k"):
        if rows := both.where(method="reference"):
            last, at = rows[-1], threshold(rows)
            stop = "finds no reason to stop" if at is None else f"would stop at {at} starts"
            lines.append(
                f"{named(common, common)}: after {last['after']} starts fsolve ({OURS}) has matched "
                f"{last['matched']} of {last['trials']} instances (95%: {last['low']:.3f} to "
                f"{last['high']:.3f}); the paper's rule, read on this grid, {stop}."
            )
        if ours := both.where(method="search"):
            last = ours[-1]
            first = next(row for row in ours if row["matched"] == last["matched"])
            lines.append(
                f"Our search matches {last['matched']} of {last['trials']} of the same instances, each "
                f"with a proof, within {first['after']} starts."
            )
    return said(lines)


EXPERIMENT = Declared(
    title="Matches against restarts",
    source="Appendix E.1",
    claim="After about 200 initialisations of fsolve hardly any new solution is found, so 400 are "
    "enough to say that there is none.",
    task=Saturation(),
    quick=Plan.of(
        (_point(8, k, "search", 400, 24) for k in (5, 8)),
        (_point(8, k, "reference", 400, 24) for k in (5, 8)),
    ),
    full=Plan.of(
        _point(n, k, method, 1600, 60)
        for method in ("search", "reference")
        for n, k in ((8, 5), (8, 8), (12, 6))
    ),
    hours=0.06,
    columns={"n": "units n", "k": "rows k"},
)
