"""Rank and kind on all allocations of small networks, against the oracle and a second set of rules."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest

import sublearn as sl
from oracle import Label, Oracle, allocation, derivative, draw, oracle_of, rank_of


def expected_kind(problem: sl.Problem, truth: Oracle, held: sl.Allocation, rank: int) -> str:
    """Minimal, maximal or between, for an allocation of at most d m' weights."""
    network, needed = problem.network, truth.needed
    if rank < needed:
        return "minimal"
    if truth.is_affine(held) or len(held) == network.size:
        return "maximal"
    if isinstance(network, sl.LinearRNN) and held.names == ("W",):
        m = min(problem.samples, network.T * network.b)
        rows = {int(c) for c in held.row_counts("W")} - {0}
        columns = {int(c) for c in held.column_counts("W")} - {0}
        if needed == network.d * m and (
            rows == {network.T * min(network.b, m)} or columns == {network.T * network.d}
        ):
            return "maximal"
    return "between"


def compare_all(text: str, samples: int, names: list[str], size: int) -> Counter[str]:
    """Certify every allocation of ``size`` weights of the named matrices."""
    problem = sl.Problem(sl.networks.network_from_text(text), samples)
    truth = oracle_of(problem)
    labels = [label for label in truth.labels if label[0] in names]
    kinds: Counter[str] = Counter()
    for chosen in combinations(labels, size):
        held = allocation(problem.network, chosen)
        verdict = sl.certify(problem, held)
        rank = truth.rank(chosen)
        assert (verdict.rank, verdict.needed) == (rank, truth.needed), held.entries
        assert verdict.kind == expected_kind(problem, truth, held, rank), held.entries
        assert verdict.wasted == min(size, truth.needed) - rank
        assert verdict.surplus == max(0, size - truth.needed)
        assert len(verdict.idle) == size - rank
        assert truth.rank(held - verdict.idle) == rank
        assert verdict.grade.kind == "proof" or 0 < verdict.grade.error <= 1e-12
        if rank == size:
            assert verdict.rank_grade.kind == "proof", "full rank at any point is a proof"
        assert all(check.why for check in verdict.theorems if check.holds is False)
        kinds[verdict.kind] += 1
    return kinds


ONE_WEIGHT = [
    # network, m, weight: r = d m' weights
    ("linear:inputs=3,outputs=2", 2, "W"),
    ("linear:inputs=2,outputs=2", 4, "W"),
    ("ffn:3-3-2", 2, "W1"),
    ("ffn:3-3-2", 2, "W2"),
    ("ffn:2-3-3-2", 2, "W1"),
    ("ffn:2-3-3-2", 2, "W2"),
    ("ffn:2-3-3-2", 2, "W3"),
    ("ffn:2-4-1", 3, "W1"),
    ("ffn:2-2-2,bias=yes", 2, "W1"),
    ("lrnn:n=3,b=1,d=1,T=3", 3, "W"),
    ("lrnn:n=4,b=1,d=1,T=3", 3, "B"),
    ("lrnn:n=4,b=1,d=1,T=3", 3, "D"),
    ("lrnn:n=3,b=1,d=2,T=2", 2, "W"),
    ("lrnn:n=3,b=1,d=2,T=2", 2, "D"),
    ("lrnn:n=3,b=2,d=2,T=1", 2, "W"),
    ("lrnn:n=3,b=3,d=2,T=1", 2, "B"),
    ("lrnn:n=3,b=2,d=2,T=2", 2, "W"),
    ("lrnn:n=3,b=2,d=2,T=2", 2, "B"),
    ("lrnn:n=3,b=3,d=3,T=2", 1, "W"),
    ("lrnn:n=3,b=1,d=1,T=2", 4, "W"),  # dependent samples: m' = 2
]


@pytest.mark.parametrize(("text", "samples", "name"), ONE_WEIGHT)
def test_all_allocations_of_one_weight(text: str, samples: int, name: str) -> None:
    problem = sl.Problem(sl.networks.network_from_text(text), samples)
    kinds = compare_all(text, samples, [name], problem.effective_equations)
    if oracle_of(problem).is_affine(sl.Allocation.whole(problem.network, [name])):
        assert not kinds["between"], "an affine component knows only minimal and maximal"


