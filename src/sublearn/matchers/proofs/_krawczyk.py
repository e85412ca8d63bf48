"""The Krawczyk test: a proof that a square system has exactly one root in a box.

Let F be a square system of continuously differentiable functions, x a point, X the box of all points
within radius rho_i of x_i, Y any matrix, F'(X) an enclosure of the Jacobian over X. If

    |Y F(x)| + |I - Y F'(X)| rho < rho    (entry by entry)

then x - Y F(x) + (I - Y F'(X)) (X - x) lies in the interior of X, so F has exactly one root in X, it
is real, and the Jacobian is regular there (Krawczyk, Computing 4, 1969; Rump, "Verification
methods", Acta Numerica 19, 2010). Y is usually an approximate inverse of F'(x), but nothing is
assumed about it: a bad Y can only make the test fail.

The proof needs one thing of F'(X): for any two points of X, F(y) - F(z) = A (y - z) with some A in it.
So F may have kinks (ReLU), if F'(X) encloses Clarke's generalised Jacobian over X (Clarke,
Optimization and Nonsmooth Analysis, 1983, Proposition 2.6.5).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sublearn._arrays import Array, Floats
from sublearn.matchers.proofs._balls import Ball, BallMatrix, ball_matrix, column_vector


def box(centre: Sequence[Ball], radius: Sequence[Ball]) -> list[Ball]:
    """The balls around the centre. Radii are rounded up where they have more than 30 bits."""
    from flint import arb

    return [arb(x, rho) for x, rho in zip(centre, radius, strict=True)]


def spread(inverse: BallMatrix, jacobian: BallMatrix) -> BallMatrix:
    """Upper bounds of |I - Y J|, entry by entry, as exact balls."""
    from flint import arb_mat

    size = inverse.nrows()
    identity = ball_matrix(np.eye(size))
    return arb_mat(size, size, [e.abs_upper() for e in (identity - inverse * jacobian).entries()])


def shift(inverse: BallMatrix, residual: BallMatrix) -> list[Ball]:
    """Upper bounds of |Y F(x)|, entry by entry, as exact balls."""
    return [e.abs_upper() for e in (inverse * residual).entries()]


def contracts(moves: Sequence[Ball], spreads: BallMatrix, radius: Sequence[Ball]) -> bool:
    """Whether moves + spreads radius < radius certainly holds, entry by entry."""
    images = (spreads * column_vector(radius)).entries()
    # A comparison of balls is true only if it holds for all their numbers; with NaN it is false.
    return all(
        bool(move + image < rho) for move, image, rho in zip(moves, images, radius, strict=True)
    )


def float_matrix(matrix: BallMatrix) -> Array:
    """Midpoints rounded to float64; infinite where they do not fit."""
    values = [float(e.mid()) if e.is_finite() else np.inf for e in matrix.entries()]
    return np.array(values).reshape(matrix.nrows(), matrix.ncols())


def float_inverse(jacobian: Array) -> BallMatrix | None:
    """An approximate inverse from float64, or None where float64 finds none.

    Rows and columns are scaled by powers of two first: roots far away make them very uneven, and a
    power of two costs no digit.
    """
    rows = _powers(np.abs(jacobian).max(axis=1))
    columns = _powers(np.abs(jacobian * rows[:, None]).max(axis=0))
    inverse = finite_inverse(jacobian * rows[:, None] * columns[None, :])
    if inverse is None:
        return None
    inverse = inverse * columns[:, None] * rows[None, :]
    return ball_matrix(inverse) if np.isfinite(inverse).all() else None


def finite_inverse(matrix: Floats) -> Floats | None:
    """The inverse of real or complex numbers as float64 finds it; None where it finds none."""
    if not np.isfinite(matrix).all():
        return None
    try:
        inverse = np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        return None
    return inverse if np.isfinite(inverse).all() else None


def _powers(sizes: Array) -> Array:
    with np.errstate(over="ignore"):
        scale = np.ldexp(1.0, -np.frexp(sizes)[1])
    return np.where(np.isfinite(scale) & (sizes > 0) & np.isfinite(sizes), scale, 1.0)


def ball_inverse(jacobian: BallMatrix) -> BallMatrix | None:
    """An approximate inverse at the working precision, or None where a pivot vanishes."""
    try:
        identity = type(jacobian)(ball_matrix(np.eye(jacobian.nrows())))
        inverse = jacobian.mid().solve(identity, algorithm="approx").mid()
    except ZeroDivisionError:
        return None
    return inverse if all(e.is_finite() for e in inverse.entries()) else None
