"""First and second derivatives of a chain, written once for all networks and all numbers.

The derivative of output o on sample s with respect to entry (i, j) of a weight is
``sum_t left_t[o, i, s] * right_t[j, s]`` over the uses t of that weight: ``right_t`` is what enters
the use, ``left_t`` the derivative of the outputs with respect to what leaves it. In linear chains
``left_t`` does not depend on the sample.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sublearn._arrays import Array
from sublearn._limits import check_memory
from sublearn.networks._activations import ACTIVATIONS
from sublearn.networks._forward import (
    REALS,
    Arrays,
    Derivable,
    Field,
    Gates,
    Matrix,
    Trace,
    arrays,
    real_links,
    rows_of,
    walk,
)
from sublearn.networks._network import Network, Weights

if TYPE_CHECKING:
    from sublearn.allocations import Allocation

_LIGHT = 2**28  # bytes that are allocated without a thought


def uses(
    trace: Trace,
    weights: Mapping[str, Matrix],
    numbers: Derivable,
    adjoint: Any,
    names: Collection[str],
) -> Iterator[tuple[str, Any, Matrix]]:
    """(name, left, right) of every use of the weights ``names``, from the outputs back.

    ``adjoint`` is the derivative by the outputs to begin with: their unit, or a cotangent. Nothing is
    computed before the first step that uses one of the names.
    """
    chain = trace.links
    outputs, end = adjoint, 0
    if len(trace.read) > 1:
        # The last piece of the outputs is that of the last step, which all before it lead to.
        places = list(itertools.accumulate((rows_of(part) for part in trace.read), initial=0))
        end = len(places) - 2
        adjoint = numbers.rows(outputs, places[end], places[end + 1])
    first = next(
        (p for p, link in enumerate(chain) if any(n in names for n in link.names)), len(chain)
    )
    for position in range(len(chain) - 1, first - 1, -1):
        link, slope = chain[position], trace.slopes[position]
        passing = None  # what reaches the state before this step not by its weight
        if link.aside:
            end -= 1
            passing, adjoint = adjoint, numbers.rows(outputs, places[end], places[end + 1])
        if link.leak != 1.0:
            if position > 0:
                passing = numbers.weigh(link.kept, adjoint)
            adjoint = numbers.weigh(link.leak, adjoint)
        if slope is not None:
            adjoint = numbers.scale(adjoint, slope)
        if link.weight in names:
            yield link.weight, adjoint, trace.entering[position]
        if link.bias is not None and link.bias in names:
            yield link.bias, adjoint, link.still
        if link.drive is not None and link.drive in names:
            yield link.drive, adjoint, link.block
        if position > first or link.encoder is not None:
            adjoint = numbers.back(adjoint, weights[link.weight])
        if link.encoder is not None and link.encoder in names:
            yield link.encoder, adjoint, link.block
        if passing is not None and position > first:
            adjoint = numbers.join(adjoint, passing)


@dataclass(frozen=True)
class Factored:
    """``left`` (..., uses, d, rows, 1 or m) and ``right`` (..., uses, columns, m) of one weight."""

    left: Array
    right: Array

    @property
    def stacked(self) -> tuple[Array, Array]:
        """(left, right) as the exact room reads them: a sample axis of length 1 is dropped."""
        left = self.left[..., 0] if self.left.shape[-1] == 1 else self.left
        return np.ascontiguousarray(left), np.ascontiguousarray(self.right)


def factors(
    network: Network,
    weights: Weights,
    inputs: Array,
    field: Field = REALS,
    gates: Gates | None = None,
    states: Gates | None = None,
) -> dict[str, Factored]:
    """Derivative factors of every weight, by name; ``gates`` and ``states`` as in :class:`Arrays`."""
    _weigh_factors(network, weights, inputs)
    numbers = arrays(network, field, gates, states)
    trace = walk(real_links(network, inputs), weights, numbers)
    *batch, d, samples = trace.outputs.shape
    left: dict[str, list[Array]] = {name: [] for name in network.shapes}
    right: dict[str, list[Array]] = {name: [] for name in network.shapes}
    unit = np.broadcast_to(numbers.unit(trace.outputs), (*batch, d, d, 1))
    for name, leaving, entering in uses(trace, weights, numbers, unit, network.shapes):
        left[name].append(leaving)
        right[name].append(np.broadcast_to(entering, (*entering.shape[:-1], samples)))
    return {
        name: Factored(_stack(left[name], axis=-4), _stack(right[name], axis=-3))
        for name in network.shapes
    }


def _weigh_factors(network: Network, weights: Weights, inputs: Array) -> None:
    """Refuse factors that do not fit.

    Each is held as it is made and with the others of its weight; states, slopes and what is on the way
    take half as much again.
    """
    samples = network.split_inputs(inputs)[0].shape[-1]
    each = 1 if network.is_linear else samples  # of ``left``
    numbers = 0
    for step in network.steps:
        for name in (step.weight, step.bias, step.drive, step.encoder):
            if name is not None:
                rows, columns = network.shapes[name]
                numbers += network.output_size * rows * each + columns * samples
    batch = max(np.asarray(value)[..., 0, 0].size for value in weights.values())
    if 24 * batch * numbers > _LIGHT:
        what = f"a derivative of {network.title!r} on {samples} samples"
        check_memory(what, 24 * batch * numbers, "fewer samples or a smaller network")


def _stack(parts: list[Array], axis: int) -> Array:
    return np.stack(np.broadcast_arrays(*parts), axis=axis)


def jacobian(
    network: Network, weights: Weights, inputs: Array, allocation: Allocation | None
) -> Array:
    """See :meth:`Network.jacobian`."""
    parts = []
    samples = network.split_inputs(inputs)[0].shape[-1]
    equations = network.output_size * samples
    count = network.size if allocation is None else len(allocation)
    if 16 * equations * count > _LIGHT:
        what = f"the Jacobian of {network.title!r}, {equations} outputs by {count} weights,"
        check_memory(what, 16 * equations * count, "fewer samples or fewer learnable weights")
    for name, factor in factors(network, weights, inputs).items():
        rows, columns = network.shapes[name]
        flat = np.arange(rows * columns) if allocation is None else allocation.flat(name)
        # Factors are gathered per weight: some weights at a time, where all would fill the memory.
        each = 8 * (factor.left[..., 0, :].size + factor.right[..., 0, :].size)
        step = max(1, _LIGHT // each)
        for begin in range(0, max(1, flat.size), step):
            i, j = np.divmod(flat[begin : begin + step], columns)
            part = np.einsum(
                "...tois,...tis->...osi", factor.left[..., i, :], factor.right[..., j, :]
            )
            parts.append(part.reshape(*part.shape[:-3], equations, i.size))
    return np.concatenate(parts, axis=-1)


class Cotangents(Arrays):
    """Arrays, with adjoints (..., n, m): the derivative of one number, sum(cotangent * outputs)."""

    def scale(self, adjoint: Array, slope: Array) -> Array:
        return slope * adjoint

    def back(self, adjoint: Array, matrix: Array) -> Array:
        out: Array = np.swapaxes(matrix, -1, -2) @ adjoint
        return out


def gradient_term(left: Array, right: Array) -> Array:
    """The gradient of sum(left * (matrix right)) by the matrix; ``right`` may have one sample for all."""
    if right.shape[-1] == 1:
        left = left.sum(axis=-1, keepdims=True)
    return left @ np.swapaxes(right, -1, -2)


class Dual(NamedTuple):
    """A matrix and its derivative along one direction; None: it does not change."""

    value: Array
    dot: Array | None


def _dual(matrix: Dual | Array) -> Dual:
    return matrix if isinstance(matrix, Dual) else Dual(matrix, None)


def _sum(one: Array | None, two: Array | None) -> Array | None:
    if one is None or two is None:
        return two if one is None else one
    return one + two


class Duals:
    """The arithmetic of dual numbers a + a' e, e^2 = 0, in which a gradient brings its own derivative.

    Forward it is the derivative along a direction, backward the product of the Hessian with it
    (Pearlmutter 1994). A plain array is a number that does not change.
    """

    def matmul(self, a: Dual | Array, b: Dual | Array) -> Dual:
        a, b = _dual(a), _dual(b)
        moved = None if a.dot is None else a.dot @ b.value
        carried = None if b.dot is None else a.value @ b.dot
        return Dual(a.value @ b.value, _sum(moved, carried))

    def add(self, a: Dual | Array, b: Dual | Array) -> Dual:
        a, b = _dual(a), _dual(b)
        value, dot = a.value + b.value, _sum(a.dot, b.dot)
        if dot is not None and dot.shape[-1] != value.shape[-1]:
            # What moves alike on all samples is one column until it meets what does not.
            dot = np.broadcast_to(dot, (*dot.shape[:-1], value.shape[-1]))
        return Dual(value, dot)

    def bend(self, position: int, activation: str, before: Dual) -> tuple[Dual, Dual]:
        phi, (at, along) = ACTIVATIONS[activation], before
        slope = phi.slope(at)
        if along is None:
            return Dual(phi.value(at), None), Dual(slope, None)
        bent = None if activation == "relu" else phi.curvature(at) * along
        return Dual(phi.value(at), slope * along), Dual(slope, bent)

    def times(self, number: float, a: Dual | Array) -> Dual:
        value, dot = _dual(a)
        return Dual(number * value, None if dot is None else number * dot)

    def stack(self, parts: Sequence[Dual]) -> Dual:
        stack = Arrays().stack
        dots = [np.zeros_like(value) if dot is None else dot for value, dot in parts]
        still = all(part.dot is None for part in parts)
        return Dual(stack([part.value for part in parts]), None if still else stack(dots))

    weigh, join = times, add

    def rows(self, adjoint: Dual, start: int, stop: int) -> Dual:
        value, dot = adjoint
        part = None if dot is None else dot[..., start:stop, :]
        return Dual(value[..., start:stop, :], part)

    def scale(self, adjoint: Dual, slope: Dual) -> Dual:
        kept = None if adjoint.dot is None else slope.value * adjoint.dot
        bent = None if slope.dot is None else slope.dot * adjoint.value
        return Dual(slope.value * adjoint.value, _sum(kept, bent))

    def back(self, adjoint: Dual, matrix: Dual | Array) -> Dual:
        value, dot = _dual(matrix)
        turned = np.swapaxes(value, -1, -2)
        kept = None if adjoint.dot is None else turned @ adjoint.dot
        moved = None if dot is None else np.swapaxes(dot, -1, -2) @ adjoint.value
        return Dual(turned @ adjoint.value, _sum(kept, moved))

    @staticmethod
    def derivative_terms(left: Dual, right: Dual | Array) -> Iterator[Array]:
        """What adds up to the derivative of :func:`gradient_term`."""
        value, dot = _dual(right)
        if left.dot is not None:
            yield gradient_term(left.dot, value)
        if dot is not None:
            yield gradient_term(left.value, dot)


def _along(weights: Weights, tangent: Weights) -> dict[str, Dual]:
    return {name: Dual(weights[name], tangent[name]) for name in weights}


def jvp(network: Network, weights: Weights, inputs: Array, tangent: Weights) -> Array:
    """See :meth:`Network.jvp`."""
    moved: Dual = walk(real_links(network, inputs), _along(weights, tangent), Duals()).outputs
    assert moved.dot is not None, "every weight has a tangent"
    return moved.dot


def vjp(network: Network, weights: Weights, inputs: Array, cotangent: Array) -> dict[str, Array]:
    """See :meth:`Network.vjp`."""
    numbers = Cotangents()
    trace = walk(real_links(network, inputs), weights, numbers)
    begin = np.asarray(cotangent, dtype=np.float64)
    out = {name: np.zeros(shape) for name, shape in network.shapes.items()}
    for name, left, right in uses(trace, weights, numbers, begin, network.shapes):
        out[name] = out[name] + gradient_term(left, right)
    return out


def hvp(
    network: Network, weights: Weights, inputs: Array, cotangent: Array, tangent: Weights
) -> dict[str, Array]:
    """See :meth:`Network.hvp`: :func:`vjp` in dual numbers."""
    numbers, pairs = Duals(), _along(weights, tangent)
    trace = walk(real_links(network, inputs), pairs, numbers)
    begin = Dual(np.asarray(cotangent, dtype=np.float64), None)
    out = {name: np.zeros(shape) for name, shape in network.shapes.items()}
    for name, left, right in uses(trace, pairs, numbers, begin, network.shapes):
        for term in numbers.derivative_terms(left, right):
            out[name] = out[name] + term
    return out
