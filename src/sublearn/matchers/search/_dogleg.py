"""Powell's dogleg from many starts, and the small dense algebra that searches and paths share.

The search knows its system by three functions, :func:`evaluate`, :func:`newton_step` and
:func:`descent`. Each form of system, and each way to solve for the Newton step, has its own, chosen by the
type of the first argument when the loop is compiled for it; so one loop serves all, and only what is used
is compiled.

The systems of one instance have 4 to 100 unknowns: too small for a call into LAPACK to pay, so the
loops are written out, four terms at a time, which is what keeps the vector units busy.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from sublearn._arrays import Array, Floats, Indices
from sublearn._compile import inlined, lean


def evaluate(system: Any, point: Any, room: Any) -> float:
    """Fill ``point`` from its unknowns, point.x; returns the cost, the residual's squared length."""
    raise NotImplementedError("machine code only: each system says what serves it")


def newton_step(solver: Any, system: Any, point: Any, room: Any, newton: Array) -> bool:
    """newton <- the Newton step at a point that was evaluated; false if there is none."""
    raise NotImplementedError("machine code only: each system says what serves it")


def descent(system: Any, point: Any, room: Any, gradient: Array) -> float:
    """gradient <- J' residual, and |J gradient|^2, after :func:`newton_step` at the same point."""
    raise NotImplementedError("machine code only: each system says what serves it")


@inlined
def norm(v: Array) -> float:
    """The Euclidean length of a vector."""
    total = 0.0
    for e in range(v.size):
        total += v[e] * v[e]
    return math.sqrt(total)


@inlined
def add_row_product(
    x: Array, s: int, skip: int, A: Array, y: Array, t: int, shift: int, sign: float
) -> None:
    """y[t, shift:] <- y[t, shift:] + sign x[s, skip:] A, over the rows and columns that A has."""
    inner, width = A.shape
    blocks = inner // 4 * 4
    for i in range(0, blocks, 4):
        x0, x1 = sign * x[s, skip + i], sign * x[s, skip + i + 1]
        x2, x3 = sign * x[s, skip + i + 2], sign * x[s, skip + i + 3]
        for j in range(width):
            y[t, shift + j] += (x0 * A[i, j] + x1 * A[i + 1, j]) + (
                x2 * A[i + 2, j] + x3 * A[i + 3, j]
            )
    for i in range(blocks, inner):
        x0 = sign * x[s, skip + i]
        for j in range(width):
            y[t, shift + j] += x0 * A[i, j]


@inlined
def add_product(X: Array, A: Array, Y: Array, sign: float) -> None:
    """Y <- Y + sign X A, two rows at a time."""
    height, inner = X.shape
    width = A.shape[1]
    pairs, blocks = height // 2 * 2, inner // 4 * 4
    for s in range(0, pairs, 2):
        for i in range(0, blocks, 4):
            x0, x1 = sign * X[s, i], sign * X[s, i + 1]
            x2, x3 = sign * X[s, i + 2], sign * X[s, i + 3]
            y0, y1 = sign * X[s + 1, i], sign * X[s + 1, i + 1]
            y2, y3 = sign * X[s + 1, i + 2], sign * X[s + 1, i + 3]
            for j in range(width):
                a0, a1, a2, a3 = A[i, j], A[i + 1, j], A[i + 2, j], A[i + 3, j]
                Y[s, j] += (x0 * a0 + x1 * a1) + (x2 * a2 + x3 * a3)
                Y[s + 1, j] += (y0 * a0 + y1 * a1) + (y2 * a2 + y3 * a3)
        for i in range(blocks, inner):
            x0, y0 = sign * X[s, i], sign * X[s + 1, i]
            for j in range(width):
                Y[s, j] += x0 * A[i, j]
                Y[s + 1, j] += y0 * A[i, j]
    if pairs < height:
        zero = height * 0  # not a literal: see run_states
        add_row_product(X, height - 1, zero, A, Y, height - 1, zero, sign)


