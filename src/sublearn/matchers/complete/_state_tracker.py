"""Following complex solutions of a linear RNN in its states: as ``_tracker.py``, in fewer unknowns.

A Newton step in the states takes an S x S system, S = T b (k - d), instead of one in all r weights, and
the states of far solutions are far better conditioned than their weights.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sublearn._arrays import Array, Complex, Indices
from sublearn._compile import compiled, serves
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
    begin_at,
    correct,
    end_at,
    follow_all,
    tangent_of,
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


class StatePath(NamedTuple):
    """A path in the states: the affine part of the states, and how it moves with the targets."""

    lift: States
    fixed: Complex
    moved: Complex
    settles: bool


class StateRoom(NamedTuple):
    """What is known at one z, and the row exchanges of its Newton matrix."""

    at: Room
    pivots: Indices


@serves(begin_at, StatePath)
@compiled
def _begin(path: StatePath, room: StateRoom, weights: Complex, x: Complex) -> None:
    free_part(path.lift, weights, x)


@serves(correct, StatePath)
@compiled
def _correct(
    path: StatePath, room: StateRoom, here: Complex, x: Complex, time: float, change: Complex
) -> float:
    at, pivots = room.at, room.pivots
    _place(path.fixed, path.moved, time, path.lift.begin.shape[0], at)
    if not (linearize(path.lift, x, at) and factor(at.matrix, pivots)):
        return -1.0
    for e in range(x.size):
        change[e] = -at.E[e]
    return _correction(path.lift, at, pivots, change)


@serves(tangent_of, StatePath)
@compiled
def _tangent(path: StatePath, room: StateRoom, out: Complex) -> None:
    drift(path.lift, room.at, path.moved, out)
    _correction(path.lift, room.at, room.pivots, out)


@serves(end_at, StatePath)
@compiled
def _end(path: StatePath, room: StateRoom, x: Complex, weights: Complex) -> None:
    for e in range(path.lift.columns.size):
        weights[path.lift.labels[e]] = room.at.weights[e]


def track_states(
    lift: States, points: Complex, begin: Complex, end: Complex, most_steps: int
) -> tuple[Complex, Indices, Indices]:
    """Follow a path from each row of ``points``, a solution for the targets ``begin``, to ``end``.

    Returns the weights at the end points, what became of each path (0: it arrived) and its steps.
    """
    unknowns, room = len(lift.unit), new_room(lift)
    b = len(lift.begin)
    fixed, moved = np.zeros_like(room.U[b:]), np.zeros_like(room.U[b:])
    base = begin[lift.order]
    affine_part(lift, base, 1.0, fixed)
    affine_part(lift, end[lift.order] - base, 0.0, moved)
    pivots = np.empty(unknowns, np.int64)
    path = StatePath(lift, fixed, moved, True)
    return follow_all(path, StateRoom(room, pivots), points, unknowns, most_steps)
