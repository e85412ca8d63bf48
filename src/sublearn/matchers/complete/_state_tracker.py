"""Following complex solutions of a linear RNN in its states: as ``_tracker.py``, in fewer unknowns.

A Newton step in the states takes an S x S system, S = T b (k - d), instead of one in all r weights, and
the states of far solutions are far better conditioned than their weights.
"""

from __future__ import annotations

import numpy as np

from sublearn._arrays import Array, Complex, Indices
from sublearn._compile import compiled
from sublearn.matchers.complete._product_kernel import Chain, factor, solve
from sublearn.matchers.complete._state_kernel import (
    Room,
    States,
    affine_part,
    drift,
    free_part,
    linearize,
    new_room,
)
from sublearn.matchers.complete._tracker import (
    ARRIVED,
    CLOSE,
    SINGULAR,
    SMALLEST_STEP,
    STEP_TOO_SMALL,
    TOO_MANY_STEPS,
    TRUST,
    next_step,
    predict,
)
from sublearn.matchers.search._lifted import ordered
from sublearn.verdicts.counts import ProductForm, ProductNumbers


@np.errstate(all="ignore")
def states_of(
    form: ProductForm, numbers: ProductNumbers, chain: Chain, targets: Complex
) -> States | None:
    """The lift with the fewest unknowns, or None where only the weights can be followed.

    It is for recurrent weights alone, with the inputs divided out: ``targets`` are the Markov
    parameters, flat. As in the search, it may be that of the transposed network.
    """
    recurrent = form.mixed and form.first == 1 and set(form.chain) == {1}
    if not recurrent or chain.mix.size or (form.where[:, 0] != 1).any():
        return None
    B, W, D = numbers.matrices
    T, b, d = len(form.chain), B.shape[1], D.shape[0]
    rows, columns = form.where[:, 1], form.where[:, 2]
    by_row = np.arange(T * b * d).reshape(d, T * b).T
    by_column = by_row.reshape(T, b, d).transpose(0, 2, 1).reshape(T * d, b)
    none, values = np.zeros((0, 0)), np.ascontiguousarray(targets.real)
    lifts = [
        (ordered(W, B, D, T, rows, columns, values[by_row], none), by_row),
        (ordered(W.T, D.T, B.T, T, columns, rows, values[by_column], none), by_column),
    ]
    best: States | None = None
    for lift, order in lifts:
        if lift is None or not 0 < lift.unknowns <= lift.rows.size:
            continue
        if best is not None and best.unit.shape[0] <= lift.unknowns:
            continue
        n, k, free = len(lift.W), lift.k, lift.k - len(lift.D)
        impulse = np.ascontiguousarray(lift.impulse(1.0).reshape(n, free, T))
        if np.isfinite(impulse).all():
            best = States(
                np.ascontiguousarray(lift.W),
                np.ascontiguousarray(lift.B.T),
                np.ascontiguousarray(lift.D[:, k:]),
                np.ascontiguousarray(lift.basis),
                impulse,
                _units(lift.W[:k], impulse, lift.B.shape[1]),
                np.ascontiguousarray(lift.columns),
                lift.ends,
                np.ascontiguousarray(lift.labels),
                np.ascontiguousarray(order),
            )
    return best


def _units(active: Array, impulse: Array, b: int) -> Array:
    """(S, T b, n + k): the change of (U_(t+b), F_t) along each unit of z."""
    n, free, T = impulse.shape
    later = np.concatenate([np.zeros((n, free, 1)), impulse[:, :, :-1]], axis=2)
    outside = impulse[: len(active)] - np.einsum("in,nfj->ifj", active, later)
    both = np.concatenate([impulse, outside])
    out = np.zeros((T, b, free, T, b, len(both)))
    for s in range(T):
        for c in range(b):
            out[s, c, :, s:, c] = both[:, :, : T - s].transpose(1, 2, 0)
    return out.reshape(T * b * free, T * b, len(both))


