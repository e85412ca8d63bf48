"""B, W and D learning together: do the constraints of each apply by themselves?"""

from __future__ import annotations

from itertools import product
from typing import Any

from sublearn.experiments._lines import Figure, in_panels, shares
from sublearn.experiments._table import Declared, said
from sublearn.experiments.tasks import Ranks
from sublearn.runs import Plan, Point, Points, Row, Table

_CASES = {
    "b = 1, d = 2, T = m = 4": ("lrnn:n=6,b=1,d=2,T=4", 4, 8),
    "b = 2, d = 2, T = 3, m = 4": ("lrnn:n=6,b=2,d=2,T=3", 4, 8),
    "d = 4, T = m = 4": ("lrnn:n=8,b=1,d=4,T=4", 4, 16),
}
_NAMES = ("B", "W", "D")


def _points(draws: int) -> Points:
    for case, (network, samples, needed) in _CASES.items():
        step = needed // 4
        for encoder, decoder in product(range(0, needed + 1, step), repeat=2):
            recurrent = needed - encoder - decoder
            counts = {"B": encoder, "W": recurrent, "D": decoder}
            room = int(network.split("n=")[1].split(",")[0]) * int(network.split("b=")[1][0])
            if recurrent < 0 or encoder > room:
                continue
            learn = " ".join(f"{name}:random={count}" for name, count in counts.items() if count)
            own: Row = {"case": case, **{f"in_{name}": count for name, count in counts.items()}}
            own["components"] = sum(count > 0 for count in counts.values())
            own |= {"network": network, "samples": samples, "learn": learn}
            yield Point(own, draws, chunk=50)


def draw(table: Table) -> Figure:
    def lines(ax: Any, rows: Table) -> None:
        for colour, encoder in enumerate(rows.distinct("in_B")):
            shares(ax, rows.where(in_B=encoder), "in_D", f"{encoder} in B", colour)

    words, y = "learnable weights in D (the rest in W)", "share of rank d m"
    return in_panels(table.apart("case"), lines, words, "{case}", y=y, legend_across=5, height=3.2)


def _good_alone(rows: Table) -> tuple[float, float]:
    """Allocations whose components are good alone, and those of them that are short of rank."""
    return sum(rows.column("alone")), sum(rows.column("alone_not_enough"))


def find(table: Table) -> str:
    if not table:
        return said([])
    lines = []
    mixed = table.where(lambda row: row["components"] > 1)
    alone, short = _good_alone(mixed)
    if short:
        lines.append(
            f"No: of {alone:.0f} mixed allocations whose components are each good alone, {short:.0f} "
            "are short of rank all the same."
        )
    else:
        lines.append(
            f"Not decided by this: none of {alone:.0f} mixed allocations with good components fails."
        )
    lines.append(
        "The other way round it holds, and is no finding: a part of independent weights is independent."
    )
    for common, rows in mixed.apart("case"):
        worst = max(rows, key=lambda row: row["alone_not_enough"] / max(row["alone"], 1))
        counts = ", ".join(f"{worst[f'in_{name}']} in {name}" for name in _NAMES)
        alone, short = _good_alone(rows)
        lines.append(
            f"{common['case']}: {short:.0f} of {alone:.0f}; most with {counts}, "
            f"{worst['alone_not_enough']} of {worst['alone']}."
        )
    return said(lines)


EXPERIMENT = Declared(
    title="Encoder, recurrent weights and decoder together",
    source="The summary of the paper, on mixed allocations",
    claim="Mixed allocations can combine components, but each component's constraints apply "
    "independently.",
    task=Ranks(),
    quick=Plan.of(_points(100)),
    full=Plan.of(_points(2000)),
    hours=0.025,
    columns={
        "case": "network",
        **{f"in_{name}": f"learnable weights in {name}" for name in _NAMES},
        "components": "components that learn",
    },
)
