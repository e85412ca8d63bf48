"""Every small counterexample to the paper, with its verdict and with what it says of the theorem."""

from __future__ import annotations

import random

import numpy as np
import pytest

import oracle
import sublearn as sl
from sublearn.verdicts import TheoremCheck, Verdict

CROSS = [(2, 0), (2, 1), (0, 2), (1, 2)]


def certified(text: str, samples: int, entries: dict[str, list[tuple[int, int]]]) -> Verdict:
    """The verdict; its rank and needed agree with the oracle."""
    problem = sl.Problem(sl.networks.network_from_text(text), samples)
    allocation = sl.Allocation.from_entries(problem.network, entries)
    verdict = sl.certify(problem, allocation)
    truth = oracle.oracle_of(problem)
    assert (verdict.rank, verdict.needed) == (truth.rank(allocation), truth.needed)
    return verdict


def summary(verdict: Verdict) -> tuple[str, int, int, int]:
    return verdict.kind, verdict.rank, verdict.needed, verdict.wasted


def wrong(verdict: Verdict) -> list[TheoremCheck]:
    """The printed statements that fail here."""
    found = [check for check in verdict.theorems if check.holds is False]
    assert all(check.why for check in found), "a statement that fails needs a reason"
    return found


def test_theorem_4_1_with_or() -> None:
    verdict = certified("ffn:2-2-1", 2, {"W1": [(0, 0), (1, 0)]})
    assert summary(verdict) == ("minimal", 1, 2, 1)
    (check,) = wrong(verdict)
    assert (check.theorem, check.says) == ("Theorem 4.1", "maximal")
    assert "both conditions" in check.why
    meant = verdict.theorems[1]
    assert (meant.says, meant.holds) == ("minimal", True)
    assert "column 0 of W1 has 2 learnable weights, but only 1" in str(verdict.broken[0])


@pytest.mark.parametrize(("text", "name"), [("ffn:3-3-2", "W1"), ("ffn:3-3-3-2", "W2")])
def test_theorem_4_1_with_and(text: str, name: str) -> None:
    verdict = certified(text, 2, {name: CROSS})
    assert summary(verdict) == ("minimal", 3, 4, 1)
    assert [(check.theorem, check.says) for check in wrong(verdict)] == [
        ("Theorem 4.1", "maximal")
    ] * 2
    assert all("B.12" in check.why for check in wrong(verdict))
    assert not verdict.broken
    assert verdict.circuit is not None and len(verdict.circuit) == 4
    assert "cross at (2, 2), which is not learnable" in verdict.circuit.words


def test_theorem_3_2() -> None:
    verdict = certified("lrnn:n=3,b=3,d=2,T=1", 2, {"B": CROSS})
    assert summary(verdict) == ("minimal", 3, 4, 1)
    (check,) = wrong(verdict)
    assert (check.theorem, check.says) == ("Theorem 3.2", "maximal")
    assert "B.12" in check.why


def test_theorem_3_4_is_not_tight() -> None:
    entries = [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (2, 0), (3, 0), (1, 1)]
    verdict = certified("lrnn:n=4,b=2,d=2,T=2", 4, {"W": entries})
    assert summary(verdict) == ("minimal", 7, 8, 1)
    check = verdict.theorems[0]
    assert (check.theorem, check.says, check.holds) == ("Theorem 3.4", None, None)
    assert "7 of 8" in check.why
    assert verdict.grade.kind == "probability" and verdict.grade.error <= 1e-12


def test_theorem_3_4_exact_row_bound() -> None:
    # b = 3 > m = 1: a row of W carries T min(b, m) = 2 weights, the printed bound is T b = 6.
    verdict = certified("lrnn:n=4,b=3,d=3,T=2", 1, {"W": [(0, 0), (0, 1), (0, 2)]})
    assert summary(verdict) == ("minimal", 2, 3, 1)
    assert verdict.broken[0].limit == 2 and verdict.theorems[0].says is None


def test_theorem_3_4_exact_column_bound() -> None:
    # T = 3 > m = 2: a column of W carries d min(T, m) = d m = 2 weights, the printed bound is T d = 3.
    problem = sl.Problem(sl.LinearRNN(n=4, b=1, d=1, T=3), samples=2)
    column = sl.Allocation.from_columns(problem.network, "W", [0])
    verdict = sl.certify(problem, column)
    assert verdict.rank == 2 == oracle.oracle_of(problem).rank(column)
    assert [(bound.axis, bound.limit) for bound in verdict.broken] == [("column", 2)]


def test_theorem_3_5_for_rows() -> None:
    verdict = certified("lrnn:n=2,b=2,d=2,T=1", 1, {"W": [(0, 0), (0, 1)]})
    assert summary(verdict) == ("minimal", 1, 2, 1)
    (check,) = wrong(verdict)
    assert (check.theorem, check.says) == ("Theorem 3.5", "maximal")
    assert "b does not divide m" in check.why


def test_lemma_b_4() -> None:
    verdict = certified("lrnn:n=2,b=1,d=1,T=5", 5, {"W": [(0, 0), (1, 1)], "B": [(0, 0), (1, 0)]})
    assert summary(verdict) == ("between", 4, 4, 0)
    assert verdict.learnable == 4 < verdict.equations == 5
    (check,) = wrong(verdict)
    assert (check.theorem, check.says) == ("Lemma B.4", "minimal")
    assert any("Theorem B.1" in reason for reason in verdict.reasons)


