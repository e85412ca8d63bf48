"""Networks read from their sizes and names alone, and run forward in any numbers.

Feed-forward: y = W_L phi(... phi(W_1 x + b_1)) + b_L. Recurrent, eq. (3.3) of the paper:
h_t = phi(W (h_{t-1} + B x_t)), y = D h_T. Estimator: y = W x. Rate network, from 0 or from h_0 = h0:
h_t = (1 - a) h_{t-1} + a phi(W h_{t-1} + Win x_t + b), y_t = D h_t + c, put out at the last or at every step.
Weights that do not exist are 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from flint import arb, fmpq

import sublearn as sl

Number = Any
Vector = list[Number]
Matrix = list[list[Number]]
Ball = Any  # flint.arb
Label = tuple[str, int, int]

CURVED = ("tanh", "sigmoid")


@dataclass(frozen=True)
class Link:
    """state <- phi(matrix (state + encoder block) + bias).

    With a ``drive``: phi(matrix state + drive block + bias). With a ``leak`` a: (1 - a) state + a phi(...).
    ``aside``: put out, and the state stays.
    """

    matrix: str
    phi: str
    block: int | None = None
    encoder: str | None = None
    bias: str | None = None
    drive: str | None = None
    leak: float = 1.0
    aside: bool = False


@dataclass(frozen=True)
class Layout:
    """A chain of links, with the shapes of its weights and the sizes of its input blocks.

    ``start``: the weight that the state begins with. ``missing``: weights that do not exist.
    """

    links: tuple[Link, ...]
    shapes: tuple[tuple[str, int, int], ...]
    blocks: tuple[int, ...]
    start: str | None = None
    missing: frozenset[Label] = frozenset()

    @property
    def places(self) -> list[Label]:
        """All entries of all matrices."""
        return [(name, i, j) for name, h, w in self.shapes for i in range(h) for j in range(w)]

    @property
    def labels(self) -> list[Label]:
        """All weights that exist."""
        return [label for label in self.places if label not in self.missing]

    @property
    def outputs(self) -> int:
        """d, times the number of steps that are read out."""
        last = self.links[-1].matrix
        read = sum(link.matrix == last for link in self.links)
        return read * next(h for name, h, _ in self.shapes if name == last)

    def without_missing(self, weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The same weights with 0 where none exists."""
        out = {name: np.array(value) for name, value in weights.items()}
        for name, i, j in self.missing:
            out[name][i, j] = 0.0
        return out


def layout(network: sl.Network) -> Layout:
    """The chain of a network, from its public sizes."""
    chain = _dense(getattr(network, "base", network))
    missing = frozenset(
        (name, int(i), int(j))
        for name, mask in network.connections.items()
        for i, j in np.argwhere(~np.asarray(mask))
    )
    return replace(chain, missing=missing)


def _dense(network: sl.Network) -> Layout:
    if isinstance(network, sl.LinearEstimator):
        shapes = (("W", network.outputs, network.inputs),)
        return Layout((Link("W", "linear", block=0),), shapes, (network.inputs,))
    if isinstance(network, sl.FeedForward):
        sizes, depth = network.sizes, len(network.sizes) - 1
        links = tuple(
            Link(
                f"W{k}",
                network.output if k == depth else network.activation,
                0 if k == 1 else None,
                None,
                f"b{k}" if network.bias else None,
            )
            for k in range(1, depth + 1)
        )
        shapes = tuple((f"W{k}", sizes[k], sizes[k - 1]) for k in range(1, depth + 1))
        biases = tuple((f"b{k}", sizes[k], 1) for k in range(1, depth + 1))
        return Layout(links, (*shapes, *biases) if network.bias else shapes, (sizes[0],))
    if isinstance(network, sl.RateRNN):
        return _rate(network)
    assert isinstance(network, sl.LinearRNN | sl.RNN)
    n, b, d, T = network.n, network.b, network.d, network.T
    phi = network.activation if isinstance(network, sl.RNN) else "linear"
    steps = tuple(Link("W", phi, t, "B") for t in range(T))
    return Layout((*steps, Link("D", "linear")), (("W", n, n), ("B", n, b), ("D", d, n)), (b,) * T)


