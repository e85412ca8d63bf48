"""One repeat of a simulation as machine code: the chain forward and back, and the cycle around it.

All weights are one vector; a step of the chain is a row of a table of whole numbers that says where
its matrices begin. So one kernel serves every network, in single or double precision.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import intrinsic, overload
from numba.np import linalg

from sublearn._arrays import Array, Floats, Indices
from sublearn._compile import compiled, fma, inlined, lean
from sublearn.networks.packed import (
    ACTIVATION,
    ADDS,
    ASIDE,
    BIAS,
    BLOCK,
    BLOCK_ROWS,
    COLUMNS,
    DRIVE,
    ENCODER,
    LEAK,
    LINEAR,
    ROWS,
    WEIGHT,
)
from sublearn.noise._simulate_activations import activate
from sublearn.noise._simulate_random import Stream, fill_normals


@inlined
def _product(a: Floats, b: Floats) -> Any:
    """a . b, in eight sums side by side: one after the other would wait for every addition."""
    zero = a.dtype.type(0)
    s0, s1, s2, s3, s4, s5, s6, s7 = zero, zero, zero, zero, zero, zero, zero, zero
    whole = a.size // 8 * 8
    for k in range(0, whole, 8):
        s0 = fma(a[k], b[k], s0)
        s1 = fma(a[k + 1], b[k + 1], s1)
        s2 = fma(a[k + 2], b[k + 2], s2)
        s3 = fma(a[k + 3], b[k + 3], s3)
        s4 = fma(a[k + 4], b[k + 4], s4)
        s5 = fma(a[k + 5], b[k + 5], s5)
        s6 = fma(a[k + 6], b[k + 6], s6)
        s7 = fma(a[k + 7], b[k + 7], s7)
    rest = zero
    for k in range(whole, a.size):
        rest = fma(a[k], b[k], rest)
    return ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7)) + rest


def _dot(left: Floats, right: Floats, out: Floats) -> None:
    """out = left right. np.dot returns ``out``, which numba refuses where references are not counted."""
    np.dot(left, right, out)


def _multiplied(context: Any, left: Any, right: Any, out: Any) -> Any:
    def code(context: Any, builder: Any, _: Any, values: Any) -> Any:
        blas: Any = linalg
        blas.ensure_blas()
        blas.dot_3_mm(context, builder, out(left, right, out), values)
        return context.get_dummy_value()

    return types.none(left, right, out), code


_by_blas: Any = intrinsic(_multiplied)
overload(_dot)(lambda left, right, out: lambda left, right, out: _by_blas(left, right, out))


@lean
def _add_product(left: Floats, right: Floats, out: Floats, room: Floats) -> None:
    """out += left right, by way of ``room``."""
    product = room[: out.size].reshape(out.shape)
    _dot(left, right, product)
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] += product[i, j]


@lean
def _forward(
    table: Indices, w: Floats, x: Floats, states: Floats, slopes: Floats, scratch: Floats
) -> int:
    """Run the chain. ``states`` holds what enters each step, one after the other, then the outputs.

    Steps aside share what enters them with the step behind. Returns where the outputs begin.
    """
    m = x.shape[1]
    leaks = table.view(np.float64)
    here, before, end, read = 0, 0, 0, 0
    for t in range(table.shape[0]):
        end += 0 if table[t, ASIDE] == 1 else table[t, COLUMNS] * m
    for t in range(table.shape[0]):
        rows, columns, block = table[t, ROWS], table[t, COLUMNS], table[t, BLOCK]
        entering = states[here : here + columns * m]
        if t == 0 and block < 0:
            entering[:] = entering.dtype.type(1)
        if block >= 0 and table[t, DRIVE] < 0:
            if table[t, ENCODER] >= 0:
                inner = table[t, BLOCK_ROWS]
                place = table[t, ENCODER]
                encoder = w[place : place + columns * inner].reshape(columns, inner)
                added = scratch[0, : columns * m]
                _dot(encoder, x[block : block + inner], added.reshape(columns, m))
            else:
                added = x[block : block + columns].reshape(columns * m)
            for k in range(entering.size):
                entering[k] = added[k] if t == 0 else entering[k] + added[k]
        following = here + columns * m
        if table[t, ASIDE] == 1:
            following = end + read
            read += rows * m
        elif t == table.shape[0] - 1:
            following = end + read
        leaving = states[following : following + rows * m].reshape(rows, m)
        place = table[t, WEIGHT]
        weight = w[place : place + rows * columns].reshape(rows, columns)
        _dot(weight, entering.reshape(columns, m), leaving)
        if table[t, BIAS] >= 0:
            place = table[t, BIAS]
            for i in range(rows):
                shift = w[place + i]
                for s in range(m):
                    leaving[i, s] += shift
        if table[t, DRIVE] >= 0:
            inner = table[t, BLOCK_ROWS]
            place = table[t, DRIVE]
            drive = w[place : place + rows * inner].reshape(rows, inner)
            _add_product(drive, x[block : block + inner], leaving, scratch[0])
        code = table[t, ACTIVATION]
        if code != LINEAR:
            activate(
                code,
                states[following : following + rows * m],
                slopes[before : before + rows * m],
            )
        if leaks[t, LEAK] != 1.0:
            leak, kept = w.dtype.type(leaks[t, LEAK]), w.dtype.type(1.0 - leaks[t, LEAK])
            for k in range(rows * m):
                states[following + k] *= leak
                if t > 0:
                    states[following + k] += kept * entering[k]
        before += rows * m
        if table[t, ASIDE] == 0:
            here = following
    return end


@lean
def _backward(
    table: Indices, w: Floats, x: Floats, states: Floats, slopes: Floats, scratch: Floats, g: Floats
) -> None:
    """Gradient into ``g``; the derivative by the outputs stands at the end of ``states``.

    ADDS says whether a weight's gradient is written (0), added to (1) or not wanted (2).
    """
    m = x.shape[1]
    leaks = table.view(np.float64)
    last = table.shape[0] - 1
    here, before, read = 0, 0, 0
    for t in range(last + 1):
        if table[t, ASIDE] == 1:
            read += table[t, ROWS] * m
        else:
            here += table[t, COLUMNS] * m
        before += table[t, ROWS] * m
    end = here
    adjoint = states[end + read : end + read + table[last, ROWS] * m]
    spare, room = scratch[2], scratch[3]
    ones = scratch[4, :m].reshape(m, 1)
    flip = 0
    for t in range(last, -1, -1):
        rows, columns, block = table[t, ROWS], table[t, COLUMNS], table[t, BLOCK]
        aside = table[t, ASIDE] == 1
        before -= rows * m
        passing = adjoint
        leak = leaks[t, LEAK]
        if aside:
            read -= rows * m
            adjoint = states[end + read : end + read + rows * m]
        else:
            here -= columns * m
        if leak != 1.0:
            for k in range(rows * m):
                spare[k] = g.dtype.type(1.0 - leak) * adjoint[k]
                adjoint[k] *= g.dtype.type(leak)
        if table[t, ACTIVATION] != LINEAR:
            slope = slopes[before : before + rows * m]
            for k in range(rows * m):
                adjoint[k] *= slope[k]
        leaving = adjoint.reshape(rows, m)
        entering = states[here : here + columns * m].reshape(columns, m)
        place = table[t, WEIGHT]
        target = g[place : place + rows * columns].reshape(rows, columns)
        if table[t, ADDS] == 0:
            _dot(leaving, entering.T, target)
        elif table[t, ADDS] == 1:
            _add_product(leaving, entering.T, target, room)
        if table[t, BIAS] >= 0:
            place_b = table[t, BIAS]
            _add_product(leaving, ones, g[place_b : place_b + rows].reshape(rows, 1), room)
        if table[t, DRIVE] >= 0:
            inner = table[t, BLOCK_ROWS]
            place_d = table[t, DRIVE]
            driven = g[place_d : place_d + rows * inner].reshape(rows, inner)
            _add_product(leaving, x[block : block + inner].T, driven, room)
        if t == 0 and table[t, ENCODER] < 0:
            break
        weight = w[place : place + rows * columns].reshape(rows, columns)
        following = scratch[flip, : columns * m]
        _dot(weight.T, leaving, following.reshape(columns, m))
        if aside:
            for k in range(columns * m):
                following[k] += passing[k]
        elif leak != 1.0:
            for k in range(columns * m):
                following[k] += spare[k]
        adjoint = following
        flip = 1 - flip
        if table[t, ENCODER] >= 0:
            inner = table[t, BLOCK_ROWS]
            place = table[t, ENCODER]
            target = g[place : place + columns * inner].reshape(columns, inner)
            _add_product(following.reshape(columns, m), x[block : block + inner].T, target, room)


@inlined
def _length(v: Floats, bounds: Indices, summed: bool) -> float:
    """|v|: the L2 norm, or the sum of the L2 norms of the parts between ``bounds``."""
    squares, lengths = 0.0, 0.0
    for group in range(bounds.size - 1):
        part = v[bounds[group] : bounds[group + 1]]
        total = _product(part, part)
        squares += total
        lengths += math.sqrt(total)
    return lengths if summed else math.sqrt(squares)


@inlined
def _add(w: Floats, index: Indices, factor: float, v: Floats) -> None:
    """w[index] += factor v; an empty index stands for all weights."""
    if index.size == 0:
        for k in range(w.size):
            w[k] = fma(factor, v[k], w[k])
    else:
        for k in range(index.size):
            w[index[k]] += factor * v[k]


class Chain(NamedTuple):
    """The packed table of a chain, and all weights as one vector."""

    table: Indices
    weights: Floats


class Part(NamedTuple):
    """Some weights: their places, none where they are all, and where the layers begin among them."""

    places: Indices
    bounds: Indices


class Samples(NamedTuple):
    """Inputs, targets, and the factor of the sum of squared differences in F."""

    inputs: Floats
    targets: Floats
    scale: float


class Learned(NamedTuple):
    """What is learned: samples, drawn and computed anew in every cycle where the teacher has a table."""

    data: Samples
    teacher: Chain


class Levels(NamedTuple):
    """The noise of a cycle; ``summed``: lengths are sums over layers."""

    gamma: Array
    T: float
    mixing: float
    summed: bool


WHITE, DOWNHILL, TO_NORM = range(3)
"""What n2 is: a random direction, down another task's loss, or towards a norm of every row."""


