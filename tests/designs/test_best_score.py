"""The best-scoring basis, against all bases of small networks by the oracle's rank."""

from __future__ import annotations

import tracemalloc
from itertools import combinations

import numpy as np
import pytest

import sublearn as sl
from oracle import Label, oracle_of

PROBLEMS = [
    (sl.Problem(sl.LinearEstimator(inputs=3, outputs=2), 2), ["W"]),
    (sl.Problem(sl.FeedForward((3, 3, 2)), 2), ["W1"]),
    (sl.Problem(sl.FeedForward((2, 3, 2)), 2), ["W1", "W2"]),
    (sl.Problem(sl.FeedForward((2, 2, 2), bias=True), 3), ["W1", "b1", "b2"]),
    (sl.Problem(sl.FeedForward((3, 1, 3, 2)), 2), ["W1", "W3"]),
    (sl.Problem(sl.LinearRNN(n=3, b=1, d=1, T=3), 3), ["W"]),
    (sl.Problem(sl.LinearRNN(n=3, b=1, d=2, T=2), 2), ["W", "B"]),
    (sl.Problem(sl.LinearRNN(n=2, b=1, d=1, T=5), 5), ["W", "D", "B"]),
    (sl.Problem(sl.LinearRNN(n=3, b=2, d=1, T=2), 6), ["B", "D"]),
    (sl.Problem(sl.FeedForward((3, 1, 3, 2)), 2), ["W2", "W3"]),  # these reach rank 2 of 3
]

Scores = dict[str, np.ndarray]


def score_of(scores: Scores, labels: list[Label] | tuple[Label, ...]) -> float:
    return float(sum(scores[name][i, j] for name, i, j in labels))


def bases(problem: sl.Problem, names: list[str]) -> list[tuple[Label, ...]]:
    """Every set of *needed* weights of these names whose rank is *needed*."""
    truth = oracle_of(problem)
    labels = [label for label in truth.labels if label[0] in names]
    needed = truth.needed
    return [c for c in combinations(labels, needed) if truth.rank(c) == needed]


@pytest.mark.parametrize(
    ("problem", "names"), PROBLEMS, ids=[f"{p.network.spec} {' '.join(n)}" for p, n in PROBLEMS]
)
def test_the_best_basis(problem: sl.Problem, names: list[str]) -> None:
    network = problem.network
    every = bases(problem, names)
    if not every:
        with pytest.raises(sl.BadInputError, match="reach rank"):
            sl.design(problem, names, want="best score")
        return
    rng = np.random.default_rng(0)
    for trial in range(12):
        # Negative scores, and ties in every third trial.
        scores = {name: rng.standard_normal(network.shapes[name]) - 1 for name in names}
        if trial % 3 == 0:
            scores = {name: np.round(values) for name, values in scores.items()}
        found = sl.design(problem, names, scores=scores)
        assert tuple(found.labels()) in {tuple(sorted_by(network, c)) for c in every}
        best = max(score_of(scores, c) for c in every)
        assert score_of(scores, found.labels()) == pytest.approx(best, abs=1e-12)
        assert found.value == found.bound == pytest.approx(best, abs=1e-12)
        assert found.claim == "best score" and found.grade.kind != "numerical"
        assert sl.design(problem, names, scores=scores, seed=trial + 1) == found


def sorted_by(network: sl.Network, labels: tuple[Label, ...]) -> list[Label]:
    names = list(network.shapes)
    return sorted(labels, key=lambda label: (names.index(label[0]), *label[1:]))


@pytest.mark.parametrize(
    ("problem", "names"), PROBLEMS[1:7], ids=[p.network.spec for p, _ in PROBLEMS[1:7]]
)
def test_forbidden_and_required(problem: sl.Problem, names: list[str]) -> None:
    network, truth = problem.network, oracle_of(problem)
    every = bases(problem, names)
    rng = np.random.default_rng(1)
    answered = refused = 0
    for _ in range(16):
        scores = {name: rng.standard_normal(network.shapes[name]) for name in names}
        barred = {name: rng.random(network.shapes[name]) < 0.3 for name in names}
        free = [x for x in truth.labels if x[0] in names and not barred[x[0]][x[1:]]]
        must = [free[k] for k in rng.permutation(len(free))[:2]]
        required = {name: np.zeros(network.shapes[name], dtype=bool) for name in names}
        for name, i, j in must:
            required[name][i, j] = True
        allowed = [
            c for c in every if set(must) <= set(c) and not any(barred[x[0]][x[1:]] for x in c)
        ]
        if not allowed:
            with pytest.raises(sl.BadInputError, match="rank"):
                sl.design(problem, names, scores, forbidden=barred, required=required)
            refused += 1
            continue
        found = sl.design(problem, names, scores, forbidden=barred, required=required)
        assert set(must) <= set(found.labels())
        assert not any(barred[name][i, j] for name, i, j in found.labels())
        best = max(score_of(scores, c) for c in allowed)
        assert score_of(scores, found.labels()) == pytest.approx(best, abs=1e-12)
        answered += 1
    assert answered and answered + refused == 16


def test_distinct_scores_have_one_answer() -> None:
    problem = sl.Problem(sl.FeedForward((3, 3, 2)), 2)
    scores = {"W1": np.arange(9.0).reshape(3, 3) ** 2}
    every = bases(problem, ["W1"])
    best = max(every, key=lambda c: score_of(scores, c))
    assert sl.design(problem, ["W1"], scores).labels() == list(best)


