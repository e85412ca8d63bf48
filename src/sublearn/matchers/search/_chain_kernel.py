"""Outputs and derivatives of a linear chain with one block of weights projected out: the loops.

The learnable weights are split in two: ``inner`` ones in which the outputs are affine, solved for by
least squares at every point (variable projection), and the others, on which the dogleg moves. There
may be no inner ones, and there may be more unknowns than equations: steps are then the shortest.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sublearn._arrays import Array, Indices
from sublearn._compile import fast
from sublearn.matchers.search._dogleg import dogleg, factor, norm, reflect, solve


class Chain(NamedTuple):
    """A linear network as flat arrays. Row p of ``steps`` says what step p does.

    Columns: where its weight begins in the buffer, its rows, its columns; where its block begins in
    the inputs (-1: none), the block's size; where the encoder begins (-1: none); where the bias begins
    (-1: none).
    """

    steps: Indices  # (steps, 7)
    inputs: Array  # (all block rows, m)
    targets: Array  # (d, m)
    inner: Indices  # (uses, 5): which unknown, kind of use, step, row, column
    outer: Indices
    inner_at: Indices  # (p,): positions in the buffer
    outer_at: Indices  # (u,)


# Kinds of use of a learnable weight.
WEIGHT, ENCODER, BIAS = 0, 1, 2


class Trace(NamedTuple):
    """What a run leaves behind."""

    entering: Array  # (steps, widest, m)
    leaving: Array  # (steps, d, widest): derivative of the outputs by what leaves the step
    behind: Array  # (steps, d, widest): by what enters it
    state: Array  # (widest, m)


@fast
def new_trace(chain: Chain, widest: int) -> Trace:
    d, m = chain.targets.shape
    steps = chain.steps.shape[0]
    return Trace(
        np.zeros((steps, widest, m)),
        np.zeros((steps, d, widest)),
        np.zeros((steps, d, widest)),
        np.zeros((widest, m)),
    )


@fast
def run(chain: Chain, weights: Array, trace: Trace, residual: Array) -> None:
    """Run the chain; residual (1, d m) <- outputs - targets."""
    m = chain.targets.shape[1]
    state = trace.state
    for i in range(state.shape[0]):
        for s in range(m):
            state[i, s] = 0.0
    for p in range(chain.steps.shape[0]):
        at, rows, columns = chain.steps[p, 0], chain.steps[p, 1], chain.steps[p, 2]
        block, size = chain.steps[p, 3], chain.steps[p, 4]
        encoder, bias = chain.steps[p, 5], chain.steps[p, 6]
        here = trace.entering[p]
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


@fast
def run_back(chain: Chain, weights: Array, trace: Trace) -> None:
    """The derivatives of the outputs by every state."""
    d = chain.targets.shape[0]
    last = chain.steps.shape[0] - 1
    for p in range(last, -1, -1):
        at, rows, columns = chain.steps[p, 0], chain.steps[p, 1], chain.steps[p, 2]
        for o in range(d):
            for i in range(rows):
                if p == last:
                    trace.leaving[p, o, i] = 1.0 if i == o else 0.0
                else:
                    trace.leaving[p, o, i] = trace.behind[p + 1, o, i]
            for j in range(columns):
                trace.behind[p, o, j] = 0.0
            for i in range(rows):
                value = trace.leaving[p, o, i]
                for j in range(columns):
                    trace.behind[p, o, j] += value * weights[at + i * columns + j]


@fast
def derivatives(chain: Chain, trace: Trace, uses: Indices, out: Array) -> None:
    """out[e] (d m,) <- derivative of the outputs by unknown e, summed over its uses."""
    d, m = chain.targets.shape
    for e in range(out.shape[0]):
        for s in range(d * m):
            out[e, s] = 0.0
    for q in range(uses.shape[0]):
        e, kind, p, i, j = uses[q, 0], uses[q, 1], uses[q, 2], uses[q, 3], uses[q, 4]
        for o in range(d):
            if kind == WEIGHT:
                value = trace.leaving[p, o, i]
                for s in range(m):
                    out[e, o * m + s] += value * trace.entering[p, j, s]
            elif kind == ENCODER:
                value = trace.behind[p, o, i]
                for s in range(m):
                    out[e, o * m + s] += value * chain.inputs[chain.steps[p, 3] + j, s]
            else:
                value = trace.leaving[p, o, i]
                for s in range(m):
                    out[e, o * m + s] += value


@fast
def jacobian(
    chain: Chain, weights: Array, outer: Array, trace: Trace, residual: Array, out: Array
) -> None:
    """out (u, d m) <- derivatives by the outer weights, at ``outer``; residual (1, d m) as well."""
    for e in range(outer.size):
        weights[chain.outer_at[e]] = outer[e]
    run(chain, weights, trace, residual)
    run_back(chain, weights, trace)
    derivatives(chain, trace, chain.outer, out)


class Point(NamedTuple):
    """All that is known at one value of the outer weights."""

    outer: Array  # (u,)
    inner: Array  # (p,)
    outside: Array  # (1, d m): residual in the coordinates of the QR of the inner columns
    Q: Array  # (p, d m)
    tau: Array  # (p,)
    weights: Array  # the whole buffer


@fast
def new_point(chain: Chain, weights: Array) -> Point:
    p, u, size = chain.inner_at.size, chain.outer_at.size, chain.targets.size
    return Point(
        np.zeros(u),
        np.zeros(p),
        np.zeros((1, size)),
        np.zeros((p, size)),
        np.zeros(p),
        weights.copy(),
    )


@fast
def evaluate(chain: Chain, point: Point, trace: Trace) -> float:
    """Fill ``point`` from its outer weights; returns the cost, the residual's squared length."""
    inner, outer, v = point.inner, point.outer, point.outside
    p = inner.size
    zero = p * 0  # not a literal, for which the compiler would make a second copy
    for e in range(outer.size):
        point.weights[chain.outer_at[e]] = outer[e]
    for e in range(p):
        point.weights[chain.inner_at[e]] = 0.0
    run(chain, point.weights, trace, v)
    if p:
        run_back(chain, point.weights, trace)
        derivatives(chain, trace, chain.inner, point.Q)
        factor(point.Q, point.tau, p)
        for e in range(p):
            reflect(point.Q, point.tau, e, v, zero)
        for e in range(p - 1, -1, -1):
            total = -v[0, e]
            for f in range(e + 1, p):
                total -= point.Q[f, e] * inner[f]
            inner[e] = total / point.Q[e, e] if point.Q[e, e] != 0.0 else 0.0
            point.weights[chain.inner_at[e]] = inner[e]
            v[0, e] = 0.0
    cost = 0.0
    for q in range(p, v.shape[1]):
        cost += v[0, q] * v[0, q]
    return cost


