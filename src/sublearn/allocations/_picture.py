"""An allocation as text, one character per entry, and as a picture, one cell per entry."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Any

from sublearn.allocations._allocation import Allocation
from sublearn.plots import COLOURS, draw_mask, ink, learnable_shade, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FROZEN, LEARNABLE, WASTED = ".", "#", "x"
Line = list[tuple[str, str]]
_WIDEST = 80  # columns of a terminal
_TALLEST = 64  # rows that are taken in at a glance
_MOST_LISTED = 200


def picture(allocation: Allocation, wasted: Allocation | None = None) -> str:
    """Matrices of ``.`` (frozen), ``#`` (learnable) and ``x`` (learnable but wasted).

    Weights without learnable entries are left out. A matrix that is too wide for 80 columns is drawn
    without gaps, and one that is too large even so is told by its entries, or by their number.
    """
    return "\n".join("".join(text for text, _ in line) for line in cells(allocation, wasted))


def cells(
    allocation: Allocation, wasted: Allocation | None = None, widest: int = _WIDEST
) -> list[Line]:
    """The picture as lines of (text, meaning): meaning is label, frozen, learnable, wasted or words."""
    lines: list[Line] = []
    for name in allocation.names:
        rows, columns = allocation.shapes[name]
        width = len(str(columns - 1)) + 1
        edge = max(len(name) + 1, len(str(rows - 1)) + 2)
        dense = edge + width * columns > widest
        width = 1 if dense else width
        if rows > _TALLEST or (dense and edge + 1 + columns > widest):
            lines += _listed(allocation, wasted, name, widest)
            continue
        header = " " * dense + "".join(
            f"{j:<10}" if dense else f"{j:>{width}}" for j in range(0, columns, 10 if dense else 1)
        )
        lines.append([(f"{name:<{edge}}{header}".rstrip(), "label")])
        learnable = allocation.mask(name)
        lost = None if wasted is None else wasted.mask(name)
        for i in range(rows):
            line = [(f"{i:>{edge}}{' ' * dense}", "label")]
            for j in range(columns):
                if lost is not None and lost[i, j]:
                    mark, meaning = WASTED, "wasted"
                elif learnable[i, j]:
                    mark, meaning = LEARNABLE, "learnable"
                else:
                    mark, meaning = FROZEN, "frozen"
                line.append((f"{mark:>{width}}", meaning))
            lines.append(line)
    return lines


def _listed(
    allocation: Allocation, wasted: Allocation | None, name: str, widest: int
) -> list[Line]:
    """A matrix that is too large to draw: how many entries, and which, unless they are too many."""
    (rows, columns), count = allocation.shapes[name], allocation.flat(name).size
    lost = 0 if wasted is None else wasted.flat(name).size
    words = [
        f"{name} ({rows} x {columns}): {count} learnable" + f", {lost} of them wasted" * bool(lost)
    ]
    if count <= _MOST_LISTED:
        listed = " ".join(f"({i},{j})" for i, j in allocation.entries[name])
        words += wrap(listed, widest, initial_indent="  ", subsequent_indent="  ")
    return [[(line, "words")] for line in words]


def plot(
    allocation: Allocation, wasted: Allocation | None = None, circuit: Allocation | None = None
) -> Figure:
    """The matrices that hold learnable weights, side by side: see :meth:`Allocation.plot`."""
    from matplotlib.lines import Line2D

    names = allocation.names or tuple(allocation.shapes)
    tallest = max(r / c for r, c in (allocation.shapes[name] for name in names))
    height = min(4.4, max(2.4, 3.0 * tallest + 0.6))
    fig: Figure
    fig, axes = panels(len(names), width=3.6, height=height)
    for ax, name in zip(axes, names, strict=True):
        marked = (None if part is None else part.mask(name) for part in (wasted, circuit))
        draw_mask(ax, name, allocation.mask(name), *marked)
    square: dict[str, Any] = {"marker": "s", "linestyle": "none", "markersize": 7}
    kinds = [Line2D([], [], color=learnable_shade(), label="learnable", **square)]
    if wasted is not None and len(wasted):
        kinds.append(Line2D([], [], color=COLOURS[1], label="learnable but wasted", **square))
    if circuit is not None:
        frame: dict[str, Any] = {"markerfacecolor": "none", "markeredgecolor": ink(), **square}
        kinds.append(Line2D([], [], label="smallest dependent set found", **frame))
    across = 3 if len(names) > 1 else 1
    fig.legend(
        handles=kinds, loc="outside lower left", ncols=across, frameon=False, labelcolor=ink()
    )
    return fig
