"""Points that come within eps: found in float64, proved by running the network in balls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from sublearn._arrays import Array
from sublearn.matchers._decision import Effort
from sublearn.matchers._nonlinear import descents
from sublearn.matchers.proofs._balls import Ball, precision
from sublearn.matchers.proofs._equations import ChainEquations
from sublearn.matchers.within._bands import BITS

if TYPE_CHECKING:
    from sublearn.ensembles import Instance


PRECISIONS = (BITS, 512, 2048)
LARGEST_PROGRAM = 2**18  # entries of the linear program of a polishing step
POLISHED = 4  # starts of a block that are polished, the best first
STEPS = 40  # of polishing
MOST_POLISH = 2**24  # entries of all linear programs of polishing together


def largest_error(instance: Instance, values: Array, eps: float) -> float | None:
    """A proved bound on max |output - target| at these float64 weights, if it is at most eps.

    >>> import numpy as np, sublearn as sl
    >>> net = sl.LinearEstimator(inputs=1, outputs=1)
    >>> held = sl.Allocation.whole(net)
    >>> given = sl.Instance(net, held, {"W": np.zeros((1, 1))}, np.ones((1, 1)), np.array([[0.3]]))
    >>> largest_error(given, np.array([0.25]), 0.06) < 0.051
    True
    >>> largest_error(given, np.array([0.25]), 0.04) is None
    True
    """
    if not np.isfinite(values).all():
        return None
    # Far off in float64 is far off: balls are for what may be near.
    with np.errstate(all="ignore"):
        rough = float(np.abs(instance.residual(values)).max())
    if rough > 2 * eps and rough > 1e-6 * float(np.abs(instance.targets).max()):
        return None
    for bits in PRECISIONS:
        with precision(bits):
            worst = _worst(instance, values)
            if not worst.is_finite() or worst > eps:
                return None
            if worst <= eps:
                return min(float(np.nextafter(float(worst.upper()), np.inf)), eps)
    return None


def _worst(instance: Instance, values: Array) -> Ball:
    """max |output - target| as a ball."""
    from flint import arb

    worst = arb(0)
    for error in ChainEquations(instance).residual([arb(x) for x in values.tolist()]).entries():
        worst = worst.max(abs(error))
    return worst


def near_points(
    instance: Instance, eps: float, starts: int, iterations: int, rng: np.random.Generator
) -> Iterator[tuple[Array | None, Effort]]:
    """Points worth a proof, from Levenberg-Marquardt and then the largest error alone; None per block.

    Levenberg-Marquardt lowers the mean square. Weights within eps have a mean square of at most eps^2,
    so a local minimum above that is left alone; below it, the largest error is what is lowered.
    """
    size = len(instance.allocation)
    yield np.zeros(size), Effort()
    with np.errstate(over="ignore", under="ignore"):
        square = float(np.square(np.float64(eps)))
        goal = 0.99 * square / instance.equations
    if not (goal > 0 and np.isfinite(square)):
        return  # no descent can be steered by squares that float64 does not hold
    polishing = Effort()
    programs = MOST_POLISH // (instance.equations * (size + 1))
    for block, before in descents(instance, starts, iterations, goal, rng):
        spent = before + Effort(len(block.loss), int(block.steps.sum()))
        order = np.argsort(np.where(np.isfinite(block.loss), block.loss, np.inf))
        for number in order[:POLISHED]:
            if not block.loss[number] <= square:
                break
            most = min(STEPS, programs - polishing.iterations)
            polished, more = minimax(instance, block.values[number], eps, most)
            polishing += Effort(iterations=more)
            yield polished, spent + polishing
        yield None, spent + polishing


def minimax(instance: Instance, values: Array, eps: float, most: int) -> tuple[Array, int]:
    """Weights with a smaller largest error, by ``most`` linear programs; and how many were solved.

    Each step minimises the largest linearised error over a box, which grows after a step that did what
    was promised and shrinks after one that did not (Madsen 1975).
    """
    from scipy.optimize import linprog

    x = np.array(values)
    r = x.size
    worst = float(np.abs(instance.residual(x)).max())
    if instance.equations * (r + 1) > LARGEST_PROGRAM or not np.isfinite(worst):
        return x, 0
    radius = 0.1
    for step in range(most):
        if worst <= eps * (1 - 1e-9):
            return x, step
        f = instance.residual(x).ravel()
        table = instance.jacobian(x) / worst
        if not np.isfinite(table).all():
            return x, step
        ones = np.ones((f.size, 1))
        box = radius * (np.abs(x) + np.abs(x).max(initial=0.0) * 1e-3 + 1e-3)
        solved = linprog(
            np.r_[np.zeros(r), 1.0],
            A_ub=np.block([[table * box, -ones], [-table * box, -ones]]),
            b_ub=np.r_[-f / worst, f / worst],
            bounds=[(-1.0, 1.0)] * r + [(0.0, None)],
            method="highs",
        )
        if solved.status != 0:
            return x, step + 1
        promised = worst * (1.0 - float(solved.fun))
        moved = x + box * np.asarray(solved.x[:r])
        now = float(np.abs(instance.residual(moved)).max())
        if now < worst:
            gain = worst - now
            x, worst = moved, now
            radius *= 2.0 if gain > 0.5 * promised else 1.0
            if gain < 1e-6 * worst and worst > eps:
                return x, step + 1
        else:
            radius *= 0.25
            if radius < 1e-9:
                return x, step + 1
    return x, most
