"""The Krawczyk test in float64: rigorous error bounds, no directed rounding, no interval type.

The residual F(x), which nearly cancels at a root, is evaluated in pairs of float64 numbers (hi + lo,
about 106 bits) by error-free transformations (Dekker 1971, Knuth; Ogita, Rump and Oishi, "Accurate
sum and dot product", SIAM J. Sci. Comput. 26, 2005). The Jacobian over the box needs few digits: a
float64 midpoint with a float64 radius is enough. Every bound is a sum of non-negative numbers in
which each rounding is counted beforehand with u = 2^-53; what the bounds themselves lose by rounding
is covered by a factor SLACK, and underflow by adding FLOOR, far above anything it can lose. An
overflow makes infinities or NaN, which pass no comparison.

Explicit loops and no array made inside: the compiler takes ten times as long over array expressions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sublearn._arrays import UNIT, Array, Indices, zeros
from sublearn._compile import lean
from sublearn.networks.packed import (
    AS_ENCODER,
    AS_WEIGHT,
    BIAS,
    BLOCK,
    BLOCK_ROWS,
    COLUMNS,
    ENCODER,
    ROWS,
    WEIGHT,
)

SPLIT = 2.0**27 + 1.0
# Bounds are chains of fewer than 2^20 rounded operations on non-negative numbers (``_quick.py``).
SLACK = 1.0 + 2.0**-30
FLOOR = 2.0**-1000
# Rows of numbers that are known so well. The radius is that of the box; a low part is added to the value.
VALUE, RADIUS, LOW = range(3)


class Doubles(NamedTuple):
    """A linear chain as its packed table, its numbers flat, and room for its passes."""

    table: Indices
    weights: Array  # (3, p): VALUE, RADIUS and LOW of all weights
    inputs: Array  # (3, (block rows + 1) m): VALUE alone, behind them m ones for the biases
    targets: Array  # (3, d, m): value, low part, error
    at: Indices  # (r,): the free weights among all
    uses: Indices  # of the free weights: which, kind of use, step, row, column
    now: Array  # (3, d, widest)
    new: Array
    side: Array  # (3, d, terms): derivatives of the outputs by all that is injected
    beside: Array  # (3, terms m): what is injected
    nothing: Array  # (d, widest) zeros
    residual: Array  # (3, d, m)
    lefts: Array  # (2, (steps + 1) d widest): of the outputs by what enters each step
    rights: Array  # (2, steps widest m): what enters each step
    fresh: Array  # (2, widest m)


def doubles(
    table: Indices, widest: int, terms: int, weights: Array, inputs: Array, targets: Array
) -> Doubles:
    """A chain with no free weights: its table, its weights flat, inputs (block rows, m).

    ``widest`` is the longest row or column of its matrices; at most ``terms`` rows are injected in all.
    """
    (_, d, m), steps, size = targets.shape, len(table), inputs.size
    numbers, given, beside, nothing = zeros(
        (3, weights.size), (3, size + m), (3, terms * m), (d, widest)
    )
    numbers[VALUE], given[VALUE, :size], given[VALUE, size:] = weights, inputs.ravel(), 1.0
    now, new, side = (np.empty((3, d, width)) for width in (widest, widest, terms))
    unused = np.zeros(0, np.int64), np.zeros((0, 5), np.int64)
    lengths = (steps + 1) * d * widest, steps * widest * m, widest * m
    return Doubles(
        *(table, numbers, given, targets, *unused, now, new, side, beside, nothing),
        np.empty((3, d, m)),
        *(np.empty((2, length)) for length in lengths),
    )


@lean
def multiply(
    left: Array,
    right: Array,
    at: int,
    size: tuple[int, int],
    base: Array,
    sign: float,
    out: Array,
) -> None:
    """out = sign base + left right in pairs; left and out are (hi, lo, error bound).

    ``right``, of ``size`` (inner, columns), lies flat from ``at`` on, in VALUE and LOW. With P the sum of
    |left| |right| and |base| over the q = inner terms: each product loses at most
    8 u^2 of itself (a dropped product of low parts, four roundings of terms of order u), each
    addition of a compensation at most u (q + 8) u P. Twice the total, (2 q^2 + 16 q + 16) u^2 P with
    q + 1 terms, is what is charged.
    """
    # Unsigned: an index that might be negative, counted from the end, keeps the vector units idle.
    inner, columns, first = np.uint64(size[0]), np.uint64(size[1]), np.uint64(at)
    terms = size[0] + 1.0
    unit = (2.0 * terms * terms + 16.0 * terms + 16.0) * UNIT * UNIT
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
            start = first + k * columns
            for j in range(columns):
                y, y_low = right[VALUE, start + j], right[LOW, start + j]
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
                out[1, i, j] += (lost + (x * y_low + x_low * y)) + rounded
                out[0, i, j] = total
                out[2, i, j] += charge * abs(y)
        for j in range(columns):
            before, small = out[0, i, j], out[1, i, j]
            total = before + small
            virtual = total - before
            out[1, i, j] = (before - (total - virtual)) + (small - virtual)
            out[0, i, j] = total


@lean
def residual(chain: Doubles) -> None:
    """chain.residual <- outputs - targets as (hi, lo, error): |true - hi - lo| <= error.

    ``targets`` are (hi, lo, error) too; their low part is added to that of the product, with one rounding.
    From the left: the derivatives with respect to all injected inputs and biases side by side, then
    one product with those inputs and with ones.
    """
    table, inputs, targets, out = chain.table, chain.inputs, chain.targets, chain.residual
    side, beside, now, new = chain.side, chain.beside, chain.now, chain.new
    _, d, m = targets.shape
    for o in range(d):
        for i in range(d):
            now[0, o, i] = 1.0 if i == o else 0.0
            now[1, o, i] = 0.0
            now[2, o, i] = 0.0
    zero = d * 0  # not a literal, for which the compiler would make a second copy of the product
    place = zero
    for p in range(table.shape[0] - 1, -1, -1):
        # In turn the bias, the weight and the encoder of the step; one call, so that it is compiled
        # into this function only once.
        block = table[p, BLOCK]
        for task in range(3):
            at, inner, columns = table[p, BIAS], table[p, ROWS], 1
            row = inputs.shape[1] // m - 1
            if task == 1:
                at, columns = table[p, WEIGHT], table[p, COLUMNS]
            if task == 2:
                at, inner, columns = table[p, ENCODER], table[p, COLUMNS], table[p, BLOCK_ROWS]
                row = block
            if (task == 2 and block < 0) or (task == 0 and at < 0):
                continue
            if at >= 0:
                multiply(now, chain.weights, at, (inner, columns), chain.nothing, 1.0, new)
            if task == 1:
                now, new = new, now
                continue
            source = new if at >= 0 else now
            for j in range(columns):
                for part in range(3):
                    for o in range(d):
                        side[part, o, place + j] = source[part, o, j]
                for s in range(m):
                    beside[VALUE, (place + j) * m + s] = inputs[VALUE, (row + j) * m + s]
            place += columns
    multiply(side, beside, zero, (place, m), targets[0], -1.0, out)
    for o in range(d):
        for s in range(m):
            high, low, rest = out[0, o, s], out[1, o, s], targets[1, o, s]
            small = low - rest
            bound = out[2, o, s] + targets[2, o, s] + UNIT * (abs(low) + abs(rest))
            # Near a root the high parts cancel, and what is left must show in the high part again.
            total = high + small
            virtual = total - high
            out[1, o, s] = (high - (total - virtual)) + (small - virtual)
            out[0, o, s] = total
            out[2, o, s] = bound * SLACK


@lean
def enclose(
    left: Array, a: int, right: Array, b: int, size: tuple[int, int, int], out: Array, c: int
) -> None:
    """out <- left right, matrices known by VALUE and RADIUS that lie flat from a, b and c on.

    ``size`` is (rows, inner, columns).
    """
    # Unsigned: an index that might be negative, counted from the end, keeps the vector units idle.
    rows, inner, columns = np.uint64(size[0]), np.uint64(size[1]), np.uint64(size[2])
    from_left, from_right, to = np.uint64(a), np.uint64(b), np.uint64(c)
    rounding = (size[1] + 2.0) * UNIT
    for i in range(rows):
        row = to + i * columns
        for j in range(columns):
            out[VALUE, row + j] = 0.0
            out[RADIUS, row + j] = FLOOR
        for k in range(inner):
            place, start = from_left + i * inner + k, from_right + k * columns
            x, x_radius = left[VALUE, place], left[RADIUS, place]
            size_x = abs(x)
            for j in range(columns):
                y, y_radius = right[VALUE, start + j], right[RADIUS, start + j]
                out[VALUE, row + j] += x * y
                out[RADIUS, row + j] += size_x * (y_radius + rounding * abs(y)) + x_radius * (
                    abs(y) + y_radius
                )


@lean
def factors(chain: Doubles) -> None:
    """Fill ``lefts`` and ``rights``: what leaves step t is what enters step t + 1, after its bias."""
    table, weights, inputs = chain.table, chain.weights, chain.inputs
    lefts, rights, fresh = chain.lefts, chain.rights, chain.fresh
    _, d, m = chain.targets.shape
    steps, widest = table.shape[0], chain.nothing.shape[1]
    for o in range(d):
        for i in range(d):
            lefts[VALUE, steps * d * widest + o * d + i] = 1.0 if i == o else 0.0
            lefts[RADIUS, steps * d * widest + o * d + i] = 0.0
    for p in range(steps - 1, -1, -1):
        size = (d, table[p, ROWS], table[p, COLUMNS])
        here = p * d * widest
        enclose(lefts, here + d * widest, weights, table[p, WEIGHT], size, lefts, here)
    for p in range(steps):
        here, columns = p * widest * m, table[p, COLUMNS]
        if p:
            bias = table[p - 1, BIAS]
            size = (columns, table[p - 1, COLUMNS], m)
            enclose(weights, table[p - 1, WEIGHT], rights, here - widest * m, size, rights, here)
            for i in range(columns if bias >= 0 else 0):
                for s in range(m):
                    rights[VALUE, here + i * m + s] += weights[VALUE, bias + i]
                    rights[RADIUS, here + i * m + s] += weights[RADIUS, bias + i] + UNIT * abs(
                        rights[VALUE, here + i * m + s]
                    )
        else:
            for i in range(columns * m):
                rights[VALUE, i] = 0.0
                rights[RADIUS, i] = 0.0
        block, encoder = table[p, BLOCK], table[p, ENCODER]
        if block < 0:
            continue
        source, start = inputs, block * m
        if encoder >= 0:
            size = (columns, table[p, BLOCK_ROWS], m)
            enclose(weights, encoder, inputs, block * m, size, fresh, p * 0)
            source, start = fresh, p * 0
        for i in range(columns * m):
            rights[VALUE, here + i] += source[VALUE, start + i]
            rights[RADIUS, here + i] += source[RADIUS, start + i] + UNIT * abs(
                rights[VALUE, here + i]
            )


@lean
def jacobian(chain: Doubles, out: Array) -> None:
    """out (2, d m, r), zeros <- midpoint and radius of the Jacobian over all weights within their radii."""
    factors(chain)
    table, uses = chain.table, chain.uses
    _, d, m = chain.targets.shape
    widest, samples = chain.nothing.shape[1], np.uint64(m)
    rounding = (table.shape[0] + 2.0) * UNIT
    for q in range(uses.shape[0]):
        e, kind, p, i, j = uses[q, 0], uses[q, 1], uses[q, 2], uses[q, 3], uses[q, 4]
        left, width = (p + 1) * d * widest, table[p, ROWS]
        right, start = chain.inputs, chain.inputs.shape[1] - m
        if kind == AS_WEIGHT:
            right, start = chain.rights, (p * widest + j) * m
        elif kind == AS_ENCODER:
            left, width = p * d * widest, table[p, COLUMNS]
            start = (table[p, BLOCK] + j) * m
        first, unknown = np.uint64(start), np.uint64(e)
        for o in range(d):
            x = chain.lefts[VALUE, left + o * width + i]
            x_radius = chain.lefts[RADIUS, left + o * width + i]
            row = np.uint64(o) * samples
            for s in range(samples):
                y, y_radius = right[VALUE, first + s], right[RADIUS, first + s]
                out[VALUE, row + s, unknown] += x * y
                out[RADIUS, row + s, unknown] += abs(x) * (y_radius + rounding * abs(y)) + (
                    x_radius * (abs(y) + y_radius)
                )
    for q in range(out.shape[1]):
        for e in range(out.shape[2]):
            out[RADIUS, q, e] = (out[RADIUS, q, e] + FLOOR) * SLACK


@lean
def descend(chain: Doubles, inverse: Array, high: Array, low: Array, step: Array) -> bool:
    """Newton's method in pairs with a fixed inverse, in place; chain.residual is the last one.

    True: the last step was below the last place of float64, or the steps stopped falling near
    it. Else they stopped falling before, so the inverse belongs to a point too far away.
    """
    size = high.size
    top = chain.residual[0]
    m = top.shape[1]
    before = np.inf
    while True:
        for e in range(size):
            chain.weights[VALUE, chain.at[e]] = high[e]
            chain.weights[LOW, chain.at[e]] = low[e]
        residual(chain)
        if before < 2.0**-52:
            return True
        largest, scale = 0.0, 1e-300
        for i in range(size):
            total = 0.0
            for k in range(size):
                total += inverse[i, k] * top[k // m, k % m]
            step[i] = total
            largest = max(largest, abs(total))
            scale = max(scale, abs(high[i]))
        relative = largest / scale
        if not relative < before / 4.0:
            return relative < 2.0**-50
        before = relative
        for i in range(size):
            total = high[i] - step[i]
            virtual = total - high[i]
            rest = (high[i] - (total - virtual)) + (-step[i] - virtual) + low[i]
            high[i] = total + rest
            virtual = high[i] - total
            low[i] = (total - (high[i] - virtual)) + (rest - virtual)
        if relative > 1e6:
            return False


@lean
def bound_moves(inverse: Array, parts: Array, centre: Array, moves: Array) -> float:
    """Upper bounds of |Y F(x)| into ``moves``; returns the radius of a box with room around them.

    ``parts`` (3, r) is F(x) as (hi, lo, error).
    """
    size = moves.size
    rounding = (size + 3.0) * UNIT
    widest = 0.0
    for i in range(size):
        # The product with the high part cancels, so it is formed; the rest is bounded.
        total, loose = 0.0, 0.0
        for k in range(size):
            total += inverse[i, k] * parts[0, k]
            loose += abs(inverse[i, k]) * (
                rounding * abs(parts[0, k]) + abs(parts[1, k]) + parts[2, k]
            )
        moves[i] = (abs(total) + loose) * SLACK + FLOOR
        # Written so that a NaN comes through.
        if not widest >= 2.0**10 * moves[i]:
            widest = 2.0**10 * moves[i]
    for i in range(size):
        if widest < 2.0**-70 * abs(centre[i]):
            widest = 2.0**-70 * abs(centre[i])
    return widest


@lean
def inflate(inverse: Array, slopes: Array, widest: float, radius: Array, room: Array) -> bool:
    """Find radii of at most ``widest`` that pass the Krawczyk test; ``radius`` starts as the moves.

    |I - Y J| is formed from the midpoint of J; its rounding, at most (r + 3) u (|Y| |J| + I), and the
    radius of J are added. ``room`` is (r + 3, r).
    """
    size = radius.size
    rounding = (size + 3.0) * UNIT
    moves, inner, image, defect = room[size], room[size + 1], room[size + 2], room
    for i in range(size):
        moves[i] = radius[i]
        for j in range(size):
            defect[i, j] = 0.0
        for k in range(size):
            y = inverse[i, k]
            for j in range(size):
                defect[i, j] += y * slopes[0, k, j]
        for j in range(size):
            defect[i, j] = abs(defect[i, j] - (1.0 if i == j else 0.0))
    for i in range(size):
        radius[i] = widest
    for _ in range(6):
        for k in range(size):
            total = 0.0
            for j in range(size):
                total += (slopes[1, k, j] + rounding * abs(slopes[0, k, j])) * radius[j]
            inner[k] = total
        inside = True
        for i in range(size):
            total = moves[i] + rounding * radius[i]
            for j in range(size):
                total += defect[i, j] * radius[j] + abs(inverse[i, j]) * inner[j]
            image[i] = total * SLACK + FLOOR
            # A NaN is not inside.
            inside = inside and image[i] < radius[i]
        if inside:
            return True
        # Uneven weights: look for an uneven box inside the one the slopes were enclosed over.
        for i in range(size):
            radius[i] = min(1.5 * image[i], widest)
    return False
