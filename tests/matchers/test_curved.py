"""Enclosures of tanh, sigmoid and ReLU chains, and proofs that rest on them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

import sublearn as sl
from sublearn.matchers import prove
from sublearn.matchers.proofs._balls import precision, relu, sigmoid, tanh
from sublearn.matchers.proofs._dyadic import to_ball
from sublearn.matchers.proofs._equations import ChainEquations

# Deep, mixed, with biases and an output activation; recurrent; rectified.
NETWORKS: list[tuple[sl.Network, dict[str, int]]] = [
    (
        sl.FeedForward((3, 5, 4, 2), "tanh", "sigmoid", bias=True),
        {"W1": 3, "b2": 1, "W3": 2, "b3": 2},
    ),
    (sl.FeedForward((3, 4, 4, 2), "sigmoid", "tanh"), {"W1": 4, "W2": 4}),
    (sl.RNN(n=4, b=2, d=2, T=3), {"W": 5, "B": 2, "D": 1}),
    (sl.RNN(n=4, b=1, d=2, T=3, activation="sigmoid"), {"W": 6}),
    (sl.FeedForward((3, 6, 5, 2), "relu", bias=True), {"W1": 4, "W2": 2, "b1": 2}),
    (sl.RNN(n=5, b=1, d=2, T=2, activation="relu"), {"W": 6}),
]
IDS = [network.spec for network, _ in NETWORKS]


def _planted(
    network: sl.Network, learn: dict[str, int], seed: int, surplus: int = 0, lift: float = 0.0
) -> tuple[sl.Instance, np.ndarray]:
    """An instance whose targets are those of known values, rounded to float64; and the values."""
    rng = np.random.default_rng(seed)
    allocation = sl.Allocation.spread(network, learn)
    samples = (len(allocation) - surplus) // network.output_size
    weights = {n: rng.standard_normal(s) / np.sqrt(s[1]) for n, s in network.shapes.items()}
    for name in ("b1", "b2"):
        if name in weights:
            weights[name] += lift
    inputs = rng.standard_normal(network.input_shape(samples))
    targets = network.forward(weights, inputs)
    instance = sl.Instance(network, allocation, weights, inputs, targets)
    return instance, instance.values(weights)


@pytest.mark.parametrize(("network", "learn"), NETWORKS, ids=IDS)
def test_enclosures_hold_the_values_of_every_point_of_a_box(
    network: sl.Network, learn: dict[str, int]
) -> None:
    instance, x = _planted(network, learn, 1)
    rng = np.random.default_rng(2)
    for width in (0.0, 1e-6, 0.05):
        with precision(106):
            balls = [arb(float(v), width) for v in x]
            residual, jacobian = ChainEquations(instance).linearised(balls)
            alone = ChainEquations(instance).residual(balls)
        for _ in range(10 if width else 1):
            point = x + width * rng.uniform(-1, 1, x.size)
            weights = instance.with_values(point)
            slopes = network.jacobian(weights, instance.inputs, instance.allocation)
            # float64 itself is off by a few roundings.
            for ball, value in zip(
                residual.entries(), instance.residual(point).ravel(), strict=True
            ):
                assert (ball + arb(0, 1e-13)).contains(arb(float(value)))
            for ball, value in zip(alone.entries(), instance.residual(point).ravel(), strict=True):
                assert (ball + arb(0, 1e-13)).contains(arb(float(value)))
            for ball, value in zip(jacobian.entries(), slopes.ravel(), strict=True):
                assert (ball + arb(0, 1e-12)).contains(arb(float(value)))


@pytest.mark.parametrize(("network", "learn"), NETWORKS[:4], ids=IDS[:4])
def test_planted_solutions_are_proved(network: sl.Network, learn: dict[str, int]) -> None:
    for seed in range(3):
        instance, x = _planted(network, learn, seed)
        start = x + 1e-7 * np.random.default_rng(seed).standard_normal(x.size)
        found = prove(instance, start)
        assert found is not None and found.kind == "krawczyk"
        assert np.abs(found.values - x).max() < 1e-9
        assert found.check()


def test_more_weights_than_equations() -> None:
    network = sl.FeedForward((3, 5, 2), "tanh")
    instance, x = _planted(network, {"W1": 6, "W2": 4}, 3, surplus=4)
    assert instance.equations == 6 < len(x)
    found = prove(instance, x + 1e-8)
    assert found is not None and len(found.free) == 6 and found.check()


def test_deep_relu_away_from_kinks() -> None:
    """Where the Jacobian is regular the planted solution is proved, where it is singular it is not."""
    network = sl.FeedForward((4, 9, 9, 3), "relu", bias=True)
    proved = singular = 0
    for seed in range(24):
        instance, x = _planted(network, {"W1": 3, "W2": 6}, seed, lift=seed / 8)
        slopes = network.jacobian(instance.with_values(x), instance.inputs, instance.allocation)
        found = prove(instance, x + 1e-9)
        if np.linalg.cond(slopes) < 1e6:
            assert found is not None and found.check()
            assert np.abs(found.values - x).max() < 1e-9
            proved += 1
        elif np.linalg.matrix_rank(slopes) < x.size:
            assert found is None
            singular += 1
    assert proved >= 3 and singular >= 1


@pytest.mark.parametrize("output", ["tanh", "sigmoid"])
def test_one_weight_in_closed_form(output: str) -> None:
    """phi(w x) = t has the one solution w = phi^-1(t) / x, which must lie in the box."""
    network = sl.FeedForward((1, 1), output=output)
    allocation = sl.Allocation.whole(network, ["W1"])
    x, t = 0.7, 0.3125
    instance = sl.Instance(
        network, allocation, {"W1": np.zeros((1, 1))}, np.array([[x]]), np.array([[t]])
    )
    found = prove(instance, [0.2])
    assert found is not None
    with precision(400):
        exact = arb(t).atanh() if output == "tanh" else (arb(t) / (1 - arb(t))).log()
        exact = exact / arb(x)
        centre, radius = to_ball(found.centre[0]), to_ball(found.radius[0])
        assert abs(exact - centre) < radius


def test_no_proof_where_there_is_no_solution() -> None:
    network = sl.FeedForward((2, 3, 1), "sigmoid")
    weights = {"W1": np.zeros((3, 2)), "W2": np.ones((1, 3))}
    allocation = sl.Allocation.from_entries(network, {"W1": [(0, 0)]})
    # The output lies between 1 and 2: half of each of two frozen units, and the third one.
    for target in (0.9, 2.1):
        instance = sl.Instance(network, allocation, weights, np.ones((2, 1)), np.array([[target]]))
        for start in np.linspace(-30, 30, 13):
            assert prove(instance, [start], max_bits=424) is None


@settings(max_examples=60, deadline=None)
@given(st.floats(-40, 40), st.floats(0, 1), st.floats(-1, 1))
def test_balls_of_activations(mid: float, width: float, place: float) -> None:
    """phi and phi' of every number of a ball, from other formulas at more bits."""
    with precision(106):
        ball = arb(mid, width)
        found = {"tanh": tanh(ball), "sigmoid": sigmoid(ball), "relu": relu(ball)}
    with precision(400):
        point = arb(mid) + arb(place) * arb(width)
        up, down = point.exp(), (-point).exp()
        value = (up - down) / (up + down)
        assert found["tanh"][0].overlaps(value) and found["tanh"][1].overlaps(1 - value**2)
        value = up / (1 + up)
        assert found["sigmoid"][0].overlaps(value)
        assert found["sigmoid"][1].overlaps(value * (1 - value))
        value = point if point > 0 else arb(0)
        assert found["relu"][0].overlaps(value)
        assert found["relu"][1].overlaps(arb(1 if point > 0 else 0))


def test_certificates_are_saved_and_damage_is_seen(tmp_path: Path) -> None:
    instance, x = _planted(sl.RNN(n=4, b=2, d=2, T=3), {"W": 5, "B": 2, "D": 1}, 0)
    found = prove(instance, x)
    assert found is not None
    found.save(tmp_path / "c.json")
    loaded = sl.Certificate.load(tmp_path / "c.json")
    assert loaded.check() and loaded.centre == found.centre
    text = (tmp_path / "c.json").read_text(encoding="utf-8")
    target = float(instance.targets[0, 0])
    (tmp_path / "d.json").write_text(
        text.replace(target.hex(), (target + 1e-6).hex()), encoding="utf-8"
    )
    assert not sl.Certificate.load(tmp_path / "d.json").check(max_bits=424)
