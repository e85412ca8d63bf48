"""Degree bounds and the flow behind them: never below the rank, never above the simple sums."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import sublearn as sl
from oracle import oracle_of
from sublearn.verdicts._bounds import broken_bounds, rank_bound

PROBLEMS = [
    sl.Problem(sl.LinearEstimator(inputs=3, outputs=3), 2),
    sl.Problem(sl.FeedForward((3, 4, 2)), 3),
    sl.Problem(sl.FeedForward((3, 2, 4, 3)), 3),
    sl.Problem(sl.FeedForward((2, 3, 2), bias=True), 4),
    sl.Problem(sl.LinearRNN(n=3, b=2, d=2, T=2), 3),
    sl.Problem(sl.LinearRNN(n=3, b=3, d=1, T=3), 2),
    sl.Problem(sl.LinearRNN(n=2, b=1, d=2, T=4), 4),
    sl.Problem(sl.FeedForward((4, 3, 3)), 4, sl.Ensemble(inputs=sl.ensembles.LowRank(rank=2))),
]


def crowded(network: sl.Network, rng: np.random.Generator) -> sl.Allocation:
    """A random allocation that crowds a few rows and columns."""
    masks = {}
    for name, (rows, columns) in network.shapes.items():
        across, down = rng.random((rows, 1)) < 0.4, rng.random((1, columns)) < 0.4
        masks[name] = (across | down) & (rng.random((rows, columns)) < 0.8)
    held = sl.Allocation.from_masks(network, masks)
    return held if len(held) else sl.Allocation.whole(network)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.network.spec)
def test_the_bound_lies_between_the_rank_and_the_sums(problem: sl.Problem) -> None:
    network, truth = problem.network, oracle_of(problem)
    rng = np.random.default_rng(0)
    tight = 0
    for _ in range(60):
        held = crowded(network, rng)
        bound, rank = rank_bound(problem, held), truth.rank(held)
        assert rank <= bound <= min(len(held), network.expressible(problem.effective_samples))
        by_rows = by_columns = 0
        for name in held.names:
            limits = network.degree_bounds(name, problem.effective_samples)
            assert limits.column is not None
            by_rows += int(np.minimum(held.row_counts(name), limits.row).sum())
            by_columns += int(np.minimum(held.column_counts(name), limits.column).sum())
        assert bound <= min(by_rows, by_columns)
        tight += rank == bound
    assert tight > 20


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.network.spec)
def test_a_full_line_reaches_its_bound(problem: sl.Problem) -> None:
    # The limits are exact: a whole row, or column, has exactly that rank, if the outputs allow it.
    network, truth = problem.network, oracle_of(problem)
    most = truth.needed
    for name, (rows, columns) in network.shapes.items():
        limits = network.degree_bounds(name, problem.effective_samples)
        row = sl.Allocation.from_rows(network, name, [rows - 1])
        assert truth.rank(row) == min(limits.row, most), (name, columns)
        column = sl.Allocation.from_columns(network, name, [0])
        assert limits.column is not None
        assert truth.rank(column) == min(limits.column, most), (name, rows)


def largest_part(pairs: tuple[tuple[int, int], ...], limit: int) -> int:
    """The most entries with at most ``limit`` in any row and any column, by looking at all parts."""
    for size in range(len(pairs), 0, -1):
        for part in combinations(pairs, size):
            rows, columns = zip(*part, strict=True)
            if max(map(rows.count, rows)) <= limit and max(map(columns.count, columns)) <= limit:
                return size
    return 0


def test_the_flow_is_the_largest_part_within_the_limits() -> None:
    # Rows and columns of W1 carry 3 each; a row with a column stays below d m = 9.
    problem = sl.Problem(sl.FeedForward((5, 5, 3)), 3)
    rng = np.random.default_rng(3)
    binding = 0
    for _ in range(80):
        mask = np.zeros((5, 5), dtype=bool)
        mask[rng.integers(5), :] = rng.random(5) < 0.9
        mask[:, rng.integers(5)] |= rng.random(5) < 0.9
        held = sl.Allocation.from_masks(problem.network, {"W1": mask})
        best = largest_part(held.entries["W1"], 3)
        assert rank_bound(problem, held) == best
        by_rows = int(np.minimum(mask.sum(axis=1), 3).sum())
        by_columns = int(np.minimum(mask.sum(axis=0), 3).sum())
        binding += best < min(by_rows, by_columns)
    assert binding > 3, "some cases need both limits at once"


def test_the_flow_is_needed_where_rows_and_columns_both_bind() -> None:
    # A whole row and a whole column of a 5 x 5 layer, d = m = 3: rows allow 3 + 4, columns alike,
    # but both limits together leave 3 + 3 - 1 or 3 + 3, never more.
    problem = sl.Problem(sl.FeedForward((5, 5, 3)), 3)
    cross = sl.Allocation.from_rows(problem.network, "W1", [0])
    cross = cross | sl.Allocation.from_columns(problem.network, "W1", [0])
    bound = rank_bound(problem, cross)
    assert bound == 6
    assert oracle_of(problem).rank(cross) == 5 < bound


def test_broken_bounds_name_their_lines() -> None:
    problem = sl.Problem(sl.LinearRNN(n=4, b=1, d=1, T=2), 2)
    held = sl.Allocation.from_rows(problem.network, "W", [1])
    held = held | sl.Allocation.from_columns(problem.network, "W", [3])
    found = [(b.axis, b.index, b.count, b.limit) for b in broken_bounds(problem, held)]
    assert found == [("row", 1, 4, 2), ("column", 3, 4, 2)]
    verdict = sl.certify(problem, held)
    assert any(r.startswith("Row 1 of W has 4 learnable weights") for r in verdict.reasons)
    assert verdict.to_dict()["broken_bounds"][0]["axis"] == "row"


def test_many_broken_bounds_are_counted_not_listed() -> None:
    problem = sl.Problem(sl.FeedForward((8, 8, 1)), 1)
    verdict = sl.certify(problem, sl.Allocation.whole(problem.network, ["W1"]))
    assert len(verdict.broken) == 16
    assert any("11 more rows and columns" in reason for reason in verdict.reasons)
