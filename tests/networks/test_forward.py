"""The forward map against explicit loops, eq. (3.3) and values known by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.linalg import matrix_power

import sublearn as sl
from networks import reference
from networks.reference import NETWORKS, by_spec, draw
from sublearn.networks import Network, gates_at


@pytest.mark.parametrize("network", NETWORKS, ids=by_spec)
@pytest.mark.parametrize("samples", [1, 4])
def test_forward_equals_the_loops(network: Network, samples: int) -> None:
    weights, x = draw(network, samples)
    found = network.forward(weights, x)
    assert found.shape == (network.output_size, samples)
    assert np.allclose(found, reference.forward(network, weights, x).real, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("sizes", [(4, 1, 2, 3), (3, 2, 3, 1), (2, 3, 1, 5)])
def test_linear_rnn_is_equation_3_3(sizes: tuple[int, int, int, int]) -> None:
    network = sl.LinearRNN(*sizes)
    weights, X = draw(network, 3, seed=1)
    W, B, D, T = weights["W"], weights["B"], weights["D"], network.T
    Y = D @ sum(matrix_power(W, T - t + 1) @ B @ X[t - 1] for t in range(1, T + 1))
    assert np.allclose(network.forward(weights, X), Y, rtol=1e-12)


def test_the_printed_recursion_has_one_power_of_w_fewer() -> None:
    # (3.1)-(3.2): h_t = W h_{t-1} + B x_t, y = D h_T. The class must not follow it.
    network = sl.LinearRNN(n=3, b=1, d=2, T=3)
    weights, X = draw(network, 2)
    h = np.zeros((3, 2))
    for t in range(3):
        h = weights["W"] @ h + weights["B"] @ X[t]
    assert not np.allclose(network.forward(weights, X), weights["D"] @ h)
    assert np.allclose(network.forward(weights, X), weights["D"] @ weights["W"] @ h)


def test_a_relu_network_by_hand() -> None:
    network = sl.FeedForward((1, 2, 1), activation="relu", bias=True)
    weights = {"W1": [[1.0], [-1.0]], "b1": [[-1.0], [0.0]], "W2": [[2.0, 3.0]], "b2": [[0.5]]}
    arrays = {name: np.array(matrix) for name, matrix in weights.items()}
    x = np.array([[-2.0, 0.0, 1.0, 3.0]])
    # 2 max(x - 1, 0) + 3 max(-x, 0) + 0.5
    assert network.forward(arrays, x).tolist() == [[6.5, 0.5, 0.5, 4.5]]
    # The slope at 0 is 1 (Lemma D.1: P_i = 1 when v_i >= 0).
    assert gates_at(network, arrays, x)[0].tolist() == [[0, 0, 1, 1], [1, 1, 0, 0]]


def test_gates_only_of_relu_steps() -> None:
    network = sl.FeedForward((2, 3, 3, 2), activation="relu")
    weights, x = draw(network, 4)
    gates = gates_at(network, weights, x)
    assert {position: g.shape for position, g in gates.items()} == {0: (3, 4), 1: (3, 4)}
    h = x
    for position, name in ((0, "W1"), (1, "W2")):
        pre = weights[name] @ h
        assert np.array_equal(gates[position], pre > 0)
        h = np.maximum(pre, 0)
    tanh = sl.RNN(n=2, b=1, d=1, T=2)
    assert gates_at(tanh, *draw(tanh, 2)) == {}


def test_activations_do_not_overflow() -> None:
    # Warnings are errors: exp must not overflow at either end.
    x = np.array([[-1e6, -800.0, 0.0, 800.0, 1e6]])
    one = {"W1": np.ones((1, 1))}
    for output, expected in (
        ("sigmoid", [0.0, 0.0, 0.5, 1.0, 1.0]),
        ("tanh", [-1.0, -1.0, 0.0, 1.0, 1.0]),
        ("relu", [0.0, 0.0, 0.0, 800.0, 1e6]),
    ):
        network = sl.FeedForward((1, 1), output=output)
        assert network.forward(one, x).ravel().tolist() == expected
        assert np.isfinite(network.jacobian(one, x)).all()
        assert np.isfinite(network.hvp(one, x, np.ones_like(x), one)["W1"]).all()


@pytest.mark.parametrize("network", NETWORKS, ids=by_spec)
def test_samples_do_not_meet(network: Network) -> None:
    weights, x = draw(network, 5)
    some = [3, 0, 3]
    assert np.allclose(network.forward(weights, x[..., some]), network.forward(weights, x)[:, some])