@pytest.mark.parametrize(
    ("text", "samples"),
    [
        ("lrnn:n=2,b=1,d=1,T=2", 2),
        ("lrnn:n=2,b=1,d=1,T=5", 5),  # degenerate, Theorem B.1: needed is 4 of 5
        ("ffn:2-2-2", 2),
        ("ffn:2-1-2", 2),  # a bottleneck: needed is 3 of 4
        ("ffn:1-2-1,bias=yes", 2),
    ],
)
def test_all_allocations_over_all_weights(text: str, samples: int) -> None:
    network = sl.networks.network_from_text(text)
    sizes = range(1, sl.Problem(network, samples).effective_equations + 1)
    kinds = [compare_all(text, samples, list(network.shapes), size) for size in sizes]
    assert set(sum(kinds, Counter())) >= {"minimal", "between"}


@pytest.mark.parametrize("size", [1, 3, 5, 6])
def test_other_sizes(size: int) -> None:
    problem = sl.Problem(sl.FeedForward((3, 2, 2)), 2)
    truth = oracle_of(problem)
    for chosen in combinations([label for label in truth.labels if label[0] == "W1"], size):
        verdict = sl.certify(problem, allocation(problem.network, chosen))
        assert verdict.rank == truth.rank(chosen)
        assert verdict.kind == ("maximal" if verdict.rank == 4 else "minimal")


def test_dependent_inputs() -> None:
    ensemble = sl.Ensemble(inputs=sl.ensembles.LowRank(rank=1))
    problem = sl.Problem(sl.LinearRNN(n=3, b=2, d=2, T=2), 3, ensemble)
    truth = oracle_of(problem)
    assert truth.needed == 2 < problem.equations
    for name in ("W", "B", "D"):
        labels = [label for label in truth.labels if label[0] == name]
        for chosen in combinations(labels, 2):
            held = allocation(problem.network, chosen)
            verdict = sl.certify(problem, held)
            assert (verdict.rank, verdict.needed) == (truth.rank(chosen), 2)
            if verdict.rank < 2:
                assert verdict.kind == "minimal"
            elif truth.is_affine(held):
                assert verdict.kind == "maximal"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "samples", "names", "size"),
    [
        ("ffn:4-4-3", 3, ["W1"], 9),
        ("lrnn:n=4,b=1,d=2,T=2", 2, ["W"], 4),
        ("lrnn:n=4,b=2,d=2,T=2", 4, ["W"], 8),
        ("lrnn:n=2,b=2,d=2,T=2", 2, ["W", "B", "D"], 4),
        ("ffn:3-3-2", 2, ["W1", "W2"], 4),
    ],
)
def test_all_allocations_of_larger_networks(
    text: str, samples: int, names: list[str], size: int
) -> None:
    compare_all(text, samples, names, size)


def test_random_allocations_of_a_larger_network() -> None:
    problem = sl.Problem(sl.LinearRNN(n=5, b=2, d=3, T=3), 4)
    truth = oracle_of(problem)
    rng = np.random.default_rng(0)
    for _ in range(60):
        size = int(rng.integers(1, 25))
        start = int(rng.integers(0, len(truth.labels) - size))
        # Neighbours in the numbering share rows, so that many of these sets are deficient.
        near = [truth.labels[start + k] for k in rng.permutation(size)]
        verdict = sl.certify(problem, allocation(problem.network, near))
        assert verdict.rank == truth.rank(near)


def test_many_more_weights_than_can_be_independent() -> None:
    # A whole row and a whole column of W: 83 weights in 8 dimensions. Each spans 4, and they share 2.
    problem = sl.Problem(sl.LinearRNN(n=42, b=2, d=2, T=2), 4)
    network = problem.network
    held = sl.Allocation.from_rows(network, "W", [0]) | sl.Allocation.from_columns(
        network, "W", [0]
    )
    verdict = sl.certify(problem, held)
    point = draw(network, 4, seed=1)

    def rank(labels: list[Label]) -> int:
        return rank_of([int(v) for v in derivative(network, point, x).entries()] for x in labels)

    assert verdict.rank == rank(held.labels()) == 6
    assert (verdict.kind, verdict.wasted, verdict.surplus) == ("minimal", 2, 75)
    assert verdict.grade.kind == "probability"
    assert verdict.circuit is not None
    circuit = [("W", i, j) for i, j in verdict.circuit.entries["W"]]
    assert rank(circuit) == len(circuit) - 1 == rank(circuit[1:])
    assert rank((held - verdict.idle).labels()) == 6
