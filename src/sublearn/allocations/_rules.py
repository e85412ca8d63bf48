"""Rules that draw an allocation at random, as the paper's experiments do.

FirstRows and FirstColumns are uniform over the sets of a given size that lie in the first k rows (or
columns) of a weight and keep the degree bounds of the network: no row and no column has more learnable
weights than can be independent. Anywhere is uniform over all sets of a given size, bounds or not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from math import comb
from typing import Any, ClassVar

import numpy as np

from sublearn._arrays import Indices, Mask
from sublearn._errors import BadInputError, whole_number
from sublearn.networks import Bounds

# Draws that keep the row bounds are tried this often against the column bounds before the chain of
# random moves takes over. In the paper's settings the column bounds hardly ever bind.
_TRIES = 500
# Where no bound binds, every set of so many entries is as likely; beyond this many cells the exact
# integers of the general way take seconds to minutes, and the set is drawn at once.
_LARGE = 4096


@dataclass(frozen=True)
class Places:
    """The entries of a weight that a rule chooses among, and its bounds: how many of a row are of use.

    ``exists`` is None where all entries of the ``shape`` exist.
    """

    name: str
    shape: tuple[int, int]
    bounds: Bounds
    exists: Mask | None = None


class Rule(ABC):
    """A law of sets of entries of one weight; without a ``count`` it takes what the problem needs, d m.

    ``counted`` is False of a rule that says by itself how many entries it takes.
    """

    count: int | None
    counted: ClassVar[bool] = True

    @abstractmethod
    def draw(self, places: Places, count: int, rng: np.random.Generator, trial: int = 0) -> Indices:
        """Sorted flat indices of one draw of so many entries, the numbers of a trial in ``rng``."""

    def describe(self) -> dict[str, Any]:
        """Name and settings, for files and messages."""
        return {"rule": type(self).__name__, **vars(self)}


def check_count(count: int | None) -> None:
    """Refuse a count that is no whole number of at least 1; None is for what the problem needs."""
    if count is not None:
        whole_number("count", count, least=1)


@dataclass(frozen=True)
class _FirstLines(Rule):
    k: int
    count: int | None = None

    def __post_init__(self) -> None:
        whole_number("k", self.k, least=1)
        check_count(self.count)


@dataclass(frozen=True)
class FirstRows(_FirstLines):
    """Uniform over the sets of ``count`` entries in the first ``k`` rows that keep the degree bounds.

    ``count`` defaults to what the problem needs, d m.
    """

    def draw(self, places: Places, count: int, rng: np.random.Generator, trial: int = 0) -> Indices:
        return _first_rows("rows", self.k, places, count, rng)


@dataclass(frozen=True)
class FirstColumns(_FirstLines):
    """Uniform over the sets of ``count`` entries in the first ``k`` columns that keep the bounds."""

    def draw(self, places: Places, count: int, rng: np.random.Generator, trial: int = 0) -> Indices:
        (rows, columns), bounds = places.shape, places.bounds
        turned = Bounds(rows if bounds.column is None else bounds.column, bounds.row)
        across = None if places.exists is None else places.exists.T
        over = Places(places.name, (columns, rows), turned, across)
        flat = _first_rows("columns", self.k, over, count, rng)
        return np.sort((flat % rows) * columns + flat // rows)


@dataclass(frozen=True)
class Anywhere(Rule):
    """Uniform over all sets of ``count`` entries of the weight, whether they keep the bounds or not.

    ``count`` defaults to what the problem needs, d m.

    >>> import numpy as np, sublearn as sl
    >>> problem = sl.Problem(sl.LinearRNN(n=8, b=1, d=4, T=4), samples=4)
    >>> a = problem.draw_allocation({"W": sl.Anywhere(12)}, np.random.default_rng(0))
    >>> len(a), a.names
    (12, ('W',))
    """

    count: int | None = None

    def __post_init__(self) -> None:
        check_count(self.count)

    def draw(self, places: Places, count: int, rng: np.random.Generator, trial: int = 0) -> Indices:
        (rows, columns), exists = places.shape, places.exists
        among = np.arange(rows * columns) if exists is None else np.flatnonzero(exists)
        if count > among.size:
            raise BadInputError(f"{places.name} has {among.size} entries, fewer than {count}.")
        return np.sort(rng.choice(among, count, replace=False)).astype(np.int64)


def _first_rows(what: str, k: int, places: Places, count: int, rng: np.random.Generator) -> Indices:
    name, bounds, exists = places.name, places.bounds, places.exists
    rows, columns = places.shape
    if k > rows:
        raise BadInputError(f"{name} has {rows} {what}, fewer than the first {k}.")
    row_cap = min(bounds.row, columns)
    column_cap = k if bounds.column is None else min(bounds.column, k)
    start = None
    if exists is None:
        start = _fullest(k, columns, row_cap, column_cap, count)
        if start is None:
            most = min(k * row_cap, columns * column_cap)
            raise BadInputError(
                f"the first {k} {what} of {name} cannot carry {count} weights within the degree bounds "
                f"({row_cap} in each of these {what}, {column_cap} across them: at most {most})."
            )
        if row_cap == columns and column_cap == k and k * columns > _LARGE:
            return np.sort(rng.choice(k * columns, count, replace=False)).astype(np.int64)
    allowed = np.ones((k, columns), dtype=bool) if exists is None else exists[:k]
    for _ in range(_TRIES):
        drawn = _by_rows(allowed, row_cap, column_cap, count, rng)
        if drawn is not None:
            return np.flatnonzero(drawn)
    if start is None:
        raise BadInputError(
            f"no {count} weights that exist among the first {k} {what} of {name} were found within the "
            "degree bounds."
        )
    return np.flatnonzero(_shuffle(start, row_cap, column_cap, rng))


def _by_rows(
    allowed: Mask, cap: int, column_cap: int, count: int, rng: np.random.Generator
) -> Mask | None:
    """Uniform over the masks within ``held`` with ``count`` ones and at most ``cap`` in a row.

    Row by row from the last: its size, with the number of its sets of that size times the exact
    (integer) number of completions as weight, then a uniform one of these. None as soon as a column has
    more than ``column_cap``, so that what is left is uniform over the masks that keep both bounds.
    """
    sizes = tuple(allowed.sum(axis=1).tolist())
    choices, ways = _completions(sizes, min(cap, count), count)
    if not ways[-1][count]:
        return None
    mask = np.zeros_like(allowed)
    room = np.full(allowed.shape[1], column_cap)
    left = count
    for row in range(len(allowed) - 1, -1, -1):
        size, ticket = 0, _below(ways[row + 1][left], rng)
        while ticket >= (weight := choices[sizes[row]][size] * ways[row][left - size]):
            ticket, size = ticket - weight, size + 1
        chosen = rng.choice(np.flatnonzero(allowed[row]), size, replace=False)
        mask[row, chosen] = True
        room[chosen] -= 1
        if room.min() < 0:
            return None
        left -= size
    return mask


@lru_cache(maxsize=16)
def _completions(
    sizes: tuple[int, ...], cap: int, count: int
) -> tuple[dict[int, list[int]], list[list[int]]]:
    """The sets of so many entries of a row, by its length and theirs, and the masks by (rows, ones).

    At most ``cap`` are in a row.
    """
    from flint import fmpz_poly

    # The counts for so many rows are the coefficients of the product of the rows' polynomials.
    choices = {size: [comb(size, k) for k in range(cap + 1)] for size in set(sizes)}
    polynomials = {size: fmpz_poly(row) for size, row in choices.items()}
    product, ways = fmpz_poly([1]), []
    for size in (*sizes, -1):
        known = product.coeffs()[: count + 1]
        ways.append([int(value) for value in known] + [0] * (count + 1 - len(known)))
        product = fmpz_poly(known) * polynomials.get(size, 1)
    return choices, ways


def _below(bound: int, rng: np.random.Generator) -> int:
    """A uniform whole number in [0, bound), of any size, by rejection."""
    bits = (bound - 1).bit_length()
    size = (bits + 7) // 8
    while True:
        value = int.from_bytes(rng.bytes(size), "little") >> (8 * size - bits) if bits else 0
        if value < bound:
            return value


def _fullest(k: int, columns: int, row_cap: int, column_cap: int, count: int) -> Mask | None:
    """A mask within the bounds with ``count`` ones, or None if there is none.

    Giving each row the columns with the most room left is optimal (Gale and Ryser).
    """
    mask = np.zeros((k, columns), dtype=bool)
    room = np.full(columns, column_cap)
    left = count
    for row in range(k):
        # Even shares keep room for later rows.
        open_columns = np.argsort(-room, kind="stable")[: min(row_cap, left)]
        open_columns = open_columns[room[open_columns] > 0]
        mask[row, open_columns] = True
        room[open_columns] -= 1
        left -= open_columns.size
    return mask if left == 0 else None


def _shuffle(mask: Mask, row_cap: int, column_cap: int, rng: np.random.Generator) -> Mask:
    """A long chain of random moves and exchanges within the bounds; its limit is uniform.

    Only reached where column bounds are so tight that rejection fails. A move takes one entry out
    and puts another in; an exchange takes out (i, j) and (p, q) and puts in (i, q) and (p, j). Each is
    made when the bounds allow it and is as likely as its reverse. Moves alone are stuck where all
    rows and columns are full; exchanges join all masks of equal row and column sizes (Ryser 1957).
    """
    mask = mask.copy()
    k, columns = mask.shape
    row_sizes, column_sizes = mask.sum(axis=1), mask.sum(axis=0)
    ones = np.flatnonzero(mask).tolist()
    steps = 50 * k * columns
    picks = rng.integers(0, len(ones), (steps, 2)).tolist()
    targets = rng.integers(0, k * columns, steps).tolist()
    exchanges = rng.integers(0, 2, steps, dtype=np.int8).tolist()
    for (first, second), target, exchange in zip(picks, targets, exchanges, strict=True):
        i, j = divmod(ones[first], columns)
        if exchange:
            p, q = divmod(ones[second], columns)
            if mask[i, q] or mask[p, j]:
                continue
            mask[i, j] = mask[p, q] = False
            mask[i, q] = mask[p, j] = True
            ones[first], ones[second] = i * columns + q, p * columns + j
            continue
        p, q = divmod(target, columns)
        if mask[p, q]:
            continue
        if (p != i and row_sizes[p] >= row_cap) or (q != j and column_sizes[q] >= column_cap):
            continue
        mask[i, j], mask[p, q] = False, True
        row_sizes[i] -= 1
        column_sizes[j] -= 1
        row_sizes[p] += 1
        column_sizes[q] += 1
        ones[first] = target
    return mask