@compiled
def _correction(lift: States, room: Room, pivots: Indices, vector: Complex) -> float:
    """vector <- the solution of the factored system, from units of the states; its size in them."""
    solve(room.matrix, pivots, vector)
    b, free = lift.begin.shape[0], lift.impulse.shape[1]
    most = 0.0
    for e in range(vector.size):
        square = vector[e].real ** 2 + vector[e].imag ** 2
        if not square <= most:  # also true of NaN, which is kept
            most = square
        vector[e] *= room.size[b + e // free]
    return float(np.sqrt(most))


@compiled
def _place(fixed: Complex, moved: Complex, time: float, b: int, room: Room) -> None:
    """Put the affine part of the states at a time where the kernel expects it."""
    for t in range(fixed.shape[0]):
        for i in range(fixed.shape[1]):
            value, slope = fixed[t, i], moved[t, i]
            room.U[b + t, i] = complex(
                value.real + time * slope.real, value.imag + time * slope.imag
            )


@compiled
def _newton(
    lift: States,
    fixed: Complex,
    moved: Complex,
    time: float,
    z: Complex,
    room: Room,
    pivots: Indices,
    change: Complex,
) -> bool:
    """Newton's method on z until rounding ends it; ``room`` is left filled and factored at z."""
    previous = np.inf
    for _ in range(6):
        _place(fixed, moved, time, lift.begin.shape[0], room)
        if not (linearize(lift, z, room) and factor(room.matrix, pivots)):
            return False
        for e in range(z.size):
            change[e] = -room.E[e]
        size = _correction(lift, room, pivots, change)
        # Below 1e-12 the factors are those of the next point as well.
        if not (size > 1e-12 and size < 0.5 * previous):
            break
        for e in range(z.size):
            z[e] += change[e]
        previous = size
    return True


@compiled
def track_states(
    lift: States, points: Complex, begin: Complex, end: Complex, most_steps: int
) -> tuple[Complex, Indices, Indices]:
    """Follow a path from each row of ``points``, a solution for the targets ``begin``, to ``end``.

    Returns the weights at the end points, what became of each path (0: it arrived) and its steps.
    """
    C, d = lift.order.shape
    b, S = lift.begin.shape[0], C * lift.impulse.shape[1]
    room, pivots = new_room(lift), np.empty(S, np.int64)
    base, move = np.empty((C, d), np.complex128), np.empty((C, d), np.complex128)
    for t in range(C):
        for o in range(d):
            base[t, o] = begin[lift.order[t, o]]
            move[t, o] = end[lift.order[t, o]] - base[t, o]
    here, tangent = np.zeros(S, np.complex128), np.zeros(S, np.complex128)
    before, slope = np.zeros(S, np.complex128), np.zeros(S, np.complex128)
    trial, change = np.zeros(S, np.complex128), np.zeros(S, np.complex128)
    fixed, moved = np.zeros_like(room.U[b:]), np.zeros_like(room.U[b:])
    affine_part(lift, base, 1.0, fixed)
    affine_part(lift, move, 0.0, moved)
    out = points.copy()
    status = np.zeros(points.shape[0], np.int64)
    steps = np.zeros(points.shape[0], np.int64)
    for path in range(points.shape[0]):
        free_part(lift, points[path], here)
        time, step, last = 0.0, 0.05, 0.0
        # Far from the origin the states that rounded weights give are only near a solution.
        if not _newton(lift, fixed, moved, 0.0, here, room, pivots, change):
            status[path] = SINGULAR
            continue
        drift(lift, room, moved, tangent)
        _correction(lift, room, pivots, tangent)
        while time < 1.0:
            steps[path] += 1
            if steps[path] > most_steps:
                status[path] = TOO_MANY_STEPS
                break
            step = min(step, 1.0 - time)
            later = time + step if time + step < 1.0 - 1e-12 else 1.0
            predict(here, tangent, before, slope, step, last, trial)
            arrived, first_error, previous = False, 0.0, 0.0
            for turn in range(4):
                _place(fixed, moved, later, b, room)
                if not (linearize(lift, trial, room) and factor(room.matrix, pivots)):
                    break
                for e in range(S):
                    change[e] = -room.E[e]
                size_now = _correction(lift, room, pivots, change)
                if not size_now < np.inf:
                    break
                for e in range(S):
                    trial[e] += change[e]
                if turn == 0:
                    first_error = size_now
                    if size_now > TRUST:
                        break
                elif size_now > 0.5 * previous and size_now > CLOSE:
                    break
                if size_now < CLOSE:
                    arrived = True
                    break
                previous = size_now
            if not arrived:
                step *= 0.3
                if step < SMALLEST_STEP:
                    status[path] = STEP_TOO_SMALL
                    break
                continue
            before[:], slope[:] = here, tangent
            here[:] = trial
            last, time = later - time, later
            # The factors belong to the point before the last correction, which was tiny.
            drift(lift, room, moved, tangent)
            _correction(lift, room, pivots, tangent)
            step = next_step(last, first_error)
        if status[path] == ARRIVED:
            if not _newton(lift, fixed, moved, 1.0, here, room, pivots, change):
                status[path] = SINGULAR
            for e in range(lift.columns.size):
                out[path, lift.labels[e]] = room.weights[e]
    return out, status, steps
