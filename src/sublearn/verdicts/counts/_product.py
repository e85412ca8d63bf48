"""Linear chains as products of a few matrices: the form in which all complex roots are looked for.

A product form is

    S_0 = start,   S_p = chain_p S_{p-1}  (p = 1..P),   R_p = read S_p,   outputs = [R_first .. R_P] mix

where start, chain_p and read are weight matrices (or the inputs), some of their entries learnable.

- Linear RNN: S_p = W^p B, R_p = D W^p B are the Markov parameters, and Y = sum_p R_p X_{T-p+1}, so
  that mix is the matrix of the inputs with the last step first (Lemma 3.3). If mix is invertible,
  that is m = T b, it drops out: R = Y mix^-1.
- Linear layers: S_0 = X, S_p = W_p .. W_1 X, and only R_{L-1} = W_L S_{L-1} = Y is read. A bias is a
  column of its matrix that meets a state which is always 1. With as many samples as inputs and no
  bias, S_0 = W_1 and mix = X instead, so that the inputs drop out here too.

Two facts make the Jacobian simple: either only R_P is read, or all chain_p are one matrix. So the
derivative of R_q with respect to what leaves step p depends on q - p alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from sublearn._arrays import Array, Indices
from sublearn.allocations import Allocation
from sublearn.networks import FeedForward, LinearRNN, Network

if TYPE_CHECKING:
    from sublearn.ensembles import Instance


@dataclass(frozen=True, eq=False)
class ProductForm:
    """The structure of a product form; the numbers are in :class:`ProductNumbers`.

    ``shapes`` are those of the matrices, by number. ``where`` has a row (matrix, row, column) for
    each learnable weight, in the order of the allocation's labels. ``units`` are the (matrix, row,
    column) of entries that are always 1, ``zeros`` those that are always 0: the ones a bias needs.
    ``mixed``: the inputs are in the mix; else they are the start.
    """

    shapes: tuple[tuple[int, int], ...]
    start: int
    chain: tuple[int, ...]
    read: int
    first: int
    where: Indices
    units: tuple[tuple[int, int, int], ...]
    zeros: frozenset[tuple[int, int, int]]
    mixed: bool
    samples: int

    @property
    def width(self) -> int:
        """The number of columns of the states."""
        return self.shapes[self.start][1]

    @property
    def outputs(self) -> int:
        """d."""
        return self.shapes[self.read][0]

    @property
    def readouts(self) -> int:
        """The number of R_p that are read."""
        return len(self.chain) - self.first + 1


@dataclass(frozen=True, eq=False)
class ProductNumbers:
    """The matrices of one instance (learnable entries 0), its mix (None: identity) and its targets."""

    matrices: tuple[Array, ...]
    mix: Array | None
    targets: Array


@lru_cache(maxsize=64)
def product_form(network: Network, allocation: Allocation, samples: int) -> ProductForm | None:
    """The product form of a linear RNN or of linear layers; None for any other network."""
    if isinstance(network, LinearRNN):
        number = {"B": 0, "W": 1, "D": 2}
        shapes = tuple(network.shapes[name] for name in number)
        where = [(number[name], i, j) for name, i, j in allocation.labels()]
        chain = (1,) * network.T
        return _form(shapes, chain, 2, 1, where, (), (), True, samples)
    if isinstance(network, FeedForward) and network.is_linear:
        if _square(network, samples):
            where = [(int(name[1:]) - 1, i, j) for name, i, j in allocation.labels()]
            chain, last = tuple(range(1, network.layers - 1)), network.layers - 1
            shapes = tuple(network.shapes.values())
            return _form(shapes, chain, last, last - 1, where, (), (), True, samples)
        bias, last = int(network.bias), network.layers
        sizes = [size + bias for size in network.sizes]
        shapes = (
            (sizes[0], samples),
            *((sizes[k], sizes[k - 1]) for k in range(1, last)),
            (sizes[last] - bias, sizes[last - 1]),
        )
        where = [
            (int(name[1:]), i, j if name[0] == "W" else sizes[int(name[1:]) - 1] - 1)
            for name, i, j in allocation.labels()
        ]
        ends = [(k, sizes[k] - 1, sizes[k - 1] - 1) for k in range(1, last)] if bias else []
        units = [*((0, sizes[0] - 1, s) for s in range(samples)), *ends] if bias else []
        zeros = [(k, i, j) for k, i, width in ends for j in range(width)]
        chain = tuple(range(1, last))
        return _form(shapes, chain, last, last - 1, where, units, zeros, False, samples)
    return None


def _square(network: FeedForward, samples: int) -> bool:
    return samples == network.sizes[0] and not network.bias and network.layers > 1


def _form(
    shapes: tuple[tuple[int, int], ...],
    chain: tuple[int, ...],
    read: int,
    first: int,
    where: list[tuple[int, int, int]],
    units: list[tuple[int, int, int]] | tuple[()],
    zeros: list[tuple[int, int, int]] | tuple[()],
    mixed: bool,
    samples: int,
) -> ProductForm:
    index = np.array(where, dtype=np.int64).reshape(-1, 3)
    return ProductForm(
        shapes, 0, chain, read, first, index, tuple(units), frozenset(zeros), mixed, samples
    )


def product_numbers(form: ProductForm, instance: Instance) -> ProductNumbers:
    """The numbers of an instance in float64: inputs and targets are the views that it shows."""
    network, weights = instance.network, instance.weights
    if isinstance(network, LinearRNN):
        mix = instance.inputs[::-1].reshape(-1, instance.samples)
        return ProductNumbers(
            (weights["B"], weights["W"], weights["D"]), np.ascontiguousarray(mix), instance.targets
        )
    assert isinstance(network, FeedForward)
    if form.mixed:
        layers = tuple(weights[name] for name in network.shapes)
        return ProductNumbers(layers, instance.inputs, instance.targets)
    matrices = [np.zeros(shape) for shape in form.shapes]
    matrices[0][: network.sizes[0]] = instance.inputs
    for layer in range(1, network.layers + 1):
        rows, columns = network.shapes[f"W{layer}"]
        matrices[layer][:rows, :columns] = weights[f"W{layer}"]
        if network.bias:
            matrices[layer][:rows, columns] = weights[f"b{layer}"][:, 0]
    for k, i, j in form.units:
        matrices[k][i, j] = 1.0
    return ProductNumbers(tuple(matrices), None, instance.targets)
