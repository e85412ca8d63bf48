"""Every allocation of small networks, coloured by its verdict."""

from __future__ import annotations

from typing import Any

from sublearn.experiments._lines import Figures
from sublearn.experiments._table import said
from sublearn.experiments.tasks import Verdicts
from sublearn.experiments.tasks._asked import problem_of
from sublearn.experiments.tasks._verdicts import how_many
from sublearn.plots import COLOURS, ink, name_axes, panels
from sublearn.runs import Experiment, Plan, Point, Row, Table

_COLOUR = {
    "maximal": COLOURS[0],
    "between": COLOURS[5],
    "minimal": COLOURS[1],
    "unknown": COLOURS[6],
}
_MANY = 50  # squares of a cell; more are drawn as one image, or the file has thousands of them
_SIDE = 12  # squares beside each other; more are too small for gaps between them
_QUICK = (
    ("linear:inputs=3,outputs=2", 2, "W"),
    ("lrnn:n=2,b=1,d=1,T=2", 2, "W"),
    ("lrnn:n=3,b=1,d=1,T=3", 3, "W"),
    ("lrnn:n=3,b=1,d=2,T=2", 2, "W"),
    ("lrnn:n=3,b=3,d=2,T=1", 2, "B"),
    ("ffn:3-3-2", 2, "W1"),
)
_FULL = (
    *_QUICK,
    ("lrnn:n=4,b=1,d=2,T=2", 2, "W"),
    ("lrnn:n=4,b=2,d=2,T=2", 2, "W"),
    ("ffn:4-4-3", 3, "W1"),
)


def _point(network: str, samples: int, inside: str) -> Point:
    params: Row = {"network": network, "samples": samples, "inside": inside, "count": True}
    return Point(params, how_many(problem_of(params), inside), chunk=25)


def draw(table: Table) -> Figures:
    networks = table.distinct("network")
    fig, axes = panels(len(networks), width=3.7, height=3.5)
    for ax, network in zip(axes, networks, strict=False):
        rows = table.where(network=network)
        _mosaic(ax, rows)
        title = f"{network}, m = {rows[0]['samples']}, in {rows[0]['inside']}"
        name_axes(ax, "columns in use", "rows in use", title=title)
        ax.title.set_fontsize(8.5)
    marks = [_COLOUR[kind] for kind in ("maximal", "between", "minimal")]
    if table:
        from matplotlib.patches import Patch

        handles: list[Any] = [Patch(color=c) for c in marks]
        handles.append(Patch(facecolor="none", edgecolor=ink(), linewidth=1.2))
        fig.legend(
            handles,
            ["maximal", "between", "minimal", "the paper says otherwise"],
            loc="outside lower center",
            ncols=4,
            frameon=False,
            fontsize=9,
            labelcolor=ink(),
        )
    return {"theorem-map": fig}


def _mosaic(ax: Any, rows: Table) -> None:
    """One small square per allocation, packed inside the cell of its rows and columns in use."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    cells = sorted({(row["rows"], row["cols"]) for row in rows})
    ax.grid(False)
    for up, right in cells:
        held = rows.where(rows=up, cols=right)
        total = sum(held.column("allocations"))
        side = 1
        while side * side < total:
            side += 1
        size, place = 0.88 / side, 0
        filled = size * (0.9 if side <= _SIDE else 1.0)
        patches, faces, edges = [], [], []
        for row in sorted(
            held, key=lambda r: (list(_COLOUR).index(str(r["verdict"])), bool(r["wrong"]))
        ):
            for _ in range(row["allocations"]):
                x = right - 0.44 + size * (place % side)
                y = up + 0.44 - size * (place // side + 1)
                patches.append(Rectangle((x, y), filled, filled))
                faces.append(_COLOUR[row["verdict"]])
                edges.append(ink() if row["wrong"] else "none")
                place += 1
        # Frames as fine as the squares are small: of thousands they leave a darker shade, and the colour.
        frame = min(1.1, max(0.2, 6.0 / side))
        squares = PatchCollection(patches, facecolors=faces, edgecolors=edges, linewidths=frame)
        squares.set_rasterized(len(patches) > _MANY)
        ax.add_collection(squares)
    highest, widest = max(up for up, _ in cells), max(right for _, right in cells)
    lowest, narrowest = min(up for up, _ in cells), min(right for _, right in cells)
    ax.set_xlim(narrowest - 0.55, widest + 0.55)
    ax.set_ylim(lowest - 0.55, highest + 0.55)
    ax.set_xticks(range(narrowest, widest + 1))
    ax.set_yticks(range(lowest, highest + 1))


def find(table: Table) -> str:
    lines = []
    for network in table.distinct("network"):
        rows = table.where(network=network)
        kinds = {kind: _how_many(rows.where(verdict=kind)) for kind in _COLOUR}
        counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items() if count)
        lines.append(
            f"{network}, m = {rows[0]['samples']}, in {rows[0]['inside']}: of {_how_many(rows)} "
            f"allocations {counts} ({sum(rows.column('proved'))} by proof); the paper is silent on "
            f"{_how_many(rows.where(paper='silent'))} and wrong on {_how_many(rows.where(wrong=True))}."
        )
    return said(lines)


def _how_many(rows: Table) -> int:
    return int(sum(rows.column("allocations")))


EXPERIMENT = Experiment(
    name="theorem-map",
    title="Every allocation of small networks, and what the theorems say of it",
    source="Section 2.1; Theorems 3.2, 3.4, 3.5 and 4.1",
    claim="The theorems tell maximal and minimal allocations apart by counts of learnable weights in "
    "rows and columns; between them nothing is proved.",
    task=Verdicts(),
    quick=Plan(tuple(_point(*asked) for asked in _QUICK)),
    full=Plan(tuple(_point(*asked) for asked in _FULL)),
    hours=0.01,
    draw=draw,
    find=find,
)
