"""How large the polynomials of a chain are: one more arithmetic of the walk along it.

Outputs of a linear chain, and their derivatives, are polynomials in weights and inputs with positive
coefficients. With gates, and what tanh and sigmoid leave behind, as further unknowns so are all others, up to
signs.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from math import log2
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sublearn.networks._derivatives import uses
from sublearn.networks._forward import Trace, links, walk

if TYPE_CHECKING:
    from sublearn.networks._network import Network, Shape


class Size(NamedTuple):
    """Of a polynomial: its degree, and log2 of the sum of its absolute coefficients, or more."""

    degree: int
    norm: float

    def nrows(self) -> int:
        """One size stands for all rows of a matrix."""
        return 1


def _sum(a: Size, b: Size) -> Size:
    return Size(max(a.degree, b.degree), float(np.logaddexp2(a.norm, b.norm)))


def _product(a: Size, b: Size) -> Size:
    return Size(a.degree + b.degree, a.norm + b.norm)


ONE, UNKNOWN = Size(0, 0.0), Size(1, 0.0)


class _Sizes:
    """The arithmetic of sizes; a weight is its shape. Without ``bent`` every step passes for linear."""

    add, join, scale = map(staticmethod, (_sum, _sum, _product))

    def __init__(self, bent: bool) -> None:
        self.bent = bent

    def matmul(self, a: Shape, b: Size) -> Size:
        return Size(b.degree + 1, b.norm + log2(a[1]))

    def back(self, adjoint: Size, matrix: Shape) -> Size:
        return Size(adjoint.degree + 1, adjoint.norm + log2(matrix[0]))

    def times(self, number: float, a: Size) -> Size:
        return Size(a.degree, a.norm + log2(number))

    weigh = times

    def bend(self, position: int, activation: str, before: Size) -> tuple[Size, Size | None]:
        if not self.bent:
            return before, None
        if activation == "relu":
            return _product(before, UNKNOWN), UNKNOWN
        return UNKNOWN, Size(2, 1.0)  # h, and 1 - h^2 or h - h^2

    def stack(self, parts: Sequence[Size]) -> Size:
        return Size(max(part.degree for part in parts), max(part.norm for part in parts))

    def rows(self, adjoint: Size, start: int, stop: int) -> Size:
        return adjoint


def _walked(network: Network, sample: Size, numbers: _Sizes) -> Trace:
    blocks = [sample] * len(network.input_blocks)
    return walk(links(network, blocks, ONE), network.shapes, numbers)


def output_size(network: Network, sample: Size = UNKNOWN) -> Size:
    """The size of an output in weights and inputs, gates fixed; that of an input is ``sample``."""
    out: Size = _walked(network, sample, _Sizes(bent=False)).outputs
    return out


def entry_size(network: Network, sample: Size) -> Size:
    """The size of an entry of the Jacobian in weights, inputs, gates and what tanh and sigmoid leave."""
    numbers = _Sizes(bent=True)
    # What a bias adds is no larger than what the weight of its step does.
    names = set(network.shapes) - {step.bias for step in network.steps}
    terms = uses(_walked(network, sample, numbers), network.shapes, numbers, ONE, names)
    total = functools.reduce(_sum, (_product(left, right) for _, left, right in terms))
    return Size(total.degree, total.norm + leak_bits(network))


def leak_bits(network: Network) -> int:
    """The power of 2 by which outputs are multiplied so that leaks leave whole coefficients."""
    leaks = ((step.leak, step.kept) for step in network.steps if step.leak != 1.0)
    return sum(max(x.as_integer_ratio()[1].bit_length() for x in pair) for pair in leaks)


def log2_terms(network: Network, sample: Size = UNKNOWN) -> float:
    """log2 of a bound on the sum of the coefficients of an output, or of its derivative by a weight.

    A power of 2 makes them whole, and a derivative multiplies their sum by at most the degree.
    """
    return output_size(network, sample).norm + log2(network.degree) + leak_bits(network)
