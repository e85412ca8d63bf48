"""The column twin of Figure 2a: learnable weights at random in the first c columns of W."""

from __future__ import annotations

from sublearn.experiments._lines import Figure, beside
from sublearn.experiments._table import (
    Declared,
    by_ladder,
    full_plan,
    point,
    pooled_words,
    protocol_words,
    said,
)
from sublearn.experiments.tasks import Decisions
from sublearn.runs import Plan, Point, Row, Table


def _point(n: int, d: int, c: int, method: str, trials: int) -> Point:
    own: Row = {"n": n, "d": d, "c": c, "columns_used": c / n}
    setting = f"lrnn:n={n},b=1,d={d},T={n // 2}", n // 2, f"W:first-columns={c}"
    return point(own, setting, trials, 2 if method == "reference" else 20, method=method)


def draw(table: Table) -> Figure:
    words, title = "share of columns in use, c / n", "n = {n}, d = {d}"
    across = 3 if len(table.apart("n", "d")) == 3 else 2
    return beside(table.apart("n", "d"), "columns_used", words, title, across=across)


def find(table: Table) -> str:
    lines = pooled_words(table, ["n", "d"], "c") + protocol_words(table, ["n", "d", "c"])
    if by_ladder(table):
        lines.append(
            "With d = 4 the bound T d = 2 n on columns exceeds n and says nothing; with d = 2 one column "
            "of T d = n weights is saturated, and Theorem 3.5 makes it maximal."
        )
    return said(lines)


EXPERIMENT = Declared(
    title="The column twin of Figure 2a",
    source="Section 3.3 and Lemma B.7; the paper shows no such figure",
    claim="What holds for rows holds for columns: using fewer columns leaves fewer quadratic "
    "equations, so the match probability should rise with the number of columns in use.",
    task=Decisions(),
    quick=Plan.of(
        (_point(8, 2, c, "ladder", 80) for c in (1, 2, 3, 4, 6, 8)),
        (_point(8, 4, c, "ladder", 80) for c in (2, 3, 4, 6, 8)),
        (_point(12, 2, c, "ladder", 40) for c in (1, 2, 4, 8, 12)),
        (_point(8, 4, c, "reference", 8) for c in (2, 4, 8)),
    ),
    full=full_plan(
        _point, *((n, d, c) for n in (8, 12) for d in (2, 4) for c in range(d // 2, n + 1))
    ),
    hours=0.08,
    columns={"n": "units n", "d": "outputs d", "c": "columns c", "columns_used": "c / n"},
)
