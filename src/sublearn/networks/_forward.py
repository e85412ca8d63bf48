"""Running a chain forward: one pass, whatever its numbers are.

Floats, residues, rationals, balls and ranges all take the same walk along the chain. What they know of
themselves is an :class:`Arithmetic`: how to multiply, how to add, and what an activation does.
"""

from __future__ import annotations

import operator
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

Matrix = Any
"""Whatever an arithmetic multiplies and adds: an array, a flint matrix, a range, a dual number."""


@dataclass(frozen=True)
class Link:
    """A step of a chain with its inputs in place.

        state <- activation(weight (state + entering + encoder block) + bias still + offset)

    ``weight``, ``encoder`` and ``bias`` are names; all others are numbers. What is None is absent.
    """

    weight: str
    activation: str = "linear"
    entering: Matrix = None
    encoder: str | None = None
    block: Matrix = None  # what the encoder is applied to
    bias: str | None = None
    still: Matrix = None  # what the bias is applied to: ones, mostly
    offset: Matrix = None

    @property
    def names(self) -> set[str]:
        """The weights that the step uses."""
        return {name for name in (self.weight, self.encoder, self.bias) if name is not None}


def links(network: Network, blocks: Sequence[Matrix], ones: Matrix) -> tuple[Link, ...]:
    """The chain of a network at given input blocks; ``ones`` is what its biases are applied to."""
    out = []
    for step in network.steps:
        block = None if step.block is None else blocks[step.block]
        out.append(
            Link(
                step.weight,
                step.activation,
                entering=block if step.encoder is None else None,
                encoder=step.encoder,
                block=block if step.encoder is not None else None,
                bias=step.bias,
                still=ones if step.bias is not None else None,
            )
        )
    return tuple(out)


class Arithmetic(Protocol):
    """What the forward pass needs of numbers."""

    def matmul(self, a: Matrix, b: Matrix) -> Matrix: ...
    def add(self, a: Matrix, b: Matrix) -> Matrix: ...

    def bend(self, position: int, activation: str, before: Matrix) -> tuple[Matrix, Matrix]:
        """phi(before) and the slopes phi'(before), at a step that is not linear."""


class Derivable(Arithmetic, Protocol):
    """What the backward pass needs beside: derivatives of the outputs, called adjoints."""

    def scale(self, adjoint: Any, slope: Matrix) -> Any:
        """The derivative by what stands before an activation, from that by what it leaves."""

    def back(self, adjoint: Any, matrix: Matrix) -> Any:
        """The derivative by what enters a product with ``matrix``, from that by what leaves it."""


@dataclass(frozen=True)
class Trace:
    """What one forward run leaves behind for the derivatives, a list entry per step."""

    links: Sequence[Link]
    entering: list[Matrix]  # all that the weight is applied to
    before: list[Matrix]  # pre-activations
    slopes: list[Matrix]  # phi'; None where the step is linear
    outputs: Matrix


def walk(chain: Sequence[Link], weights: Mapping[str, Matrix], numbers: Arithmetic) -> Trace:
    """Run the chain in an arithmetic."""
    matmul, add = numbers.matmul, numbers.add
    state: Matrix = None
    entering: list[Matrix] = []
    before: list[Matrix] = []
    slopes: list[Matrix] = []
    for position, link in enumerate(chain):
        if link.entering is not None:
            state = link.entering if state is None else add(state, link.entering)
        if link.encoder is not None:
            injected = matmul(weights[link.encoder], link.block)
            state = injected if state is None else add(state, injected)
        assert state is not None, "the first step of a chain injects an input"
        entering.append(state)
        state = matmul(weights[link.weight], state)
        if link.offset is not None:
            state = add(state, link.offset)
        if link.bias is not None:
            state = add(state, matmul(weights[link.bias], link.still))
        before.append(state)
        slope = None
        if link.activation != "linear":
            state, slope = numbers.bend(position, link.activation, state)
        slopes.append(slope)
    return Trace(chain, entering, before, slopes, state)


class Field(Protocol):
    """Numbers in arrays: with numpy's shapes and broadcasting, and a product and sum of their own."""

    def matmul(self, a: Array, b: Array) -> Array: ...
    def add(self, a: Array, b: Array) -> Array: ...
    def multiply(self, a: Array, b: Array) -> Array: ...


