"""Jacobian, jvp, vjp, hvp and factors of every network, against differences and each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import sublearn as sl
from networks.reference import (
    NETWORKS,
    all_entries,
    by_spec,
    complex_step_jacobian,
    draw,
    flat,
    unflat,
)
from sublearn import _limits
from sublearn.networks import REALS, Network, _derivatives, factors, run

SAMPLES = 3
every_network = pytest.mark.parametrize("network", NETWORKS, ids=by_spec)


def _close(a: Any, b: Any, tolerance: float = 1e-11) -> bool:
    scale = 1.0 + float(np.max(np.abs(b), initial=0.0))
    return np.shape(a) == np.shape(b) and bool(np.allclose(a, b, rtol=0, atol=tolerance * scale))


def _directions(network: Network, seed: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(seed)
    u, v = rng.normal(size=(2, network.size))
    return u, v, rng.normal(size=(network.output_size, SAMPLES))


@every_network
def test_jacobian_equals_complex_steps(network: Network) -> None:
    weights, x = draw(network, SAMPLES)
    found = network.jacobian(weights, x)
    assert found.shape == (network.output_size * SAMPLES, network.size)
    assert _close(found, complex_step_jacobian(network, weights, x))


@every_network
def test_products_equal_the_jacobian(network: Network) -> None:
    weights, x = draw(network, SAMPLES, seed=1)
    J = network.jacobian(weights, x)
    _, v, c = _directions(network, 2)
    assert _close(network.jvp(weights, x, unflat(network, v)).ravel(), J @ v)
    gradient = network.vjp(weights, x, c)
    assert {name: g.shape for name, g in gradient.items()} == network.shapes
    assert _close(flat(network, gradient), J.T @ c.ravel())


@every_network
def test_hessian_products(network: Network) -> None:
    weights, x = draw(network, SAMPLES, seed=3)
    u, v, c = _directions(network, 4)
    Hu, Hv = (
        flat(network, network.hvp(weights, x, c, unflat(network, direction)))
        for direction in (u, v)
    )
    assert Hu.shape == (network.size,)
    assert abs(v @ Hu - u @ Hv) <= 1e-10 * (1 + abs(v @ Hu))
    # The derivative of the gradient along v, by a central difference.
    w, h = flat(network, weights), 1e-5
    above, below = (
        flat(network, network.vjp(unflat(network, w + s * h * v), x, c)) for s in (1, -1)
    )
    assert _close(Hv, (above - below) / (2 * h), 1e-6)
    # And linear in the direction.
    both = flat(network, network.hvp(weights, x, c, unflat(network, 2 * u - v)))
    assert _close(both, 2 * Hu - Hv)


@every_network
def test_second_derivatives_equal_differences_of_the_jacobian(network: Network) -> None:
    # One whole Hessian, so that no entry hides in a random product.
    weights, x = draw(network, 2, seed=5)
    c = np.random.default_rng(6).normal(size=(network.output_size, 2))
    w, h = flat(network, weights), 1e-5
    for k in range(network.size):
        e = np.zeros(network.size)
        e[k] = 1.0
        column = flat(network, network.hvp(weights, x, c, unflat(network, e)))
        above, below = (
            network.jacobian(unflat(network, w + s * h * e), x).T @ c.ravel() for s in (1, -1)
        )
        assert _close(column, (above - below) / (2 * h), 1e-6), all_entries(network)[k]


@every_network
def test_factors_have_their_shapes_and_give_the_jacobian(network: Network) -> None:
    weights, x = draw(network, SAMPLES, seed=7)
    found = factors(network, weights, x)
    assert list(found) == list(network.shapes)
    J = network.jacobian(weights, x).reshape(network.output_size, SAMPLES, -1)
    column = 0
    for name, (rows, columns) in network.shapes.items():
        left, right = found[name].left, found[name].right
        uses = sum(name in (s.weight, s.encoder, s.bias, s.drive) for s in network.steps)
        # In linear chains the left factor does not depend on the sample.
        depth = left.shape[-1]
        assert depth == (1 if network.is_linear else SAMPLES) or depth == 1
        assert left.shape == (uses, network.output_size, rows, depth)
        assert right.shape == (uses, columns, SAMPLES)
        stacked = found[name].stacked
        assert stacked[0].ndim == (3 if depth == 1 else 4)
        assert all(part.flags.c_contiguous for part in stacked)
        for i in range(rows):
            for j in range(columns):
                # The definition: sum_t left_t[o, i, s] right_t[j, s].
                expected = sum(left[t, :, i, :] * right[t, j, :] for t in range(uses))
                assert _close(J[:, :, column], np.broadcast_to(expected, J.shape[:2]))
                column += 1


@every_network
def test_columns_follow_the_allocation(network: Network) -> None:
    weights, x = draw(network, SAMPLES, seed=8)
    rng = np.random.default_rng(9)
    J = network.jacobian(weights, x)
    order = {entry: k for k, entry in enumerate(all_entries(network))}
    masks = {name: rng.random(shape) < 0.5 for name, shape in network.shapes.items()}
    name = next(iter(masks))
    for chosen in (masks, {name: masks[name]}, {name: np.zeros(network.shapes[name], bool)}):
        allocation = sl.Allocation.from_masks(network, chosen)
        found = network.jacobian(weights, x, allocation)
        assert found.shape == (J.shape[0], len(allocation))
        assert np.array_equal(found, J[:, [order[label] for label in allocation.labels()]])


def _at(value: Any, index: tuple[int, ...], axes: int) -> Any:
    """One element of a batch; what has no batch axes is the same for all."""
    if isinstance(value, dict):
        return {name: _at(matrix, index, axes) for name, matrix in value.items()}
    return value[index] if value.ndim > axes else value


@every_network
@pytest.mark.parametrize("batched", ["weights", "inputs", "both"])
def test_leading_axes_are_a_loop(network: Network, batched: str) -> None:
    batch = (2, 3)
    weights = draw(network, SAMPLES, 10, () if batched == "inputs" else batch)[0]
    x = draw(network, SAMPLES, 11, () if batched == "weights" else batch)[1]
    tangent, cotangent = draw(network, SAMPLES, 12)[0], _directions(network, 13)[2]
    calls: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
        (network.forward, ()),
        (network.jacobian, ()),
        (network.jvp, (tangent,)),
        (network.vjp, (cotangent,)),
        (network.hvp, (cotangent, tangent)),
    ]
    for call, rest in calls:
        found = call(weights, x, *rest)
        for index in np.ndindex(*batch):
            one = call(_at(weights, index, 2), _at(x, index, len(network.input_shape(1))), *rest)
            names = network.shapes if isinstance(one, dict) else [...]
            for name in names:
                # A derivative that does not depend on the batched argument has no batch axes.
                part = np.broadcast_to(found[name], (*batch, *one[name].shape))
                assert _close(part[index], one[name]), call.__name__


@pytest.mark.parametrize("text", ["ffn:3-4-2,activation=tanh,bias=yes", "rnn:n=3,b=1,d=2,T=3"])
def test_given_states_take_the_place_of_activations(text: str) -> None:
    """What tanh leaves behind, with the slopes 1 - h^2, gives the same factors as tanh itself."""
    network = sl.networks.network_from_text(text)
    rng = np.random.default_rng(0)
    weights = {name: rng.standard_normal(shape) for name, shape in network.shapes.items()}
    inputs = rng.standard_normal(network.input_shape(2))
    trace = run(network, weights, inputs, REALS)
    bent = [p for p, step in enumerate(network.steps) if step.activation == "tanh"]
    states = {p: np.tanh(trace.before[p]) for p in bent}
    slopes = {p: 1 - h**2 for p, h in states.items()}
    given = factors(network, weights, inputs, REALS, slopes, states)
    for name, known in factors(network, weights, inputs).items():
        assert np.allclose(given[name].left, known.left, rtol=1e-12)
        assert np.allclose(given[name].right, known.right, rtol=1e-12)
    moved = factors(network, weights, inputs, REALS, slopes, {p: h + 1 for p, h in states.items()})
    last = list(network.shapes)[-1] if network.is_sequence else f"W{len(bent) + 1}"
    assert np.allclose(moved[last].right, given[last].right + 1)


def test_a_large_jacobian_is_written_some_weights_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net = sl.LinearRNN(n=5, b=2, d=2, T=3)
    some = sl.Allocation.spread(net, {"W": 11, "D": 3})
    instance = sl.draw(sl.Problem(net, 3), some)
    whole = net.jacobian(instance.start, instance.inputs, some)
    monkeypatch.setattr(_derivatives, "_LIGHT", 8 * whole.shape[0] * 12)
    np.testing.assert_allclose(
        net.jacobian(instance.start, instance.inputs, some), whole, rtol=1e-15
    )


def test_a_jacobian_that_does_not_fit_is_refused_before_it_is_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net = sl.FeedForward((4, 5, 2))
    weights = {name: np.ones(shape) for name, shape in net.shapes.items()}
    monkeypatch.setattr(_derivatives, "_LIGHT", 0)
    monkeypatch.setattr(_limits, "memory_limit", lambda: 2000)
    with pytest.raises(sl.BadInputError, match=r"6 outputs by 30 weights, needs about 2.88 kB"):
        net.jacobian(weights, np.ones((4, 3)))
