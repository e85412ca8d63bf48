"""Rules draw uniformly from the sets that keep the bounds: checked against all of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

import sublearn as sl
from networks.reference import one_sentence
from sublearn import Anywhere, BadInputError, FirstColumns, FirstRows
from sublearn._arrays import Indices
from sublearn.allocations import Places, Rule, _rules
from sublearn.networks import Bounds

Shape = tuple[int, int]
Case = tuple[Rule, Shape, Bounds, int]


def _feasible(rule: Rule, shape: Shape, bounds: Bounds, count: int) -> list[tuple[int, ...]]:
    """All sets of the rule, by looking at every set of that size."""
    rows, columns = shape
    by_rows = isinstance(rule, FirstRows)
    inside = [
        i * columns + j
        for i in range(rows)
        for j in range(columns)
        if (i if by_rows else j) < rule.k
    ]
    found = []
    for chosen in combinations(inside, count):
        mask = np.zeros(rows * columns, dtype=int)
        mask[list(chosen)] = 1
        mask = mask.reshape(shape)
        column = rows if bounds.column is None else bounds.column
        if mask.sum(axis=1).max(initial=0) <= bounds.row and mask.sum(axis=0).max() <= column:
            found.append(chosen)
    return found


def _draws(case: Case, times: int, seed: int) -> Counter[tuple[int, ...]]:
    rule, shape, bounds, count = case
    rng = np.random.default_rng(seed)
    return Counter(
        tuple(rule.draw(Places("W", shape, bounds), count, rng).tolist()) for _ in range(times)
    )


def _assert_uniform(case: Case, per_set: int, seed: int) -> None:
    sets = _feasible(*case)
    found = _draws(case, per_set * len(sets), seed)
    assert set(found) == set(sets)
    assert chisquare([found[s] for s in sets]).pvalue > 0.01


ROW_BOUNDS: list[Case] = [
    (FirstRows(2), (3, 3), Bounds(2, None), 3),
    (FirstRows(3), (3, 3), Bounds(1, None), 2),
    (FirstRows(2), (4, 4), Bounds(3, 4), 4),
    (FirstColumns(2), (3, 4), Bounds(4, 2), 3),
    (FirstColumns(2), (4, 2), Bounds(2, None), 3),
]
COLUMN_BOUNDS: list[Case] = [
    (FirstRows(3), (3, 3), Bounds(2, 2), 5),
    (FirstRows(3), (3, 3), Bounds(1, 1), 3),
    (FirstRows(3), (4, 3), Bounds(3, 1), 3),
    (FirstRows(3), (3, 4), Bounds(2, 1), 4),
    (FirstColumns(3), (3, 3), Bounds(1, 2), 3),
    (FirstColumns(3), (4, 4), Bounds(1, 2), 4),
]


@pytest.mark.parametrize("case", [*ROW_BOUNDS, *COLUMN_BOUNDS], ids=str)
def test_draws_are_uniform(case: Case) -> None:
    _assert_uniform(case, per_set=25, seed=5)


@pytest.mark.parametrize("case", COLUMN_BOUNDS, ids=str)
def test_the_chain_is_uniform_too(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    # Without rejection every draw comes from the chain of moves and exchanges. The second case has
    # every row and column full: single moves alone would never leave the first mask.
    monkeypatch.setattr(_rules, "_TRIES", 0)
    _assert_uniform(case, per_set=25, seed=6)


def test_tight_bounds_where_rejection_is_hopeless() -> None:
    # Permutations of 12: rejection finds one in 12^12 / 12! = 18,614 draws.
    rng = np.random.default_rng(7)
    found = [FirstRows(12).draw(Places("W", (12, 12), Bounds(1, 1)), 12, rng) for _ in range(8)]
    for flat in found:
        assert sorted(flat // 12) == sorted(flat % 12) == list(range(12))
    assert len({flat.tobytes() for flat in found}) == 8
    fixed = sum(int(np.sum(flat // 12 == flat % 12)) for flat in found)
    assert fixed < 24  # 8 on average, 96 for a chain that is stuck


@st.composite
def _cases(draw: st.DrawFn) -> Case:
    rows, columns = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    kind = draw(st.sampled_from([FirstRows, FirstColumns]))
    k = draw(st.integers(1, rows if kind is FirstRows else columns))
    column = draw(st.one_of(st.none(), st.integers(1, 6)))
    return (
        kind(k),
        (rows, columns),
        Bounds(draw(st.integers(1, 6)), column),
        draw(st.integers(1, 36)),
    )


@given(_cases(), st.integers(0, 9))
def test_every_draw_keeps_bounds_and_size(case: Case, seed: int) -> None:
    rule, (rows, columns), bounds, count = case
    row = min(bounds.row, columns)
    column = min(rows if bounds.column is None else bounds.column, rows)
    # Without a mask that keeps both bounds there is no draw. The largest one has
    # min(k row, columns min(column, k)) entries (Gale and Ryser), and its transpose.
    if isinstance(rule, FirstRows):
        most = min(rule.k * row, columns * min(column, rule.k))
    else:
        most = min(rule.k * column, rows * min(row, rule.k))
    if count > most:
        with pytest.raises(BadInputError, match=f"cannot carry {count} .*at most {most}"):
            rule.draw(Places("W", (rows, columns), bounds), count, np.random.default_rng(seed))
        return
    flat = rule.draw(Places("W", (rows, columns), bounds), count, np.random.default_rng(seed))
    assert flat.size == count and np.all(np.diff(flat) > 0)
    i, j = np.divmod(flat, columns)
    assert i.min() >= 0 and i.max() < rows
    assert (i if isinstance(rule, FirstRows) else j).max() < rule.k
    assert np.bincount(i).max() <= row and np.bincount(j).max() <= column


def test_the_largest_count_agrees_with_brute_force() -> None:
    for k, columns, row, column in ((2, 3, 2, 1), (3, 3, 2, 2), (3, 2, 1, 2), (3, 4, 2, 1)):
        rule, shape, bounds = FirstRows(k), (k, columns), Bounds(row, column)
        counts = range(1, k * columns + 1)
        largest = max(c for c in counts if _feasible(rule, shape, bounds, c))
        rng = np.random.default_rng(0)
        assert rule.draw(Places("W", shape, bounds), largest, rng).size == largest
        with pytest.raises(BadInputError, match=f"at most {largest}"):
            rule.draw(Places("W", shape, bounds), largest + 1, rng)


def test_golden_draws() -> None:
    def one(rule: Rule, bounds: Bounds, count: int) -> list[int]:
        return rule.draw(Places("W", (4, 5), bounds), count, np.random.default_rng(0)).tolist()

    assert one(FirstRows(3), Bounds(3, None), 6) == [3, 4, 5, 11, 12, 14]
    assert one(FirstColumns(3), Bounds(5, 2), 6) == [1, 7, 10, 12, 15, 16]
    assert one(FirstRows(4), Bounds(2, 2), 7) == [2, 3, 5, 9, 10, 17, 19]


def test_large_draws_use_exact_counts() -> None:
    # The number of masks has hundreds of digits here; floats would not do.
    flat = FirstRows(40).draw(
        Places("W", (64, 64), Bounds(16, None)), 500, np.random.default_rng(0)
    )
    counts = np.bincount(flat // 64, minlength=64)
    assert flat.size == 500 and counts.max() <= 16 and counts[40:].sum() == 0
    assert counts[:40].min() > 3  # spread like a uniform draw, 12.5 on average


def test_very_large_draws_without_bounds() -> None:
    # Figure 3c: 10,000 entries in 40 rows of 784, where no bound binds.
    rng, bounds = np.random.default_rng(0), Bounds(784, None)
    flat = FirstRows(40).draw(Places("W1", (1000, 784), bounds), 10_000, rng)
    assert flat.size == np.unique(flat).size == 10_000 and (np.diff(flat) > 0).all()
    assert flat.max() < 40 * 784
    counts = np.bincount(flat // 784, minlength=40)
    # Row sizes are hypergeometric: mean 250, deviation 12.9.
    assert abs(counts - 250).max() < 5 * 12.9 and counts.std() > 6
    turned = FirstColumns(40).draw(Places("W1", (784, 1000), Bounds(1000, None)), 10_000, rng)
    assert turned.size == 10_000 and (turned % 1000).max() < 40


def test_impossible_requests() -> None:
    rng = np.random.default_rng(0)
    for rule, match in (
        (FirstRows(5), "W has 4 rows, fewer than the first 5"),
        (FirstColumns(6), "W has 5 columns, fewer than the first 6"),
        (FirstRows(2), r"first 2 rows of W cannot carry 5 weights .*\(2 in each .*at most 4\)"),
    ):
        with pytest.raises(BadInputError, match=match) as caught:
            rule.draw(Places("W", (4, 5), Bounds(2, None)), 5, rng)
        assert one_sentence(caught.value)


@pytest.mark.parametrize("kind", [FirstRows, FirstColumns])
@pytest.mark.parametrize(("k", "count"), [(0, None), (-1, 3), (1.5, 3), (2, 0), (2, -4), (2, "4")])
def test_bad_rules(kind: type, k: object, count: object) -> None:
    with pytest.raises(BadInputError, match="must be a whole number of at least 1") as caught:
        kind(k, count)
    assert one_sentence(caught.value)


def test_anywhere_is_uniform_over_all_sets() -> None:
    # Bounds that no set of three within one row keeps: they are not asked.
    rng, shape, bounds = np.random.default_rng(11), (2, 4), Bounds(1, 1)
    sets = list(combinations(range(8), 3))
    found = Counter(
        tuple(Anywhere().draw(Places("W", shape, bounds), 3, rng).tolist())
        for _ in range(25 * len(sets))
    )
    assert set(found) == set(sets)
    assert chisquare([found[s] for s in sets]).pvalue > 0.01


def test_anywhere_takes_up_to_all_entries() -> None:
    rng, bounds = np.random.default_rng(0), Bounds(1, 1)
    assert Anywhere().draw(Places("W", (2, 4), bounds), 8, rng).tolist() == list(range(8))
    with pytest.raises(BadInputError, match="W has 8 entries, fewer than 9") as caught:
        Anywhere().draw(Places("W", (2, 4), bounds), 9, rng)
    assert one_sentence(caught.value)
    for count in (0, -1, 1.5):
        with pytest.raises(BadInputError, match="count must be a whole number of at least 1"):
            Anywhere(count)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Corner(Rule):
    """A rule of one's own: entries of the first k rows and k columns."""

    k: int
    count: int | None = None

    def draw(self, places: Places, count: int, rng: np.random.Generator, trial: int = 0) -> Indices:
        inside = np.arange(self.k)[:, None] * places.shape[1] + np.arange(self.k)
        return np.sort(rng.choice(inside.ravel(), count, replace=False))


