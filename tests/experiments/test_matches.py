"""What matches are like, what they do to activity, and ranks of random allocations, against plain numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sublearn as sl
from sublearn._errors import BadInputError
from sublearn.experiments.tasks import TASKS
from sublearn.experiments.tasks._matches import activity
from sublearn.runs import Row

RNN: Row = {"network": "lrnn:n=5,b=1,d=2,T=4", "samples": 3, "learn": "W:first-rows=4"}


def _columns(name: str, rows: list[Row]) -> dict[str, Any]:
    return {
        column: np.array([row[column] for row in rows], dtype=object if kind is str else kind)
        for column, kind in TASKS[name].columns.items()
    }


def _weights(rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {
        "B": rng.normal(size=(5, 1)),
        "W": rng.normal(size=(5, 5)),
        "D": rng.normal(size=(2, 5)),
    }


def test_activity_is_that_of_a_plain_loop() -> None:
    rng = np.random.default_rng(3)
    network, inputs = sl.RNN(n=5, b=1, d=2, T=3, activation="tanh"), rng.normal(size=(3, 1, 4))
    weights = _weights(rng)
    state, steps = np.zeros((5, 4)), []
    for x in inputs:
        state = np.tanh(weights["W"] @ (state + weights["B"] @ x))
        steps.append(state)
    assert np.allclose(activity(network, weights, inputs), np.hstack(steps), atol=1e-13)


def test_a_match_is_measured_as_one_would_by_hand() -> None:
    rows = TASKS["matches"].run(RNN, 0, range(4))
    problem = sl.Problem(sl.LinearRNN(n=5, b=1, d=2, T=4), samples=3)
    seen = 0
    for trial, row in enumerate(rows):
        instance = sl.draw(problem, {"W": sl.FirstRows(4)}, seed=0, trial=trial)
        decision = sl.decide(instance, seed=0)
        assert row["kind"] == decision.kind
        if decision.weights is None:
            assert np.isnan(row["size"])
            continue
        seen += 1
        mask = instance.allocation.mask("W")
        learnt, drawn = decision.weights["W"][mask], instance.start["W"][mask]
        assert np.isclose(row["size"], np.linalg.norm(learnt) / np.linalg.norm(drawn))
        assert np.isclose(row["distance"], np.linalg.norm(learnt - drawn) / np.linalg.norm(drawn))
        columns = []
        for place in np.argwhere(mask):
            ends = []
            for step in (1e-6, -1e-6):
                moved = {name: np.array(value) for name, value in decision.weights.items()}
                moved["W"][tuple(place)] += step * abs(learnt).max()
                ends.append(instance.network.forward(moved, instance.inputs).ravel())
            columns.append((ends[0] - ends[1]) / (2e-6 * abs(learnt).max()))
        assert np.isclose(row["condition"], np.linalg.cond(np.array(columns).T), rtol=1e-2)
    assert seen
    (line,) = TASKS["matches"].summarise(RNN, _columns("matches", rows))
    sizes = [row["size"] for row in rows if row["kind"] == "matched"]
    assert line["matched"] == seen and np.isclose(line["size"], np.median(sizes))


def test_a_decoder_moves_no_hidden_unit_and_wide_matches_do() -> None:
    decoder: Row = {**RNN, "learn": "D:first-rows=2"}
    for row in TASKS["activity"].run(decoder, 0, range(3)):
        assert row["kind"] == "matched" and row["moved"] == row["change"] == row["redrawn"] == 0
    rows = TASKS["activity"].run({**RNN, "learn": "W:first-rows=2,count=6"}, 0, range(3))
    assert all(0 <= row["moved"] <= 1 and row["redrawn"] > 0 for row in rows)


def test_ranks_of_a_linear_estimator_are_counts() -> None:
    point: Row = {"network": "linear:inputs=4,outputs=3", "samples": 2, "learn": "W:random=7"}
    rows = TASKS["ranks"].run(point, 0, range(40))
    problem = sl.Problem(sl.LinearEstimator(inputs=4, outputs=3), samples=2)
    from sublearn._seeds import words

    for trial, row in enumerate(rows):
        rng = np.random.default_rng([0, *words(problem.digest), trial])
        held = problem.draw_allocation({"W": sl.Anywhere(7)}, rng)
        rank = int(np.minimum(held.mask("W").sum(axis=1), 2).sum())
        # There a row of more than m weights is all that can be wasted, so the bounds tell all.
        assert row["rank"] == rank and row["may"] == (rank >= 6) and row["alone"] == (rank == 7)
    (line,) = TASKS["ranks"].summarise(point, _columns("ranks", rows))
    assert line["may_not_enough"] == 0 and 0 < line["enough"] < 40


def test_ranks_of_two_components_are_those_of_numpy() -> None:
    network = "lrnn:n=2,b=1,d=1,T=2"
    point: Row = {"network": network, "samples": 2, "learn": "B:entries=0.0 D:entries=0.0"}
    net = sl.LinearRNN(n=2, b=1, d=1, T=2)
    rng = np.random.default_rng(0)
    weights = {
        "B": rng.normal(size=(2, 1)),
        "W": rng.normal(size=(2, 2)),
        "D": rng.normal(size=(1, 2)),
    }
    held = sl.Allocation.from_entries(net, {"B": [(0, 0)], "D": [(0, 0)]})
    jacobian = net.jacobian(weights, rng.normal(size=(2, 1, 2)), held)
    (row,) = TASKS["ranks"].run(point, 0, range(1))
    assert row["rank"] == np.linalg.matrix_rank(jacobian) and row["alone"]


def test_gates_are_refused() -> None:
    point: Row = {"network": "ffn:3-4-2,activation=relu", "samples": 2, "learn": "W1:random=4"}
    with pytest.raises(BadInputError, match="must not depend on gates"):
        TASKS["ranks"].check(point)
