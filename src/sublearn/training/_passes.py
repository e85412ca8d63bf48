"""Forward and derivative passes over a folded chain, batched: the same algebra as networks/."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sublearn._arrays import Floats
from sublearn.networks import ACTIVATIONS
from sublearn.training._folded import Folded, FoldedStep, Slot


@dataclass(frozen=True)
class Trace:
    """What a forward run leaves behind for the derivatives, a list entry per step."""

    buffer: Floats  # the slots, filled
    matrices: list[Floats]
    entering: list[Floats]  # (batch or 1, in, m)
    before: list[Floats]  # pre-activations, (batch, out, m)
    slopes: list[Floats | None]  # phi'; None where the step is linear
    outputs: Floats  # (batch, d, m)


def _transpose(matrix: Floats) -> Floats:
    return np.swapaxes(matrix, -1, -2)


def _slope(activation: str, before: Floats) -> Floats | None:
    if activation == "linear":
        return None
    if activation == "relu":
        return np.greater_equal(before, 0.0)  # as a factor: it keeps the other's type
    return ACTIVATIONS[activation].slope(before)


def run(folded: Folded, values: Floats) -> Trace:
    """Outputs for learnable ``values`` (batch, r), and the trace."""
    buffer = folded.buffer(values)
    state: Floats | None = None
    matrices, entering, before, slopes = [], [], [], []
    for step in folded.steps:
        for extra in (
            step.entering,
            None if step.encoder is None else step.encoder.of(buffer) @ step.block,
        ):
            if extra is not None:
                state = extra if state is None else state + extra
        assert state is not None, "the first step of a chain has something that enters"
        entering.append(state)
        matrix = step.matrix.of(buffer) if isinstance(step.matrix, Slot) else step.matrix
        matrices.append(matrix)
        pre: Floats = matrix @ state
        if step.offset is not None:
            pre += step.offset
        if step.bias is not None:
            pre += step.bias.of(buffer) @ step.still
        before.append(pre)
        slopes.append(_slope(step.activation, pre))
        state = pre if step.activation == "linear" else ACTIVATIONS[step.activation].value(pre)
    assert state is not None
    return Trace(buffer, matrices, entering, before, slopes, state)


def pull(folded: Folded, trace: Trace, cotangent: Floats) -> Floats:
    """Gradient (batch, r) of sum(cotangent * outputs)."""
    out = np.zeros_like(trace.buffer)
    adjoint = cotangent
    for position in range(len(folded.steps) - 1, -1, -1):
        step, slope = folded.steps[position], trace.slopes[position]
        leaving = adjoint if slope is None else slope * adjoint
        if isinstance(step.matrix, Slot):
            step.matrix.of(out)[...] += leaving @ _transpose(trace.entering[position])
        if step.bias is not None:
            step.bias.of(out)[...] += _still(step, leaving)
        if position or step.encoder is not None:
            adjoint = _transpose(trace.matrices[position]) @ leaving
        if step.encoder is not None:
            assert step.block is not None
            step.encoder.of(out)[...] += adjoint @ _transpose(step.block)
    return folded.gather(out)


def _still(step: FoldedStep, leaving: Floats) -> Floats:
    """The gradient of a bias: what leaves on all samples, times what the bias is applied to."""
    assert step.still is not None
    out: Floats = leaving.sum(axis=-1, keepdims=True) @ _transpose(step.still)
    return out


@dataclass(frozen=True)
class Push:
    """Derivatives of a trace along one direction of the values."""

    buffer: Floats
    entering: list[Floats | None]  # None: nothing that enters moves
    before: list[Floats]
    outputs: Floats


def push(folded: Folded, trace: Trace, tangent: Floats) -> Push:
    """The derivative of a run along ``tangent`` (batch, r)."""
    moved = folded.buffer(tangent)
    # The frozen entries of a slot do not move.
    moved -= folded.frozen
    state: Floats | None = None
    entering: list[Floats | None] = []
    before: list[Floats] = []
    for position, step in enumerate(folded.steps):
        if step.encoder is not None:
            extra: Floats = step.encoder.of(moved) @ step.block
            state = extra if state is None else state + extra
        entering.append(state)
        pre = np.zeros_like(trace.before[position])
        if isinstance(step.matrix, Slot):
            pre += step.matrix.of(moved) @ trace.entering[position]
        if state is not None:
            pre += trace.matrices[position] @ state
        if step.bias is not None:
            pre += step.bias.of(moved) @ step.still
        before.append(pre)
        slope = trace.slopes[position]
        state = pre if slope is None else slope * pre
    assert state is not None
    return Push(moved, entering, before, state)


def pull_second(
    folded: Folded, trace: Trace, moved: Push, cotangent: Floats, cotangent_dot: Floats
) -> tuple[Floats, Floats]:
    """:func:`pull`, and its derivative along the push (Pearlmutter 1994), both (batch, r).

    ``cotangent_dot`` is how the cotangent itself changes along the push.
    """
    out, out_dot = np.zeros_like(trace.buffer), np.zeros_like(trace.buffer)
    adjoint, adjoint_dot = cotangent, cotangent_dot
    for position in range(len(folded.steps) - 1, -1, -1):
        step, slope = folded.steps[position], trace.slopes[position]
        leaving, leaving_dot = adjoint, adjoint_dot
        if slope is not None:
            leaving, leaving_dot = slope * adjoint, slope * adjoint_dot
            if step.activation != "relu":
                bend = ACTIVATIONS[step.activation].curvature(trace.before[position])
                leaving_dot += bend * moved.before[position] * adjoint
        entering, entering_dot = trace.entering[position], moved.entering[position]
        if isinstance(step.matrix, Slot):
            step.matrix.of(out)[...] += leaving @ _transpose(entering)
            step.matrix.of(out_dot)[...] += leaving_dot @ _transpose(entering)
            if entering_dot is not None:
                step.matrix.of(out_dot)[...] += leaving @ _transpose(entering_dot)
        if step.bias is not None:
            step.bias.of(out)[...] += _still(step, leaving)
            step.bias.of(out_dot)[...] += _still(step, leaving_dot)
        if position or step.encoder is not None:
            back = _transpose(trace.matrices[position])
            adjoint, adjoint_dot = back @ leaving, back @ leaving_dot
            if isinstance(step.matrix, Slot):
                adjoint_dot += _transpose(step.matrix.of(moved.buffer)) @ leaving
        if step.encoder is not None:
            assert step.block is not None
            step.encoder.of(out)[...] += adjoint @ _transpose(step.block)
            step.encoder.of(out_dot)[...] += adjoint_dot @ _transpose(step.block)
    return folded.gather(out), folded.gather(out_dot)


def jacobian(folded: Folded, trace: Trace) -> Floats:
    """d outputs / d values, (batch, d m, r), rows ordered (output, sample)."""
    batch, d, samples = trace.outputs.shape
    out = np.zeros((batch, folded.places.shape[1], d, samples), dtype=trace.outputs.dtype)
    # d outputs / d state, (batch or 1, d, n, 1 or m): the outputs are the last state.
    adjoint: Floats = np.eye(d, dtype=out.dtype)[None, :, :, None]
    for position in range(len(folded.steps) - 1, -1, -1):
        step, slope = folded.steps[position], trace.slopes[position]
        leaving = adjoint if slope is None else adjoint * slope[:, None]
        if isinstance(step.matrix, Slot):
            _add(out, folded, step.matrix, leaving, trace.entering[position])
        if step.bias is not None:
            assert step.still is not None
            _add(out, folded, step.bias, leaving, step.still)
        if position or step.encoder is not None:
            adjoint = _transpose(trace.matrices[position])[:, None] @ leaving
        if step.encoder is not None:
            assert step.block is not None
            _add(out, folded, step.encoder, adjoint, step.block)
    return _transpose(out.reshape(batch, -1, d * samples))


def _add(out: Floats, folded: Folded, slot: Slot, left: Floats, right: Floats) -> None:
    """Add left[., o, i, s] right[., j, s] for every value that goes to entry (i, j) of the slot."""
    from sublearn.training._kernel import add_products

    # Shapes and types vary little, layouts a lot: the kernel is compiled for one.
    left, right = np.ascontiguousarray(left), np.ascontiguousarray(right)
    for place in range(folded.places.shape[-1]):
        places = np.ascontiguousarray(folded.places[..., place])
        add_products(out, places, slot.start, slot.stop, slot.columns, left, right)
