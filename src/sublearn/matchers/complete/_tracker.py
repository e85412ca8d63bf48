"""Following complex solutions while the targets move: F(w) = (1 - t) y0 + t y1, t from 0 to 1.

F is the outputs of a product form (``_product.py``). Each path takes steps of its own: a cubic
through the last two points and their tangents predicts, Newton's method corrects, and the size of the
first correction sets the next step.

The loop knows what it follows by four functions, :func:`begin_at`, :func:`correct`, :func:`tangent_of` and
:func:`end_at`. Here they are those of a path in the weights; ``_state_tracker.py`` has those of a path in
the states.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sublearn._arrays import Array, Complex, Indices
from sublearn._compile import compiled, serves
from sublearn.matchers.complete._product_kernel import evaluate_into, factor, largest, solve, space

ARRIVED = 0
TOO_MANY_STEPS = 1
STEP_TOO_SMALL = 2
SINGULAR = 3

# Largest first correction, relative to the point, at which a prediction is accepted. Far larger than a
# tracker that must not jump could allow: a path that jumps does no harm here.
TRUST = 1e-2
# A corrected point is accepted when the last correction is below this, relative to the point.
CLOSE = 1e-6
SMALLEST_STEP = 1e-14


def begin_at(path: Any, room: Any, weights: Complex, x: Complex) -> None:
    """x <- the unknowns of a solution that is given by its weights."""
    raise NotImplementedError("machine code only: see `serves`")


def correct(path: Any, room: Any, here: Complex, x: Complex, time: float, change: Complex) -> float:
    """change <- Newton's correction of x at a time; its size, relative to ``here``; -1: singular."""
    raise NotImplementedError("machine code only: see `serves`")


def tangent_of(path: Any, room: Any, out: Complex) -> None:
    """out <- dx / dt, with the factors of the last correction."""
    raise NotImplementedError("machine code only: see `serves`")


def end_at(path: Any, room: Any, x: Complex, weights: Complex) -> None:
    """weights <- those of the point that was corrected last, x."""
    raise NotImplementedError("machine code only: see `serves`")


@compiled
def predict(
    here: Complex,
    tangent: Complex,
    before: Complex,
    slope: Complex,
    step: float,
    last: float,
    out: Complex,
) -> None:
    """out <- the cubic through (before, slope) at time -last and (here, tangent) at 0, at time step.

    With last = 0 there is no point before, and the tangent is followed.
    """
    if last > 0.0:
        s = step / last
        for i in range(here.size):
            gap = before[i] - here[i]
            square = 3.0 * gap + last * (slope[i] + 2.0 * tangent[i])
            cube = 2.0 * gap + last * (slope[i] + tangent[i])
            out[i] = here[i] + s * (last * tangent[i] + s * (square + s * cube))
    else:
        for i in range(here.size):
            out[i] = here[i] + step * tangent[i]


@compiled
def next_step(last: float, error: float) -> float:
    """The next step after one of size ``last`` with this first correction: its error is of order 4."""
    grow = 3.0 if error < 1e-14 else 0.8 * (0.3 * TRUST / error) ** 0.25
    return float(last * min(3.0, max(0.3, grow)))


@compiled
def polish(
    buffer: Complex,
    layout: Indices,
    chain: Indices,
    heads: Indices,
    where: Indices,
    mix: Complex,
    points: Complex,
    targets: Complex,
) -> tuple[Complex, Array]:
    """Newton's method at each row of ``points`` until rounding ends it.

    Returns the points and their last corrections, relative to the point; infinite where it fails.
    """
    size = where.shape[0]
    own = buffer.copy()
    states, lefts, raw = space(layout, chain, heads)
    values, matrix = np.empty(size, np.complex128), np.empty((size, size), np.complex128)
    pivots = np.empty(size, np.int64)
    out = points.copy()
    error = np.full(points.shape[0], np.inf)
    for path in range(points.shape[0]):
        here = out[path]
        scale = max(largest(here), 1e-300)
        for _ in range(6):
            evaluate_into(
                own, layout, chain, heads, where, mix, here, states, lefts, raw, values, matrix
            )
            if not factor(matrix, pivots):
                break
            for i in range(size):
                values[i] = targets[i] - values[i]
            solve(matrix, pivots, values)
            size_now = largest(values) / scale
            if not size_now < 0.5 * error[path]:
                break
            for i in range(size):
                here[i] += values[i]
            error[path] = size_now
    return out, error


@compiled
def _settle(path: Any, room: Any, x: Complex, time: float, change: Complex) -> bool:
    """Newton's method on x until rounding ends it; the last factors are those at x."""
    previous = np.inf
    for _ in range(6):
        size = correct(path, room, x, x, time, change)
        if size < 0.0:
            return False
        # Below 1e-12 the factors are those of the next point as well.
        if not (size > 1e-12 and size < 0.5 * previous):
            break
        for e in range(x.size):
            x[e] += change[e]
        previous = size
    return True