class Irrelevant(NamedTuple):
    """What n2 is; the samples of another task, and its errors cycle by cycle; rows and their norms."""

    kind: int
    data: Samples
    errors: Array
    rows: Indices  # (rows, 2): where each begins and ends
    norms: Array


@lean
def _off_norm(w: Floats, rows: Indices, norms: Array, g: Floats) -> None:
    """g = the gradient of 1/2 sum (|row| - norm)^2; a row of zeros has no direction."""
    for k in range(norms.size):
        begin, end = rows[k]
        total = 0.0
        for i in range(begin, end):
            total += w[i] * w[i]
        factor = w.dtype.type(1.0 - norms[k] / math.sqrt(total)) if total > 0.0 else w.dtype.type(0)
        for i in range(begin, end):
            g[i] = factor * w[i]


@inlined
def _misses(ends: Floats, targets: Floats) -> float:
    """Outputs become their differences to the targets; returns the sum of their squares."""
    total = 0.0
    for k in range(targets.size):
        ends[k] -= targets[k]
        total += ends[k] * ends[k]
    return total


@inlined
def _gather(g: Floats, places: Indices, out: Floats) -> None:
    """out = g at these places; none stands for all."""
    for k in range(out.size):
        out[k] = g[k] if places.size == 0 else g[places[k]]


