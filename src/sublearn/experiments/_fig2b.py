"""Figure 2b: the same as Figure 2a with d = n / 4, so that k = d rows are saturated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sublearn.experiments._lines import MATCH_PROBABILITY, decided, protocol
from sublearn.experiments._table import (
    ESTIMATE,
    decided_words,
    distinct,
    found_words,
    number,
    pooled,
    said,
    where,
)
from sublearn.experiments.tasks import Decisions
from sublearn.plots import name_axes, panels, shared_legend
from sublearn.runs import Experiment, Plan, Point, Row, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _learn(n: int, k: int) -> str:
    """Random in the first k rows; below d rows no draw keeps the bounds, so the rows are just filled."""
    d, m = n // 4, n // 2
    if k >= d:
        return f"W:first-rows={k}"
    each, more = divmod(d * m, k)
    parts = [(0, more, each + 1), (more, k, each)]
    return " ".join(
        f"W:block={first}-{last - 1}x0-{size - 1}" for first, last, size in parts if last > first
    )


def _point(n: int, k: int, method: str, trials: int) -> Point:
    params: Row = {
        "n": n,
        "k": k,
        "rows_used": k / n,
        "network": f"lrnn:n={n},b=1,d={n // 4},T={n // 2}",
        "samples": n // 2,
        "learn": _learn(n, k),
        "method": method,
    }
    return Point(params, trials, chunk=4 if method == "reference" else 20)


def draw(table: Table) -> dict[str, Figure]:
    sizes = distinct(table, "n")
    fig, axes = panels(len(sizes))
    for ax, n in zip(axes, sizes, strict=False):
        rows = where(table, n=n)
        ax.axvline(0.25, color="#888888", linewidth=1, linestyle=":", label="k = d: Theorem 3.5")
        decided(ax, where(rows, method="ladder"), "rows_used", "decided")
        protocol(ax, where(rows, method="reference"), "rows_used")
        title = f"n = {n}, d = {n // 4}"
        name_axes(
            ax, "share of rows in use, k / n", MATCH_PROBABILITY, title=title, unit_interval=True
        )
        ax.set_xlim(0, 1.03)
    shared_legend(fig, axes)
    return {"fig2b": fig}


def find(table: Table) -> str:
    ladder, paper = where(table, method="ladder"), where(table, method="reference")
    below = [row for row in ladder if number(row, "rows_used") < 0.25]
    at = [row for row in ladder if number(row, "rows_used") == 0.25]
    above = [row for row in ladder if number(row, "rows_used") > 0.25]
    lines = [
        f"Decided, {words}, all n together: {decided_words(pooled(rows))}."
        for words, rows in (
            ("fewer than d rows", below),
            ("exactly d rows", at),
            ("more than d rows", above),
        )
        if rows
    ]
    if below and all(row["verdict"] == "minimal" for row in below):
        grades = ", ".join(distinct(below, "verdict_grade"))
        lines.append(f"Below d rows certify says minimal without sampling (grade: {grades}).")
    if above:
        low = min(above, key=lambda row: number(row, "share"))
        lines.append(
            f"The lowest decided share above d rows is at n = {low['n']}, k = {low['k']}: "
            f"{decided_words(low)}."
        )
    if paper:
        each = (f"n = {row['n']}, k = {row['k']}: {found_words(row)}" for row in paper)
        lines.append(f"The paper's protocol finds {'; '.join(each)}.")
    return said(lines)


def _rows(n: int) -> list[int]:
    d = n // 4
    return sorted({-(-d // 2), d - 1, d, d + 1, n // 2, 3 * n // 4, n} - {0})


EXPERIMENT = Experiment(
    name="fig2b",
    title="Figure 2b: from minimal to maximal at r / (T b) rows",
    source="Figure 2b; Theorems 3.4 and 3.5; appendix E.2",
    claim="With d = n / 4, allocations in fewer than a quarter of the rows are minimal, those in "
    "exactly a quarter maximal; beyond, the match probability approaches 1 as n grows.",
    task=Decisions(),
    quick=Plan(
        (
            *(
                _point(n, k, "ladder", {8: 120, 12: 60, 16: 30}[n])
                for n in (8, 12, 16)
                for k in _rows(n)
            ),
            *(_point(8, k, "reference", 16) for k in (2, 3, 4, 8)),
        )
    ),
    full=Plan(
        tuple(
            _point(n, k, method, 1000)
            for method in ("ladder", "reference")
            for n in (8, 12, 16)
            for k in range(-(-n // 8), n + 1)
            if method == "ladder" or 4 * k >= n
        )
    ),
    hours=6.0,
    columns={"n": "units n", "k": "rows k", "rows_used": "k / n", **ESTIMATE},
    draw=draw,
    find=find,
)
