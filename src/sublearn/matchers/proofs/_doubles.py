"""The Krawczyk test in float64: rigorous error bounds, no directed rounding, no interval type.

The residual F(x), which nearly cancels at a root, is evaluated in pairs of float64 numbers (hi + lo,
about 106 bits) by error-free transformations (Dekker 1971, Knuth; Ogita, Rump and Oishi, "Accurate
sum and dot product", SIAM J. Sci. Comput. 26, 2005). The Jacobian over the box needs few digits: a
float64 midpoint with a float64 radius is enough. Every bound is a sum of non-negative numbers in
which each rounding is counted beforehand with u = 2^-53; what the bounds themselves lose by rounding
is covered by a factor SLACK, and underflow by adding FLOOR, far above anything it can lose. An
overflow makes infinities or NaN, which pass no comparison.

The chain is packed into arrays (``_quick.py``) so that one compiled call walks it from end to end.
"""

from __future__ import annotations

import numpy as np

from sublearn._arrays import Array, Indices
from sublearn._compile import compiled

U = 2.0**-53
SPLIT = 2.0**27 + 1.0
# Bounds are chains of fewer than 2^20 rounded operations on non-negative numbers (``Packed.work``).
SLACK = 1.0 + 2.0**-30
FLOOR = 2.0**-1000


@compiled
def multiply(
    left: Array,
    right: Array,
    right_low: Array,
    inner: int,
    columns: int,
    base: Array,
    sign: float,
    out: Array,
) -> None:
    """out = sign base + left right in pairs; left and out are (hi, lo, error bound).

    With P the sum of |left| |right| and |base| over the q = inner terms: each product loses at most
    8 u^2 of itself (a dropped product of low parts, four roundings of terms of order u), each
    addition of a compensation at most u (q + 8) u P. Twice the total, (2 q^2 + 16 q + 16) u^2 P with
    q + 1 terms, is what is charged.
    """
    terms = inner + 1.0
    unit = (2.0 * terms * terms + 16.0 * terms + 16.0) * U * U
    for i in range(left.shape[1]):
        for j in range(columns):
            out[0, i, j] = sign * base[i, j]
            out[1, i, j] = 0.0
            out[2, i, j] = FLOOR + unit * abs(base[i, j])
        for k in range(inner):
            x, x_low = left[0, i, k], left[1, i, k]
            charge = left[2, i, k] + unit * abs(x)
            t = SPLIT * x
            x_top = t - (t - x)
            x_rest = x - x_top
            for j in range(columns):
                y = right[k, j]
                product = x * y
                t = SPLIT * y
                y_top = t - (t - y)
                y_rest = y - y_top
                lost = (
                    (x_top * y_top - product) + x_top * y_rest + x_rest * y_top
                ) + x_rest * y_rest
                before = out[0, i, j]
                total = before + product
                virtual = total - before
                rounded = (before - (total - virtual)) + (product - virtual)
                out[1, i, j] += (lost + (x * right_low[k, j] + x_low * y)) + rounded
                out[0, i, j] = total
                out[2, i, j] += charge * abs(y)
        for j in range(columns):
            before, small = out[0, i, j], out[1, i, j]
            total = before + small
            virtual = total - before
            out[1, i, j] = (before - (total - virtual)) + (small - virtual)
            out[0, i, j] = total


@compiled
def residual(
    high: Array,
    low: Array,
    sizes: Indices,
    steps: Indices,
    blocks: Array,
    targets: Array,
) -> Array:
    """F = outputs - targets as (hi, lo, error), (3, d, m): |true - hi - lo| <= error.

    ``targets`` are (hi, lo, error) too; their low part is added to that of the product, with one rounding.
    From the left: the derivatives with respect to all injected inputs and biases side by side, then
    one product with those inputs and with ones.
    """
    _, d, m = targets.shape
    width, block_size = high.shape[1], blocks.shape[1]
    # At most a block and a bias per step.
    total = steps.shape[0] * (block_size + 1)
    side = np.zeros((3, d, total))
    inputs = np.zeros((2, total, m))  # the second is their low part, 0
    now, new = np.zeros((3, d, width)), np.zeros((3, d, width))
    zero = np.zeros((d, width))
    for o in range(d):
        now[0, o, o] = 1.0
    place = 0
    for position in range(steps.shape[0] - 1, -1, -1):
        # In turn the bias, the weight and the encoder of the step; one call, so that it is compiled
        # into this function only once.
        for task in range(3):
            block = steps[position, 3]
            matrix = steps[position, 2 if task == 0 else 0 if task == 1 else 1]
            if (task == 2 and block < 0) or (task == 0 and matrix < 0):
                continue
            columns = block_size
            if matrix >= 0:
                inner, columns = sizes[matrix, 0], sizes[matrix, 1]
                multiply(now, high[matrix], low[matrix], inner, columns, zero, 1.0, new)
            if task == 1:
                now, new = new, now
                continue
            source = new if matrix >= 0 else now
            for j in range(columns):
                for part in range(3):
                    for o in range(d):
                        side[part, o, place + j] = source[part, o, j]
                for s in range(m):
                    inputs[0, place + j, s] = 1.0 if task == 0 else blocks[block, j, s]
            place += columns
    out = np.zeros((3, d, m))
    multiply(side, inputs[0], inputs[1], place, m, targets[0], -1.0, out)
    for o in range(d):
        for s in range(m):
            high, low, rest = out[0, o, s], out[1, o, s], targets[1, o, s]
            small = low - rest
            bound = out[2, o, s] + targets[2, o, s] + U * (abs(low) + abs(rest))
            # Near a root the high parts cancel, and what is left must show in the high part again.
            total = high + small
            virtual = total - high
            out[1, o, s] = (high - (total - virtual)) + (small - virtual)
            out[0, o, s] = total
            out[2, o, s] = bound * SLACK
    return out


