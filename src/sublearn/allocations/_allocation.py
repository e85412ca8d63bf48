"""Which entries of which weights are learnable."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from sublearn._arrays import Indices, Mask, distinct
from sublearn._errors import BadInputError, one_of, shown, whole_number
from sublearn.networks import Network
from sublearn.plots import Row, Shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Entry = tuple[int, int]


class Allocation(Shown):
    """An allocation A of a network: a set of entries, by weight name (Definition 2.1).

    Entries are 0-based (row, column). An allocation never changes; operations return new ones. It
    compares and hashes by what it holds.

    >>> import sublearn as sl
    >>> net = sl.LinearRNN(n=3, b=1, d=2, T=2)
    >>> a = Allocation.from_entries(net, {"W": [(0, 0), (2, 1)], "B": [(1, 0)]})
    >>> len(a), a.entries["W"]
    (3, ((0, 0), (2, 1)))
    >>> print(a)
    W   0 1 2
      0 # . .
      1 . . .
      2 . # .
    B   0
      0 .
      1 #
      2 .
    """

    __slots__ = ("_flat", "_shapes")
    _flat: dict[str, Indices]
    _shapes: dict[str, tuple[int, int]]

    def __init__(self, shapes: Mapping[str, tuple[int, int]], flat: Mapping[str, Indices]) -> None:
        # The door for code that has sorted flat indices already; users come in by from_*.
        by_name = {}
        for name in shapes:
            index = np.array(flat.get(name, ()), dtype=np.int64)
            index.flags.writeable = False
            by_name[name] = index
        object.__setattr__(self, "_shapes", dict(shapes))
        object.__setattr__(self, "_flat", by_name)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("an allocation never changes; its operations return new ones.")

    def __reduce__(self) -> tuple[object, ...]:
        # Through the door again: copies and unpickled arrays would be writeable.
        return Allocation, (self._shapes, self._flat)

    # Ways in.

    @classmethod
    def from_entries(
        cls, network: Network, entries: Mapping[str, Iterable[Sequence[int]]]
    ) -> Allocation:
        """From lists of 0-based (row, column), by weight name."""
        _check_mapping("entries", entries)
        flat = {}
        for name, pairs in entries.items():
            shape = network.shape(name)
            if not isinstance(pairs, Iterable):
                raise BadInputError(f"entries of {name} must be a list of pairs, not {pairs!r}.")
            apart = isinstance(pairs, tuple) and len(pairs) == 2
            if apart and all(isinstance(p, np.ndarray) and p.ndim == 1 for p in pairs):
                raise BadInputError(
                    f"entries of {name} must be pairs (row, column), not rows and columns apart, as "
                    "np.nonzero gives them: np.argwhere gives pairs."
                )
            seen: set[int] = set()
            for pair in pairs:
                place = _place(name, shape, pair)
                if place in seen:
                    raise BadInputError(
                        f"entry {divmod(place, shape[1])} of {name} is given twice."
                    )
                seen.add(place)
            flat[name] = np.array(sorted(seen), dtype=np.int64)
        return cls._existing(network, flat)

    @classmethod
    def _existing(cls, network: Network, flat: Mapping[str, Indices]) -> Allocation:
        """The allocation of these entries, all of which must exist."""
        out = cls(network.shapes, flat)
        network.check_allocation(out)
        return out

    @classmethod
    def from_masks(cls, network: Network, masks: Mapping[str, ArrayLike]) -> Allocation:
        """From 0/1 or boolean matrices, by weight name: true means learnable."""
        _check_mapping("masks", masks)
        flat = {name: np.flatnonzero(mask_of(network, name, m)) for name, m in masks.items()}
        return cls._existing(network, flat)

    @classmethod
    def from_rows(cls, network: Network, name: str, rows: Iterable[int]) -> Allocation:
        """Whole rows of one weight."""
        return cls.block(network, name, rows=rows)

    @classmethod
    def from_columns(cls, network: Network, name: str, columns: Iterable[int]) -> Allocation:
        """Whole columns of one weight."""
        return cls.block(network, name, columns=columns)

    @classmethod
    def block(
        cls,
        network: Network,
        name: str,
        rows: Iterable[int] | None = None,
        columns: Iterable[int] | None = None,
    ) -> Allocation:
        """All entries of the given rows and columns of one weight (default: all of them) that exist.

        >>> import sublearn as sl
        >>> net = sl.FeedForward((3, 4))
        >>> Allocation.block(net, "W1", rows=[0, 1], columns=[2]).entries["W1"]
        ((0, 2), (1, 2))
        """
        shape = network.shape(name)
        mask = np.zeros(shape, dtype=bool)
        chosen = [
            _indices(f"{what} of {name}", given, size)
            for what, given, size in zip(("rows", "columns"), (rows, columns), shape, strict=True)
        ]
        mask[np.ix_(*chosen)] = True
        return cls(network.shapes, {name: np.flatnonzero(mask & network.existing(name))})

    @classmethod
    def whole(cls, network: Network, names: Iterable[str] | None = None) -> Allocation:
        """Every entry of the named weights (default: of the whole network) that exists."""
        chosen = list(network.shapes if names is None else names)
        return cls(
            network.shapes, {name: np.flatnonzero(network.existing(name)) for name in chosen}
        )

    @classmethod
    def diagonal(cls, network: Network, name: str, offset: int = 0) -> Allocation:
        """The entries (i, i + offset) of one weight that exist."""
        rows, columns = network.shape(name)
        i = np.arange(rows, dtype=np.int64)
        j = i + _integer(f"the offset in {name}", offset)
        keep = (j >= 0) & (j < columns)
        keep[keep] = network.existing(name)[i[keep], j[keep]]
        if not keep.any():
            raise BadInputError(
                f"offset {offset} leaves no entry of {name}, which is {rows} x {columns}."
            )
        return cls(network.shapes, {name: (i * columns + j)[keep]})

    @classmethod
    def spread(cls, network: Network, counts: Mapping[str, int]) -> Allocation:
        """So many entries per weight, spread evenly: rows, and columns, differ by at most one.

        Where only some weights exist, an emptiest row that has one left comes next.

        Entry number t goes to row t mod rows; the columns advance so that they fill evenly too.

        >>> import sublearn as sl
        >>> a = Allocation.spread(sl.FeedForward((4, 4)), {"W1": 8})
        >>> a.row_counts("W1").tolist(), a.column_counts("W1").tolist()
        ([2, 2, 2, 2], [2, 2, 2, 2])
        """
        _check_mapping("counts", counts)
        flat = {}
        for name, count in counts.items():
            rows, columns = network.shape(name)
            whole_number(f"count for {name}", count, least=0)
            exists = network.existing(name).ravel()
            size = int(exists.sum())
            if count > size:
                raise BadInputError(
                    f"count for {name} must be at most its {size} entries, not {count}."
                )
            # Walking the diagonals (t mod rows, t mod columns) visits every entry once per
            # lcm(rows, columns) steps; shifting the column after each such round visits the next
            # family of diagonals, so that no entry comes twice.
            t = np.arange(count, dtype=np.int64)
            lap = int(np.lcm(rows, columns))
            flat[name] = np.sort((t % rows) * columns + (t + t // lap) % columns)
            if size < exists.size:
                flat[name] = _spread_among(exists.reshape(rows, columns), count)
        return cls(network.shapes, flat)

    @classmethod
    def load(cls, path: str | Path, network: Network, name: str | None = None) -> Allocation:
        """Read a file that :meth:`save` wrote, or a mask made elsewhere: .json, .csv or .npz."""
        from sublearn.allocations._files import load

        return load(Path(path), network, name)

    def save(self, path: str | Path) -> None:
        """Write to .json (entries), .npz (masks) or .csv (one mask; one weight only)."""
        from sublearn.allocations._files import save

        save(self, Path(path))

    # What it holds.

    @property
    def shapes(self) -> Mapping[str, tuple[int, int]]:
        """(rows, columns) of every weight of the network."""
        return MappingProxyType(self._shapes)

    def __len__(self) -> int:
        """The number r of learnable weights."""
        return sum(index.size for index in self._flat.values())

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The weights that have learnable entries, in the network's order."""
        return tuple(name for name, index in self._flat.items() if index.size)

    @cached_property
    def entries(self) -> Mapping[str, tuple[Entry, ...]]:
        """Sorted (row, column) of the learnable entries, by weight name; every name is there."""
        out = {}
        for name, index in self._flat.items():
            columns = self._shapes[name][1]
            out[name] = tuple((int(f) // columns, int(f) % columns) for f in index)
        return MappingProxyType(out)

    def flat(self, name: str) -> Indices:
        """Sorted flat indices ``row * columns + column`` of one weight's learnable entries."""
        return self._flat[one_of("weight name", name, self._shapes)]

    def mask(self, name: str) -> Mask:
        """Boolean matrix of one weight: true where learnable."""
        rows, columns = self._shapes[one_of("weight name", name, self._shapes)]
        out = np.zeros(rows * columns, dtype=bool)
        out[self._flat[name]] = True
        return out.reshape(rows, columns)

    def row_counts(self, name: str) -> Indices:
        """Learnable entries in each row of one weight."""
        rows, columns = self._shapes[one_of("weight name", name, self._shapes)]
        return np.bincount(self._flat[name] // columns, minlength=rows).astype(np.int64)

    def column_counts(self, name: str) -> Indices:
        """Learnable entries in each column of one weight."""
        columns = self._shapes[one_of("weight name", name, self._shapes)][1]
        return np.bincount(self._flat[name] % columns, minlength=columns).astype(np.int64)

    def labels(self) -> list[tuple[str, int, int]]:
        """(name, row, column) of every learnable entry, in the order of Jacobian columns."""
        return [(name, i, j) for name, pairs in self.entries.items() for i, j in pairs]

    def select(self, positions: Iterable[int]) -> Allocation:
        """The sub-allocation of the entries at these positions of :meth:`labels`."""
        given = isinstance(positions, np.ndarray)  # not number by number: there may be millions
        wanted = distinct(np.array(positions) if given else np.fromiter(positions, dtype=np.int64))
        if wanted.size and (wanted[0] < 0 or wanted[-1] >= len(self)):
            raise BadInputError(f"positions must lie in 0..{len(self) - 1}.")
        flat, start = {}, 0
        for name, index in self._flat.items():
            inside = wanted[(wanted >= start) & (wanted < start + index.size)] - start
            flat[name] = index[inside]
            start += index.size
        return Allocation(self._shapes, flat)

    # Algebra.

    def _joined(self, other: Allocation, join: Callable[[Indices, Indices], Indices]) -> Allocation:
        """What ``join`` makes of the entries of both, weight by weight."""
        if not isinstance(other, Allocation):
            raise BadInputError(f"an allocation is combined with another, not with {other!r}.")
        if self._shapes != other._shapes:
            raise BadInputError("the two allocations belong to networks of different shapes.")
        flat = {name: join(index, other._flat[name]) for name, index in self._flat.items()}
        return Allocation(self._shapes, flat)

    def union(self, other: Allocation) -> Allocation:
        """Entries that are in either allocation; also written ``a | b``."""
        return self._joined(other, lambda a, b: distinct(np.concatenate([a, b])))

    def difference(self, other: Allocation) -> Allocation:
        """Entries of this allocation that are not in the other; also written ``a - b``."""
        return self._joined(other, partial(np.setdiff1d, assume_unique=True))

    def intersection(self, other: Allocation) -> Allocation:
        """Entries that are in both allocations; also written ``a & b``."""
        return self.difference(self.difference(other))

    def move(self, name: str, source: Sequence[int], target: Sequence[int]) -> Allocation:
        """The allocation with one learnable weight of ``name`` moved from source to target.

        >>> import sublearn as sl
        >>> net = sl.FeedForward((2, 2))
        >>> Allocation.diagonal(net, "W1").move("W1", (0, 0), (0, 1)).entries["W1"]
        ((0, 1), (1, 1))
        """
        shape = self._shapes[one_of("weight name", name, self._shapes)]
        leaves, comes = (_place(name, shape, pair) for pair in (source, target))
        flat = self._flat[name]
        if leaves not in flat:
            raise BadInputError(
                f"entry {tuple(source)} of {name} is not learnable, so it cannot move."
            )
        if comes in flat:
            raise BadInputError(f"entry {tuple(target)} of {name} is learnable already.")
        moved = np.sort(np.append(flat[flat != leaves], comes))
        return Allocation(self._shapes, {**self._flat, name: moved})

    __or__ = union
    __sub__ = difference
    __and__ = intersection

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Allocation) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of shapes and entries: the same for the same content on every machine."""
        h = hashlib.sha256(b"sublearn allocation 1\n")
        for name, (rows, columns) in self._shapes.items():
            h.update(json.dumps([name, rows, columns]).encode())
            h.update(self._flat[name].astype("<i8").tobytes())
        return h.hexdigest()

    @property
    def headline(self) -> str:
        """How many entries of each weight, and of what matrix; which entries exist only a network knows."""
        shown = (
            f"{name}: {self._flat[name].size} of {rows} x {columns}"
            for name, (rows, columns) in self._shapes.items()
            if name in self.names
        )
        return ", ".join(shown) or "empty"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        entries = {name: [list(pair) for pair in self.entries[name]] for name in self.names}
        return {"entries": entries, "digest": self.digest}

    def table(self) -> list[Row]:
        """A row for every learnable entry.

        >>> import sublearn as sl
        >>> Allocation.diagonal(sl.LinearEstimator(inputs=2, outputs=2), "W").table()
        [{'weight': 'W', 'row': 0, 'column': 0}, {'weight': 'W', 'row': 1, 'column': 1}]
        """
        return [{"weight": name, "row": i, "column": j} for name, i, j in self.labels()]

    def __str__(self) -> str:
        from sublearn.allocations._picture import picture

        return picture(self)

    def plot(self, wasted: Allocation | None = None, circuit: Allocation | None = None) -> Figure:
        """A picture of the matrices that hold learnable weights, as a matplotlib figure.

        ``wasted`` and ``circuit`` are subsets to mark: :meth:`Verdict.plot` gives those of a verdict.

        >>> import sublearn as sl
        >>> len(Allocation.diagonal(sl.LinearRNN(n=3, b=1, d=2, T=2), "W").plot().axes)
        1
        """
        from sublearn.allocations._picture import plot

        return plot(self, wasted, circuit)

    def _in_words(self) -> str:
        return self.headline  # the picture below shows what str would draw once more


def an_allocation(name: str, value: object) -> Allocation:
    """The same allocation, or an error that says how one is made: a mask alone names no weight."""
    if not isinstance(value, Allocation):
        raise BadInputError(
            f"{name} must be an Allocation, not {type(value).__name__}: Allocation.from_masks(network, "
            '{"W": mask}) makes one of a mask.'
        )
    return value


def mask_of(network: Network, name: str, mask: ArrayLike, what: str = "mask") -> Mask:
    """``mask`` as a boolean matrix of the right shape, or an error that names it."""
    shape = network.shape(name)
    try:
        array = np.asarray(mask)
    except ValueError:
        raise BadInputError(f"the {what} for {name} must have rows of equal length.") from None
    if array.shape != shape:
        raise BadInputError(f"the {what} for {name} must have shape {shape}, not {array.shape}.")
    if array.dtype != bool and not np.isin(array, (0, 1)).all():
        raise BadInputError(f"the {what} for {name} must hold only 0 and 1, or true and false.")
    if array.dtype.kind not in "biu":
        raise BadInputError(
            f"the {what} for {name} must be true and false, or whole numbers, not {array.dtype}: "
            "say mask.astype(bool) if 0.0 and 1.0 are meant so."
        )
    return array.astype(bool)


def _spread_among(exists: Mask, count: int) -> Indices:
    """So many entries of a mask: each in an emptiest row that has one left, there in an emptiest column."""
    left = exists.copy()
    in_row, in_column = np.zeros(exists.shape[0]), np.zeros(exists.shape[1])
    for _ in range(count):
        i = int(np.argmin(np.where(left.any(axis=1), in_row, np.inf)))
        j = int(np.argmin(np.where(left[i], in_column, np.inf)))
        left[i, j] = False
        in_row[i], in_column[j] = in_row[i] + 1, in_column[j] + 1
    return np.flatnonzero(exists & ~left)


def _place(name: str, shape: tuple[int, int], pair: Sequence[int]) -> int:
    """The flat index of an entry (row, column) of a weight."""
    values = list(pair) if isinstance(pair, Sequence) or hasattr(pair, "__len__") else []
    if len(values) != 2:
        raise BadInputError(f"an entry of {name} must be a pair (row, column), not {shown(pair)}.")
    # Negative numbers do not count from the end: they are refused with the other outsiders.
    i, j = (
        _integer(f"{what} of {name}", v)
        for what, v in zip(("a row", "a column"), values, strict=True)
    )
    rows, columns = shape
    if not (0 <= i < rows and 0 <= j < columns):
        raise BadInputError(
            f"entry ({i}, {j}) lies outside {name}, which has rows 0..{rows - 1} and columns "
            f"0..{columns - 1}."
        )
    return i * columns + j


def _integer(what: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise BadInputError(f"{what} must be a whole number, not {value!r}.")
    return int(value)


def _check_mapping(what: str, given: object) -> None:
    if not isinstance(given, Mapping):
        kind = type(given).__name__
        raise BadInputError(f"{what} must be given by weight name, as a dict, not as {kind}.")


def _indices(what: str, given: Iterable[int] | None, size: int) -> Indices:
    if given is None:
        return np.arange(size, dtype=np.int64)
    if not isinstance(given, Iterable):
        raise BadInputError(f"{what} must be a list of whole numbers, not {given!r}.")
    values = [_integer(f"each of the {what}", v) for v in given]
    outside = [v for v in values if not 0 <= v < size]
    if outside:
        raise BadInputError(f"{what} must lie in 0..{size - 1}, not {outside[0]}.")
    if len(set(values)) < len(values):
        raise BadInputError(f"{what} must not be given twice: {values}.")
    return np.array(sorted(values), dtype=np.int64)
