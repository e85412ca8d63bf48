"""Numbers that are given in every draw: what stands in their place, digests, refusals."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sublearn as sl
from networks.reference import one_sentence
from sublearn import BadInputError, Problem
from sublearn._seeds import Purpose, trial_stream
from sublearn.ensembles import Given, LowRank, Uniform, draw_weights, fresh_samples

NET = sl.FeedForward((3, 4, 2))
RNG = np.random.default_rng
X, Y = RNG(0).normal(size=(3, 5)), RNG(1).normal(size=(2, 5))
W2 = RNG(2).normal(size=(2, 4))
RULE = {"W1": sl.Anywhere(6)}


def test_what_is_given_is_in_every_draw_and_the_rest_is_drawn() -> None:
    for parts in (
        {"weights": {"W2": W2}, "samples": 5},
        {"inputs": X},
        {"weights": {"W2": W2}, "inputs": X},
        {"inputs": X, "targets": Y},
        {"weights": {"W2": W2}, "inputs": X, "targets": Y},
    ):
        problem = Problem.given(NET, **parts)  # type: ignore[arg-type]
        one, other = (sl.draw(problem, RULE, trial=trial) for trial in (0, 1))
        for instance in (one, other):
            assert np.array_equal(instance.weights["W2"], W2) == ("weights" in parts)
            assert np.array_equal(instance.inputs, X) == ("inputs" in parts)
            assert np.array_equal(instance.targets, Y) == ("targets" in parts)
            assert (instance.teacher is None) == ("targets" in parts)
            assert not instance.generic
        assert not np.array_equal(one.start["W1"], other.start["W1"])
        again = sl.draw(problem, RULE, trial=1)
        assert np.array_equal(again.start["W1"], other.start["W1"])
        assert again.allocation == other.allocation


def test_a_teacher_is_asked_at_the_inputs_given_and_its_outputs_are_exact() -> None:
    instance = sl.draw(Problem.given(NET, inputs=X), RULE, trial=3)
    teacher = instance.teacher
    assert teacher is not None
    by_hand = teacher.weights["W2"] @ teacher.weights["W1"] @ X
    assert np.allclose(instance.targets, by_hand, atol=1e-12)
    assert instance.exact_targets is not None and instance.input_factors is None
    # More equations than weights: only what is not rounded can be matched.
    wide = sl.LinearEstimator(inputs=2, outputs=1)
    over = Problem.given(wide, inputs=RNG(3).normal(size=(2, 6)))
    whole = sl.Allocation.whole(wide)
    for trial in range(5):
        drawn = sl.draw(over, whole, trial=trial)
        assert sl.decide(drawn).kind == "matched"
        rounded = sl.Instance(wide, whole, dict(drawn.start), drawn.inputs, drawn.targets)
        assert sl.decide(rounded).kind == "refuted"


def test_learnable_weights_that_are_given_are_where_learning_begins() -> None:
    W1 = np.full((4, 3), 7.0)
    W1[0, 0] = np.nan  # nobody asks, where it is learnable
    problem = Problem.given(NET, {"W1": W1}, X)
    instance = sl.draw(problem, sl.Allocation.from_entries(NET, {"W1": [(0, 0), (1, 1)]}))
    assert instance.weights["W1"][1, 1] == 0 and instance.weights["W1"][2, 2] == 7
    with pytest.raises(BadInputError, match="weight W1 must be finite"):
        sl.draw(problem, sl.Allocation.from_entries(NET, {"W1": [(1, 1)]}))


def test_digests_tell_numbers_apart_and_nothing_else() -> None:
    problem = Problem.given(NET, {"W2": W2, "W1": np.ones((4, 3))}, X)
    turned = Problem.given(
        NET, {"W1": np.ones((4, 3)), "W2": W2.astype(">f8")}, np.asfortranarray(X)
    )
    assert problem == turned and problem.digest == turned.digest and hash(problem) == hash(turned)
    sent = pickle.loads(pickle.dumps(problem))
    assert sent == problem and sent.digest == problem.digest
    last = X.copy()
    last[-1, -1] = np.nextafter(last[-1, -1], 1)
    others = [
        Problem.given(NET, {"W2": W2, "W1": np.ones((4, 3))}, last),
        Problem.given(NET, {"W2": W2}, X),
        Problem.given(NET, inputs=X),
        Problem.given(NET, inputs=X, targets=Y),
        Problem.given(NET, {"W2": W2}, samples=5),
        Problem.from_arrays(NET, X),
        Problem(NET, 5),
    ]
    # Of full rank, the arrays are one case of the plain problem: the last two are the same.
    assert len({p.digest for p in (problem, *others)}) == len(others)
    assert problem not in others
    with pytest.raises(ValueError, match="read-only"):
        Given(inputs=X).inputs[0, 0] = 1.0  # type: ignore[index]


def test_the_law_of_given_inputs_tells_their_rank_for_rules_without_a_count() -> None:
    same = np.repeat(RNG(4).normal(size=(3, 1)), 5, axis=1)
    problem = Problem.given(NET, inputs=same)
    assert problem.ensemble.inputs == LowRank(rank=1) and problem.effective_equations == 2
    assert len(sl.draw(problem, {"W1": sl.FirstRows(4)}).allocation) == 2


def test_laws_of_what_is_drawn() -> None:
    ensemble = sl.Ensemble(weights=Uniform(2.0))
    problem = Problem.given(NET, {"W2": W2}, X, ensemble=ensemble)
    drawn = sl.draw(problem, RULE).start["W1"]
    rng = trial_stream(0, problem.digest, 0, Purpose.WEIGHTS)
    assert np.array_equal(drawn, draw_weights(NET, Uniform(2.0), rng)["W1"])
    assert np.abs(drawn).max() <= 2 * np.sqrt(3) / np.sqrt(3)


def test_fresh_samples_need_a_law_of_inputs() -> None:
    problem = Problem.given(NET, {"W2": W2}, samples=5)
    inputs, targets = fresh_samples(problem, 7, trial=2)
    teacher = sl.draw(problem, RULE, trial=2).teacher
    assert teacher is not None and np.array_equal(targets, teacher.outputs(inputs))
    with pytest.raises(BadInputError, match="inputs are given"):
        fresh_samples(Problem.given(NET, inputs=X), 5)


@pytest.mark.parametrize("output", [None, "tanh"])
def test_no_generic_verdict_is_given(output: str | None) -> None:
    net = sl.FeedForward((3, 4, 2), **({} if output is None else {"output": output}))  # type: ignore[arg-type]
    whole = sl.Allocation.whole(net, ["W1"])
    assert sl.certify(Problem(net, 3), whole).kind == "maximal"
    for problem in (
        Problem.given(net, inputs=X[:, :3]),
        Problem.given(net, {"W2": W2}, samples=3),
        Problem.given(net, {"W2": W2}, samples=3, teacher=sl.FeedForward((3, 5, 2))),
        Problem.given(net, inputs=X[:, :3], targets=Y[:, :3]),
    ):
        verdict = sl.certify(problem, whole)
        assert verdict.kind == "unknown" and "(given)" in verdict.reasons[0]
        with pytest.raises(BadInputError, match="no density"):
            sl.design(problem, ["W1"])
        with pytest.raises(BadInputError, match="must have a density"):
            sl.census(problem, "W1")


def test_a_student_that_can_copy_its_teacher_does_so_whatever_is_given() -> None:
    problem = Problem.given(NET, inputs=np.zeros((3, 5)))
    assert sl.certify(problem, sl.Allocation.whole(NET)).kind == "maximal"
    without = Problem.given(NET, inputs=np.zeros((3, 5)), targets=Y)
    assert sl.certify(without, sl.Allocation.whole(NET)).kind == "unknown"


DATA = sl.datasets.Dataset("ten", RNG(5).normal(size=(3, 10)), RNG(6).integers(0, 2, 10), 2)
REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: Problem.given(NET), "nothing is given"),
    (lambda: Problem.given(NET, {"W2": W2}), "give samples"),
    (lambda: Problem.given(NET, inputs=X, samples=4), "samples is 4, but inputs hold 5"),
    (lambda: Problem.given(NET, targets=Y, samples=5), "no inputs that they belong to"),
    (
        lambda: Problem.given(NET, inputs=X, targets=Y.T),
        r"targets must have shape \(d, m\) = \(2, 5\)",
    ),
    (lambda: Problem.given(NET, inputs=X.T), "inputs"),
    (lambda: Problem.given(NET, {"V": W2}, X), "weight name"),
    (lambda: Problem.given(NET, {"W2": W2.T}, X), r"W2 must have shape \(2, 4\)"),
    (lambda: Problem.given(NET, {"W2": W2[None]}, X), r"W2 must have shape \(2, 4\)"),
    (lambda: Problem.given(NET, [W2], X), "dict of matrices"),  # type: ignore[arg-type]
    (lambda: Problem.given(NET, {"W2": "no"}, X), "W2 must hold real numbers, not text"),
    (lambda: Problem.given(NET, inputs=X * np.inf), "inputs must be finite"),
    (lambda: Problem.given(NET, inputs=X, targets=Y, teacher=NET), "leave the teacher out"),
    (
        lambda: Problem.given(NET, inputs=X, ensemble=sl.Ensemble(inputs=Uniform())),
        "leave the ensemble's inputs",
    ),
    (lambda: Problem.given(NET, inputs=X, teacher=sl.Labels(DATA)), "neither data nor another law"),
    (
        lambda: Problem(NET, 4, sl.Ensemble(given=Given(inputs=X))),
        r"inputs must have shape \(3, 4\)",
    ),
    (
        lambda: Problem(NET, 5, sl.Ensemble(inputs=Uniform(), given=Given(inputs=X))),
        "neither data nor another law",
    ),
    (lambda: Problem(NET, 5, sl.Ensemble(given=Given({}, X, Y))), r"must be Targets\(\)"),
    (lambda: sl.Ensemble(given=X), "given must be a Given"),  # type: ignore[arg-type]
    (
        lambda: Problem.given(
            NET.with_connections({"W2": np.eye(2, 4, dtype=bool)}), {"W2": np.ones((2, 4))}, X
        ),
        "does not exist",
    ),
]


@pytest.mark.parametrize(("make", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_refusals(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(BadInputError, match=words) as refusal:
        make()
    assert one_sentence(refusal.value)


def test_weights_may_be_given_to_labelled_data() -> None:
    problem = Problem.given(NET, {"W2": W2}, samples=4, teacher=sl.Labels(DATA))
    instance = sl.draw(problem, RULE)
    assert problem.source.is_labelled and np.array_equal(instance.weights["W2"], W2)
    assert set(np.unique(instance.targets)) == {0.0, 1.0}
