"""The numbers of a rank certificate looked at again, by code that shares no arithmetic with what made it.

A point is a prime and a number; its coordinates are SHAKE-256 of that number and a name, so that nothing
else has to be kept. Derivatives are taken forward, weight by weight, in whole numbers of 64 bits; verdicts
take them backward, in factors, and in float64.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sublearn._arrays import Array, Indices
from sublearn._errors import BadInputError
from sublearn._limits import check_memory
from sublearn.ensembles import Problem
from sublearn.networks import Network

Label = tuple[str, int, int]
Bend = Callable[[int, str, Any, Any], tuple[Any, Any]]
"""An activation at a step: (position, its name, what enters, derivatives) to (value, derivatives)."""
SMALLEST, LARGEST = 2**22, 2**23  # of a prime: products of residues, summed, fit into 64 bits
_PIECE = 2**22  # numbers of derivatives that are held at once


@dataclass(frozen=True)
class Place:
    """A point modulo ``prime``: entry k of what is called NAME is drawn by SHAKE-256 from (number, NAME).

    >>> Place(8388593, 7).residues("weight W", (2, 2)).shape
    (2, 2)
    """

    prime: int
    number: int

    def residues(self, name: str, shape: tuple[int, ...]) -> Indices:
        """The coordinates called ``name``, each modulo the prime."""
        words = np.frombuffer(self._stream(name, 8 * int(np.prod(shape))), dtype="<u8")
        return (words % np.uint64(self.prime)).astype(np.int64).reshape(shape)

    def integers(self, name: str, shape: tuple[int, ...]) -> Any:
        """Whole numbers from -32768 to 32767 of the same names, of no prime; Python's, without a limit."""
        words = np.frombuffer(self._stream(f"real {name}", 2 * int(np.prod(shape))), dtype="<i2")
        return words.astype(object).reshape(shape)

    def _stream(self, name: str, size: int) -> bytes:
        return hashlib.shake_256(f"sublearn point\n{self.number}\n{name}".encode()).digest(size)


def is_prime(number: int) -> bool:
    """By trial division."""
    return number > 1 and all(number % q for q in range(2, int(number**0.5) + 1))


def whole_gates(problem: Problem, network: Network, place: Place) -> dict[int, Indices] | None:
    """The gates of every ReLU step at the point with whole coordinates, exactly; None if one is at 0.

    Where none is at 0, all points nearby have the same gates: they occur with positive probability.
    """
    gates: dict[int, Indices] = {}
    settled = True

    def bend(position: int, activation: str, z: Any, change: Any) -> tuple[Any, Any]:
        nonlocal settled
        if activation != "relu":
            raise BadInputError("gates behind tanh or sigmoid are no matter of whole numbers.")
        settled = settled and not (z == 0).any()
        gates[position] = np.asarray(z > 0, dtype=np.int64)
        return z * gates[position], change

    weights = _weights(network, place.integers)
    blocks = network.split_inputs(_inputs(problem, network, place.integers))
    _forward(network, weights, blocks, bend, [], None)
    return gates if settled else None


def _weights(network: Network, draw: Any) -> dict[str, Any]:
    return {
        name: np.where(network.existing(name), draw(f"weight {name}", shape), 0)
        for name, shape in network.shapes.items()
    }


def _inputs(problem: Problem, network: Network, draw: Any) -> Any:
    shape, inner = network.input_shape(problem.samples), problem.ensemble.inputs.inner
    if inner is None:
        return draw("inputs", shape)
    features = int(np.prod(shape[:-1]))
    size = 32 * inner * (features + problem.samples)
    check_memory(f"inputs of rank {inner}", size, "inputs of a lower rank")
    left = draw("inputs left", (features, inner))
    return (left @ draw("inputs right", (inner, problem.samples))).reshape(shape)


