"""Random directions in few dimensions: the law of the angle between two of them."""

from __future__ import annotations

import math

import numpy as np

from sublearn._arrays import Array

_FEW = 64


def cosines(size: int, count: int) -> tuple[Array, Array]:
    """Nodes and weights for the cosine u of the angle between two random directions.

    Its density is (1 - u^2)^((size - 3)/2); in one dimension it is 1 or -1.

    >>> nodes, weights = cosines(5, 64)
    >>> round(float(weights @ nodes**2), 12)             # 1 / size
    0.2
    """
    if size == 1:
        return np.array([-1.0, 1.0]), np.array([0.5, 0.5])
    if size <= _FEW:
        nodes, weights = np.polynomial.legendre.leggauss(count)
        angle = (nodes + 1.0) * math.pi / 2.0
    else:
        # A peak that vanishes with many derivatives at both ends, where midpoints are as good.
        points = max(count, math.ceil(8.0 * math.sqrt(size)))
        angle, weights = (np.arange(points) + 0.5) * math.pi / points, np.ones(points)
    weights = weights * np.exp((size - 2.0) * np.log(np.sin(angle)))
    return np.cos(angle), weights / weights.sum()
