"""Do all allocations approach match probability 1 as the network grows?"""

from __future__ import annotations

from typing import Any

from sublearn.experiments._lines import Figure, decided, in_panels
from sublearn.experiments._table import DECIDED, Declared, decided_words, point, said
from sublearn.experiments.tasks import Decisions
from sublearn.runs import Plan, Point, Points, Row, Table

_FAMILIES = {
    "one": "b = d = 1, T = m = n",
    "four": "b = 1, d = 4, T = m = n / 2",
}
_KINDS = ("diagonal", "cycle", "all rows", "d + 1 rows", "half of the rows")


def _learn(kind: str, n: int) -> str:
    if kind == "diagonal":
        return "W:diagonal"
    if kind == "cycle":
        return "W:entries=" + "/".join(f"{i}.{(i + 1) % n}" for i in range(n))
    rows = {"d + 1 rows": 5, "half of the rows": n // 2, "all rows": n}
    return f"W:first-rows={rows[kind]}"


def _point(family: str, kind: str, n: int, trials: int) -> Point:
    d, T = (1, n) if family == "one" else (4, n // 2)
    own: Row = {"family": _FAMILIES[family], "kind": kind, "n": n}
    return point(own, (f"lrnn:n={n},b=1,d={d},T={T}", T, _learn(kind, n)), trials, chunk=5)


def draw(table: Table) -> Figure:
    def lines(ax: Any, rows: Table) -> None:
        for common, some in rows.apart("kind"):
            decided(ax, some, "n", str(common["kind"]), _KINDS.index(common["kind"]))
        ax.xaxis.get_major_locator().set_params(integer=True)

    groups = table.apart("family")
    return in_panels(groups, lines, "units n", "{family}", legend_across=5, width=4.8)


def find(table: Table) -> str:
    lines, stay = [], []
    for common, rows in table.apart("family", "kind"):
        family, kind, first, last = common["family"], common["kind"], rows[0], rows[-1]
        ends = f"n = {first['n']}: {decided_words(first)}"
        if last is not first:
            ends += f"; n = {last['n']}: {decided_words(last)}"
        lines.append(f"{family}, {kind}: {ends}.")
        if last is not first and last["high"] < 0.9:
            stay.append(f"{kind} ({family})")
    if stay:
        lines.append(
            f"Not every kind approaches 1 at these sizes: {'; '.join(stay)}. That stands against the "
            "paper's expectation for all allocations."
        )
    return said(lines)


def _points(trials: int, dear: int, largest: int, sizes: tuple[int, ...]) -> Points:
    small = range(2, largest + 1)
    # The diagonal is the dearest by far: deciding that there is no match takes all complex roots.
    yield from (_point("one", "diagonal", n, trials if n < 5 else dear) for n in small)
    yield from (_point("one", kind, n, trials) for kind in ("cycle", "all rows") for n in small)
    for kind in ("d + 1 rows", "half of the rows", "all rows"):
        for n in sizes:
            if kind != "half of the rows" or n >= 8:
                yield _point("four", kind, n, trials)


EXPERIMENT = Declared(
    title="Fixed kinds of allocation as the network grows",
    source="Section 3.3; Subag (2024)",
    claim="As the network grows the number of quadratic equations grows, so the match probability of "
    "all allocations should approach 1.",
    task=Decisions(),
    quick=Plan.of(_points(60, 30, 5, (6, 8, 12, 16))),
    full=Plan.of(_points(DECIDED, DECIDED, 6, (6, 8, 12, 16, 20, 24))),
    hours=0.08,
    columns={"family": "family", "kind": "kind of allocation", "n": "units n"},
)
