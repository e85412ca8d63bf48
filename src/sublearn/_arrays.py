"""The kinds of arrays that the package speaks of, each named once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]
Complex = NDArray[np.complex128]
Floats = NDArray[Any]  # float32 or float64, the same throughout a computation


def zeros(*shapes: int | tuple[int, ...], dtype: Any = np.float64) -> list[NDArray[Any]]:
    """Arrays of zeros, one of each shape: room for loops that make none.

    >>> [part.shape for part in zeros((2, 3), 4)]
    [(2, 3), (4,)]
    """
    return [np.zeros(shape, dtype) for shape in shapes]