@compiled
def follow(
    path: Any,
    room: Any,
    points: Complex,
    most_steps: int,
    spare: Complex,
    out: Complex,
    status: Indices,
    steps: Indices,
) -> None:
    """Follow a path from each row of ``points``: its end, what became of it (0: it arrived), its steps.

    ``spare`` is room for six vectors of unknowns.
    """
    here, tangent, before = spare[0], spare[1], spare[2]
    slope, trial, change = spare[3], spare[4], spare[5]
    size = here.size
    for number in range(points.shape[0]):
        begin_at(path, room, points[number], here)
        time, step, last = 0.0, 0.05, 0.0
        # Far from the origin the states that rounded weights give are only near a solution.
        if path.settles:
            regular = _settle(path, room, here, 0.0, change)
        else:
            regular = not correct(path, room, here, here, 0.0, change) < 0.0
        if not regular:
            status[number] = SINGULAR
            continue
        tangent_of(path, room, tangent)
        while time < 1.0:
            steps[number] += 1
            if steps[number] > most_steps:
                status[number] = TOO_MANY_STEPS
                break
            step = min(step, 1.0 - time)
            later = time + step if time + step < 1.0 - 1e-12 else 1.0
            predict(here, tangent, before, slope, step, last, trial)
            arrived, first_error, previous = False, 0.0, 0.0
            for turn in range(4):
                error = correct(path, room, here, trial, later, change)
                if not (error >= 0.0 and error < np.inf):
                    break
                for e in range(size):
                    trial[e] += change[e]
                if turn == 0:
                    first_error = error
                    if error > TRUST:
                        break
                elif error > 0.5 * previous and error > CLOSE:
                    break
                if error < CLOSE:
                    arrived = True
                    break
                previous = error
            if not arrived:
                step *= 0.3
                if step < SMALLEST_STEP:
                    status[number] = STEP_TOO_SMALL
                    break
                continue
            for e in range(size):
                before[e], slope[e], here[e] = here[e], tangent[e], trial[e]
            last, time = later - time, later
            # The factors belong to the point before the last correction, which was tiny.
            tangent_of(path, room, tangent)
            step = next_step(last, first_error)
        if status[number] == ARRIVED:
            if path.settles and not _settle(path, room, here, 1.0, change):
                status[number] = SINGULAR
            end_at(path, room, here, out[number])


def follow_all(
    path: Any, room: Any, points: Complex, unknowns: int, most_steps: int
) -> tuple[Complex, Indices, Indices]:
    """:func:`follow` with room of its own: the ends, what became of each path, its steps."""
    out, spare = points.copy(), np.zeros((6, unknowns), np.complex128)
    status, steps = np.zeros(len(points), np.int64), np.zeros(len(points), np.int64)
    follow(path, room, points, most_steps, spare, out, status, steps)
    return out, status, steps


class WeightPath(NamedTuple):
    """A path in the weights themselves: the parts of a chain, and how the targets move."""

    buffer: Complex
    layout: Indices
    chain: Indices
    heads: Indices
    where: Indices
    mix: Complex
    begin: Complex
    move: Complex
    settles: bool  # no: what is polished already is a solution


class WeightRoom(NamedTuple):
    """Room for one evaluation and its linear system."""

    states: Complex
    lefts: Complex
    raw: Complex
    values: Complex
    matrix: Complex
    pivots: Indices


@serves(begin_at, WeightPath)
@compiled
def _begin(path: WeightPath, room: WeightRoom, weights: Complex, x: Complex) -> None:
    for e in range(x.size):
        x[e] = weights[e]


@serves(end_at, WeightPath)
@compiled
def _end(path: WeightPath, room: WeightRoom, x: Complex, weights: Complex) -> None:
    for e in range(x.size):
        weights[e] = x[e]


@serves(correct, WeightPath)
@compiled
def _correct(
    path: WeightPath, room: WeightRoom, here: Complex, x: Complex, time: float, change: Complex
) -> float:
    evaluate_into(
        path.buffer, path.layout, path.chain, path.heads, path.where, path.mix, x,
        room.states, room.lefts, room.raw, room.values, room.matrix,
    )  # fmt: skip
    if not factor(room.matrix, room.pivots):
        return -1.0
    for i in range(x.size):
        change[i] = path.begin[i] + time * path.move[i] - room.values[i]
    solve(room.matrix, room.pivots, change)
    return largest(change) / max(largest(here), 1e-300)


@serves(tangent_of, WeightPath)
@compiled
def _tangent(path: WeightPath, room: WeightRoom, out: Complex) -> None:
    for i in range(out.size):
        out[i] = path.move[i]
    solve(room.matrix, room.pivots, out)


def track(
    buffer: Complex,
    layout: Indices,
    chain: Indices,
    heads: Indices,
    where: Indices,
    mix: Complex,
    points: Complex,
    begin: Complex,
    end: Complex,
    most_steps: int,
) -> tuple[Complex, Indices, Indices, Array]:
    """Follow a path from each row of ``points``, a solution for the targets ``begin``, to ``end``.

    Returns the end points, what became of each path (0: it arrived), the steps it took, and the last
    Newton correction at the end, relative to the point; of a path that did not arrive, nonsense.
    """
    size = len(where)
    path = WeightPath(buffer.copy(), layout, chain, heads, where, mix, begin, end - begin, False)
    matrix, values = np.empty((size, size), np.complex128), np.empty(size, np.complex128)
    room = WeightRoom(*space(layout, chain, heads), values, matrix, np.empty(size, np.int64))
    out, status, steps = follow_all(path, room, points, size, most_steps)
    out, error = polish(buffer, layout, chain, heads, where, mix, out, end)
    return out, status, steps, error
