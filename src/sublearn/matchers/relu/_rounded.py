"""The checks of a leaf in float64, as machine code (see ``_leaf.py``)."""

from __future__ import annotations

import numpy as np
from numba import njit

from sublearn.matchers.relu._outputs import TINY, UNIT


@njit(cache=True, nogil=True)
def held_columns(owner, sides, literals):  # type: ignore[no-untyped-def]
    """The columns that these conditions hold at 0; p: unit p // m is off on p % m, pairs + p: on."""
    size, m = sides.shape
    pairs = literals.size // 2
    out = np.zeros(size, np.bool_)
    for j in range(size):
        for s in range(m):
            p = owner[j] * m + s
            if (literals[p] and sides[j, s] > 0.0) or (literals[pairs + p] and sides[j, s] < 0.0):
                out[j] = True
                break
    return out


@njit(cache=True, nogil=True)
def rises(values, weights, owner, y, rise, slack, tiny):  # type: ignore[no-untyped-def]
    """Fill eta_i . relu(corner) for every corner, and a bound on all that rounding can do to it.

    eta_is = y_s . w_i takes d products and sums, the corner m more; every factor is itself rounded.
    """
    d, k = weights.shape
    size, m = values.shape
    eta, terms = np.zeros((k, m)), np.zeros((k, m))
    met = np.zeros((k, m), np.bool_)
    for i in range(k):
        for s in range(m):
            for o in range(d):
                product = y[s, o] * weights[o, i]
                eta[i, s] += product
                terms[i, s] += abs(product)
                met[i, s] = met[i, s] or (y[s, o] != 0.0 and weights[o, i] != 0.0)
    unit = (m + d + 12) * UNIT
    for j in range(size):
        i = owner[j]
        total, mass = 0.0, 0.0
        rounded = False
        for s in range(m):
            if values[j, s] > 0.0:
                total += values[j, s] * eta[i, s]
                mass += values[j, s] * terms[i, s]
                rounded = rounded or met[i, s]
        rise[j] = total
        # Only where every product has a factor 0 is nothing rounded.
        slack[j] = unit * mass + (tiny[j] if rounded else 0.0)


@njit(cache=True, nogil=True)
def refutes(values, weights, targets, owner, vertex, tiny, is_open, y):  # type: ignore[no-untyped-def]
    """Whether y, as these float64 numbers are, proves that the open corners allow no match."""
    size, m = values.shape
    d, k = weights.shape
    rise, slack = np.empty(size), np.empty(size)
    rises(values, weights, owner, y, rise, slack, tiny)
    lowest = np.full(k, np.inf)
    for j in range(size):
        if not is_open[j]:
            continue
        if vertex[j]:
            if not rise[j] - slack[j] >= lowest[owner[j]]:
                lowest[owner[j]] = rise[j] - slack[j]
        elif not rise[j] >= slack[j]:
            return False
    left, right, mass = 0.0, 0.0, 0.0
    for i in range(k):
        right += lowest[i]
        mass += abs(lowest[i])
    for s in range(m):
        for o in range(d):
            left += y[s, o] * targets[o, s]
            mass += abs(y[s, o] * targets[o, s])
    return left + (d * m + k + 12) * UNIT * mass + TINY < right
