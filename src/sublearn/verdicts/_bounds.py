"""Upper bounds on the rank that need no drawing: degree bounds and the flow behind them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sublearn.allocations import Allocation
from sublearn.ensembles import Problem

Lines = tuple[tuple[int, ...], tuple[int, ...]]
"""Rows and columns of a weight."""


@dataclass(frozen=True)
class BrokenBound:
    """A row or column with more learnable weights than can be independent in it."""

    weight: str
    axis: str  # "row" or "column"
    index: int
    count: int
    limit: int

    def __str__(self) -> str:
        return (
            f"{self.axis} {self.index} of {self.weight} has {self.count} learnable weights, "
            f"but only {self.limit} can be independent in one {self.axis}"
        )


def broken_bounds(problem: Problem, allocation: Allocation) -> tuple[BrokenBound, ...]:
    """Every row and column that breaks its degree bound, rows first."""
    broken = []
    for name in allocation.names:
        bounds = problem.network.degree_bounds(name, problem.effective_samples)
        for axis, counts, limit in (
            ("row", allocation.row_counts(name), bounds.row),
            ("column", allocation.column_counts(name), bounds.column),
        ):
            if limit is None:
                continue
            broken += [
                BrokenBound(name, axis, int(i), int(counts[i]), limit)
                for i in np.flatnonzero(counts > limit)
            ]
    return tuple(broken)


def rank_bound(problem: Problem, allocation: Allocation) -> int:
    """A proved upper bound on the rank of the learnable columns.

    The columns of one row span at most ``row`` dimensions, those of one column at most ``column``.
    So for any choice of rows and columns of a weight, the rank is at most the sum of their limits
    plus the number of entries outside them. The best choice is a minimum cut, equal to the largest
    number of entries that keep all limits (maximum flow). Weights add up, and the outputs that the
    network can express bound the whole.
    """
    total = sum(_largest_within(problem, allocation, name)[0] for name in allocation.names)
    return min(total, problem.network.expressible(problem.effective_samples))


def binding_lines(problem: Problem, allocation: Allocation) -> dict[str, Lines]:
    """Rows and columns of every weight whose limits, with the entries outside them, are the least sum.

    These show :func:`rank_bound` at a glance, where the network expresses as much.

    >>> import sublearn as sl
    >>> net = sl.FeedForward((3, 3, 2))
    >>> row = sl.Allocation.from_rows(net, "W1", [1]) | sl.Allocation.diagonal(net, "W1")
    >>> binding_lines(sl.Problem(net, samples=2), row)
    {'W1': ((1,), ())}
    """
    return {name: _largest_within(problem, allocation, name)[1] for name in allocation.names}


def _largest_within(problem: Problem, allocation: Allocation, name: str) -> tuple[int, Lines]:
    """The largest number of entries of a weight that keep all limits, and the lines that bind."""
    bounds = problem.network.degree_bounds(name, problem.effective_samples)
    row_sizes, column_sizes = allocation.row_counts(name), allocation.column_counts(name)
    column_limit = int(column_sizes.max()) if bounds.column is None else bounds.column
    by_rows = int(np.minimum(row_sizes, bounds.row).sum())
    by_columns = int(np.minimum(column_sizes, column_limit).sum())
    size = int(row_sizes.sum())
    if by_rows == size or by_columns == size:
        # At most one side binds, and its sum is exact.
        full = tuple(np.flatnonzero(row_sizes > bounds.row).tolist())
        across = tuple(np.flatnonzero(column_sizes > column_limit).tolist())
        return min(by_rows, by_columns), (full, ()) if by_rows < size else ((), across)
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    # source -> rows (limit) -> entries (1) -> columns (limit) -> sink
    rows, columns = allocation.shapes[name]
    i, j = np.divmod(allocation.flat(name), columns)
    source, sink = rows + columns, rows + columns + 1
    tails = np.concatenate([np.full(rows, source), i, rows + np.arange(columns)])
    heads = np.concatenate([np.arange(rows), rows + j, np.full(columns, sink)])
    capacity = np.concatenate(
        [np.full(rows, bounds.row), np.ones(i.size), np.full(columns, column_limit)]
    ).astype(np.int32)
    graph = csr_array((capacity, (tails, heads)), shape=(sink + 1, sink + 1))
    flow = maximum_flow(graph, source, sink)
    # What is still in reach of the source lies on its side of a least cut.
    residual = (graph - flow.flow).tocsr()
    residual.eliminate_zeros()
    near = breadth_first_order(residual, source, return_predecessors=False)
    reached = np.zeros(sink + 1, dtype=bool)
    reached[near] = True
    cut = np.flatnonzero(~reached[:rows] & (row_sizes > 0)), np.flatnonzero(reached[rows:source])
    return int(flow.flow_value), (tuple(cut[0].tolist()), tuple(cut[1].tolist()))
