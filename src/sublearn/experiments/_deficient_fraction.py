"""How often the degree bounds are kept and the rank is short all the same."""

from __future__ import annotations

from sublearn.experiments._lines import shares
from sublearn.experiments._table import Declared, said
from sublearn.experiments.tasks import Deficiency
from sublearn.plots import Figure, figure, legend, name_axes
from sublearn.runs import Plan, Point, Points, Row, Table

_SMALL = ((2, 3), (2, 4), (3, 4))  # few enough to go through all


def _point(where: str, d: int, n: int, network: str, m: int, draws: int) -> Point:
    every = where == "one layer" and (d, n) in _SMALL
    params: Row = {"where": where, "d": d, "n": n, "ratio": n / d, "network": network}
    params |= {"samples": m, "inside": "W1" if network.startswith("ffn") else "W", "every": every}
    return Point(params, 1 if every else draws, chunk=50)


def draw(table: Table) -> Figure:
    fig, ax = figure(height=3.6)
    layers = table.where(where="one layer")
    for colour, d in enumerate(layers.distinct("d")):
        rows = Table(sorted(layers.where(d=d), key=lambda row: row["ratio"]))
        shares(ax, rows, "ratio", f"one layer, d = m = {d}", colour)
    rows = table.where(where="Figure 2a")
    shares(ax, rows, "ratio", "Figure 2a, d = 4", colour=6, dashed=True)
    words = "n / d: size of the layer over outputs", "share of deficient allocations"
    name_axes(ax, *words, unit_interval=True)
    legend(ax)
    return fig


def _words(row: Row) -> str:
    count = f"{row['deficient']} of {row['looked_at']}"
    if row["every"]:
        return f"{row['share']:.1%} (all looked at: {count})"
    ends = f"95%: {row['low']:.1%} to {row['high']:.1%}"
    return f"{row['share']:.1%} ({ends}; {count})"


def find(table: Table) -> str:
    lines = []
    layers, recurrent = table.where(where="one layer"), table.where(where="Figure 2a")
    if layers:
        each = "; ".join(f"d = m = {row['d']}, n = {row['n']}: {_words(row)}" for row in layers)
        lines.append(f"One n x n layer, both bounds kept, deficient all the same: {each}.")
    if recurrent:
        each = "; ".join(f"n = {row['n']}: {_words(row)}" for row in recurrent)
        lines.append(f"In the setting of Figure 2a: {each}.")
    return said(lines)


def _points(draws: int) -> Points:
    sizes = (*_SMALL, (3, 6), (4, 5), (4, 6), (4, 8), (8, 9), (8, 12), (8, 16))
    for d, n in sizes:
        yield _point("one layer", d, n, f"ffn:{n}-{n}-{d}", d, draws)
    for n in (8, 12, 16):
        yield _point("Figure 2a", 4, n, f"lrnn:n={n},b=1,d=4,T={n // 2}", n // 2, draws)


EXPERIMENT = Declared(
    title="Allocations that keep every bound and are minimal all the same",
    source="Theorem 4.1, Lemma B.12; Theorem 3.4",
    claim="An allocation in one layer is maximal if no row has more than m learnable weights and no "
    'column more than d (so read; printed is "or"): none of those counted here should be deficient.',
    task=Deficiency(),
    quick=Plan.of(_points(400)),
    full=Plan.of(_points(20_000)),
    hours=0.05,
    columns={
        "where": "where",
        "d": "outputs d (and samples m of the layer)",
        "n": "size n",
        "ratio": "n / d",
    },
)