class _Reals:
    matmul = staticmethod(np.matmul)
    add = staticmethod(operator.add)
    multiply = staticmethod(operator.mul)


REALS: Field = _Reals()


class Arrays:
    """The arithmetic of numpy arrays over a field; leading batch axes are carried along.

    With ``gates``, a step multiplies by its gates, which are its slopes, instead of asking the
    activation; one with an entry in ``states`` leaves that behind, whatever enters. Adjoints are
    (..., d, n, 1 or m): in linear chains they are the same for every sample. Without ``slopes``, none
    are computed, for runs that are not followed by a derivative.
    """

    def __init__(
        self,
        field: Field = REALS,
        gates: Gates | None = None,
        states: Gates | None = None,
        slopes: bool = True,
    ) -> None:
        self.field, self.gates, self.states, self.slopes = field, gates or {}, states or {}, slopes
        self.matmul, self.add = field.matmul, field.add

    def bend(self, position: int, activation: str, before: Array) -> tuple[Array, Array | None]:
        if position in self.gates:
            slope, given = self.gates[position], self.states.get(position)
            return self.field.multiply(slope, before) if given is None else given, slope
        phi = ACTIVATIONS[activation]
        return phi.value(before), phi.slope(before) if self.slopes else None

    def unit(self, outputs: Array) -> Array:
        """d outputs / d outputs."""
        d = outputs.shape[-2]
        eye: Array = np.eye(d, dtype=outputs.dtype)
        return eye.reshape(*(1,) * (outputs.ndim - 2), d, d, 1)

    def scale(self, adjoint: Array, slope: Array) -> Array:
        return self.field.multiply(adjoint, slope[..., None, :, :])

    def back(self, adjoint: Array, matrix: Array) -> Array:
        return self.matmul(np.swapaxes(matrix, -1, -2)[..., None, :, :], adjoint)


def real_links(network: Network, inputs: Array) -> tuple[Link, ...]:
    """The chain of a network at inputs in an array."""
    return links(network, network.split_inputs(inputs), np.ones((1, 1)))


def run(
    network: Network,
    weights: Weights,
    inputs: Array,
    field: Field = REALS,
    gates: Gates | None = None,
    states: Gates | None = None,
) -> Trace:
    """Run a network on arrays; ``gates`` and ``states`` as in :class:`Arrays`."""
    return walk(real_links(network, inputs), weights, arrays(network, field, gates, states))


def arrays(
    network: Network, field: Field, gates: Gates | None = None, states: Gates | None = None
) -> Arrays:
    """The arithmetic in which a network has values; a network that has none is refused."""
    for position, step in enumerate(network.steps):
        given = step.activation == "linear" or (gates is not None and position in gates)
        if not given and field is not REALS:
            raise BadInputError(
                f"{network.spec} has a {step.activation} step, which has no value modulo a prime; "
                "only linear steps and steps with given gates do."
            )
    return Arrays(field, gates, states)


def forward(network: Network, weights: Weights, inputs: Array) -> Array:
    """See :meth:`Network.forward`."""
    out: Array = walk(real_links(network, inputs), weights, Arrays(slopes=False)).outputs
    return out


class Matrices:
    """The arithmetic of matrices with ``*`` and ``+``: whole numbers, residues, balls.

    ``value(activation, matrix)`` applies an activation that is not linear.
    """

    matmul = staticmethod(operator.mul)
    add = staticmethod(operator.add)

    def __init__(self, value: Callable[[str, Matrix], Matrix]) -> None:
        self.value = value

    def bend(self, position: int, activation: str, before: Matrix) -> tuple[Matrix, Matrix]:
        return self.value(activation, before), None


def evaluate(
    network: Network,
    weights: Mapping[str, Matrix],
    blocks: Sequence[Matrix],
    ones: Matrix,
    value: Callable[[str, Matrix], Matrix],
) -> Matrix:
    """The outputs over :class:`Matrices`; ``ones`` is a row of ones, one per sample."""
    return walk(links(network, blocks, ones), weights, Matrices(value)).outputs


def gates_at(network: Network, weights: Weights, inputs: Array) -> dict[int, Array]:
    """The 0/1 activation pattern of every ReLU step at real weights and inputs (Lemma D.1)."""
    trace = run(network, weights, inputs)
    return {
        position: trace.slopes[position]
        for position, step in enumerate(network.steps)
        if step.activation == "relu"
    }
