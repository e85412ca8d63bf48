"""Row-reduced variable projection: the loops, and the Newton step in its two forms.

States U_0 = B, U_s = W U_(s-1), written as rows: row t + b of ``U`` follows row t. Frozen rows of W
and the targets are linear in the states, so the states are affine in a free vector z. The learnable
weights of row i are then the least-squares solution of U_(t+b, i) = W_i U_t over all t, and what lies
outside the range of that small problem is the residual E. A root of E(z) is a match.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sublearn._arrays import Array, Floats, Indices, zeros
from sublearn._compile import inlined, lean, serves
from sublearn.matchers.search import _dogleg
from sublearn.matchers.search._dogleg import (
    Work,
    add_product,
    add_row_product,
    project,
    reflect,
    solve,
)


class Lift(NamedTuple):
    """An instance as the loops read it: the k active coordinates come first.

    Two ways to write the active part V of the states. Targets given state by state, D U_s = M_s:
    V_t = P (M_t - D_F U_(t, frozen), z_t) with P = (pinv(D_A), null(D_A)). Targets given through
    inputs: V = V_0 + Z z with Z an orthonormal basis of the null space of all d m conditions;
    ``null_t`` (Z') is empty in the first form.
    """

    W: Array  # (n, n), learnable entries 0
    active_t: Array  # (n, k): the active rows of W, transposed
    frozen: Array  # (n - k, n): the frozen rows of W
    frozen_t: Array  # (n, n - k)
    begin: Array  # (b, n): U_0
    readout: Array  # (d, n)
    targets: Array  # (C, d): M, where C = T b
    behind_t: Array  # (n - k, d): D_F transposed
    basis: Array  # (k, k): P
    basis_t: Array
    origin: Array  # (1, C k): V_0
    null_t: Array  # (S, C k)
    mix: Array  # (C, m): the inputs, each row multiplying one state
    rows: Indices  # (r,) of the learnable entries, in order
    columns: Indices
    ends: Indices  # (k + 1,): where each row's entries begin


class LiftPoint(NamedTuple):
    """All that is known at one z."""

    x: Array  # (1, S): z
    U: Array  # (C + b, n)
    outside: Array  # (k, C): residual of each row in the coordinates of its QR
    Q: Array  # (k, widest, C)
    tau: Array  # (k, widest)
    values: Array  # (r,)
    W: Array  # with the learnable values in place
    W_t: Array


class LiftRoom(NamedTuple):
    """Room for the loops."""

    E: Array  # (C, k): the residual
    F: Array  # (C, k)
    Y: Array  # (C, n): cotangents of the states
    tangent: Array  # (C + b, n): tangents of the states
    along: Array  # (1, S)
    line: Array  # (1, longest row)


class Condensed(NamedTuple):
    """Room for the Newton step from the r x r system in the learnable weights."""

    A: Array  # (r, r + 1): the system, its right side last
    place: Indices  # (r,)
    x: Array  # (r,)
    readouts: Array  # (T d, n): D W^a
    left: Array  # (T d, r): the same at the rows of the learnable entries
    right: Array  # (C, r): states at their columns
    markov: Array  # (C d, r), only where inputs mix the states


class Full(NamedTuple):
    """What the Newton step from the S x S system in z takes, and room for it."""

    A: Array  # (S, S + 1): the system, its right side last
    place: Indices  # (S,)
    owner: Indices  # (S,): whose residual
    x: Array  # (S,)
    null: Array  # (S, C): which combination of it
    impulse: Array  # (n, (k - d) T): response of the states to a unit of z
    response: Array  # (k, (k - d) T): change of the residual after a unit of z


def condensed(lift: Lift) -> Condensed:
    d, n, r = *lift.readout.shape, lift.rows.size
    b, C = len(lift.begin), len(lift.targets)
    read, mixed = C // b * d, C * d if lift.mix.size else 0
    (A,), place = zeros((r, r + 1)), np.zeros(r, np.int64)
    return Condensed(A, place, *zeros(r, (read, n), (read, r), (C, r), (mixed, r)))


def full(lift: Lift, impulse: Array, S: int) -> Full:
    k = lift.active_t.shape[1]
    A, x, null, response = zeros((S, S + 1), S, (S, len(lift.targets)), (k, impulse.shape[1]))
    place, owner = zeros(S, S, dtype=np.int64)
    return Full(A, place, owner, x, null, impulse, response)


def lift_work(lift: Lift, solver: Condensed | Full, unknowns: int) -> Work:
    """The lift made ready for the search."""
    (n, k), b, C = lift.active_t.shape, len(lift.begin), len(lift.targets)
    widest = max(1, int(np.diff(lift.ends).max()))
    known = (1, unknowns), (C + b, n), (k, C), (k, widest, C), (k, widest), lift.rows.size
    here, there = (LiftPoint(*[*zeros(*known), lift.W.copy(), lift.W.T.copy()]) for _ in range(2))
    room = zeros((C, k), (C, k), (C, n), (C + b, n), (1, unknowns), (1, max(C * k, n)))
    return Work(lift, solver, here, there, LiftRoom(*room), np.zeros((3, unknowns)))


@lean
def run_states(lift: Lift, z: Array, U: Array, line: Array, affine: float) -> None:
    """The states at z; with ``affine`` 0 instead of 1, the tangent of the states along z."""
    n, k = lift.active_t.shape
    b, d = lift.begin.shape[0], lift.readout.shape[0]
    C = lift.targets.shape[0]
    dense = lift.null_t.size > 0
    zero = n * 0  # not a literal, for which the compiler would make a second copy of everything
    for t in range(b):
        for i in range(n):
            U[t, i] = affine * lift.begin[t, i]
    if dense:
        for i in range(C * k):
            line[0, i] = affine * lift.origin[0, i]
        add_row_product(z, zero, zero, lift.null_t, line, zero, zero, 1.0)
        for t in range(C):
            for i in range(k):
                U[b + t, i] = line[0, t * k + i]
    for t in range(C):
        if k < n:
            for i in range(k, n):
                U[b + t, i] = 0.0
            add_row_product(U, t, zero, lift.frozen_t, U, b + t, k, 1.0)
        if not dense:
            for o in range(d):
                line[0, o] = affine * lift.targets[t, o]
            for i in range(k - d):
                line[0, d + i] = z[0, t * (k - d) + i]
            for i in range(k):
                U[b + t, i] = 0.0
            if k < n:
                add_row_product(U, b + t, k, lift.behind_t, line, zero, zero, -1.0)
            add_row_product(line, zero, zero, lift.basis_t, U, b + t, zero, 1.0)


@inlined
def pull_back(lift: Lift, Y: Array, gradient: Array, line: Array) -> None:
    """gradient <- (d states / d z)' Y, for cotangents Y (C, n) of the states; Y is overwritten."""
    n, k = lift.active_t.shape
    b, d = lift.begin.shape[0], lift.readout.shape[0]
    C = lift.targets.shape[0]
    dense = lift.null_t.size > 0
    zero = n * 0
    for t in range(C - 1, -1, -1):
        if not dense:
            for i in range(k):
                line[0, i] = 0.0
            add_row_product(Y, t, zero, lift.basis, line, zero, zero, 1.0)
            for i in range(k - d):
                gradient[t * (k - d) + i] = line[0, d + i]
            for j in range(n - k):
                for o in range(d):
                    Y[t, k + j] -= lift.behind_t[j, o] * line[0, o]
        if k < n and t >= b:
            add_row_product(Y, t, k, lift.frozen, Y, t - b, zero, 1.0)
    if dense:
        coordinates(lift, Y, zero, gradient, line)


@inlined
def coordinates(lift: Lift, U: Array, b: int, z: Array, line: Array) -> None:
    """z <- the free coordinates of states or tangents U[b:]: the basis is orthonormal."""
    k, d = lift.active_t.shape[1], lift.readout.shape[0]
    C = lift.targets.shape[0]
    zero = k * 0
    if lift.null_t.size > 0:
        for t in range(C):
            for i in range(k):
                line[0, t * k + i] = U[b + t, i]
        for e in range(z.size):
            total = 0.0
            for i in range(C * k):
                total += lift.null_t[e, i] * line[0, i]
            z[e] = total
        return
    for t in range(C):
        for i in range(k):
            line[0, i] = 0.0
        add_row_product(U, b + t, zero, lift.basis, line, zero, zero, 1.0)
        for i in range(k - d):
            z[t * (k - d) + i] = line[0, d + i]


@serves(_dogleg.evaluate, Lift)
@inlined
def evaluate(lift: Lift, point: LiftPoint, room: LiftRoom) -> float:
    """See :func:`_dogleg.evaluate`: the cost is |E|^2."""
    k = lift.active_t.shape[1]
    b, C = lift.begin.shape[0], lift.targets.shape[0]
    U, Q, tau, v, F = point.U, point.Q, point.tau, point.outside, room.F
    run_states(lift, point.x, U, room.line, 1.0)
    for t in range(C):
        for i in range(k):
            F[t, i] = U[b + t, i]
    add_product(U[:C], lift.active_t, F, -1.0)
    cost = 0.0
    for i in range(k):
        first = lift.ends[i]
        count = lift.ends[i + 1] - first
        for t in range(C):
            v[i, t] = F[t, i]
        for e in range(count):
            j = lift.columns[first + e]
            for t in range(C):
                Q[i, e, t] = U[t, j]
        project(Q[i], tau[i], count, v, i, point.values, first)
        for e in range(count):
            j = lift.columns[first + e]
            point.W[i, j] = point.values[first + e]
            point.W_t[j, i] = point.values[first + e]
        for t in range(count, C):
            cost += v[i, t] * v[i, t]
    return cost


@inlined
def residual(lift: Lift, point: LiftPoint, room: LiftRoom) -> None:
    """room.E <- the residual in its natural coordinates."""
    E, row = room.E, room.line
    zero = E.shape[0] * 0
    for i in range(E.shape[1]):
        for t in range(E.shape[0]):
            row[0, t] = point.outside[i, t]
        for e in range(lift.ends[i + 1] - lift.ends[i] - 1, -1, -1):
            reflect(point.Q[i], point.tau[i], e, row, zero)
        for t in range(E.shape[0]):
            E[t, i] = row[0, t]


@serves(_dogleg.descent, Lift)
@lean
def descent(lift: Lift, point: LiftPoint, room: LiftRoom, gradient: Array) -> float:
    """gradient <- J' E, and |J gradient|^2, where J = d E / d z with the weights projected out."""
    n, k = lift.active_t.shape
    b, C = lift.begin.shape[0], lift.targets.shape[0]
    E, F, Y, dU, row = room.E, room.F, room.Y, room.tangent, room.line
    for t in range(C):
        for i in range(k):
            Y[t, i] = E[t, i]
        for i in range(k, n):
            Y[t, i] = 0.0
    add_product(E[b:], point.W[:k], Y[: C - b], -1.0)
    pull_back(lift, Y, gradient, row)
    for e in range(gradient.size):
        room.along[0, e] = gradient[e]
    run_states(lift, room.along, dU, row, 0.0)
    for t in range(C):
        for i in range(k):
            total = dU[b + t, i]
            for j in range(n):
                total -= point.W[i, j] * dU[t, j]
            F[t, i] = total
    curvature, zero = 0.0, k * 0
    for i in range(k):
        for t in range(C):
            row[0, t] = F[t, i]
        count = lift.ends[i + 1] - lift.ends[i]
        for e in range(count):
            reflect(point.Q[i], point.tau[i], e, row, zero)
        for t in range(count, C):
            curvature += row[0, t] * row[0, t]
    return curvature


@serves(_dogleg.newton_step, Condensed)
@inlined
def condensed_step(
    solver: Condensed, lift: Lift, point: LiftPoint, room: LiftRoom, newton: Array
) -> bool:
    """newton <- the Newton step, from the d m x r system in the learnable weights alone.

    Linearising U_(t+b) = W U_t gives dU_(t+b) = W dU_t + (dW U_t - E_t), and the targets do not move:
    sum_a D W^a (dW U_(t-ab) - E_(t-ab)) = 0 for every t, mixed by the inputs where there are any.
    """
    residual(lift, point, room)
    k = lift.active_t.shape[1]
    d, r = lift.readout.shape[0], lift.rows.size
    C, b = lift.targets.shape[0], lift.begin.shape[0]
    T = C // b
    L, left, right, x = solver.readouts, solver.left, solver.right, solver.x
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
    A = solver.A
    J = solver.markov if mixed else A
    for q in range(r):
        A[q, r] = 0.0
    for t in range(C):
        for o in range(d):
            q = t * d + o
            total = 0.0
            for i in range(k):
                total += L[o, i] * room.E[t, i]
            for e in range(r):
                J[q, e] = left[o, e] * right[t, e]
            top = t // b
            pairs = top // 2 * 2
            for a in range(1, pairs + 1, 2):
                u, v = a * d + o, a * d + d + o
                s = t - a * b
                for i in range(k):
                    total += L[u, i] * room.E[s, i] + L[v, i] * room.E[s - b, i]
                for e in range(r):
                    J[q, e] += left[u, e] * right[s, e] + left[v, e] * right[s - b, e]
            if pairs < top:
                u, s = top * d + o, t - top * b
                for i in range(k):
                    total += L[u, i] * room.E[s, i]
                for e in range(r):
                    J[q, e] += left[u, e] * right[s, e]
            if mixed:
                for j in range(lift.mix.shape[1]):
                    A[j * d + o, r] += lift.mix[t, j] * total
            else:
                A[q, r] = total
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
        for e in range(r + 1):
            A[q, e] *= inverse
    if not solve(A, solver.place, x):
        return False
    dU, zero = room.tangent, k * 0
    for t in range(b + C):
        for i in range(dU.shape[1]):
            dU[t, i] = 0.0
    for t in range(C):
        for i in range(k):
            dU[b + t, i] = -room.E[t, i]
        for e in range(r):
            dU[b + t, lift.rows[e]] += x[e] * right[t, e]
        if t >= b:
            add_row_product(dU, t, zero, point.W_t, dU, b + t, zero, 1.0)
    coordinates(lift, dU, b, newton, room.line)
    return True


@inlined
def derivative(
    response: Floats, null: Floats, owner: Indices, free: int, T: int, A: Floats
) -> None:
    """A[q] <- change of the combination null[q] of the residuals of row owner[q] after a unit of each z.

    A unit moves the residual alike whenever it comes: ``response`` says it once for each of the ``free``
    directions, and columns of A stand direction by direction.
    """
    C = null.shape[1]
    b = C // T
    for q in range(null.shape[0]):
        i = owner[q]
        for f in range(free):
            weight = response[i, f * T]
            for t in range(C):
                A[q, f * C + t] = weight * null[q, t]
            for j in range(1, T):
                weight = response[i, f * T + j]
                for t in range(C - j * b):
                    A[q, f * C + t] += weight * null[q, t + j * b]


@serves(_dogleg.newton_step, Full)
@inlined
def full_step(solver: Full, lift: Lift, point: LiftPoint, room: LiftRoom, newton: Array) -> bool:
    """newton <- the Newton step, from the S x S system in z: the smaller one when k is close to d."""
    residual(lift, point, room)
    k, d = lift.active_t.shape[1], lift.readout.shape[0]
    C, b = lift.targets.shape[0], lift.begin.shape[0]
    T, free = C // b, k - d
    A, x, response, null = solver.A, solver.x, solver.response, solver.null
    # A unit of z at time t moves state t by impulse[0], state t + b by impulse[1], and so on.
    for i in range(k):
        for j in range(free * T):
            response[i, j] = 0.0
    add_product(point.W[:k], solver.impulse, response, -1.0)
    for i in range(k):
        for f in range(free):
            for j in range(T - 1, 0, -1):
                response[i, f * T + j] = solver.impulse[i, f * T + j] + response[i, f * T + j - 1]
            response[i, f * T] = solver.impulse[i, f * T]
    place = 0
    for i in range(k):
        count = lift.ends[i + 1] - lift.ends[i]
        for c in range(count, C):
            for t in range(C):
                null[place, t] = 0.0
            null[place, c] = 1.0
            for e in range(count - 1, -1, -1):
                reflect(point.Q[i], point.tau[i], e, null, place)
            A[place, x.size] = -point.outside[i, c]
            solver.owner[place] = i
            place += 1
    derivative(response, null, solver.owner, free, T, A)
    if not solve(A, solver.place, x):
        return False
    for f in range(free):
        for t in range(C):
            newton[t * free + f] = x[f * C + t]
    return True
