"""Every learner through one interface, and each against the textbook update on whole matrices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import sublearn as sl
from networks.reference import one_sentence
from sublearn.training import (
    LEARNERS,
    Goal,
    Objective,
    Streams,
    descend,
    learner_named,
    starting_values,
)
from training.dense import Dense

RELU = sl.Problem(sl.FeedForward((6, 8, 4), activation="relu"), samples=6)
QUADRATIC = sl.Problem(sl.LinearEstimator(inputs=5, outputs=3), samples=4)
STEPS = 40


def _relu(trial: int) -> sl.Instance:
    return sl.draw(RELU, {"W1": sl.FirstRows(5)}, trial=trial)


def _quadratic(trial: int) -> sl.Instance:
    whole = sl.Allocation.whole(QUADRATIC.network)
    chosen = np.random.default_rng(trial).choice(len(whole), 8, replace=False)
    return sl.draw(QUADRATIC, whole.select(chosen), trial=trial)


def _keys(count: int) -> list[tuple[int, ...]]:
    return [(number,) for number in range(count)]


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("make", [_relu, _quadratic])
def test_the_loss_falls_and_frozen_weights_stay(
    name: str, make: Callable[[int], sl.Instance]
) -> None:
    instances = [make(trial) for trial in range(4)]
    objective = Objective(instances, starts=2)
    streams = Streams(3, _keys(8))
    values = starting_values(instances, streams, 2)
    found = descend(objective, learner_named(name), values, steps=60, goal=Goal(), streams=streams)
    assert (found.loss < objective.loss(values)).all()
    np.testing.assert_array_equal(objective.loss(found.values), found.loss)
    for row, instance in enumerate(np.repeat(np.array(instances, dtype=object), 2)):
        weights = instance.with_values(found.values[row])
        for weight in weights:
            frozen = ~instance.allocation.mask(weight)
            assert (weights[weight][frozen] == instance.weights[weight][frozen]).all()


@pytest.mark.parametrize("name", LEARNERS)
def test_a_row_learns_the_same_in_any_company(name: str) -> None:
    instances = [_relu(trial) for trial in range(5)]
    learner = learner_named(name)

    def run(chosen: list[int], goal: Goal) -> Any:
        streams = Streams(1, [(number, 9) for number in chosen])
        mine = [instances[number] for number in chosen]
        values = starting_values(mine, streams, 1)
        return descend(Objective(mine), learner, values, steps=50, goal=goal, streams=streams)

    losses = run([0, 1, 2, 3, 4], Goal()).loss
    goal = Goal(eps=float(np.median(losses)) * 1.01)  # some stop early, and leave the batch
    together = run([0, 1, 2, 3, 4], goal)
    assert 0 < together.reached.sum() < 5
    for number in range(5):
        alone = run([number], goal)
        assert (alone.values[0] == together.values[number]).all()
        assert alone.steps[0] == together.steps[number]
        assert alone.reached[0] == together.reached[number]


@pytest.mark.parametrize("make", [_relu, _quadratic])
@pytest.mark.parametrize("name", ["gradient-descent", "sgd", "adam", "adahessian"])
def test_steps_are_those_of_the_textbook(name: str, make: Callable[[int], sl.Instance]) -> None:
    settings: dict[str, dict[str, Any]] = {
        "gradient-descent": {"rate": 0.2},
        "sgd": {"rate": 0.05, "size": 3, "momentum": 0.8},
        "adam": {"rate": 0.02, "beta1": 0.8, "beta2": 0.99, "eps": 1e-6},
        "adahessian": {"rate": 0.1, "beta1": 0.8, "beta2": 0.99, "eps": 1e-3, "power": 0.7},
    }
    chosen = settings[name]
    learner = learner_named(name, **chosen)
    instance = make(2)
    r = len(instance.allocation)
    objective, streams = Objective(instance), Streams(5, [(0,)])
    values = starting_values([instance], streams, 1)
    # The same random numbers, drawn a second time.
    mirror = Streams(5, [(0,)])
    starting_values([instance], mirror, 1)
    dense = Dense.of(instance, values[0])
    state = learner.init(objective, values, streams)
    for t in range(1, STEPS + 1):
        state = learner.step(objective, state, streams)
        if name == "gradient-descent":
            dense.gradient_descent(chosen["rate"])
        elif name == "sgd":
            samples = mirror.mini_batches(instance.samples, 3)[0]
            dense.sgd(chosen["rate"], chosen["momentum"], samples)
        elif name == "adam":
            dense.adam(t, *chosen.values())
        else:
            z = np.zeros_like(dense.w)
            z[dense.mask == 1] = mirror.signs(r)[0]
            dense.adahessian(t, z, *chosen.values())
        np.testing.assert_allclose(state.values[0], dense.w[dense.mask == 1], rtol=0, atol=1e-10)
        frozen = dense.mask == 0
        assert (dense.w[frozen] == instance.weights[dense.learns][frozen]).all()


def test_adahessian_knows_the_diagonal_of_a_quadratic() -> None:
    # One learnable weight per row of W: rows do not interact, so z (H z) is the diagonal exactly.
    network = QUADRATIC.network
    allocation = sl.Allocation.from_entries(network, {"W": [(0, 1), (1, 4), (2, 0)]})
    instance = sl.draw(QUADRATIC, allocation)
    state: Any = learner_named("adahessian").init(
        Objective(instance), np.zeros((1, 3)), Streams(0, [(0,)])
    )
    x = instance.inputs
    expected = [2.0 / instance.equations * float(x[j] @ x[j]) for j in (1, 4, 0)]
    np.testing.assert_allclose(state.scale[0], expected, rtol=1e-13)


def test_sgd_on_all_samples_is_gradient_descent() -> None:
    instance = _relu(0)
    objective, streams = Objective(instance), Streams(0, [(0,)])
    values = starting_values([instance], streams, 1)
    ends = [
        descend(objective, learner, values, steps=30, goal=Goal(), streams=streams).values
        for learner in (sl.training.SGD(rate=0.1, size=100), sl.training.GradientDescent(rate=0.1))
    ]
    # A mini-batch of all samples comes in a random order, so sums differ in their last bits.
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-9)


def test_epochs_see_every_sample_once() -> None:
    streams = Streams(0, _keys(3))
    seen = np.concatenate([streams.mini_batches(12, 4) for _ in range(3)], axis=1)
    assert (np.sort(seen, axis=1) == np.arange(12)).all()
    assert not (seen[0] == seen[1]).all()  # rows have orders of their own


def test_losses_are_looked_at_once_an_epoch_and_at_the_end() -> None:
    instances = [_relu(0)]  # six samples: three batches of two
    for name, settings, looks in (("sgd", {"size": 2}, [0, 3, 6, 7]), ("adam", {}, list(range(8)))):
        streams = Streams(0, _keys(1))
        values = starting_values(instances, streams, 1)
        found = descend(
            Objective(instances),
            learner_named(name, **settings),
            values,
            steps=7,
            goal=Goal(),
            streams=streams,
        )
        assert found.looks.tolist() == looks and found.curve.shape == (len(looks), 1)
        assert found.loss[0] == found.curve.min() and found.steps[0] == 7


def test_signs_are_fair_and_rows_keep_their_streams() -> None:
    streams = Streams(0, _keys(4))
    drawn = np.stack([streams.signs(500) for _ in range(100)])
    assert set(np.unique(drawn)) == {-1, 1}
    assert abs(drawn.mean()) < 5 / np.sqrt(drawn.size)
    again = Streams(0, _keys(4))
    first = again.signs(500)
    part = again.select([2])
    assert (part.signs(500)[0] == drawn[1, 2]).all() and (first == drawn[0]).all()


def test_a_loss_that_is_not_finite_ends_a_row() -> None:
    instances = [_quadratic(0), _quadratic(1)]
    streams = Streams(0, _keys(2))
    values = starting_values(instances, streams, 1)
    found = descend(
        Objective(instances),
        sl.training.GradientDescent(rate=1e9),
        values,
        steps=500,
        goal=Goal(eps=1e-3),
        streams=streams,
    )
    assert not found.reached.any() and (found.steps < 500).all()
    assert (
        np.isfinite(found.values).all() and (found.loss == Objective(instances).loss(values)).all()
    )


def test_starts_are_scaled_like_frozen_weights() -> None:
    network = sl.FeedForward((9, 40, 100, 4))
    allocation = sl.Allocation.whole(network, ["W1", "W3"])
    instance = sl.draw(sl.Problem(network, samples=2), allocation)
    drawn = starting_values([instance], Streams(0, _keys(60)), 60, scale=2.0)
    first, last = drawn[:, : 9 * 40], drawn[:, 9 * 40 :]
    assert first.std() == pytest.approx(2 / 3, rel=0.03)
    assert last.std() == pytest.approx(2 / 10, rel=0.03)


@pytest.mark.parametrize(
    ("name", "settings", "match"),
    [
        ("adm", {}, "learner must be one of .* Did you mean 'adam'"),
        ("adam", {"rate": 0}, "rate must be positive"),
        ("adam", {"beta2": 1.0}, "beta2 must lie in"),
        ("sgd", {"size": 0}, "size must be a whole number"),
        ("sgd", {"momentum": -0.1}, "momentum must lie in"),
        ("adahessian", {"power": "1"}, "power must be positive"),
        ("gradient-descent", {"rate": float("nan")}, "rate must be positive"),
        ("gradient-descent", {"momentum": 0.5}, "has no setting 'momentum'"),
    ],
)
def test_bad_settings(name: str, settings: dict[str, Any], match: str) -> None:
    with pytest.raises(sl.BadInputError, match=match) as caught:
        learner_named(name, **settings)
    assert one_sentence(caught.value)


@pytest.mark.parametrize(
    ("name", "setting"),
    [(name, field.name) for name, made in LEARNERS.items() for field in fields(made)],
)
def test_no_setting_is_left_unchecked(name: str, setting: str) -> None:
    with pytest.raises(sl.BadInputError, match=f"{setting} must"):
        learner_named(name, **{setting: -1})
