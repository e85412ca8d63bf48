"""Running a chain forward: one pass, whatever its numbers are.

Floats, residues, rationals, balls and ranges all take the same walk along the chain. What they know of
themselves is an :class:`Arithmetic`: how to multiply, how to add, and what an activation does.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sublearn._arrays import Array
from sublearn._errors import BadInputError
from sublearn.networks._activations import ACTIVATIONS
from sublearn.networks._network import Network, Step, Weights

Gates = Mapping[int, Array]
"""Fixed 0/1 slopes (n, m) of the ReLU steps, by position in the chain."""

Matrix = Any
"""Whatever an arithmetic multiplies and adds: an array, a flint matrix, a range, a dual number."""


@dataclass(frozen=True)
class Link(Step):
    """A step of a chain with its inputs in place.

        state <- activation(weight (state + entering + encoder block) + drive block + bias still + offset)

    ``weight``, ``encoder``, ``drive`` and ``bias`` are names; all others are numbers. What is None is
    absent. With a ``leak``, the state becomes ``kept state + leak activation(...)``; ``aside``, it
    stays as it is, and what was computed is put out.
    """

    block: Matrix = None  # what the encoder or the drive is applied to
    entering: Matrix = None
    still: Matrix = None  # what the bias is applied to: ones, mostly
    offset: Matrix = None

    def __post_init__(self) -> None:
        """A step was checked when it was made."""


def links(network: Network, blocks: Sequence[Matrix], ones: Matrix) -> tuple[Link, ...]:
    """The chain of a network at given input blocks; ``ones`` is what its biases are applied to."""
    out = []
    last = network.steps[-1]
    if last.aside or last.leak != 1.0:
        raise BadInputError("the last step of a network must be its readout, without a leak.")
    for position, step in enumerate(network.steps):
        block = None if step.block is None else blocks[step.block]
        injected = step.encoder is None and step.drive is None
        entering = block if injected else None
        if position == 0 and block is None:
            entering = ones
        out.append(
            Link(
                **{**vars(step), "block": None if injected else block},
                entering=entering,
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

    def times(self, number: float, a: Matrix) -> Matrix:
        """A float64 number times a matrix; for chains that leak."""

    def stack(self, parts: Sequence[Matrix]) -> Matrix:
        """One matrix above the other; for chains that are read at several steps."""


class Derivable(Arithmetic, Protocol):
    """What the backward pass needs beside: derivatives of the outputs, called adjoints."""

    def scale(self, adjoint: Any, slope: Matrix) -> Any:
        """The derivative by what stands before an activation, from that by what it leaves."""

    def back(self, adjoint: Any, matrix: Matrix) -> Any:
        """The derivative by what enters a product with ``matrix``, from that by what leaves it."""

    def weigh(self, number: float, adjoint: Any) -> Any:
        """A float64 number times an adjoint."""

    def join(self, one: Any, two: Any) -> Any:
        """The sum of two adjoints by the same state."""

    def rows(self, adjoint: Any, start: int, stop: int) -> Any:
        """The adjoint by some of the rows only."""


@dataclass(frozen=True)
class Trace:
    """What one forward run leaves behind for the derivatives, a list entry per step."""

    links: Sequence[Link]
    entering: list[Matrix]  # all that the weight is applied to
    before: list[Matrix]  # pre-activations
    slopes: list[Matrix]  # phi'; None where the step is linear
    outputs: Matrix
    read: list[Matrix]  # what the steps aside and the last one put out: the outputs, in pieces


def walk(chain: Sequence[Link], weights: Mapping[str, Matrix], numbers: Arithmetic) -> Trace:
    """Run the chain in an arithmetic."""
    matmul, add = numbers.matmul, numbers.add
    state: Matrix = None
    entering: list[Matrix] = []
    before: list[Matrix] = []
    slopes: list[Matrix] = []
    read: list[Matrix] = []
    for position, link in enumerate(chain):
        old = state
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
        if link.drive is not None:
            state = add(state, matmul(weights[link.drive], link.block))
        before.append(state)
        slope = None
        if link.activation != "linear":
            state, slope = numbers.bend(position, link.activation, state)
        slopes.append(slope)
        if link.leak != 1.0:
            state = numbers.times(link.leak, state)
            if old is not None:
                state = add(state, numbers.times(link.kept, old))
        if link.aside:
            read.append(state)
            state = old
    read.append(state)
    outputs = state if len(read) == 1 else numbers.stack(read)
    return Trace(chain, entering, before, slopes, outputs, read)


def rows_of(matrix: Matrix) -> int:
    """The rows of a matrix, whatever it is made of."""
    if hasattr(matrix, "nrows"):
        return int(matrix.nrows())
    array: Any = getattr(matrix, "value", matrix)
    return int(array.shape[-2])


class Field(Protocol):
    """Numbers in arrays: with numpy's shapes and broadcasting, and a product and sum of their own."""

    def matmul(self, a: Array, b: Array) -> Array: ...
    def add(self, a: Array, b: Array) -> Array: ...
    def multiply(self, a: Array, b: Array) -> Array: ...

    def dyadic(self, number: float) -> Any:
        """A float64 number in the field."""


