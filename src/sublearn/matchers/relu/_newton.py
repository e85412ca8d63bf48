"""Newton's method on a piecewise linear system: solve for one pattern, look which pattern comes out.

F(x) = W2^1 relu(z(x)) - R is linear wherever no z changes sign. A step solves the linear system of
the current pattern (damped, so that singular ones do no harm) and is shortened until the residual
falls; a full step that keeps its pattern is a solution.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from sublearn._arrays import Array, Mask
from sublearn.patterns._system import System, to_float

if TYPE_CHECKING:
    from collections.abc import Iterator


SCALES = (1.0, 3.0, 0.3, 10.0)  # sizes of starts, taken in turn
GOAL = 1e-20  # sum of squares, relative to the targets


@njit(cache=True, nogil=True)
def _residual(x, slopes, frozen, readout, rest, before, out):  # type: ignore[no-untyped-def]
    k, m = frozen.shape
    d = readout.shape[0]
    total = 0.0
    for i in range(k):
        for s in range(m):
            z = frozen[i, s]
            for a in range(x.size):
                z += slopes[i, s, a] * x[a]
            before[i, s] = z
    for s in range(m):
        for o in range(d):
            value = -rest[o, s]
            for i in range(k):
                if before[i, s] > 0.0:
                    value += readout[o, i] * before[i, s]
            out[s * d + o] = value
            total += value * value
    return total


@njit(cache=True, nogil=True)
def descend(x, slopes, frozen, readout, rest, goal, iterations):  # type: ignore[no-untyped-def]
    """Steps from ``x``, in place. Returns (sum of squares, steps)."""
    k, m = frozen.shape
    d, r = readout.shape[0], x.size
    before, spare = np.empty((k, m)), np.empty((k, m))
    residual, trial = np.empty(d * m), np.empty(d * m)
    jacobian = np.empty((d * m, r))
    damping = 1e-3
    cost = _residual(x, slopes, frozen, readout, rest, before, residual)
    for step in range(iterations):
        if cost <= goal:
            return cost, step
        for s in range(m):
            for o in range(d):
                for a in range(r):
                    value = 0.0
                    for i in range(k):
                        if before[i, s] > 0.0:
                            value += readout[o, i] * slopes[i, s, a]
                    jacobian[s * d + o, a] = value
        normal = jacobian.T @ jacobian
        for a in range(r):
            normal[a, a] += damping
        move = np.linalg.solve(normal, jacobian.T @ residual)
        length, better = 1.0, False
        for _ in range(5):
            following = x - length * move
            fresh = _residual(following, slopes, frozen, readout, rest, spare, trial)
            if fresh < cost * (1.0 - 1e-4 * length):
                better = True
                break
            length *= 0.4
        if better:
            slow = step > 30 and fresh > cost * (1.0 - 1e-6)
            x[:] = following
            cost = fresh
            before[:], residual[:] = spare, trial
            damping = max(damping * (0.2 if length == 1.0 else 1.0), 1e-14)
            if slow:
                return cost, step + 1
        else:
            damping = max(damping, 1e-8) * 6.0
            if damping > 1e8:
                return cost, step + 1
    return cost, iterations


def candidate_patterns(
    system: System, starts: int, iterations: int, rng: np.random.Generator
) -> Iterator[tuple[Mask | None, int, int]]:
    """After every start: the pattern of a solution in float64, or None; starts and steps so far."""
    k, m, r = system.k, system.m, system.size
    inputs = _floats(system.inputs)
    readout, rest, frozen = _floats(system.readout), _floats(system.rest), _floats(system.frozen)
    slopes = np.zeros((k, m, r))
    for i in range(k):
        for j, place in zip(system.columns[i], system.places[i], strict=True):
            slopes[i, :, place] = inputs[j]
    goal = GOAL * float((rest**2).sum() or 1.0)
    steps = 0
    for start in range(starts):
        x = rng.standard_normal(r) * SCALES[start % len(SCALES)] / np.sqrt(len(inputs))
        try:
            cost, used = descend(x, slopes, frozen, readout, rest, goal, iterations)
        except np.linalg.LinAlgError:  # numbers so far apart that the damping is lost in them
            cost, used = np.inf, 0
        steps += int(used)
        solved = cost <= goal
        yield (slopes @ x + frozen > 0 if solved else None), start + 1, steps


def _floats(table: list[list[object]]) -> Array:
    return np.array([[to_float(x) for x in row] for row in table])
