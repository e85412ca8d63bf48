"""Budgets: a number, a share, quotas per row or column; against all sets of small networks."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest

import sublearn as sl
from oracle import Label, oracle_of
from sublearn.designs import _quotas
from sublearn.exact import PrimeField, within_quotas

LINEAR = sl.Problem(sl.LinearRNN(n=3, b=1, d=2, T=2), 2)  # 4 needed of the 9 weights of W
LONG = sl.Problem(sl.LinearRNN(n=3, b=1, d=1, T=3), 3)  # 3 needed
RELU = sl.Problem(sl.FeedForward((2, 3, 2), activation="relu"), 2)


def _score(scores: np.ndarray, labels: tuple[Label, ...]) -> float:
    return float(sum(scores[i, j] for _, i, j in labels))


def _best(problem: sl.Problem, scores: np.ndarray, count: int, most: int, axis: int) -> tuple:
    """(rank, score) of the best ``count`` weights of W with at most ``most`` in a row or column."""
    truth = oracle_of(problem)
    labels = [label for label in truth.labels if label[0] == "W"]
    return max(
        (truth.rank(chosen), _score(scores, chosen))
        for chosen in combinations(labels, count)
        if max(Counter(label[1 + axis] for label in chosen).values()) <= most
    )


@pytest.mark.parametrize("problem", [LINEAR, LONG], ids=["two steps", "three steps"])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 6, 9])
def test_a_number_of_weights_has_the_best_rank_and_then_the_best_score(
    problem: sl.Problem, count: int
) -> None:
    for seed in range(3):
        scores = np.random.default_rng(seed).standard_normal((3, 3))
        chosen = sl.design(problem, ["W"], scores={"W": scores}, count=count)
        verdict = sl.certify(problem, chosen)
        rank, value = _best(problem, scores, count, 3, 0)
        assert (len(chosen), verdict.rank, chosen.claim) == (count, rank, "best score")
        assert chosen.value == pytest.approx(value) == chosen.bound
        assert chosen.short == verdict.needed - rank == chosen.to_dict()["short"]
        assert ("out of reach" in chosen.words) == (rank < verdict.needed)


@pytest.mark.parametrize("problem", [LINEAR, LONG], ids=["two steps", "three steps"])
@pytest.mark.parametrize(
    ("text", "axis"), [("1 per row", 0), ("2 per row", 0), ("1 per column", 1)]
)
def test_quotas_are_filled_with_the_best_rank_and_then_the_best_score(
    problem: sl.Problem, text: str, axis: int
) -> None:
    each = int(text[0])
    for seed in range(4):
        scores = np.random.default_rng(seed).standard_normal((3, 3))
        if seed == 3:
            scores = np.round(scores)  # ties
        chosen = sl.design(problem, ["W"], scores={"W": scores}, count=text)
        rank, value = _best(problem, scores, 3 * each, each, axis)
        assert (len(chosen), sl.certify(problem, chosen).rank) == (3 * each, rank)
        assert (chosen.claim, chosen.short) == ("best score", max(0, chosen.needed - rank))
        assert chosen.value == pytest.approx(value)
        sizes = chosen.column_counts("W") if axis else chosen.row_counts("W")
        assert (sizes == each).all()


def test_columns_within_quotas_against_all_sets() -> None:
    field = PrimeField(8388593)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        height, width, kinds = rng.integers(2, 5), rng.integers(4, 9), rng.integers(1, 5)
        matrix = rng.integers(-1, 2, (height, width)).astype(float)
        worth, groups = rng.integers(-5, 6, width), rng.integers(0, kinds, width)
        quotas = rng.integers(0, 3, kinds)

        def allowed(
            ids: list[int], matrix: np.ndarray = matrix, groups=groups, quotas=quotas
        ) -> bool:
            counts = np.bincount(groups[ids], minlength=quotas.size)
            fits = bool((counts <= quotas).all())
            return fits and (not ids or np.linalg.matrix_rank(matrix[:, ids]) == len(ids))

        sets = [list(c) for k in range(height + 1) for c in combinations(range(width), k)]
        best = max((len(ids), int(worth[ids].sum())) for ids in sets if allowed(ids))
        found = within_quotas(field, matrix, worth, groups, quotas, int(height)).tolist()
        assert allowed(found) and (len(found), int(worth[found].sum())) == best
        if found:  # what is held from the start stays
            first = np.array(found[:1])
            again = within_quotas(field, matrix, worth, groups, quotas, int(height), first)
            assert again.tolist() == found


def test_shares_are_of_what_may_be_chosen() -> None:
    net = sl.LinearRNN(n=10, b=1, d=1, T=4)
    problem = sl.Problem(net, 4)
    assert len(sl.design(problem, ["W"], count="20%")) == 20
    chosen = sl.design(problem, ["W"], count="20%", autapses=False)
    assert len(chosen) == 18 and not chosen.mask("W").diagonal().any()


def test_equal_scores_spread_over_rows_and_columns() -> None:
    problem = sl.Problem(sl.LinearRNN(n=10, b=2, d=2, T=4), 10)
    for options in ({}, {"autapses": False}):
        for count in (12, 20, 40, 50):  # 20 are needed
            chosen = sl.design(problem, ["W"], count=count, want="best score", **options)
            for sizes in (chosen.row_counts("W"), chosen.column_counts("W")):
                assert sizes.max() - sizes.min() <= 2, (count, sizes)


def test_more_than_needed_without_scores_stays_maximal() -> None:
    chosen = sl.design(LINEAR, ["W"], count=6)
    assert (len(chosen), chosen.claim, chosen.short) == (6, "proved maximal", 0)
    few = sl.design(LINEAR, ["W"], count=3)
    assert (few.claim, few.short, few.needed) == ("best score", 1, 4)


@pytest.mark.parametrize("count", [2, 3, 5, "1 per row", "1 per column"])
def test_relu_networks_take_budgets_too(count: int | str) -> None:
    scores = np.random.default_rng(1).standard_normal((3, 2))
    chosen = sl.design(RELU, ["W1"], scores={"W1": scores}, count=count, effort=50)
    size = {"1 per row": 3, "1 per column": 2}.get(count, count)
    assert len(chosen) == size and chosen.bound >= chosen.value - 1e-12
    assert chosen.value == pytest.approx(scores[chosen.mask("W1")].sum())
    assert chosen.short == max(0, 4 - size)
    if isinstance(count, str):
        sizes = chosen.row_counts("W1") if "row" in count else chosen.column_counts("W1")
        assert (sizes <= 1).all()


def test_large_quotas_are_good_and_not_proved_best(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = {"W": np.random.default_rng(2).standard_normal((3, 3))}
    exact = sl.design(LINEAR, ["W"], scores=scores, count="2 per row")
    monkeypatch.setattr(_quotas, "_MOST_WORK", 0)
    good = sl.design(LINEAR, ["W"], scores=scores, count="2 per row")
    assert (good.row_counts("W") == 2).all()
    assert good.value <= exact.value <= good.bound


def test_a_greedy_choice_within_quotas_claims_no_more_than_it_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The best of each row here are dependent: one of them is given up that the best choice keeps."""
    problem = sl.Problem(sl.FeedForward((3, 3, 2)), 2)
    scores = {"W1": np.random.default_rng(1).standard_normal((3, 3))}
    exact = sl.design(problem, ["W1"], scores=scores, count="1 per row")
    monkeypatch.setattr(_quotas, "_MOST_WORK", 0)
    good = sl.design(problem, ["W1"], scores=scores, count="1 per row")
    assert (exact.claim, good.claim) == ("best score", "good, not proved best")
    assert exact.short < good.short


