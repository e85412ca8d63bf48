"""What the experiments on learning under noise share: intervals, and differences in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sublearn.experiments._lines import level_ticks
from sublearn.experiments.tasks import GAMMA
from sublearn.plots import COLOURS, MARKERS, Axes, curve, ink, log_ticks
from sublearn.runs import Json, Point, Row, Table


def levels(*gamma: float) -> Row:
    """gamma1, gamma2 and gamma3, as a point says them."""
    return dict(zip(GAMMA, gamma, strict=True))


def paired(params: Row, over: str, repeats: int, at_once: int = 1) -> Point:
    """So many repeats, each through the sizes that ``over`` lists; a chunk has ``at_once`` of them."""
    sizes = len(params[over].split())
    return Point(params, repeats * sizes, chunk=at_once * sizes)


def placed(samples: int, gamma: Row, **more: Json) -> Row:
    """64 plastic weights of 256 that learn so many samples under this noise."""
    given = {"network": "linear:inputs=32,outputs=8", "samples": samples}
    laws = {"ensemble": "weights=normal*4 teacher=normal*4"}
    return {**given, **laws, **more, "plastic": 64, **gamma}


def answered(yes: bool | None, sentence: str) -> str:
    """A finding that begins with its answer: yes, no, or not decided by this (None)."""
    word = "Not decided by this" if yes is None else "Yes" if yes else "No"
    return f"{word}: {sentence}"


def best_sizes(ax: Axes, rows: Table, x: str, label: str, colour: int, aside: float = 1.0) -> None:
    """Measured best sizes against a column, with their 95% intervals; ``aside`` sets them apart."""
    at, best, low, high = (
        np.array(rows.column(name), dtype=float) for name in (x, "best", "best_low", "best_high")
    )
    ends = [np.maximum(best - low, 0.0), np.maximum(high - best, 0.0)]
    look: dict[str, Any] = {"color": COLOURS[colour], "marker": MARKERS[colour]}
    ax.errorbar(at * aside, best, yerr=ends, linestyle="none", capsize=3, label=label, **look)


def power_law(ax: Axes, noise: Sequence[float], power: float, scale: float = 1.0) -> None:
    """T gamma2^2 / gamma3^2 over these values of one of them, which are the ticks; both axes logarithmic."""
    fine = np.geomspace(min(noise), max(noise), 50)
    ax.plot(fine, scale * fine**power, color=ink(), linewidth=1.2, label="T gamma2^2 / gamma3^2")
    log_ticks(ax)
    log_ticks(ax, "y")
    level_ticks(ax, noise)


def error_of(name: str) -> str:
    """The column with the standard error of a column of means."""
    return "error" if name == "value" else f"{name}_error"


def half_width(row: Row, name: str = "value") -> float:
    """Half of the 95% interval of a mean over repeats, by Student's t; nan after one repeat."""
    count, spread = int(row["repeats"]), row[error_of(name)]
    if count < 2 or spread is None:
        return math.nan
    from scipy.special import stdtrit

    return float(stdtrit(count - 1, 0.975) * spread)


def interval(rows: Table, name: str = "value") -> tuple[NDArray[Any], NDArray[Any]]:
    """The two ends of the 95% intervals of a column of means."""
    middle = np.array(rows.column(name), dtype=np.float64)
    half = np.array([half_width(row, name) for row in rows])
    return middle - half, middle + half


def means(ax: Axes, rows: Table, x: str, label: str, name: str = "value", **look: Any) -> None:
    """A column of means against another, their 95% intervals shaded."""
    curve(ax, rows.column(x), rows.column(name), *interval(rows, name), label=label, **look)


def with_error(row: Row, name: str = "value", digits: int = 3, sign: bool = False) -> str:
    """For example "0.482 +- 0.081", the second the standard error."""
    plus, spread = "+" if sign else "", row[error_of(name)]
    text = f"{row[name]:{plus}.{digits}f}"
    return text if spread is None else f"{text} +- {spread:.{digits}f}"


def errors_away(row: Row, name: str) -> float:
    """How many standard errors a mean lies from 0; nan where there is no error."""
    spread = row[error_of(name)]
    return row[name] / spread if spread else math.nan
