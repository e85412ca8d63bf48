"""What the experiments on learning under noise share: intervals, and differences in words."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sublearn.runs import Row, Table


def half_width(row: Row, error: str = "error", repeats: str = "repeats") -> float:
    """Half of the 95% interval of a mean over repeats, by Student's t; nan after one repeat."""
    count, spread = int(row[repeats]), row[error]
    if count < 2 or spread is None:
        return math.nan
    from scipy.special import stdtrit

    return float(stdtrit(count - 1, 0.975) * spread)


def interval(
    rows: Table, value: str = "value", error: str = "error"
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The two ends of the 95% intervals of a column of means."""
    middle = np.array(rows.column(value), dtype=np.float64)
    half = np.array([half_width(row, error) for row in rows])
    return middle - half, middle + half


def with_error(row: Row, value: str, error: str, digits: int = 3, sign: bool = False) -> str:
    """For example "0.482 +- 0.081", the second the standard error."""
    plus = "+" if sign else ""
    spread = row[error]
    text = f"{row[value]:{plus}.{digits}f}"
    return text if spread is None else f"{text} +- {row[error]:.{digits}f}"


def errors_away(row: Row, value: str, error: str) -> float:
    """How many standard errors a mean lies from 0; nan where there is no error."""
    spread = row[error]
    return row[value] / row[error] if spread else math.nan
