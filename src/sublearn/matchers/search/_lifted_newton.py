"""Newton steps of the lifted system, and the dogleg on it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sublearn._arrays import Array
from sublearn._compile import fast
from sublearn.matchers.search._dogleg import (
    add_product,
    add_row_product,
    dogleg,
    norm,
    reflect,
    solve,
)
from sublearn.matchers.search._lifted_kernel import (
    Lift,
    Point,
    Work,
    coordinates,
    descent,
    evaluate,
    new_point,
    new_work,
    residual,
)


class System(NamedTuple):
    """Room for the linear system of a Newton step, in either form."""

    A: Array  # (size, size)
    x: Array  # (size,)
    readouts: Array  # (T d, n): D W^a
    left: Array  # (T d, r): the same at the rows of the learnable entries
    right: Array  # (C, r): states at their columns
    markov: Array  # (C d, r), only where inputs mix the states
    response: Array  # (k, (k - d) T): change of the residual after a unit of z
    row: Array  # (1, C)


@fast
def new_system(lift: Lift, unknowns: int, condensed: bool) -> System:
    n, k = lift.active_t.shape
    d, r = lift.readout.shape[0], lift.rows.size
    C, b = lift.targets.shape[0], lift.begin.shape[0]
    T = C // b
    size = r if condensed else unknowns
    mixed = C * d if lift.mix.size else 0
    return System(
        np.zeros((size, size)),
        np.zeros(size),
        np.zeros((T * d, n)),
        np.zeros((T * d, r)),
        np.zeros((C, r)),
        np.zeros((mixed, r)),
        np.zeros((k, lift.impulse.shape[1])),
        np.zeros((1, C)),
    )


@fast
def condensed_step(lift: Lift, point: Point, work: Work, system: System, newton: Array) -> bool:
    """newton <- the Newton step, from the d m x r system in the learnable weights alone.

    Linearising U_(t+b) = W U_t gives dU_(t+b) = W dU_t + (dW U_t - E_t), and the targets do not move:
    sum_a D W^a (dW U_(t-ab) - E_(t-ab)) = 0 for every t, mixed by the inputs where there are any.
    """
    k = lift.active_t.shape[1]
    d, r = lift.readout.shape[0], lift.rows.size
    C, b = lift.targets.shape[0], lift.begin.shape[0]
    T = C // b
    L, left, right, x = system.readouts, system.left, system.right, system.x
    for o in range(d):
        for i in range(lift.readout.shape[1]):
            L[o, i] = lift.readout[o, i]
    for a in range(d, T * d):
        for i in range(lift.readout.shape[1]):
            L[a, i] = 0.0
    for a in range(1, T):
        add_product(L[(a - 1) * d : a * d], point.W, L[a * d : (a + 1) * d], 1.0)
    for a in range(T * d):
        for e in range(r):
            left[a, e] = L[a, lift.rows[e]]
    for t in range(C):
        for e in range(r):
            right[t, e] = point.U[t, lift.columns[e]]
    mixed = lift.mix.size > 0
    A = system.A
    J = system.markov if mixed else A
    for q in range(r):
        x[q] = 0.0
    for t in range(C):
        for o in range(d):
            q = t * d + o
            total = 0.0
            for i in range(k):
                total += L[o, i] * work.E[t, i]
            for e in range(r):
                J[q, e] = left[o, e] * right[t, e]
            top = t // b
            pairs = top // 2 * 2
            for a in range(1, pairs + 1, 2):
                u, v = a * d + o, a * d + d + o
                s = t - a * b
                for i in range(k):
                    total += L[u, i] * work.E[s, i] + L[v, i] * work.E[s - b, i]
                for e in range(r):
                    J[q, e] += left[u, e] * right[s, e] + left[v, e] * right[s - b, e]
            if pairs < top:
                u, s = top * d + o, t - top * b
                for i in range(k):
                    total += L[u, i] * work.E[s, i]
                for e in range(r):
                    J[q, e] += left[u, e] * right[s, e]
            if mixed:
                for j in range(lift.mix.shape[1]):
                    x[j * d + o] += lift.mix[t, j] * total
            else:
                x[q] = total
    if mixed:
        for j in range(lift.mix.shape[1]):
            for o in range(d):
                for e in range(r):
                    A[j * d + o, e] = 0.0
                for t in range(C):
                    weight = lift.mix[t, j]
                    for e in range(r):
                        A[j * d + o, e] += weight * J[t * d + o, e]
    # Rows differ by the powers of W in them: without this the pivots would be chosen by size alone.
    for q in range(r):
        largest = 0.0
        for e in range(r):
            largest = max(largest, abs(A[q, e]))
        if not largest > 0.0:
            return False
        inverse = 1.0 / largest
        for e in range(r):
            A[q, e] *= inverse
        x[q] *= inverse
    if not solve(A, x) > 0.0:
        return False
    dU, zero = work.tangent, k * 0
    for t in range(b + C):
        for i in range(dU.shape[1]):
            dU[t, i] = 0.0
    for t in range(C):
        for i in range(k):
            dU[b + t, i] = -work.E[t, i]
        for e in range(r):
            dU[b + t, lift.rows[e]] += x[e] * right[t, e]
        if t >= b:
            add_row_product(dU, t, zero, point.W_t, dU, b + t, zero, 1.0)
    coordinates(lift, dU, b, newton, work.line)
    return True


@fast
def full_step(lift: Lift, point: Point, work: Work, system: System, newton: Array) -> bool:
    """newton <- the Newton step, from the S x S system in z: the smaller one when k is close to d."""
    k, d = lift.active_t.shape[1], lift.readout.shape[0]
    C, b = lift.targets.shape[0], lift.begin.shape[0]
    T, free, zero = C // b, k - d, k * 0
    A, x, response, row = system.A, system.x, system.response, system.row
    # A unit of z at time t moves state t by impulse[0], state t + b by impulse[1], and so on.
    for i in range(k):
        for j in range(free * T):
            response[i, j] = 0.0
    add_product(point.W[:k], lift.impulse, response, -1.0)
    for i in range(k):
        for f in range(free):
            for j in range(T - 1, 0, -1):
                response[i, f * T + j] = lift.impulse[i, f * T + j] + response[i, f * T + j - 1]
            response[i, f * T] = lift.impulse[i, f * T]
    place = 0
    for i in range(k):
        count = lift.ends[i + 1] - lift.ends[i]
        for c in range(count, C):
            for t in range(C):
                row[0, t] = 0.0
            row[0, c] = 1.0
            for e in range(count - 1, -1, -1):
                reflect(point.Q[i], point.tau[i], e, row, zero)
            for f in range(free):
                for t in range(C):
                    A[place, f * C + t] = 0.0
                for j in range(T):
                    weight = response[i, f * T + j]
                    for t in range(C - j * b):
                        A[place, f * C + t] += weight * row[0, t + j * b]
            x[place] = -point.outside[i, c]
            place += 1
    if not solve(A, x) > 0.0:
        return False
    for f in range(free):
        for t in range(C):
            newton[t * free + f] = x[f * C + t]
    return True


@fast
def search_block(
    lift: Lift,
    noise: Array,
    walk: int,
    kick: float,
    limit: int,
    goal: float,
    condensed: bool,
    values: Array,
) -> tuple[int, int]:
    """Dogleg from one start after the other until |E|^2 < goal: (starts, iterations) it took.

    Each row of ``noise`` is a start. The first of every ``walk`` rows is taken as it stands; the others
    are added, ``kick`` times as large as the unknowns, to where the start before them got stuck: in
    many unknowns it is far better to shake a point that is nearly a root than to begin anew. A start
    is given up after ``limit`` iterations, or when ten of them have not taken a fifth off the cost.
    Starts is negative if none was solved.
    """
    unknowns = noise.shape[1]
    here, there = new_point(lift, unknowns), new_point(lift, unknowns)
    work, system = new_work(lift, unknowns), new_system(lift, unknowns, condensed)
    gradient, newton, step = np.zeros(unknowns), np.zeros(unknowns), np.zeros(unknowns)
    iterations = 0
    for start in range(noise.shape[0]):
        size = kick * norm(here.z[0]) / np.sqrt(unknowns)
        fresh_start = start % walk == 0 or not size < np.inf
        for e in range(unknowns):
            shaken = here.z[0, e] + size * noise[start, e]
            there.z[0, e] = noise[start, e] if fresh_start else shaken
        cost = mark = reach = curvature = 1.0
        predicted = radius = length = 0.0
        fresh = sloped = False
        for count in range(limit + 1):
            new = evaluate(lift, there, work)
            gain = (cost - new) / predicted if predicted > 0.0 else -1.0
            if count == 0:
                cost, mark, fresh = new, new, True
                here, there = there, here
                radius = max(norm(here.z[0]), 1.0)
            elif not gain >= 0.1:  # also when the states blew up
                radius = 0.3 * reach
            elif gain > 0.75:
                radius = max(radius, 2.5 * reach)
            if count and gain > 1e-4:
                cost, fresh = new, True
                here, there = there, here
            elif radius < 1e-9 * (1e-3 + norm(here.z[0])):
                break
            if cost < goal or count == limit:
                break
            if count and count % 10 == 0:
                if cost > 0.8 * mark:
                    break
                mark = cost
            iterations += 1
            if fresh:
                residual(lift, here, work)
                if condensed:
                    regular = condensed_step(lift, here, work, system, newton)
                else:
                    regular = full_step(lift, here, work, system, newton)
                length = norm(newton)
                if not (regular and length < np.inf):
                    break
                fresh = sloped = False
            if length > radius and not sloped:
                curvature = descent(lift, here, work, gradient)
                sloped = True
            reach, predicted = dogleg(newton, gradient, curvature, cost, radius, step)
            for e in range(unknowns):
                there.z[0, e] = here.z[0, e] + step[e]
        if cost < goal:
            for e in range(values.size):
                values[e] = here.values[e]
            return start + 1, iterations
    return -noise.shape[0], iterations
