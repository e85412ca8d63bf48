"""Designs that are proved to match always, and requests that cannot be met."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

import sublearn as sl

CASES = [
    ("linear:inputs=4,outputs=2", 3, ["W"]),
    ("ffn:4-5-3", 3, ["W1"]),
    ("ffn:4-5-3", 3, ["W2"]),
    ("ffn:4-5-5-3", 2, ["W1", "W2", "W3"]),
    ("ffn:3-4-2,bias=yes", 4, ["W2", "b2"]),
    ("lrnn:n=8,b=1,d=4,T=4", 4, ["W"]),
    ("lrnn:n=6,b=2,d=2,T=2", 4, ["W"]),
    ("lrnn:n=4,b=1,d=1,T=2", 2, ["W", "B"]),
    ("lrnn:n=4,b=2,d=3,T=2", 2, ["B"]),
    ("lrnn:n=5,b=1,d=2,T=3", 3, ["D"]),
    ("lrnn:n=5,b=3,d=2,T=2", 1, ["W"]),
    ("lrnn:n=4,b=1,d=2,T=2", 9, ["W"]),
    ("ffn:4-5-3,activation=tanh", 3, ["W2"]),
    ("rnn:n=5,b=1,d=2,T=2", 3, ["D"]),
]


@pytest.mark.parametrize(("text", "samples", "names"), CASES)
def test_maximal_designs_are_maximal(text: str, samples: int, names: list[str]) -> None:
    problem = sl.Problem(sl.networks.network_from_text(text), samples)
    found = sl.design(problem, names)
    verdict = sl.certify(problem, found)
    assert (verdict.kind, verdict.wasted, verdict.surplus) == ("maximal", 0, 0)
    assert set(found.names) <= set(names)
    assert sl.design(problem, names, seed=5) == found


@pytest.mark.parametrize(("text", "samples", "names"), [case for case in CASES if case[1] > 1][:11])
def test_required_and_forbidden(text: str, samples: int, names: list[str]) -> None:
    problem = sl.Problem(sl.networks.network_from_text(text), samples)
    network = problem.network
    rng = np.random.default_rng(0)
    answered = 0
    for _ in range(8):
        pool = sl.Allocation.whole(network, names)
        order = rng.permutation(len(pool))
        must, barred = pool.select(order[:1]), pool.select(order[1:3])
        try:
            found = sl.design(problem, names, forbidden=barred, required=must, want="maximal")
        except sl.BadInputError as refusal:
            assert "rank" in str(refusal) or "known to be maximal" in str(refusal)
            continue
        answered += 1
        assert not len(must - found) and not len(found & barred)
        assert sl.certify(problem, found).kind == "maximal"
    assert answered >= 2


def saturated_scores(problem: sl.Problem, scores: np.ndarray) -> list[float]:
    """Scores of every maximal allocation with saturated rows, or columns, of W."""
    network = problem.network
    assert isinstance(network, sl.LinearRNN)
    n, found = network.n, []
    for turned, size in (
        (False, network.T * min(network.b, problem.samples)),
        (True, network.T * network.d),
    ):
        lines, rest = divmod(problem.equations, size)
        if rest or size > n:
            continue
        subsets = list(combinations(range(n), size))
        for chosen in combinations(range(n), lines):
            for picks in product(subsets, repeat=lines):
                mask = np.zeros((n, n), dtype=bool)
                for i, pick in zip(chosen, picks, strict=True):
                    mask[i, list(pick)] = True
                found.append(float(scores[mask.T if turned else mask].sum()))
    return found


@pytest.mark.parametrize("sizes", [(3, 1, 1, 2, 2), (4, 1, 2, 2, 2), (4, 2, 1, 2, 4)])
def test_no_saturated_allocation_scores_higher(sizes: tuple[int, ...]) -> None:
    n, b, d, T, m = sizes
    problem = sl.Problem(sl.LinearRNN(n=n, b=b, d=d, T=T), m)
    rng = np.random.default_rng(0)
    for _ in range(10):
        scores = rng.standard_normal((n, n)) - 0.5
        found = sl.design(problem, ["W"], scores={"W": scores}, want="maximal")
        assert sl.certify(problem, found).kind == "maximal"
        ours = float(scores[found.mask("W")].sum())
        assert ours >= max(saturated_scores(problem, scores)) - 1e-12
        free = sl.design(problem, ["W"], scores={"W": scores}, want="best score")
        assert ours <= float(scores[free.mask("W")].sum()) + 1e-12


def test_what_is_wanted_by_default() -> None:
    problem = sl.Problem(sl.LinearRNN(n=3, b=1, d=1, T=2), 2)
    scores = {"W": np.diag([3.0, 2.0, 1.0])}
    assert sl.certify(problem, sl.design(problem, ["W"])).kind == "maximal"
    best = sl.design(problem, ["W"], scores)
    assert best.entries["W"] == ((0, 0), (1, 1))
    assert sl.certify(problem, best).kind == "between"
    proved = sl.design(problem, ["W"], scores, want="maximal")
    assert sl.certify(problem, proved).kind == "maximal"


def test_other_teachers() -> None:
    student = sl.LinearRNN(n=8, b=1, d=2, T=2)
    for teacher in (sl.Targets(), sl.LinearRNN(n=3, b=1, d=2, T=2), sl.LinearRNN(1, 1, 2, 2)):
        problem = sl.Problem(student, 2, teacher=teacher)
        for names in (["D"], ["B", "D"]):
            found = sl.design(problem, names, want="maximal")
            assert sl.certify(problem, found).kind == "maximal"
    # A teacher that reaches 3 of 4 dimensions needs 3 weights not to be ruled out.
    narrow = sl.Problem(student, 2, teacher=sl.LinearRNN(1, 1, 2, 2))
    assert len(sl.design(narrow, ["W"], want="best score")) == 3


def refusals() -> list[tuple[dict[str, object], str]]:
    network = sl.FeedForward((3, 3, 2))
    cross = sl.Allocation.from_entries(network, {"W1": [(2, 0), (2, 1), (0, 2), (1, 2)]})
    row = np.zeros((3, 3), dtype=bool)
    row[0] = True
    return [
        ({"forbidden": {"W1": ~row}}, "W1 reach rank 2, but 4 is needed"),
        ({"required": {"W1": row}}, "the 3 required weights have rank 2 only"),
        ({"required": cross}, "cross at (2, 2)"),
        ({"required": {"W1": row}, "forbidden": {"W1": row}}, "W1(0, 0) is both required and forb"),
        ({"learn": "W1"}, "learn must be a list of weight names, such as ['W1']"),
        ({"learn": []}, "learn must name at least one of W1, W2"),
        ({"learn": ["W3"]}, "weight name must be one of W1, W2, not 'W3'"),
        ({"learn": ["W2"], "required": cross}, "W1 is not among the weights to learn, ['W2']"),
        ({"want": "best"}, "want must be one of maximal, best score, not 'best'"),
        ({"scores": {"W1": np.zeros((2, 3))}}, "scores for W1 must have shape (3, 3), not (2, 3)"),
        ({"scores": {"W1": np.full((3, 3), np.nan)}}, "scores for W1 must be finite"),
        ({"scores": {"W7": np.zeros((3, 3))}}, "weight name must be one of W1, W2, not 'W7'"),
        ({"forbidden": {"W1": np.zeros(9)}}, "forbidden mask for W1 must have shape (3, 3)"),
    ]


@pytest.mark.parametrize(("request_", "message"), refusals())
def test_impossible_requests(request_: dict[str, object], message: str) -> None:
    problem = sl.Problem(sl.FeedForward((3, 3, 2)), 2)
    with pytest.raises(sl.BadInputError) as caught:
        sl.design(problem, **{"learn": ["W1"], **request_})  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_too_little_to_choose_from() -> None:
    problem = sl.Problem(sl.LinearRNN(n=3, b=1, d=2, T=2), 2)
    with pytest.raises(sl.BadInputError, match="B reach rank 3, but 4 is needed"):
        sl.design(problem, ["B"])


def test_nothing_known_to_be_maximal() -> None:
    # 3 equations: rows carry 2, columns carry 2, so W cannot be saturated.
    problem = sl.Problem(sl.LinearRNN(n=3, b=2, d=1, T=2), 3)
    with pytest.raises(
        sl.BadInputError, match=r'"best score" finds one of full rank 3, and in B or D'
    ):
        sl.design(problem, ["W"], forbidden={"W": ~np.eye(3, dtype=bool)})


def test_no_density() -> None:
    problem = sl.Problem(
        sl.FeedForward((3, 3, 2)), 2, sl.Ensemble(inputs=sl.ensembles.Rademacher())
    )
    with pytest.raises(sl.BadInputError, match="law of the inputs has no density"):
        sl.design(problem, ["W1"])
