"""Estimates whose trials have numbers of one's own: against enumeration, numpy and instances made by hand."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sublearn as sl
from sublearn import BadInputError, Problem
from sublearn._seeds import Purpose, trial_stream
from sublearn.estimates import MatchQuestion, WithinQuestion, generalisation, trainability

RNG = np.random.default_rng
LINEAR = sl.LinearEstimator(inputs=4, outputs=2)
# A sample twice, an input that is silent, and whole numbers, so that float64 ranks are right.
TWICE = np.array([[1.0, 1.0, 2.0], [2.0, 2.0, 1.0], [0.0, 0.0, 0.0], [1.0, 1.0, 3.0]])
W = RNG(0).integers(-3, 4, size=(2, 4)).astype(float)


def _system(held: sl.Allocation, inputs: np.ndarray) -> np.ndarray:
    """One row per output and sample, one column per learnable entry of W."""
    rows = []
    for i, j in held.entries["W"]:
        change = np.zeros((2, inputs.shape[1]))
        change[i] = inputs[j]
        rows.append(change.ravel())
    return np.array(rows).T


def _solvable(held: sl.Allocation, inputs: np.ndarray, targets: np.ndarray) -> bool:
    """Whether W with these entries free can send the inputs to the targets, by ranks of numpy."""
    frozen = np.where(held.mask("W"), 0.0, W)
    left, right = _system(held, inputs), (targets - frozen @ inputs).ravel()
    rank = np.linalg.matrix_rank
    return bool(rank(np.column_stack([left, right])) == rank(left))


def _all(count: int) -> list[sl.Allocation]:
    entries = [(i, j) for i in range(2) for j in range(4)]
    return [
        sl.Allocation.from_entries(LINEAR, {"W": chosen}) for chosen in combinations(entries, count)
    ]


@pytest.mark.parametrize("count", [3, 4, 5])
def test_the_share_of_allocations_is_that_of_all_of_them(count: int) -> None:
    targets = RNG(1).integers(-3, 4, size=(2, 4)).astype(float) @ TWICE
    problem = Problem.given(LINEAR, {"W": W}, TWICE, targets)
    truth = {held: _solvable(held, TWICE, targets) for held in _all(count)}
    share = sum(truth.values()) / len(truth)
    found = sl.estimate(problem, {"W": sl.Anywhere(count)}, trials=150)
    assert found.undecided == 0 and found.verdict is None
    for record in found.records:
        held = found.question.draw(record.trial).allocation
        assert (record.kind == "matched") == truth[held]
    assert found.confidence[0] <= share <= found.confidence[1]
    if count == 4:
        assert 0 < share < 1


def test_a_drawn_teacher_is_matched_where_numpy_finds_full_rank() -> None:
    """Some instances are matched that have fewer weights than equations: a sample stands there twice."""
    problem = Problem.given(LINEAR, inputs=TWICE)
    reach = 2 * np.linalg.matrix_rank(TWICE)
    truth = {held: np.linalg.matrix_rank(_system(held, TWICE)) == reach for held in _all(4)}
    assert 0 < sum(truth.values()) < len(truth)
    found = sl.estimate(problem, {"W": sl.Anywhere(4)}, trials=60)
    for record in found.records:
        held = found.question.draw(record.trial).allocation
        assert (record.kind == "matched") == truth[held]


def test_what_certify_calls_maximal_is_sampled_and_refuted_at_a_silent_input() -> None:
    first = sl.Allocation.from_entries(LINEAR, {"W": [(0, 1), (0, 2), (1, 1), (1, 2)]})
    generic = sl.estimate(Problem(LINEAR, 2), first, trials=5)
    assert not generic.sampled and generic.confidence == (1.0, 1.0)
    found = sl.estimate(Problem.given(LINEAR, inputs=TWICE[:, 1:]), first, trials=12)
    assert found.sampled and (found.matched, found.refuted) == (0, 12)
    assert found.verdict is not None and found.verdict.kind == "unknown"


@pytest.mark.parametrize("activation", ["linear", "tanh"])
def test_what_certify_calls_minimal_is_sampled_and_matched_on_one_sample_twice(
    activation: str,
) -> None:
    """One weight for two equations, which are the same: the rung that refutes by generic ranks is silent."""
    net = sl.FeedForward((2, 3, 1), activation=activation)
    one = sl.Allocation.from_entries(net, {"W2": [(0, 1)]})
    generic = sl.estimate(Problem(net, 2), one, trials=5)
    assert not generic.sampled and generic.confidence == (0.0, 0.0)
    same = np.array([[0.5, 0.5], [-1.0, -1.0]])
    for rule in (one, {"W2": sl.Anywhere(1)}):
        found = sl.estimate(Problem.given(net, inputs=same), rule, trials=8)
        assert (found.sampled, found.matched) == (True, 8)


def _by_hand(problem: Problem, held: sl.Allocation, given: Any, seed: int, trial: int) -> Any:
    """The instance of a trial, from its stream: weights, inputs and teacher, in this order."""
    rng, net = trial_stream(seed, problem.digest, trial, Purpose.WEIGHTS), problem.network

    def drawn() -> dict[str, np.ndarray]:
        return {n: rng.standard_normal(s) / np.sqrt(s[1]) for n, s in net.shapes.items()}

    weights = {**drawn(), **given}
    inputs = rng.standard_normal(net.input_shape(problem.samples))
    return sl.Instance.from_teacher(net, held, weights, inputs, drawn())


@pytest.mark.parametrize(
    ("network", "learn", "zero"),
    [
        (sl.FeedForward((3, 4, 2)), {"W1": sl.Anywhere(4)}, "W2"),
        (sl.FeedForward((3, 4, 2), activation="relu"), {"W1": sl.FirstRows(3)}, "W2"),
        (sl.LinearRNN(n=4, b=1, d=2, T=2), {"W": sl.FirstRows(3)}, "D"),
    ],
    ids=["layers", "relu", "lrnn"],
)
def test_given_weights_are_decided_as_instances_made_by_hand(
    network: Any, learn: Any, zero: str
) -> None:
    """Half of the readout is silent, so that not every trial is matched."""
    shape = network.shapes[zero]
    weights = {zero: np.where(np.arange(shape[1]) % 2 == 0, RNG(2).normal(size=shape), 0.0)}
    problem = Problem.given(network, weights, samples=2)
    found = sl.estimate(problem, learn, trials=12, seed=3)
    for record in found.records:
        held = found.question.draw(record.trial).allocation
        instance = _by_hand(problem, held, weights, 3, record.trial)
        assert instance.origin is None
        assert sl.decide(instance, seed=3).kind == record.kind
    assert found.matched < 12


def test_exact_outputs_of_the_teacher_are_asked_for() -> None:
    """Six equations for two weights: rounded outputs would be matched by none."""
    net = sl.LinearEstimator(inputs=2, outputs=1)
    problem = Problem.given(net, inputs=RNG(3).normal(size=(2, 6)))
    whole = sl.Allocation.whole(net)
    assert sl.estimate(problem, whole, trials=6, sample_always=True).matched == 6
    assert not sl.estimate(problem, whole, trials=6).sampled  # it can copy the teacher


def test_within_eps_is_what_least_squares_reach() -> None:
    targets = RNG(4).normal(size=(2, 3))
    problem = Problem.given(LINEAR, {"W": W}, TWICE, targets)

    def least(held: sl.Allocation) -> float:
        left, frozen = _system(held, TWICE), np.where(held.mask("W"), 0.0, W)
        right = (targets - frozen @ TWICE).ravel()
        best = np.linalg.lstsq(left, right, rcond=None)[0]
        return float(np.mean((left @ best - right) ** 2))

    truth = {held: least(held) for held in _all(4)}
    values = sorted(truth.values())
    low = 20 + int(np.argmax(np.diff(values[20:50])))
    eps = (values[low] + values[low + 1]) / 2  # in the middle of a gap, where nothing is in doubt
    found = sl.estimate_within(problem, {"W": sl.Anywhere(4)}, 40, eps=eps, starts=2)
    for record in found.records:
        assert record.within == (truth[found.question.draw(record.trial).allocation] < eps)
    assert 0 < found.within < 40


def _saved(found: Any, path: Path) -> dict[str, Any]:
    found.save(path)
    content: dict[str, Any] = json.loads(path.read_bytes())
    assert content.pop("seconds") >= 0
    return content


def test_workers_files_and_other_arrays(tmp_path: Path) -> None:
    net, rule = sl.FeedForward((3, 4, 2)), {"W1": sl.Anywhere(5)}
    inputs = RNG(5).normal(size=(3, 2))
    weights = {"W2": np.array([[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 0.0]])}
    problem = Problem.given(net, weights, inputs)
    one = sl.estimate(problem, rule, trials=24)
    two = sl.estimate(problem, rule, trials=24, workers=2)
    assert 0 < one.matched < 24
    assert _saved(one, tmp_path / "one.json") == _saved(two, tmp_path / "two.json")
    begun = tmp_path / "begun.json"
    sl.estimate(problem, rule, trials=10).save(begun)
    assert sl.Estimate.load(begun, problem, rule).more(14).records == one.records
    moved = inputs.copy()
    moved[0, 0] = np.nextafter(moved[0, 0], 9.0)
    others = [
        Problem.given(net, weights, moved),
        Problem.given(net, {"W2": 2 * weights["W2"]}, inputs),
        Problem.given(net, inputs=inputs),
        Problem.from_arrays(net, inputs),
    ]
    for other in others:
        with pytest.raises(BadInputError, match="its problem is another one"):
            sl.Estimate.load(begun, other, rule)
        with pytest.raises(BadInputError, match="answers another question"):
            sl.estimate(other, rule, trials=24, go_on=one)
    asked = {"trials": 34, "eps": 0.01, "starts": 1, "steps": 20}
    results = [sl.estimate_within(problem, rule, workers=w, **asked) for w in (1, 2)]  # type: ignore[arg-type]
    assert results[0] == results[1]


def test_what_is_given_is_told() -> None:
    problem = Problem.given(LINEAR, inputs=TWICE)
    found = sl.estimate(problem, {"W": sl.Anywhere(4)}, trials=3)
    assert "given in every trial: inputs" in found.details
    assert found.to_dict()["given"] == ["inputs"]
    drawn = sl.estimate(Problem(LINEAR, 3), {"W": sl.Anywhere(4)}, trials=3)
    assert drawn.to_dict()["given"] == [] and not any("given" in line for line in drawn.details)


def test_nothing_left_to_draw_is_refused() -> None:
    net = sl.FeedForward((3, 4, 2))
    x, y = RNG(6).normal(size=(3, 2)), RNG(7).normal(size=(2, 2))
    W1, W2 = RNG(8).normal(size=(4, 3)), RNG(9).normal(size=(2, 4))
    every = Problem.given(net, {"W1": W1, "W2": W2}, x, y)
    some, whole = sl.Allocation.spread(net, {"W1": 4}), sl.Allocation.whole(net, ["W1"])
    asked: list[Any] = [
        lambda: sl.estimate(every, some),
        # The weights that lack are learnable, all of them.
        lambda: sl.estimate(Problem.given(net, {"W2": W2}, x, y), whole),
        lambda: sl.estimate_within(every, some, eps=0.1),
        lambda: trainability(every, some, eps=0.1),
        lambda: generalisation(every, some),
    ]
    for ask in asked:
        with pytest.raises(BadInputError, match=r"nothing is left to draw.*ask decide"):
            ask()
    # Where anything is drawn it is no such case.
    MatchQuestion(every, {"W1": sl.Anywhere(4)})
    MatchQuestion(Problem.given(net, {"W1": W1, "W2": W2}, x), some)
    MatchQuestion(Problem.given(net, {"W2": W2}, x, y), some)
    WithinQuestion(Problem.given(net, {"W1": W1}, x, y), whole, by=sl.estimates.Within(0.1))
    assert sl.decide(sl.draw(every, some)).kind in ("matched", "refuted")


def test_weights_that_do_not_exist_are_not_drawn() -> None:
    exists = np.tri(2, 4, dtype=bool)
    net = LINEAR.with_connections({"W": exists})
    problem = Problem.given(net, inputs=TWICE, targets=np.ones((2, 3)))
    with pytest.raises(BadInputError, match="nothing is left to draw"):
        sl.estimate(problem, sl.Allocation.from_masks(net, {"W": exists}))


def test_fresh_samples_are_refused_before_anything_is_solved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sublearn.estimates._fresh.decide", None)
    with pytest.raises(BadInputError, match="inputs are given"):
        generalisation(Problem.given(LINEAR, inputs=TWICE), {"W": sl.Anywhere(4)}, 4)
    with pytest.raises(BadInputError, match="problem must be a Problem"):
        sl.estimate("digits", {"W": sl.Anywhere(4)})  # type: ignore[arg-type]
