"""Match within eps: counted against least squares, the same on any number of workers."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import sublearn as sl
from sublearn.training import LEARNERS, Adam

RELU = sl.Problem(sl.FeedForward((4, 6, 3), "relu"), 4)
RULE = {"W1": sl.FirstRows(6)}


@pytest.mark.parametrize("seed", [0, 3])
def test_within_eps_is_what_least_squares_says(seed: int) -> None:
    """Affine outputs: the lowest mean squared error is known, so every trial can be checked."""
    network = sl.LinearEstimator(inputs=4, outputs=2)
    problem = sl.Problem(network, 4)
    allocation = sl.Allocation.from_entries(
        network, {"W": [(0, 0), (0, 1), (0, 2), (1, 1), (1, 3)]}
    )
    eps = 0.3
    found = sl.estimate_within(problem, allocation, 40, eps=eps, starts=1, seed=seed)
    there = 0
    for record in found.records:
        instance = sl.draw(problem, allocation, seed=seed, trial=record.trial)
        jacobian = network.jacobian(dict(instance.weights), instance.inputs, allocation)
        wanted = -instance.residual(np.zeros(5)).ravel()
        lowest = np.linalg.lstsq(jacobian, wanted, rcond=None)[1].sum() / 8
        assert record.within == (lowest < eps)
        assert record.error >= lowest * (1 - 1e-9)
        # Who does not get there goes on to the bottom.
        assert record.within or record.error == pytest.approx(lowest, rel=1e-3)
        assert record.within == (record.error < eps)
        assert record.square == pytest.approx((instance.targets**2).mean())
        there += record.within
    assert 0 < there == found.within < found.trials
    assert found.share == there / 40
    assert found.confidence == sl.estimates.clopper_pearson(there, 40)
    drawn = [sl.draw(problem, allocation, seed=seed, trial=t) for t in range(40)]
    squares = [(instance.targets**2).mean() for instance in drawn]
    assert found.relative_eps == pytest.approx(eps / np.median(squares))


@pytest.mark.parametrize("method", LEARNERS)
def test_every_learner_is_counted_the_same_way(method: str) -> None:
    found = sl.estimate_within(RELU, RULE, 12, eps=0.3, learner=method, steps=60, starts=3)
    assert found.trials == 12 and found.learner.name == method
    assert found.within == sum(record.within for record in found.records)
    for record in found.records:
        assert record.within == (record.error < 0.3)
        assert 1 <= record.starts <= 3 and 0 <= record.steps <= 180
        if not record.within:
            assert record.starts == 3


def test_a_trial_depends_on_its_number_alone() -> None:
    """Not on how many trials, nor on who shares its chunk, nor on the workers."""
    options = {"eps": 0.05, "learner": "adahessian", "steps": 50, "starts": 2, "seed": 3}
    many = sl.estimate_within(RELU, RULE, 70, **options)  # type: ignore[arg-type]
    few = sl.estimate_within(RELU, RULE, 33, **options)  # type: ignore[arg-type]
    assert many.records[:33] == few.records
    with ThreadPoolExecutor(3) as executor:
        spread = sl.estimate_within(RELU, RULE, 70, executor=executor, **options)  # type: ignore[arg-type]
    assert spread.records == many.records and spread.within == many.within


def test_more_starts_only_add() -> None:
    options = {"eps": 0.02, "steps": 100}
    one = sl.estimate_within(RELU, RULE, 20, starts=1, **options)  # type: ignore[arg-type]
    ten = sl.estimate_within(RELU, RULE, 20, starts=10, **options)  # type: ignore[arg-type]
    for first, later in zip(one.records, ten.records, strict=True):
        assert not first.within or later == first
        assert later.error <= first.error


def test_an_exact_count_and_a_count_within_eps_are_different_things() -> None:
    exact = sl.estimate(RELU, RULE, 3, budget=sl.Budget(starts=4))
    close = sl.estimate_within(RELU, RULE, 3, eps=0.1, steps=20, starts=1)
    assert isinstance(exact, sl.Estimate) and isinstance(close, sl.WithinEstimate)
    assert not {f.name for f in dataclasses.fields(close)} & {"matched", "refuted", "undecided"}
    assert "match probability" not in str(close) and "not reached" in str(close)
    assert "within" not in exact.to_dict() and "matched" not in close.to_dict()


def test_a_run_stops_early_with_an_honest_interval() -> None:
    network = sl.FeedForward((3, 4, 2), "tanh")
    problem = sl.Problem(network, 3)
    decoder = sl.Allocation.block(network, "W2", columns=[0, 1, 2])
    found = sl.estimate_within(problem, decoder, 200, eps=1e-2, precision=0.1, starts=4)
    assert found.trials < 200 and found.within == found.trials
    assert found.confidence == sl.estimates.confidence_sequence(found.within, found.trials)
    assert (found.confidence[1] - found.confidence[0]) / 2 <= 0.1


def test_a_learner_with_its_own_settings() -> None:
    slow = sl.estimate_within(RELU, RULE, 10, eps=0.1, learner=Adam(rate=1e-6), steps=30, starts=1)
    fast = sl.estimate_within(RELU, RULE, 10, eps=0.1, learner=Adam(rate=0.1), steps=30, starts=1)
    assert slow.learner == Adam(rate=1e-6)
    assert all(f.error <= s.error for f, s in zip(fast.records, slow.records, strict=True))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"eps": 0.0}, "eps must be positive"),
        ({"eps": float("nan")}, "eps must be positive"),
        ({"eps": 0.1, "learner": "ladder"}, "learner must be one of levenberg-marquardt"),
        ({"eps": 0.1, "steps": 0}, "steps must be a whole number"),
        ({"eps": 0.1, "starts": 0}, "starts must be a whole number"),
        ({"eps": 0.1, "precision": 0.5}, "precision must lie strictly"),
        ({"eps": 0.1, "workers": 0}, "workers must be"),
    ],
)
def test_bad_requests(options: dict[str, object], words: str) -> None:
    with pytest.raises(sl.BadInputError, match=words):
        sl.estimate_within(RELU, RULE, 2, **options)  # type: ignore[arg-type]


def test_batches_of_any_size_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large Jacobians are trained a few rows at a time; nobody can tell from the result."""
    from sublearn.estimates import _within

    whole = sl.estimate_within(RELU, RULE, 9, eps=0.02, steps=40, starts=7)
    monkeypatch.setattr(_within, "LARGEST_BATCH", 2 * 12 * 12)
    parts = sl.estimate_within(RELU, RULE, 9, eps=0.02, steps=40, starts=7)
    assert parts.records == whole.records
