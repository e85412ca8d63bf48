"""Grown networks compute the same; slope and curvature change as the linear algebra says."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import sublearn as sl
from noise.given import given
from sublearn.experiments.raman2019 import slides_expanded_rate
from sublearn.noise import semi_orthogonal

Array = NDArray[np.float64]
NET = sl.LinearEstimator(inputs=6, outputs=4)


def _task(seed: int = 0) -> sl.Instance:
    rng = np.random.default_rng([seed, 42])
    x = rng.standard_normal((6, 15))
    targets = rng.standard_normal((4, 6)) @ x
    return given(NET, {"W": rng.standard_normal((4, 6))}, x, targets)


def test_semi_orthogonal_maps_are_orthonormal_and_uniform() -> None:
    rng = np.random.default_rng(0)
    q = semi_orthogonal(9, 4, rng)
    np.testing.assert_allclose(q.T @ q, np.eye(4), atol=1e-14)
    # Without LAPACK's sign convention every entry is as often negative as positive.
    signs = [semi_orthogonal(3, 2, rng)[0, 0] > 0 for _ in range(400)]
    assert 150 < sum(signs) < 250


@pytest.mark.parametrize("reading", ["expanded", "projected"])
@pytest.mark.parametrize("start", ["embedded", "random"])
@pytest.mark.parametrize("c1, c2", [(1, 1), (2, 1), (1, 1.5), (1.5, 2)])
def test_expansion_against_the_algebra(c1: float, c2: float, start: str, reading: str) -> None:
    task = _task()
    grown = sl.noise.expand_linear(task, c1, c2, reading=reading, start=start, seed=7)
    i, o, m = 6, 4, 15
    assert len(grown.allocation) == round(c1 * i * c2 * o)
    W, X, Y = task.start["W"], task.inputs, task.targets
    C = X @ X.T / m
    geo, base = sl.local_geometry(grown), sl.local_geometry(task)
    # Of the trace only the outputs that count grow: c2 o of them, or the o that are read out.
    outputs = c2 * o if reading == "expanded" else o
    assert geo.trace == pytest.approx(outputs * np.trace(C))
    if reading == "projected" or start == "embedded":
        assert geo.loss == pytest.approx(base.loss)
        assert geo.gradient_norm == pytest.approx(np.linalg.norm((W @ X - Y) @ X.T / m))
        assert geo.q == pytest.approx(base.q)  # and not c2 q, as the slides have it
    elif c2 > 1:
        assert geo.loss > 1.01 * base.loss  # D y = W'B x does not follow from y = D'W'B x
    if reading == "projected":
        np.testing.assert_allclose(grown.network.forward(grown.start, grown.inputs), W @ X)
        assert grown.allocation.names == ("W1",)


def test_random_starts_keep_what_is_read_out_and_differ() -> None:
    task = _task()
    a, b = (
        sl.noise.expand_linear(task, 2, 2, reading="projected", start=s)
        for s in ("embedded", "random")
    )
    read = [g.network.forward(g.start, g.inputs) for g in (a, b)]
    np.testing.assert_allclose(read[0], read[1])
    assert np.linalg.norm(a.start["W1"] - b.start["W1"]) > 0.5 * np.linalg.norm(task.start["W"])


@pytest.mark.parametrize("path", ["both", "inputs", "outputs"])
@pytest.mark.parametrize("reading", ["expanded", "projected"])
def test_one_step_rates_of_expanded_networks(path: str, reading: str) -> None:
    """Formula inside the cycles' 3 standard errors at every size and T; the slides' never.

    benchmarks/learning_rate.py does the same over 192 cells.
    """
    task, cells = _task(1), 0
    base = sl.local_geometry(task)
    for number, factor in enumerate((1.5, 2.0, 3.0)):
        for start in ("embedded", "random"):
            (grown,) = sl.noise.expansion_path(
                task, [factor], path=path, reading=reading, start=start
            )
            geo = sl.local_geometry(grown)
            c1, c2 = (factor if path in ("both", way) else 1.0 for way in ("inputs", "outputs"))
            for T in (1.0, 2.0):
                noise = sl.Noise((0.8, 1.0, 0.05), T)
                found = geo.measure(noise, draws=300, seed=number)
                assert found.agrees(geo.rate(noise), errors=3.5)
                said = slides_expanded_rate(base, c1, c2, noise)
                assert not found.agrees(said)
                cells += 1
    assert cells == 12


@pytest.mark.parametrize("synapses", [1, 3, 8])
def test_redundant_synapses_two_ways(synapses: int) -> None:
    task = _task(2)
    grown = sl.noise.add_synapses(task, synapses)
    np.testing.assert_allclose(
        grown.network.forward(grown.start, grown.inputs), task.start["W"] @ task.inputs
    )
    found = sl.local_geometry(grown)
    said = sl.local_geometry(task).redundant(synapses)
    for name in ("loss", "gradient_norm", "q", "trace", "noise_trace", "plastic", "noisy", "size"):
        assert getattr(found, name) == pytest.approx(getattr(said, name))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("sizes", [(3, 4, 2), (3, 4, 5, 2), (3, 4, 4, 4, 2)])
def test_padding_changes_no_output(sizes: tuple[int, ...], bias: bool) -> None:
    rng = np.random.default_rng(4)
    net = sl.FeedForward(sizes, activation="sigmoid", output="sigmoid", bias=bias)
    weights = {name: rng.standard_normal(shape) for name, shape in net.shapes.items()}
    x, y = rng.standard_normal((3, 8)), rng.random((2, 8))
    task = given(net, weights, x, y)
    base = sl.local_geometry(task)
    last = base
    for widths in (sizes[1:-1], [w + 2 for w in sizes[1:-1]], 9):
        grown = sl.noise.zero_pad(task, widths)
        geo = sl.local_geometry(grown)
        np.testing.assert_allclose(
            grown.network.forward(grown.start, x), net.forward(weights, x), rtol=1e-13
        )
        assert geo.loss == pytest.approx(base.loss)
        # The old weights keep their slope and their curvature; the new ones add to both.
        assert geo.gradient_norm >= last.gradient_norm * (1 - 1e-12)
        last = geo
    assert last.gradient_norm > 1.05 * base.gradient_norm


def test_silent_units_have_no_gradient() -> None:
    """Padded tanh units neither fire nor are read: slope and trace stay as they were."""
    rng = np.random.default_rng(4)
    net = sl.FeedForward((3, 4, 2), activation="tanh")
    weights = {name: rng.standard_normal(shape) for name, shape in net.shapes.items()}
    task = given(net, weights, rng.standard_normal((3, 8)), rng.standard_normal((2, 8)))
    base = sl.local_geometry(task)
    grown = sl.local_geometry(sl.noise.zero_pad(task, 9))
    assert grown.gradient_norm == pytest.approx(base.gradient_norm)
    assert grown.q == pytest.approx(base.q) and grown.trace == pytest.approx(base.trace)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"c1": 0.5}, "c1 must be at least 1"),
        ({"c2": 1.1}, r"c2 must be at least 1 and make c2 \* 4 a whole number, not 1.1"),
        ({"reading": "both"}, "reading must be one of expanded, projected"),
        ({"start": "zero"}, "start must be one of embedded, random"),
        ({"seed": -1}, "seed must be a whole number"),
    ],
)
def test_bad_expansions_are_named(change: dict[str, object], words: str) -> None:
    with pytest.raises(sl.BadInputError, match=words):
        sl.noise.expand_linear(_task(), **change)


def test_other_bad_growth_is_named() -> None:
    task = _task()
    net = sl.FeedForward((6, 5, 4))
    held = {name: np.ones(shape) for name, shape in net.shapes.items()}
    deep = given(net, held, task.inputs, task.targets)
    with pytest.raises(sl.BadInputError, match="takes a LinearEstimator"):
        sl.noise.expand_linear(deep)
    with pytest.raises(sl.BadInputError, match="whose weights are all learnable"):
        sl.noise.expand_linear(task.with_allocation(sl.Allocation.from_rows(NET, "W", [0])))
    with pytest.raises(sl.BadInputError, match="path must be one of both, inputs, outputs"):
        sl.noise.expansion_path(task, [2], path="sideways")
    with pytest.raises(sl.BadInputError, match="synapses must be a whole number"):
        sl.noise.add_synapses(task, 0)
    with pytest.raises(sl.BadInputError, match="synapses must be at least 1"):
        sl.local_geometry(task).redundant(0)
    flat = given(sl.FeedForward((6, 4)), {"W1": np.ones((4, 6))}, task.inputs, task.targets)
    with pytest.raises(sl.BadInputError, match="no hidden layer to widen"):
        sl.noise.zero_pad(flat, 9)
    assert sl.noise.add_synapses(flat, 2).network == sl.LinearEstimator(inputs=12, outputs=4)
    with pytest.raises(sl.BadInputError, match=r"at least those of the network, \[5\], not \[4\]"):
        sl.noise.zero_pad(deep, 4)
    with pytest.raises(sl.BadInputError, match="one number or 1, one per hidden layer, not 2"):
        sl.noise.zero_pad(deep, [6, 7])


RECURRENT = [
    sl.LinearRNN(n=3, b=2, d=2, T=3),
    sl.RNN(n=3, b=2, d=2, T=3),
    sl.RNN(n=3, b=2, d=2, T=3, activation="sigmoid"),
    sl.RateRNN(n=3, b=2, d=2, T=3, leak=0.5, bias=True, start="weights"),
    sl.RateRNN(n=3, b=2, d=2, T=3, autapses=False),
    sl.RNN(n=3, b=2, d=2, T=3).with_connections({"W": np.triu(np.ones((3, 3), dtype=bool))}),
    sl.FeedForward((2, 3, 4, 2), "tanh", bias=True),
]


@pytest.mark.parametrize("net", RECURRENT, ids=lambda net: net.spec[:30])
@pytest.mark.parametrize("way, to", [("copies", [1, 2, 3]), ("widths", [4, 6])])
def test_a_recurrent_network_grows_and_computes_the_same(
    net: sl.Network, way: str, to: list[float]
) -> None:
    rng = np.random.default_rng(0)
    weights = {
        name: rng.standard_normal(shape) * net.existing(name) for name, shape in net.shapes.items()
    }
    x, y = rng.standard_normal(net.input_shape(4)), rng.standard_normal((2, 4))
    given = sl.Instance(net, sl.Allocation.whole(net), weights, x, y)
    path = sl.noise.grow(given, sl.Noise((0.1, 0.1, 0.01)), way, to)
    sizes = [grown.network.size for grown in path]
    assert sizes == sorted(set(sizes)) and (sizes[0] == net.size) == (way == "copies")
    for grown in path:
        assert len(grown.allocation) == grown.network.size
        there = grown.network.forward(grown.start, x)
        assert np.allclose(there, net.forward(weights, x), atol=1e-12, rtol=0)
    found = sl.best_size(path, sl.Noise((0.1, 0.1, 0.01)), draws=4)
    assert found.measured_best in found.sizes and "second order" in found.best.reason


def test_copies_share_what_a_unit_sends_on() -> None:
    """Every synapse of c copies has 1/c of the derivative that the one had, and there are c of them."""
    net, rng = sl.RNN(n=3, b=1, d=1, T=2), np.random.default_rng(0)
    weights = {name: rng.standard_normal(shape) for name, shape in net.shapes.items()}
    x, y = rng.standard_normal((2, 1, 5)), rng.standard_normal((1, 5))
    given = sl.Instance(net, sl.Allocation.whole(net), weights, x, y)
    (twice,) = sl.noise.grow(given, sl.Noise((0.1, 0.1, 0.01)), "copies", [2])
    one, two = (sl.local_geometry(each) for each in (given, twice))
    # The readout's gradient is the same for each of the two copies; those into them are halved.
    small = net.vjp(weights, x, (net.forward(weights, x) - y) / 5)
    large = twice.network.vjp(twice.start, x, (twice.network.forward(twice.start, x) - y) / 5)
    assert np.allclose(large["D"], np.repeat(small["D"], 2, axis=1))
    assert np.allclose(large["W"], np.kron(small["W"], np.full((2, 2), 0.5)))
    assert two.loss == pytest.approx(one.loss)
