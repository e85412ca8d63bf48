"""Training one instance: goals, starts, what comes back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sublearn as sl
from networks.reference import one_sentence
from sublearn.training import LEARNERS

RELU = sl.Problem(sl.FeedForward((6, 8, 4), activation="relu"), samples=6)
DIGITS = sl.Problem(
    sl.FeedForward((64, 90, 10), activation="relu"),
    samples=80,
    teacher=sl.Labels(sl.datasets.digits()),
)


def test_a_planted_match_is_found() -> None:
    drawn = sl.draw(RELU, {"W1": sl.FirstRows(8)})
    hidden = np.random.default_rng(0).standard_normal(24)
    targets = drawn.network.forward(drawn.with_values(hidden), drawn.inputs)
    planted = sl.Instance(drawn.network, drawn.allocation, drawn.weights, drawn.inputs, targets)
    found = sl.train(planted, "levenberg-marquardt", steps=200, starts=30, eps=1e-20)
    assert found.solved and found.goal_words == "mean squared error < 1e-20"
    assert np.abs(planted.residual(found.values)).max() < 1e-9


def test_what_comes_back() -> None:
    instance = sl.draw(RELU, {"W1": sl.FirstRows(8)}, trial=1)
    found = sl.train(instance, sl.training.AdaHessian(), steps=120, starts=6, seed=4)
    residual = instance.residual(found.values)
    assert found.loss == pytest.approx(float(np.mean(residual**2)), rel=1e-12)
    assert found.solved == (found.loss < 1e-2) and found.right is None and found.accuracy is None
    steps, losses = found.curve
    assert steps[0] == 0 and steps[-1] == found.steps and losses.min() == pytest.approx(found.loss)
    frozen = ~instance.allocation.mask("W1")
    assert (found.weights["W1"][frozen] == instance.weights["W1"][frozen]).all()
    assert (found.weights["W2"] == instance.weights["W2"]).all()
    assert found.to_dict()["best_start"] == found.best and "adahessian" in str(found)
    again = sl.train(instance, "adahessian", steps=120, starts=6, seed=4)
    assert (again.values == found.values).all() and again.best == found.best
    other = sl.train(instance, "adahessian", steps=120, starts=6, seed=5)
    assert not (other.values == found.values).all()


def test_a_start_does_not_depend_on_how_many_there_are() -> None:
    instance = sl.draw(RELU, {"W1": sl.FirstRows(6)})
    few = sl.train(instance, "adahessian", steps=40, starts=2)
    many = sl.train(instance, "adahessian", steps=40, starts=5)
    assert (few.starts.values == many.starts.values[:2]).all()


@pytest.mark.parametrize("precision", ["double", "single"])
def test_labels(precision: str) -> None:
    instance = sl.draw(DIGITS, {"W1": sl.FirstRows(40)}, trial=2)
    found = sl.train(instance, "adam", steps=400, precision=precision)
    outputs = instance.network.forward(found.weights, instance.inputs)
    said, wanted = outputs.argmax(axis=0), instance.targets.argmax(axis=0)
    assert found.right == (said == wanted).sum() == 80
    assert found.solved and found.accuracy == 1.0 and found.loss_name == "cross-entropy"
    assert found.steps < 400  # it stopped there
    assert found.values.dtype == np.float64
    short = sl.train(instance, "adam", steps=3, precision=precision)
    assert not short.solved and short.right is not None and short.right < 80


def test_vectors_of_labels_are_another_goal() -> None:
    instance = sl.draw(DIGITS, {"W1": sl.FirstRows(40)}, trial=2)
    found = sl.train(instance, "adam", steps=50, eps=1e-2)
    assert found.loss_name == "squared error" and found.goal.eps == 1e-2 and not found.goal.labels
    assert found.right is not None  # still counted
    by_squares = sl.train(instance, "adam", steps=50, loss="squared error")
    assert by_squares.goal.labels


@pytest.mark.parametrize("name", LEARNERS)
def test_a_curve_begins_at_the_start(name: str) -> None:
    instance = sl.draw(RELU, {"W1": sl.FirstRows(6)})
    seen: list[int] = []
    found = sl.train(
        instance, name, steps=7, eps=1e-9, watch=lambda step, losses: seen.append(step)
    )
    assert seen == found.starts.looks.tolist()
    assert found.starts.curve.shape == (len(seen), 1)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"steps": 0}, "steps"),
        ({"starts": 0}, "starts"),
        ({"seed": -1}, "seed"),
        ({"scale": 0.0}, "scale"),
        ({"eps": -1.0}, "eps"),
        ({"precision": "half"}, "precision must be one of"),
        ({"loss": "cross-entropy"}, "labels"),
        ({"learner": "newton"}, "learner must be one of"),
    ],
)
def test_bad_requests(options: dict[str, Any], match: str) -> None:
    instance = sl.draw(RELU, {"W1": sl.FirstRows(6)})
    with pytest.raises(sl.BadInputError, match=match) as caught:
        sl.train(instance, **options)
    assert one_sentence(caught.value)


def test_bad_pairs() -> None:
    instance = sl.draw(DIGITS, {"W1": sl.FirstRows(40)})
    with pytest.raises(sl.BadInputError, match="squared error"):
        sl.train(instance, loss="cross-entropy", eps=1e-2)
    with pytest.raises(sl.BadInputError, match="minimises the squared error"):
        sl.train(instance, "levenberg-marquardt")
    with pytest.raises(sl.BadInputError, match="must be an Instance"):
        sl.train(DIGITS)  # type: ignore[arg-type]


def test_the_first_start_may_be_at_the_weights_given() -> None:
    net = sl.FeedForward((3, 4, 2), activation="tanh")
    rng = np.random.default_rng(0)
    weights = {name: rng.normal(size=shape) for name, shape in net.shapes.items()}
    inputs = rng.normal(size=(3, 4))
    solved = net.forward(weights, inputs)
    allocation = sl.Allocation.whole(net, ["W1"])
    instance = sl.Instance.given(net, allocation, weights, inputs, solved)
    found = sl.train(instance, steps=1, starts=2, start="given")
    assert found.best == 0 and found.starts.curve[0][0] < 1e-25 < found.starts.curve[0][1]
    alone = sl.train(instance, steps=1, start="given")
    assert str(alone).startswith(
        "nothing to train: the given weights solve it already (mean squared error < 0.01), squared"
    )
    single = sl.train(instance, steps=1, start="given", precision="single")
    assert "the given weights solve it already" in str(single)
    assert "the random weights solve it already" in str(sl.train(instance, steps=1, eps=1e9))
    apart = sl.train(instance, steps=1, starts=2)
    assert apart.starts.curve[0][1] == found.starts.curve[0][1]  # the others are as ever
    with pytest.raises(sl.BadInputError, match="start must be"):
        sl.train(instance, start="zero")
