"""Lines with their uncertainty, masks and matrices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sublearn._arrays import Array, Mask
from sublearn.plots._style import (
    COLOURS,
    MARKERS,
    Axes,
    Figure,
    boxes,
    ink,
    learnable_shade,
    shade,
    whole_ticks,
)

_CELL, _THREAD = 0.3, 0.15  # inches: the largest cell of a matrix, and the least side of a matrix
_BEYOND = 4.0  # medians of |weight| at which colours end: of normal weights 1 in 140 lies beyond


def curve(
    ax: Axes,
    x: ArrayLike,
    y: ArrayLike,
    low: ArrayLike | None = None,
    high: ArrayLike | None = None,
    *,
    label: str,
    colour: int = 0,
    dashed: bool = False,
) -> None:
    """A line with markers; its interval from ``low`` to ``high`` is shaded."""
    own = shade(colour)
    look: dict[str, Any] = {"marker": MARKERS[colour % len(MARKERS)], "markersize": 4.5}
    ax.plot(
        np.asarray(x),
        np.asarray(y),
        color=own,
        linestyle="--" if dashed else "-",
        linewidth=1.6,
        label=label,
        **look,
    )
    if low is not None and high is not None:
        ax.fill_between(
            np.asarray(x), np.asarray(low), np.asarray(high), color=own, alpha=0.18, lw=0
        )


def bracket(
    ax: Axes,
    x: ArrayLike,
    matched: ArrayLike,
    possible: ArrayLike,
    low: ArrayLike,
    high: ArrayLike,
    *,
    label: str,
    colour: int = 0,
) -> None:
    """The share matched and the share not refuted: the gap between the two lines is undecided.

    The 95% interval around both is shaded lightly, the gap itself hatched, and named in the legend.
    """
    curve(ax, x, matched, low, high, label=label, colour=colour)
    below, above = np.asarray(matched, dtype=float), np.asarray(possible, dtype=float)
    if np.any(above > below):
        own, (_, word, rest) = shade(colour), label.partition("decided")
        ax.plot(np.asarray(x), above, color=own, linestyle=":", linewidth=1.2)
        ax.fill_between(
            np.asarray(x), below, above, facecolor="none", edgecolor=own, hatch="////", lw=0,
            alpha=0.5, label=f"undecided{rest}" if word else f"undecided ({label})",
        )  # fmt: skip


def draw_mask(
    ax: Axes, name: str, learnable: Mask, wasted: Mask | None = None, circuit: Mask | None = None
) -> None:
    """The entries of one weight matrix: learnable filled, wasted in another colour, a circuit framed.

    Row 0 is on top and column 0 on the left, as the matrix is written.
    """
    rows, columns = learnable.shape
    shades = np.zeros((rows, columns, 4))  # frozen: the ground itself
    kinds = [(learnable, learnable_shade())]
    if wasted is not None:
        kinds.append((wasted, COLOURS[1]))
    for chosen, colour in kinds:
        shades[chosen] = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)] + [1.0]
    edges = (-0.5, columns - 0.5, rows - 0.5, -0.5)
    # Square cells, unless the matrix would become a thread.
    ax.imshow(shades, interpolation="nearest", extent=edges)
    ax.set_aspect("equal" if max(rows, columns) <= 5 * min(rows, columns) else "auto")
    if circuit is not None:
        from matplotlib.patches import Rectangle

        for i, j in np.argwhere(circuit).tolist():
            place = (j - 0.32, i - 0.32)
            ax.add_patch(Rectangle(place, 0.64, 0.64, fill=False, edgecolor=ink(), linewidth=1.6))
    ax.grid(False)
    if max(rows, columns) <= 40:  # cells that can be told apart
        ax.set_xticks(np.arange(columns + 1) - 0.5, minor=True)
        ax.set_yticks(np.arange(rows + 1) - 0.5, minor=True)
        ax.grid(True, which="minor", linewidth=0.9)
        ax.tick_params(which="minor", length=0)
    whole_ticks(ax)
    for spine in ax.spines.values():
        spine.set_visible(True)
    title = f"{name}: {int(learnable.sum())} of {rows} x {columns}"
    ax.set_title(title, loc="left", color=ink())
    ax.set_xlabel("column")
    ax.set_ylabel("row")


def draw_weights(
    weights: Mapping[str, Array], learnable: Mapping[str, Mask] | None = None
) -> Figure:
    """Matrices side by side, all cells of one size and on one scale of colours; learnable ones outlined.

    Learned weights may be far larger than frozen ones, which would all look like 0 on a scale that ends at
    the extreme. It ends at four medians of the frozen |weights| (of all, where none is frozen), or at
    the extreme where that is less; what lies beyond is told beside the scale.
    """
    marked = learnable or {name: np.zeros(matrix.shape, bool) for name, matrix in weights.items()}
    flat = np.abs(np.concatenate([matrix.ravel() for matrix in weights.values()]))
    frozen = ~np.concatenate([marked[name].ravel() for name in weights])
    usual = next((some for some in (flat[frozen & (flat > 0)], flat[flat > 0]) if some.size), None)
    most = float(flat.max()) or 1.0
    end = most if usual is None else min(most, _BEYOND * float(np.median(usual)))
    rows, columns = zip(*(matrix.shape for matrix in weights.values()), strict=True)
    cell = min(_CELL, 7.5 / max(columns), 4.5 / max(rows))
    sizes = [
        (max(_THREAD, cell * wide), max(_THREAD, cell * high))
        for wide, high in zip(columns, rows, strict=True)
    ]
    fig, axes = boxes(sizes, foot=0.55)
    for ax, size, (name, matrix) in zip(axes, sizes, weights.items(), strict=True):
        # Purple to orange, white at 0: told apart by the colour-blind too.
        drawn = ax.imshow(matrix, cmap="PuOr", vmin=-end, vmax=end, aspect="auto")
        _outline(ax, marked[name], min(1.6, 0.9 + 2.4 * cell))
        ax.set_title(name, loc="left", color=ink())
        ax.set_xlabel("column")
        ax.set_ylabel("row")
        for axis, inches in zip("xy", size, strict=True):
            whole_ticks(ax, axis, most=max(1, min(10, int(inches / 0.3))))
    beyond = f"; {(flat > end).sum()} lie beyond these colours, up to {most:.3g} in size"
    _name_colours(fig, drawn, beyond if most > end else "")
    if learnable is not None:
        _name_outline(fig)
    return fig


def _name_colours(fig: Figure, drawn: Any, beyond: str) -> None:
    """The scale of colours, at the foot of the figure."""
    wide, high = fig.get_size_inches()
    axes = fig.add_axes((0.6 / wide, 0.5 / high, 2.2 / wide, 0.13 / high))
    bar = fig.colorbar(
        drawn, axes, orientation="horizontal", extend="both" if beyond else "neither"
    )
    bar.ax.tick_params(colors=ink())
    bar.outline.set_edgecolor(ink())
    axes.set_xlabel(f"weight{beyond}", color=ink(), loc="left")


def _name_outline(fig: Figure) -> None:
    """What an outline means, beside the scale of colours."""
    from matplotlib.lines import Line2D

    wide, high = fig.get_size_inches()
    look: dict[str, Any] = {"marker": "s", "ms": 8, "mfc": "none", "ls": "none"}
    handle = Line2D([], [], mec="black", mew=1.6, path_effects=_cased(1.6), **look)
    fig.legend(
        [handle], ["learnable"], loc="center left", bbox_to_anchor=(3.2 / wide, 0.56 / high),
        frameon=False, labelcolor=ink(), handletextpad=0.3,
    )  # fmt: skip


def _outline(ax: Axes, chosen: Mask, width: float) -> None:
    """Lines around chosen cells, where they meet others; told from the darkest cell and from white."""
    from matplotlib.collections import LineCollection

    around = np.pad(chosen, 1)
    upright = [
        ((j - 0.5, i - 1.5), (j - 0.5, i - 0.5))
        for i, j in np.argwhere(around[:, 1:] != around[:, :-1]).tolist()
    ]
    level = [
        ((j - 1.5, i - 0.5), (j - 0.5, i - 0.5))
        for i, j in np.argwhere(around[1:] != around[:-1]).tolist()
    ]
    lines = LineCollection(
        upright + level,
        colors="black",
        linewidths=width,
        capstyle="projecting",
        clip_on=False,
        zorder=3,
    )
    lines.set_path_effects(_cased(width))
    ax.add_collection(lines, autolim=False)


def _cased(width: float) -> list[Any]:
    """Black in a white case is seen on every colour and on either ground."""
    from matplotlib.patheffects import Normal, Stroke

    return [Stroke(linewidth=2 * width, foreground="white"), Normal()]
