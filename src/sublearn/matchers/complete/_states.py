"""Complex solutions of a linear RNN followed in its states: fewer unknowns, and better conditioned.

States U_0 = B, U_s = W U_(s-1), written as rows: row t + b of ``U`` follows row t. Frozen rows of W
and the targets D U_s = M_s are linear in the states (Lemma 3.3), so the states are affine in a free
vector z of S = T b (k - d) numbers, as in the search (``search/_lifted.py``). The learnable weights w_i of
row i appear in T b equations alone,

    F_i(z) = A_i(z) w_i,   F_i = U_(t+b, i) - (frozen entries of row i) U_t,   A_i = U_t at its columns,

from which Gaussian elimination removes them. What is left of F_i, that is N_i F_i where N_i A_i = 0,
are S equations E(z) = 0, and their derivative is exactly N_i (d F_i - d A_i w_i).

The lift, its affine map, the derivative's assembly and the elimination are those of the search. Two things
are not, for speed alone (measured: docs/inside.md): the search removes the weights by reflections, since
|E|^2 is what it brings down, and runs through the states anew at every z.

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
from sublearn.matchers.complete._tracker import correct, end_at, follow, tangent_of
from sublearn.matchers.search._dogleg import eliminate, solve, solve_again
from sublearn.matchers.search._lifted import Recurrent, recurrent, refusal
from sublearn.matchers.search._lifted_kernel import Lift, derivative, run_states


class States(NamedTuple):
    """A lift as the loops read it: the k active coordinates come first, C = T b."""

    impulse: Array  # (k - d, T, n + k): what a unit of z does to (U_(t+b), F_t) 0..T-1 steps later
    columns: Indices  # (r,) of the learnable entries, row by row
    ends: Indices  # (k + 1,): where each row's entries begin
    labels: Indices  # (r,): position of each entry in the order of the allocation


class StateRoom(NamedTuple):
    """All that is known at one z, and room for the loops."""

    U: Complex  # (C + b, n + k): the states, and beside U_(t+b) what is F_t
    A: Complex  # (C, widest + 1): one row's system, and its F behind it
    null: Complex  # (S, C): the rows of all N_i
    E: Complex  # (S,)
    response: Complex  # (k, (k - d) T): change of F_i - A_i w_i after a unit of z
    matrix: Complex  # (S, S + 1): d E / d z, direction by direction, and -E
    step: Complex  # (S,): in the order of the columns
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
    """A lift made ready, and room."""

    form: Recurrent
    lift: Lift
    states: States
    order: Indices  # (C, d): position of each target in the flat order (output, sample)
    room: StateRoom

    @property
    def unknowns(self) -> int:
        return self.form.unknowns

    def affine_part(self, targets: Complex, begin: float = 1.0) -> Complex:
        """(U_(t+b), F_t) at z = 0, (C, n + k); with ``begin`` 0, their change along the targets."""
        flat, z = targets[self.order], np.zeros((1, self.unknowns))
        return _run(self.lift, begin, flat.real, z) + 1j * _run(self.lift, 0.0, flat.imag, z)

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
    ready = form.at_scale(1.0)
    if ready is None:
        return None
    lift: Lift = ready[0].system
    (b, d), T, free = (len(lift.begin), len(form.D)), form.T, form.k - len(form.D)
    units, nothing = np.eye(free, form.unknowns), np.zeros_like(lift.targets)
    impulse = np.stack([_run(lift, 0.0, nothing, z[None])[::b] for z in units])
    if not np.isfinite(impulse).all():
        return None
    positions = np.arange(T * b * d).reshape((b, T, d) if form.turned else (d, T * b))
    order = positions.transpose(1, 0, 2).reshape(-1, d) if form.turned else positions.T
    states = States(impulse, form.columns, form.ends, form.labels)
    return Lifted(form, lift, states, order, state_room(lift, states))


def _run(lift: Lift, begin: float, targets: Array, z: Array) -> Array:
    """(C, n + k): (U_(t+b), F_t) for targets (C, d) and z (1, S), from ``begin`` times the lift's start."""
    (b, n), C, k = lift.begin.shape, len(targets), lift.active_t.shape[1]
    U, line = zeros((C + b, n), (1, n))
    lift = lift._replace(begin=begin * lift.begin, targets=np.ascontiguousarray(targets))
    run_states(lift, z, U, line, 1.0)
    return np.concatenate([U[b:], U[b:, :k] - U[:C] @ lift.active_t], axis=1)


