"""The paper's heuristic: how many quadratic equations are left, by hand."""

from __future__ import annotations

import numpy as np
import pytest

import sublearn as sl
from sublearn.verdicts import EquationCounts, Equations
from sublearn.verdicts._equations import equation_counts


def counts(
    text: str, samples: int, entries: dict[str, list[tuple[int, int]]]
) -> EquationCounts | None:
    problem = sl.Problem(sl.networks.network_from_text(text), samples)
    return equation_counts(problem, sl.Allocation.from_entries(problem.network, entries))


@pytest.mark.parametrize("k", [4, 5, 6, 7, 8])
def test_figure_2(k: int) -> None:
    # n = 8, T = m = 4, b = 1, d = 4: T b k - d m = 4 k - 16, and T d c - d m = 16 c - 16.
    problem = sl.Problem(sl.LinearRNN(n=8, b=1, d=4, T=4), 4)
    drawn = problem.draw_allocation({"W": sl.FirstRows(k)}, np.random.default_rng(k))
    rows = int((drawn.row_counts("W") > 0).sum())
    columns = int((drawn.column_counts("W") > 0).sum())
    found = sl.certify(problem, drawn).counts
    assert found is not None
    assert found.by_rows == Equations(32 + 16 - 4 * rows, 4 * rows, 4 * rows - 16)
    assert found.by_columns == Equations(128 + 16 - 16 * columns, 16 * columns, 16 * columns - 16)


def test_saturated_allocations_leave_nothing() -> None:
    rows = counts("lrnn:n=4,b=1,d=2,T=2", 2, {"W": [(0, 0), (0, 1), (3, 2), (3, 3)]})
    assert rows is not None and rows.by_rows.left == 0
    columns = counts("lrnn:n=4,b=1,d=2,T=2", 2, {"W": [(i, 1) for i in range(4)]})
    assert columns is not None and columns.by_columns.left == 0


@pytest.mark.parametrize("k", [2, 3, 4])
def test_figure_3a(k: int) -> None:
    # q = m = 4, d = 6, hidden layers of 8, 8 weights in each layer: the first layer within k
    # columns, the others within k rows. By rows: 4 for each row of W2 and W3, less their weights.
    problem = sl.Problem(sl.FeedForward((4, 8, 8, 6)), 4)
    rules = {"W1": sl.FirstColumns(k, 8), "W2": sl.FirstRows(k, 8), "W3": sl.FirstRows(k, 8)}
    drawn = problem.draw_allocation(rules, np.random.default_rng(0))
    rows = sum(int((drawn.row_counts(name) > 0).sum()) for name in ("W2", "W3"))
    columns = sum(int((drawn.column_counts(name) > 0).sum()) for name in ("W1", "W2"))
    found = sl.certify(problem, drawn).counts
    assert found is not None
    assert found.by_rows == Equations(4 * (8 + 8 + 6) - 4 * rows, 4 * rows, 4 * rows - 16)
    # By columns: readouts of 6 x 8, 6 x 8 and 6 x 4, and the first one times X is Y.
    total = 6 * (8 + 8 + 4) + 24
    assert found.by_columns == Equations(total - 6 * columns, 6 * columns, 6 * columns - 16)


