"""An allocation as text, one character per entry, and as a picture, one cell per entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sublearn.allocations._allocation import Allocation
from sublearn.plots import COLOURS, draw_mask, ink, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FROZEN, LEARNABLE, WASTED = ".", "#", "x"


def picture(allocation: Allocation, wasted: Allocation | None = None) -> str:
    """Matrices of ``.`` (frozen), ``#`` (learnable) and ``x`` (learnable but wasted).

    Weights without learnable entries are left out.
    """
    return "\n".join("".join(text for text, _ in line) for line in cells(allocation, wasted))


def cells(allocation: Allocation, wasted: Allocation | None = None) -> list[list[tuple[str, str]]]:
    """The picture as lines of (text, meaning): meaning is label, frozen, learnable or wasted."""
    lines: list[list[tuple[str, str]]] = []
    for name in allocation.names:
        rows, columns = allocation.shapes[name]
        learnable = allocation.mask(name)
        lost = None if wasted is None else wasted.mask(name)
        width = len(str(columns - 1))
        edge = max(len(name) + 1, len(str(rows - 1)) + 2)
        header = "".join(f" {j:>{width}}" for j in range(columns))
        lines.append([(f"{name:<{edge}}{header}".rstrip(), "label")])
        for i in range(rows):
            line = [(f"{i:>{edge}}", "label")]
            for j in range(columns):
                if lost is not None and lost[i, j]:
                    mark, meaning = WASTED, "wasted"
                elif learnable[i, j]:
                    mark, meaning = LEARNABLE, "learnable"
                else:
                    mark, meaning = FROZEN, "frozen"
                line.append((f" {mark:>{width}}", meaning))
            lines.append(line)
    return lines


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
    kinds = [Line2D([], [], color=COLOURS[0], label="learnable", **square)]
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
