"""How often a point lies within eps, decided: counted against a formula, saved, and told apart."""

from __future__ import annotations

from pathlib import Path

import pytest

import sublearn as sl
from sublearn.estimates import DecidedWithin, DecidedWithinQuestion, count_trials

PROBLEM = sl.Problem(sl.LinearEstimator(inputs=2, outputs=1), samples=2)
FIRST = sl.Allocation.from_entries(PROBLEM.network, {"W": [(0, 0)]})


def test_two_samples_and_one_weight_have_a_formula() -> None:
    """The least of max |w x_i - r_i| is |r_1 x_2 - r_2 x_1| / (|x_1| + |x_2|)."""
    eps = 0.3
    question = DecidedWithinQuestion(PROBLEM, FIRST, seed=2, eps=eps)
    found = count_trials(DecidedWithin(question), 40)
    for record in found.records:
        instance = sl.draw(PROBLEM, FIRST, seed=2, trial=record.trial)
        x = instance.inputs[0]
        r = instance.targets[0] - instance.start["W"][0, 1] * instance.inputs[1]
        least = abs(r[0] * x[1] - r[1] * x[0]) / abs(x).sum()
        assert record.kind == ("matched" if least <= eps else "refuted")
        assert record.grade == "proof"
    assert 0 < found.matched < 40
    assert found.matched + found.refuted == 40
    assert sl.estimate(PROBLEM, FIRST, 40, seed=2, sample_always=True).matched == 0


def test_it_is_saved_and_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "near.json"
    empty = DecidedWithin(
        DecidedWithinQuestion(PROBLEM, FIRST, budget=sl.Budget(starts=7), eps=0.5)
    )
    count_trials(empty, 8).save(file)
    again = DecidedWithin.load(file, PROBLEM, FIRST)
    assert again.question == empty.question
    assert again.more(4, workers=1).records == count_trials(empty, 12).records
    with pytest.raises(sl.BadInputError, match="another kind"):
        sl.Estimate.load(file, PROBLEM, FIRST)


def test_it_says_what_it_counted() -> None:
    found = count_trials(DecidedWithin(DecidedWithinQuestion(PROBLEM, FIRST, eps=0.5)), 8)
    assert str(found).startswith("every output within eps = 0.5, decided: share ")
    said = found.to_dict()
    assert (said["criterion"], said["eps"]) == ("every output within eps", 0.5)
    assert "method" not in said
    with pytest.raises(sl.BadInputError, match="eps"):
        DecidedWithinQuestion(PROBLEM, FIRST, eps=0.0)
