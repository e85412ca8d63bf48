"""Patterns read off weights, their feasibility, and the patterns of one row."""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sublearn as sl

NETWORK = sl.FeedForward((3, 5, 2), activation="relu")
PROBLEM = sl.Problem(NETWORK, 3)


def test_the_pattern_makes_the_network_linear() -> None:
    rng = np.random.default_rng(0)
    weights = {name: rng.standard_normal(shape) for name, shape in NETWORK.shapes.items()}
    x = rng.standard_normal((3, 7))
    gates = sl.patterns.activation_pattern(NETWORK, weights, x)
    linear = weights["W2"] @ (gates * (weights["W1"] @ x))
    np.testing.assert_allclose(linear, NETWORK.forward(weights, x), rtol=1e-13)


def test_biases_move_the_pattern() -> None:
    network = sl.FeedForward((1, 2, 1), activation="relu", bias=True)
    weights = {"W1": [[1], [1]], "W2": [[1, 1]], "b1": [[0], [-3]], "b2": [[0]]}
    found = sl.patterns.activation_pattern(network, weights, [[1.0, 5.0]])
    assert found.tolist() == [[True, True], [False, True]]


@given(st.lists(st.tuples(st.booleans(), st.sampled_from([-2.0, -0.5, 0.0, 1.0])), min_size=1))
def test_lemma_d1(pairs: list[tuple[bool, float]]) -> None:
    gates, before = np.array([p for p, _ in pairs]), np.array([v for _, v in pairs])
    same = np.array_equal(np.maximum(before, 0), gates * before)
    assert sl.patterns.pattern_agrees(gates, before) == same


def test_full_rank_needs_both_lemmas() -> None:
    network = sl.FeedForward((3, 4, 2), activation="relu")
    problem = sl.Problem(network, 3)
    rng = np.random.default_rng(1)
    kept = 0
    for _ in range(60):
        places = rng.permutation(12)[:6]
        held = sl.Allocation.whole(network, ["W1"]).select(np.sort(places))
        counts = held.row_counts("W1")
        gates = rng.random((4, 3)) < 0.7
        if sl.verdicts.gated_rank(problem, held, {0: gates}).rank == 6:
            rows = np.flatnonzero(counts)
            assert sl.patterns.enough_rows(gates[rows], 2)
            assert sl.patterns.enough_samples(gates[rows], counts[rows].tolist(), 2)
            kept += 1
    assert kept > 5


def test_a_surplus_relaxes_lemma_d4() -> None:
    """One row with two weights, one sample, one output: on is enough, though p = 1 < r = 2."""
    network = sl.FeedForward((2, 1, 1), activation="relu")
    held = sl.Allocation.from_rows(network, "W1", [0])
    assert sl.verdicts.gated_rank(sl.Problem(network, 1), held, {0: [[1]]}).rank == 1
    assert sl.patterns.enough_samples([[1]], [2], 1)


def _by_linprog(instance: sl.Instance, pattern: np.ndarray) -> bool:
    """Lemma D.2 written out for the weights themselves, by HiGHS."""
    from scipy.optimize import linprog

    entries = instance.allocation.entries["W1"]
    rows = sorted({i for i, _ in entries})
    w1, w2 = instance.weights["W1"], instance.weights["W2"]
    x, m = instance.inputs, instance.samples
    others = [i for i in range(w1.shape[0]) if i not in rows]
    rest = instance.targets - w2[:, others] @ np.maximum(w1[others] @ x, 0)
    frozen = w1 @ x
    equal, right, less, bound = [], [], [], []
    for s in range(m):
        for o in range(w2.shape[0]):
            equal.append([w2[o, i] * x[j, s] * pattern[rows.index(i), s] for i, j in entries])
            right.append(
                rest[o, s]
                - sum(w2[o, i] * pattern[a, s] * frozen[i, s] for a, i in enumerate(rows))
            )
        for a, i in enumerate(rows):
            sign = 1.0 if pattern[a, s] else -1.0
            less.append([-sign * x[j, s] * (u == i) for u, j in entries])
            bound.append(sign * frozen[i, s])
    found = linprog(
        np.zeros(len(entries)), less, bound, equal, right, bounds=(None, None), method="highs"
    )
    return bool(found.status == 0)


