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
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sublearn._arrays import Indices
from sublearn.allocations import Allocation
from sublearn.networks import Network


@dataclass(frozen=True, eq=False)
class ProductForm:
    """The structure of a product form.

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
    units: tuple[tuple[int, int, int], ...] = ()
    zeros: frozenset[tuple[int, int, int]] = frozenset()
    mixed: bool = False
    samples: int = 0

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


@lru_cache(maxsize=64)
def product_form(network: Network, allocation: Allocation, samples: int) -> ProductForm | None:
    """The product form of a linear RNN or of linear layers; None for any other network."""
    recurrence, layers = network.recurrence, network.layered
    labels = allocation.labels()
    if recurrence is not None:
        names = (recurrence.encoder, recurrence.weight, recurrence.readout)
        shapes = tuple(network.shapes[name] for name in names)
        where = _where([(names.index(name), i, j) for name, i, j in labels])
        return ProductForm(shapes, 0, (1,) * recurrence.T, 2, 1, where, mixed=True, samples=samples)
    if layers is None or not network.is_linear:
        return None
    last = len(layers.weights)
    if samples == layers.sizes[0] and not layers.biases and last > 1:
        shapes = tuple(network.shapes[name] for name in layers.weights)
        where = _where([(layers.layer_of(name), i, j) for name, i, j in labels])
        chain = tuple(range(1, last - 1))
        return ProductForm(shapes, 0, chain, last - 1, last - 2, where, mixed=True, samples=samples)
    bias = bool(layers.biases)
    sizes = [size + bias for size in layers.sizes]
    shapes = (
        (sizes[0], samples),
        *((sizes[k], sizes[k - 1]) for k in range(1, last)),
        (sizes[last] - bias, sizes[last - 1]),
    )
    places = [(layers.layer_of(name), name in layers.biases, i, j) for name, i, j in labels]
    where = _where([(k + 1, i, sizes[k] - 1 if is_bias else j) for k, is_bias, i, j in places])
    ends = [(k, sizes[k] - 1, sizes[k - 1] - 1) for k in range(1, last)] if bias else []
    units = [*((0, sizes[0] - 1, s) for s in range(samples)), *ends] if bias else []
    zeros = frozenset((k, i, j) for k, i, width in ends for j in range(width))
    chain = tuple(range(1, last))
    return ProductForm(
        shapes, 0, chain, last, last - 1, where, tuple(units), zeros, samples=samples
    )


def _where(places: list[tuple[int, int, int]]) -> Indices:
    return np.array(places, dtype=np.int64).reshape(-1, 3)
