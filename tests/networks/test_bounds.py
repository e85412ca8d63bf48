"""Degree bounds, expressible dimensions and degeneracy against exact ranks at random points.

A rank at one point modulo a prime is never above the generic rank, so a bound below it is wrong. For
linear networks the bounds turn out to be attained in every case tried, once they are cut at d m.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import sublearn as sl
from networks.reference import NETWORKS, all_entries, by_spec, exact_jacobian, exact_rank
from sublearn.networks import Network


class Ranks:
    """Largest exact rank of one row and of one column of each weight, and of all weights."""

    def __init__(self, network: Network, samples: int) -> None:
        vectors = exact_jacobian(network, samples)
        rows: dict[tuple[str, int], list[list[int]]] = {}
        columns: dict[tuple[str, int], list[list[int]]] = {}
        for (name, i, j), vector in zip(all_entries(network), vectors, strict=True):
            rows.setdefault((name, i), []).append(vector)
            columns.setdefault((name, j), []).append(vector)
        self.row: dict[str, int] = {}
        self.column: dict[str, int] = {}
        for lines, largest in ((rows, self.row), (columns, self.column)):
            for (name, _), line in lines.items():
                largest[name] = max(largest.get(name, 0), exact_rank(line))
        self.all = exact_rank(vectors)


def _check_linear(network: Network, samples: int) -> None:
    case = f"{network.spec} with {samples} samples"
    found, equations = Ranks(network, samples), network.output_size * samples
    for name in network.shapes:
        bounds = network.degree_bounds(name, samples)
        assert bounds.column is not None
        assert found.row[name] == min(bounds.row, equations), f"a row of {name} in {case}"
        assert found.column[name] == min(bounds.column, equations), f"a column of {name} in {case}"
    assert found.all == network.expressible(samples) <= equations, case
    if network.degeneracy(samples) is None:
        assert found.all == equations, case
    if found.all < equations:
        assert network.degeneracy(samples) is not None, case


# m < b, m < T, m > T b, n < T b, n < d and n = 1 are all among them.
GRID = list(product((1, 2, 3, 4), (1, 2, 3), (1, 2, 3), (1, 2, 3)))


@pytest.mark.parametrize("samples", [1, 2, 3, 5, 10])
def test_linear_rnn_bounds_are_exact(samples: int) -> None:
    for sizes in GRID[:: 1 if samples < 4 else 3]:
        _check_linear(sl.LinearRNN(*sizes), samples)


@pytest.mark.parametrize("sizes", [(6, 1, 2, 5), (7, 2, 1, 3), (5, 3, 4, 2), (6, 2, 5, 3)])
@pytest.mark.parametrize("samples", [2, 4, 7])
def test_linear_rnn_bounds_are_exact_for_larger_sizes(
    sizes: tuple[int, int, int, int], samples: int
) -> None:
    _check_linear(sl.LinearRNN(*sizes), samples)


def test_linear_rnn_bounds_are_the_formulas_of_the_theory() -> None:
    for (n, b, d, T), m in product(GRID, (1, 2, 5)):
        bounds = sl.LinearRNN(n, b, d, T).degree_bounds("W", m)
        assert bounds.row == min(n, T * min(b, m))
        assert bounds.column == min(n, d * min(T, m))


def test_theorem_3_4_is_not_tight_and_the_bound_here_is() -> None:
    # b > m: the paper allows T b = 6 in a row, of which only T min(b, m) = 2 are independent.
    network, samples = sl.LinearRNN(n=6, b=3, d=3, T=2), 1
    assert Ranks(network, samples).row["W"] == 2
    assert network.degree_bounds("W", samples).row == 2


@pytest.mark.parametrize("bias", [False, True])
def test_feed_forward_bounds_are_exact(bias: bool) -> None:
    rng = np.random.default_rng(int(bias))
    for _ in range(90):
        sizes = rng.integers(1, 6, rng.integers(2, 5))
        _check_linear(sl.FeedForward(sizes, bias=bias), int(rng.integers(1, 8)))


def test_feed_forward_with_bias_and_deep() -> None:
    # The constants of several biases are one direction, not several.
    for sizes in ((1, 4, 4, 3), (2, 4, 5, 1), (1, 3, 3, 3, 3), (3, 1, 4, 4)):
        for samples in (1, 2, 3, 6):
            _check_linear(sl.FeedForward(sizes, bias=True), samples)


def test_linear_estimator_bounds_are_exact() -> None:
    for inputs, outputs, samples in product((1, 2, 3), (1, 2, 3), (1, 2, 3, 5)):
        _check_linear(sl.LinearEstimator(inputs, outputs), samples)


def _check_bounds(network: Network, samples: int) -> None:
    found = Ranks(network, samples)
    for name in network.shapes:
        bounds = network.degree_bounds(name, samples)
        assert found.row[name] <= bounds.row, (network.spec, samples, name)
        assert bounds.column is None or found.column[name] <= bounds.column
    assert found.all <= network.expressible(samples), (network.spec, samples)


@pytest.mark.parametrize("bias", [False, True])
def test_nonlinear_feed_forward_bounds_are_never_too_small(bias: bool) -> None:
    rng = np.random.default_rng(10 + bias)
    for _ in range(60):
        sizes = rng.integers(1, 5, rng.integers(2, 5))
        activation, output = rng.choice(["relu", "tanh"]), rng.choice(["linear", "relu"])
        network = sl.FeedForward(sizes, str(activation), str(output), bias)
        _check_bounds(network, int(rng.integers(1, 6)))


def test_nonlinear_rnn_bounds_are_never_too_small() -> None:
    rng = np.random.default_rng(20)
    for _ in range(60):
        _check_bounds(sl.RNN(*rng.integers(1, 4, 4)), int(rng.integers(1, 5)))


def test_columns_of_relu_layers_have_no_bound_below_d_m() -> None:
    # The column bound d of Theorem 4.1 fails with gates: d=2, and a column of 4 independent weights.
    linear, relu = sl.FeedForward((2, 4, 2)), sl.FeedForward((2, 4, 2), activation="relu")
    assert linear.degree_bounds("W1", 3).column == 2 == Ranks(linear, 3).column["W1"]
    assert relu.degree_bounds("W1", 3).column is None
    assert Ranks(relu, 3).column["W1"] == 4


def test_theorem_b1_message() -> None:
    for n, b, d, T in GRID:
        reason = sl.LinearRNN(n, b, d, T).degeneracy(1)
        if T * b * d > n * (d + b):
            assert reason is not None and reason.startswith("Theorem B.1: ")
            assert f"T b d = {T * b * d}" in reason and f"n (d + b) = {n * (d + b)}" in reason
        else:
            assert reason is None


@pytest.mark.parametrize(
    ("network", "samples", "match"),
    [
        (sl.LinearRNN(n=2, b=1, d=1, T=5), 5, "T b d = 5 exceeds n (d + b) = 4"),
        (sl.LinearRNN(n=8, b=1, d=4, T=4), 9, "9 samples of 4 numbers each are linearly dependent"),
        (sl.LinearRNN(n=2, b=3, d=3, T=1), 3, "hidden layer of 2 units is narrower"),
        (sl.LinearEstimator(3, 2), 4, "at most 3 of them count"),
        (sl.FeedForward((4, 2, 3)), 3, "hidden layer of 2 units is narrower"),
        (sl.FeedForward((2, 3), bias=True), 4, "2 numbers each and a bias are linearly dependent"),
        (sl.FeedForward((2, 2, 3), activation="relu"), 3, "last hidden layer has 2 units"),
        (sl.FeedForward((1, 2, 1), activation="tanh"), 5, "4 weights, fewer than the d m = 5"),
        (sl.RNN(n=2, b=1, d=3, T=4), 3, "last hidden layer has 2 units"),
    ],
)
def test_degeneracy_messages(network: Network, samples: int, match: str) -> None:
    reason = network.degeneracy(samples)
    assert reason is not None and match in reason and reason.endswith(".")
    assert network.expressible(samples) < network.output_size * samples
    assert network.degeneracy(1) is None or reason.startswith("Theorem B.1")


def test_the_degenerate_teacher_of_the_theory_sheet() -> None:
    # n=2, b=d=1, T=m=5: four numbers express the network, so needed is 4 and not d m = 5.
    network = sl.LinearRNN(n=2, b=1, d=1, T=5)
    assert network.expressible(5) == Ranks(network, 5).all == 4


@pytest.mark.parametrize("network", NETWORKS, ids=by_spec)
@pytest.mark.parametrize("samples", [1, 3])
def test_what_holds_for_every_chain_is_never_too_small(network: Network, samples: int) -> None:
    # The answers that a network gets when it knows nothing better.
    found = Ranks(network, samples)
    for name in network.shapes:
        bounds = Network.degree_bounds(network, name, samples)
        assert found.row[name] <= bounds.row
        assert bounds.column is None or found.column[name] <= bounds.column
    assert found.all <= Network.expressible(network, samples)
