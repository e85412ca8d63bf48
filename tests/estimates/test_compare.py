"""Trainability and generalisation."""

from __future__ import annotations

import numpy as np
import pytest

import sublearn as sl
from sublearn.ensembles import fresh_samples
from sublearn.estimates import Within

RNN = sl.Problem(sl.LinearRNN(n=5, b=1, d=2, T=3), 3)
ROWS = {"W": sl.FirstRows(5)}


def test_the_table_is_made_of_the_estimates() -> None:
    learners = ["gradient-descent", "levenberg-marquardt"]
    steps = {"gradient-descent": 100, "levenberg-marquardt": 50}
    asked = {"eps": 1e-2, "starts": 2, "seed": 3}
    table = sl.estimates.trainability(RNN, ROWS, 16, learners=learners, steps=steps, **asked)
    assert table.learners == tuple(learners) and table.solved.shape == (16, 2)
    for column, name in enumerate(learners):
        alone = sl.estimate_within(RNN, ROWS, 16, learner=name, steps=steps[name], **asked)
        assert table.runs[column].records == alone.records
        assert table.solved[:, column].sum() == alone.within
    first, second = table.only(0, 1)
    both = int(table.solved.all(axis=1).sum())
    assert first + second + both == table.by_any
    assert first + both == table.runs[0].within and second + both == table.runs[1].within
    lines = str(table).splitlines()
    assert len(lines) == 4 and all(
        name in line for name, line in zip(learners, lines[2:], strict=True)
    )
    assert [run["learner"] for run in table.to_dict()["learners"]] == learners


def test_bad_tables() -> None:
    with pytest.raises(sl.BadInputError, match="at least one"):
        sl.estimates.trainability(RNN, ROWS, 2, eps=0.1, learners=[])
    with pytest.raises(sl.BadInputError, match="steps names 'adam'"):
        sl.estimates.trainability(RNN, ROWS, 2, eps=0.1, learners=["sgd"], steps={"adam": 3})


def test_fresh_samples_are_the_same_teacher_s() -> None:
    """A linear teacher is determined by q samples: solved for, it gives the fresh targets."""
    problem = sl.Problem(sl.FeedForward((4, 6, 3)), 4)
    for trial in range(3):
        instance = sl.draw(problem, {"W1": sl.FirstRows(6)}, seed=5, trial=trial)
        teacher = instance.targets @ np.linalg.inv(instance.inputs)
        inputs, targets = fresh_samples(problem, 50, seed=5, trial=trial)
        assert np.allclose(targets, teacher @ inputs, atol=1e-8)
        assert not np.isin(inputs, instance.inputs).any()


def test_fresh_labelled_samples_were_not_seen() -> None:
    data = sl.datasets.digits()
    problem = sl.Problem(sl.FeedForward((64, 20, 10), "relu"), 1000, teacher=sl.Labels(data))
    seen = sl.draw(problem, sl.Allocation.spread(problem.network, {"W1": 30}), trial=1).inputs
    inputs, targets = fresh_samples(problem, 700, trial=1)
    assert inputs.shape == (64, 700) and (targets.sum(axis=0) == 1).all()
    old = {column.tobytes() for column in np.ascontiguousarray(seen.T)}
    new = [column.tobytes() for column in np.ascontiguousarray(inputs.T)]
    assert len(set(new)) == 700 and not old & set(new)
    with pytest.raises(sl.BadInputError, match="at most"):
        fresh_samples(problem, 800)


@pytest.mark.parametrize("name", ["count", "seed", "trial"])
def test_fresh_samples_refuse_what_is_no_number(name: str) -> None:
    problem = sl.Problem(sl.LinearEstimator(2, 1), 2)
    with pytest.raises(sl.BadInputError, match=f"{name} must be a whole number"):
        fresh_samples(problem, **{"count": 3, name: -1})


def test_teachers_without_fresh_samples() -> None:
    network = RNN.network
    with pytest.raises(sl.BadInputError, match="without a teacher"):
        fresh_samples(sl.Problem(network, 3, teacher=sl.Targets()), 5)
    low = sl.Ensemble(inputs=sl.ensembles.LowRank(rank=2))
    with pytest.raises(sl.BadInputError, match="low rank"):
        fresh_samples(sl.Problem(network, 3, low), 5)