def jacobian_modulo(
    problem: Problem,
    network: Network,
    place: Place,
    labels: Sequence[Label],
    gates: Mapping[int, Indices] | None = None,
) -> Indices:
    """Derivatives of all outputs by the named weights at a place, (d m, columns), modulo its prime.

    Rows are ordered (output, sample). ReLU steps have the ``gates`` that are given, or random numbers in
    their place; of tanh and sigmoid steps the value is a random number of its own.
    """
    p, m = place.prime, problem.samples
    weights = _weights(network, place.residues)
    inputs = _inputs(problem, network, place.residues) % p
    slopes, states = _slopes(problem, network, place, gates)

    def bend(position: int, activation: str, y: Any, dy: Any) -> tuple[Any, Any]:
        if activation == "relu":
            gate = slopes[position] % p
            return y * gate % p, dy * gate % p
        h = states[position] % p
        slope = (1 - h * h) % p if activation == "tanh" else h * (1 - h) % p
        return h, dy * slope % p

    blocks: list[Any] = list(network.split_inputs(inputs))
    widest = max(rows for rows, _ in network.shapes.values())
    rows = network.output_size * m
    check_memory("the Jacobian", 32 * rows * len(labels), "a smaller network")
    out = np.empty((rows, len(labels)), dtype=np.int64)
    step = max(1, _PIECE // (widest * m))
    for start in range(0, len(labels), step):
        part = labels[start : start + step]
        out[:, start : start + step] = _forward(network, weights, blocks, bend, part, p)
    return out


def _slopes(
    problem: Problem, network: Network, place: Place, gates: Mapping[int, Indices] | None
) -> tuple[dict[int, Any], dict[int, Any]]:
    """What bends a chain at a point: gates of ReLU steps, and what tanh and sigmoid steps leave behind."""
    states, slopes = {}, dict(gates or {})
    heard = None
    if network.connections:
        from sublearn.verdicts._points import Heard

        heard = Heard(network)  # which of them are the same number, or 0
    for position, step in enumerate(network.steps):
        shape = (network.shapes[step.weight][0], problem.samples)
        if step.activation == "relu" and gates is None:
            slopes[position] = place.residues(f"gate {position}", shape)
        elif step.activation in ("tanh", "sigmoid"):
            drawn = place.residues(f"state {position}", shape)
            if heard is not None:
                drawn = heard.settled(position, drawn.astype(np.float64)).astype(np.int64)
            states[position] = drawn
    return slopes, states


def _forward(
    network: Network,
    weights: Mapping[str, Any],
    blocks: Sequence[Any],
    bend: Bend,
    labels: Sequence[Label],
    p: int | None,
) -> Indices:
    """One pass along the chain: values (units, m), and their derivatives (columns, units, m).

    Modulo p, or in whole numbers and fractions without a limit where it is None.
    """
    columns = {
        name: [(k, i, j) for k, (of, i, j) in enumerate(labels) if of == name]
        for name in network.shapes
    }
    m = blocks[0].shape[-1]

    def reduced(numbers: Any) -> Any:
        return numbers if p is None else numbers % p

    def product(name: str, x: Any, dx: Any) -> tuple[Any, Any]:
        """W x, and its derivative: W dx, and of the entry (i, j) of W itself row j of x in row i."""
        W = weights[name]
        shape = (len(labels), W.shape[0], m)
        dy = np.zeros(shape, dtype=np.int64) if dx is None else reduced(W @ dx)
        for k, i, j in columns[name]:
            dy[k, i] = reduced(dy[k, i] + x[j])
        return reduced(W @ x), dy

    one = np.ones((1, m), dtype=np.int64)
    state: Any = None
    change: Any = None
    read = []
    for position, step in enumerate(network.steps):
        block = None if step.block is None else blocks[step.block]
        x, dx = state, change
        if block is not None and step.drive is None:
            given, moved = (
                (block, None) if step.encoder is None else product(step.encoder, block, None)
            )
            x = given if x is None else reduced(x + given)
            dx = dx if moved is None else moved if dx is None else reduced(dx + moved)
        elif x is None:
            x = one
        y, dy = product(step.weight, x, dx)
        for name, entering in ((step.bias, one), (step.drive, block)):
            if name is not None and entering is not None:
                more, moved = product(name, entering, None)
                y, dy = reduced(y + more), reduced(dy + moved)
        if step.activation != "linear":
            y, dy = bend(position, step.activation, y, dy)
        if step.leak != 1.0:
            leak, kept = (_number(value, p) for value in (step.leak, step.kept))
            y, dy = reduced(y * leak), reduced(dy * leak)
            if state is not None:
                y = reduced(y + kept * state)
                dy = dy if change is None else reduced(dy + kept * change)
        if step.aside:
            read.append(dy)
        else:
            state, change = y, dy
    out = np.concatenate([*read, change], axis=1)
    return np.asarray(out.reshape(len(labels), out.shape[1] * m).T)


def _number(number: float, p: int | None) -> Fraction | int:
    if p is None:
        return Fraction(number)
    whole, power = number.as_integer_ratio()
    return whole * pow(power, -1, p) % p


def rank_modulo(matrix: Array | Indices, p: int) -> int:
    """The rank of whole numbers modulo a prime, by plain elimination.

    >>> rank_modulo(np.array([[1, 2], [2, 4]]), 8388593), rank_modulo(np.eye(3, dtype=int), 8388593)
    (1, 3)
    """
    left = np.array(matrix, dtype=np.int64) % p
    if left.shape[0] < left.shape[1]:
        left = left.T.copy()
    rank = 0
    for column in range(left.shape[1]):
        below = np.flatnonzero(left[rank:, column])
        if not below.size:
            continue
        pivot = rank + int(below[0])
        left[[rank, pivot]] = left[[pivot, rank]]
        left[rank] = left[rank] * pow(int(left[rank, column]), -1, p) % p
        rest = left[rank + 1 :, column:]
        rest -= rest[:, :1] * left[rank, column:] % p
        rest %= p
        rank += 1
        if rank == left.shape[0]:
            break
    return rank
