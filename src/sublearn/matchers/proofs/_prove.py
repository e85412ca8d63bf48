"""Proofs that a real solution exists near an approximate one.

F(x) = outputs - targets is smooth in the learnable weights, or piecewise smooth (ReLU). From a float64
candidate, Newton's method is run to more and more bits; at each precision the Krawczyk test
(``_krawczyk.py``) is tried on a small box around the point reached. Roots of these systems are badly
conditioned (1e4 to 1e8 is usual) and lie far away, so that the residual of the float64 rounding of a
true root can be anything from 1e-14 to 1e6: it decides nothing, the test does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from sublearn._arrays import Array, Indices
from sublearn._errors import BadInputError
from sublearn.ensembles import Instance
from sublearn.exact import from_floats
from sublearn.matchers._simplify import simplify
from sublearn.matchers.proofs._balls import Ball, BallMatrix, column_vector, precision
from sublearn.matchers.proofs._certificate import Certificate, Kind
from sublearn.matchers.proofs._dyadic import Dyadic, from_ball, from_pairs, to_ball, to_float
from sublearn.matchers.proofs._equations import ChainEquations, RootEquations
from sublearn.matchers.proofs._krawczyk import (
    ball_inverse,
    box,
    contracts,
    float_inverse,
    float_matrix,
    shift,
    spread,
)

FIRST_BITS = 106
STEPS = 12  # Newton steps at one precision


def prove(
    instance: Instance,
    values: ArrayLike,
    max_bits: int = 4096,
    low: ArrayLike | None = None,
) -> Certificate | None:
    """A proof that the instance has a real solution near ``values``, or None if none was found.

    None says nothing about the instance: the candidate may be far from a root, or its root may be
    singular (then no precision helps) or too badly conditioned for ``max_bits``. With r > d m the
    best-conditioned d m learnable weights are freed and the others keep their values; with r < d m
    there is no square system and never a proof.

    ``low``: a candidate known to more digits is ``values + low``. Some roots are so badly conditioned
    that their float64 rounding lies outside the reach of Newton's method.
    """
    x = np.array(values, dtype=np.float64)
    if x.shape != (len(instance.allocation),):
        raise BadInputError(f"values must have shape ({len(instance.allocation)},), not {x.shape}.")
    rest = np.zeros_like(x) if low is None else np.array(low, dtype=np.float64)
    if rest.shape != x.shape:
        raise BadInputError(f"low must have shape {x.shape}, not {rest.shape}.")
    given, instance = instance, simplify(instance)[0]
    if x.size < instance.equations or not (np.isfinite(x).all() and np.isfinite(rest).all()):
        return None
    proof = _prove(instance, x, rest, max_bits)
    return None if proof is None else replace(proof, instance=given)


def _prove(instance: Instance, x: Array, rest: Array, max_bits: int) -> Certificate | None:
    free = free_positions(instance, x)
    if free is None:
        return None
    if not (instance.network.is_linear and instance.network.is_plain):
        centre = from_pairs(x[free], rest[free])
        return _escalate(instance, x, free, centre, FIRST_BITS, max_bits, "krawczyk")
    from sublearn.matchers.proofs._quick import quick_proof

    quick = quick_proof(instance, free, x, rest)
    centre = from_pairs(quick.high, quick.low)
    if quick.radius is not None:
        radius = from_floats(quick.radius)
        return certificate("krawczyk", instance, x, free, centre, radius, FIRST_BITS)
    # Pairs of float64 numbers and 106 bits lose alike.
    bits = FIRST_BITS if quick.near else 2 * FIRST_BITS
    return _escalate(instance, x, free, centre, bits, max_bits, "krawczyk")


def prove_from(
    instance: Instance,
    centre: Sequence[Dyadic],
    bits: int,
    max_bits: int,
    kind: Kind,
    free: Sequence[int] | None = None,
) -> Certificate | None:
    """The same from a point that is known to ``bits`` already; ``free``: the weights that vary."""
    given, instance = instance, simplify(instance)[0]
    x = np.array([to_float(v) for v in centre])
    varied = np.arange(x.size) if free is None else np.array(free, dtype=np.int64)
    if varied.size != instance.equations or not np.isfinite(x).all():
        return None
    middle = [centre[i] for i in varied]
    proof = _escalate(instance, x, varied, middle, bits, max_bits, kind)
    return None if proof is None else replace(proof, instance=given)


def _escalate(
    instance: Instance,
    values: Array,
    free: Indices,
    centre: list[Dyadic],
    bits: int,
    max_bits: int,
    kind: Kind,
) -> Certificate | None:
    with precision(bits):
        chain = ChainEquations(instance, free.tolist(), values)
    lost = 0
    while bits <= max_bits and lost < 2:
        refine = bits > FIRST_BITS
        centre, radius, converged = prove_at(chain, centre, bits, refine)
        if radius is not None:
            return certificate(kind, instance, values, free, centre, radius, bits)
        # More bits help against noise, not against a candidate out of reach or a singular root.
        lost = lost + 1 if refine and not converged else 0
        bits *= 2
    return None


def certificate(
    kind: Kind,
    instance: Instance,
    values: Array,
    free: Indices,
    centre: Sequence[Dyadic],
    radius: Sequence[Dyadic],
    bits: int,
) -> Certificate:
    """The certificate of a box whose centre has ``values`` at the positions that are not free."""
    everywhere = from_floats(values)
    for position, number in zip(free.tolist(), centre, strict=True):
        everywhere[position] = number
    return Certificate(instance, kind, bits, tuple(everywhere), tuple(free.tolist()), tuple(radius))


def free_positions(instance: Instance, values: Array) -> Indices | None:
    """d m positions of learnable weights whose Jacobian columns are well conditioned at ``values``.

    Greedily: the pivots of a QR factorisation with column pivoting, each column scaled by the size of
    its weight, since that is how far the weight may be expected to move.
    """
    size = instance.equations
    if values.size == size:
        return np.arange(size)
    from scipy.linalg import qr

    with np.errstate(all="ignore"):
        jacobian = instance.jacobian(values)
    if not np.isfinite(jacobian).all():
        return None
    rows = np.abs(jacobian).max(axis=1)
    if not rows.all():
        return None
    scale = np.abs(values) + np.abs(values).mean() + 1e-3
    _, _, pivots = qr(jacobian / rows[:, None] * scale, mode="economic", pivoting=True)
    return np.sort(np.asarray(pivots[:size], dtype=np.int64))


def prove_at(
    chain: RootEquations, start: Sequence[Dyadic], bits: int, refine: bool
) -> tuple[list[Dyadic], list[Dyadic] | None, bool]:
    """(centre, radius, converged) at one precision; the radius is None where the test fails.

    ``refine``: the approximate inverse is computed at this precision too, not in float64.
    """
    with precision(bits):
        centre, inverse, converged = _polish(chain, [to_ball(v) for v in start], bits, refine)
        if inverse is None or not converged:
            return list(start), None, converged
        moves = shift(inverse, chain.residual(centre))
        if not largest(moves) < largest(centre) / 2**20:
            return [from_ball(v) for v in centre], None, True
        return [from_ball(v) for v in centre], enclose(chain, centre, inverse, moves, bits), True


def _polish(
    chain: RootEquations, centre: list[Ball], bits: int, refine: bool
) -> tuple[list[Ball], BallMatrix | None, bool]:
    """Newton's method, with a new inverse only where the old one does not contract.

    Returns the point, the last inverse and whether the steps fell to the goal or to the noise of this
    precision, that is, to the radius of the balls.
    """
    inverse: BallMatrix | None = None
    before = np.inf
    for _ in range(STEPS):
        if inverse is None:
            residual, jacobian = chain.linearised(centre)
            inverse = ball_inverse(jacobian) if refine else float_inverse(float_matrix(jacobian))
            if inverse is None:
                return centre, None, False
        else:
            residual = chain.residual(centre)
        balls = (inverse * residual).entries()
        if not all(ball.is_finite() for ball in balls):
            return centre, None, False
        steps = [ball.mid() for ball in balls]
        size = largest(steps)
        if size <= 1024 * largest([ball.rad() for ball in balls]):
            return centre, inverse, True
        relative = float(size / (largest(centre) + 2.0**-1000))
        if relative > 1e6:
            return centre, None, False
        if relative >= before / 2:
            inverse, before = None, np.inf
            continue
        centre = [(x - step).mid() for x, step in zip(centre, steps, strict=True)]
        if relative <= 2.0 ** -min(0.75 * bits, 1000.0):
            return centre, inverse, True
        if relative * (2**16 if refine else 16) > before:
            # Slow: a new inverse costs less than the steps it saves, and the test needs a good one.
            inverse, before = None, np.inf
        else:
            before = relative
    return centre, None, False


def enclose(
    chain: RootEquations, centre: list[Ball], inverse: BallMatrix, moves: list[Ball], bits: int
) -> list[Dyadic] | None:
    """Radii that pass the test, or None, at the working precision.

    The spread is enclosed once, over a box with room around what the moves ask for; it then holds in
    every smaller box, and where the whole box fails, uneven radii are looked for inside it.
    """
    from flint import arb

    if not all(move.is_finite() for move in moves):
        return None
    floor = (largest(centre) + 1) * arb((1, -bits))
    for room in (2**10, 4):
        widest = (largest([*moves, floor]) * room).upper()
        spreads = spread(inverse, chain.linearised(box(centre, [widest] * len(centre)))[1])
        if not all(e.is_finite() for e in spreads.entries()):
            return None
        radius = [widest] * len(centre)
        for _ in range(6):
            if contracts(moves, spreads, radius):
                return [from_ball(rho) for rho in radius]
            images = (spreads * column_vector(radius)).entries()
            radius = [
                ((move + image) * 1.5).upper().min(widest)
                for move, image in zip(moves, images, strict=True)
            ]
    return None


def largest(numbers: Sequence[Ball]) -> Ball:
    """The largest absolute value, as an exact ball; floats would not reach down far enough."""
    out = abs(numbers[0]).upper()
    for number in numbers[1:]:
        out = out.max(abs(number).upper())
    return out
