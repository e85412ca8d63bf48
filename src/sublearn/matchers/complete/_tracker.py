"""Following complex solutions while the targets move: F(w) = (1 - t) y0 + t y1, t from 0 to 1.

F is the outputs of a product form (``_product.py``). Each path takes steps of its own: a cubic
through the last two points and their tangents predicts, Newton's method corrects, and the size of the
first correction sets the next step.
"""

from __future__ import annotations

import numpy as np

from sublearn._arrays import Array, Complex, Indices
from sublearn._compile import compiled
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
    size = where.shape[0]
    own = buffer.copy()
    states, lefts, raw = space(layout, chain, heads)
    move = end - begin
    values, matrix = np.empty(size, np.complex128), np.empty((size, size), np.complex128)
    pivots = np.empty(size, np.int64)
    here, tangent = np.empty(size, np.complex128), np.empty(size, np.complex128)
    before, slope = np.empty(size, np.complex128), np.empty(size, np.complex128)
    trial = np.empty(size, np.complex128)
    out = points.copy()
    status = np.zeros(points.shape[0], np.int64)
    steps = np.zeros(points.shape[0], np.int64)
    for path in range(points.shape[0]):
        here[:] = points[path]
        time, step, last = 0.0, 0.05, 0.0
        evaluate_into(
            own, layout, chain, heads, where, mix, here, states, lefts, raw, values, matrix
        )
        if not factor(matrix, pivots):
            status[path] = SINGULAR
            continue
        tangent[:] = move
        solve(matrix, pivots, tangent)
        while time < 1.0:
            steps[path] += 1
            if steps[path] > most_steps:
                status[path] = TOO_MANY_STEPS
                break
            step = min(step, 1.0 - time)
            later = time + step if time + step < 1.0 - 1e-12 else 1.0
            predict(here, tangent, before, slope, step, last, trial)
            scale = max(largest(here), 1e-300)
            arrived, first_error, previous = False, 0.0, 0.0
            for turn in range(4):
                evaluate_into(
                    own, layout, chain, heads, where, mix, trial, states, lefts, raw, values, matrix
                )
                if not factor(matrix, pivots):
                    break
                for i in range(size):
                    values[i] = begin[i] + later * move[i] - values[i]
                solve(matrix, pivots, values)
                size_now = largest(values) / scale
                if not size_now < np.inf:
                    break
                for i in range(size):
                    trial[i] += values[i]
                if turn == 0:
                    first_error = size_now
                    if size_now > TRUST:
                        break
                elif size_now > 0.5 * previous and size_now > 1e-6:
                    break
                # The second clause: rounding does not let the corrections become smaller.
                if size_now < CLOSE or (turn > 1 and size_now < 1e-6):
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
            tangent[:] = move
            # The factors belong to the point before the last correction, which was tiny.
            solve(matrix, pivots, tangent)
            step = next_step(last, first_error)
        if status[path] == ARRIVED:
            out[path] = here
    out, error = polish(buffer, layout, chain, heads, where, mix, out, end)
    return out, status, steps, error
