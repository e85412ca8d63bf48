"""Figure 3a: three linear layers, eight learnable weights in each."""

from __future__ import annotations

from sublearn.experiments._lines import Figure, beside
from sublearn.experiments._table import (
    Declared,
    by_ladder,
    decided_words,
    full_plan,
    point,
    pooled,
    protocol_words,
    said,
)
from sublearn.experiments.tasks import Decisions
from sublearn.runs import Plan, Point, Table

INPUTS, OUTPUTS, SAMPLES = 4, 6, 4


def _point(n: int, k: int, method: str, trials: int) -> Point:
    # Rows of the first layer cost no quadratic equation, so k limits its columns (appendix E.2); the
    # first layer has 4 columns and the last 6 rows, however large k is.
    learn = (
        f"W1:first-columns={min(k, INPUTS)},count=8 W2:first-rows={k},count=8 "
        f"W3:first-rows={min(k, OUTPUTS)},count=8"
    )
    setting = f"ffn:{INPUTS}-{n}-{n}-{OUTPUTS}", SAMPLES, learn
    chunk = 2 if method == "reference" else 5
    return point({"n": n, "k": k}, setting, trials, chunk, method=method)


def draw(table: Table) -> Figure:
    words = "rows (first layer: columns) in use, k"
    return beside(table.apart("n"), "k", words, "hidden layers of n = {n}")


def find(table: Table) -> str:
    ladder = by_ladder(table)
    lines = [
        f"Decided, k = {k}, all n together: {decided_words(pooled(ladder.where(k=k)))}."
        for k in sorted(ladder.distinct("k"))
    ]
    two = ladder.where(k=2)
    if two and not pooled(two)["possible"]:
        lines.append(
            "At k = 2 every instance is refuted by rank: these allocations are deficient, which the "
            "bounds of Theorem 4.1 do not see."
        )
    return said(lines + protocol_words(table, ["n", "k"]))


EXPERIMENT = Declared(
    title="Figure 3a: three linear layers",
    source="Figure 3a; section 4; appendix E.2",
    claim="In a linear network of three layers (q = 4, d = 6, m = 4, 8 learnable weights per layer) "
    "the match probability rises when the weights are spread over more rows.",
    task=Decisions(),
    quick=Plan.of(
        (_point(n, k, "ladder", 40) for n in (6, 8, 10) for k in (2, 3, 4, 6)),
        (_point(8, k, "reference", 5) for k in (2, 3, 4, 6)),
    ),
    full=full_plan(_point, *((n, k) for n in (6, 8, 10) for k in range(2, n + 1))),
    hours=0.06,
    columns={"n": "hidden units n", "k": "rows k"},
)
