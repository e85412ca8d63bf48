"""Deep ReLU networks whose first layer learns: against all patterns, planted solutions, and depth 1."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

import sublearn as sl
from matchers.planted import planted
from sublearn.matchers import Deep, Relu
from sublearn.matchers._simplify import simplify
from sublearn.matchers.relu import _deep

NETWORKS: list[tuple[sl.Network, tuple[str, ...]]] = [
    (sl.FeedForward((2, 3, 3, 2), "relu"), ("W1",)),
    (sl.FeedForward((2, 3, 2, 1), "relu", bias=True), ("W1", "b1")),
    (sl.FeedForward((2, 2, 3, 2, 1), "relu"), ("W1",)),
    (sl.FeedForward((3, 4, 4, 2), "relu", bias=True), ("W1", "b1")),
    (sl.FeedForward((2, 3, 3, 2, 2), "relu", bias=True), ("W2",)),  # W1 is folded into the inputs
]


def ask(instance: sl.Instance, trial: int = 0) -> sl.Decision:
    simple, reason = simplify(instance)
    assert reason is None
    assert Deep().refusal(simple) is None
    return Deep().attempt(simple, sl.Budget(nodes=2000), np.random.default_rng([trial, 5]))


def distance(instance: sl.Instance) -> float:
    """The least sum of |output - target| over all patterns, by a program of HiGHS for each.

    Two layers of gates without biases; nothing of the package's tables or trees is used.
    """
    w1, w2, w3 = (np.array(instance.weights[name]) for name in ("W1", "W2", "W3"))
    x, y = instance.inputs, instance.targets
    m, r = instance.samples, len(instance.allocation)
    n1, n2, d = len(w1), len(w2), len(w3)
    slopes, begin = np.zeros((n1, m, r)), w1 @ x
    for place, (_, i, j) in enumerate(instance.allocation.labels()):
        slopes[i, :, place] = x[j]
    least = np.inf
    learnt = sorted({i for _, i, _ in instance.allocation.labels()})
    for first in product((0.0, 1.0), repeat=len(learnt) * m):
        one = (begin > 0).astype(float)
        one[learnt] = np.reshape(first, (len(learnt), m))
        slope, start = one[:, :, None] * slopes, one * begin
        slope2, start2 = np.einsum("ij,jsr->isr", w2, slope), w2 @ start
        for second in product((0.0, 1.0), repeat=n2 * m):
            two = np.reshape(second, (n2, m))
            out = np.einsum("ij,jsr->isr", w3, two[:, :, None] * slope2).reshape(d * m, r)
            rest = (y - w3 @ (two * start2)).reshape(-1)
            signs1, signs2 = 1 - 2 * one[learnt], 1 - 2 * two
            left = np.vstack(
                [
                    (signs1[:, :, None] * slopes[learnt]).reshape(-1, r),
                    (signs2[:, :, None] * slope2).reshape(-1, r),
                ]
            )
            right = -np.r_[(signs1 * begin[learnt]).reshape(-1), (signs2 * start2).reshape(-1)]
            slack = np.eye(d * m)
            found = linprog(
                np.r_[np.zeros(r), np.ones(2 * d * m)],
                A_ub=np.hstack([left, np.zeros((len(left), 2 * d * m))]),
                b_ub=right,
                A_eq=np.hstack([out, slack, -slack]),
                b_eq=rest,
                bounds=[(None, None)] * r + [(0, None)] * (2 * d * m),
            )
            if found.status == 0:
                least = min(least, float(found.fun))
    return least


def test_the_answer_is_that_of_all_patterns() -> None:
    problem = sl.Problem(sl.FeedForward((2, 2, 2, 1), activation="relu"), samples=2)
    seen: Counter[str] = Counter()
    for trial in range(14):
        instance = sl.draw(problem, {"W1": sl.Anywhere(2)}, seed=5, trial=trial)
        found = ask(instance, trial)
        near = distance(instance)
        seen[found.kind] += 1
        assert (found.kind == "matched") == (near < 1e-9), (trial, near)
        assert (found.kind == "refuted") == (near > 1e-7), (trial, near)
        if found.values is not None:
            missed = np.abs(instance.residual(found.values)).max()
            assert missed < 1e-9 and str(found.grade) == "proof"
    assert seen["matched"] and seen["refuted"] > 4 and not seen["undecided"], seen


def _no_planted_solution_is_refuted(count: int, seed: int) -> Counter[str]:
    seen: Counter[str] = Counter()
    for trial, instance in enumerate(planted(NETWORKS, count, seed)):
        simple, reason = simplify(instance)
        assert reason is None
        if Deep().refusal(simple) is not None:
            seen["refused"] += 1
            continue
        found = ask(instance, trial)
        assert found.kind != "refuted", (trial, found.reason)
        seen[found.kind] += 1
    return seen


def test_no_planted_solution_is_refuted() -> None:
    seen = _no_planted_solution_is_refuted(70, seed=1)
    assert seen["matched"] > 50, seen


@pytest.mark.slow
def test_no_planted_solution_of_many_is_refuted() -> None:
    seen = _no_planted_solution_is_refuted(700, seed=2)
    assert seen["matched"] > 500, seen


def test_a_layer_that_passes_everything_on_changes_nothing() -> None:
    """A second layer (I; -I) with the readout (W, -W) makes of a shallow network the same deep one."""
    shallow = sl.Problem(sl.FeedForward((3, 4, 2), activation="relu"), samples=3)
    net = sl.FeedForward((3, 4, 8, 2), activation="relu")
    kinds = set()
    for trial in range(20):
        asked = sl.draw(shallow, {"W1": sl.FirstRows(4)}, seed=9, trial=trial)
        twice = np.vstack([np.eye(4), -np.eye(4)])
        w2 = np.asarray(asked.weights["W2"])
        weights = {"W1": asked.weights["W1"], "W2": twice, "W3": np.hstack([w2, -w2])}
        held = sl.Allocation.from_entries(
            net, {"W1": [(i, j) for _, i, j in asked.allocation.labels()]}
        )
        # The targets are dyadic numbers on both sides: float64 views would be other questions.
        targets = asked.targets
        one = sl.Instance(asked.network, asked.allocation, asked.weights, asked.inputs, targets)
        two = sl.Instance(net, held, weights, asked.inputs, targets)
        first = Relu().attempt(one, sl.Budget(), np.random.default_rng(0))
        second = ask(two)
        assert first.kind == second.kind, trial
        kinds.add(str(first.kind))
    assert kinds == {"matched", "refuted"}


def test_the_ladder_refutes_what_it_left_open() -> None:
    problem = sl.Problem(sl.FeedForward((6, 8, 8, 4), activation="relu"), samples=6)
    for trial in (5, 10, 13):
        found = sl.decide(sl.draw(problem, {"W1": sl.FirstRows(8)}, seed=0, trial=trial))
        assert (found.kind, found.rung, str(found.grade)) == ("refuted", "deep", "proof")
        assert "alone" in found.reason and found.effort.nodes > 0


def test_of_too_many_samples_the_first_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = sl.Problem(sl.FeedForward((3, 4, 4, 2), activation="relu"), samples=3)
    instances = [sl.draw(problem, {"W1": sl.Anywhere(6)}, seed=0, trial=t) for t in range(20)]
    whole = [ask(instance) for instance in instances]
    monkeypatch.setattr(_deep, "MOST_PAIRS", 16)  # at most 8 units: two samples
    part = [ask(instance) for instance in instances]
    for one, two in zip(whole, part, strict=True):
        assert two.kind in ("undecided", one.kind) and two.kind != "matched"
    reasons = " ".join(found.reason for found in part)
    assert "the first 2 samples" in reasons and "matched" in {found.kind for found in whole}
    deeper = sl.Problem(sl.FeedForward((6, 8, 8, 8, 4), activation="relu"), samples=6)
    assert Deep().refusal(sl.draw(deeper, {"W1": sl.FirstRows(8)})) is None


def test_what_it_is_not_for() -> None:
    rung = Deep()

    def why(network: sl.Network, learn: dict[str, sl.Anywhere]) -> str | None:
        return rung.refusal(sl.draw(sl.Problem(network, samples=3), learn))

    some = sl.Anywhere(3)
    assert why(sl.FeedForward((3, 4, 4, 2), "relu"), {"W1": some}) is None
    assert "shallow" in (why(sl.FeedForward((3, 4, 2), "relu"), {"W1": some}) or "")
    both = why(sl.FeedForward((3, 4, 4, 2), "relu"), {"W1": some, "W2": some})
    assert "W2 are learnable" in (both or "")
    assert "output activation" in (
        why(sl.FeedForward((3, 4, 4, 2), "relu", "tanh"), {"W1": some}) or ""
    )
    assert "ReLU layers" in (why(sl.FeedForward((3, 4, 4, 2), "tanh"), {"W1": some}) or "")
    assert "pairs" in (why(sl.FeedForward((3, 140, 140, 2), "relu"), {"W1": some}) or "")
