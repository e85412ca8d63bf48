"""The affine test against its definition: redraw the learnable weights, and see whether J moves."""

from __future__ import annotations

import numpy as np
import pytest

import sublearn as sl
from oracle import oracle_of
from sublearn.verdicts._affine import is_affine

LINEAR = [
    "linear:inputs=3,outputs=2",
    "ffn:2-3-2",
    "ffn:2-2-2-2",
    "ffn:2-3-2,bias=yes",
    "ffn:2-2-2-1,bias=yes",
    "lrnn:n=3,b=1,d=1,T=1",
    "lrnn:n=3,b=2,d=1,T=2",
    "lrnn:n=3,b=1,d=2,T=3",
]
NONLINEAR = [
    "ffn:2-3-2,activation=tanh",
    "ffn:2-3-2,activation=relu",
    "ffn:2-2-2-2,activation=sigmoid,bias=yes",
    "ffn:2-3-2,activation=relu,output=tanh",
    "ffn:2-3-2,output=sigmoid",
    "rnn:n=3,b=1,d=2,T=2",
    "rnn:n=3,b=1,d=2,T=2,activation=relu",
]


def some_allocations(network: sl.Network, rng: np.random.Generator, count: int) -> list:
    """Small sets, half of them within one weight, so that affine ones are common."""
    found = []
    for k in range(count):
        names = list(network.shapes)
        if k % 2:
            names = [names[int(rng.integers(len(names)))]]
        pool = sl.Allocation.whole(network, names)
        size = int(rng.integers(1, min(5, len(pool)) + 1))
        found.append(pool.select(rng.permutation(len(pool))[:size]))
    return found


@pytest.mark.parametrize("text", LINEAR)
def test_linear_networks(text: str) -> None:
    network = sl.networks.network_from_text(text)
    truth = oracle_of(sl.Problem(network, 3))
    rng = np.random.default_rng(0)
    found = [
        (is_affine(network, a), truth.is_affine(a)) for a in some_allocations(network, rng, 60)
    ]
    assert all(ours == theirs for ours, theirs in found)
    assert any(ours for ours, _ in found)


def moves(network: sl.Network, held: sl.Allocation, rng: np.random.Generator) -> bool:
    """Whether the float Jacobian changes in any of several redraws of the learnable weights."""
    weights = {name: rng.standard_normal(shape) for name, shape in network.shapes.items()}
    inputs = rng.standard_normal(network.input_shape(4))
    first = network.jacobian(weights, inputs, held)
    for _ in range(12):
        other = {name: value.copy() for name, value in weights.items()}
        for name, i, j in held.labels():
            other[name][i, j] = 3 * rng.standard_normal()
        if not np.allclose(network.jacobian(other, inputs, held), first, rtol=1e-9, atol=1e-12):
            return True
    return False


@pytest.mark.parametrize("text", [*LINEAR, *NONLINEAR])
def test_redrawing_in_floating_point(text: str) -> None:
    network = sl.networks.network_from_text(text)
    rng = np.random.default_rng(1)
    seen = set()
    for held in some_allocations(network, rng, 40):
        # A unit of a ReLU network may be off on all samples: then nothing moves at this point.
        still = not any(moves(network, held, rng) for _ in range(3))
        assert is_affine(network, held) == still, held.entries
        seen.add(still)
    if text not in (
        "linear:inputs=3,outputs=2",
        "ffn:2-3-2,output=sigmoid",
        "ffn:2-3-2,activation=relu,output=tanh",
    ):
        assert seen == {True, False}


def test_known_cases() -> None:
    one_step = sl.LinearRNN(n=3, b=2, d=2, T=1)
    assert is_affine(one_step, sl.Allocation.whole(one_step, ["W"]))
    two_steps = sl.LinearRNN(n=3, b=2, d=2, T=2)
    for name, affine in (("D", True), ("B", True), ("W", False)):
        assert is_affine(two_steps, sl.Allocation.whole(two_steps, [name])) == affine
    # A row of W without its diagonal entry is met once by every path of two steps.
    row = sl.Allocation.from_entries(two_steps, {"W": [(0, 1), (0, 2)]})
    assert is_affine(two_steps, row)
    assert not is_affine(two_steps, row | sl.Allocation.from_entries(two_steps, {"W": [(1, 0)]}))
    deep = sl.FeedForward((3, 3, 3, 3))
    for name in ("W1", "W2", "W3"):
        assert is_affine(deep, sl.Allocation.whole(deep, [name]))
    assert not is_affine(deep, sl.Allocation.whole(deep, ["W1", "W3"]))