def _rate(network: sl.RateRNN) -> Layout:
    n, b, d, T = network.n, network.b, network.d, network.T
    bias, out = ("b", "c") if network.bias else (None, None)
    links = []
    for t in range(T):
        links.append(Link("W", network.activation, t, None, bias, "Win", network.leak))
        if network.readout == "every" or t == T - 1:
            links.append(Link("D", "linear", bias=out, aside=t < T - 1))
    shapes = [("W", n, n), ("Win", n, b), ("D", d, n)]
    if network.bias:
        shapes += [("b", n, 1), ("c", d, 1)]
    given = network.start == "weights"
    if given:
        shapes.append(("h0", n, 1))
    return Layout(tuple(links), tuple(shapes), (b,) * T, "h0" if given else None)


def times(matrix: Matrix, vector: Vector) -> Vector:
    """Matrix times vector, in whatever numbers they hold."""
    return [sum((a * b for a, b in zip(row, vector, strict=True)), 0 * vector[0]) for row in matrix]


def before(
    link: Link, weights: Mapping[str, Matrix], state: Vector | None, x: Sequence[Vector]
) -> Vector:
    """The pre-activations of one link."""
    source, beside = state, None
    if link.block is not None:
        entering = list(x[link.block])
        if link.drive is not None:
            beside = times(weights[link.drive], entering)
        else:
            if link.encoder is not None:
                entering = times(weights[link.encoder], entering)
            source = entering if state is None else plus(state, entering)
    if source is None:  # W is applied to 0
        assert beside is not None
        out = beside
    else:
        out = times(weights[link.matrix], source)
        out = out if beside is None else plus(out, beside)
    if link.bias is not None:
        out = [a + row[0] for a, row in zip(out, weights[link.bias], strict=True)]
    return out


def plus(a: Vector, b: Vector) -> Vector:
    """The sum of two vectors."""
    return [v + w for v, w in zip(a, b, strict=True)]


def by(number: float, value: Number) -> Number:
    """A float64 number times a value, exactly where the value is exact."""
    if isinstance(value, np.ndarray | np.generic | float | complex):
        return number * value
    return value * fmpq(*number.as_integer_ratio())


def after(link: Link, state: Vector | None, values: Vector) -> Vector:
    """The state behind a link whose activations are ``values``; 1 - leak is what float64 makes of it."""
    if link.leak == 1.0:
        return values
    new = [by(link.leak, v) for v in values]
    return new if state is None else plus([by(1.0 - link.leak, v) for v in state], new)


Phi = Callable[[str, Number], Number]


def forward(
    chain: Layout,
    weights: Mapping[str, Matrix],
    x: Sequence[Vector],
    phi: Phi,
    links: int | None = None,
) -> Vector:
    """The pre-activations of the link number ``links`` (from 1; default: the last), below all that was read
    out on the way."""
    state = begin(chain, weights)
    used = chain.links[: len(chain.links) if links is None else links]
    out: Vector = []
    for link in used[:-1]:
        z = before(link, weights, state, x)
        if link.aside:
            out += z
        else:
            state = after(link, state, [phi(link.phi, v) for v in z])
    return out + before(used[-1], weights, state, x)


def begin(chain: Layout, weights: Mapping[str, Matrix]) -> Vector | None:
    """The state before the first link; None for 0."""
    return None if chain.start is None else [row[0] for row in weights[chain.start]]


def rational_phi(name: str, value: Number) -> Number:
    """Linear and ReLU on rationals."""
    if name == "relu":
        return value if value > 0 else 0 * value
    assert name == "linear"
    return value


def ball_phi(name: str, value: Ball) -> Ball:
    """Every activation on balls."""
    if name == "tanh":
        return value.tanh()
    if name == "sigmoid":
        return 1 / (1 + (-value).exp())
    if name == "relu":
        return value.max(arb(0))
    return value


def float_phi(name: str, value: Number) -> Number:
    """Every activation on float64."""
    if name == "tanh":
        return np.tanh(value)
    if name == "sigmoid":
        return (1 + np.tanh(value / 2)) / 2  # no overflow
    return np.maximum(value, 0) if name == "relu" else value


def rational(values: Any) -> Matrix:
    """A matrix of float64 numbers as the rationals they are."""
    array = np.asarray(values, dtype=np.float64)
    return [[fmpq(*v.as_integer_ratio()) for v in row] for row in array.tolist()]


def balls(matrix: Matrix) -> Matrix:
    """Rationals as balls at the working precision."""
    return [[arb(v) for v in row] for row in matrix]


def samples_of(chain: Layout, inputs: Matrix) -> list[list[Vector]]:
    """Columns of a (features x m) matrix, cut into blocks."""
    out = []
    for s in range(len(inputs[0])):
        column, cut, at = [row[s] for row in inputs], [], 0
        for size in chain.blocks:
            cut.append(column[at : at + size])
            at += size
        out.append(cut)
    return out
