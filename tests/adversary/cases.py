"""Every wrong answer ever found, as a case: a name, and a function that fails while it is wrong.

Add one with ``@case``; the name says what was wrong. A contradiction that ``make attack`` prints is
``decided(cell, index)`` here: the same cell and index make the same instance.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Callable, Mapping
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

import sublearn as sl
from adversary.known import KNOWN, look

CASES: dict[str, Callable[[], None]] = {}


def case(function: Callable[[], None]) -> Callable[[], None]:
    """Register a case under its name in plain words."""
    CASES[function.__name__.replace("_", " ")] = function
    return function


def counts(
    problem: sl.Problem, asked: sl.Allocation | Mapping[str, Any], trials: int
) -> tuple[int, int, int]:
    """Matched, refuted, undecided, by sampling."""
    found = sl.estimate(problem, asked, trials, sample_always=True)
    return found.matched, found.refuted, found.undecided


def held(name: str, trials: int) -> None:
    """One of the problems with a known match probability."""
    seen = look(name, trials)
    assert not seen.far and not seen.many, seen


# Rounded targets decide over-determined instances.


@case
def a_teacher_behind_tanh_is_copied() -> None:
    net = sl.FeedForward((3, 1), output="tanh")
    problem = sl.Problem(net, 5)
    assert counts(problem, sl.Allocation.whole(net), 30) == (30, 0, 0)
    assert counts(problem, {"W1": sl.Anywhere(3)}, 30) == (30, 0, 0)


@case
def a_relu_row_is_rescaled() -> None:
    held("rescaled ReLU row", 200)


@case
def two_relu_rows_are_rescaled() -> None:
    held("two rescaled ReLU rows", 60)


@case
def a_bottleneck_is_copied() -> None:
    problem = sl.Problem(sl.FeedForward((3, 1, 3)), 3)
    assert counts(problem, {"W1": sl.Anywhere(3), "W2": sl.Anywhere(3)}, 10) == (10, 0, 0)


@case
def a_tanh_network_is_copied() -> None:
    problem = sl.Problem(sl.FeedForward((3, 2, 1), activation="tanh"), 12)
    assert counts(problem, {"W1": sl.Anywhere(6), "W2": sl.Anywhere(2)}, 10) == (10, 0, 0)


@case
def the_example_of_lemma_b4_is_decided() -> None:
    assert KNOWN["Lemma B.4"].truth() == 1 - sqrt(2) / 4
    held("Lemma B.4", 100)


# Products that round make inputs of full rank.


@case
def inputs_of_rank_one_do_not_replace_a_bias() -> None:
    net = sl.FeedForward((5, 2), bias=True)
    problem = sl.Problem(net, 3, sl.Ensemble(inputs=sl.ensembles.LowRank(rank=1)))
    assert sl.certify(problem, sl.Allocation.whole(net, ["W1"])).kind == "minimal"
    matched, _, undecided = counts(problem, {"W1": sl.Anywhere(10)}, 10)
    assert (matched, undecided) == (0, 0)


# Saturated targets round to the edge of the range.


@case
def saturated_targets_are_reached() -> None:
    net = sl.FeedForward((3, 4, 1), activation="tanh", output="tanh")
    problem = sl.Problem(net, 2, sl.Gaussian(20.0))
    assert counts(problem, sl.Allocation.whole(net, ["W2"]), 30) == (30, 0, 0)


# A numerical "minimal" switches sampling off, and depends on the seed.


@case
def a_numerical_minimal_settles_nothing() -> None:
    net = sl.RNN(n=4, b=1, d=2, T=3)
    problem = sl.Problem(net, 2, sl.Gaussian(10.0))
    asked = sl.Allocation.whole(net, ["W"])
    kinds = {sl.certify(problem, asked, seed=seed).kind for seed in range(3)}
    assert len(kinds) == 1, kinds
    found = sl.estimate(problem, asked, trials=20)
    # Instances of this problem are matched, with certificates that hold.
    assert found.sampled and found.matched, found
    proved = [
        trial
        for trial in range(20)
        if (answer := sl.decide(sl.draw(problem, asked, trial=trial))).certificate is not None
        and answer.certificate.check()
    ]
    assert kinds != {"minimal"} and proved


@case
def words_about_gates_are_not_said_of_all_gates() -> None:
    # Found at 64-128-64-10 with 32 samples; the unit is off at the gates of one point, not at all.
    net = sl.FeedForward((6, 10, 8, 3), activation="relu", bias=True)
    problem = sl.Problem(net, 4)
    said = str(sl.certify(problem, sl.Allocation.spread(net, {"W3": 7})))
    assert "does not change the outputs at all" not in said


# An edited instance keeps the rights of a drawn one.


@case
def an_edited_instance_is_not_a_drawn_one() -> None:
    net = sl.LinearRNN(n=3, b=1, d=2, T=2)
    problem = sl.Problem(net, 2)
    # Three weights in a row of which two can be independent: generically deficient.
    asked = sl.Allocation.from_entries(net, {"W": [(0, 0), (0, 1), (0, 2), (1, 0)]})
    drawn = sl.draw(problem, asked, trial=3)
    rounded = {name: np.round(2 * np.asarray(value)) for name, value in drawn.weights.items()}
    inputs = np.round(3 * np.asarray(drawn.inputs))
    solution = np.array([1.0, 2.0, 3.0, -1.0])
    weights = {name: value.copy() for name, value in rounded.items()}
    for (name, i, j), value in zip(asked.labels(), solution, strict=True):
        weights[name][i, j] = value
    state = 0.0
    for x in inputs:
        state = weights["W"] @ (state + weights["B"] @ x)
    edited = dataclasses.replace(
        drawn, weights=rounded, inputs=inputs, targets=weights["D"] @ state
    )
    assert not edited.residual(solution).any()
    assert sl.decide(edited).kind != "refuted"


# An affine certificate does not check its centre.


@case
def a_certificate_with_another_centre_is_rejected() -> None:
    net = sl.LinearEstimator(inputs=3, outputs=2)
    drawn = sl.draw(sl.Problem(net, 3), sl.Allocation.whole(net))
    found = sl.decide(drawn).certificate
    assert found is not None and found.check()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "certificate.json"
        found.save(path)
        content = json.loads(path.read_text(encoding="utf-8"))
        content["centre"] = [["0x1", "0"]] * len(content["centre"])
        path.write_text(json.dumps(content), encoding="utf-8")
        try:
            passed = bool(sl.Certificate.load(path).check())
        except sl.BadInputError:
            passed = False
    assert not passed


# Weights in Fortran's order: writing through ravel() was lost in a copy.


@case
def the_order_of_an_array_in_memory_changes_nothing() -> None:
    net = sl.FeedForward((2, 2))
    asked = sl.Allocation.whole(net)
    inputs = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
    weights = {"W1": np.asfortranarray([[1.0, 2.0], [3.0, 4.0]])}
    given = sl.Instance(
        net, asked, weights, np.asfortranarray(inputs), np.asfortranarray(5 * inputs)
    )
    assert not given.weights["W1"].any()
    solution = np.array([5.0, 0.0, 0.0, 5.0])
    assert given.with_values(solution)["W1"].tolist() == [[5.0, 0.0], [0.0, 5.0]]
    assert not given.residual(solution).any()
    found = sl.decide(given)
    assert found.kind == "matched" and found.values is not None
    assert np.allclose(found.values, solution)


# "minimal" by float64, of problems whose every instance is matched.


@case
def inputs_of_rank_one_leave_a_teacher_behind_tanh_few_dimensions() -> None:
    # tanh((V u) v'): two numbers V u, whatever the teacher's layers, and one learnable weight in each row.
    net = sl.FeedForward((2, 2), output="tanh")
    teacher = sl.FeedForward((2, 1, 2), output="tanh")
    problem = sl.Problem(net, 2, sl.Ensemble(inputs=sl.ensembles.LowRank(rank=1)), teacher)
    asked = sl.Allocation.from_entries(net, {"W1": [(0, 1), (1, 0)]})
    assert counts(problem, asked, 10) == (10, 0, 0)
    assert sl.certify(problem, asked).kind != "minimal"


@case
def saturated_features_are_independent() -> None:
    net = sl.RNN(n=3, b=1, d=1, T=2)
    problem = sl.Problem(net, 2, sl.Gaussian(20.0), sl.Targets(sl.ensembles.Normal(20.0)))
    asked = sl.Allocation.from_entries(net, {"D": [(0, 0), (0, 2)]})
    # A few differ only after hundreds of digits, and stay undecided.
    matched, refuted, _ = counts(problem, asked, 10)
    assert matched >= 8 and not refuted
    assert sl.certify(problem, asked).kind != "minimal"


# A proof whose certificate does not hold: J is what rounding leaves of a product that cancels.


@case
def certificates_of_cancelling_products_hold() -> None:
    third, half = 1 / np.sqrt(3.0), 1 / np.sqrt(2.0)
    net = sl.FeedForward((3, 2, 3, 2))
    weights = {
        "W1": np.zeros((2, 3)),
        "W2": half * np.array([[1.0, -1.0], [1.0, 1.0], [1.0, -1.0]]),
        "W3": third * np.array([[1.0, 1.0, -1.0], [1.0, 1.0, 1.0]]),
    }
    teacher = {
        "W1": third * np.array([[-1.0, 1.0, 1.0], [1.0, -1.0, 1.0]]),
        "W2": half * np.array([[1.0, -1.0], [-1.0, 1.0], [-1.0, 1.0]]),
        "W3": third * np.array([[1.0, -1.0, -1.0], [1.0, -1.0, -1.0]]),
    }
    inputs = np.array([[-1.0, 1.0, -1.0], [-1.0, 1.0, -1.0], [-1.0, 1.0, 1.0]])
    asked = sl.Allocation.whole(net, ["W1"])
    found = sl.decide(sl.Instance.from_teacher(net, asked, weights, inputs, teacher))
    assert found.kind == "matched" and found.certificate is not None
    assert found.certificate.check()


# A weight that no step uses: every verb crashed.


@case
def a_rate_network_of_one_step_has_a_start_or_is_refused() -> None:
    try:
        sl.RateRNN(n=2, b=1, d=1, T=1)
    except sl.BadInputError as error:
        assert "T must" in str(error)
    else:
        raise AssertionError("nothing passes through W")
    net = sl.RateRNN(n=2, b=1, d=1, T=1, start="weights")
    assert sl.certify(sl.Problem(net, 1), sl.Allocation.whole(net, ["D"])).kind == "maximal"


# The float64 stage of a proof took a rate teacher for one of the paper's form: without leak and drive.


@case
def a_linear_student_of_a_rate_teacher_matches_its_outputs() -> None:
    student = sl.LinearRNN(n=3, b=2, d=2, T=2)
    teacher = sl.RateRNN(n=2, b=2, d=2, T=2, activation="linear", leak=0.5)
    problem, proved = sl.Problem(student, 2, teacher=teacher), 0
    for trial in range(20):
        drawn = sl.draw(problem, {"W": sl.Anywhere(4)}, trial=trial)
        answer = sl.decide(drawn)
        if answer.kind != "matched":
            continue
        assert answer.certificate is not None and answer.certificate.check()
        assert answer.weights is not None and drawn.teacher is not None
        V, x = drawn.teacher.weights, drawn.inputs
        h = 0.5 * (V["Win"] @ x[0])
        h = 0.5 * h + 0.5 * (V["W"] @ h + V["Win"] @ x[1])
        W, B, D = (answer.weights[name] for name in "WBD")
        mine = D @ W @ (W @ B @ x[0] + B @ x[1])
        size = np.abs(D) @ np.abs(W) @ (np.abs(W) @ np.abs(B) @ np.abs(x[0]) + np.abs(B @ x[1]))
        assert (np.abs(mine - V["D"] @ h) <= 1e-9 * (1 + size)).all()
        proved += 1
    assert proved >= 5, proved


# Verbs that need no rank raised an error where it is not known.


@case
def an_unknown_rank_keeps_nothing_from_being_decided() -> None:
    mask = np.array([[True, True], [False, False]])  # a sigmoid unit that hears nothing
    net = sl.FeedForward((2, 2, 1), activation="sigmoid").with_connections({"W1": mask})
    problem, asked = sl.Problem(net, 2), sl.Allocation.whole(net, ["W2"])
    # Two features, of which one is 1/2, for two samples: independent almost surely.
    assert sl.decide(sl.draw(problem, asked)).kind == "matched"
    assert counts(problem, asked, 10) == (10, 0, 0)
    assert sl.estimate(problem, asked, 10).matched == 10


# Quotas took the columns of other weights where names were not said in the network's order.


@case
def quotas_are_kept_by_names_in_any_order() -> None:
    # One weight of each column. Row 0 alone gives rank 2 on two samples; with (1, 0) the rank is 3.
    net = sl.FeedForward((2, 2, 2), bias=True).with_connections(
        {"W1": [[1, 1], [1, 0]], "b1": [[1], [0]]}
    )
    scores = {"W1": [[9.0, -3.0], [8.0, 0.0]], "b1": [[4.0], [0.0]]}
    for learn in (["W1", "b1"], ["b1", "W1"]):
        found = sl.design(
            sl.Problem(net, 2), learn, scores, want="best score", count="1 per column"
        )
        assert sorted(found.labels()) == [("W1", 0, 1), ("W1", 1, 0), ("b1", 0, 0)], learn
        assert (found.value, found.claim) == (9.0, "best score")
