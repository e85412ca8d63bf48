"""Grown networks compute the same; slope and curvature change as the linear algebra says."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import sublearn as sl
from sublearn.noise import slides_expanded_rate
from sublearn.noise._growth import semi_orthogonal

Array = NDArray[np.float64]
NET = sl.LinearEstimator(inputs=6, outputs=4)


def _task(seed: int = 0) -> tuple[dict[str, Array], dict[str, Array]]:
    rng = np.random.default_rng([seed, 42])
    x = rng.standard_normal((6, 15))
    data = {"inputs": x, "targets": rng.standard_normal((4, 6)) @ x}
    return {"W": rng.standard_normal((4, 6))}, data


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
    weights, data = _task()
    grown = sl.noise.expand_linear(
        NET, weights, **data, c1=c1, c2=c2, reading=reading, start=start, seed=7
    )
    i, o, m = 6, 4, 15
    assert grown.size == round(c1 * i * c2 * o) and grown.factors == (c1, c2)
    W, X, Y = weights["W"], data["inputs"], data["targets"]
    C = X @ X.T / m
    geo, base = grown.geometry(), sl.local_geometry(NET, weights, **data)
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
        np.testing.assert_allclose(grown.network.forward(grown.weights, grown.inputs), W @ X)
        assert grown.allocation.names == ("W1",)


def test_random_starts_keep_what_is_read_out_and_differ() -> None:
    weights, data = _task()
    a, b = (
        sl.noise.expand_linear(NET, weights, **data, c1=2, c2=2, reading="projected", start=s)
        for s in ("embedded", "random")
    )
    read = [g.network.forward(g.weights, g.inputs) for g in (a, b)]
    np.testing.assert_allclose(read[0], read[1])
    assert np.linalg.norm(a.weights["W1"] - b.weights["W1"]) > 0.5 * np.linalg.norm(weights["W"])


@pytest.mark.parametrize("path", ["both", "inputs", "outputs"])
@pytest.mark.parametrize("reading", ["expanded", "projected"])
def test_one_step_rates_of_expanded_networks(path: str, reading: str) -> None:
    """Formula inside the cycles' 3 standard errors at every size and T; the slides' never.

    benchmarks/learning_rate.py does the same over 192 cells.
    """
    weights, data = _task(1)
    base = sl.local_geometry(NET, weights, **data)
    gamma, cells = (0.8, 1.0, 0.05), 0
    for number, factor in enumerate((1.5, 2.0, 3.0)):
        for start in ("embedded", "random"):
            grown = sl.noise.expansion_path(
                NET, weights, **data, factors=[factor], path=path, reading=reading, start=start
            )[0]
            geo = grown.geometry()
            for T in (1.0, 2.0):
                found = geo.measure(gamma, T, draws=300, seed=number)
                assert found.agrees(geo.rate(gamma, T), errors=3.5)
                said = slides_expanded_rate(base, *grown.factors, gamma, T)
                assert not found.agrees(said)
                cells += 1
    assert cells == 12


@pytest.mark.parametrize("synapses", [1, 3, 8])
def test_redundant_synapses_two_ways(synapses: int) -> None:
    weights, data = _task(2)
    grown = sl.noise.add_synapses(NET, weights, **data, synapses=synapses)
    np.testing.assert_allclose(
        grown.network.forward(grown.weights, grown.inputs), weights["W"] @ data["inputs"]
    )
    found = grown.geometry()
    said = sl.local_geometry(NET, weights, **data).redundant(synapses)
    for name in ("loss", "gradient_norm", "q", "trace", "noise_trace", "plastic", "noisy", "size"):
        assert getattr(found, name) == pytest.approx(getattr(said, name))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("sizes", [(3, 4, 2), (3, 4, 5, 2), (3, 4, 4, 4, 2)])
def test_padding_changes_no_output(sizes: tuple[int, ...], bias: bool) -> None:
    rng = np.random.default_rng(4)
    net = sl.FeedForward(sizes, activation="sigmoid", output="sigmoid", bias=bias)
    weights = {name: rng.standard_normal(shape) for name, shape in net.shapes.items()}
    x, y = rng.standard_normal((3, 8)), rng.random((2, 8))
    base = sl.local_geometry(net, weights, inputs=x, targets=y)
    last = base
    for widths in (sizes[1:-1], [w + 2 for w in sizes[1:-1]], 9):
        grown = sl.noise.zero_pad(net, weights, inputs=x, targets=y, widths=widths)
        geo = grown.geometry()
        np.testing.assert_allclose(
            grown.network.forward(grown.weights, x), net.forward(weights, x), rtol=1e-13
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
    data = {"inputs": rng.standard_normal((3, 8)), "targets": rng.standard_normal((2, 8))}
    base = sl.local_geometry(net, weights, **data)
    grown = sl.noise.zero_pad(net, weights, **data, widths=9).geometry()
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
    weights, data = _task()
    with pytest.raises(sl.BadInputError, match=words):
        sl.noise.expand_linear(NET, weights, **data, **change)


def test_other_bad_growth_is_named() -> None:
    weights, data = _task()
    deep = sl.FeedForward((6, 5, 4))
    held = {name: np.ones(shape) for name, shape in deep.shapes.items()}
    with pytest.raises(sl.BadInputError, match="takes a LinearEstimator"):
        sl.noise.expand_linear(deep, held, **data)
    with pytest.raises(sl.BadInputError, match="path must be one of both, inputs, outputs"):
        sl.noise.expansion_path(NET, weights, **data, factors=[2], path="sideways")
    with pytest.raises(sl.BadInputError, match="synapses must be a whole number"):
        sl.noise.add_synapses(NET, weights, **data, synapses=0)
    with pytest.raises(sl.BadInputError, match="synapses must be at least 1"):
        sl.local_geometry(NET, weights, **data).redundant(0)
    with pytest.raises(sl.BadInputError, match="at least one hidden layer"):
        sl.noise.zero_pad(sl.FeedForward((6, 4)), {"W1": np.ones((4, 6))}, **data, widths=9)
    with pytest.raises(sl.BadInputError, match=r"at least those of the network, \[5\], not \[4\]"):
        sl.noise.zero_pad(deep, held, **data, widths=4)
    with pytest.raises(sl.BadInputError, match="one number or 1, one per hidden layer, not 2"):
        sl.noise.zero_pad(deep, held, **data, widths=[6, 7])
