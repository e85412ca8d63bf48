"""Levenberg-Marquardt against its defining equation, against scipy, and row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sublearn as sl
from sublearn.training import Goal, LevenbergMarquardt, Objective, Streams, descend

TANH = sl.Problem(sl.FeedForward((4, 6, 3), "tanh"), 4)
LEARN = {"W1": sl.FirstRows(6)}


def _streams(count: int) -> Streams:
    return Streams(0, [(i,) for i in range(count)])


def _starts(instances: list[sl.Instance], count: int, seed: int = 0) -> np.ndarray:
    size = len(instances[0].allocation)
    return np.random.default_rng(seed).standard_normal((len(instances) * count, size))


@pytest.mark.parametrize("learn", [{"W1": 5}, {"W1": 12}, {"W1": 14, "W2": 5}])
def test_a_step_solves_the_damped_least_squares_problem(learn: dict[str, int]) -> None:
    """h minimises |f + J h|^2 + mu |h|^2: fewer, as many and more weights than equations."""
    instances = [
        sl.draw(TANH, sl.Allocation.spread(TANH.network, learn), trial=t) for t in range(3)
    ]
    objective, values = Objective(instances), _starts(instances, 1)
    learner = LevenbergMarquardt(damping=0.01)
    state = learner.init(objective, values, _streams(3))
    after = learner.step(objective, state, _streams(3))
    taken = 0
    for row in range(3):
        f, J, mu = state.residual[row], state.jacobian[row], state.mu[row]
        assert mu == pytest.approx(0.01 * (J**2).sum(axis=0).max())
        stacked = np.vstack([J, np.sqrt(mu) * np.eye(J.shape[1])])
        h = np.linalg.lstsq(stacked, -np.concatenate([f, np.zeros(J.shape[1])]), rcond=None)[0]
        moved = values[row] + h
        if (instances[row].residual(moved) ** 2).mean() < state.loss[row]:
            assert np.allclose(after.values[row], moved, rtol=1e-9, atol=1e-12)
            # Nielsen's rule: the damping follows how much of the promised fall came true.
            fall = f @ f - (instances[row].residual(moved) ** 2).sum()
            ratio = fall / (f @ f - ((f + J @ h) ** 2).sum())
            wanted = mu * max(1 / 3, 1 - (2 * ratio - 1) ** 3)
            assert after.mu[row] == pytest.approx(wanted, rel=1e-6)
            taken += 1
        else:
            assert (after.values[row] == values[row]).all() and after.mu[row] == 2 * mu
    assert taken


def test_the_loss_never_rises_and_is_the_mean_square() -> None:
    instances = [sl.draw(TANH, LEARN, trial=t) for t in range(4)]
    found = descend(
        Objective(instances, starts=3),
        LevenbergMarquardt(),
        _starts(instances, 3),
        steps=60,
        goal=Goal(eps=1e-12),
        streams=_streams(12),
    )
    for row in range(12):
        curve = found.curve[:, row]
        curve = curve[np.isfinite(curve)]
        assert (np.diff(curve) <= 0).all()
        error = (instances[row // 3].residual(found.values[row]) ** 2).mean()
        assert found.loss[row] == pytest.approx(error, rel=1e-9) == pytest.approx(curve[-1])


def test_rows_do_not_know_of_each_other() -> None:
    """A batch of different allocations gives what each row alone gives."""
    instances = [sl.draw(TANH, LEARN, trial=t) for t in range(5)]
    values = _starts(instances, 2)
    options: dict[str, Any] = {"steps": 40, "goal": Goal(eps=1e-3)}
    together = descend(
        Objective(instances, starts=2),
        LevenbergMarquardt(),
        values,
        streams=_streams(10),
        **options,
    )
    for row in range(10):
        alone = descend(
            Objective(instances[row // 2]),
            LevenbergMarquardt(),
            values[row : row + 1],
            streams=_streams(1),
            **options,
        )
        assert together.steps[row] == alone.steps[0]
        assert together.reached[row] == alone.reached[0]
        assert np.allclose(together.values[row], alone.values[0], rtol=1e-6, atol=1e-9)


def test_roots_are_found_where_scipy_finds_them() -> None:
    """From starts near a planted solution, both end at residual 0 (MINPACK's lmder as reference)."""
    from scipy.optimize import least_squares

    for trial in range(4):
        drawn = sl.draw(TANH, LEARN, trial=trial)
        rng = np.random.default_rng(trial)
        truth = rng.standard_normal(len(drawn.allocation))
        network = drawn.network
        targets = network.forward(drawn.with_values(truth), drawn.inputs)
        instance = sl.Instance(network, drawn.allocation, drawn.weights, drawn.inputs, targets)
        start = truth + 0.05 * rng.standard_normal(truth.size)
        theirs = least_squares(
            lambda x, i=instance: i.residual(x).ravel(), start, method="lm", xtol=1e-15, ftol=1e-15
        )
        ours = descend(
            Objective(instance),
            LevenbergMarquardt(),
            start[None],
            steps=200,
            goal=Goal(eps=1e-24),
            streams=_streams(1),
        )
        assert ours.loss[0] < 1e-20 and 2 * theirs.cost < 1e-20
        assert np.allclose(ours.values[0], theirs.x, atol=1e-6)


def test_a_linear_problem_ends_at_its_least_squares_solution() -> None:
    network = sl.LinearEstimator(inputs=3, outputs=2)
    allocation = sl.Allocation.from_entries(network, {"W": [(0, 0), (0, 1), (1, 2)]})
    instance = sl.draw(sl.Problem(network, 3), allocation)
    jacobian = network.jacobian(dict(instance.weights), instance.inputs, allocation)
    wanted = -instance.residual(np.zeros(3)).ravel()
    best = np.linalg.lstsq(jacobian, wanted, rcond=None)[0]
    found = descend(
        Objective(instance),
        LevenbergMarquardt(),
        np.ones((1, 3)),
        steps=200,
        goal=Goal(),
        streams=_streams(1),
    )
    assert np.allclose(found.values[0], best, atol=1e-6)
    assert found.steps[0] < 200, "a row at its minimum gives up"


def test_what_is_refused() -> None:
    problem = sl.Problem(sl.FeedForward((2, 3, 2), "relu"), 2)
    drawn = sl.draw(problem, sl.Allocation.whole(problem.network, ["W1"]))
    labelled = sl.Instance(drawn.network, drawn.allocation, drawn.weights, drawn.inputs, np.eye(2))
    objective = Objective(labelled, loss="cross-entropy")
    with pytest.raises(sl.BadInputError, match="squared error"):
        LevenbergMarquardt().init(objective, np.zeros((1, 6)), _streams(1))
    for settings in ({"damping": 0.0}, {"gain": 1.0}):
        with pytest.raises(sl.BadInputError, match=next(iter(settings))):
            LevenbergMarquardt(**settings)


def test_a_flat_start_gives_up() -> None:
    """Dead units: the Jacobian is 0, no step helps, and nothing breaks."""
    network = sl.FeedForward((2, 2, 1), "relu")
    allocation = sl.Allocation.whole(network, ["W1"])
    weights = {"W1": np.zeros((2, 2)), "W2": np.ones((1, 2))}
    instance = sl.Instance(network, allocation, weights, np.ones((2, 1)), np.ones((1, 1)))
    found = descend(
        Objective(instance),
        LevenbergMarquardt(),
        np.full((1, 4), -1.0),
        steps=50,
        goal=Goal(eps=1e-3),
        streams=_streams(1),
    )
    assert not found.reached[0] and found.loss[0] == 1.0
