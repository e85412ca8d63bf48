"""Running a chain forward, over the reals or modulo a prime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sublearn._arrays import Array
from sublearn._errors import BadInputError
from sublearn.networks._activations import ACTIVATIONS
from sublearn.networks._network import Network, Weights

Gates = Mapping[int, Array]
"""Fixed 0/1 slopes (n, m) of the ReLU steps, by position in the chain."""


class Arithmetic(Protocol):
    """What a chain needs of a field: sums and products of matrices."""

    def matmul(self, a: Array, b: Array) -> Array: ...
    def add(self, a: Array, b: Array) -> Array: ...
    def multiply(self, a: Array, b: Array) -> Array: ...


class _Reals:
    def matmul(self, a: Array, b: Array) -> Array:
        out: Array = np.matmul(a, b)
        return out

    def add(self, a: Array, b: Array) -> Array:
        return a + b

    def multiply(self, a: Array, b: Array) -> Array:
        return a * b


REALS: Arithmetic = _Reals()


@dataclass(frozen=True)
class Trace:
    """What one forward run leaves behind for the derivatives, a list entry per step."""

    blocks: list[Array]  # the input blocks
    entering: list[Array]  # state + injected, (n_in, m)
    before: list[Array]  # pre-activations, (n_out, m)
    slopes: list[Array | None]  # phi', (n_out, m); None where the step is linear
    outputs: Array


def run(
    network: Network,
    weights: Weights,
    inputs: Array,
    arithmetic: Arithmetic,
    gates: Gates | None = None,
    states: Mapping[int, Array] | None = None,
) -> Trace:
    """Run the chain. With ``gates``, a ReLU step multiplies by its gates instead of comparing with 0.

    A step with an entry in ``states`` leaves that behind, whatever enters; its gates are its slopes.
    """
    blocks = network.split_inputs(inputs)
    state: Array | None = None
    entering: list[Array] = []
    before: list[Array] = []
    slopes: list[Array | None] = []
    for position, step in enumerate(network.steps):
        if step.block is not None:
            block = blocks[step.block]
            if step.encoder is not None:
                block = arithmetic.matmul(weights[step.encoder], block)
            state = block if state is None else arithmetic.add(state, block)
        assert state is not None, "the first step of a chain injects an input"
        entering.append(state)
        pre = arithmetic.matmul(weights[step.weight], state)
        if step.bias is not None:
            pre = arithmetic.add(pre, weights[step.bias])
        before.append(pre)
        slope: Array | None = None
        if step.activation == "linear":
            state = pre
        elif gates is not None and position in gates:
            slope = gates[position]
            given = None if states is None else states.get(position)
            state = arithmetic.multiply(slope, pre) if given is None else given
        elif arithmetic is REALS:
            phi = ACTIVATIONS[step.activation]
            slope, state = phi.slope(pre), phi.value(pre)
        else:
            raise BadInputError(
                f"{network.spec} has a {step.activation} step, which has no value modulo a prime; "
                "only linear steps and steps with given gates do."
            )
        slopes.append(slope)
    assert state is not None
    return Trace(blocks, entering, before, slopes, state)


def evaluate(
    network: Network,
    weights: Mapping[str, Any],
    blocks: Sequence[Any],
    ones: Any,
    bend: Callable[[str, Any], Any],
) -> Any:
    """The outputs over matrices with ``*`` and ``+``: whole numbers, residues, balls.

    ``blocks`` are the input blocks, ``ones`` a row of ones, one per sample; ``bend(activation, matrix)``
    applies an activation that is not linear.
    """
    state: Any = None
    for step in network.steps:
        if step.block is not None:
            block = blocks[step.block]
            if step.encoder is not None:
                block = weights[step.encoder] * block
            state = block if state is None else state + block
        state = weights[step.weight] * state
        if step.bias is not None:
            state = state + weights[step.bias] * ones
        if step.activation != "linear":
            state = bend(step.activation, state)
    return state


def gates_at(network: Network, weights: Weights, inputs: Array) -> dict[int, Array]:
    """The 0/1 activation pattern of every ReLU step at real weights and inputs (Lemma D.1)."""
    trace = run(network, weights, inputs, REALS)
    return {
        position: trace.slopes[position]  # type: ignore[misc]
        for position, step in enumerate(network.steps)
        if step.activation == "relu"
    }
