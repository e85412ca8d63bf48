"""Networks read from their sizes and names alone, and run forward in any numbers.

Feed-forward: y = W_L phi(... phi(W_1 x + b_1)) + b_L. Recurrent, eq. (3.3) of the paper:
h_t = phi(W (h_{t-1} + B x_t)), y = D h_T. Estimator: y = W x.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
    """state <- phi(matrix (state + encoder block) + bias)."""

    matrix: str
    phi: str
    block: int | None = None
    encoder: str | None = None
    bias: str | None = None


@dataclass(frozen=True)
class Layout:
    """A chain of links, with the shapes of its weights and the sizes of its input blocks."""

    links: tuple[Link, ...]
    shapes: tuple[tuple[str, int, int], ...]
    blocks: tuple[int, ...]

    @property
    def labels(self) -> list[Label]:
        """All weights."""
        return [(name, i, j) for name, h, w in self.shapes for i in range(h) for j in range(w)]

    @property
    def outputs(self) -> int:
        """d."""
        last = self.links[-1].matrix
        return next(h for name, h, _ in self.shapes if name == last)


def layout(network: sl.Network) -> Layout:
    """The chain of a network, from its public sizes."""
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
    assert isinstance(network, sl.LinearRNN | sl.RNN)
    n, b, d, T = network.n, network.b, network.d, network.T
    phi = network.activation if isinstance(network, sl.RNN) else "linear"
    steps = tuple(Link("W", phi, t, "B") for t in range(T))
    return Layout((*steps, Link("D", "linear")), (("W", n, n), ("B", n, b), ("D", d, n)), (b,) * T)


def times(matrix: Matrix, vector: Vector) -> Vector:
    """Matrix times vector, in whatever numbers they hold."""
    return [sum((a * b for a, b in zip(row, vector, strict=True)), 0 * vector[0]) for row in matrix]


def before(
    link: Link, weights: Mapping[str, Matrix], state: Vector | None, x: Sequence[Vector]
) -> Vector:
    """The pre-activations of one link."""
    source = state
    if link.block is not None:
        entering = list(x[link.block])
        if link.encoder is not None:
            entering = times(weights[link.encoder], entering)
        source = (
            entering if state is None else [a + b for a, b in zip(state, entering, strict=True)]
        )
    assert source is not None
    out = times(weights[link.matrix], source)
    if link.bias is not None:
        out = [a + row[0] for a, row in zip(out, weights[link.bias], strict=True)]
    return out


Phi = Callable[[str, Number], Number]


def forward(
    chain: Layout,
    weights: Mapping[str, Matrix],
    x: Sequence[Vector],
    phi: Phi,
    links: int | None = None,
) -> Vector:
    """The pre-activations of the link number ``links`` (from 1; default: the last)."""
    state: Vector | None = None
    used = chain.links[: len(chain.links) if links is None else links]
    for link in used[:-1]:
        state = [phi(link.phi, v) for v in before(link, weights, state, x)]
    return before(used[-1], weights, state, x)


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
