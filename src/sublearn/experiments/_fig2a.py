"""Figure 2a: match probability of linear RNNs with d = 4 against the share of rows in use."""

from __future__ import annotations

from sublearn.experiments._lines import Figure, beside
from sublearn.experiments._table import (
    Declared,
    by_ladder,
    by_protocol,
    full_plan,
    point,
    pooled_words,
    protocol_words,
    said,
)
from sublearn.experiments.tasks import Decisions
from sublearn.runs import Plan, Point, Row, Table


def _point(n: int, k: int, method: str, trials: int) -> Point:
    own: Row = {"n": n, "k": k, "rows_used": k / n}
    setting = f"lrnn:n={n},b=1,d=4,T={n // 2}", n // 2, f"W:first-rows={k}"
    return point(own, setting, trials, 2 if method == "reference" else 20, method=method)


def draw(table: Table) -> Figure:
    words = "share of rows in use, k / n"
    return beside(table.apart("n"), "rows_used", words, "n = {n}")


def find(table: Table) -> str:
    lines = pooled_words(table, ["n"], "k") + protocol_words(table, ["n", "k"])
    lowest = min(by_ladder(table).column("share"), default=0.0)
    if lowest > max(by_protocol(table).column("share"), default=1.0):
        lines.append(
            f"At every k the decided share is at least {lowest:.3f}, above every share that the "
            "protocol finds: most of what it counts as no match it only misses."
        )
    return said(lines)


EXPERIMENT = Declared(
    title="Figure 2a: the match probability of linear RNNs, decided",
    source="Figure 2a; section 3.3; appendix E.2",
    claim="For d = 4, T = m = n / 2 and b = 1 the match probability rises with the share of rows "
    "that hold learnable weights, and with the size n of the network.",
    task=Decisions(),
    quick=Plan.of(
        (_point(8, k, "ladder", 120) for k in (4, 5, 6, 7, 8)),
        (_point(12, k, "ladder", 60) for k in (4, 5, 6, 9, 12)),
        (_point(16, k, "ladder", 40) for k in (4, 5, 8, 12, 16)),
        (_point(8, k, "reference", 10) for k in (4, 5, 6, 8)),
    ),
    full=full_plan(_point, *((n, k) for n in (8, 12, 16) for k in range(4, n + 1))),
    hours=0.15,
    columns={"n": "units n", "k": "rows k", "rows_used": "k / n"},
)