@inlined
def eliminate(A: Floats, place: Indices, count: int, width: int) -> bool:
    """Gaussian elimination of the first ``count`` of ``width`` columns, with row exchanges.

    The multipliers stay below the diagonal; ``place`` says which row stands where. False if a pivot is 0 or
    not finite. Four pivots are found at a time, then taken off the rest at once. Numbers may be complex.
    """
    rows = A.shape[0]
    for i in range(rows):
        place[i] = i
    for c in range(0, count, 4):
        end = min(c + 4, count)
        for p in range(c, end):
            pivot, best = p, A[p, p].real ** 2 + A[p, p].imag ** 2
            for i in range(p + 1, rows):
                size = A[i, p].real ** 2 + A[i, p].imag ** 2
                if size > best:
                    pivot, best = i, size
            if not (best > 0.0 and best < np.inf):
                return False
            if pivot != p:
                for j in range(width):
                    A[p, j], A[pivot, j] = A[pivot, j], A[p, j]
                place[p], place[pivot] = place[pivot], place[p]
            inverse = 1.0 / A[p, p]
            for i in range(p + 1, rows):
                factor = A[i, p] * inverse
                A[i, p] = factor
                for j in range(p + 1, end):
                    A[i, j] -= factor * A[p, j]
        for p in range(c + 1, end):
            for q in range(c, p):
                factor = A[p, q]
                for j in range(end, width):
                    A[p, j] -= factor * A[q, j]
        if end - c == 4:
            for i in range(end, rows):
                f0, f1, f2, f3 = A[i, c], A[i, c + 1], A[i, c + 2], A[i, c + 3]
                for j in range(end, width):
                    A[i, j] -= (f0 * A[c, j] + f1 * A[c + 1, j]) + (
                        f2 * A[c + 2, j] + f3 * A[c + 3, j]
                    )
        else:
            for i in range(end, rows):
                for p in range(c, end):
                    factor = A[i, p]
                    for j in range(end, width):
                        A[i, j] -= factor * A[p, j]
    return True


@inlined
def substitute(A: Floats, x: Floats) -> None:
    """x <- the solution of an eliminated square system whose right side is the last column of A."""
    size = x.size
    for i in range(size - 1, -1, -1):
        total = A[i, size]
        for j in range(i + 1, size):
            total -= A[i, j] * x[j]
        x[i] = total / A[i, i]


@inlined
def solve(A: Floats, place: Indices, x: Floats) -> bool:
    """x <- the solution of the square system whose right side is the last column of A, if there is one."""
    regular = eliminate(A, place, x.size, x.size + 1)
    if regular:
        substitute(A, x)
    return regular


@inlined
def solve_again(A: Floats, place: Indices, right: Floats, x: Floats) -> None:
    """x <- the solution of a system that was eliminated, for another right side."""
    size = x.size
    for i in range(size):
        total = right[place[i]]
        for j in range(i):
            total -= A[i, j] * A[j, size]
        A[i, size] = total
    substitute(A, x)


@inlined
def reflect(Q: Array, tau: Array, e: int, v: Array, s: int) -> None:
    """Apply reflector e of a QR to v[s]."""
    height = Q.shape[1]
    total = v[s, e]
    for t in range(e + 1, height):
        total += Q[e, t] * v[s, t]
    total *= tau[e]
    v[s, e] -= total
    for t in range(e + 1, height):
        v[s, t] -= total * Q[e, t]


@inlined
def factor(Q: Array, tau: Array, count: int) -> None:
    """Householder QR of the matrix whose columns are the first ``count`` ROWS of Q, in place.

    Columns lie in rows so that every loop runs along memory. Column e holds R above and on its
    diagonal, and the reflector below it.
    """
    height = Q.shape[1]
    for e in range(count):
        total = 0.0
        for t in range(e, height):
            total += Q[e, t] * Q[e, t]
        length = math.sqrt(total)
        tau[e] = 0.0
        if length == 0.0:
            continue
        head = Q[e, e]
        new = -length if head > 0 else length
        tau[e] = (new - head) / new
        inverse = 1.0 / (head - new)
        for t in range(e + 1, height):
            Q[e, t] *= inverse
        Q[e, e] = new
        for f in range(e + 1, count):
            reflect(Q, tau, e, Q, f)


@inlined
def project(Q: Array, tau: Array, count: int, v: Array, s: int, values: Array, first: int) -> None:
    """values[first:] <- the least-squares solution of A x = v[s], A the ``count`` columns in the rows of Q.

    Q is factored, and v[s] becomes what lies outside the range of A, in the coordinates of its QR.
    """
    factor(Q, tau, count)
    for e in range(count):
        reflect(Q, tau, e, v, s)
    for e in range(count - 1, -1, -1):
        total = v[s, e]
        for f in range(e + 1, count):
            total -= Q[f, e] * values[first + f]
        values[first + e] = total / Q[e, e] if Q[e, e] != 0.0 else 0.0
        v[s, e] = 0.0