@pytest.mark.parametrize(
    ("text", "samples", "entries", "by_rows", "by_columns"),
    [
        # One estimator: d m linear equations.
        ("linear:inputs=3,outputs=2", 2, {"W": [(0, 0)]}, (4, 0, 0), (4, 0, 0)),
        # Only the encoder, only the decoder, one layer: all linear.
        ("lrnn:n=3,b=2,d=2,T=2", 4, {"B": [(0, 0)]}, (12 + 8, 0, 0), (12 + 8, 0, 0)),
        ("lrnn:n=3,b=2,d=2,T=2", 4, {"D": [(0, 0)]}, (12 + 8, 0, 0), (12 + 8, 0, 0)),
        ("ffn:3-4-2", 3, {"W1": [(0, 0)]}, (12 + 6, 0, 0), (8 + 6 + 6, 0, 0)),
        ("ffn:3-4-2", 3, {"W2": [(0, 0)]}, (12 + 6, 0, 0), (8 + 6 + 6, 0, 0)),
        # W with D: the row of D that moves has m = 4 quadratic equations, each row of W T b = 4.
        (
            "lrnn:n=3,b=2,d=2,T=2",
            4,
            {"W": [(0, 0), (0, 1)], "D": [(1, 0)]},
            (20 - 8, 8, 8 - 3),
            (20 - 8, 8, 8 - 2),
        ),
        # W with B: by columns all d m = 8 equations F (I x B) X = Y are bilinear.
        (
            "lrnn:n=3,b=2,d=2,T=2",
            4,
            {"W": [(0, 0)], "B": [(1, 0), (2, 1)]},
            (20 - 4, 4, 4 - 1),
            (20 - 12, 12, 12 - 3),
        ),
        # B with D: no recurrent weight moves, but the states do.
        (
            "lrnn:n=3,b=2,d=2,T=2",
            4,
            {"B": [(0, 0)], "D": [(0, 0), (0, 1)]},
            (20 - 4, 4, 4 - 2),
            (20 - 8, 8, 8 - 1),
        ),
        # Dependent samples: m' = 2 of 5.
        ("lrnn:n=3,b=1,d=1,T=2", 5, {"W": [(0, 0), (1, 1)]}, (8 - 4, 4, 2), (8 - 4, 4, 2)),
        # Two layers: rows of W2 by rows, columns of W1 by columns.
        (
            "ffn:3-4-2",
            3,
            {"W1": [(0, 0), (1, 2)], "W2": [(0, 0), (0, 1), (0, 2)]},
            (18 - 3, 3, 0),
            (20 - 4, 4, 2),
        ),
        # A learnable bias of the first layer makes the states unknown, too.
        (
            "ffn:2-2-2,bias=yes",
            2,
            {"b1": [(0, 0)], "W2": [(0, 0), (1, 1)]},
            (8 - 4, 4, 2),
            (12, 0, 0),
        ),
    ],
)
def test_by_hand(
    text: str,
    samples: int,
    entries: dict[str, list[tuple[int, int]]],
    by_rows: tuple[int, int, int],
    by_columns: tuple[int, int, int],
) -> None:
    found = counts(text, samples, entries)
    assert found == EquationCounts(Equations(*by_rows), Equations(*by_columns))


def test_equations_match_unknowns() -> None:
    """Both lifts have as many equations as unknowns if r = d m', so the totals are theirs."""
    problem = sl.Problem(sl.FeedForward((3, 4, 5, 2)), 2)
    rng = np.random.default_rng(0)
    for _ in range(20):
        held = sl.Allocation.whole(problem.network).select(rng.permutation(42)[:4])
        found = equation_counts(problem, held)
        assert found is not None
        assert found.by_rows.linear + found.by_rows.quadratic == 2 * (4 + 5) + 4
        assert found.by_columns.linear + found.by_columns.quadratic == 2 * (5 + 4 + 3) + 4


@pytest.mark.parametrize("text", ["rnn:n=3,b=1,d=1,T=2", "ffn:2-2-2,activation=relu"])
def test_nonlinear_networks_have_no_such_counts(text: str) -> None:
    network = sl.networks.network_from_text(text)
    name = next(iter(network.shapes))
    verdict = sl.certify(
        sl.Problem(network, 2), sl.Allocation.from_entries(network, {name: [(0, 0)]})
    )
    assert verdict.counts is None and verdict.to_dict()["lifted_equations"] is None


def test_in_json() -> None:
    problem = sl.Problem(sl.LinearRNN(n=2, b=1, d=1, T=2), 2)
    verdict = sl.certify(problem, sl.Allocation.diagonal(problem.network, "W"))
    assert verdict.to_dict()["lifted_equations"] == {
        "by_rows": {"linear": 2, "quadratic": 4, "left": 2},
        "by_columns": {"linear": 2, "quadratic": 4, "left": 2},
    }
