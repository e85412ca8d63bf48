"""What the noise commands draw and print alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    from sublearn.noise import MeasuredRate


def draw_measured(ax: Axes, x: ArrayLike, measured: Sequence[MeasuredRate]) -> None:
    """Measured rates, two standard errors shaded."""
    import numpy as np

    from sublearn.plots import curve

    means = np.array([one.mean for one in measured])
    errors = 2 * np.array([one.error for one in measured])
    low, high = means - errors, means + errors
    curve(ax, x, means, low, high, label="measured", colour=1, dashed=True)


def tell_drawn(paths: Sequence[str] | None) -> None:
    """Say which pictures were drawn."""
    for path in paths or []:
        typer.echo(f"drawn: {path}")
