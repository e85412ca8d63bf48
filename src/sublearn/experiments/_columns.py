"""The column twin of Figure 2a: learnable weights at random in the first c columns of W."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sublearn.experiments._lines import MATCH_PROBABILITY, decided, protocol
from sublearn.experiments._table import (
    ESTIMATE,
    decided_words,
    found_words,
    pooled,
    said,
    where,
)
from sublearn.experiments.tasks import Decisions
from sublearn.plots import name_axes, panels, shared_legend
from sublearn.runs import Experiment, Plan, Point, Row, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _point(n: int, d: int, c: int, method: str, trials: int) -> Point:
    params: Row = {
        "n": n,
        "d": d,
        "c": c,
        "columns_used": c / n,
        "network": f"lrnn:n={n},b=1,d={d},T={n // 2}",
        "samples": n // 2,
        "learn": f"W:first-columns={c}",
        "method": method,
    }
    return Point(params, trials, chunk=2 if method == "reference" else 20)


def draw(table: Table) -> dict[str, Figure]:
    settings = list(dict.fromkeys((row["n"], row["d"]) for row in table))
    fig, axes = panels(len(settings), across=3 if len(settings) == 3 else 2)
    for ax, (n, d) in zip(axes, settings, strict=False):
        rows = where(table, n=n, d=d)
        decided(ax, where(rows, method="ladder"), "columns_used", "decided")
        protocol(ax, where(rows, method="reference"), "columns_used")
        name_axes(
            ax,
            "share of columns in use, c / n",
            MATCH_PROBABILITY,
            title=f"n = {n}, d = {d}",
            unit_interval=True,
        )
        ax.set_xlim(0, 1.03)
    shared_legend(fig, axes)
    return {"columns": fig}


def find(table: Table) -> str:
    ladder, paper = where(table, method="ladder"), where(table, method="reference")
    lines = []
    for n, d in dict.fromkeys((row["n"], row["d"]) for row in ladder):
        rows = where(ladder, n=n, d=d)
        span = f"c = {rows[0]['c']} to {rows[-1]['c']} together"
        lines.append(f"Decided, n = {n}, d = {d}, {span}: {decided_words(pooled(rows))}.")
    if paper:
        each = (
            f"n = {row['n']}, d = {row['d']}, c = {row['c']}: {found_words(row)}" for row in paper
        )
        lines.append(f"The paper's protocol finds {'; '.join(each)}.")
    if ladder:
        lines.append(
            "With d = 4 the bound T d = 2 n on columns exceeds n and says nothing; with d = 2 one column "
            "of T d = n weights is saturated, and Theorem 3.5 makes it maximal."
        )
    return said(lines)


EXPERIMENT = Experiment(
    name="columns",
    title="The column twin of Figure 2a",
    source="Section 3.3 and Lemma B.7; the paper shows no such figure",
    claim="What holds for rows holds for columns: using fewer columns leaves fewer quadratic "
    "equations, so the match probability should rise with the number of columns in use.",
    task=Decisions(),
    quick=Plan(
        (
            *(_point(8, 2, c, "ladder", 80) for c in (1, 2, 3, 4, 6, 8)),
            *(_point(8, 4, c, "ladder", 80) for c in (2, 3, 4, 6, 8)),
            *(_point(12, 2, c, "ladder", 40) for c in (1, 2, 4, 8, 12)),
            *(_point(8, 4, c, "reference", 8) for c in (2, 4, 8)),
        )
    ),
    full=Plan(
        tuple(
            _point(n, d, c, method, 1000)
            for method in ("ladder", "reference")
            for n in (8, 12)
            for d in (2, 4)
            for c in range(d // 2, n + 1)
        )
    ),
    hours=3.0,
    columns={
        "n": "units n",
        "d": "outputs d",
        "c": "columns c",
        "columns_used": "c / n",
        **ESTIMATE,
    },
    draw=draw,
    find=find,
)