def test_feasibility_against_highs() -> None:
    rng = np.random.default_rng(2)
    seen = {True: 0, False: 0}
    for trial in range(25):
        instance = sl.draw(PROBLEM, {"W1": sl.FirstRows(3)}, seed=1, trial=trial)
        rows = sorted({i for i, _ in instance.allocation.entries["W1"]})
        for _ in range(3):
            pattern = rng.random((len(rows), 3)) < 0.85
            answer = sl.patterns.pattern_feasible(instance, pattern)
            assert bool(answer) == _by_linprog(instance, pattern), (trial, pattern)
            seen[bool(answer)] += 1
    assert seen[False] > 20


def test_the_pattern_of_planted_weights_is_feasible() -> None:
    """Numbers on a grid, so that the targets are exact: singular patterns count too."""
    rng = np.random.default_rng(3)
    for trial in range(20):
        drawn = sl.draw(PROBLEM, {"W1": sl.FirstRows(4)}, seed=2, trial=trial)
        weights = {n: np.round(v * 64) / 64 for n, v in drawn.weights.items()}
        x = np.round(drawn.inputs * 64) / 64
        empty = sl.Instance(NETWORK, drawn.allocation, weights, x, np.zeros((2, 3)))
        values = np.round(rng.standard_normal(6) * 64) / 64
        planted = empty.with_values(values)
        instance = sl.Instance(NETWORK, drawn.allocation, weights, x, NETWORK.forward(planted, x))
        rows = sorted({i for i, _ in drawn.allocation.entries["W1"]})
        answer = sl.patterns.pattern_feasible(
            instance, sl.patterns.activation_pattern(NETWORK, planted, x)[rows]
        )
        assert answer and answer.values is not None
        assert np.abs(instance.residual(answer.values)).max() < 1e-9


@pytest.mark.parametrize(("learnable", "q"), [(1, 4), (2, 4), (3, 4), (3, 3), (2, 2)])
def test_patterns_of_a_row(learnable: int, q: int) -> None:
    m = 5
    network = sl.FeedForward((q, 2, 1), activation="relu")
    held = sl.Allocation.from_entries(network, {"W1": [(1, j) for j in range(learnable)]})
    instance = sl.draw(sl.Problem(network, m), held, seed=3)
    found = sl.patterns.realizable_patterns(instance, 1)
    if learnable < q:  # cells of m hyperplanes in general position (Zaslavsky 1975)
        wanted = sum(comb(m, j) for j in range(learnable + 1))
    else:  # all of them through the origin
        wanted = 2 * sum(comb(m - 1, j) for j in range(learnable))
    assert len(found) == wanted == len({tuple(row) for row in found.tolist()})
    rng = np.random.default_rng(5)
    free = rng.standard_normal((20_000, learnable)) * rng.choice([0.3, 3.0, 30.0], (20_000, 1))
    before = instance.weights["W1"][1] @ instance.inputs + free @ instance.inputs[:learnable]
    assert {tuple(row) for row in (before > 0).tolist()} <= {tuple(r) for r in found.tolist()}


DEEP = sl.FeedForward((3, 4, 4, 2), activation="relu")
TANH = sl.FeedForward((3, 4, 2), activation="tanh")


@pytest.mark.parametrize("network", [DEEP, TANH, sl.FeedForward((3, 4, 2))])
def test_other_networks_are_refused(network: sl.Network) -> None:
    with pytest.raises(sl.BadInputError, match="shallow ReLU"):
        sl.patterns.activation_pattern(network, {}, [[1.0]])


def test_learnable_weights_of_the_last_layer_are_refused() -> None:
    held = sl.Allocation.from_rows(NETWORK, "W2", [0])
    with pytest.raises(sl.BadInputError, match="weights of W2 are learnable"):
        sl.patterns.pattern_feasible(sl.draw(PROBLEM, held), [[1, 1, 1]])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda i: sl.patterns.pattern_feasible(i, [[1, 1, 1]]), "shape"),
        (lambda i: sl.patterns.pattern_feasible(i, np.full((2, 3), 2)), "0 or 1"),
        (lambda i: sl.patterns.pattern_feasible("x", [[1]]), "instance"),
        (lambda i: sl.patterns.realizable_patterns(i, 4), "row must be"),
        (lambda i: sl.patterns.enough_samples([[1, 1]], [1, 1], 1), "row_counts"),
        (lambda i: sl.patterns.activation_pattern(NETWORK, i.weights, [[1.0]]), "inputs"),
    ],
)
def test_bad_input(call: Any, words: str) -> None:
    held = sl.Allocation.from_rows(NETWORK, "W1", [0, 1])
    with pytest.raises(sl.BadInputError, match=words):
        call(sl.draw(PROBLEM, held))
