"""Circuits are circuits, and their words name them."""

from __future__ import annotations

import numpy as np
import pytest

import sublearn as sl
from oracle import oracle_of
from sublearn.verdicts import Circuit, Verdict

PROBLEMS = [
    sl.Problem(sl.FeedForward((4, 4, 3)), 3),
    sl.Problem(sl.FeedForward((3, 4, 3, 2)), 3),
    sl.Problem(sl.FeedForward((2, 3, 2), bias=True), 3),
    sl.Problem(sl.LinearRNN(n=4, b=2, d=2, T=2), 4),
    sl.Problem(sl.LinearRNN(n=4, b=1, d=2, T=2), 2),
    sl.Problem(sl.LinearEstimator(inputs=4, outputs=3), 3),
]


def labels(circuit: Circuit) -> list[tuple[str, int, int]]:
    return [(name, i, j) for name, pairs in circuit.entries.items() for i, j in pairs]


def crowded(problem: sl.Problem, rng: np.random.Generator) -> sl.Allocation:
    """One row and one column of a weight, and a few entries elsewhere, about d m in all."""
    network = problem.network
    name = list(network.shapes)[int(rng.integers(len(network.shapes)))]
    rows, columns = network.shape(name)
    held = sl.Allocation.from_rows(network, name, [int(rng.integers(rows))])
    held = held | sl.Allocation.from_columns(network, name, [int(rng.integers(columns))])
    size = min(len(held), problem.equations)
    held = held.select(rng.permutation(len(held))[:size])
    others = sl.Allocation.whole(network) - held
    more = int(rng.integers(0, 3))
    return held | others.select(rng.permutation(len(others))[:more])


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.network.spec)
def test_circuits_are_minimal_dependent_sets(problem: sl.Problem) -> None:
    truth = oracle_of(problem)
    rng = np.random.default_rng(0)
    seen = 0
    for _ in range(60):
        held = crowded(problem, rng)
        verdict = sl.certify(problem, held)
        assert (verdict.circuit is not None) == (verdict.wasted > 0)
        if verdict.circuit is None:
            continue
        seen += 1
        found = labels(verdict.circuit)
        assert set(found) <= set(held.labels()) and len(found) == len(verdict.circuit)
        assert truth.rank(found) == len(found) - 1
        for k in range(len(found)):
            assert truth.rank(found[:k] + found[k + 1 :]) == len(found) - 1
        words = verdict.circuit.words
        assert words in verdict.reasons
        if len(found) <= 8:
            assert all(f"{name}({i}, {j})" in words for name, i, j in found)
    assert seen > 5


def verdict_of(text: str, samples: int, entries: dict[str, list[tuple[int, int]]]) -> Verdict:
    problem = sl.Problem(sl.networks.network_from_text(text), samples)
    return sl.certify(problem, sl.Allocation.from_entries(problem.network, entries))


@pytest.mark.parametrize(
    ("text", "samples", "entries", "words"),
    [
        (
            "ffn:3-3-2",
            2,
            {"W1": [(0, 0), (0, 1), (0, 2), (1, 0)]},
            "The 3 weights W1(0, 0), W1(0, 1), W1(0, 2) change the outputs in only 2 independent "
            "ways: they share row 0, and a row of W1 carries at most 2.",
        ),
        (
            "ffn:3-3-2",
            2,
            {"W1": [(0, 1), (1, 1), (2, 1), (0, 0)]},
            "The 3 weights W1(0, 1), W1(1, 1), W1(2, 1) change the outputs in only 2 independent "
            "ways: they share column 1, and a column of W1 carries at most 2.",
        ),
        (
            "ffn:3-3-2",
            2,
            {"W1": [(2, 0), (2, 1), (0, 2), (1, 2)]},
            "The 4 weights W1(0, 2), W1(1, 2), W1(2, 0), W1(2, 1) change the outputs in only 3 "
            "independent ways: row 2 and column 2 of W1 cross at (2, 2), which is not learnable, "
            "and each of the two can do what it would do.",
        ),
        (
            "ffn:1-1-1,bias=yes",
            2,
            {"b1": [(0, 0)], "b2": [(0, 0)]},
            "The 2 weights b1(0, 0), b2(0, 0) change the outputs in only 1 independent ways: what "
            "any one of them does, the others can do.",
        ),
    ],
)
def test_words(
    text: str, samples: int, entries: dict[str, list[tuple[int, int]]], words: str
) -> None:
    verdict = verdict_of(text, samples, entries)
    assert verdict.circuit is not None
    assert verdict.circuit.words == words


def test_long_circuits_are_cut_short() -> None:
    verdict = verdict_of("ffn:12-1-10", 10, {"W1": [(0, j) for j in range(12)]})
    assert verdict.circuit is not None and len(verdict.circuit) == 11
    assert verdict.circuit.words.startswith("The 11 weights W1(0, 0), ")
    assert ", ..." in verdict.circuit.words and "W1(0, 9)" not in verdict.circuit.words
    assert len(verdict.to_dict()["circuit"]["entries"]["W1"]) == 11


def test_a_weight_that_does_nothing() -> None:
    # A unit that is off on every sample.
    network = sl.FeedForward((2, 2, 1), activation="relu")
    problem = sl.Problem(network, 2)
    held = sl.Allocation.from_entries(network, {"W1": [(0, 0), (1, 0)]})
    dead = sl.verdicts.gated_rank(problem, held, {0: [[0, 0], [1, 1]]})
    assert dead.rank == 1 and dead.circuit.tolist() == [0]
