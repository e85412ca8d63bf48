"""The rank at given numbers, against fractions and against what is known of special points."""

from __future__ import annotations

from fractions import Fraction

import flint
import numpy as np
import pytest

import sublearn as sl
from sublearn.networks import network_from_text


def _exact_rank(w1: np.ndarray, w2: np.ndarray, x: np.ndarray, entries: list) -> int:
    """d (W2 W1 x) / d W1[i, j] = W2[:, i] x[j, :], in fractions."""
    rows = []
    for o in range(w2.shape[0]):
        for s in range(x.shape[1]):
            numbers = [Fraction(w2[o, i]) * Fraction(x[j, s]) for i, j in entries]
            rows.append([flint.fmpq(n.numerator, n.denominator) for n in numbers])
    return int(flint.fmpq_mat(rows).rank())


@pytest.mark.parametrize("special", ["generic", "zeros", "tenths", "nearly dependent"])
def test_linear_networks_against_fractions(special: str) -> None:
    net = sl.FeedForward((3, 4, 2))
    for seed in range(4):
        rng = np.random.default_rng(seed)
        w1, w2, x = rng.normal(size=(4, 3)), rng.normal(size=(2, 4)), rng.normal(size=(3, 3))
        if special == "zeros":
            w2[:, :2] = 0.0
        elif special == "tenths":  # 0.1 + 0.2 is not 0.3
            x[2] = x[0] + x[1]
            x = np.round(x, 1)
        elif special == "nearly dependent":
            x[2] = x[1] + 2.0**-50 * x[0]
        allocation = sl.Allocation.spread(net, {"W1": 8})
        entries = list(allocation.entries["W1"])
        found = sl.rank_at(net, allocation, {"W1": w1, "W2": w2}, x)
        assert found.rank == _exact_rank(w1, w2, x, entries)
        assert found.grade.kind == ("proof" if found.rank == 6 else "probability")
        assert found.grade.error <= 1e-12


def test_relu_networks_take_the_gates_of_the_point() -> None:
    net = sl.FeedForward((2, 3, 1), activation="relu")
    w1 = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    weights = {"W1": w1, "W2": np.ones((1, 3))}
    x = np.array([[1.0, 2.0], [1.0, 5.0]])  # the third unit is off on both samples
    off = sl.Allocation.from_entries(net, {"W1": [(2, 0), (2, 1)]})
    on = sl.Allocation.from_entries(net, {"W1": [(0, 0), (1, 1)]})
    assert sl.rank_at(net, off, weights, x).rank == 0
    assert sl.rank_at(net, on, weights, x).rank == 2
    kink = sl.rank_at(net, on, weights, np.array([[0.0, 2.0], [1.0, 5.0]]))
    assert kink.grade.kind == "numerical"  # a pre-activation of exactly 0


@pytest.mark.parametrize("text", ["rnn:n=4,b=1,d=2,T=3", "rate:n=4,b=1,d=2,T=3,leak=0.5"])
def test_smooth_networks_are_numerical(text: str) -> None:
    problem = sl.Problem(network_from_text(text), 2)
    instance = sl.draw(problem, sl.Allocation.spread(problem.network, {"W": 6}))
    found = sl.rank_at(problem.network, instance.allocation, instance.start, instance.inputs)
    assert (found.rank, found.grade.kind) == (4, "numerical")


def test_at_drawn_numbers_the_rank_is_the_generic_one() -> None:
    problem = sl.Problem(network_from_text("rate:n=4,b=1,d=1,T=4,leak=0.3,activation=linear"), 3)
    allocation = sl.Allocation.spread(problem.network, {"W": 4})
    instance = sl.draw(problem, allocation)
    found = sl.rank_at(problem.network, allocation, instance.start, instance.inputs)
    assert found.rank == sl.certify(problem, allocation).rank and found.grade.kind != "numerical"


def test_bad_numbers_are_refused() -> None:
    net = sl.FeedForward((2, 1))
    whole = sl.Allocation.whole(net)
    with pytest.raises(sl.BadInputError, match="must be finite"):
        sl.rank_at(net, whole, {"W1": [[1.0, np.inf]]}, np.eye(2))
    with pytest.raises(sl.BadInputError, match="W1"):
        sl.rank_at(net, whole, {}, np.eye(2))
    mask = {"W1": np.ones((1, 2), dtype=bool)}
    with pytest.raises(sl.BadInputError, match=r"must be an Allocation, not dict: .*from_masks"):
        sl.rank_at(net, mask, {"W1": [[1.0, 2.0]]}, np.eye(2))  # type: ignore[arg-type]


def test_a_problem_from_arrays() -> None:
    net = sl.FeedForward((3, 4, 2))
    x = np.random.default_rng(0).normal(size=(3, 2))
    assert sl.Problem.from_arrays(net, x) == sl.Problem(net, 2)
    twice = np.hstack([x, x])
    low = sl.Problem.from_arrays(net, twice, np.zeros((2, 4)))
    assert low == sl.Problem(
        net, 4, sl.ensembles.Ensemble(inputs=sl.ensembles.LowRank(rank=2)), sl.ensembles.Targets()
    )
    with pytest.raises(sl.BadInputError, match=r"targets must have shape \(d, m\) = \(2, 4\)"):
        sl.Problem.from_arrays(net, twice, np.zeros((4, 2)))
    with pytest.raises(sl.BadInputError, match="inputs"):
        sl.Problem.from_arrays(net, np.zeros((2, 2)))
