"""Figure 2b: the same as Figure 2a with d = n / 4, so that k = d rows are saturated."""

from __future__ import annotations

from typing import Any

from sublearn._kinds import MINIMAL
from sublearn.experiments._lines import Figure, beside
from sublearn.experiments._table import (
    Declared,
    by_ladder,
    decided_words,
    full_trials,
    point,
    pooled,
    protocol_words,
    said,
)
from sublearn.experiments.tasks import Decisions
from sublearn.runs import Plan, Point, Row, Table


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
    own: Row = {"n": n, "k": k, "rows_used": k / n}
    if method == "reference" and 4 * k == n:
        method = "construction"  # appendix E.2: used there instead of the solver
    setting = f"lrnn:n={n},b=1,d={n // 4},T={n // 2}", n // 2, _learn(n, k)
    return point(own, setting, trials, 4 if method == "reference" else 20, method=method)


def draw(table: Table) -> Figure:
    def first(ax: Any) -> None:
        ax.axvline(0.25, color="#888888", linewidth=1, linestyle=":", label="k = d: Theorem 3.5")

    def title(row: Row) -> str:
        return f"n = {row['n']}, d = {row['n'] / 4:g}"

    words = "share of rows in use, k / n"
    return beside(table.apart("n"), "rows_used", words, title, first)


def by_rows(ladder: Table) -> dict[str, Table]:
    """Decided rows by whether fewer than d rows are in use, d, or more."""
    return {
        "fewer than d rows": ladder.where(lambda row: row["rows_used"] < 0.25),
        "exactly d rows": ladder.where(rows_used=0.25),
        "more than d rows": ladder.where(lambda row: row["rows_used"] > 0.25),
    }


def find(table: Table) -> str:
    parts = by_rows(by_ladder(table))
    lines = [
        f"Decided, {words}, all n together: {decided_words(pooled(rows))}."
        for words, rows in parts.items()
        if rows
    ]
    below, _, above = parts.values()
    if below and all(row["verdict"] == MINIMAL for row in below):
        grades = ", ".join(below.distinct("verdict_grade"))
        lines.append(f"Below d rows certify says minimal without sampling (grade: {grades}).")
    if above:
        low = min(above, key=lambda row: row["share"])
        lines.append(
            f"The lowest decided share above d rows is at n = {low['n']}, k = {low['k']}: "
            f"{decided_words(low)}."
        )
    lines += protocol_words(table, ["n", "k"])
    if any(row["method"] == "construction" for row in table):
        lines.append("At k = d it is the construction of Theorem 3.5, as appendix E.2 says.")
    return said(lines)


def _rows(n: int) -> list[int]:
    d = n // 4
    return sorted({-(-d // 2), d - 1, d, d + 1, n // 2, 3 * n // 4, n} - {0})


EXPERIMENT = Declared(
    title="Figure 2b: from minimal to maximal at r / (T b) rows",
    source="Figure 2b; Theorems 3.4 and 3.5; appendix E.2",
    claim="With d = n / 4, allocations in fewer than a quarter of the rows are minimal, those in "
    "exactly a quarter maximal; beyond, the match probability approaches 1 as n grows.",
    task=Decisions(),
    quick=Plan.of(
        (
            _point(n, k, "ladder", {8: 120, 12: 60, 16: 30}[n])
            for n in (8, 12, 16)
            for k in _rows(n)
        ),
        (_point(8, k, "reference", 16) for k in (2, 3, 4, 8)),
    ),
    full=Plan.of(
        _point(n, k, method, full_trials(method))
        for method in ("ladder", "reference")
        for n in (8, 12, 16)
        for k in range(-(-n // 8), n + 1)
        if method == "ladder" or 4 * k >= n
    ),
    hours=0.12,
    columns={"n": "units n", "k": "rows k", "rows_used": "k / n"},
)
