"""Exact evaluation modulo a prime against the same chain in Python integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sublearn as sl
from networks.reference import (
    LINEAR,
    RELU,
    Dual,
    all_entries,
    by_spec,
    integer_column,
    one_sentence,
)
from sublearn import BadInputError
from sublearn.exact import PrimeField
from sublearn.networks import Gates, Network, factors
from sublearn.networks._forward import run

SAMPLES = 3
FIELDS = [PrimeField(8388593), PrimeField(4194319)]


def _point(network: Network, field: PrimeField, seed: int) -> tuple[dict[str, Any], Any, Gates]:
    rng = np.random.default_rng(seed)
    weights = {name: field.random(rng, shape) for name, shape in network.shapes.items()}
    inputs = field.random(rng, network.input_shape(SAMPLES))
    gates = {
        position: rng.integers(0, 2, (network.shapes[step.weight][0], SAMPLES)).astype(float)
        for position, step in enumerate(network.steps)
        if step.activation == "relu"
    }
    return weights, inputs, gates


def _integers(array: Any) -> Any:
    return np.vectorize(int, otypes=[object])(array).tolist()


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: str(field.p))
@pytest.mark.parametrize("network", [*LINEAR, *RELU], ids=by_spec)
def test_outputs_and_derivatives_equal_integers(network: Network, field: PrimeField) -> None:
    weights, inputs, gates = _point(network, field, seed=field.p)
    found = factors(network, weights, inputs, field, gates)
    outputs = run(network, weights, inputs, field, gates).outputs

    def apply(step: int, i: int, s: int, z: Dual) -> Dual:
        return z * int(gates[step][i, s]) if step in gates else z

    lists = {name: _integers(matrix) for name, matrix in weights.items()}
    x = _integers(inputs)
    for name, i, j in all_entries(network):
        duals = integer_column(network, lists, x, apply, (name, i, j))
        assert [d.value % field.p for d in duals] == [int(y) % field.p for y in outputs.ravel()]
        left, right = found[name].left, found[name].right
        column = [
            sum(
                int(left[t, o, i, min(s, left.shape[-1] - 1)]) * int(right[t, j, s])
                for t in range(left.shape[0])
            )
            for o in range(network.output_size)
            for s in range(SAMPLES)
        ]
        assert [v % field.p for v in column] == [d.slope % field.p for d in duals], (name, i, j)


@pytest.mark.parametrize("network", [*LINEAR, *RELU], ids=by_spec)
def test_residues_stay_balanced(network: Network) -> None:
    field = FIELDS[0]
    weights, inputs, gates = _point(network, field, seed=3)
    for factor in factors(network, weights, inputs, field, gates).values():
        for part in (factor.left, factor.right):
            assert np.array_equal(part, np.rint(part)) and np.abs(part).max() <= field.half


def test_small_integers_agree_with_the_reals() -> None:
    # Where nothing wraps around, the field and float64 are the same arithmetic.
    network = sl.LinearRNN(n=3, b=2, d=2, T=2)
    rng = np.random.default_rng(0)
    weights = {n: rng.integers(-2, 3, s).astype(float) for n, s in network.shapes.items()}
    inputs = rng.integers(-2, 3, network.input_shape(4)).astype(float)
    real, modulo = factors(network, weights, inputs), factors(network, weights, inputs, FIELDS[0])
    for name in network.shapes:
        assert np.array_equal(real[name].left, modulo[name].left)
        assert np.array_equal(real[name].right, modulo[name].right)


@pytest.mark.parametrize(
    ("network", "word"),
    [
        (sl.RNN(n=2, b=1, d=1, T=2), "tanh"),
        (sl.FeedForward((2, 2, 1), activation="sigmoid"), "sigmoid"),
        (sl.FeedForward((2, 2, 1), activation="relu"), "relu"),  # no gates are given
        (sl.FeedForward((2, 1), output="tanh"), "tanh"),
    ],
    ids=by_spec,
)
def test_what_has_no_value_modulo_a_prime_is_refused(network: Network, word: str) -> None:
    weights, inputs, _ = _point(network, FIELDS[0], seed=1)
    with pytest.raises(BadInputError, match=f"has a {word} step, .*modulo a prime") as caught:
        factors(network, weights, inputs, FIELDS[0])
    assert one_sentence(caught.value) and network.spec in str(caught.value)


def test_gates_of_a_relu_step_replace_the_comparison() -> None:
    network = sl.FeedForward((2, 3, 1), activation="relu")
    rng = np.random.default_rng(2)
    weights = {n: rng.normal(size=s) for n, s in network.shapes.items()}
    x, gates = rng.normal(size=(2, 4)), rng.integers(0, 2, (3, 4)).astype(float)
    found = factors(network, weights, x, gates={0: gates})
    assert np.allclose(found["W2"].right[0], gates * (weights["W1"] @ x))
    assert np.allclose(found["W1"].left[0, 0], weights["W2"].T * gates)