def test_required_weights_count() -> None:
    must = {"W": np.eye(3, dtype=bool) & (np.arange(3) < 2)}
    chosen = sl.design(LINEAR, ["W"], required=must, count="1 per row", want="best score")
    assert chosen.mask("W")[0, 0] and chosen.mask("W")[1, 1] and len(chosen) == 3
    with pytest.raises(sl.BadInputError, match="2 weights are required, but count allows 1 only"):
        sl.design(LINEAR, ["W"], required=must, count=1)
    with pytest.raises(sl.BadInputError, match="a row has 2 required weights"):
        two = {"W": np.arange(9).reshape(3, 3) < 2}
        sl.design(LINEAR, ["W"], required=two, count="1 per row")


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (0, "count must be"),
        (10, "at most 9, the number of weights that may be chosen, not 10"),
        (2.5, "count must be a number such as 200"),
        (0.2, "a share such as '20%'"),
        ("two", "count must be a number such as 200"),
        ("0%", "count must be a number such as 200"),
        ("101%", "a share such as '20%' \\(at most '100%'\\)"),
        ("0 per row", "count must be a number such as 200"),
        ("2 per unit", "count must be a number such as 200"),
        ("4 per row", "count must be at most 3 per row, .*, not '4 per row'"),
    ],
)
def test_budgets_that_say_nothing(count: object, message: str) -> None:
    with pytest.raises(sl.BadInputError, match=message):
        sl.design(LINEAR, ["W"], count=count)  # type: ignore[arg-type]


def test_maximal_with_too_few_weights_is_refused() -> None:
    with pytest.raises(sl.BadInputError, match='want="maximal" needs 4 weights'):
        sl.design(LINEAR, ["W"], count=3, want="maximal")
