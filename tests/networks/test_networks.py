"""Every network is in the catalog, states itself consistently, and refuses what it cannot read."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np
import pytest

import sublearn as sl
from networks.reference import NETWORKS, by_spec, draw, one_sentence
from sublearn import BadInputError, networks
from sublearn.networks import Network


def test_no_network_is_forgotten() -> None:
    # A new network must be added to NETWORKS, and with it to every test of this folder.
    public = [getattr(networks, name) for name in networks.__all__]
    concrete = {
        thing
        for thing in public
        if inspect.isclass(thing) and issubclass(thing, Network) and not inspect.isabstract(thing)
    }
    assert {type(network) for network in NETWORKS} == concrete


@pytest.mark.parametrize("network", NETWORKS, ids=by_spec)
def test_a_network_is_a_consistent_value(network: Network) -> None:
    used = {step.weight for step in network.steps}
    used |= {step.encoder for step in network.steps if step.encoder}
    used |= {step.bias for step in network.steps if step.bias}
    used |= {step.drive for step in network.steps if step.drive}
    assert used == set(network.shapes)
    assert network.size == sum(rows * columns for rows, columns in network.shapes.values())
    assert sum(network.input_blocks) == np.prod(network.input_shape(1))
    read = [*(step for step in network.steps[:-1] if step.aside), network.steps[-1]]
    assert sum(network.shapes[step.weight][0] for step in read) == network.output_size
    again = eval(repr(network), {type(network).__name__: type(network)})
    assert again == network and hash(again) == hash(network) and again.spec == network.spec
    with pytest.raises(AttributeError):
        network.n = 3  # type: ignore[attr-defined]


HOMOGENEOUS = [
    network
    for network in NETWORKS
    if network.is_piecewise_linear
    and len(network.input_blocks) == 1
    and not any(step.bias for step in network.steps)
]


@pytest.mark.parametrize("network", HOMOGENEOUS, ids=by_spec)
def test_degree_is_the_growth_of_the_outputs(network: Network) -> None:
    weights, x = draw(network, 3)
    doubled = {name: 2 * matrix for name, matrix in weights.items()}
    grown = network.forward(doubled, 2 * x)
    assert np.allclose(grown, 2.0**network.degree * network.forward(weights, x))


def test_degree_of_sums() -> None:
    assert sl.LinearRNN(n=3, b=2, d=2, T=5).degree == 8  # D W^5 B x
    assert sl.RNN(n=3, b=2, d=2, T=5, activation="relu").degree == 8
    assert sl.FeedForward((3, 4, 2), bias=True).degree == 3  # W2 W1 x
    assert sl.LinearEstimator(3, 2).degree == 2


def test_sizes_are_stored_as_plain_integers() -> None:
    net = sl.LinearRNN(*(np.int64(v) for v in (3, 1, 2, 2)))
    assert all(type(v) is int for shape in net.shapes.values() for v in shape)
    assert net == sl.LinearRNN(3, 1, 2, 2)
    assert sl.FeedForward(np.array([3, 2])) == sl.FeedForward([3, 2]) == sl.FeedForward((3, 2))


BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: sl.LinearEstimator(0, 2), "inputs must be a whole number of at least 1, not 0"),
    (lambda: sl.LinearEstimator(2, -1), "outputs must be .* not -1"),
    (lambda: sl.LinearRNN(n=0, b=1, d=1, T=1), "n must be"),
    (lambda: sl.LinearRNN(n=2, b=1.5, d=1, T=1), "b must be .* not 1.5"),  # type: ignore[arg-type]
    (lambda: sl.LinearRNN(n=2, b=1, d=True, T=1), "d must be .* not True"),
    (lambda: sl.RNN(n=2, b=1, d=1, T="3"), "T must be .* not '3'"),  # type: ignore[arg-type]
    (lambda: sl.RNN(2, 1, 1, 1, "linear"), "activation must be one of relu, tanh, sigmoid"),
    (lambda: sl.RNN(2, 1, 1, 1, "tahn"), "Did you mean 'tanh'"),
    (lambda: sl.FeedForward((4,)), "sizes must name at least an input and an output"),
    (lambda: sl.FeedForward(4), "sizes must name at least"),  # type: ignore[arg-type]
    (lambda: sl.FeedForward((4, 0)), "sizes must be a whole number"),
    (lambda: sl.FeedForward((4, 2.0)), "sizes must be .* not 2.0"),  # type: ignore[list-item]
    (lambda: sl.FeedForward((4, 2), activation="Relu"), "activation must be .* mean 'relu'"),
    (lambda: sl.FeedForward((4, 2), output=None), "output must be .* not None"),  # type: ignore
    (lambda: sl.FeedForward((4, 2), bias="no"), "bias must be True or False"),  # type: ignore
    (lambda: sl.networks.Step("W", activation="step"), "activation must be one of"),
]


@pytest.mark.parametrize(("make", "match"), BAD)
def test_bad_sizes_and_words(make: Callable[[], object], match: str) -> None:
    with pytest.raises(BadInputError, match=match) as caught:
        make()
    assert one_sentence(caught.value)


@pytest.mark.parametrize("network", NETWORKS, ids=by_spec)
def test_wrong_weights_and_inputs_are_refused(network: Network) -> None:
    weights, x = draw(network, 3)
    name = next(iter(weights))
    rows, columns = network.shapes[name]
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: network.forward({**weights, "V": weights[name]}, x), "unknown: V"),
        (lambda: network.forward({}, x), f"missing: {name}"),
        (
            lambda: network.forward({**weights, name: np.ones((rows + 1, columns))}, x),
            rf"weight {name} must have shape \({rows}, {columns}\), not \({rows + 1},",
        ),
        (lambda: network.forward({**weights, name: 1.0}, x), f"weight {name} must have shape"),  # type: ignore
        (lambda: network.forward(weights, x[..., :-1, :]), "inputs must have shape"),
        (lambda: network.jacobian(weights, np.array(1.0)), "inputs must have shape"),
        (lambda: network.vjp(weights, x, np.ones((1, 7))), "cotangent must have shape"),
        (lambda: network.hvp(weights, x, np.ones(3), weights), "cotangent must have shape"),
        (lambda: network.jvp(weights, x, {}), "missing"),
        (lambda: network.shape("WW"), f"weight name must be one of {name}"),
        (
            lambda: network.jacobian(
                weights, x, sl.Allocation.whole(sl.LinearRNN(n=7, b=1, d=1, T=1))
            ),
            "the allocation belongs to weights",
        ),
    ]
    for call, match in cases:
        with pytest.raises(BadInputError, match=match) as caught:
            call()
        assert one_sentence(caught.value)
