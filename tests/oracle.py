"""A second opinion on ranks, written from the paper's formulas and not from the chain of steps.

Everything is computed by python-flint modulo the prime 2^61 - 1. Each Jacobian column is the product
rule spelled out: the derivative of a product with respect to entry (i, j) of a factor puts the matrix
E_ij, which is 1 at (i, j) and 0 elsewhere, in the place of that factor.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import flint

import sublearn as sl

P = 2**61 - 1

Label = tuple[str, int, int]
Matrix = flint.nmod_mat


def matrix(rows: list[list[int]]) -> Matrix:
    """A matrix modulo P."""
    return flint.nmod_mat(len(rows), len(rows[0]), [v % P for row in rows for v in row], P)


def random_matrix(rng: random.Random, rows: int, columns: int) -> Matrix:
    """Independent, uniform entries."""
    return matrix([[rng.randrange(P) for _ in range(columns)] for _ in range(rows)])


def unit(rows: int, columns: int, i: int, j: int) -> Matrix:
    """E_ij: 1 at (i, j) and 0 elsewhere."""
    return matrix([[int((r, c) == (i, j)) for c in range(columns)] for r in range(rows)])


def product(*factors: Matrix) -> Matrix:
    """The product of matrices, from left to right."""
    out = factors[0]
    for factor in factors[1:]:
        out = out * factor
    return out


def power(square: Matrix, exponent: int) -> Matrix:
    """A power, the identity for exponent 0."""
    size = square.nrows()
    out = matrix([[int(i == j) for j in range(size)] for i in range(size)])
    for _ in range(exponent):
        out = out * square
    return out


def rank_of(columns: Iterable[list[int]]) -> int:
    """Rank of a list of columns."""
    held = list(columns)
    return int(matrix(held).rank()) if held else 0


@dataclass(frozen=True)
class Point:
    """Weights by name, and inputs by time step (one step for feed-forward networks)."""

    weights: Mapping[str, Matrix]
    inputs: tuple[Matrix, ...]


def draw(network: sl.Network, samples: int, seed: int, input_rank: int | None = None) -> Point:
    """A random point; ``input_rank`` makes the inputs a product of two thin matrices."""
    rng = random.Random(seed)
    weights = {name: random_matrix(rng, *shape) for name, shape in network.shapes.items()}
    blocks = network.input_blocks
    if input_rank is None:
        return Point(weights, tuple(random_matrix(rng, size, samples) for size in blocks))
    right = random_matrix(rng, input_rank, samples)
    return Point(weights, tuple(random_matrix(rng, size, input_rank) * right for size in blocks))


def redraw(point: Point, labels: Iterable[Label], seed: int) -> Point:
    """The same point with new values for some weights."""
    rng = random.Random(seed)
    weights = {name: flint.nmod_mat(value) for name, value in point.weights.items()}
    for name, i, j in labels:
        weights[name][i, j] = rng.randrange(P)
    return Point(weights, point.inputs)


def total(parts: Iterable[Matrix]) -> Matrix:
    """The sum of matrices."""
    first, *rest = parts
    for part in rest:
        first = first + part
    return first


def derivative(network: sl.Network, point: Point, label: Label) -> Matrix:
    """d Y / d (one weight), a d x m matrix, by the product rule."""
    name, i, j = label
    E = unit(*network.shapes[name], i, j)
    if isinstance(network, sl.LinearRNN):
        return _recurrent(network, point, name, E)
    if isinstance(network, sl.FeedForward):
        assert network.is_linear
        return _layered(network, point, name, E)
    assert isinstance(network, sl.LinearEstimator)
    return E * point.inputs[0]


def _recurrent(network: sl.LinearRNN, point: Point, name: str, E: Matrix) -> Matrix:
    # Y = D sum_{t=1..T} W^(T-t+1) B X_t, eq. (3.3).
    W, B, D = (point.weights[key] for key in "WBD")
    T = network.T
    steps = [(T - t + 1, point.inputs[t - 1]) for t in range(1, T + 1)]
    if name == "D":
        return total(product(E, power(W, k), B, X) for k, X in steps)
    if name == "B":
        return total(product(D, power(W, k), E, X) for k, X in steps)
    return total(
        product(D, power(W, a), E, power(W, k - 1 - a), B, X) for k, X in steps for a in range(k)
    )


def _layered(network: sl.FeedForward, point: Point, name: str, E: Matrix) -> Matrix:
    layer = int(name[1:])
    samples = point.inputs[0].ncols()
    ones = matrix([[1] * samples])
    state = point.inputs[0]
    for lower in range(1, layer):
        state = point.weights[f"W{lower}"] * state
        if network.bias:
            state = state + point.weights[f"b{lower}"] * ones
    out = E * (ones if name[0] == "b" else state)
    for upper in range(layer + 1, network.layers + 1):
        out = point.weights[f"W{upper}"] * out
    return out


class Oracle:
    """Ranks of one network on m samples, at one random point."""

    def __init__(
        self, network: sl.Network, samples: int, input_rank: int | None = None, seed: int = 1
    ) -> None:
        self.network, self.samples = network, samples
        self.point = draw(network, samples, seed, input_rank)
        self.labels: list[Label] = sl.Allocation.whole(network).labels()
        self._columns = {label: self._column(self.point, label) for label in self.labels}

    def _column(self, point: Point, label: Label) -> list[int]:
        return [int(v) for v in derivative(self.network, point, label).entries()]

    @property
    def needed(self) -> int:
        """Rank of the full Jacobian."""
        return rank_of(self._columns.values())

    def rank(self, held: sl.Allocation | Iterable[Label]) -> int:
        """Rank of the columns of some weights."""
        labels = held.labels() if isinstance(held, sl.Allocation) else held
        return rank_of(self._columns[label] for label in labels)

    def is_affine(self, held: sl.Allocation) -> bool:
        """Whether the columns stay as they are when the learnable weights are drawn again."""
        other = redraw(self.point, held.labels(), seed=7)
        return all(self._column(other, label) == self._columns[label] for label in held.labels())


def oracle_of(problem: sl.Problem) -> Oracle:
    """The oracle of a problem whose teacher has the same architecture."""
    law = problem.ensemble.inputs
    return Oracle(
        problem.network,
        problem.samples,
        law.rank if isinstance(law, sl.ensembles.LowRank) else None,
    )


def allocation(network: sl.Network, labels: Iterable[Label]) -> sl.Allocation:
    """An allocation from labels."""
    entries: dict[str, list[tuple[int, int]]] = {}
    for name, i, j in labels:
        entries.setdefault(name, []).append((i, j))
    return sl.Allocation.from_entries(network, entries)