def state_room(lift: Lift, states: States) -> StateRoom:
    free, T, width = states.impulse.shape
    (b, n), C, widest = lift.begin.shape, len(lift.targets), int(np.diff(states.ends).max()) + 1
    k, S = width - n, C * free
    shapes = (C + b, width), (C, widest), (S, C), S, (k, free * T), (S, S + 1), S
    numbers = zeros(*shapes, states.columns.size, S, dtype=np.complex128)
    room = StateRoom(*[*numbers, *zeros(C, S, S, dtype=np.int64), np.zeros(C + b)])
    room.U[:b, :n] = lift.begin
    return room


@lean
def linearize(path: StatePath, time: float, z: Complex, room: StateRoom) -> bool:
    """Fill ``room`` at z and a time; false if a row has no pivot."""
    states, U, A, place = path.states, room.U, room.A, room.place
    impulse, ends, columns = states.impulse, states.ends, states.columns
    C, k, free = path.fixed.shape[0], ends.size - 1, impulse.shape[0]
    n, b = impulse.shape[2] - k, U.shape[0] - C
    for t in range(C):
        for i in range(n + k):
            value, slope = path.fixed[t, i], path.moved[t, i]
            U[b + t, i] = complex(value.real + time * slope.real, value.imag + time * slope.imag)
    for s in range(C):
        for f in range(free):
            unit, t, j = z[s * free + f], s, 0
            while t < C:
                for i in range(n + k):
                    size, value = impulse[f, j, i], U[b + t, i]
                    U[b + t, i] = complex(
                        value.real + size * unit.real, value.imag + size * unit.imag
                    )
                t, j = t + b, j + 1
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
    impulse, ends, response = states.impulse, states.ends, room.response
    free, T, _ = impulse.shape
    k = ends.size - 1
    n = impulse.shape[2] - k
    for i in range(k):
        for f in range(free):
            for j in range(T):
                total = complex(impulse[f, j, n + i], 0.0)
                for e in range(ends[i], ends[i + 1] if j else ends[i]):
                    total -= room.weights[e] * impulse[f, j - 1, states.columns[e]]
                response[i, f * T + j] = total
    derivative(response, room.null, room.owner, free, T, room.matrix)


@lean
def _reordered(states: States, room: StateRoom, out: Complex) -> float:
    """out <- room.step in the order of z; its largest part, in units of its state."""
    free, C = states.impulse.shape[0], room.null.shape[1]
    b, most = room.U.shape[0] - C, 0.0
    for t in range(C):
        inverse = 1.0 / room.size[b + t]
        for f in range(free):
            value = room.step[f * C + t]
            square = (inverse * value.real) ** 2 + (inverse * value.imag) ** 2
            if square > most or square != square:  # NaN, which is kept
                most = square
            out[t * free + f] = value
    return float(np.sqrt(most))


@serves(correct, StatePath)
@lean
def _correct(
    path: StatePath, room: StateRoom, here: Complex, x: Complex, time: float, change: Complex
) -> float:
    if not linearize(path, time, x, room):
        return -1.0
    for e in range(x.size):
        room.matrix[e, x.size] = -room.E[e]
    if not solve(room.matrix, room.pivots, room.step):
        return -1.0
    return _reordered(path.states, room, change)


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
    solve_again(room.matrix, room.pivots, room.right, room.step)
    _reordered(path.states, room, out)


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
