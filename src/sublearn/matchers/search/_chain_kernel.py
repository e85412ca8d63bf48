"""Outputs and derivatives of a linear chain with one block of weights projected out: the loops.

The learnable weights are split in two: ``inner`` ones in which the outputs are affine, solved for by
least squares at every point (variable projection), and the others, on which the dogleg moves. There
may be no inner ones, and there may be more unknowns than equations: steps are then the shortest.
Without inner ones the numbers may also be complex: so are the weights and the room.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sublearn._arrays import Array, Floats, Indices, zeros
from sublearn._compile import inlined, serves
from sublearn.matchers.search import _dogleg
from sublearn.matchers.search._dogleg import Work, factor, norm, project, reflect, solve
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


class SplitChain(NamedTuple):
    """A linear network as flat arrays: its table, its numbers, and the two kinds of unknowns."""

    table: Indices
    weights: Floats  # all of them; the learnable ones are written where they are used
    inputs: Array  # (all block rows, m)
    targets: Floats  # (d, m)
    inner: Indices  # (uses, 5): which unknown, kind of use, step, row, column
    outer: Indices
    inner_at: Indices  # (p,): positions among the weights
    outer_at: Indices  # (u,)


class ChainRoom(NamedTuple):
    """What a run leaves behind, and room for the steps."""

    entering: Floats  # (steps, widest, m)
    leaving: Floats  # (steps, d, widest): derivative of the outputs by what leaves the step
    behind: Floats  # (steps, d, widest): by what enters it
    state: Floats  # (widest, m)
    columns: Floats  # (u, d m): derivatives by the outer unknowns
    spare: Floats  # (1, d m)


class Shortest(NamedTuple):
    """Room for the shortest step."""

    A: Array  # (d m - p, u + 1)
    place: Indices  # (d m - p,)
    tau: Array  # (d m,)
    line: Array  # (1, u)


def chain_room(chain: SplitChain) -> ChainRoom:
    (d, m), steps, u = chain.targets.shape, len(chain.table), chain.outer_at.size
    widest = int(chain.table[:, [ROWS, COLUMNS]].max())
    shapes = (steps, widest, m), (steps, d, widest), (steps, d, widest), (widest, m)
    return ChainRoom(*zeros(*shapes, (u, d * m), (1, d * m), dtype=chain.weights.dtype))


@inlined
def run(chain: SplitChain, room: ChainRoom, residual: Floats) -> None:
    """Run the chain; residual (1, d m) <- outputs - targets."""
    m = chain.targets.shape[1]
    state, weights = room.state, chain.weights
    for i in range(state.shape[0]):
        for s in range(m):
            state[i, s] = 0.0
    for p in range(chain.table.shape[0]):
        at, rows, columns = chain.table[p, WEIGHT], chain.table[p, ROWS], chain.table[p, COLUMNS]
        block, size = chain.table[p, BLOCK], chain.table[p, BLOCK_ROWS]
        encoder, bias = chain.table[p, ENCODER], chain.table[p, BIAS]
        here = room.entering[p]
        for i in range(columns):
            for s in range(m):
                here[i, s] = state[i, s]
            if block >= 0 and encoder < 0:
                for s in range(m):
                    here[i, s] += chain.inputs[block + i, s]
            elif block >= 0:
                for j in range(size):
                    value = weights[encoder + i * size + j]
                    for s in range(m):
                        here[i, s] += value * chain.inputs[block + j, s]
        for i in range(rows):
            for s in range(m):
                state[i, s] = weights[bias + i] if bias >= 0 else 0.0
            for j in range(columns):
                value = weights[at + i * columns + j]
                for s in range(m):
                    state[i, s] += value * here[j, s]
    for o in range(chain.targets.shape[0]):
        for s in range(m):
            residual[0, o * m + s] = state[o, s] - chain.targets[o, s]


@inlined
def run_back(chain: SplitChain, room: ChainRoom) -> None:
    """The derivatives of the outputs by every state."""
    d, weights = chain.targets.shape[0], chain.weights
    last = chain.table.shape[0] - 1
    for p in range(last, -1, -1):
        at, rows, columns = chain.table[p, WEIGHT], chain.table[p, ROWS], chain.table[p, COLUMNS]
        for o in range(d):
            for i in range(rows):
                if p == last:
                    room.leaving[p, o, i] = 1.0 if i == o else 0.0
                else:
                    room.leaving[p, o, i] = room.behind[p + 1, o, i]
            for j in range(columns):
                room.behind[p, o, j] = 0.0
            for i in range(rows):
                value = room.leaving[p, o, i]
                for j in range(columns):
                    room.behind[p, o, j] += value * weights[at + i * columns + j]


@inlined
def derivatives(chain: SplitChain, room: ChainRoom, uses: Indices, out: Floats) -> None:
    """out[e] (d m,) <- derivative of the outputs by unknown e, summed over its uses."""
    d, m = chain.targets.shape
    for e in range(out.shape[0]):
        for s in range(d * m):
            out[e, s] = 0.0
    for q in range(uses.shape[0]):
        e, kind, p, i, j = uses[q, 0], uses[q, 1], uses[q, 2], uses[q, 3], uses[q, 4]
        for o in range(d):
            if kind == AS_WEIGHT:
                value = room.leaving[p, o, i]
                for s in range(m):
                    out[e, o * m + s] += value * room.entering[p, j, s]
            elif kind == AS_ENCODER:
                value = room.behind[p, o, i]
                for s in range(m):
                    out[e, o * m + s] += value * chain.inputs[chain.table[p, BLOCK] + j, s]
            else:
                value = room.leaving[p, o, i]
                for s in range(m):
                    out[e, o * m + s] += value


@inlined
def jacobian(
    chain: SplitChain, outer: Floats, room: ChainRoom, residual: Floats, out: Floats
) -> None:
    """out (u, d m) <- derivatives by the outer unknowns at ``outer``; residual (1, d m) as well."""
    for e in range(outer.size):
        chain.weights[chain.outer_at[e]] = outer[e]
    run(chain, room, residual)
    run_back(chain, room)
    derivatives(chain, room, chain.outer, out)


class ChainPoint(NamedTuple):
    """All that is known at one value of the outer weights."""

    x: Array  # (1, u): the outer weights
    values: Array  # (p,): the inner ones
    outside: Array  # (1, d m): residual in the coordinates of the QR of the inner columns
    Q: Array  # (p, d m)
    tau: Array  # (p,)


def chain_work(chain: SplitChain) -> Work:
    """The chain made ready for the search."""
    p, u, size = chain.inner_at.size, chain.outer_at.size, chain.targets.size
    (A,), place = zeros((size - p, u + 1)), np.zeros(size - p, np.int64)
    solver = Shortest(A, place, *zeros(size, (1, u)))
    here, there = (ChainPoint(*zeros((1, u), p, (1, size), (p, size), p)) for _ in range(2))
    return Work(chain, solver, here, there, chain_room(chain), np.zeros((3, u)))


@serves(_dogleg.evaluate, SplitChain)
@inlined
def evaluate(chain: SplitChain, point: ChainPoint, room: ChainRoom) -> float:
    """See :func:`_dogleg.evaluate`."""
    inner, v, weights = point.values, point.outside, chain.weights
    p = inner.size
    zero = p * 0  # not a literal, for which the compiler would make a second copy
    for e in range(p):
        weights[chain.inner_at[e]] = 0.0
    for e in range(chain.outer_at.size):
        weights[chain.outer_at[e]] = point.x[0, e]
    run(chain, room, v)
    if p:
        run_back(chain, room)
        derivatives(chain, room, chain.inner, point.Q)
    project(point.Q, point.tau, p, v, zero, inner, zero)
    for e in range(p):
        inner[e] = -inner[e]
    cost = 0.0
    for q in range(p, v.shape[1]):
        cost += v[0, q] * v[0, q]
    return cost


@serves(_dogleg.newton_step, Shortest)
@inlined
def newton_step(
    solver: Shortest, chain: SplitChain, point: ChainPoint, room: ChainRoom, step: Array
) -> bool:
    """See :func:`_dogleg.newton_step`: the shortest step, below the first p coordinates of the QR."""
    columns, p = room.columns, point.values.size
    for e in range(p):
        chain.weights[chain.inner_at[e]] = point.values[e]
    jacobian(chain, point.x[0], room, room.spare, columns)
    for e in range(columns.shape[0]):
        for f in range(p):
            reflect(point.Q, point.tau, f, columns, e)
    return shortest(solver, columns, point.outside, p, step)


@inlined
def shortest(solver: Shortest, columns: Array, outside: Array, p: int, step: Array) -> bool:
    """step <- the shortest solution of J step = -residual, below the first p coordinates."""
    A, tau, x = solver.A, solver.tau, solver.line
    u, size = columns.shape
    q = size - p
    for i in range(q):
        for e in range(u):
            A[i, e] = columns[e, p + i]
    if u == q:
        for i in range(q):
            A[i, u] = -outside[0, p + i]
        return solve(A, solver.place, step)
    # J' = Q R, so J = R' Q': forward substitution, then Q. Columns of J' are the rows of A.
    factor(A[:, :u], tau, q)
    zero = q * 0
    for e in range(u):
        x[0, e] = 0.0
    for i in range(q):
        total = -outside[0, p + i]
        for f in range(i):
            total -= A[i, f] * x[0, f]
        if A[i, i] == 0.0:
            return False
        x[0, i] = total / A[i, i]
    for f in range(q - 1, -1, -1):
        reflect(A[:, :u], tau, f, x, zero)
    for e in range(u):
        step[e] = x[0, e]
    return True


@serves(_dogleg.descent, SplitChain)
@inlined
def descent(chain: SplitChain, point: ChainPoint, room: ChainRoom, gradient: Array) -> float:
    """See :func:`_dogleg.descent`."""
    columns, outside, spare, p = room.columns, point.outside, room.spare, point.values.size
    u, size = columns.shape
    for i in range(size):
        spare[0, i] = 0.0
    for e in range(u):
        total = 0.0
        for i in range(p, size):
            total += columns[e, i] * outside[0, i]
        gradient[e] = total
        for i in range(p, size):
            spare[0, i] += total * columns[e, i]
    return norm(spare[0]) ** 2
