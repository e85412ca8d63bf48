"""Arb balls: numbers of any precision that hold the truth, and the numbers of an instance in them.

A ball is an exact midpoint with a radius; every operation returns a ball that holds the true result
for all numbers in its arguments (Johansson, "Arb: efficient arbitrary-precision midpoint-radius
interval arithmetic", IEEE Trans. Comput. 66, 2017). The numbers of an instance enter exactly; targets
that tanh or sigmoid units of a teacher make are enclosed at the working precision.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from sublearn._arrays import Array
from sublearn._errors import BadInputError
from sublearn.ensembles import Instance, Teacher, split_rows
from sublearn.exact import Dyadics
from sublearn.networks import evaluate

# python-flint carries no types: these are arb and arb_mat.
Ball = Any
BallMatrix = Any

# The precision of flint is one number for the whole process. Two threads that change it would stay
# correct, since balls are, but no longer reproducible.
_LOCK = threading.RLock()


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Work at so many bits, alone, and put the old precision back whatever happens."""
    from flint import ctx

    with _LOCK:
        before = ctx.prec
        ctx.prec = bits
        try:
            yield
        finally:
            ctx.prec = before


class Ring(Protocol):
    """Flint matrices over balls, or over another ring with 1/2: how to make them."""

    def exact(self, values: Array | Dyadics) -> BallMatrix:
        """A matrix of whole numbers times powers of 2, as float64 numbers are, without rounding."""

    def matrix(self, rows: int, columns: int, entries: Sequence[Ball]) -> BallMatrix:
        """A matrix of given entries, row by row."""


class Balls:
    """The ring of balls, real or complex."""

    def __init__(self, is_complex: bool = False) -> None:
        self.is_complex = is_complex

    def exact(self, values: Array | Dyadics) -> BallMatrix:
        if isinstance(values, Dyadics):
            return self.enclosing(values.balls())
        rows, columns = values.shape
        return self.matrix(rows, columns, values.ravel().tolist())

    def matrix(self, rows: int, columns: int, entries: Sequence[Ball]) -> BallMatrix:
        from flint import acb_mat, arb_mat

        return (acb_mat if self.is_complex else arb_mat)(rows, columns, entries)

    def stacked(self, parts: Sequence[BallMatrix]) -> BallMatrix:
        """One matrix above the other."""
        entries = [entry for part in parts for entry in part.entries()]
        return self.matrix(sum(part.nrows() for part in parts), parts[0].ncols(), entries)

    def part(self, matrix: BallMatrix, rows: Sequence[int], columns: Sequence[int]) -> BallMatrix:
        """Some rows and columns of a matrix, in this order."""
        width, entries = matrix.ncols(), matrix.entries()
        kept = [entries[i * width + k] for i in rows for k in columns]
        return self.matrix(len(rows), len(columns), kept)

    def met(self, matrix: BallMatrix, rows: Sequence[int]) -> list[int]:
        """The columns in which one of these rows has an entry other than 0."""
        width, entries = matrix.ncols(), matrix.entries()
        return [k for k in range(width) if not all(entries[i * width + k].is_zero() for i in rows)]

    def enclosing(self, balls: BallMatrix) -> BallMatrix:
        """Real balls as matrices of this ring."""
        from flint import acb_mat

        return acb_mat(balls) if self.is_complex else balls


BALLS = Balls()
COMPLEX_BALLS = Balls(is_complex=True)
ball_matrix = BALLS.exact


def tanh(x: Ball) -> tuple[Ball, Ball]:
    """(phi, phi') of tanh: phi' = sech^2, which loses no digits where 1 - tanh^2 does."""
    return x.tanh(), x.sech() ** 2


def sigmoid(x: Ball) -> tuple[Ball, Ball]:
    """(phi, phi') of 1 / (1 + e^-x)."""
    return 1 / (1 + (-x).exp()), (x / 2).sech() ** 2 / 4


def relu(x: Ball) -> tuple[Ball, Ball]:
    """(phi, phi') of max(x, 0); phi' is the ball [0, 1] where the sign of x is not known."""
    from flint import arb

    if x > 0:
        return x, arb(1)
    if x < 0:
        return arb(0), arb(0)
    return x.max(arb(0)), arb(0.5, 0.5)


BENT: dict[str, Callable[[Ball], tuple[Ball, Ball]]] = {
    "tanh": tanh,
    "sigmoid": sigmoid,
    "relu": relu,
}


def input_blocks(instance: Instance, ring: Ring) -> list[BallMatrix]:
    """The input blocks of an instance in a ring, as they are."""
    if not instance.inputs_are_rounded:
        return [ring.exact(block) for block in instance.network.split_inputs(instance.inputs)]
    return [ring.exact(block) for block in split_rows(instance.network, instance.exact_inputs)]


def wanted(instance: Instance, ring: Ring) -> BallMatrix:
    """The targets of an instance in a ring, as they are.

    Targets that are not rational numbers are balls at the working precision, and have no other ring.
    """
    if instance.asking is None:
        return ring.exact(instance.targets)
    exact = instance.exact_targets
    if not isinstance(ring, Balls):
        if exact is None:
            raise BadInputError("the targets are not rational numbers: they have no residues.")
        return ring.exact(exact)
    from flint import ctx

    # Exact balls serve every precision.
    bits = 0 if exact is not None else ctx.prec
    known: dict[int, BallMatrix] = vars(instance).setdefault("_target_balls", {})
    if bits not in known:
        known[bits] = _enclosed(*instance.asking) if exact is None else exact.balls()
    return ring.enclosing(known[bits])


def _enclosed(teacher: Teacher, inputs: Dyadics) -> BallMatrix:
    """The outputs of a teacher at the working precision."""

    def value(activation: str, before: BallMatrix) -> BallMatrix:
        values = [BENT[activation](entry)[0] for entry in before.entries()]
        return BALLS.matrix(before.nrows(), before.ncols(), values)

    weights = {name: BALLS.exact(value) for name, value in teacher.weights.items()}
    blocks = [BALLS.exact(block) for block in split_rows(teacher.network, inputs)]
    return evaluate(teacher.network, weights, blocks, inputs.shape[1], BALLS.exact, value)


def middles(balls: Sequence[Ball]) -> Array:
    """The midpoints, rounded to float64."""
    return np.array([float(ball.mid()) for ball in balls])


def column_vector(values: Sequence[Ball]) -> BallMatrix:
    """The balls as a matrix with one column."""
    return BALLS.matrix(len(values), 1, list(values))
