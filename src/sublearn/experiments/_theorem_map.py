"""Every allocation of small networks, coloured by its verdict."""

from __future__ import annotations

import math
from typing import Any

from sublearn._kinds import BETWEEN, MAXIMAL, MINIMAL, UNKNOWN
from sublearn.experiments._table import Declared, said
from sublearn.experiments.tasks import Verdicts
from sublearn.experiments.tasks._point import problem_of
from sublearn.experiments.tasks._verdicts import how_many
from sublearn.plots import COLOURS, Figure, ink, name_axes, panels
from sublearn.runs import Plan, Point, Row, Table

_COLOUR = {
    MAXIMAL: COLOURS[0],
    BETWEEN: COLOURS[5],
    MINIMAL: COLOURS[1],
    UNKNOWN: COLOURS[6],
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


def draw(table: Table) -> Figure:
    networks = table.apart("network")
    fig, axes = panels(len(networks), width=3.7, height=3.5)
    for ax, (common, rows) in zip(axes, networks, strict=False):
        _mosaic(ax, rows)
        title = f"{common['network']}, m = {rows[0]['samples']}, in {rows[0]['inside']}"
        name_axes(ax, "columns in use", "rows in use", title=title)
        ax.title.set_fontsize(8.5)
    if table:
        from matplotlib.patches import Patch

        shown: dict[str, Any] = {kind: Patch(color=_COLOUR[kind]) for kind in list(_COLOUR)[:3]}
        shown["the paper says otherwise"] = Patch(facecolor="none", edgecolor=ink(), linewidth=1.2)
        look: Row = {"loc": "outside lower center", "ncols": 4, "frameon": False, "fontsize": 9}
        fig.legend(shown.values(), shown.keys(), labelcolor=ink(), **look)
    return fig


def _mosaic(ax: Any, rows: Table) -> None:
    """One small square per allocation, packed inside the cell of its rows and columns in use."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    cells = sorted({(row["rows"], row["cols"]) for row in rows})
    ax.grid(False)
    for up, right in cells:
        cell = rows.where(rows=up, cols=right)
        side = math.isqrt(_how_many(cell) - 1) + 1
        size = 0.88 / side
        filled = size * (0.9 if side <= _SIDE else 1.0)
        patches, faces, edges = [], [], []
        order = sorted(cell, key=lambda r: (list(_COLOUR).index(r["verdict"]), bool(r["wrong"])))
        every = (row for row in order for _ in range(row["allocations"]))
        for place, row in enumerate(every):
            x = right - 0.44 + size * (place % side)
            y = up + 0.44 - size * (place // side + 1)
            patches.append(Rectangle((x, y), filled, filled))
            faces.append(_COLOUR[row["verdict"]])
            edges.append(ink() if row["wrong"] else "none")
        # Frames as fine as the squares are small: of thousands they leave a darker shade, and the colour.
        frame = min(1.1, max(0.2, 6.0 / side))
        squares = PatchCollection(patches, facecolors=faces, edgecolors=edges, linewidths=frame)
        squares.set_rasterized(len(patches) > _MANY)
        ax.add_collection(squares)
    for axis, used in zip("yx", zip(*cells, strict=True), strict=True):
        low, high = min(used), max(used)
        ax.set(**{f"{axis}lim": (low - 0.55, high + 0.55), f"{axis}ticks": range(low, high + 1)})


def find(table: Table) -> str:
    lines = []
    for common, rows in table.apart("network"):
        kinds = {kind: _how_many(rows.where(verdict=kind)) for kind in _COLOUR}
        counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items() if count)
        lines.append(
            f"{common['network']}, m = {rows[0]['samples']}, in {rows[0]['inside']}: of {_how_many(rows)} "
            f"allocations {counts} ({sum(rows.column('proved'))} by proof); the paper is silent on "
            f"{_how_many(rows.where(paper='silent'))} and wrong on {wrong_words(rows)}."
        )
    return said(lines)


def wrong_words(rows: Table) -> str:
    """For example '9 (45 with the "or" that Theorem 4.1 prints for "and")'."""
    printed, meant = (_how_many(rows.where(**{key: True})) for key in ("wrong", "wrong_meant"))
    return (
        str(printed)
        if meant == printed
        else f'{meant} ({printed} with the "or" that Theorem 4.1 prints for "and")'
    )


def _how_many(rows: Table) -> int:
    return int(sum(rows.column("allocations")))


EXPERIMENT = Declared(
    title="Every allocation of small networks, and what the theorems say of it",
    source="Section 2.1; Theorems 3.2, 3.4, 3.5 and 4.1",
    claim="The theorems tell maximal and minimal allocations apart by counts of learnable weights in "
    "rows and columns; between them nothing is proved.",
    task=Verdicts(),
    quick=Plan.of(_point(*place) for place in _QUICK),
    full=Plan.of(_point(*place) for place in _FULL),
    hours=0.01,
)
