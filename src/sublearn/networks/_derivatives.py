"""First and second derivatives of a chain, written once for all networks.

The derivative of output o on sample s with respect to entry (i, j) of a weight is
``sum_t left_t[o, i, s] * right_t[j, s]`` over the uses t of that weight: ``right_t`` is what enters
the use, ``left_t`` the derivative of the outputs with respect to what leaves it. In linear chains
``left_t`` does not depend on the sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sublearn._arrays import Array
from sublearn.networks._activations import ACTIVATIONS
from sublearn.networks._forward import REALS, Arithmetic, Gates, Trace, run
from sublearn.networks._network import Network, Weights

if TYPE_CHECKING:
    from sublearn.allocations import Allocation


@dataclass(frozen=True)
class Factors:
    """``left`` (..., uses, d, rows, 1 or m) and ``right`` (..., uses, columns, m) of one weight."""

    left: Array
    right: Array

    @property
    def stacked(self) -> tuple[Array, Array]:
        """(left, right) as the exact room reads them: a sample axis of length 1 is dropped."""
        left = self.left[..., 0] if self.left.shape[-1] == 1 else self.left
        return np.ascontiguousarray(left), np.ascontiguousarray(self.right)


def _transpose(matrix: Array) -> Array:
    return np.swapaxes(matrix, -1, -2)


def factors(
    network: Network,
    weights: Weights,
    inputs: Array,
    arithmetic: Arithmetic = REALS,
    gates: Gates | None = None,
    states: Gates | None = None,
) -> dict[str, Factors]:
    """Derivative factors of every weight, by name; ``gates`` and ``states`` as in :func:`run`."""
    trace = run(network, weights, inputs, arithmetic, gates, states)
    d, samples = network.output_size, trace.outputs.shape[-1]
    left: dict[str, list[Array]] = {name: [] for name in network.shapes}
    right: dict[str, list[Array]] = {name: [] for name in network.shapes}
    # d output / d state, as (..., d, n, 1 or m); the outputs are the last state.
    adjoint = np.broadcast_to(np.eye(d)[:, :, None], (*trace.outputs.shape[:-2], d, d, 1))
    for position in range(len(network.steps) - 1, -1, -1):
        step, slope = network.steps[position], trace.slopes[position]
        leaving = adjoint if slope is None else arithmetic.multiply(adjoint, slope[..., None, :, :])
        left[step.weight].append(leaving)
        right[step.weight].append(trace.entering[position])
        if step.bias is not None:
            left[step.bias].append(leaving)
            right[step.bias].append(np.ones((*trace.outputs.shape[:-2], 1, samples)))
        adjoint = arithmetic.matmul(_transpose(weights[step.weight])[..., None, :, :], leaving)
        if step.encoder is not None and step.block is not None:
            left[step.encoder].append(adjoint)
            right[step.encoder].append(trace.blocks[step.block])
    return {
        name: Factors(_stack(left[name], axis=-4), _stack(right[name], axis=-3))
        for name in network.shapes
    }


def _stack(parts: list[Array], axis: int) -> Array:
    return np.stack(np.broadcast_arrays(*parts), axis=axis)


def jacobian(
    network: Network, weights: Weights, inputs: Array, allocation: Allocation | None
) -> Array:
    """See :meth:`Network.jacobian`."""
    parts = []
    equations = network.output_size * network.split_inputs(inputs)[0].shape[-1]
    for name, factor in factors(network, weights, inputs).items():
        rows, columns = network.shapes[name]
        flat = np.arange(rows * columns) if allocation is None else allocation.flat(name)
        i, j = np.divmod(flat, columns)
        part = np.einsum("...tois,...tis->...osi", factor.left[..., i, :], factor.right[..., j, :])
        parts.append(part.reshape(*part.shape[:-3], equations, flat.size))
    return np.concatenate(parts, axis=-1)


def jvp(network: Network, weights: Weights, inputs: Array, tangent: Weights) -> Array:
    """See :meth:`Network.jvp`."""
    return _push(network, weights, run(network, weights, inputs, REALS), tangent)[-1]


def _push(
    network: Network, weights: Weights, trace: Trace, tangent: Weights
) -> tuple[list[Array], list[Array], Array]:
    """Tangents of what enters and of what stands before each activation, and of the outputs."""
    entering: list[Array] = []
    before: list[Array] = []
    state = np.zeros(())
    for position, step in enumerate(network.steps):
        if step.encoder is not None and step.block is not None:
            state = state + tangent[step.encoder] @ trace.blocks[step.block]
        entering.append(state)
        pre = tangent[step.weight] @ trace.entering[position]
        if state.ndim:
            pre = pre + weights[step.weight] @ state
        if step.bias is not None:
            pre = pre + tangent[step.bias]
        before.append(pre)
        slope = trace.slopes[position]
        state = pre if slope is None else slope * pre
    return entering, before, state


def vjp(network: Network, weights: Weights, inputs: Array, cotangent: Array) -> dict[str, Array]:
    """See :meth:`Network.vjp`."""
    trace = run(network, weights, inputs, REALS)
    out = {name: np.zeros(1) for name in network.shapes}
    adjoint = np.asarray(cotangent, dtype=np.float64)
    for position in range(len(network.steps) - 1, -1, -1):
        step, slope = network.steps[position], trace.slopes[position]
        leaving = adjoint if slope is None else slope * adjoint
        out[step.weight] = out[step.weight] + leaving @ _transpose(trace.entering[position])
        if step.bias is not None:
            out[step.bias] = out[step.bias] + leaving.sum(axis=-1, keepdims=True)
        adjoint = _transpose(weights[step.weight]) @ leaving
        if step.encoder is not None and step.block is not None:
            out[step.encoder] = out[step.encoder] + adjoint @ _transpose(trace.blocks[step.block])
    return out


def hvp(
    network: Network, weights: Weights, inputs: Array, cotangent: Array, tangent: Weights
) -> dict[str, Array]:
    """See :meth:`Network.hvp`: the derivative of :func:`vjp` along ``tangent`` (Pearlmutter 1994)."""
    trace = run(network, weights, inputs, REALS)
    entering_dot, before_dot, _ = _push(network, weights, trace, tangent)
    out = {name: np.zeros(1) for name in network.shapes}
    adjoint = np.asarray(cotangent, dtype=np.float64)
    adjoint_dot = np.zeros_like(adjoint)
    for position in range(len(network.steps) - 1, -1, -1):
        step, slope = network.steps[position], trace.slopes[position]
        leaving, leaving_dot = adjoint, adjoint_dot
        if slope is not None:
            curvature = ACTIVATIONS[step.activation].curvature(trace.before[position])
            leaving_dot = slope * adjoint_dot + curvature * before_dot[position] * adjoint
            leaving = slope * adjoint
        part = leaving_dot @ _transpose(trace.entering[position])
        if entering_dot[position].ndim:
            part = part + leaving @ _transpose(entering_dot[position])
        out[step.weight] = out[step.weight] + part
        if step.bias is not None:
            out[step.bias] = out[step.bias] + leaving_dot.sum(axis=-1, keepdims=True)
        matrix, matrix_dot = weights[step.weight], tangent[step.weight]
        adjoint_dot = _transpose(matrix) @ leaving_dot + _transpose(matrix_dot) @ leaving
        adjoint = _transpose(matrix) @ leaving
        if step.encoder is not None and step.block is not None:
            block = _transpose(trace.blocks[step.block])
            out[step.encoder] = out[step.encoder] + adjoint_dot @ block
    return out
