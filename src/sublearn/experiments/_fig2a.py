"""Figure 2a: match probability of linear RNNs with d = 4 against the share of rows in use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sublearn.experiments._lines import MATCH_PROBABILITY, decided, protocol
from sublearn.experiments._table import (
    ESTIMATE,
    decided_words,
    distinct,
    found_words,
    pooled,
    said,
    values,
    where,
)
from sublearn.experiments.tasks import Decisions
from sublearn.plots import name_axes, panels, shared_legend
from sublearn.runs import Experiment, Plan, Point, Row, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _point(n: int, k: int, method: str, trials: int) -> Point:
    params: Row = {
        "n": n,
        "k": k,
        "rows_used": k / n,
        "network": f"lrnn:n={n},b=1,d=4,T={n // 2}",
        "samples": n // 2,
        "learn": f"W:first-rows={k}",
        "method": method,
    }
    return Point(params, trials, chunk=2 if method == "reference" else 20)


def draw(table: Table) -> dict[str, Figure]:
    sizes = distinct(table, "n")
    fig, axes = panels(len(sizes))
    for ax, n in zip(axes, sizes, strict=False):
        rows = where(table, n=n)
        decided(ax, where(rows, method="ladder"), "rows_used", "decided")
        protocol(ax, where(rows, method="reference"), "rows_used")
        name_axes(
            ax,
            "share of rows in use, k / n",
            MATCH_PROBABILITY,
            title=f"n = {n}",
            unit_interval=True,
        )
        ax.set_xlim(0, 1.03)
    shared_legend(fig, axes)
    return {"fig2a": fig}


def find(table: Table) -> str:
    ladder, paper = where(table, method="ladder"), where(table, method="reference")
    lines = []
    for n in distinct(ladder, "n"):
        rows = where(ladder, n=n)
        span = f"k = {rows[0]['k']} to {rows[-1]['k']} together"
        lines.append(f"Decided, n = {n}, {span}: {decided_words(pooled(rows))}.")
    if paper:
        each = (f"n = {row['n']}, k = {row['k']}: {found_words(row)}" for row in paper)
        lines.append(f"The paper's protocol finds {'; '.join(each)}.")
    lowest = min(values(ladder, "share"), default=0.0)
    if paper and lowest > max(values(paper, "share")):
        lines.append(
            f"At every k the decided share is at least {lowest:.3f}, above every share that the "
            "protocol finds: most of what it counts as no match it only misses."
        )
    return said(lines)


EXPERIMENT = Experiment(
    name="fig2a",
    title="Figure 2a: the match probability of linear RNNs, decided",
    source="Figure 2a; section 3.3; appendix E.2",
    claim="For d = 4, T = m = n / 2 and b = 1 the match probability rises with the share of rows "
    "that hold learnable weights, and with the size n of the network.",
    task=Decisions(),
    quick=Plan(
        (
            *(_point(8, k, "ladder", 120) for k in (4, 5, 6, 7, 8)),
            *(_point(12, k, "ladder", 60) for k in (4, 5, 6, 9, 12)),
            *(_point(16, k, "ladder", 40) for k in (4, 5, 8, 12, 16)),
            *(_point(8, k, "reference", 10) for k in (4, 5, 6, 8)),
        )
    ),
    full=Plan(
        tuple(
            _point(n, k, method, 1000)
            for method in ("ladder", "reference")
            for n in (8, 12, 16)
            for k in range(4, n + 1)
        )
    ),
    hours=8.0,
    columns={"n": "units n", "k": "rows k", "rows_used": "k / n", **ESTIMATE},
    draw=draw,
    find=find,
)
