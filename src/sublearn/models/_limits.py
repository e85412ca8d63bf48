"""What may be chosen: limits by layer, whole rows, and the largest scores that they allow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sublearn._arrays import Indices, Mask
from sublearn._errors import BadInputError, one_of, whole_number
from sublearn.models._masks import entries_in, mask_at, names_at

Scores = Mapping[str, NDArray[Any]]
Where = str | Iterable[str] | Mapping[str, Any] | None
UNITS = ("entry", "row")
_BLOCK = 1 << 20  # scores looked at together: what a large model needs beside them stays small


@dataclass(frozen=True)
class Picked:
    """Flat indices by name, in the order in which they were taken within each name."""

    entries: dict[str, Indices]
    gap: float | None

    @property
    def count(self) -> int:
        return sum(len(ids) for ids in self.entries.values())

    def masks(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Mask]:
        """The same as masks, in the order of the shapes; names without entries are left out."""
        return {n: mask_at(shapes[n], self.entries[n]) for n in shapes if n in self.entries}


@dataclass(frozen=True)
class Chosen:
    """What a rule chose: masks, and the gap at the cut where there is one.

    ``residuals`` are those of pursuit: |R|^2 / |T|^2, the share of what is wanted that is left, after
    each round but the last, whose fit nobody needs.
    """

    masks: dict[str, Mask]
    gap: float | None = None
    residuals: tuple[float, ...] = ()

    @property
    def count(self) -> int:
        return entries_in(self.masks)


class Limits:
    """Which entries may be chosen, which must be, and how many per layer.

    ``within``, ``forbidden`` and ``required`` name weights (``"blocks.0.fc1.weight"``), layers, which
    hold them (``"blocks.0"``), patterns (``"*.bias"``), or map names to boolean masks. ``at_most`` is
    the largest number of entries in one layer, the part of a weight's name before the last dot: one
    number for all, or numbers by name or pattern. With ``unit="row"`` whole rows are chosen: the
    entries that share their first index, which are the weights into one unit or channel.

    >>> limits = Limits({"a.weight": (2, 2), "a.bias": (2,)}, within="*.weight")
    >>> {name: int(mask.sum()) for name, mask in limits.allowed.items()}
    {'a.weight': 4, 'a.bias': 0}
    """

    def __init__(
        self,
        shapes: Mapping[str, tuple[int, ...]],
        *,
        within: Where = None,
        forbidden: Where = None,
        required: Where = None,
        at_most: int | Mapping[str, int] | None = None,
        unit: str = "entry",
    ) -> None:
        self.shapes = {name: tuple(shape) for name, shape in shapes.items()}
        self.unit = one_of("unit", unit, UNITS)
        inside = self._masks("within", within, otherwise=True)
        if not any(mask.any() for mask in inside.values()):
            raise BadInputError("within must name at least one weight or layer.")
        outside = self._masks("forbidden", forbidden)
        masks = self._masks("required", required)
        self.required = {name: mask for name, mask in masks.items() if mask.any()}
        self.allowed: dict[str, Mask] = {}
        for name, shape in self.shapes.items():
            allowed = np.asarray(inside[name] & ~outside[name])
            if unit == "row" and len(shape) > 1 and not allowed.all():
                # A row is chosen whole, so it has to be allowed whole.
                whole = allowed.reshape(shape[0], -1).all(axis=1)
                allowed = np.broadcast_to(whole.reshape(-1, *[1] * (len(shape) - 1)), shape).copy()
            self.allowed[name] = allowed
            clash = self.required.get(name)
            if clash is not None and (clash & ~allowed).any():
                raise BadInputError(
                    f"required asks for {int((clash & ~allowed).sum())} entries of {name} that within "
                    "and forbidden rule out."
                )
        self._caps = self._read_caps(at_most)
        for layer, cap in self._caps.items():
            needed = sum(
                int(mask.sum()) for name, mask in self.required.items() if layer_of(name) == layer
            )
            if needed > cap:
                raise BadInputError(
                    f"required asks for {needed} entries of {layer}, and at_most allows {cap}."
                )

    @property
    def capped(self) -> bool:
        """Whether any layer has a largest number of entries."""
        return bool(self._caps)

    @property
    def size(self) -> int:
        """How many entries may be chosen at most, with the limits by layer."""
        by_layer: dict[str, int] = {}
        for name, mask in self.allowed.items():
            by_layer[layer_of(name)] = by_layer.get(layer_of(name), 0) + int(mask.sum())
        return sum(min(count, self._caps.get(layer, count)) for layer, count in by_layer.items())

    def check_budget(self, budget: int) -> int:
        """The budget as an int, if it is at least 1 and no more than may be chosen."""
        budget = whole_number("budget", budget, least=1)
        if self.size == 0:
            raise BadInputError("within, forbidden and at_most leave no weight that may be chosen.")
        if budget > self.size:
            every = sum(int(np.prod(shape)) for shape in self.shapes.values())
            words = "of the model" if self.size == every else "that the limits allow"
            raise BadInputError(
                f"budget must be at most {self.size}, the number of weights {words}, not {budget}."
            )
        needed = entries_in(self.required)
        if needed > budget:
            raise BadInputError(
                f"budget must be at least {needed}, the number of entries that required names, not "
                f"{budget}."
            )
        least = self._shortest_row()
        if budget < least and not needed:
            raise BadInputError(
                f"budget must be at least {least}, the entries of the shortest row that may be chosen, "
                f"not {budget}."
            )
        return budget

    def start(self) -> dict[str, Mask]:
        """Masks in which only what is required is chosen."""
        return {
            name: self.required[name].copy() if name in self.required else np.zeros(shape, bool)
            for name, shape in self.shapes.items()
        }

    def pick(
        self, scores: Scores, count: int, taken: Mapping[str, Mask], enough: int | None = None
    ) -> Picked:
        """The ``count`` entries of the largest scores that may be chosen and are not ``taken``.

        Names that have no scores are not chosen from. Of equal scores the earlier name, and the
        smaller index, comes first. Fewer than ``count`` come back where no more are allowed, or no
        whole row fits; of whole rows only the best until there are ``enough``, where that is said.
        """
        names = [name for name in self.shapes if name in scores]
        left = self.left(taken)
        values: list[NDArray[Any]] = []
        units: list[Indices] = []
        sizes = {name: self._length(name) for name in names}
        for name in names:
            score = self._checked(name, scores[name]).reshape(-1, sizes[name])
            free = self.allowed[name].reshape(score.shape) & ~taken[name].reshape(score.shape)
            if self.unit == "row":
                ids = np.flatnonzero(free.all(axis=1))
                # By the mean, not the sum: the budget counts entries, and long rows cost more of it.
                value = score[ids].mean(axis=1, dtype=np.float64)
                ids, value = ids[np.isfinite(value)], value[np.isfinite(value)]
            else:
                # One more than can be taken, for the gap at the cut.
                want = min(count + 1, left.get(layer_of(name), count + 1))
                ids = _largest(score[:, 0], free[:, 0], want)
                value = score[ids, 0].astype(np.float64)
            values.append(value)
            units.append(ids)
        if not values or count == 0:
            return Picked({}, None)
        owner = np.repeat(np.arange(len(names)), [len(ids) for ids in units])
        value, unit = np.concatenate(values), np.concatenate(units)
        order = np.lexsort((unit, owner, -value))
        if self.unit == "row":
            first, cut = self._fit_rows(order, owner, names, count, left)
            long = np.array([sizes[names[place]] for place in owner[first]], dtype=np.int64)
            first = first[np.cumsum(long) - long < (count if enough is None else enough)]
        else:
            for layer, most in left.items():  # the first of each layer that at_most allows
                places = [i for i, name in enumerate(names) if layer_of(name) == layer]
                inside = np.flatnonzero(np.isin(owner[order], places))
                order = np.delete(order, inside[max(most, 0) :])
            first, cut = order[:count], order[count - 1 : count + 1]
        gap = None
        if len(cut) == 2 and value[cut[0]] > 0:
            gap = float((value[cut[0]] - value[cut[1]]) / value[cut[0]])
        entries = {}
        for place in np.unique(owner[first]):
            name, rows = names[place], unit[first[owner[first] == place]]
            entries[name] = (rows[:, None] * sizes[name] + np.arange(sizes[name])).reshape(-1)
        return Picked(entries, gap)

    def _length(self, name: str) -> int:
        """How many entries are chosen together: one, or a row."""
        shape = self.shapes[name]
        return int(np.prod(shape[1:])) if self.unit == "row" and len(shape) > 1 else 1

    def _shortest_row(self) -> int:
        """Of those that may be chosen whole."""
        rows = [
            length
            for name, mask in self.allowed.items()
            if (length := self._length(name)) <= self._caps.get(layer_of(name), length)
            and mask.any()
        ]
        if not rows and not self.required:
            raise BadInputError("at_most must leave room for a whole row in some layer.")
        return min(rows, default=0)

    def _fit_rows(
        self, order: Indices, owner: Indices, names: list[str], count: int, left: dict[str, int]
    ) -> tuple[Indices, Indices]:
        """Rows from the best down that still fit; and the two on either side of the first that did not."""
        chosen: list[int] = []
        cut: list[int] = []
        for place in order.tolist():
            name = names[owner[place]]
            size, layer = self._length(name), layer_of(name)
            if size > min(count, left.get(layer, count)):
                if chosen and not cut:
                    cut = [chosen[-1], place]
                continue
            chosen.append(place)
            count -= size
            if layer in left:
                left[layer] -= size
        return np.array(chosen, dtype=np.int64), np.array(cut, dtype=np.int64)

    def left(self, taken: Mapping[str, Mask]) -> dict[str, int]:
        """How many entries each limited layer may still give."""
        left = dict(self._caps)
        for name, mask in taken.items():
            if layer_of(name) in left:
                left[layer_of(name)] -= int(mask.sum())
        return left

    def _checked(self, name: str, score: NDArray[Any]) -> NDArray[Any]:
        array = np.asarray(score)
        if array.shape != self.shapes[name]:
            raise BadInputError(
                f"the scores of {name} must have its shape {self.shapes[name]}, not {array.shape}."
            )
        if array.size and np.isnan(array.min()):  # the least of numbers and NaN is NaN
            raise BadInputError(f"the scores of {name} must be numbers, and some are NaN.")
        return array.reshape(-1)

    def _masks(self, argument: str, where: Where, otherwise: bool = False) -> dict[str, Mask]:
        if where is None:
            return {n: np.broadcast_to(otherwise, shape) for n, shape in self.shapes.items()}
        if isinstance(where, Mapping):
            masks = {name: np.zeros(shape, dtype=bool) for name, shape in self.shapes.items()}
            for name, mask in where.items():
                self.names(argument, name)
                array = np.asarray(mask)
                if array.dtype != np.bool_ or array.shape != self.shapes.get(name):
                    raise BadInputError(
                        f"{argument}[{name!r}] must be a mask of truth values of shape "
                        f"{self.shapes.get(name)}, not {array.dtype.name} of shape {array.shape}."
                    )
                masks[name] = array
            return masks
        if not isinstance(where, Iterable):
            raise BadInputError(f"{argument} must name layers, and {where!r} is no name.")
        patterns = [where] if isinstance(where, str) else list(where)
        named = {name for pattern in patterns for name in self.names(argument, pattern)}
        return {name: np.full(shape, name in named) for name, shape in self.shapes.items()}

    def names(self, argument: str, pattern: object) -> list[str]:
        """The weights that a name, a layer's name or a pattern stands for."""
        if not isinstance(pattern, str):
            raise BadInputError(f"{argument} must name layers, and {pattern!r} is no name.")
        named = names_at(self.shapes, pattern)
        if not named:
            layers = {name.rsplit(".", depth)[0] for name in self.shapes for depth in range(1, 5)}
            close = get_close_matches(pattern, [*self.shapes, *sorted(layers)], n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise BadInputError(f"{argument}: the model has no weight or layer {pattern!r}.{hint}")
        return named

    def _read_caps(self, at_most: int | Mapping[str, int] | None) -> dict[str, int]:
        if at_most is None:
            return {}
        if isinstance(at_most, Mapping):
            caps: dict[str, int] = {}
            for pattern, most in at_most.items():
                number = whole_number(f"at_most[{pattern!r}]", most, least=0)
                for name in self.names("at_most", pattern):
                    caps[layer_of(name)] = number
            return caps
        most = whole_number("at_most", at_most, least=1)
        return {layer_of(name): most for name in self.shapes}


def layer_of(name: str) -> str:
    """The module that holds a weight: its name before the last dot, or all of it."""
    return name.rpartition(".")[0] or name


def _largest(score: NDArray[Any], free: Mask, count: int) -> Indices:
    """Indices of the ``count`` largest finite free scores, in blocks; of equals the smaller index."""
    best = np.empty(0, dtype=np.int64)
    values = score[:0]
    cut = -np.inf  # of equals the earlier ones are held, so what comes must be above it
    for low in range(0, len(score) if count > 0 else 0, _BLOCK):
        block = score[low : low + _BLOCK]
        ids = np.flatnonzero(block > cut)
        ids = ids[free[low + ids]]
        if not len(ids):
            continue
        values = np.concatenate([values, block[ids]])
        best = np.concatenate([best, ids + low])
        if len(best) >= count:
            least = np.partition(values, len(best) - count)[len(best) - count]
            above = np.flatnonzero(values > least)
            ties = np.flatnonzero(values == least)[: count - len(above)]
            keep = np.sort(np.concatenate([above, ties]))
            best, values, cut = best[keep], values[keep], least
    return best
