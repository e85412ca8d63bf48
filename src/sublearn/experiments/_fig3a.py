"""Figure 3a: three linear layers, eight learnable weights in each."""

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
    where,
)
from sublearn.experiments.tasks import Decisions
from sublearn.plots import name_axes, panels, shared_legend
from sublearn.runs import Experiment, Plan, Point, Row, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INPUTS, OUTPUTS, SAMPLES = 4, 6, 4


def _point(n: int, k: int, method: str, trials: int) -> Point:
    # Rows of the first layer cost no quadratic equation, so k limits its columns (appendix E.2); the
    # first layer has 4 columns and the last 6 rows, however large k is.
    learn = (
        f"W1:first-columns={min(k, INPUTS)},count=8 W2:first-rows={k},count=8 "
        f"W3:first-rows={min(k, OUTPUTS)},count=8"
    )
    params: Row = {
        "n": n,
        "k": k,
        "network": f"ffn:{INPUTS}-{n}-{n}-{OUTPUTS}",
        "samples": SAMPLES,
        "learn": learn,
        "method": method,
    }
    return Point(params, trials, chunk=2 if method == "reference" else 5)


def draw(table: Table) -> dict[str, Figure]:
    sizes = distinct(table, "n")
    fig, axes = panels(len(sizes))
    for ax, n in zip(axes, sizes, strict=False):
        rows = where(table, n=n)
        decided(ax, where(rows, method="ladder"), "k", "decided")
        protocol(ax, where(rows, method="reference"), "k")
        title = f"hidden layers of n = {n}"
        name_axes(
            ax,
            "rows (first layer: columns) in use, k",
            MATCH_PROBABILITY,
            title=title,
            unit_interval=True,
        )
    shared_legend(fig, axes)
    return {"fig3a": fig}


def find(table: Table) -> str:
    ladder, paper = where(table, method="ladder"), where(table, method="reference")
    lines = [
        f"Decided, k = {k}, all n together: {decided_words(pooled(where(ladder, k=k)))}."
        for k in sorted(distinct(ladder, "k"))
    ]
    two = where(ladder, k=2)
    if two and not pooled(two)["possible"]:
        lines.append(
            "At k = 2 every instance is refuted by rank: these allocations are deficient, which the "
            "bounds of Theorem 4.1 do not see."
        )
    if paper:
        each = (f"n = {row['n']}, k = {row['k']}: {found_words(row)}" for row in paper)
        lines.append(f"The paper's protocol finds {'; '.join(each)}.")
    return said(lines)


EXPERIMENT = Experiment(
    name="fig3a",
    title="Figure 3a: three linear layers",
    source="Figure 3a; section 4; appendix E.2",
    claim="In a linear network of three layers (q = 4, d = 6, m = 4, 8 learnable weights per layer) "
    "the match probability rises when the weights are spread over more rows.",
    task=Decisions(),
    quick=Plan(
        (
            *(_point(n, k, "ladder", 40) for n in (6, 8, 10) for k in (2, 3, 4, 6)),
            *(_point(8, k, "reference", 10) for k in (2, 3, 4, 6)),
        )
    ),
    full=Plan(
        tuple(
            _point(n, k, method, 1000)
            for method in ("ladder", "reference")
            for n in (6, 8, 10)
            for k in range(2, n + 1)
        )
    ),
    hours=1.5,
    columns={"n": "hidden units n", "k": "rows k", **ESTIMATE},
    draw=draw,
    find=find,
)