def test_ties_fill_rows_and_columns_evenly() -> None:
    problem = sl.Problem(sl.FeedForward((6, 6, 3)), 4)
    plain = sl.design(problem, ["W1"], want="best score")
    assert plain == sl.design(problem, ["W1"], scores={"W1": np.full((6, 6), 7.0)})
    assert plain.row_counts("W1").max() - plain.row_counts("W1").min() <= 1
    assert plain.column_counts("W1").max() - plain.column_counts("W1").min() <= 1


def test_masks_and_allocations_say_the_same() -> None:
    problem = sl.Problem(sl.FeedForward((3, 3, 2)), 2)
    network = problem.network
    barred = sl.Allocation.diagonal(network, "W1")
    must = sl.Allocation.from_entries(network, {"W1": [(0, 1)]})
    by_allocation = sl.design(problem, ["W1"], forbidden=barred, required=must)
    by_mask = sl.design(
        problem,
        ["W1"],
        forbidden={"W1": barred.mask("W1")},
        required={"W1": must.mask("W1").astype(int)},
    )
    assert by_allocation == by_mask


@pytest.mark.parametrize("text", ["ffn:3-4-2,activation=tanh", "rnn:n=3,b=1,d=2,T=2"])
def test_analytic_networks_have_best_bases(text: str) -> None:
    problem = sl.Problem(sl.networks.network_from_text(text), 3)
    network = problem.network
    names = list(network.shapes)[:2]
    rng = np.random.default_rng(0)
    scores = {name: rng.standard_normal(network.shapes[name]) for name in names}
    found = sl.design(problem, names, scores)
    verdict = sl.certify(problem, found)
    assert (len(found), verdict.rank, verdict.wasted) == (6, 6, 0)
    assert (found.claim, found.gates) == ("best score", None) and str(found.grade) != "numerical"
    # No single exchange gains: the mark of a best basis (Edmonds 1971).
    inside = found.labels()
    outside = [x for x in sl.Allocation.whole(network, names).labels() if x not in inside]
    for name, i, j in inside:
        for other in outside:
            if scores[other[0]][other[1:]] > scores[name][i, j]:
                labels = [x for x in inside if x != (name, i, j)] + [other]
                entries: dict[str, list[tuple[int, int]]] = {}
                for key, *place in labels:
                    entries.setdefault(key, []).append((place[0], place[1]))
                swapped = sl.Allocation.from_entries(network, entries)
                assert sl.certify(problem, swapped).rank < 6


@pytest.mark.parametrize(
    ("text", "samples", "g"), [("rnn:n=4,b=1,d=2,T=3", 2, 10.0), ("rnn:n=8,b=1,d=4,T=6", 4, 3.0)]
)
def test_saturated_draws_hide_no_weights(text: str, samples: int, g: float) -> None:
    """The generic rank does not depend on the law; where tanh is flat, float64 shows too little of it."""
    network = sl.networks.network_from_text(text)
    scores = {"W": np.random.default_rng(0).standard_normal(network.shapes["W"])}
    tame = sl.design(sl.Problem(network, samples), ["W"], scores)
    wild = sl.Problem(network, samples, sl.Gaussian(g))
    assert {sl.design(wild, ["W"], scores, seed=seed) for seed in range(8)} == {tame}
    best = np.sort(scores["W"].ravel())[-len(tame) :].sum()
    assert tame.value == pytest.approx(best)


@pytest.mark.parametrize("names", [["W"], ["W", "B", "D"]])
def test_a_large_recurrent_network(names: list[str]) -> None:
    """p = 65,536 and more; the 64 x p Jacobian would take 34 MB, and is never formed."""
    problem = sl.Problem(sl.LinearRNN(n=256, b=1, d=8, T=8), 8)
    network = problem.network
    rng = np.random.default_rng(0)
    scores = {name: rng.standard_normal(network.shapes[name]) for name in names}
    sl.design(sl.Problem(sl.LinearRNN(n=8, b=1, d=2, T=2), 2), ["W"], scores=None)
    tracemalloc.start()
    found = sl.design(problem, names, scores)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found) == 64 == sl.certify(problem, found).rank
    assert peak < 16e6
    if names == ["W"]:  # scattered weights are independent: no score has to be given up
        best = np.sort(scores["W"].ravel())[-64:].sum()
        assert score_of(scores, found.labels()) == pytest.approx(best)


def test_a_large_layer() -> None:
    problem = sl.Problem(sl.FeedForward((64, 64, 16)), 16)
    rng = np.random.default_rng(0)
    scores = {"W1": rng.standard_normal((64, 64)), "W2": rng.standard_normal((16, 64))}
    found = sl.design(problem, ["W1", "W2"], scores)
    verdict = sl.certify(problem, found)
    assert (len(found), verdict.rank, verdict.wasted) == (256, 256, 0)


def test_scores_must_belong_to_what_is_learned() -> None:
    problem = sl.Problem(sl.LinearRNN(n=3, b=1, d=1, T=2), 2)
    with pytest.raises(sl.BadInputError, match="scores are given for B"):
        sl.design(problem, ["W"], scores={"B": np.ones((3, 1))})
    with pytest.raises(sl.BadInputError, match="scores must map"):
        sl.design(problem, ["W"], scores=np.ones((3, 3)))  # type: ignore[arg-type]
    with pytest.raises(sl.BadInputError, match="forbidden must be"):
        sl.design(problem, ["W"], forbidden=[(0, 0)])  # type: ignore[arg-type]


def test_relu_points_whose_units_are_off_do_not_count() -> None:
    """Two weights of W2 are independent wherever enough units are on; often few are at one point."""
    problem = sl.Problem(sl.FeedForward((2, 3, 1), activation="relu"), samples=2)
    scores = {"W2": np.array([[3.0, 2.0, 1.0]])}
    assert {len(sl.design(problem, ["W2"], scores, seed=seed)) for seed in range(12)} == {2}
