"""Problems on labelled data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import sublearn as sl
from networks.reference import one_sentence

DATA = sl.datasets.Dataset(
    "letters", np.arange(40.0).reshape(4, 10), np.arange(10) % 3, classes=3, mean=2.0
)
NETWORK = sl.FeedForward((4, 5, 3), activation="relu")
PROBLEM = sl.Problem(NETWORK, samples=6, teacher=sl.Labels(DATA))
RULE = {"W1": sl.FirstRows(5, 10)}


def test_samples_come_from_the_data_without_repetition() -> None:
    for trial in range(5):
        instance = sl.draw(PROBLEM, RULE, trial=trial)
        numbers = (instance.inputs[0] + 2.0).astype(int)  # feature 0 of sample s is s
        assert len(set(numbers)) == 6 and set(numbers) <= set(range(10))
        assert (instance.inputs == DATA.features[:, numbers] - 2.0).all()
        assert instance.targets.argmax(axis=0).tolist() == (numbers % 3).tolist()
        assert not instance.generic


def test_trials_differ_and_repeat() -> None:
    one, two, other = (sl.draw(PROBLEM, RULE, trial=t) for t in (1, 1, 2))
    assert (one.inputs == two.inputs).all() and (one.weights["W2"] == two.weights["W2"]).all()
    assert not (one.inputs == other.inputs).all()
    assert sl.draw(replace(PROBLEM, samples=10), RULE).inputs.shape == (4, 10)  # all of them


def test_the_digest_holds_the_data() -> None:
    renamed = replace(DATA, name="other")
    changed = replace(DATA, mean=0.0)
    assert sl.Problem(NETWORK, 6, teacher=sl.Labels(renamed)).digest == PROBLEM.digest
    assert sl.Problem(NETWORK, 6, teacher=sl.Labels(changed)).digest != PROBLEM.digest
    assert sl.Problem(NETWORK, 6).digest != PROBLEM.digest


def test_generic_facts_are_not_used() -> None:
    linear = sl.Problem(sl.FeedForward((4, 3)), samples=3, teacher=sl.Labels(DATA))
    whole = sl.Allocation.whole(linear.network)
    verdict = sl.certify(linear, whole)
    assert verdict.kind == "unknown" and "samples and labels (data)" in str(verdict)
    with pytest.raises(sl.BadInputError, match="data has no density"):
        sl.design(linear, ["W1"])
    with pytest.raises(sl.BadInputError, match="density"):
        sl.census(linear, "W1")


def test_data_that_does_not_fit() -> None:
    inputs = sl.Ensemble(inputs=sl.ensembles.Uniform())
    for network, samples, ensemble, match in (
        (sl.FeedForward((5, 3)), 4, sl.Ensemble(), "has 4 features a sample"),
        (sl.LinearRNN(n=3, b=4, d=3, T=1), 4, sl.Ensemble(), "takes others"),
        (sl.FeedForward((4, 2)), 4, sl.Ensemble(), "3 classes, the network 2 outputs"),
        (NETWORK, 11, sl.Ensemble(), "samples must be at most 10"),
        (NETWORK, 6, inputs, "inputs come from the data"),
    ):
        with pytest.raises(sl.BadInputError, match=match) as caught:
            sl.Problem(network, samples, ensemble, sl.Labels(DATA))
        assert one_sentence(caught.value)
    with pytest.raises(sl.BadInputError, match="data must be a Dataset"):
        sl.Labels("mnist")  # type: ignore[arg-type]
