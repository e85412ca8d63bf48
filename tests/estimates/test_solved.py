"""Solved fractions: what is counted, and on whom it depends."""

from __future__ import annotations

import numpy as np
import pytest

import sublearn as sl

NETWORK = sl.FeedForward((64, 90, 10), activation="relu")
DIGITS = sl.Problem(NETWORK, samples=60, teacher=sl.Labels(sl.datasets.digits()))
ROWS = {"W1": sl.FirstRows(30)}


def test_every_trial_is_a_training() -> None:
    found = sl.estimates.estimate_solved(DIGITS, ROWS, trials=4, steps=150)
    assert found.trials == 4 and found.goal == "every label right"
    assert found.solved == sum(r.right == 60 for r in found.records)
    assert 0 < found.solved < 4, "the budget is meant to be short for some of them"
    assert found.confidence == sl.estimates.clopper_pearson(found.solved, 4)
    more = sl.estimates.estimate_solved(DIGITS, ROWS, trials=4, steps=400)
    assert more.solved == 4 and more.median_accuracy == 1.0
    # The same starts: what 150 steps solved, 400 solve after as many steps.
    for few, many in zip(found.records, more.records, strict=True):
        assert not few.solved or (few.steps == many.steps and few.loss == many.loss)
    assert found.to_dict()["solved"] == found.solved and f"{found.solved} of 4" in str(found)


def test_within_eps_is_another_goal() -> None:
    problem = sl.Problem(sl.FeedForward((6, 8, 4), activation="relu"), samples=6)
    found = sl.estimates.estimate_solved(
        problem,
        {"W1": sl.FirstRows(8)},
        trials=6,
        learner="levenberg-marquardt",
        steps=60,
        starts=10,
        eps=1e-2,
        precision="double",
    )
    assert found.goal == "mean squared error < 0.01" and found.median_accuracy is None
    assert all(r.solved == (r.loss < 1e-2) for r in found.records)
    assert found.solved > 0


def test_trials_are_the_drawn_instances() -> None:
    """Affine outputs and a goal out of reach: every loss is the least squares of its own instance."""
    network = sl.LinearEstimator(inputs=4, outputs=2)
    problem = sl.Problem(network, 4)
    held = sl.Allocation.from_entries(network, {"W": [(0, 0), (0, 1), (0, 2), (1, 1), (1, 3)]})
    seen: list[int] = []

    def run() -> sl.estimates.SolvedEstimate:
        return sl.estimates.estimate_solved(
            problem, held, 3, learner="levenberg-marquardt", steps=60, eps=1e-12, seed=3,
            precision="double", progress=lambda so_far: seen.append(so_far.trials),
        )  # fmt: skip

    found = run()
    assert seen and seen[-1] == 3 and found.solved == 0
    for record in found.records:
        instance = sl.draw(problem, held, seed=3, trial=record.trial)
        jacobian = network.jacobian(dict(instance.weights), instance.inputs, held)
        wanted = -instance.residual(np.zeros(5)).ravel()
        lowest = np.linalg.lstsq(jacobian, wanted, rcond=None)[1].sum() / 8
        assert record.loss == pytest.approx(lowest, rel=1e-6)
    assert run() == found  # whatever time it took


@pytest.mark.slow
def test_the_same_on_two_processes() -> None:
    alone = sl.estimates.estimate_solved(DIGITS, ROWS, trials=3, steps=60)
    assert sl.estimates.estimate_solved(DIGITS, ROWS, trials=3, steps=60, workers=2) == alone


@pytest.mark.slow
def test_figure_3c_at_forty_rows() -> None:
    # The paper: with more than 40 rows the match probability was constant 1.
    problem = sl.Problem(
        sl.FeedForward((784, 1000, 10), activation="relu"),
        1000,
        teacher=sl.Labels(sl.datasets.mnist()),
    )
    found = sl.estimates.estimate_solved(
        problem, {"W1": sl.FirstRows(41)}, trials=2, steps=1500, seed=9
    )
    assert found.solved == 2 and len(found.records) == 2
