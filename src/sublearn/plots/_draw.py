"""Lines with their uncertainty."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sublearn._arrays import Mask
from sublearn.plots._style import COLOURS, MARKERS, Axes, ink, shade, whole_ticks


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
    gap: str | None = None,
) -> None:
    """The share matched and the share not refuted: the gap between the two lines is undecided.

    The 95% interval around both is shaded lightly, the gap itself hatched; ``gap`` is its name in the
    legend.
    """
    curve(ax, x, matched, low, high, label=label, colour=colour)
    below, above = np.asarray(matched, dtype=float), np.asarray(possible, dtype=float)
    if np.any(above > below):
        own = shade(colour)
        ax.plot(np.asarray(x), above, color=own, linestyle=":", linewidth=1.2)
        ax.fill_between(
            np.asarray(x), below, above, facecolor="none", edgecolor=own, hatch="////", lw=0,
            alpha=0.5, label=gap or f"undecided ({label})",
        )  # fmt: skip


def draw_mask(
    ax: Axes, name: str, learnable: Mask, wasted: Mask | None = None, circuit: Mask | None = None
) -> None:
    """The entries of one weight matrix: learnable filled, wasted in another colour, a circuit framed.

    Row 0 is on top and column 0 on the left, as the matrix is written.
    """
    rows, columns = learnable.shape
    shades = np.zeros((rows, columns, 4))  # frozen: the ground itself
    kinds = [(learnable, COLOURS[0])]
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
        ax.grid(True, which="minor", linewidth=0.4, alpha=0.6)
        ax.tick_params(which="minor", length=0)
    whole_ticks(ax)
    for spine in ax.spines.values():
        spine.set_visible(True)
    title = f"{name}: {int(learnable.sum())} of {rows} x {columns}"
    ax.set_title(title, loc="left", color=ink())
    ax.set_xlabel("column")
    ax.set_ylabel("row")
