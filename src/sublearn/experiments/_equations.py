"""Section 3.3's heuristic: match probability against the quadratic equations that are left."""

from __future__ import annotations

from typing import Any

from sublearn.experiments._lines import Figure, decided, in_panels
from sublearn.experiments._table import Declared, decided_words, point, pooled, rises, said
from sublearn.experiments.tasks import ByEquations
from sublearn.runs import Plan, Points, Table

_NETWORKS = {
    "n = T = m = 3, d = 1": ("lrnn:n=3,b=1,d=1,T=3", 3, (1, 2, 3)),
    "n = T = m = 4, d = 1": ("lrnn:n=4,b=1,d=1,T=4", 4, (1, 2, 3, 4)),
    "n = 6, T = m = 3, d = 2": ("lrnn:n=6,b=1,d=2,T=3", 3, (2, 3, 4, 6)),
    "n = 8, T = m = 4, d = 4": ("lrnn:n=8,b=1,d=4,T=4", 4, (4, 5, 6, 8)),
}


def _points(trials: int) -> Points:
    for name, (network, samples, rows) in _NETWORKS.items():
        for k in rows:
            setting = network, samples, f"W:first-rows={k}"
            yield point({"setting": name, "k": k}, setting, trials, chunk=20)


def by_left(table: Table) -> Table:
    """One line per number of equations left, all rules together."""
    return Table(
        {"left": left, **pooled(table.where(left=left))} for left in sorted(table.distinct("left"))
    )


def draw(table: Table) -> Figure:
    def lines(ax: Any, rows: Table) -> None:
        decided(ax, by_left(rows), "left")

    words = "quadratic equations left, T b k - d m"
    return in_panels(table.apart("setting"), lines, words, "{setting}", across=2, width=4.6)


def find(table: Table) -> str:
    lines, kinds = [], []
    for setting in table.distinct("setting"):
        some = table.where(lambda row: row["left"] > 0, setting=setting)
        if len(counts := sorted(some.distinct("left"))) > 1:
            few = pooled(some.where(left=counts[0]))
            more = pooled(Table(row for row in some if row["left"] > counts[0]))
            kinds.append(rises(few, more))
            lines.append(
                f"{setting}: {decided_words(few)} with {counts[0]} quadratic equations left and "
                f"{decided_words(more)} with more."
            )
    up, down = kinds.count(True), kinds.count(False)
    if kinds:
        kind = "No" if down else "Yes" if up else "Not decided by this"
        head = f"{kind}, from the first quadratic equations on: the match probability rises in {up} of "
        tail = f"{len(kinds)} settings, falls in {down} and is open in {kinds.count(None)}; "
        lines.insert(0, f"{head}{tail}saturated rows, which leave none, stand apart.")
    if none := table.where(left=0):
        lines.append(f"With none left the system is linear: {decided_words(pooled(none))}.")
    return said(lines)


EXPERIMENT = Declared(
    title="Match probability against quadratic equations",
    source="Section 3.3, Lemma 3.3; Subag (2024)",
    claim="The more truly quadratic equations an allocation leaves, T b k - d m for k rows in use, the "
    "higher its match probability.",
    task=ByEquations(),
    quick=Plan.of(_points(60)),
    full=Plan.of(_points(5000)),
    hours=0.05,
    columns={"setting": "setting", "k": "rows allowed"},
)