def test_a_rule_of_ones_own_is_drawn_counted_and_saved(tmp_path: Path) -> None:
    problem, rules = sl.Problem(sl.LinearRNN(n=5, b=1, d=2, T=2), samples=2), {"W": Corner(3)}
    found = sl.estimate(problem, rules, trials=10)
    masks = [sl.draw(problem, rules, trial=trial).allocation.mask("W") for trial in range(10)]
    assert all(mask.sum() == 4 and not mask[3:].any() and not mask[:, 3:].any() for mask in masks)
    assert len({mask.tobytes() for mask in masks}) > 5
    found.save(tmp_path / "e.json")
    assert sl.Estimate.load(tmp_path / "e.json", problem, rules) == found
    with pytest.raises(BadInputError, match="its allocation is another one"):
        sl.Estimate.load(tmp_path / "e.json", problem, {"W": Corner(4)})


@dataclass(frozen=True)
class Fixed(Rule):
    """A rule of one's own that draws what it was given, right or wrong."""

    drawn: object
    count: int | None = None

    def draw(self, places: Places, count: int, rng: np.random.Generator, trial: int = 0) -> Indices:
        return self.drawn  # type: ignore[return-value]


class Uncounted(Fixed):
    counted = False


def test_what_a_rule_of_ones_own_draws_is_looked_at() -> None:
    problem = sl.Problem(sl.LinearRNN(n=5, b=1, d=2, T=2), samples=2)
    for drawn in ([3, 1, 0, 2], np.array([2, 1, 0, 3], dtype=np.uint8)):
        found = sl.draw(problem, {"W": Fixed(drawn)}).allocation
        assert found.entries["W"] == ((0, 0), (0, 1), (0, 2), (0, 3))
    for few in ([4, 3], np.empty(0, dtype=np.int64)):
        rules = {"W": Uncounted(few), "D": FirstRows(1, 1)}
        assert len(sl.draw(problem, rules).allocation) == len(few) + 1
    wrong = (
        [0, 0, 1, 4],
        [0, 1],
        [-1, 0, 1, 2],
        [0, 1, 2, 25],
        [0, 1, 2, 99],
        np.eye(5, dtype=bool),
    )
    for drawn in (*wrong, [0.0, 1.0, 2.0, 3.0], [[0, 1], [2, 3]], [[0], [1, 2, 3]], None, "0123"):
        match = r"rule for W must draw 4 different numbers from 0 to 24, .* not "
        with pytest.raises(BadInputError, match=match) as caught:
            sl.draw(problem, {"W": Fixed(drawn)})
        assert one_sentence(caught.value)
    with pytest.raises(BadInputError, match="rule for W must draw different numbers from 0 to 24"):
        sl.draw(problem, {"W": Uncounted([1, 1])})
