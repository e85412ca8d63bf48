"""Jacobian columns of one weight matrix, from the two factors that a chain network gives.

For a weight matrix with entries (i, j), a network with d outputs and m samples gives `left`, of
shape (uses, d, rows) or (uses, d, rows, m) when gates make it depend on the sample, and `right`,
of shape (uses, cols, m). The derivative of output o on sample s with respect to entry (i, j) is
sum over uses t of left[t, o, i(, s)] right[t, j, s], at index o m + s of the column.
"""

import numpy as np
from numpy.typing import ArrayLike

from sublearn._arrays import Array, Indices
from sublearn._compile import compiled
from sublearn.exact._field import PrimeField, balance

STRIP = 128  # entries treated at once, so that their factors stay in the cache


def check_factors(left: Array, right: Array) -> tuple[int, int, int, int]:
    """(d, m, rows, cols) of a pair of factors; ValueError when their shapes disagree."""
    fits = (
        left.ndim in (3, 4)
        and right.ndim == 3
        and left.shape[0] == right.shape[0]
        and (left.ndim == 3 or left.shape[3] == right.shape[2])
    )
    if not fits:
        raise ValueError(
            "left must have shape (uses, d, rows) or (uses, d, rows, m) and right (uses, cols, m), "
            f"got {left.shape} and {right.shape}"
        )
    return left.shape[1], right.shape[2], left.shape[2], right.shape[1]


def within(words: str, numbers: ArrayLike, limit: int) -> Indices:
    """Whole numbers from 0 to ``limit`` - 1; ValueError when one lies outside."""
    whole = np.asarray(numbers, dtype=np.int64)
    if whole.size and not 0 <= whole.min() <= whole.max() < limit:
        raise ValueError(f"{words} in 0..{limit - 1}")
    return whole


@compiled
def _combine(left: Array, right: Array, out: Array, p: float, delay: int, strip: int) -> None:
    """out[o, s, k] = sum_t left[t, o, k] right[t, s, k] modulo p."""
    uses, d, entries = left.shape
    m = right.shape[1]
    for start in range(0, entries, strip):
        stop = min(start + strip, entries)
        for o in range(d):
            for s in range(m):
                target = out[o, s, start:stop]
                target[:] = 0.0
                for t in range(uses):
                    one, two = left[t, o, start:stop], right[t, s, start:stop]
                    for k in range(stop - start):
                        target[k] += one[k] * two[k]
                    if t % delay == delay - 1:
                        balance(target, p)
                balance(target, p)


@compiled
def _combine_gated(
    left: Array,
    right: Array,
    rows: Indices,
    cols: Indices,
    out: Array,
    p: float,
    delay: int,
) -> None:
    """out[o, s, k] = sum_t left[t, o, rows[k], s] right[t, cols[k], s] modulo p."""
    uses, d, _, m = left.shape
    sums = np.empty(m)
    for k in range(rows.size):
        i, j = rows[k], cols[k]
        for o in range(d):
            sums[:] = 0.0
            for t in range(uses):
                one, two = left[t, o, i], right[t, j]
                for s in range(m):
                    sums[s] += one[s] * two[s]
                if t % delay == delay - 1:
                    balance(sums, p)
            balance(sums, p)
            for s in range(m):
                out[o, s, k] = sums[s]


def columns(
    field: PrimeField, left: Array, right: Array, rows: ArrayLike, cols: ArrayLike
) -> Array:
    """The Jacobian columns of the entries (rows[k], cols[k]), as a (d m, r) row-major matrix.

    Entry (o m + s, k) is sum_t left[t, o, rows[k](, s)] right[t, cols[k], s] modulo p.

    >>> left, right = np.array([[[2.0, 3.0]]]), np.array([[[5.0, 7.0]]])
    >>> columns(PrimeField(8388593), left, right, [0, 1], [0, 0])
    array([[10., 15.],
           [14., 21.]])
    """
    d, m, height, width = check_factors(left, right)
    if np.ndim(rows) != 1 or np.shape(rows) != np.shape(cols):
        shapes = f"{np.shape(rows)} and {np.shape(cols)}"
        raise ValueError(f"rows and cols must be equally long lists, got {shapes}")
    i, j = within("rows must lie", rows, height), within("cols must lie", cols, width)
    out = np.empty((d, m, i.size))
    if left.ndim == 3:
        chosen = np.ascontiguousarray(left[:, :, i])
        facing = np.ascontiguousarray(right[:, j].swapaxes(1, 2))
        _combine(chosen, facing, out, float(field.p), field.delay, STRIP)
    else:
        # The gathered left factors would be as large as `uses` Jacobians: read them in place.
        left, right = np.ascontiguousarray(left), np.ascontiguousarray(right)
        _combine_gated(left, right, i, j, out, float(field.p), field.delay)
    return out.reshape(d * m, i.size)


def screen(field: PrimeField, left: Array, right: Array, w: Array) -> Array:
    """w . c for the Jacobian column c of every entry, as a (rows, cols) matrix.

    With w read as a (d, m) matrix, entry (i, j) is sum_{t, s} G[t, i, s] right[t, j, s] where
    G[t, i, s] = sum_o left[t, o, i(, s)] w[o, s]: two small products, no column is formed.

    >>> left, right = np.array([[[2.0, 3.0]]]), np.array([[[5.0, 7.0]]])
    >>> screen(PrimeField(8388593), left, right, np.array([1.0, -1.0]))
    array([[-4.],
           [-6.]])
    """
    d, m, height, width = check_factors(left, right)
    if np.shape(w) != (d * m,):
        raise ValueError(f"w must have length d m = {d * m}, got shape {np.shape(w)}")
    weights = np.asarray(w, dtype=np.float64).reshape(d, m)
    if left.ndim == 3:
        inner = field.matmul(left.swapaxes(1, 2), weights)
    else:
        inner = np.zeros((left.shape[0], height, m))
        for start in range(0, d, field.delay):
            part = slice(start, start + field.delay)
            sums = np.einsum("tois,os->tis", left[:, part], weights[part])
            inner = field.add(inner, field.reduce(sums))
    one = inner.swapaxes(0, 1).reshape(height, -1)
    two = right.swapaxes(0, 1).reshape(width, -1)
    return field.matmul(one, two.T)
