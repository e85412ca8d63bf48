"""Following complex solutions while the targets move: F(w) = (1 - t) y0 + t y1, t from 0 to 1.

F is the outputs of a linear network. Each path takes steps of its own: a cubic
through the last two points and their tangents predicts, Newton's method corrects, and the size of the
first correction sets the next step.

The loop knows what it follows by three functions, :func:`correct`, :func:`tangent_of` and :func:`end_at`:
those of a path in the weights (``_weights.py``) or in the states (``_states.py``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sublearn._arrays import Complex, Indices, zeros
from sublearn._compile import lean

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


def correct(path: Any, room: Any, here: Complex, x: Complex, time: float, change: Complex) -> float:
    """change <- Newton's correction of x at a time; its size, relative to ``here``; -1: singular."""
    raise NotImplementedError("machine code only: see `serves`")


def tangent_of(path: Any, room: Any, out: Complex) -> None:
    """out <- dx / dt, with the factors of the last correction."""
    raise NotImplementedError("machine code only: see `serves`")


def end_at(path: Any, room: Any, x: Complex, weights: Complex) -> None:
    """weights <- those of the point that was corrected last, x."""
    raise NotImplementedError("machine code only: see `serves`")


@lean
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


@lean
def next_step(last: float, error: float) -> float:
    """The next step after one of size ``last`` with this first correction: its error is of order 4."""
    grow = 3.0 if error < 1e-14 else 0.8 * (0.3 * TRUST / error) ** 0.25
    return float(last * min(3.0, max(0.3, grow)))


@lean
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


@lean
def _follow(
    path: Any,
    room: Any,
    starts: Complex,
    most_steps: int,
    spare: Complex,
    out: Complex,
    status: Indices,
    steps: Indices,
) -> None:
    """See :func:`follow`. ``spare`` is room for six vectors of unknowns."""
    here, tangent, before = spare[0], spare[1], spare[2]
    slope, trial, change = spare[3], spare[4], spare[5]
    size = here.size
    for number in range(starts.shape[0]):
        for e in range(size):
            here[e] = starts[number, e]
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


def follow(
    path: Any, room: Any, starts: Complex, weights: int, most_steps: int
) -> tuple[Complex, Indices, Indices]:
    """Follow a path from each row of ``starts``, the unknowns of a solution for the first targets.

    Returns the ``weights`` numbers at the ends, what became of each path (0: it arrived) and its steps.
    """
    count, unknowns = starts.shape
    out, spare = zeros((count, weights), (6, unknowns), dtype=np.complex128)
    status, steps = zeros(count, count, dtype=np.int64)
    _follow(path, room, starts, most_steps, spare, out, status, steps)
    return out, status, steps


@lean
def largest(vector: Complex) -> float:
    """The largest absolute value; NaN if there is one."""
    most = 0.0
    for e in range(vector.size):
        square = vector[e].real ** 2 + vector[e].imag ** 2
        if square > most or square != square:  # NaN, which is kept
            most = square
    return float(np.sqrt(most))