@compiled
def run_repeat(
    student: Chain,
    plastic_part: Part,
    noisy_part: Part,
    learned: Learned,
    streams: Stream,
    levels: Levels,
    irrelevant: Irrelevant,
    errors: Array,
) -> None:
    """Run ``errors.size`` cycles; the student's weights are left at their last value.

    errors[t] = scale * sum of squared differences before the change of cycle t.
    """
    table, w = student
    plastic, plastic_bounds = plastic_part
    noisy, noisy_bounds = noisy_part
    x, y, scale = learned.data
    teacher_table, teacher_w = learned.teacher
    gamma, T, mixing, summed = levels
    dtype = w.dtype
    fresh = teacher_table.shape[0] > 0
    whole = plastic.size == 0
    r = w.size if whole else plastic.size
    other_x, other_y, other_scale = irrelevant.data
    m = max(x.shape[1], other_x.shape[1])
    room, widest = 0, 0
    for t in range(table.shape[0]):
        room += (table[t, ROWS] + table[t, COLUMNS]) * m
        widest = max(widest, max(table[t, ROWS], table[t, COLUMNS]) * m)
        widest = max(widest, table[t, ROWS] * table[t, COLUMNS])
        widest = max(widest, max(table[t, ROWS], table[t, COLUMNS]) * table[t, BLOCK_ROWS])
    teacher_room = 0
    for t in range(teacher_table.shape[0]):
        teacher_room += (teacher_table[t, ROWS] + teacher_table[t, COLUMNS]) * m
        widest = max(widest, max(teacher_table[t, ROWS], teacher_table[t, COLUMNS]) * m)
    states, slopes = np.empty(room, dtype), np.empty(room, dtype)
    teacher_states = np.empty(teacher_room, dtype)
    teacher_slopes = np.empty(teacher_room, dtype)
    # Two adjoints in turn, what passes a leaky step, a product to be added, and ones.
    scratch = np.ones((5, widest), dtype)
    g = np.zeros(w.size, dtype)
    gathered = np.empty(r, dtype)
    away = np.empty(r if irrelevant.kind != WHITE else 0, dtype)  # -n2, up to its length
    drawn = np.empty(x.size if fresh else 0, np.float32)
    mixed = np.empty(r, dtype)  # n2, up to its length
    normals = np.empty(r, np.float32)
    noise = np.empty(w.size if noisy.size == 0 else noisy.size, np.float32)
    flat_x = x.reshape(x.size)
    wanted, outputs = y.reshape(y.size), y.size
    old_length = 1.0
    if gamma[1] > 0.0 and mixing > 0.0:
        fill_normals(streams[1], normals)
        mixed[:] = normals
        old_length = _length(mixed, plastic_bounds, summed)
    for cycle in range(errors.size):
        # Before the states of the task itself, which its gradient needs, and before any change.
        if irrelevant.kind == DOWNHILL:
            at = _forward(table, w, other_x, states, slopes, scratch)
            total = _misses(states[at : at + other_y.size], other_y.reshape(other_y.size))
            irrelevant.errors[cycle] = total * other_scale
            g[:] = dtype.type(0)
            _backward(table, w, other_x, states, slopes, scratch, g)
            _gather(g, plastic, away)
        elif irrelevant.kind == TO_NORM:
            g[:] = dtype.type(0)
            _off_norm(w, irrelevant.rows, irrelevant.norms, g)
            _gather(g, plastic, away)
        if fresh:
            fill_normals(streams[0], drawn)
            for k in range(drawn.size):
                flat_x[k] = drawn[k]
            at = _forward(teacher_table, teacher_w, x, teacher_states, teacher_slopes, scratch)
            wanted = teacher_states[at : at + outputs]
        at = _forward(table, w, x, states, slopes, scratch)
        errors[cycle] = _misses(states[at : at + outputs], wanted) * scale

        if gamma[0] > 0.0:
            g[:] = dtype.type(0)
            _backward(table, w, x, states, slopes, scratch, g)
            useful = g
            if not whole:
                _gather(g, plastic, gathered)
                useful = gathered
            length = _length(useful, plastic_bounds, summed)
            if length > 0.0:
                _add(w, plastic, dtype.type(-gamma[0] * T / length), useful)
        if irrelevant.kind != WHITE:
            length = _length(away, plastic_bounds, summed)
            if length > 0.0:
                _add(w, plastic, dtype.type(-gamma[1] * T / length), away)
        elif gamma[1] > 0.0:
            fill_normals(streams[1], normals)
            length = _length(normals, plastic_bounds, summed)
            if mixing > 0.0:
                keep = dtype.type(mixing / old_length)
                add = dtype.type((1.0 - mixing) / length)
                for k in range(r):
                    mixed[k] = keep * mixed[k] + add * normals[k]
                old_length = _length(mixed, plastic_bounds, summed)
                _add(w, plastic, dtype.type(gamma[1] * T / old_length), mixed)
            else:
                _add(w, plastic, dtype.type(gamma[1] * T / length), normals)
        if gamma[2] > 0.0:
            fill_normals(streams[2], noise)
            length = _length(noise, noisy_bounds, summed)
            _add(w, noisy, dtype.type(gamma[2] * math.sqrt(noise.size * T) / length), noise)
