"""How many weights may be chosen: a number, a share of them, or so many per row or column."""

from __future__ import annotations

import re
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

import numpy as np

from sublearn._arrays import Indices
from sublearn._errors import BadInputError, whole_number
from sublearn.designs._choice import Choices, Ids

_FORMS = (
    "a number such as 200, a share such as '20%' (at most '100%'), or a quota such as '2 per row' or '3 per "
    "column'"
)


class CountError(BadInputError):
    """A count that cannot be read, or that is more than there is to choose from."""


@dataclass(frozen=True)
class Count:
    """``total`` weights; with an ``axis``, at most ``each`` of them in one row or column of a weight."""

    total: int
    axis: str | None = None
    each: int = 0

    def groups(self, choice: Choices) -> tuple[Indices, Indices]:
        """For every id the row or column that it counts for, and how many each of these may have."""
        out = np.empty(choice.allowed.size, dtype=np.int64)
        begin = 0
        for name, (rows, columns) in zip(choice.names, choice.shapes, strict=True):
            i, j = np.divmod(np.arange(rows * columns), columns)
            choice.part(out, name)[:] = begin + (i if self.axis == "row" else j)
            begin += rows if self.axis == "row" else columns
        return out, np.full(begin, self.each, dtype=np.int64)

    def filled(self, choice: Choices, order: Ids, chosen: Ids) -> Ids:
        """``chosen``, and the first others of ``order`` until the count is reached."""
        rest = order[~np.isin(order, chosen)]
        if self.axis is not None:
            groups, quotas = self.groups(choice)
            left = quotas - np.bincount(groups[chosen], minlength=quotas.size)
            rest = rest[_nth_of_group(groups[rest]) < left[groups[rest]]]
        return np.concatenate([chosen, rest[: self.total - chosen.size]])


def read_count(count: object, choice: Choices, what: str = "count") -> Count:
    """A count as people say it; shares are of the weights that may be chosen, to the nearest number.

    >>> import sublearn as sl
    >>> choice = Choices(sl.FeedForward((10, 5)), ["W1"], None, None)
    >>> read_count("20%", choice).total, read_count("2 per row", choice).total
    (10, 10)
    """
    try:
        return _read_count(count, choice, what)
    except BadInputError as why:
        raise CountError(str(why)) from None


def _read_count(count: object, choice: Choices, what: str) -> Count:
    allowed = int(choice.allowed.sum())
    if isinstance(count, float) and not count.is_integer():
        raise BadInputError(f"{what} must be {_FORMS}, not {count!r}.")
    text = " ".join(count.split()) if isinstance(count, str) else ""
    if text.isdigit() or not isinstance(count, str):
        total = whole_number(what, int(text) if text else count, least=1)
        if total > allowed:
            raise BadInputError(
                f"{what} must be at most {allowed}, the number of weights that may be chosen, not {total}."
            )
        return Count(total)
    share = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?%", text)
    if share is not None and 0 < float(share[1]) <= 100:
        return Count(max(1, int(allowed * float(share[1]) / 100 + 0.5)))
    quota = re.fullmatch(r"([0-9]+) per (row|column)", text)
    if quota is not None and int(quota[1]) > 0:
        plain = Count(0, quota[2], int(quota[1]))
        groups, quotas = plain.groups(choice)
        sizes = np.bincount(groups[choice.allowed], minlength=quotas.size)
        if plain.each > sizes.max():
            raise BadInputError(
                f"{what} must be at most {sizes.max()} per {plain.axis}, the most weights of one that may "
                f"be chosen, not {count!r}."
            )
        return Count(int(np.minimum(sizes, quotas).sum()), plain.axis, plain.each)
    raise BadInputError(f"{what} must be {_FORMS}, not {count!r}.")


def check_required(count: Count, choice: Choices, start: Ids) -> None:
    """Refuse required weights that the count has no room for."""
    if start.size > count.total:
        raise BadInputError(
            f"{start.size} weights are required, but count allows {count.total} only."
        )
    if count.axis is not None and start.size:
        groups, quotas = count.groups(choice)
        most = int(np.bincount(groups[start], minlength=quotas.size).max())
        if most > count.each:
            raise BadInputError(
                f"a {count.axis} has {most} required weights, but count allows {count.each} per "
                f"{count.axis}."
            )


def topped_up(choice: Choices, chosen: Ids, total: int) -> Ids:
    """``chosen`` and the best others, ``total`` in all.

    Of equal scores each time the one whose row and column have the fewest weights so far, and of these the
    first of the walk along the diagonals.
    """
    order = choice.order()
    rest, missing = order[~np.isin(order, chosen)], total - chosen.size
    if missing <= 0 or not rest.size:
        return chosen
    last = choice.score[rest[min(missing, rest.size) - 1]]
    better, equal = rest[choice.score[rest] > last], rest[choice.score[rest] == last]
    taken = np.concatenate([chosen, better])
    rows, columns = Count(0, "row").groups(choice)[0], Count(0, "column").groups(choice)[0]
    in_row = np.bincount(rows[taken], minlength=rows.max() + 1)
    in_column = np.bincount(columns[taken], minlength=columns.max() + 1)
    heap = [(int(in_row[rows[k]] + in_column[columns[k]]), n, int(k)) for n, k in enumerate(equal)]
    heapify(heap)
    more: list[int] = []
    while heap and len(more) < missing - better.size:
        load, place, k = heap[0]
        now = int(in_row[rows[k]] + in_column[columns[k]])
        if now > load:
            heapreplace(heap, (now, place, k))
            continue
        heappop(heap)
        more.append(k)
        in_row[rows[k]] += 1
        in_column[columns[k]] += 1
    return np.concatenate([taken, np.array(more, dtype=np.int64)])


def _nth_of_group(groups: Indices) -> Indices:
    """How many members of its group stand before each one."""
    order = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups)
    starts = np.cumsum(sizes) - sizes
    out = np.empty(groups.size, dtype=np.int64)
    out[order] = np.arange(groups.size) - starts[groups[order]]
    return out
