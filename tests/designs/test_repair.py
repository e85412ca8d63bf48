"""Repair moves exactly the wasted weights, on hundreds of deficient allocations."""

from __future__ import annotations

import numpy as np
import pytest

import sublearn as sl
from oracle import oracle_of
from sublearn.designs import _design

PROBLEMS = [
    (sl.Problem(sl.LinearEstimator(inputs=4, outputs=3), 3), ["W"]),
    (sl.Problem(sl.FeedForward((4, 4, 3)), 3), ["W1"]),
    (sl.Problem(sl.FeedForward((4, 4, 4, 3)), 3), ["W2"]),
    (sl.Problem(sl.FeedForward((3, 4, 3)), 3), ["W1", "W2"]),
    (sl.Problem(sl.FeedForward((2, 3, 2), bias=True), 3), ["W1", "W2", "b1", "b2"]),
    (sl.Problem(sl.LinearRNN(n=5, b=1, d=2, T=2), 2), ["W"]),
    (sl.Problem(sl.LinearRNN(n=4, b=3, d=2, T=1), 3), ["B"]),
    (sl.Problem(sl.LinearRNN(n=4, b=1, d=2, T=2), 2), ["D", "W"]),
    (sl.Problem(sl.FeedForward((3, 1, 3, 2)), 2), ["W1", "W3"]),
]


def crowded(problem: sl.Problem, names: list[str], rng: np.random.Generator) -> sl.Allocation:
    """Entries of a few rows and columns; about d m of them, sometimes more, sometimes fewer."""
    network = problem.network
    masks = {}
    for name in names:
        rows, columns = network.shape(name)
        across, down = rng.random((rows, 1)) < 0.4, rng.random((1, columns)) < 0.3
        masks[name] = across | down
    pool = sl.Allocation.from_masks(network, masks)
    if not len(pool):
        pool = sl.Allocation.whole(network, names)
    size = min(len(pool), max(1, problem.equations + int(rng.integers(-1, 3))))
    return pool.select(rng.permutation(len(pool))[:size])


@pytest.mark.parametrize(
    ("problem", "names"), PROBLEMS, ids=[f"{p.network.spec} {' '.join(n)}" for p, n in PROBLEMS]
)
def test_repair_moves_exactly_the_wasted_weights(problem: sl.Problem, names: list[str]) -> None:
    truth = oracle_of(problem)
    rng = np.random.default_rng(0)
    repaired = 0
    for _ in range(250):
        if repaired == 30:
            break
        held = crowded(problem, names, rng)
        rank = truth.rank(held)
        wasted = min(len(held), truth.needed) - rank
        if not wasted:
            same = sl.repair(problem, held)
            assert same == held and (same.claim, same.value) == ("fewest moves", 0)
            continue
        wanted = min(len(held), truth.needed)
        if truth.rank(sl.Allocation.whole(problem.network, held.names)) < wanted:
            with pytest.raises(sl.BadInputError, match="reach rank"):
                sl.repair(problem, held)
            continue
        whole = sl.repair(problem, held)
        repaired += 1
        left, came = held - whole, whole - held
        assert len(whole) == len(held) and set(whole.names) <= set(names)
        assert len(left) == len(came) == wasted == whole.value == whole.bound
        assert whole.claim == "fewest moves" and whole.gates is None
        assert truth.rank(whole) == wanted
        assert sl.certify(problem, whole).wasted == 0
        # A weight that no other can stand in for stays.
        for name, i, j in left.labels():
            without = [label for label in held.labels() if label != (name, i, j)]
            assert truth.rank(without) == rank
        # Fewer moves cannot do it: each raises the rank by at most 1.
        assert truth.rank(held - left) == rank
    assert repaired >= 4


def test_other_weights_may_take_what_moves() -> None:
    problem = sl.Problem(sl.LinearRNN(n=4, b=1, d=2, T=2), 2)
    network, truth = problem.network, oracle_of(problem)
    rng = np.random.default_rng(1)
    for _ in range(20):
        held = crowded(problem, ["D"], rng)
        wasted = min(len(held), 4) - truth.rank(held)
        whole = sl.repair(problem, held, learn=["W", "B"])
        came = whole - held
        assert len(came) == wasted and set(came.names) <= {"W", "B"}
        assert truth.rank(whole) == min(len(held), 4)
    # Named with the rest, D may take some itself.
    held = sl.Allocation.from_rows(network, "D", [0])
    assert len(sl.repair(problem, held, learn=["D"]) - held) == 2


