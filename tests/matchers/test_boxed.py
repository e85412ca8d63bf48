"""Few learnable weights: what boxes refute and find, and what they must not."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import sublearn as sl
from matchers.planted import planted
from sublearn.matchers import Boxed
from sublearn.matchers._simplify import simplify

NETWORKS: list[tuple[sl.Network, tuple[str, ...]]] = [
    (sl.FeedForward((2, 3, 1), "tanh"), ("W1",)),
    (sl.FeedForward((2, 3, 2), "sigmoid", bias=True), ("W1", "b1")),
    (sl.FeedForward((2, 3, 3, 2), "tanh"), ("W1", "W2")),
    (sl.FeedForward((2, 3, 3, 1), "sigmoid"), ("W2", "W3")),
    (sl.RNN(n=3, b=1, d=1, T=2, activation="tanh"), ("W", "B")),
    (sl.FeedForward((2, 3, 2), "tanh", "sigmoid", bias=True), ("W1", "b2")),
    (sl.FeedForward((2, 3, 3, 1), "relu"), ("W1", "W2")),
]


def ask(instance: sl.Instance, boxes: int = 4000) -> sl.Decision | None:
    simple, reason = simplify(instance)
    assert reason is None
    if Boxed().refusal(simple) is not None:
        return None
    return Boxed().attempt(simple, sl.Budget(nodes=boxes), np.random.default_rng(0))


def _no_planted_solution_is_refuted(count: int, seed: int) -> int:
    asked = 0
    for trial, instance in enumerate(planted(NETWORKS, count, seed, most=4)):
        found = ask(instance, 1500)
        assert found is None or found.kind != "refuted", (trial, found)
        asked += found is not None
    return asked


def test_no_planted_solution_is_refuted() -> None:
    assert _no_planted_solution_is_refuted(42, seed=1) > 20


@pytest.mark.slow
def test_no_planted_solution_of_many_is_refuted() -> None:
    assert _no_planted_solution_is_refuted(700, seed=2) > 500


@pytest.mark.parametrize("activation", ["tanh", "sigmoid"])
def test_one_weight_is_refuted_where_a_grid_says_so(activation: str) -> None:
    """One weight of an RNN, which meets two outputs on a fine grid of its values or does not."""
    problem = sl.Problem(sl.RNN(n=3, b=1, d=1, T=2, activation=activation), samples=1)
    grid = np.tan(np.linspace(-np.pi / 2, np.pi / 2, 20_003)[1:-1])
    seen: Counter[str] = Counter()
    for trial in range(30):
        instance = sl.draw(problem, {"W": sl.Anywhere(1)}, seed=4, trial=trial)
        found = ask(instance)
        if found is None:
            continue
        rest = np.array([instance.residual(np.array([w]))[0] for w in grid[::100]])
        crosses = bool((rest > 0).any() and (rest < 0).any())
        if crosses:
            assert found.kind != "refuted", trial
        seen[f"{found.kind}, {'crosses' if crosses else 'stays away'}"] += 1
    assert seen["refuted, stays away"] >= 5 and seen["matched, crosses"] >= 5, seen
    assert not seen["matched, stays away"], seen


def test_the_ladder_refutes_what_it_left_open() -> None:
    problem = sl.Problem(sl.RNN(n=4, b=1, d=1, T=2, activation="tanh"), samples=2)
    for trial in (0, 8, 10):
        found = sl.decide(sl.draw(problem, {"W": sl.Anywhere(2)}, seed=0, trial=trial))
        assert (found.kind, found.rung, str(found.grade)) == ("refuted", "boxes", "proof")
        assert "each is refuted" in found.reason and found.effort.nodes > 0


def test_a_budget_of_few_boxes_is_kept() -> None:
    problem = sl.Problem(sl.FeedForward((2, 3, 1), activation="tanh"), samples=4)
    instance = sl.draw(problem, {"W1": sl.Anywhere(4)}, seed=0, trial=1)
    found = Boxed().attempt(instance, sl.Budget(nodes=100), np.random.default_rng(0))
    assert found.kind == "undecided" and found.effort.nodes <= 100


def test_targets_of_zero_are_asked_for() -> None:
    """tanh(w) + 2 is never 0: the tolerance, a share of the largest target, must not be 0 too."""
    net = sl.FeedForward((1, 2, 1), activation="tanh", bias=True)
    weights = {"W1": [[0.0], [0.0]], "b1": [[0.0], [0.0]], "W2": [[1.0, 0.0]], "b2": [[2.0]]}
    held = sl.Allocation.from_entries(net, {"W1": [(0, 0)]})
    given = sl.Instance(net, held, weights, np.ones((1, 1)), np.zeros((1, 1)))
    found = Boxed().attempt(given, sl.Budget(), np.random.default_rng(0))
    assert found.kind == "refuted"


def test_what_it_is_not_for() -> None:
    rung = Boxed()

    def why(network: sl.Network, learn: dict[str, sl.Anywhere]) -> str:
        return rung.refusal(sl.draw(sl.Problem(network, samples=2), learn)) or ""

    assert "linear" in why(sl.FeedForward((2, 3, 2)), {"W1": sl.Anywhere(2)})
    assert "affine" in why(sl.FeedForward((2, 3, 2), "tanh"), {"W2": sl.Anywhere(2)})
    assert "too many" in why(sl.FeedForward((4, 5, 2), "tanh"), {"W1": sl.Anywhere(9)})
    assert not why(sl.FeedForward((2, 3, 2), "tanh"), {"W1": sl.Anywhere(2)})
