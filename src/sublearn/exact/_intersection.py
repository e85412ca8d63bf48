"""The best independent columns of which only so many may come from each group.

Independent columns are one matroid, sets within the quotas another (a partition matroid), and their best
common independent sets are found by augmenting paths: Lawler, "Matroid intersection algorithms", Math.
Programming 9, 1975; Schrijver, "Combinatorial Optimization", theorem 41.3.
"""

from __future__ import annotations

import numpy as np

from sublearn._arrays import Array, Indices, Mask
from sublearn.exact._field import PrimeField

FAR = np.int64(2**62)


def within_quotas(
    field: PrimeField,
    matrix: Array,
    worth: Indices,
    groups: Indices,
    quotas: Indices,
    wanted: int,
    start: Indices | None = None,
) -> Indices:
    """As many independent columns as the quotas allow, up to ``wanted``, of the largest total worth.

    Column c belongs to ``groups[c]``, and group g may give ``quotas[g]`` columns. Each round takes one
    column more, along the path that costs least and, among these, has the fewest steps: what is held is
    then of the largest worth among the sets of its size. Totals of ``worth`` must stay below 2^61. The
    columns in ``start``, which must be independent and within the quotas, are always part of the answer.

    >>> columns = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]])
    >>> worth, groups = np.array([5, 4, 1]), np.array([0, 0, 1])
    >>> within_quotas(PrimeField(8388593), columns, worth, groups, np.array([1, 1]), 2).tolist()
    [0, 2]
    """
    pivots = _Pivots(field, matrix)
    if start is not None and start.size:
        pivots.exchange(start[:0], start)
        others = np.setdiff1d(np.arange(matrix.shape[1]), start)
        beyond = np.ascontiguousarray(pivots.reduced[pivots.owner < 0][:, others])
        left = quotas - np.bincount(groups[start], minlength=quotas.size)
        more = within_quotas(
            field, beyond, worth[others], groups[others], left, wanted - start.size
        )
        return np.sort(np.concatenate([start, others[more]]))
    chosen: Mask = np.zeros(matrix.shape[1], dtype=bool)
    while chosen.sum() < wanted:
        path = _cheapest_path(pivots, worth, groups, quotas, chosen)
        if path is None:
            break
        coming, leaving = path[::2], path[1::2]
        chosen[coming], chosen[leaving] = True, False
        pivots.exchange(leaving, coming)
    return np.flatnonzero(chosen)


class _Pivots:
    """A matrix reduced such that each column held is a unit vector: the others show what they are made of."""

    def __init__(self, field: PrimeField, matrix: Array) -> None:
        self.field = field
        self.reduced: Array = np.array(matrix, dtype=np.float64)
        self.owner: Indices = np.full(matrix.shape[0], -1, dtype=np.int64)

    def rows_of(self, chosen: Indices) -> Indices:
        """The row in which each of these columns is 1."""
        place = np.empty(self.reduced.shape[1], dtype=np.int64)
        taken = np.flatnonzero(self.owner >= 0)
        place[self.owner[taken]] = taken
        return place[chosen]

    @property
    def free(self) -> Mask:
        """The columns that are independent of those held."""
        open_rows = self.owner < 0
        return np.asarray((self.reduced[open_rows] != 0).any(axis=0))

    def exchange(self, leaving: Indices, coming: Indices) -> None:
        self.owner[np.isin(self.owner, leaving)] = -1
        for column in coming:
            open_rows = np.flatnonzero(self.owner < 0)
            entries = np.flatnonzero(self.reduced[open_rows, column])
            if not entries.size:
                raise ValueError(f"column {column} depends on those that are held")
            row = open_rows[entries[0]]
            self._pivot(int(row), int(column))

    def _pivot(self, row: int, column: int) -> None:
        field, p = self.field, self.field.p
        inverse = float(field.from_integers(pow(int(self.reduced[row, column]) % p, -1, p)))
        self.reduced[row] = field.multiply(self.reduced[row], inverse)
        factor = self.reduced[:, column].copy()
        factor[row] = 0.0
        rest = np.flatnonzero(factor)
        self.reduced[rest] = field.subtract(
            self.reduced[rest], np.multiply.outer(factor[rest], self.reduced[row])
        )
        self.owner[row] = column


def _cheapest_path(
    pivots: _Pivots, worth: Indices, groups: Indices, quotas: Indices, chosen: Mask
) -> Indices | None:
    """Columns that come and go by turns, first and last one that comes; None: there is no path.

    From a column that is independent, over exchanges that keep quotas and exchanges that keep
    independence by turns, to a column whose group has room: Bellman and Ford, one exchange of each kind a
    round.
    """
    inside = np.flatnonzero(chosen)
    free = pivots.free & ~chosen
    room = (np.bincount(groups[inside], minlength=quotas.size) < quotas)[groups] & ~chosen
    cost = np.where(free, -worth, FAR)
    before = np.full(chosen.size, -1, dtype=np.int64)
    at, leave, where = np.full(inside.size, FAR), np.full(inside.size, -1, dtype=np.int64), inside
    linked = pivots.reduced[pivots.rows_of(inside)] != 0
    linked[:, free] = True
    linked[:, chosen] = False
    outside = np.flatnonzero(~chosen)
    for _ in range(inside.size):
        # What leaves: any column of the same group, or any at all for what has room.
        reach = np.full(quotas.size, FAR)
        best = np.full(quotas.size, -1, dtype=np.int64)
        order = outside[np.argsort(-cost[outside], kind="stable")]  # the cheapest is written last
        reach[groups[order]], best[groups[order]] = cost[order], order
        come, by = reach[groups[where]], best[groups[where]]
        if room.any():
            roomy = int(np.flatnonzero(room)[np.argmin(cost[room])])
            by = np.where(cost[roomy] < come, roomy, by)
            come = np.minimum(come, cost[roomy])
        better = (come < FAR) & (come + worth[where] < at)
        if not better.any():
            break
        at[better], leave[better] = (come + worth[where])[better], by[better]
        through = np.where(linked, at[:, None], FAR)
        nearest = through.argmin(axis=0)
        length = through[nearest, np.arange(chosen.size)]
        better_out = (length < FAR) & (length - worth < cost)
        if not better_out.any():
            break
        cost[better_out] = (length - worth)[better_out]
        before[better_out] = nearest[better_out]
    ends = np.flatnonzero(room & (cost < FAR))
    if not ends.size:
        return None
    least = ends[cost[ends] == cost[ends].min()]
    paths = [_walk(int(end), before, leave, where) for end in least]
    return np.array(min(paths, key=len), dtype=np.int64)


def _walk(end: int, before: Indices, leave: Indices, where: Indices) -> list[int]:
    path = [end]
    while before[path[-1]] >= 0:
        position = before[path[-1]]
        path += [int(where[position]), int(leave[position])]
    return path