def test_lemma_b_12_and_its_second_bound() -> None:
    # k = 1, d = m = 2: four products V_i U_j, none of the factors used more than twice.
    rng = random.Random(0)
    V = [oracle.random_matrix(rng, 2, 1) for _ in range(3)]
    U = [oracle.random_matrix(rng, 1, 2) for _ in range(3)]

    def rank(pairs: list[tuple[int, int]]) -> int:
        return oracle.rank_of([int(x) for x in (V[i] * U[j]).entries()] for i, j in pairs)

    assert rank(CROSS) == 3
    # The printed bound m d = 4 for U would allow the same U four times; m k = 2 is the most.
    assert rank([(0, 0), (1, 0), (2, 0)]) == 2


def test_lemma_b_13() -> None:
    # E[(W^2)_01^2] is 1/n for entries of variance 1/n, against the printed bound 3/n^2.
    rng = np.random.default_rng(0)
    n = 16
    W = rng.standard_normal((20_000, n, n)) / np.sqrt(n)
    moment = float(np.mean(np.einsum("kj,kj->k", W[:, 0, :], W[:, :, 1]) ** 2))
    assert moment == pytest.approx(1 / n, rel=0.05)
    assert moment > 4 * 3 / n**2


def test_section_5_columns_under_relu() -> None:
    # d = 2, m = 3, k = 4 units: a column of 4 weights has rank 4 in the linear network, 6 with gates.
    entries = {"W1": [(0, 0), (1, 0), (2, 0), (3, 0), (0, 1), (1, 1)]}
    linear = certified("ffn:5-4-2", 3, entries)
    assert summary(linear) == ("minimal", 4, 6, 2)
    problem = sl.Problem(sl.FeedForward((5, 4, 2), activation="relu"), samples=3)
    column = sl.Allocation.from_entries(problem.network, entries)
    opened = sl.verdicts.gated_rank(problem, column, {0: np.ones((4, 3))})
    mixed = sl.verdicts.gated_rank(
        problem, column, {0: [[1, 1, 0], [1, 0, 1], [0, 1, 1], [1, 1, 1]]}
    )
    assert (opened.rank, mixed.rank) == (4, 6)
    assert mixed.grade.kind == "proof" and opened.grade.error <= 1e-12
    verdict = sl.certify(problem, column)
    assert verdict.kind == "between"
    (check,) = wrong(verdict)
    assert (check.theorem, check.says) == ("Section 5", "minimal")


@pytest.mark.parametrize(("n", "b", "d", "T"), [(2, 1, 1, 2), (3, 2, 1, 2), (3, 1, 2, 3)])
def test_the_printed_recursion_would_make_all_of_w_minimal(n: int, b: int, d: int, T: int) -> None:
    # (3.1)-(3.2) give Y = D sum W^(T-t) B X_t: the last input meets no W, so with m = T b the
    # d b outputs that belong to it cannot move.
    point = oracle.draw(sl.LinearRNN(n=n, b=b, d=d, T=T), T * b, seed=0)
    W, B, D = (point.weights[name] for name in "WBD")
    columns = []
    for i in range(n):
        for j in range(n):
            E = oracle.unit(n, n, i, j)
            moved = [
                oracle.product(D, oracle.power(W, a), E, oracle.power(W, T - t - 1 - a), B, X)
                for t, X in enumerate(point.inputs, 1)
                for a in range(T - t)
            ]
            columns.append([int(x) for x in oracle.total(moved).entries()])
    assert oracle.rank_of(columns) <= d * (T - 1) * b < d * T * b


@pytest.mark.parametrize("n", [6, 8])
def test_figure_3a_is_minimal_at_two_rows(n: int) -> None:
    problem = sl.Problem(sl.FeedForward((4, n, n, 6)), samples=4)
    # The paper counts columns in the first layer, rows in the others.
    rules = {"W1": sl.FirstColumns(2, 8), "W2": sl.FirstRows(2, 8), "W3": sl.FirstRows(2, 8)}
    truth = oracle.oracle_of(problem)
    for seed in range(3):
        drawn = problem.draw_allocation(rules, np.random.default_rng(seed))
        verdict = sl.certify(problem, drawn)
        assert verdict.kind == "minimal"
        assert verdict.rank == truth.rank(drawn) <= 20 < verdict.needed == 24


def test_figure_2_has_no_column_bound_and_no_deficiency() -> None:
    # T = n / 2, d = 4: T d = 2 n, so no column of n entries can break it.
    problem = sl.Problem(sl.LinearRNN(n=8, b=1, d=4, T=4), samples=4)
    assert problem.network.degree_bounds("W", 4).column == 8
    for k in range(4, 9):
        for seed in range(5):
            drawn = problem.draw_allocation({"W": sl.FirstRows(k)}, np.random.default_rng(seed))
            verdict = sl.certify(problem, drawn)
            assert (verdict.rank, verdict.wasted, verdict.broken) == (16, 0, ())
            assert verdict.kind == ("maximal" if k == 4 else "between")
