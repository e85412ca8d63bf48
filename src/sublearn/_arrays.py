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