class _Reals:
    @staticmethod
    def dyadic(number: float) -> float:
        return number

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

    def times(self, number: float, a: Array) -> Array:
        return self.field.multiply(self.field.dyadic(number), a)

    def stack(self, parts: Sequence[Array]) -> Array:
        lead = np.broadcast_shapes(*(part.shape[:-2] for part in parts))
        return np.concatenate([np.broadcast_to(p, (*lead, *p.shape[-2:])) for p in parts], axis=-2)

    weigh = times

    def join(self, one: Array, two: Array) -> Array:
        return self.field.add(one, two)

    def rows(self, adjoint: Array, start: int, stop: int) -> Array:
        return adjoint[..., start:stop, :]

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
                f"{network.title} has a {step.activation} step, which has no value modulo a prime; "
                "only linear steps and steps with given gates do."
            )
    return Arrays(field, gates, states)


def forward(network: Network, weights: Weights, inputs: Array) -> Array:
    """See :meth:`Network.forward`."""
    out: Array = walk(real_links(network, inputs), weights, Arrays(slopes=False)).outputs
    return out


class Matrices:
    """The arithmetic of matrices with ``*`` and ``+``: whole numbers, residues, balls.

    ``value(activation, matrix)`` applies an activation that is not linear, ``exact(array)`` is the matrix
    of float64 numbers.
    """

    matmul = staticmethod(operator.mul)
    add = staticmethod(operator.add)

    def __init__(
        self, exact: Callable[[Array], Matrix], value: Callable[[str, Matrix], Matrix]
    ) -> None:
        self.exact, self.value = exact, value

    def times(self, number: float, a: Matrix) -> Matrix:
        return self.exact(number * np.eye(rows_of(a))) * a

    def stack(self, parts: Sequence[Matrix]) -> Matrix:
        places = np.cumsum([0, *(rows_of(part) for part in parts)])
        eye = np.eye(int(places[-1]))
        placed = [
            self.exact(eye[:, start:stop].copy()) * part
            for part, start, stop in zip(parts, places, places[1:], strict=False)
        ]
        return functools.reduce(self.add, placed)

    def bend(self, position: int, activation: str, before: Matrix) -> tuple[Matrix, Matrix]:
        return self.value(activation, before), None


def evaluate(
    network: Network,
    weights: Mapping[str, Matrix],
    blocks: Sequence[Matrix],
    samples: int,
    exact: Callable[[Array], Matrix],
    value: Callable[[str, Matrix], Matrix],
) -> Matrix:
    """The outputs over :class:`Matrices`."""
    ones = exact(np.ones((1, samples)))
    return walk(links(network, blocks, ones), weights, Matrices(exact, value)).outputs


def gates_at(network: Network, weights: Weights, inputs: Array) -> dict[int, Array]:
    """The 0/1 activation pattern of every ReLU step at real weights and inputs (Lemma D.1)."""
    trace = run(network, weights, inputs)
    return {
        position: trace.slopes[position]
        for position, step in enumerate(network.steps)
        if step.activation == "relu"
    }
