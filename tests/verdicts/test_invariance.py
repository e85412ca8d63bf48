"""Verdicts follow the symmetries of the networks, and do not follow the seed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import sublearn as sl
from sublearn.verdicts import Verdict

RECURRENT = [(3, 1, 1, 2, 2), (3, 1, 2, 2, 2), (3, 2, 2, 1, 2), (3, 2, 1, 2, 4), (2, 1, 1, 5, 5)]
LAYERED = [
    ((3, 3, 2), 2, False),
    ((2, 3, 3, 2), 2, False),
    ((3, 1, 3, 2), 2, False),
    ((2, 3, 2), 3, True),
]


def summary(verdict: Verdict) -> tuple[object, ...]:
    """What must not change."""
    checks = [(check.theorem, check.says, check.holds) for check in verdict.theorems]
    broken = sorted((b.weight, b.axis, b.count, b.limit) for b in verdict.broken)
    return (
        verdict.kind,
        verdict.rank,
        verdict.needed,
        verdict.wasted,
        verdict.surplus,
        verdict.affine,
        checks,
        broken,
        verdict.counts,
    )


@st.composite
def sets_of_labels(draw: st.DrawFn, network: sl.Network) -> list[oracle.Label]:
    """Allocations that are often crowded: entries of a few rows and columns of a few weights."""
    labels = sl.Allocation.whole(network).labels()
    chosen = draw(st.lists(st.sampled_from(labels), min_size=1, max_size=8, unique=True))
    if draw(st.booleans()):
        name = draw(st.sampled_from(list(network.shapes)))
        index = draw(st.integers(0, network.shapes[name][0] - 1))
        chosen += [x for x in labels if x[:2] == (name, index) and x not in chosen]
    return chosen


@pytest.mark.parametrize(("n", "b", "d", "T", "m"), RECURRENT)
@settings(max_examples=25)
@given(data=st.data())
def test_hidden_units_inputs_and_outputs_of_the_linear_rnn(
    n: int, b: int, d: int, T: int, m: int, data: st.DataObject
) -> None:
    network = sl.LinearRNN(n=n, b=b, d=d, T=T)
    problem = sl.Problem(network, m)
    labels = data.draw(sets_of_labels(network))
    hidden, inputs, outputs = (data.draw(st.permutations(range(size))) for size in (n, b, d))
    # A hidden unit is a row and a column of W, a row of B and a column of D.
    rows = {"W": hidden, "B": hidden, "D": outputs}
    columns = {"W": hidden, "B": inputs, "D": hidden}
    turned = [(name, rows[name][i], columns[name][j]) for name, i, j in labels]
    assert summary(sl.certify(problem, oracle.allocation(network, labels))) == summary(
        sl.certify(problem, oracle.allocation(network, turned))
    )


@pytest.mark.parametrize(("sizes", "m", "bias"), LAYERED)
@settings(max_examples=25)
@given(data=st.data())
def test_units_of_feed_forward_networks(
    sizes: tuple[int, ...], m: int, bias: bool, data: st.DataObject
) -> None:
    network = sl.FeedForward(sizes, bias=bias)
    problem = sl.Problem(network, m)
    labels = data.draw(sets_of_labels(network))
    # Unit i of layer l is row i of W_l (and b_l) and column i of W_(l+1).
    units = [data.draw(st.permutations(range(size))) for size in sizes]
    turned = []
    for name, i, j in labels:
        layer = int(name[1:])
        column = j if name[0] == "b" else units[layer - 1][j]
        turned.append((name, units[layer][i], column))
    assert summary(sl.certify(problem, oracle.allocation(network, labels))) == summary(
        sl.certify(problem, oracle.allocation(network, turned))
    )


@pytest.mark.parametrize(
    ("n", "b", "d", "T"), [(3, 1, 1, 2), (3, 2, 1, 2), (4, 1, 2, 2), (3, 2, 1, 1)]
)
@settings(max_examples=25)
@given(data=st.data())
def test_transposing_the_linear_rnn(n: int, b: int, d: int, T: int, data: st.DataObject) -> None:
    """With T b samples or more, all of D W^k B, k = 1..T, has to agree.

    The transposes B' (W')^k D' are those of a network with d inputs and b outputs per step. So W(i, j)
    becomes W(j, i), B(i, j) becomes D(j, i), D(i, j) becomes B(j, i); rows and columns change roles.
    """
    network, other = sl.LinearRNN(n=n, b=b, d=d, T=T), sl.LinearRNN(n=n, b=d, d=b, T=T)
    labels = data.draw(sets_of_labels(network))
    swapped = {"W": "W", "B": "D", "D": "B"}
    turned = [(swapped[name], j, i) for name, i, j in labels]
    first = sl.certify(sl.Problem(network, T * b), oracle.allocation(network, labels))
    second = sl.certify(sl.Problem(other, T * d), oracle.allocation(other, turned))
    assert mirrored(first) == mirrored(second)


@pytest.mark.parametrize("sizes", [(2, 3, 2), (3, 3, 2), (2, 3, 3, 2), (3, 1, 2), (1, 2, 3)])
@settings(max_examples=25)
@given(data=st.data())
def test_transposing_a_linear_feed_forward_network(
    sizes: tuple[int, ...], data: st.DataObject
) -> None:
    """With as many samples as inputs, the product W_L ... W_1 itself has to agree.

    Its transpose is the product of a network with the sizes reversed, on as many samples as the first
    one has outputs: W_l(i, j) becomes W_(L+1-l)(j, i).
    """
    network, other = sl.FeedForward(sizes), sl.FeedForward(sizes[::-1])
    labels = data.draw(sets_of_labels(network))
    turned = [(f"W{len(sizes) - int(name[1:])}", j, i) for name, i, j in labels]
    first = sl.certify(sl.Problem(network, sizes[0]), oracle.allocation(network, labels))
    second = sl.certify(sl.Problem(other, sizes[-1]), oracle.allocation(other, turned))
    assert mirrored(first) == mirrored(second)


@settings(max_examples=25)
@given(data=st.data())
def test_transposing_inner_layers_with_fewer_samples(data: st.DataObject) -> None:
    """With m <= q samples, W_1 X is as generic as any n x m matrix, and so is W_L.

    So the inner layers of q-n-...-d on m samples mirror those of a network with m outputs on d
    samples, whatever the number of inputs of either, as long as it is not below the samples.
    """
    m, d = 3, 2
    network, other = sl.FeedForward((4, 3, 4, 3, d)), sl.FeedForward((5, 3, 4, 3, m))
    inner = [x for x in sl.Allocation.whole(network, ["W2", "W3"]).labels()]
    labels = data.draw(st.lists(st.sampled_from(inner), min_size=1, max_size=8, unique=True))
    turned = [(f"W{5 - int(name[1:])}", j, i) for name, i, j in labels]
    first = sl.certify(sl.Problem(network, m), oracle.allocation(network, labels))
    second = sl.certify(sl.Problem(other, d), oracle.allocation(other, turned))
    assert mirrored(first) == mirrored(second)


def mirrored(verdict: Verdict) -> tuple[object, ...]:
    """What a transposition keeps; theorems name other components and may be silent on one side."""
    return (
        verdict.kind,
        verdict.rank,
        verdict.needed,
        verdict.wasted,
        verdict.surplus,
        verdict.affine,
        sorted((b.count, b.limit) for b in verdict.broken),
    )


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32), data=st.data())
def test_verdicts_do_not_change_with_the_seed(seed: int, data: st.DataObject) -> None:
    text, m = data.draw(
        st.sampled_from(
            [
                ("lrnn:n=3,b=2,d=2,T=2", 3),
                ("lrnn:n=2,b=1,d=1,T=5", 5),
                ("ffn:3-3-2", 2),
                ("ffn:2-2-2,bias=yes", 3),
                ("ffn:3-3-2,activation=tanh", 2),
                ("ffn:3-3-2,activation=relu", 2),
            ]
        )
    )
    network = sl.networks.network_from_text(text)
    problem = sl.Problem(network, m)
    held = oracle.allocation(network, data.draw(sets_of_labels(network)))
    here, there = sl.certify(problem, held), sl.certify(problem, held, seed=seed)
    assert summary(here) == summary(there)
    assert here.grade.kind == there.grade.kind


def test_the_same_question_has_the_same_answer() -> None:
    problem = sl.Problem(sl.LinearRNN(n=4, b=2, d=2, T=2), 4)
    held = sl.Allocation.whole(problem.network, ["W"]).select(np.arange(8))
    assert sl.certify(problem, held).to_dict() == sl.certify(problem, held).to_dict()