@compiled
def enclose(left: Array, right: Array, rows: int, inner: int, columns: int, out: Array) -> None:
    """The product of two matrices known as (midpoint, radius), as midpoint and radius."""
    rounding = (inner + 2.0) * U
    for i in range(rows):
        for j in range(columns):
            out[0, i, j] = 0.0
            out[1, i, j] = FLOOR
        for k in range(inner):
            x, x_radius = left[0, i, k], left[1, i, k]
            size = abs(x)
            for j in range(columns):
                y, y_radius = right[0, k, j], right[1, k, j]
                out[0, i, j] += x * y
                out[1, i, j] += size * (y_radius + rounding * abs(y)) + x_radius * (
                    abs(y) + y_radius
                )


@compiled
def left_factors(weights: Array, sizes: Indices, steps: Indices, d: int) -> Array:
    """d outputs / d (what enters step t), as (steps + 1, 2, d, width); the last is the identity.

    ``weights`` are (count, 2, width, width): midpoint and radius. What leaves step t is what enters
    step t + 1.
    """
    count, width = steps.shape[0], weights.shape[2]
    out = np.zeros((count + 1, 2, d, width))
    for o in range(d):
        out[count, 0, o, o] = 1.0
    for position in range(count - 1, -1, -1):
        weight = steps[position, 0]
        inner, columns = sizes[weight, 0], sizes[weight, 1]
        enclose(out[position + 1], weights[weight], d, inner, columns, out[position])
    return out


@compiled
def right_factors(weights: Array, sizes: Indices, steps: Indices, blocks: Array) -> Array:
    """What enters each step, as (steps, 2, width, m)."""
    count, width, m = steps.shape[0], weights.shape[2], blocks.shape[3]
    out = np.zeros((count, 2, width, m))
    fresh = np.zeros((2, width, m))
    for position in range(count):
        encoder, block = steps[position, 1], steps[position, 3]
        here = out[position]
        if position:
            before, bias = steps[position - 1, 0], steps[position - 1, 2]
            rows, inner = sizes[before, 0], sizes[before, 1]
            enclose(weights[before], out[position - 1], rows, inner, m, here)
            if bias >= 0:
                for i in range(rows):
                    for s in range(m):
                        here[0, i, s] += weights[bias, 0, i, 0]
                        here[1, i, s] += weights[bias, 1, i, 0] + U * abs(here[0, i, s])
        if block < 0:
            continue
        rows = blocks.shape[2]
        added = blocks[block]
        if encoder >= 0:
            rows = sizes[encoder, 0]
            enclose(weights[encoder], added, rows, blocks.shape[2], m, fresh)
            added = fresh
        for i in range(rows):
            for s in range(m):
                here[0, i, s] += added[0, i, s]
                here[1, i, s] += added[1, i, s] + U * abs(here[0, i, s])
    return out


@compiled
def jacobian(
    weights: Array, sizes: Indices, steps: Indices, blocks: Array, labels: Indices, d: int
) -> Array:
    """(midpoint, radius) of the (d m, r) Jacobian over all weights within their radii.

    ``weights`` are (count, 2, width, width) and ``blocks`` (count, 2, size, m), with radius 0.
    """
    count, m, size = steps.shape[0], blocks.shape[3], labels.shape[0]
    lefts = left_factors(weights, sizes, steps, d)
    rights = right_factors(weights, sizes, steps, blocks)
    ones = np.zeros((2, 1, m))
    for s in range(m):
        ones[0, 0, s] = 1.0
    rounding = (count + 2.0) * U
    out = np.zeros((2, d * m, size))
    for k in range(size):
        name, i, j = labels[k, 0], labels[k, 1], labels[k, 2]
        for position in range(count):
            left, right = lefts[position + 1], rights[position]
            if steps[position, 2] == name:
                right = ones
            elif steps[position, 1] == name and steps[position, 3] >= 0:
                left, right = lefts[position], blocks[steps[position, 3]]
            elif steps[position, 0] != name:
                continue
            for o in range(d):
                x, x_radius = left[0, o, i], left[1, o, i]
                for s in range(m):
                    y, y_radius = right[0, j, s], right[1, j, s]
                    out[0, o * m + s, k] += x * y
                    out[1, o * m + s, k] += abs(x) * (y_radius + rounding * abs(y)) + (
                        x_radius * (abs(y) + y_radius)
                    )
    for row in range(d * m):
        for k in range(size):
            out[1, row, k] = (out[1, row, k] + FLOOR) * SLACK
    return out
