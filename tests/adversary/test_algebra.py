"""The second implementation's own algebra, against sympy and by hand."""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from flint import fmpq, fmpq_mpoly_ctx

import sublearn as sl
from adversary import algebra
from adversary.cells import Cell, make
from adversary.truth import truth

needs_msolve = pytest.mark.skipif(algebra.msolve() is None, reason="msolve is not installed")


def _rows(values: np.ndarray) -> list[list[fmpq]]:
    return [[fmpq(int(v)) for v in row] for row in values]


@pytest.mark.parametrize("trial", range(20))
def test_ranks_are_those_of_sympy(trial: int) -> None:
    rng = np.random.default_rng(trial)
    inner = int(rng.integers(1, 4))
    matrix = rng.integers(-2, 3, (4, inner)) @ rng.integers(-2, 3, (inner, 5))
    wanted = sympy.Matrix(matrix.tolist()).rank()
    assert algebra.rank(_rows(matrix)) == wanted
    null = algebra.left_null(_rows(matrix))
    assert len(null) == 4 - wanted
    for vector in null:
        for column in zip(*_rows(matrix), strict=True):
            assert sum((a * b for a, b in zip(vector, column, strict=True)), fmpq(0)) == 0


@pytest.mark.parametrize("trial", range(20))
def test_real_roots_are_counted_as_sympy_does(trial: int) -> None:
    rng = np.random.default_rng(trial)
    coefficients = [int(v) for v in rng.integers(-5, 6, int(rng.integers(2, 7)))] + [1]
    x = sympy.Symbol("x")
    polynomial = sum(c * x**k for k, c in enumerate(coefficients))
    wanted = len(set(sympy.Poly(polynomial, x).real_roots()))
    assert algebra.count_real_roots([[fmpq(c) for c in coefficients]]) == wanted
    if algebra.msolve() is None:
        return
    ring = fmpq_mpoly_ctx.get(["x0"], "degrevlex")
    boxes = algebra.real_roots(
        [ring.from_dict({(k,): fmpq(c) for k, c in enumerate(coefficients) if c})], 1
    )
    assert boxes is not None and len(boxes) == wanted


def test_linear_programs_by_hand() -> None:
    # x >= 1, y >= 1, x + y = 2: one point. With x + y = 2 - 1e-30: none.
    low = [[fmpq(1), fmpq(0), fmpq(-1)], [fmpq(0), fmpq(1), fmpq(-1)]]
    assert algebra.feasible([[fmpq(1), fmpq(1), fmpq(-2)]], low)
    assert not algebra.feasible([[fmpq(1), fmpq(1), fmpq(-2) + fmpq(1, 10**30)]], low)


@pytest.mark.parametrize("trial", range(10))
def test_linear_programs_agree_with_highs(trial: int) -> None:
    from scipy.optimize import linprog

    rng = np.random.default_rng(trial)
    A, G = rng.integers(-4, 5, (2, 5)), rng.integers(-4, 5, (6, 5))
    # Widened or narrowed by 1/2: HiGHS is never at the edge.
    found = linprog(
        np.zeros(4),
        A_ub=-G[:, :4],
        b_ub=G[:, 4] + 0.5,
        A_eq=A[:, :4],
        b_eq=-A[:, 4],
        bounds=(None, None),
    )
    wide = _rows(G)
    for row in wide:
        row[4] = row[4] + fmpq(1, 2)
    assert algebra.feasible(_rows(A), wide) == (found.status == 0)


@needs_msolve
def test_systems_in_two_variables() -> None:
    ring = fmpq_mpoly_ctx.get(["x0", "x1"], "degrevlex")
    x, y = ring.gens()
    assert len(algebra.real_roots([x**2 + y**2 - 5, x * y - 2], 2) or []) == 4
    assert algebra.real_roots([x**2 + 1, y - 3], 2) == []
    assert algebra.real_roots([x, x - 1, y], 2) == []
    assert algebra.real_roots([x * y], 2) is None


def test_a_planted_solution_is_never_refuted() -> None:
    for network in (
        "linear-rnn linear",
        "shallow relu",
        "deep relu",
        "shallow linear",
        "layer >relu",
    ):
        for index in (0, 1, 2):
            case = make(Cell(network, "planted", "above", "below", "uniform"), index)
            assert case.planted and truth(case.instance).kind in ("matched", None)


def test_truth_by_hand() -> None:
    # relu(w x) = 1 at x = 1 and at x = -1: no w.
    net = sl.FeedForward((1, 1, 1), activation="relu")
    asked = sl.Allocation.whole(net, ["W1"])
    ones = {"W1": np.ones((1, 1)), "W2": np.ones((1, 1))}
    both = np.array([[1.0, -1.0]])
    assert truth(sl.Instance(net, asked, ones, both, np.array([[1.0, 1.0]]))).kind == "refuted"
    assert truth(sl.Instance(net, asked, ones, both, np.array([[1.0, 0.0]]))).kind == "matched"
    # w^2 = -1 and w^2 = 2 through T = 2 steps of one unit, x = (1, 0).
    rnn = sl.LinearRNN(n=1, b=1, d=1, T=2)
    one = {name: np.ones((1, 1)) for name in "WBD"}
    x = np.array([[[1.0]], [[0.0]]])
    for target, kind in ((-1.0, "refuted"), (2.0, "matched")):
        asked = sl.Allocation.whole(rnn, ["W"])
        assert truth(sl.Instance(rnn, asked, one, x, np.array([[target]]))).kind == kind
    # tanh(w) = 1 has no solution, tanh(w) = 0.999 has one.
    flat = sl.FeedForward((1, 1), output="tanh")
    for target, kind in ((1.0, "refuted"), (0.999, "matched")):
        given = sl.Instance(
            flat,
            sl.Allocation.whole(flat),
            {"W1": np.ones((1, 1))},
            np.ones((1, 1)),
            np.array([[target]]),
        )
        assert truth(given).kind == kind
