"""Weights to spare: how many may be wasted?"""

from __future__ import annotations

from sublearn.experiments._lines import shares
from sublearn.experiments._table import Declared, said
from sublearn.experiments.tasks import Ranks
from sublearn.plots import Figure, figure, legend, name_axes
from sublearn.runs import Plan, Point, Points, Row, Table

# The network, its samples, the weight that learns, and d m.
_CASES = {
    "linear estimator": ("linear:inputs=6,outputs=4", 3, "W", 12),
    "one of two layers": ("ffn:4-6-3", 4, "W1", 12),
    "middle of three layers": ("ffn:4-6-6-3", 4, "W2", 12),
    "recurrent weights": ("lrnn:n=6,b=1,d=3,T=4", 4, "W", 12),
}
_RATIOS = (1.0, 1.25, 1.5, 1.75, 2.0)


def _points(draws: int) -> Points:
    for case, (network, samples, name, needed) in _CASES.items():
        for ratio in _RATIOS:
            own: Row = {"case": case, "ratio": ratio, "network": network, "samples": samples}
            own["learn"] = f"{name}:random={int(ratio * needed)}"
            yield Point(own, draws, chunk=50)


def draw(table: Table) -> Figure:
    fig, ax = figure(height=3.6)
    for colour, (common, rows) in enumerate(table.apart("case")):
        shares(ax, rows, "ratio", common["case"], colour)
    words = "learnable weights over equations, r / (d m)", "share of rank d m"
    name_axes(ax, *words, unit_interval=True)
    legend(ax)
    return fig


def find(table: Table) -> str:
    if not table:
        return said([])
    beyond, at = table.where(lambda row: row["ratio"] > 1), table.where(ratio=1.0)
    short, may = _short(beyond)
    kind = "No" if short else "Yes, as far as was drawn"
    lines = [
        f"{kind}: with r > d m {short} of {may} allocations that waste at most r - d m weights by the "
        "bounds are short of rank."
    ]
    for common, rows in table.apart("case"):
        case = common["case"]
        short, may = _short(rows.where(lambda row: row["ratio"] > 1))
        said_so = (
            f"no, with r > d m {short} of {may} such allocations are short of rank"
            if short
            else f"yes, in all of {may} such allocations with r > d m"
        )
        lines.append(f"{case}: {said_so}.")
        spare = max(rows, key=lambda row: row["ratio"])
        lines.append(
            f"{case}: with r = {spare['ratio']:g} d m weights at random, {spare['enough']} of "
            f"{spare['trials']} have rank d m (95%: {spare['low']:.3f} to "
            f"{spare['high']:.3f})."
        )
    if at:
        short, may = _short(at)
        lines.append(
            f"At r = d m, where none may be wasted, {short} of {may} allocations that keep the bounds "
            "are short of rank: what F.1 relaxes is not enough to begin with (Theorem 4.1)."
        )
    return said(lines)


def _short(rows: Table) -> tuple[int, int]:
    """Allocations that are enough by the bounds and short of rank, of all that are enough by the bounds."""
    short, may = (int(sum(rows.column(name))) for name in ("may_not_enough", "may"))
    return short, may


EXPERIMENT = Declared(
    title="How many of the spare weights may be wasted",
    source="Appendix F.1",
    claim="If r > m d, up to r - m d learnable weights can be wasted without violating the conditions of "
    "the theorems.",
    task=Ranks(),
    quick=Plan.of(_points(100)),
    full=Plan.of(_points(2000)),
    hours=0.015,
    columns={"case": "where the weights are", "ratio": "r / (d m)"},
)
