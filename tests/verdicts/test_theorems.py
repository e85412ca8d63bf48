"""The paper's theorems where they are right: on all allocations of small networks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

import numpy as np
import pytest

import oracle
import sublearn as sl
from sublearn.verdicts import Verdict


def all_of_size(network: sl.Network, name: str, size: int) -> Iterator[sl.Allocation]:
    """Every allocation of so many entries of one weight."""
    rows, columns = network.shape(name)
    for chosen in combinations(range(rows * columns), size):
        yield sl.Allocation.from_entries(network, {name: [divmod(c, columns) for c in chosen]})


def lines_of(network: sl.LinearRNN, axis: str, lines: int, size: int) -> Iterator[sl.Allocation]:
    """Every allocation of W with so many rows (columns) of exactly ``size`` learnable weights."""
    subsets = list(combinations(range(network.n), size))
    for chosen in combinations(range(network.n), lines):
        for picks in product(subsets, repeat=lines):
            pairs = [(i, j) for i, pick in zip(chosen, picks, strict=True) for j in pick]
            turned = pairs if axis == "row" else [(j, i) for i, j in pairs]
            yield sl.Allocation.from_entries(network, {"W": turned})


def check(verdict: Verdict, theorem: str) -> set[tuple[str | None, bool | None]]:
    """What the verdict says about one printed theorem."""
    return {(c.says, c.holds) for c in verdict.theorems if c.theorem == theorem}


def test_theorem_3_1_decoder() -> None:
    # m <= T b <= n, as it assumes.
    problem = sl.Problem(sl.LinearRNN(n=4, b=1, d=2, T=3), samples=2)
    for allocation in all_of_size(problem.network, "D", 4):
        verdict = sl.certify(problem, allocation)
        even = (allocation.row_counts("D") == 2).all()
        assert verdict.kind == ("maximal" if even else "minimal")
        assert check(verdict, "Theorem 3.1") == {(verdict.kind, True)}


def test_section_2_1_estimator() -> None:
    problem = sl.Problem(sl.LinearEstimator(inputs=3, outputs=2), samples=2)
    for allocation in all_of_size(problem.network, "W", 4):
        verdict = sl.certify(problem, allocation)
        even = (allocation.row_counts("W") == 2).all()
        assert verdict.kind == ("maximal" if even else "minimal")
        assert check(verdict, "Section 2.1") == {(verdict.kind, True)}


def test_last_layer_is_a_decoder() -> None:
    problem = sl.Problem(sl.FeedForward((3, 4, 2)), samples=2)
    for allocation in all_of_size(problem.network, "W2", 4):
        verdict = sl.certify(problem, allocation)
        even = (allocation.row_counts("W2") == 2).all()
        assert verdict.kind == ("maximal" if even else "minimal")
        assert check(verdict, "Section 4 (last layer)") == {(verdict.kind, True)}


def test_theorem_3_2_necessity() -> None:
    problem = sl.Problem(sl.LinearRNN(n=3, b=3, d=2, T=1), samples=2)
    seen = {True: 0, False: 0}
    for allocation in all_of_size(problem.network, "B", 4):
        verdict = sl.certify(problem, allocation)
        fits = allocation.row_counts("B").max() <= 2 and allocation.column_counts("B").max() <= 2
        if not fits:
            assert verdict.kind == "minimal"
            assert check(verdict, "Theorem 3.2") == {("minimal", True)}
        seen[bool(fits)] += 1
    assert seen == {True: 90, False: 36}


@pytest.mark.parametrize(
    ("n", "b", "d", "T", "m"), [(6, 1, 2, 2, 2), (5, 1, 1, 3, 3), (4, 2, 1, 2, 4), (5, 2, 2, 2, 4)]
)
def test_theorem_3_2_is_right_for_one_input_and_for_m_equal_tb(
    n: int, b: int, d: int, T: int, m: int
) -> None:
    assert b == 1 or m == T * b
    problem = sl.Problem(sl.LinearRNN(n=n, b=b, d=d, T=T), samples=m)
    for allocation in all_of_size(problem.network, "B", d * m):
        verdict = sl.certify(problem, allocation)
        fits = (
            allocation.row_counts("B").max() <= T * m
            and allocation.column_counts("B").max() <= T * d
        )
        assert verdict.kind == ("maximal" if fits else "minimal")
        assert check(verdict, "Theorem 3.2") == {(verdict.kind, True)}


@pytest.mark.parametrize(
    ("n", "b", "d", "T", "m"), [(4, 1, 1, 2, 2), (3, 1, 2, 2, 2), (3, 2, 1, 1, 2), (3, 3, 1, 2, 2)]
)
def test_theorem_3_4(n: int, b: int, d: int, T: int, m: int) -> None:
    problem = sl.Problem(sl.LinearRNN(n=n, b=b, d=d, T=T), samples=m)
    for allocation in all_of_size(problem.network, "W", d * m):
        verdict = sl.certify(problem, allocation)
        rows, columns = allocation.row_counts("W"), allocation.column_counts("W")
        if rows.max() > T * b or columns.max() > T * d:
            assert check(verdict, "Theorem 3.4") == {("minimal", True)}
        exact = rows.max() <= T * min(b, m) and columns.max() <= d * min(T, m)
        assert exact == (not verdict.broken)
        if not exact:
            assert (verdict.kind, verdict.grade.kind) == ("minimal", "proof")


@pytest.mark.parametrize(
    ("n", "b", "d", "T", "m"),
    [(3, 1, 1, 2, 2), (4, 2, 2, 2, 2), (4, 2, 1, 2, 4), (3, 3, 1, 2, 2), (4, 1, 2, 1, 2)],
)
def test_theorem_3_5_for_columns(n: int, b: int, d: int, T: int, m: int) -> None:
    problem = sl.Problem(sl.LinearRNN(n=n, b=b, d=d, T=T), samples=min(m, T * b))
    m = problem.samples
    found = 0
    for allocation in lines_of(problem.network, "column", m // T, T * d):
        verdict = sl.certify(problem, allocation)
        assert (verdict.kind, verdict.grade.kind) == ("maximal", "proof")
        assert ("maximal", True) in check(verdict, "Theorem 3.5")
        found += 1
    assert found


@pytest.mark.parametrize(
    ("n", "b", "d", "T", "m"), [(3, 1, 1, 2, 2), (4, 2, 1, 2, 4), (4, 1, 2, 2, 2), (3, 2, 1, 1, 2)]
)
def test_theorem_3_5_for_rows_is_right_for_m_equal_tb(
    n: int, b: int, d: int, T: int, m: int
) -> None:
    assert m == T * b
    problem = sl.Problem(sl.LinearRNN(n=n, b=b, d=d, T=T), samples=m)
    for allocation in lines_of(problem.network, "row", d, T * b):
        verdict = sl.certify(problem, allocation)
        assert (verdict.kind, verdict.grade.kind) == ("maximal", "proof")
        assert ("maximal", True) in check(verdict, "Theorem 3.5")


@pytest.mark.parametrize(
    ("n", "b", "d", "T", "m"), [(4, 1, 2, 2, 1), (4, 2, 2, 2, 2), (8, 1, 4, 2, 1), (8, 2, 4, 2, 2)]
)
def test_saturated_rows_have_full_rank_where_b_divides_m_and_td_fits(
    n: int, b: int, d: int, T: int, m: int
) -> None:
    assert m % b == 0 and m < T * b and d * m % (T * b) == 0 and T * d <= n
    problem = sl.Problem(sl.LinearRNN(n=n, b=b, d=d, T=T), samples=m)
    rng = np.random.default_rng(0)
    for _ in range(20):
        rows = rng.choice(n, d * m // (T * b), replace=False)
        pairs = [(int(i), int(j)) for i in rows for j in rng.choice(n, T * b, replace=False)]
        verdict = sl.certify(problem, sl.Allocation.from_entries(problem.network, {"W": pairs}))
        assert (verdict.rank, verdict.kind) == (d * m, "maximal")


def test_saturated_rows_can_be_deficient_where_td_does_not_fit() -> None:
    # b = 1 divides m = 2, but T d = 9 > n = 3: two whole rows have rank 5 of 6.
    problem = sl.Problem(sl.LinearRNN(n=3, b=1, d=3, T=3), samples=2)
    rows = sl.Allocation.from_rows(problem.network, "W", [0, 1])
    verdict = sl.certify(problem, rows)
    assert verdict.rank == oracle.oracle_of(problem).rank(rows) == 5
    assert (verdict.kind, verdict.needed) == ("minimal", 6)
    assert ("maximal", False) in check(verdict, "Theorem 3.5")
    assert any("T d > n" in c.why for c in verdict.theorems)


def test_theorem_4_1_printed_and_meant() -> None:
    problem = sl.Problem(sl.FeedForward((3, 3, 2)), samples=2)
    truth = oracle.oracle_of(problem)
    failures = {"or": 0, "and": 0}
    for allocation in all_of_size(problem.network, "W1", 4):
        rows = allocation.row_counts("W1").max() <= 2
        columns = allocation.column_counts("W1").max() <= 2
        full = truth.rank(allocation) == 4
        verdict = sl.certify(problem, allocation)
        printed, *rest = verdict.theorems
        assert printed.says == ("maximal" if rows or columns else "minimal")
        assert printed.holds == ((rows or columns) == full)
        meant = rest[0] if rest else printed
        assert meant.says == ("maximal" if rows and columns else "minimal")
        assert meant.holds == ((rows and columns) == full)
        failures["or"] += not printed.holds
        failures["and"] += not meant.holds
    # 9 of the 90 that keep both bounds fail; "or" lets in all that break only one.
    assert failures == {"or": 45, "and": 9}


@pytest.mark.parametrize(
    ("n", "b", "d", "T"), [(1, 1, 1, 3), (2, 1, 1, 5), (1, 2, 2, 2), (2, 1, 2, 4), (2, 2, 2, 3)]
)
def test_theorem_b_1(n: int, b: int, d: int, T: int) -> None:
    assert T * b * d > n * (d + b)
    problem = sl.Problem(sl.LinearRNN(n=n, b=b, d=d, T=T), samples=T * b)
    some = sl.Allocation.from_entries(problem.network, {"W": [(0, 0)]})
    verdict = sl.certify(problem, some)
    truth = oracle.oracle_of(problem)
    assert verdict.needed == truth.needed <= n * (d + b)
    assert any("Theorem B.1" in reason for reason in verdict.reasons)


def test_lemmas_d_3_and_d_4_are_necessary_and_their_counts_upper_bounds() -> None:
    d, m, rows = 2, 2, 3
    problem = sl.Problem(sl.FeedForward((3, rows, d), activation="relu"), samples=m)
    entries = [(0, 0), (0, 1), (1, 1), (2, 2)]
    allocation = sl.Allocation.from_entries(problem.network, {"W1": entries})
    sizes = allocation.row_counts("W1")
    kept = {"D.3": 0, "D.4": 0, "both": 0, "full": 0}
    for bits in product((0, 1), repeat=rows * m):
        gates = np.array(bits).reshape(rows, m)
        enough_units = bool((gates.sum(axis=0) >= d).all())
        enough_samples = bool((gates.sum(axis=1) >= sizes).all())
        full = sl.verdicts.gated_rank(problem, allocation, {0: gates}).rank == d * m
        assert not full or (enough_units and enough_samples)
        kept["D.3"] += enough_units
        kept["D.4"] += enough_samples
        kept["both"] += enough_units and enough_samples
        kept["full"] += full
    assert kept["full"] <= kept["both"] < min(kept["D.3"], kept["D.4"])