def test_enough_samples_determine_a_linear_map() -> None:
    """m = T b: an exact match is the teacher's map, so nothing is wrong on fresh samples."""
    found = sl.estimates.generalisation(RNN, ROWS, 6, fresh=200)
    assert found.eps is None and found.solved == 6 == found.better_than_zero
    assert found.relative.max() < 1e-10


def test_the_error_of_the_solution_of_least_norm() -> None:
    """y = W x with all of W learnable and m < q: W = Y X^+, the teacher on the span of the samples."""
    network = sl.LinearEstimator(inputs=6, outputs=2)
    problem = sl.Problem(network, 3)
    whole = sl.Allocation.whole(network, ["W"])
    found = sl.estimates.generalisation(problem, whole, 8, fresh=300, seed=2)
    assert found.solved == 8
    for record in found.records:
        instance = sl.draw(problem, whole, seed=2, trial=record.trial)
        inputs, targets = fresh_samples(problem, 300, seed=2, trial=record.trial)
        guess = instance.targets @ np.linalg.pinv(instance.inputs) @ inputs
        error = ((guess - targets) ** 2).mean()
        assert record.fresh_error == pytest.approx(error, rel=1e-8)
        assert record.square == pytest.approx((targets**2).mean())
        assert record.own_error < 1e-25
        assert 0 < record.relative < 1
    assert found.quantiles(0.0, 1.0) == [found.relative.min(), found.relative.max()]
    quartiles = np.percentile(found.relative, [25, 50, 75])
    assert found.to_dict()["relative_error_quartiles"] == pytest.approx(quartiles.tolist())
    with pytest.raises(sl.BadInputError, match="trials must be a whole number"):
        sl.estimates.generalisation(problem, whole, 0)


def test_fresh_errors_are_those_of_the_decided_solutions() -> None:
    """Of several real solutions, the one that decide finds with the same seed and budget."""
    problem, rows = sl.Problem(sl.LinearRNN(n=6, b=1, d=2, T=4), 2), {"W": sl.FirstRows(6)}
    few = sl.Budget(starts=1, iterations=4, paths=3)

    def errors(budget: sl.Budget, seed: int) -> list[float]:
        out = []
        for trial in range(6):
            instance = sl.draw(problem, rows, seed=4, trial=trial)
            values = sl.decide(instance, budget=budget, seed=seed).values
            inputs, targets = fresh_samples(problem, 20, seed=4, trial=trial)
            if values is not None:
                outputs = problem.network.forward(instance.with_values(values), inputs)
                out.append(float(((outputs - targets) ** 2).mean()))
        return out

    found = sl.estimates.generalisation(problem, rows, 6, fresh=20, seed=4, by=few)
    assert [r.fresh_error for r in found.records if r.solved] == errors(few, 4)
    assert errors(few, 4) not in (errors(few, 0), errors(sl.Budget(), 4))


def test_unsolved_instances_are_left_out() -> None:
    problem = sl.Problem(sl.FeedForward((4, 6, 3), "relu"), 4)
    found = sl.estimates.generalisation(
        problem, {"W1": sl.FirstRows(6)}, 12, fresh=100, by=Within(0.02, steps=60, starts=2)
    )
    same = sl.estimate_within(problem, {"W1": sl.FirstRows(6)}, 12, eps=0.02, steps=60, starts=2)
    assert [r.solved for r in found.records] == [r.within for r in same.records]
    assert 0 < found.solved < 12 and found.relative.size == found.solved
    for record, close in zip(found.records, same.records, strict=True):
        if record.solved:
            assert record.own_error == pytest.approx(close.error, rel=1e-9)
        else:
            assert np.isnan(record.fresh_error)
    none = sl.estimates.generalisation(
        problem, {"W1": sl.FirstRows(6)}, 2, fresh=5, by=Within(1e-9, steps=1, starts=1)
    )
    assert none.solved == 0 and "nothing to say" in str(none)
    assert none.to_dict()["relative_error_quartiles"] is None


def test_bad_generalisation() -> None:
    with pytest.raises(sl.BadInputError, match="fresh"):
        sl.estimates.generalisation(RNN, ROWS, 2, fresh=0)
