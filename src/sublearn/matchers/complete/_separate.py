"""Proofs about complex solutions: that one exists, how far from a point, and that it is not real.

Let x be a point, Y any matrix, and suppose that over all z with |z_i - x_i| <= rho the Jacobian F'(z)
satisfies |I - Y F'(z)| <= E entry by entry, with row sums of E at most q < 1 and

    |Y F(x)|_i + q rho < rho   for all i.

Then z -> z - Y F(z) maps this polydisc into itself and contracts, since the mean of F' over a segment
lies in the convex enclosure of its values; so F has exactly one solution there, its Jacobian is
regular, and it lies within max_i |Y F(x)|_i / (1 - q) of x. Everything is computed in complex balls on
the exact numbers of the instance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sublearn._arrays import Complex, Indices
from sublearn.matchers.proofs._balls import precision
from sublearn.matchers.proofs._equations import RootEquations
from sublearn.matchers.proofs._krawczyk import ball_inverse, finite_inverse
from sublearn.matchers.proofs._prove import largest

FIRST_BITS = 128
_TURNS = 40


@dataclass(frozen=True, eq=False)
class Enclosure:
    """A solution lies within ``radius`` of ``centre``, coordinate by coordinate, and is simple.

    ``centre`` is rounded to complex128 and ``radius`` holds the rounding. ``real`` is False if the
    solution is proved not to be real, None if that is open.
    """

    centre: Complex
    radius: float
    real: bool | None
    bits: int


def enclose(equations: RootEquations, point: Complex, max_bits: int) -> Enclosure | None:
    """A solution near ``point``, enclosed tightly enough to tell whether it is real, or None.

    ``equations`` are in complex balls.

    The precision grows until the solution is enclosed and proved not to be real, or ``max_bits`` is
    reached: a real solution is never proved not to be, so it costs all of them.
    """
    best, bits = None, FIRST_BITS
    while bits <= max_bits:
        with precision(bits):
            attempt = _enclose_at(equations, point, bits)
        if attempt is not None:
            best = attempt
            if best.real is False:
                break
        bits *= 2
    return best


def _enclose_at(equations: RootEquations, point: Complex, bits: int) -> Enclosure | None:
    from flint import acb, arb

    centre = [acb(complex(z).real, complex(z).imag) for z in point]
    scale = float(np.abs(point).max())
    _, slopes = equations.linearised(centre)
    inverse = _float_inverse(slopes) if bits == FIRST_BITS else None
    if inverse is None:
        inverse = ball_inverse(slopes)
    if inverse is None:
        return None
    before = np.inf
    for _ in range(_TURNS):
        moves = (inverse * equations.residual(centre)).mid().entries()
        size = max(float(abs(move).upper()) for move in moves)
        if not size < 0.5 * before:
            break
        before = size
        centre = [(x - move).mid() for x, move in zip(centre, moves, strict=True)]
    moves = (inverse * equations.residual(centre)).entries()
    shift = largest(moves)
    if not shift.is_finite():
        return None
    for room in (2.0**20, 2.0**6):
        rho = (shift * room + arb(scale) * arb((1, -bits // 2))).upper()
        box = [acb(arb(x.real, rho), arb(x.imag, rho)) for x in centre]
        size = len(centre)
        spread = inverse * equations.linearised(box)[1]
        rows = spread.tolist()
        sums = [
            sum((abs(rows[i][j] - (1 if i == j else 0)) for j in range(size)), arb(0))
            for i in range(size)
        ]
        q = largest(sums)
        if not (q.is_finite() and q < 1 and shift + q * rho < rho):
            continue
        radius = (shift / (1 - q)).upper()
        apart = any(bool(abs(x.imag) > radius) for x in centre)
        rounded = np.array([complex(float(x.real), float(x.imag)) for x in centre])
        # Rounding to float64 moves a coordinate by at most 2^-53 of it; this is far more.
        wide = float(radius.upper()) * (1 + 1e-9) + float(np.abs(rounded).max()) * 2.0**-50
        return Enclosure(rounded, wide, False if apart else None, bits)
    return None


def _float_inverse(jacobian: Any) -> Any | None:
    """An approximate inverse by float64 arithmetic; None if it is of no use."""
    from flint import acb, acb_mat

    size = jacobian.nrows()
    values = np.array(
        [complex(float(v.real.mid()), float(v.imag.mid())) for v in jacobian.entries()]
    )
    matrix: Complex = values.reshape(size, size)
    inverse = finite_inverse(matrix)
    if inverse is None or np.linalg.norm(inverse) * np.linalg.norm(matrix) > 1e12:
        return None
    return acb_mat(size, size, [acb(z.real, z.imag) for z in inverse.ravel().tolist()])


def separated(enclosures: list[Enclosure]) -> Indices:
    """Positions whose solution is not proved to differ from that, or its conjugate, of an earlier one."""
    centres = np.array([e.centre for e in enclosures])
    radii = np.array([e.radius for e in enclosures])
    unclear = []
    for k in range(1, len(enclosures)):
        limit = (radii[:k] + radii[k]) * (1 + 1e-9)
        for other in (centres[k], centres[k].conj()):
            gaps = np.abs(centres[:k] - other).max(axis=1) * (1 - 1e-9)
            if not (gaps > limit).all():  # so that NaN is not taken for a distance
                unclear.append(k)
                break
    return np.array(unclear, dtype=np.int64)