@fast
def linearise(chain: Chain, point: Point, trace: Trace, spare: Array, columns: Array) -> None:
    """columns (u, d m): the outer columns of the Jacobian in the coordinates of the QR."""
    run(chain, point.weights, trace, spare)
    run_back(chain, point.weights, trace)
    derivatives(chain, trace, chain.outer, columns)
    for e in range(columns.shape[0]):
        for f in range(point.inner.size):
            reflect(point.Q, point.tau, f, columns, e)


@fast
def newton_step(
    columns: Array, outside: Array, p: int, A: Array, tau: Array, x: Array, step: Array
) -> bool:
    """step <- the shortest solution of J step = -residual, below the first p coordinates."""
    u, size = columns.shape
    q = size - p
    for i in range(q):
        for e in range(u):
            A[i, e] = columns[e, p + i]
    if u == q:
        for i in range(q):
            step[i] = -outside[0, p + i]
        return solve(A, step) > 0.0
    # J' = Q R, so J = R' Q': forward substitution, then Q. Columns of J' are the rows of A.
    factor(A, tau, q)
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
        reflect(A, tau, f, x, zero)
    for e in range(u):
        step[e] = x[0, e]
    return True


@fast
def descent(columns: Array, outside: Array, p: int, spare: Array, gradient: Array) -> float:
    """gradient <- J' residual, and |J gradient|^2."""
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


@fast
def search_block(
    chain: Chain,
    weights: Array,
    widest: int,
    starts: Array,
    limit: int,
    goal: float,
    inner: Array,
    outer: Array,
) -> tuple[int, int]:
    """Dogleg from each start in turn until the cost is below the goal: (starts, iterations) it took.

    A start is given up after ``limit`` iterations, or when ten of them have not taken a tenth off the
    cost. Starts is negative if none was solved.
    """
    d, m = chain.targets.shape
    p, u = chain.inner_at.size, chain.outer_at.size
    here, there = new_point(chain, weights), new_point(chain, weights)
    trace = new_trace(chain, widest)
    columns, spare = np.zeros((u, d * m)), np.zeros((1, d * m))
    A, tau, x = np.zeros((d * m - p, u)), np.zeros(d * m), np.zeros((1, u))
    gradient, newton, step = np.zeros(u), np.zeros(u), np.zeros(u)
    iterations = 0
    for start in range(starts.shape[0]):
        for e in range(u):
            there.outer[e] = starts[start, e]
        cost = mark = reach = curvature = 1.0
        predicted = radius = 0.0
        fresh = False
        for count in range(limit + 1):
            new = evaluate(chain, there, trace)
            gain = (cost - new) / predicted if predicted > 0.0 else -1.0
            if count == 0:
                cost, mark, fresh = new, new, True
                here, there = there, here
                radius = max(norm(here.outer), 1e-3)
            elif not gain >= 0.1:  # also when the states blew up
                radius = 0.3 * reach
            elif gain > 0.75:
                radius = max(radius, 2.5 * reach)
            if count and gain > 1e-4:
                cost, fresh = new, True
                here, there = there, here
            elif radius < 1e-9 * (1e-3 + norm(here.outer)):
                break
            if cost < goal or count == limit:
                break
            if count and count % 10 == 0:
                if cost > 0.9 * mark:
                    break
                mark = cost
            iterations += 1
            if fresh:
                linearise(chain, here, trace, spare, columns)
                if not newton_step(columns, here.outside, p, A, tau, x, newton):
                    break
                if not norm(newton) < np.inf:
                    break
                curvature = descent(columns, here.outside, p, spare, gradient)
                fresh = False
            reach, predicted = dogleg(newton, gradient, curvature, cost, radius, step)
            for e in range(u):
                there.outer[e] = here.outer[e] + step[e]
        if cost < goal:
            for e in range(p):
                inner[e] = here.inner[e]
            for e in range(u):
                outer[e] = here.outer[e]
            return start + 1, iterations
    return -starts.shape[0], iterations
