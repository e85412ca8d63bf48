"""Complex solutions of a linear RNN followed in its states: fewer unknowns, and better conditioned.

States U_0 = B, U_s = W U_(s-1), written as rows: row t + b of ``U`` follows row t. Frozen rows of W
and the targets D U_s = M_s are linear in the states (Lemma 3.3), so the states are affine in a free
vector z of S = T b (k - d) numbers, as in the search (``search/_lifted.py``). The learnable weights w_i of
row i appear in T b equations alone,

    F_i(z) = A_i(z) w_i,   F_i = U_(t+b, i) - (frozen entries of row i) U_t,   A_i = U_t at its columns,

from which Gaussian elimination removes them. What is left of F_i, that is N_i F_i where N_i A_i = 0,
are S equations E(z) = 0, and their derivative is exactly N_i (d F_i - d A_i w_i). Nothing is conjugated,
so E is analytic in z; the reflections of the search, which asks for the least residual, are not.

A Newton step takes an S x S system instead of one in all r weights, and the states of far solutions are far
better conditioned than their weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sublearn._arrays import Array, Complex, Indices, zeros
from sublearn._compile import lean, serves
from sublearn.ensembles import Instance
from sublearn.matchers.complete._tracker import (
    correct,
    eliminate,
    end_at,
    follow,
    largest,
    solve,
    tangent_of,
)
from sublearn.matchers.search._lifted import Recurrent, recurrent, refusal


class States(NamedTuple):
    """A lift as the loops read it: the k active coordinates come first, C = T b."""

    unit: Array  # (S, C, n + k): the change of (U_(t+b), F_t) along each unit of z
    columns: Indices  # (r,) of the learnable entries, row by row
    ends: Indices  # (k + 1,): where each row's entries begin
    labels: Indices  # (r,): position of each entry in the order of the allocation


class StateRoom(NamedTuple):
    """All that is known at one z, and room for the loops."""

    U: Complex  # (C + b, n + k): the states, and beside U_(t+b) what is F_t
    A: Complex  # (C, widest + 1): one row's system, and its F behind it
    null: Complex  # (S, C): the rows of all N_i
    E: Complex  # (S,)
    response: Complex  # (k, k - d, T): change of F_i - A_i w_i after a unit of z
    matrix: Complex  # (S, S): d E / d z, columns in units of the states
    weights: Complex  # (r,), row by row
    right: Complex  # (S,)
    place: Indices  # (C,): the equation at each place after the exchanges
    owner: Indices  # (S,): the i of the rows of ``null``
    pivots: Indices  # (S,): the equation of ``matrix`` at each place after the exchanges
    size: Array  # (C + b,): the largest entry of each state


class StatePath(NamedTuple):
    """A path in the states: their affine part (C, n + k), and how it moves with the targets."""

    states: States
    fixed: Complex
    moved: Complex
    settles: bool


@dataclass(frozen=True, eq=False)
class Lifted:
    """A lift made ready: what a unit of z and of each target does to the states, and room."""

    form: Recurrent
    states: States
    order: Indices  # (C d,): position of each target in the flat order (output, sample)
    origin: Complex  # (C, n + k): the states at targets 0 and z = 0
    by_target: Complex  # (C d, C (n + k))
    room: StateRoom

    @property
    def unknowns(self) -> int:
        return len(self.states.unit)

    def affine_part(self, targets: Complex, begin: float = 1.0) -> Complex:
        """(U_(t+b), F_t) at z = 0, (C, n + k); with ``begin`` 0, their change along the targets."""
        change = targets[self.order] @ self.by_target
        return np.asarray(begin * self.origin + change.reshape(self.origin.shape))

    def free_part(self, points: Complex) -> Complex:
        """(paths, S): the free coordinates of the states that weights (in the order of the labels) give."""
        form, d = self.form, len(self.form.D)
        W = np.repeat(form.W[None].astype(np.complex128), len(points), axis=0)
        W[:, form.rows, form.columns] = points[:, form.labels]
        null, parts = form.basis[:, d:].T.astype(np.complex128), []
        state: Complex = form.B[None].astype(np.complex128)
        for _ in range(form.T):
            state = W @ state
            parts.append((null @ state[:, : form.k]).transpose(0, 2, 1).reshape(len(points), -1))
        return np.ascontiguousarray(np.concatenate(parts, axis=1))


@np.errstate(all="ignore")
def lifted(instance: Instance, divided: bool) -> Lifted | None:
    """The lift with the fewest unknowns, or None where only the weights can be followed.

    It is for recurrent weights alone, with the inputs divided out.
    """
    form = recurrent(instance) if divided and refusal(instance) is None else None
    if form is None or form.mix.size or not 0 < form.unknowns <= form.rows.size:
        return None
    (n, b), d, T, k = form.B.shape, len(form.D), form.T, form.k
    C, S = T * b, form.unknowns
    # At once: the start B, every target, every coordinate of z.
    count = 1 + C * d + S
    begin, targets = np.zeros((count, b, n)), np.zeros((count, C * d))
    z = np.zeros((count, S))
    begin[0], targets[1 : 1 + C * d], z[1 + C * d :] = form.B.T, np.eye(C * d), np.eye(S)
    runs = _run(form, begin, targets.reshape(count, T, b, d), z.reshape(count, T, b, k - d))
    if not np.isfinite(runs).all():
        return None
    positions = np.arange(C * d).reshape((b, T, d) if form.turned else (d, C))
    order = positions.transpose(1, 0, 2) if form.turned else positions.T
    states = States(runs[1 + C * d :], form.columns, form.ends, form.labels)
    room = state_room(states, b, k - d)
    room.U[:b, :n] = form.B.T
    by_target = runs[1 : 1 + C * d].reshape(C * d, -1).astype(np.complex128)
    return Lifted(form, states, order.ravel(), runs[0].astype(np.complex128), by_target, room)


def _run(form: Recurrent, begin: Array, targets: Array, z: Array) -> Array:
    """(count, C, n + k): (U_(t+b), F_t) from starts (count, b, n), targets and z (count, T, b, ...)."""
    W, D, k, d = form.W, form.D, form.k, len(form.D)
    before, parts = begin, []
    for t in range(form.T):
        frozen = before @ W[k:].T
        seen = targets[:, t] - frozen @ D[:, k:].T
        active = seen @ form.basis[:, :d].T + z[:, t] @ form.basis[:, d:].T
        after = np.concatenate([active, frozen], axis=2)
        parts.append(np.concatenate([after, active - before @ W[:k].T], axis=2))
        before = after
    return np.ascontiguousarray(np.concatenate(parts, axis=1))


def state_room(states: States, b: int, free: int) -> StateRoom:
    S, C, width = states.unit.shape
    k, widest = states.ends.size - 1, int(np.diff(states.ends).max()) + 1
    shapes = (C + b, width), (C, widest), (S, C), S, (k, free, C // b), (S, S)
    numbers = zeros(*shapes, states.columns.size, S, dtype=np.complex128)
    return StateRoom(*[*numbers, *zeros(C, S, S, dtype=np.int64), np.zeros(C + b)])


@lean
def linearize(path: StatePath, time: float, z: Complex, room: StateRoom) -> bool:
    """Fill ``room`` at z and a time; false if a row has no pivot."""
    states, U, A, place = path.states, room.U, room.A, room.place
    unit, ends, columns = states.unit, states.ends, states.columns
    C, k = unit.shape[1], ends.size - 1
    n, b, free = unit.shape[2] - k, U.shape[0] - C, unit.shape[0] // C
    for t in range(C):
        for i in range(n + k):
            value, slope = path.fixed[t, i], path.moved[t, i]
            U[b + t, i] = complex(value.real + time * slope.real, value.imag + time * slope.imag)
    for s in range(z.size):
        real, imaginary = z[s].real, z[s].imag
        for t in range(s // free, C):
            for i in range(n + k):
                size = unit[s, t, i]
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
        first = ends[i]
        count = ends[i + 1] - first
        for t in range(C):
            scale = 1.0 / room.size[t]
            for e in range(count):
                A[t, e] = scale * U[t, columns[first + e]]
            A[t, count] = scale * U[b + t, n + i]
        if not eliminate(A, place, count, count + 1):
            return False
        for e in range(count - 1, -1, -1):
            total = A[e, count]
            for f in range(e + 1, count):
                total -= A[e, f] * room.weights[first + f]
            room.weights[first + e] = total / A[e, e]
        for q in range(count, C):
            room.E[line] = A[q, count]
            room.owner[line] = i
            _null_row(A, place, count, q, room.null[line])
            for t in range(C):
                room.null[line, t] /= room.size[t]
            line += 1
    _derivative(states, room)
    return True


@lean
def _null_row(A: Complex, place: Indices, count: int, q: int, out: Complex) -> None:
    """The combination of equations that the elimination has left at place q."""
    for t in range(out.size):
        out[t] = 0.0
    out[place[q]] = 1.0
    for e in range(count - 1, -1, -1):
        total = A[q, e]
        for f in range(e + 1, count):
            total += out[place[f]] * A[f, e]
        out[place[e]] = -total


@lean
def _derivative(states: States, room: StateRoom) -> None:
    """room.matrix <- d E / d z: a unit of z moves the states of later steps alike, whenever it comes."""
    unit, ends, response = states.unit, states.ends, room.response
    k, free, T = response.shape
    C = unit.shape[1]
    n, b = unit.shape[2] - k, C // T
    for i in range(k):
        for f in range(free):
            for j in range(T):
                total = complex(unit[f, j * b, n + i], 0.0)
                for e in range(ends[i], ends[i + 1] if j else ends[i]):
                    total -= room.weights[e] * unit[f, (j - 1) * b, states.columns[e]]
                response[i, f, j] = total
    for line in range(room.E.size):
        i = room.owner[line]
        for t in range(C):
            for f in range(free):
                total = 0j
                for j in range((C - 1 - t) // b + 1):
                    total += response[i, f, j] * room.null[line, t + j * b]
                room.matrix[line, t * free + f] = room.size[b + t] * total


@lean
def _step(states: States, room: StateRoom, out: Complex) -> float:
    """out <- the solution of the eliminated system, from units of the states; its size in them."""
    solve(room.matrix, room.pivots, room.right, out)
    C = states.unit.shape[1]
    b, free = room.U.shape[0] - C, out.size // C
    most = largest(out)
    for e in range(out.size):
        out[e] *= room.size[b + e // free]
    return most


@serves(correct, StatePath)
@lean
def _correct(
    path: StatePath, room: StateRoom, here: Complex, x: Complex, time: float, change: Complex
) -> float:
    size = x.size
    if not (linearize(path, time, x, room) and eliminate(room.matrix, room.pivots, size, size)):
        return -1.0
    for e in range(size):
        room.right[e] = -room.E[e]
    return _step(path.states, room, change)


@lean
def drift(path: StatePath, room: StateRoom) -> None:
    """room.right <- minus the change of E when the targets move, at fixed z."""
    ends, columns, moved = path.states.ends, path.states.columns, path.moved
    C, k = moved.shape[0], ends.size - 1
    n, b = moved.shape[1] - k, room.U.shape[0] - C
    for line in range(room.E.size):
        i = room.owner[line]
        whole = 0j
        for t in range(C):
            total = moved[t, n + i]
            if t >= b:
                for e in range(ends[i], ends[i + 1]):
                    total -= room.weights[e] * moved[t - b, columns[e]]
            whole -= room.null[line, t] * total
        room.right[line] = whole


@serves(tangent_of, StatePath)
@lean
def _tangent(path: StatePath, room: StateRoom, out: Complex) -> None:
    drift(path, room)
    _step(path.states, room, out)


@serves(end_at, StatePath)
@lean
def _end(path: StatePath, room: StateRoom, x: Complex, weights: Complex) -> None:
    for e in range(room.weights.size):
        weights[path.states.labels[e]] = room.weights[e]


def track_states(
    lift: Lifted, points: Complex, begin: Complex, end: Complex, most_steps: int
) -> tuple[Complex, Indices, Indices]:
    """Follow a path from each row of ``points``, a solution for the targets ``begin``, to ``end``.

    Returns the weights at the end points, what became of each path (0: it arrived) and its steps.
    """
    fixed, moved = lift.affine_part(begin), lift.affine_part(end - begin, 0.0)
    path = StatePath(lift.states, fixed, moved, True)
    return follow(path, lift.room, lift.free_part(points), points.shape[1], most_steps)
