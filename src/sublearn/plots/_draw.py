"""Lines with their uncertainty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from sublearn.plots._style import COLOURS, MARKERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    shade = COLOURS[colour % len(COLOURS)]
    look: dict[str, Any] = {"marker": MARKERS[colour % len(MARKERS)], "markersize": 4.5}
    ax.plot(
        np.asarray(x),
        np.asarray(y),
        color=shade,
        linestyle="--" if dashed else "-",
        linewidth=1.6,
        label=label,
        **look,
    )
    if low is not None and high is not None:
        ax.fill_between(
            np.asarray(x), np.asarray(low), np.asarray(high), color=shade, alpha=0.18, lw=0
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
        shade = COLOURS[colour % len(COLOURS)]
        ax.plot(np.asarray(x), above, color=shade, linestyle=":", linewidth=1.2)
        ax.fill_between(
            np.asarray(x), below, above, facecolor="none", edgecolor=shade, hatch="////", lw=0,
            alpha=0.5, label=gap or f"undecided ({label})",
        )  # fmt: skip
