"""Row-reduced variable projection: the loops.

States U_0 = B, U_s = W U_(s-1), written as rows: row t + b of ``U`` follows row t. Frozen rows of W
and the targets are linear in the states, so the states are affine in a free vector z. The learnable
weights of row i are then the least-squares solution of U_(t+b, i) = W_i U_t over all t, and what lies
outside the range of that small problem is the residual E. A root of E(z) is a match.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sublearn._arrays import Array, Indices
from sublearn._compile import fast
from sublearn.matchers.search._dogleg import add_product, add_row_product, factor, reflect


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
    impulse: Array  # (n, (k - d) T): response of the states to a unit of z, empty if not used
    origin: Array  # (1, C k): V_0
    null_t: Array  # (S, C k)
    mix: Array  # (C, m): the inputs, each row multiplying one state
    rows: Indices  # (r,) of the learnable entries, in order
    columns: Indices
    ends: Indices  # (k + 1,): where each row's entries begin


class Point(NamedTuple):
    """All that is known at one z."""

    z: Array  # (1, S)
    U: Array  # (C + b, n)
    outside: Array  # (k, C): residual of each row in the coordinates of its QR
    Q: Array  # (k, widest, C)
    tau: Array  # (k, widest)
    values: Array  # (r,)
    W: Array  # with the learnable values in place
    W_t: Array


class Work(NamedTuple):
    """Room for the loops."""

    E: Array  # (C, k): the residual
    F: Array  # (C, k)
    Y: Array  # (C, n): cotangents of the states
    tangent: Array  # (C + b, n): tangents of the states
    along: Array  # (1, S)
    line: Array  # (1, longest row)


@fast
def new_work(lift: Lift, unknowns: int) -> Work:
    n, k = lift.active_t.shape
    b, C = lift.begin.shape[0], lift.targets.shape[0]
    return Work(
        np.zeros((C, k)),
        np.zeros((C, k)),
        np.zeros((C, n)),
        np.zeros((C + b, n)),
        np.zeros((1, unknowns)),
        np.zeros((1, max(C * k, n))),
    )


@fast
def new_point(lift: Lift, unknowns: int) -> Point:
    n, k = lift.active_t.shape
    b = lift.begin.shape[0]
    C = lift.targets.shape[0]
    widest = 1
    for i in range(k):
        widest = max(widest, lift.ends[i + 1] - lift.ends[i])
    return Point(
        np.zeros((1, unknowns)),
        np.zeros((C + b, n)),
        np.zeros((k, C)),
        np.zeros((k, widest, C)),
        np.zeros((k, widest)),
        np.zeros(lift.rows.size),
        lift.W.copy(),
        lift.W.T.copy(),
    )


@fast
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


@fast
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


@fast
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


@fast
def evaluate(lift: Lift, point: Point, work: Work) -> float:
    """Fill ``point`` from its z; returns |E|^2."""
    k = lift.active_t.shape[1]
    b, C = lift.begin.shape[0], lift.targets.shape[0]
    U, Q, tau, v, F = point.U, point.Q, point.tau, point.outside, work.F
    run_states(lift, point.z, U, work.line, 1.0)
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
        factor(Q[i], tau[i], count)
        for e in range(count):
            reflect(Q[i], tau[i], e, v, i)
        for e in range(count - 1, -1, -1):
            total = v[i, e]
            for f in range(e + 1, count):
                total -= Q[i, f, e] * point.values[first + f]
            value = total / Q[i, e, e] if Q[i, e, e] != 0.0 else 0.0
            point.values[first + e] = value
            j = lift.columns[first + e]
            point.W[i, j] = value
            point.W_t[j, i] = value
        for e in range(count):
            v[i, e] = 0.0
        for t in range(count, C):
            cost += v[i, t] * v[i, t]
    return cost


@fast
def residual(lift: Lift, point: Point, work: Work) -> None:
    """work.E <- the residual in its natural coordinates."""
    E, row = work.E, work.line
    zero = E.shape[0] * 0
    for i in range(E.shape[1]):
        for t in range(E.shape[0]):
            row[0, t] = point.outside[i, t]
        for e in range(lift.ends[i + 1] - lift.ends[i] - 1, -1, -1):
            reflect(point.Q[i], point.tau[i], e, row, zero)
        for t in range(E.shape[0]):
            E[t, i] = row[0, t]


@fast
def descent(lift: Lift, point: Point, work: Work, gradient: Array) -> float:
    """gradient <- J' E, and |J gradient|^2, where J = d E / d z with the weights projected out."""
    n, k = lift.active_t.shape
    b, C = lift.begin.shape[0], lift.targets.shape[0]
    E, F, Y, dU, row = work.E, work.F, work.Y, work.tangent, work.line
    for t in range(C):
        for i in range(k):
            Y[t, i] = E[t, i]
        for i in range(k, n):
            Y[t, i] = 0.0
    add_product(E[b:], point.W[:k], Y[: C - b], -1.0)
    pull_back(lift, Y, gradient, row)
    for e in range(gradient.size):
        work.along[0, e] = gradient[e]
    run_states(lift, work.along, dU, row, 0.0)
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
