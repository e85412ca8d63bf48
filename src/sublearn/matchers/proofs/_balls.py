"""Linear chains in Arb balls: enclosures of outputs and Jacobian, at any precision.

A ball is an exact midpoint with a radius; every operation returns a ball that holds the true result
for all numbers in its arguments (Johansson, "Arb: efficient arbitrary-precision midpoint-radius
interval arithmetic", IEEE Trans. Comput. 66, 2017). The numbers of an instance enter exactly; targets
that tanh or sigmoid units of a teacher make are enclosed at the working precision.

Linear chains are here, where the left factors are the same for every sample; chains with tanh,
sigmoid or ReLU steps are in ``_curved.py``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sublearn._arrays import Array
from sublearn._errors import BadInputError
from sublearn.ensembles import split_rows
from sublearn.exact import Dyadics
from sublearn.networks import evaluate

if TYPE_CHECKING:
    from sublearn.ensembles import Instance, Teacher

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
    """Where a chain is evaluated: flint matrices over balls, or over another ring with 1/2."""

    def exact(self, values: Array | Dyadics) -> BallMatrix:
        """A matrix of whole numbers times powers of 2, as float64 numbers are, without rounding."""

    def matrix(self, rows: int, columns: int, entries: Sequence[Ball]) -> BallMatrix:
        """A matrix of given entries, row by row."""


class _Balls:
    def exact(self, values: Array | Dyadics) -> BallMatrix:
        from flint import arb_mat

        if isinstance(values, Dyadics):
            return values.balls()
        rows, columns = values.shape
        return arb_mat(rows, columns, values.ravel().tolist())

    def matrix(self, rows: int, columns: int, entries: Sequence[Ball]) -> BallMatrix:
        from flint import arb_mat

        return arb_mat(rows, columns, entries)


BALLS: Ring = _Balls()
ball_matrix = BALLS.exact


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
    if ring is not BALLS:
        if exact is None:
            raise BadInputError("the targets are not rational numbers: they have no residues.")
        return ring.exact(exact)
    from flint import ctx

    # Exact balls serve every precision.
    bits = 0 if exact is not None else ctx.prec
    known: dict[int, BallMatrix] = vars(instance).setdefault("_target_balls", {})
    if bits not in known:
        known[bits] = _enclosed(*instance.asking) if exact is None else exact.balls()
    return known[bits]


def _enclosed(teacher: Teacher, inputs: Dyadics) -> BallMatrix:
    """The outputs of a teacher at the working precision."""
    from sublearn.matchers.proofs._curved import BENT

    def bend(activation: str, before: BallMatrix) -> BallMatrix:
        values = [BENT[activation](entry)[0] for entry in before.entries()]
        return BALLS.matrix(before.nrows(), before.ncols(), values)

    weights = {name: BALLS.exact(value) for name, value in teacher.weights.items()}
    blocks = [BALLS.exact(block) for block in split_rows(teacher.network, inputs)]
    ones = BALLS.exact(np.ones((1, inputs.shape[1])))
    return evaluate(teacher.network, weights, blocks, ones, bend)


def column_vector(values: Sequence[Ball]) -> BallMatrix:
    """The balls as a matrix with one column."""
    return BALLS.matrix(len(values), 1, list(values))


class System(Protocol):
    """F(x) = outputs - targets of one instance, with x the learnable weights that vary."""

    size: int

    def residual(self, x: Sequence[Ball]) -> BallMatrix:
        """F(x), a (d m, 1) matrix in the order (output, sample)."""

    def linearised(self, x: Sequence[Ball]) -> tuple[BallMatrix, BallMatrix]:
        """F(x) and its Jacobian: rows (output, sample), columns in the order of the labels."""


class Numbers:
    """The numbers of an instance in a ring, and the places of the weights that vary.

    ``free`` are the positions (in the order of the labels) of the weights that vary; the others
    hold the float64 numbers ``held``, which are then as exact as the frozen ones.
    """

    def __init__(
        self, instance: Instance, free: Sequence[int] | None, held: Array | None, ring: Ring
    ) -> None:
        network, allocation = instance.network, instance.allocation
        weights = dict(instance.weights)
        if free is not None:
            if held is None:
                raise BadInputError("held values are needed where some weights are not free.")
            weights = instance.with_values(held)
            allocation = allocation.select(free)
        self.size = len(allocation)
        self.frozen = {name: ring.exact(np.asarray(weights[name])) for name in network.shapes}
        self.places = {
            name: [divmod(int(f), network.shapes[name][1]) for f in allocation.flat(name)]
            for name in allocation.names
        }
        self.blocks = input_blocks(instance, ring)
        self._instance, self._ring = instance, ring
        self._targets: BallMatrix | None = None
        self.ones = ring.exact(np.ones((1, instance.samples)))

    @property
    def targets(self) -> BallMatrix:
        """The targets; where they are balls, at the precision that is asked for now."""
        if self._targets is None or self._instance.exact_targets is None:
            self._targets = wanted(self._instance, self._ring)
        return self._targets

    def weights(self, x: Sequence[Ball]) -> dict[str, BallMatrix]:
        """Every weight by name, with the free entries set to x."""
        out, start = dict(self.frozen), 0
        for name, places in self.places.items():
            matrix = type(out[name])(out[name])
            for offset, (i, j) in enumerate(places, start):
                matrix[i, j] = x[offset]
            start += len(places)
            out[name] = matrix
        return out


class Chain:
    """The system of an instance whose network is linear.

    ``free`` and ``held`` are those of :class:`Numbers`.
    """

    def __init__(
        self,
        instance: Instance,
        free: Sequence[int] | None = None,
        held: Array | None = None,
        ring: Ring = BALLS,
    ) -> None:
        network = instance.network
        if not network.is_linear:
            raise BadInputError(f"{network.spec} has steps that are not linear.")
        numbers = Numbers(instance, free, held, ring)
        self.network, self.ring = network, ring
        self.samples, self.equations = instance.samples, instance.equations
        self.size = numbers.size
        self._numbers, self._places = numbers, numbers.places
        self._weights, self._blocks, self._ones = numbers.weights, numbers.blocks, numbers.ones

    def _leaving(self, weights: dict[str, BallMatrix]) -> tuple[list[BallMatrix], list[BallMatrix]]:
        """d outputs / d (what leaves, what enters) each step, (d, n) matrices.

        Both are the same for every sample because every step is linear.
        """
        adjoint = self.ring.exact(np.eye(self.network.output_size))
        leaving, entering = [], []
        for step in reversed(self.network.steps):
            leaving.append(adjoint)
            # The readout: a product with the identity would cost as much as a real one.
            adjoint = adjoint * weights[step.weight] if len(leaving) > 1 else weights[step.weight]
            entering.append(adjoint)
        return leaving[::-1], entering[::-1]

    def residual(self, x: Sequence[Ball]) -> BallMatrix:
        """F(x), a (d m, 1) matrix in the order (output, sample)."""
        weights = self._weights(x)
        leaving, entering = self._leaving(weights)
        return self._residual(weights, leaving, entering)

    def _residual(
        self,
        weights: dict[str, BallMatrix],
        leaving: list[BallMatrix],
        entering: list[BallMatrix],
    ) -> BallMatrix:
        # From the left, d rows at a time: never more work than carrying states for m >= d samples.
        total = -self._numbers.targets
        for position, step in enumerate(self.network.steps):
            if step.block is not None:
                factor = entering[position]
                if step.encoder is not None:
                    factor = factor * weights[step.encoder]
                total = total + factor * self._blocks[step.block]
            if step.bias is not None:
                total = total + leaving[position] * weights[step.bias] * self._ones
        return self.ring.matrix(self.equations, 1, total.entries())

    def linearised(self, x: Sequence[Ball]) -> tuple[BallMatrix, BallMatrix]:
        """F(x) and its Jacobian: rows (output, sample), columns in the order of the labels."""
        weights, matrix = self._weights(x), self.ring.matrix
        leaving, entering = self._leaving(weights)
        factors = self._factors(weights, leaving, entering)
        rows, size, m, d = self.equations, self.size, self.samples, self.network.output_size
        flat: list[Ball] = [None] * (rows * size)
        column = 0
        for name, places in self._places.items():
            uses = len(factors[name])
            lefts = [left.entries() for left, _ in factors[name]]
            rights = [right.entries() for _, right in factors[name]]
            height = self.network.shapes[name][0]
            for i, columns in by_row(places):
                # sum over uses of left[o, i] right[j, s], for all o, j, s of this row at once.
                tall = matrix(d, uses, [es[o * height + i] for o in range(d) for es in lefts])
                wide = matrix(
                    uses,
                    len(columns) * m,
                    [e for es in rights for j in columns for e in es[j * m : (j + 1) * m]],
                )
                product = (tall * wide).entries()
                for o in range(d):
                    for k in range(len(columns)):
                        start = (o * len(columns) + k) * m
                        place = o * m * size + column + k
                        flat[place : place + m * size : size] = product[start : start + m]
                column += len(columns)
        residual = self._residual(weights, leaving, entering)
        return residual, matrix(rows, size, flat)

    def _factors(
        self,
        weights: dict[str, BallMatrix],
        leaving: list[BallMatrix],
        entering: list[BallMatrix],
    ) -> dict[str, list[tuple[BallMatrix, BallMatrix]]]:
        """(left, right) of every use of the weights that have free entries."""
        out: dict[str, list[tuple[BallMatrix, BallMatrix]]] = {name: [] for name in self._places}
        state: BallMatrix | None = None
        last = len(self.network.steps) - 1
        for position, step in enumerate(self.network.steps):
            if step.block is not None:
                block = self._blocks[step.block]
                if step.encoder is not None:
                    if step.encoder in out:
                        out[step.encoder].append((entering[position], block))
                    block = weights[step.encoder] * block
                state = block if state is None else state + block
            if step.weight in out:
                out[step.weight].append((leaving[position], state))
            if step.bias is not None and step.bias in out:
                out[step.bias].append((leaving[position], self._ones))
            if position < last:
                state = weights[step.weight] * state
                if step.bias is not None:
                    state = state + weights[step.bias] * self._ones
        return out


def by_row(places: list[tuple[int, int]]) -> Iterator[tuple[int, list[int]]]:
    """(row, columns) of each row that has free entries, in the order of the labels."""
    rows: dict[int, list[int]] = {}
    for i, j in places:
        rows.setdefault(i, []).append(j)
    yield from rows.items()