def test_forbidden_weights_do_not_come_in() -> None:
    problem = sl.Problem(sl.FeedForward((4, 4, 3)), 3)
    network, truth = problem.network, oracle_of(problem)
    rng = np.random.default_rng(2)
    answered = 0
    for _ in range(60):
        held = crowded(problem, ["W1"], rng)
        if min(len(held), 9) == truth.rank(held):
            continue
        others = sl.Allocation.whole(network, ["W1"]) - held
        barred = others.select(rng.permutation(len(others))[: len(others) // 2])
        wanted = min(len(held), 9)
        if truth.rank(sl.Allocation.whole(network, ["W1"]) - barred) < wanted:
            with pytest.raises(sl.BadInputError, match="allow more weights"):
                sl.repair(problem, held, forbidden=barred)
            continue
        whole = sl.repair(problem, held, forbidden=barred)
        assert not len(whole & barred) and truth.rank(whole) == wanted
        answered += 1
    assert answered > 5


def test_scores_say_what_stays_and_what_comes() -> None:
    problem = sl.Problem(sl.FeedForward((3, 3, 2)), 2)
    network = problem.network
    cross = sl.Allocation.from_entries(network, {"W1": [(2, 0), (2, 1), (0, 2), (1, 2)]})
    scores = np.zeros((3, 3))
    scores[2, 1] = -1.0  # the worst of the four goes
    scores[0, 0] = 5.0  # the best of the others comes
    whole = sl.repair(problem, cross, scores={"W1": scores})
    assert (cross - whole).labels() == [("W1", 2, 1)]
    assert (whole - cross).labels() == [("W1", 0, 0)]


def test_without_scores_crowded_lines_are_avoided() -> None:
    problem = sl.Problem(sl.FeedForward((4, 4, 2)), 2)
    row = sl.Allocation.from_rows(problem.network, "W1", [0])
    whole = sl.repair(problem, row)
    assert whole.row_counts("W1").tolist()[0] == 2
    assert sl.certify(problem, whole).kind == "maximal"


def test_repair_is_deterministic() -> None:
    problem = sl.Problem(sl.FeedForward((4, 4, 3)), 3)
    rng = np.random.default_rng(3)
    for _ in range(10):
        held = crowded(problem, ["W1"], rng)
        assert len({sl.repair(problem, held, seed=seed) for seed in range(3)}) == 1


@pytest.mark.parametrize("text", ["ffn:4-4-3,activation=tanh", "ffn:4-4-3,activation=sigmoid"])
def test_nonlinear_networks(text: str) -> None:
    problem = sl.Problem(sl.networks.network_from_text(text), 3)
    # Row 0 of W2 has one weight too many, row 2 one too few.
    held = {"W2": [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1)]}
    before = sl.Allocation.from_entries(problem.network, held)
    after = sl.repair(problem, before)
    assert sl.certify(problem, before).wasted == 1 == len(before - after) == len(after - before)
    assert sl.certify(problem, after).kind == "maximal"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learn": ["W9"]}, "weight name must be one of W1, W2, not 'W9'"),
        ({"learn": "W1"}, "learn must be a list"),
        ({"learn": []}, "learn must name at least one"),
        ({"scores": {"W1": np.zeros(3)}}, "scores for W1 must have shape (3, 3)"),
        ({"forbidden": {"W1": np.eye(3, dtype=int)}}, "W1(0, 0) is both learnable and forbidden"),
    ],
)
@pytest.mark.parametrize("deficient", [True, False])
def test_bad_requests_are_refused_with_or_without_waste(
    options: dict[str, object], message: str, deficient: bool
) -> None:
    problem = sl.Problem(sl.FeedForward((3, 3, 2)), 2)
    row = [(0, 0), (0, 1), (0, 2), (1, 1)] if deficient else [(0, 0), (0, 1), (1, 2), (1, 1)]
    held = sl.Allocation.from_entries(problem.network, {"W1": row})
    with pytest.raises(sl.BadInputError) as caught:
        sl.repair(problem, held, **options)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_no_density_and_no_problem() -> None:
    problem = sl.Problem(sl.FeedForward((3, 3, 2)), 2, sl.Ensemble(weights=sl.ensembles.Sparse()))
    held = sl.Allocation.whole(problem.network, ["W1"])
    with pytest.raises(sl.BadInputError, match="law of the weights has no density"):
        sl.repair(problem, held)
    with pytest.raises(sl.BadInputError, match="problem must be a Problem"):
        sl.repair(problem.network, held)  # type: ignore[arg-type]


def test_the_asked_error_and_seed_reach_every_question(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = set()

    def spied(name: str) -> None:
        whole = getattr(_design, name)

        def spy(*given: object, **options: object) -> object:
            question = options or vars(given[0])
            asked.add((name, question["error"], question["seed"]))
            return whole(*given, **options)

        monkeypatch.setattr(_design, name, spy)

    questions = ("certify", "best_basis", "needed_rank")
    for name in questions:
        spied(name)
    problem = sl.Problem(sl.LinearRNN(n=5, b=1, d=2, T=2), 2)
    rows = sl.Allocation.from_rows(problem.network, "W", [0])
    assert len(sl.repair(problem, rows, error=1e-30, seed=5) - rows) == 2  # T b = 2 may stay, of 4
    required = {"W": np.diag([True, True, False, False, False])}
    sl.design(problem, ["W"], required=required, error=1e-30, seed=5)
    assert asked == {(name, 1e-30, 5) for name in questions}