@inlined
def dogleg(
    newton: Array, gradient: Array, curvature: float, cost: float, radius: float, step: Array
) -> tuple[float, float]:
    """The dogleg step of length at most ``radius``: its length and the fall of cost it predicts.

    The model is |f + J s|^2 with cost = |f|^2, gradient = J' f and curvature = |J gradient|^2; the
    path goes from 0 to the minimum along -gradient, and from there to the Newton step.
    """
    length = norm(newton)
    if length <= radius:
        for e in range(step.size):
            step[e] = newton[e]
        return length, cost
    slope = norm(gradient)
    reach = slope * slope / curvature
    if not reach * slope < radius:
        reach = radius / slope
        for e in range(step.size):
            step[e] = -reach * gradient[e]
        return radius, 2.0 * reach * slope * slope - reach * reach * curvature
    square, mixed = 0.0, 0.0
    for e in range(step.size):
        leg = newton[e] + reach * gradient[e]
        square += leg * leg
        mixed -= reach * gradient[e] * leg
    gap = (reach * slope) ** 2 - radius * radius
    part = (-mixed + math.sqrt(max(mixed * mixed - square * gap, 0.0))) / square
    for e in range(step.size):
        step[e] = part * newton[e] - (1.0 - part) * reach * gradient[e]
    corner = cost - 2.0 * reach * slope * slope + reach * reach * curvature
    return radius, cost - (1.0 - part) ** 2 * corner


# (walk, kick, least, slow): see :func:`search_block`.
Rules = tuple[int, float, float, float]


class Work(NamedTuple):
    """A system made ready: how its Newton step is solved for, two points, and room for its loops."""

    system: Any
    solver: Any
    here: Any
    there: Any
    room: Any
    spare: Array  # (3, unknowns)


@lean
def search_block(
    work: Work,
    noise: Array,
    rules: Rules,
    limit: int,
    goal: float,
    values: Array,
    unknowns: Array,
) -> tuple[int, int]:
    """Dogleg from one start after the other until the cost is below the goal: (starts, iterations).

    Each row of ``noise`` is a start. ``rules`` are (walk, kick, least, slow). The first of every
    ``walk`` rows is taken as it stands; the others are added, ``kick`` times as large as the unknowns,
    to where the start before them got stuck: in many unknowns it is far better to shake a point that is
    nearly a root than to begin anew. The first radius is at least ``least``. A start is given up after
    ``limit`` iterations, or when ten of them have not brought the cost down to ``slow`` of itself.
    Starts is negative if none was solved; else ``values`` and ``unknowns`` are those of the root.
    """
    system, solver, room = work.system, work.solver, work.room
    here, there = work.here, work.there
    walk, kick, least, slow = rules
    size = noise.shape[1]
    gradient, newton, step = work.spare[0], work.spare[1], work.spare[2]
    iterations = 0
    for start in range(noise.shape[0]):
        shake = kick * norm(here.x[0]) / np.sqrt(size)
        fresh_start = start % walk == 0 or not shake < np.inf
        for e in range(size):
            shaken = here.x[0, e] + shake * noise[start, e]
            there.x[0, e] = noise[start, e] if fresh_start else shaken
        cost = mark = reach = curvature = 1.0
        predicted = radius = length = 0.0
        fresh = sloped = False
        for count in range(limit + 1):
            new = evaluate(system, there, room)
            gain = (cost - new) / predicted if predicted > 0.0 else -1.0
            if count == 0:
                cost, mark, fresh = new, new, True
                here, there = there, here
                radius = max(norm(here.x[0]), least)
            elif not gain >= 0.1:  # also when the states blew up
                radius = 0.3 * reach
            elif gain > 0.75:
                radius = max(radius, 2.5 * reach)
            if count and gain > 1e-4:
                cost, fresh = new, True
                here, there = there, here
            elif radius < 1e-9 * (1e-3 + norm(here.x[0])):
                break
            if cost < goal or count == limit:
                break
            if count and count % 10 == 0:
                if cost > slow * mark:
                    break
                mark = cost
            iterations += 1
            if fresh:
                regular = newton_step(solver, system, here, room, newton)
                length = norm(newton)
                if not (regular and length < np.inf):
                    break
                fresh = sloped = False
            if length > radius and not sloped:
                curvature = descent(system, here, room, gradient)
                sloped = True
            reach, predicted = dogleg(newton, gradient, curvature, cost, radius, step)
            for e in range(size):
                there.x[0, e] = here.x[0, e] + step[e]
        if cost < goal:
            for e in range(values.size):
                values[e] = here.values[e]
            for e in range(size):
                unknowns[e] = here.x[0, e]
            return start + 1, iterations
    return -noise.shape[0], iterations
