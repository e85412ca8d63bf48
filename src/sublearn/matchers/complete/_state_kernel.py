"""The lifted system of a linear RNN in complex numbers: its residual and Newton matrix, as machine code.

States U_0 = B, U_s = W U_(s-1), written as rows: row t + b of ``U`` follows row t. Frozen rows of W
and the targets D U_s = M_s are linear in the states (Lemma 3.3), so the states are affine in a free
vector z of S = T b (k - d) numbers. The learnable weights w_i of row i appear in T b equations alone,

    F_i(z) = A_i(z) w_i,   F_i = U_(t+b, i) - (frozen entries of row i) U_t,   A_i = U_t at its columns,

from which Gaussian elimination removes them. What is left of F_i, that is N_i F_i where N_i A_i = 0,
are S equations E(z) = 0, and their derivative is exactly N_i (d F_i - d A_i w_i). Nothing is conjugated,
so E is analytic in z.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sublearn._arrays import Array, Complex, Indices
from sublearn._compile import compiled


class States(NamedTuple):
    """A lift as the loops read it: the k active coordinates come first, C = T b."""

    W: Array  # (n, n), learnable entries 0
    begin: Array  # (b, n): U_0
    behind: Array  # (d, n - k): D at the frozen coordinates
    basis: Array  # (k, k): (pinv(D_A), null(D_A)), the last k - d columns orthonormal
    impulse: Array  # (n, k - d, T): response of the states to a unit of z, 0..T-1 steps later
    unit: Array  # (S, C, n + k): the change of (U_(t+b), F_t) along each unit of z
    columns: Indices  # (r,) of the learnable entries, row by row
    ends: Indices  # (k + 1,): where each row's entries begin
    labels: Indices  # (r,): position of each entry in the order of the allocation
    order: Indices  # (C, d): position of each target in the flat order of the product form


class Room(NamedTuple):
    """All that is known at one z, and room for the loops."""

    U: Complex  # (C + b, n + k): the states, and beside U_(t+b) what is F_t
    size: Array  # (C + b,): the largest entry of each state
    W: Complex  # (k, n): the active rows with the learnable weights in place
    A: Complex  # (C, widest): one row's system
    F: Complex  # (C,)
    place: Indices  # (C,): the equation at each place after the exchanges
    null: Complex  # (S, C): the rows of all N_i
    owner: Indices  # (S,): their i
    E: Complex  # (S,)
    response: Complex  # (k, k - d, T): change of F_i - A_i w_i after a unit of z
    matrix: Complex  # (S, S): d E / d z, columns in units of the states
    weights: Complex  # (r,), row by row


def new_room(lift: States) -> Room:
    n, free, T = lift.impulse.shape
    k, C, b = len(lift.basis), len(lift.order), len(lift.begin)
    S, complex_ = C * free, np.complex128
    states = np.zeros((C + b, n + k), complex_)
    states[:b, :n] = lift.begin
    return Room(
        states,
        np.zeros(C + b),
        lift.W[:k].astype(complex_),
        np.zeros((C, max(1, int(np.diff(lift.ends).max()))), complex_),
        np.zeros(C, complex_),
        np.zeros(C, np.int64),
        np.zeros((S, C), complex_),
        np.zeros(S, np.int64),
        np.zeros(S, complex_),
        np.zeros((k, free, T), complex_),
        np.zeros((S, S), complex_),
        np.zeros(lift.columns.size, complex_),
    )


@compiled
def _dot(row: Array, vector: Complex, size: int) -> complex:
    """The product of a real row and a complex vector; a real factor is not made complex first."""
    real, imaginary = 0.0, 0.0
    for j in range(size):
        real += row[j] * vector[j].real
        imaginary += row[j] * vector[j].imag
    return complex(real, imaginary)


@compiled
def affine_part(lift: States, targets: Complex, begin: float, out: Complex) -> None:
    """out (C, n + k) <- (U_(t+b), F_t) at z = 0; with ``begin`` 0, their change along the targets."""
    n, k, d = lift.W.shape[0], lift.basis.shape[0], lift.behind.shape[0]
    b, C = lift.begin.shape[0], lift.order.shape[0]
    line = np.zeros(d, np.complex128)
    before = np.empty(n, np.complex128)
    for t in range(C):
        for i in range(n):
            before[i] = out[t - b, i] if t >= b else begin * lift.begin[t, i]
        for i in range(k, n):
            out[t, i] = _dot(lift.W[i], before, n)
        for o in range(d):
            line[o] = targets[t, o] - _dot(lift.behind[o], out[t, k:], n - k)
        for i in range(k):
            out[t, i] = _dot(lift.basis[i], line, d)
            out[t, n + i] = out[t, i] - _dot(lift.W[i], before, n)


@compiled
def free_part(lift: States, weights: Complex, z: Complex) -> None:
    """z <- the free coordinates of the states that ``weights`` (in the order of the labels) give."""
    n, k, d = lift.W.shape[0], lift.basis.shape[0], lift.behind.shape[0]
    b, C, free = lift.begin.shape[0], lift.order.shape[0], k - d
    W = lift.W.astype(np.complex128)
    for i in range(k):
        for e in range(lift.ends[i], lift.ends[i + 1]):
            W[i, lift.columns[e]] = weights[lift.labels[e]]
    U = np.zeros((C + b, n), np.complex128)
    U[:b] = lift.begin
    for t in range(C):
        for i in range(n):
            total = 0j
            for j in range(n):
                total += W[i, j] * U[t, j]
            U[b + t, i] = total
        for f in range(free):
            total = 0j
            for i in range(k):
                total += lift.basis[i, d + f] * U[b + t, i]
            z[t * free + f] = total


@compiled
def linearize(lift: States, z: Complex, room: Room) -> bool:
    """Fill ``room`` at z, from the affine part that lies in room.U; false if a row has no pivot."""
    n, k = lift.W.shape[0], lift.basis.shape[0]
    b, C = lift.begin.shape[0], lift.order.shape[0]
    free = lift.impulse.shape[1]
    U, A, F, place = room.U, room.A, room.F, room.place
    for s in range(z.size):
        real, imaginary = z[s].real, z[s].imag
        for t in range(s // free, C):
            for i in range(n + k):
                size = lift.unit[s, t, i]
                value = U[b + t, i]
                U[b + t, i] = complex(value.real + size * real, value.imag + size * imaginary)
    # States grow like powers of W: equations and unknowns are measured in units of their state.
    for t in range(C + b):
        most = 0.0
        for i in range(n):
            most = max(most, abs(U[t, i].real) + abs(U[t, i].imag))
        if not (most > 0.0 and most < np.inf):
            return False
        room.size[t] = most
    line = 0
    for i in range(k):
        first = lift.ends[i]
        count = lift.ends[i + 1] - first
        for t in range(C):
            unit = 1.0 / room.size[t]
            F[t] = unit * U[b + t, n + i]
            place[t] = t
            for e in range(count):
                A[t, e] = unit * U[t, lift.columns[first + e]]
        if not _eliminate(A, F, place, count):
            return False
        for e in range(count - 1, -1, -1):
            total = F[e]
            for f in range(e + 1, count):
                total -= A[e, f] * room.weights[first + f]
            value = total / A[e, e]
            room.weights[first + e] = value
            room.W[i, lift.columns[first + e]] = value
        for q in range(count, C):
            room.E[line] = F[q]
            room.owner[line] = i
            _null_row(A, place, count, q, room.null[line])
            for t in range(C):
                room.null[line, t] /= room.size[t]
            line += 1
    _derivative(lift, room)
    return True


@compiled
def _eliminate(A: Complex, F: Complex, place: Indices, count: int) -> bool:
    """Gaussian elimination of the first ``count`` columns, with row exchanges; multipliers stay in A."""
    rows = F.size
    for e in range(count):
        best, row = -1.0, e
        for t in range(e, rows):
            square = A[t, e].real ** 2 + A[t, e].imag ** 2
            if square > best:
                best, row = square, t
        if not (best > 0.0 and best < np.inf):
            return False
        if row != e:
            for f in range(count):
                A[e, f], A[row, f] = A[row, f], A[e, f]
            F[e], F[row] = F[row], F[e]
            place[e], place[row] = place[row], place[e]
        inverse = 1.0 / A[e, e]
        for t in range(e + 1, rows):
            multiplier = A[t, e] * inverse
            A[t, e] = multiplier
            for f in range(e + 1, count):
                A[t, f] -= multiplier * A[e, f]
            F[t] -= multiplier * F[e]
    return True


@compiled
def _null_row(A: Complex, place: Indices, count: int, q: int, out: Complex) -> None:
    """The combination of equations that the elimination has left at place q."""
    out[:] = 0.0
    out[place[q]] = 1.0
    for e in range(count - 1, -1, -1):
        total = A[q, e]
        for f in range(e + 1, count):
            total += out[place[f]] * A[f, e]
        out[place[e]] = -total


@compiled
def _derivative(lift: States, room: Room) -> None:
    """room.matrix <- d E / d z: a unit of z at time t moves state t + j b by impulse[:, :, j]."""
    n, free, T = lift.impulse.shape
    k, C, b = lift.basis.shape[0], lift.order.shape[0], lift.begin.shape[0]
    response = room.response
    for i in range(k):
        for f in range(free):
            for j in range(T):
                response[i, f, j] = lift.impulse[i, f, j]
            for a in range(n):
                weight = room.W[i, a]
                for j in range(1, T):
                    response[i, f, j] -= weight * lift.impulse[a, f, j - 1]
    for line in range(room.E.size):
        i = room.owner[line]
        for t in range(C):
            unit = room.size[b + t]
            for f in range(free):
                total = 0j
                for j in range((C - 1 - t) // b + 1):
                    total += response[i, f, j] * room.null[line, t + j * b]
                room.matrix[line, t * free + f] = unit * total


@compiled
def drift(lift: States, room: Room, moved: Complex, out: Complex) -> None:
    """out <- minus the change of E when (U_(t+b), F_t) change by ``moved``, (C, n + k), at fixed z."""
    n, C, b = lift.W.shape[0], lift.order.shape[0], lift.begin.shape[0]
    for line in range(room.E.size):
        i = room.owner[line]
        whole = 0j
        for t in range(C):
            total = moved[t, n + i]
            if t >= b:
                for e in range(lift.ends[i], lift.ends[i + 1]):
                    total -= room.weights[e] * moved[t - b, lift.columns[e]]
            whole -= room.null[line, t] * total
        out[line] = whole
