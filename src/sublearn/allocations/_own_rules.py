"""Rules of a person's own: a function with a name, or a file of masks, one for each trial."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from sublearn._arrays import Indices, Mask, unpacked
from sublearn._errors import BadInputError, first_line
from sublearn._reading import read_npz, read_regular, reading
from sublearn.allocations._allocation import Allocation, mask_of
from sublearn.allocations._rules import Places, Rule, check_count
from sublearn.networks import Network

Draw = TypeVar("Draw", bound=Callable[..., ArrayLike])
Number = int | float
_KNOWN: dict[str, Callable[..., ArrayLike]] = {}
_ROOM = 2**26  # bytes that masks of another network may have, to be refused by their shapes
_MOST_MASKS = 2**30


def register_rule(name: str) -> Callable[[Draw], Draw]:
    """Give a function the name under which texts, sweeps and files know it as a rule.

    ``draw(exists, count, rng, **numbers)`` is given the mask of the weights that exist, how many to choose,
    and a random stream of the trial; it returns a mask of as many. Texts say ``W:rule=NAME,count=8,k=3``:
    what is neither count nor seed is a number for the function. A file never causes an import:
    it is read with the names that are registered by then.

    >>> import numpy as np, sublearn as sl
    >>> @sl.allocations.register_rule("corner")
    ... def corner(exists, count, rng, k=2):
    ...     mask = np.zeros(exists.shape, dtype=bool)
    ...     places = np.flatnonzero(exists[:k, :k])
    ...     mask[:k, :k].flat[rng.choice(places, count, replace=False)] = True
    ...     return mask
    >>> problem = sl.Problem(sl.LinearRNN(n=6, b=1, d=2, T=2), samples=2)
    >>> found = sl.draw(problem, {"W": sl.allocations.OwnRule("corner", k=3)}).allocation
    >>> len(found), int(found.row_counts("W")[3:].sum())
    (4, 0)
    """
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise BadInputError(
            f"a rule is named by lower-case letters, digits and hyphens, not {name!r}."
        )

    def add(draw: Draw) -> Draw:
        known = _KNOWN.get(name)
        # A cell of a notebook that is run again brings the same function again.
        if known is not None and known.__qualname__ != draw.__qualname__:
            raise BadInputError(f"the name {name!r} is taken by the rule {known.__qualname__}.")
        _KNOWN[name] = draw
        return draw

    return add


@dataclass(frozen=True, init=False)
class OwnRule(Rule):
    """The rule that :func:`register_rule` gave a ``name``, with numbers of its own.

    ``count`` defaults to what the problem needs, d m.
    """

    name: str
    count: int | None
    numbers: tuple[tuple[str, Number], ...]

    def __init__(self, name: str, count: int | None = None, **numbers: Number) -> None:
        if name not in _KNOWN:
            known = f"; known are {', '.join(_KNOWN)}" if _KNOWN else ""
            raise BadInputError(
                f"no rule {name!r} is registered: a function gets its name by register_rule, in a script of "
                f"yours{known}."
            )
        check_count(count)
        for word, value in numbers.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise BadInputError(f"{word} of the rule {name!r} must be a number, not {value!r}.")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "count", count)
        object.__setattr__(self, "numbers", tuple(sorted(numbers.items())))

    def __reduce__(self) -> tuple[object, ...]:
        # A worker that has not registered the name gets the function by where it stands.
        return _again, (self.name, self.count, dict(self.numbers), _KNOWN[self.name])

    def describe(self) -> dict[str, Any]:
        return {"rule": self.name, "count": self.count, **dict(self.numbers)}

    def draw(self, places: Places, count: int, rng: np.random.Generator, trial: int = 0) -> Indices:
        weight, exists = places.name, places.exists
        if exists is None:
            exists = np.ones(places.shape, dtype=bool)
        try:
            mask = np.asarray(_KNOWN[self.name](exists.copy(), count, rng, **dict(self.numbers)))
        except BadInputError:
            raise
        except Exception as problem:  # it is somebody else's code
            raise BadInputError(
                f"the rule {self.name!r} cannot be drawn for {weight}: {first_line(problem)}."
            ) from problem
        if mask.dtype != bool or mask.shape != exists.shape:
            raise BadInputError(
                f"the rule {self.name!r} must give a mask of true and false of shape {exists.shape} for "
                f"{weight}, not {mask.dtype} of shape {mask.shape}."
            )
        chosen = int(mask.sum())
        if chosen != count or (mask & ~exists).any():
            raise BadInputError(
                f"the rule {self.name!r} must choose {count} weights of {weight} that exist, not {chosen}."
            )
        return np.flatnonzero(mask)


def _again(
    name: str, count: int | None, numbers: dict[str, Number], draw: Callable[..., ArrayLike]
) -> OwnRule:
    _KNOWN.setdefault(name, draw)
    return OwnRule(name, count, **numbers)


@dataclass(frozen=True)
class Masks(Rule):
    """A list of masks of one weight: trial i takes number i, and after the last they begin again."""

    shape: tuple[int, int]
    packed: tuple[bytes, ...]
    count: int | None = None

    counted = False

    @classmethod
    def of(cls, masks: Mask) -> Masks:
        """From an array (masks, rows, columns) of true and false."""
        packed = tuple(np.packbits(mask).tobytes() for mask in masks)
        return cls((int(masks.shape[1]), int(masks.shape[2])), packed)

    def __len__(self) -> int:
        return len(self.packed)

    def mask(self, trial: int) -> Mask:
        """The mask of a trial."""
        return unpacked(self.packed[trial % len(self)], self.shape)

    def draw(self, places: Places, count: int, rng: np.random.Generator, trial: int = 0) -> Indices:
        if self.shape != places.shape:
            raise BadInputError(
                f"the mask for {places.name} must have shape {places.shape}, not {self.shape}."
            )
        return np.flatnonzero(self.mask(trial))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the masks."""
        return hashlib.sha256(repr(self.shape).encode() + b"".join(self.packed)).hexdigest()

    def describe(self) -> dict[str, Any]:
        return {"rule": "masks", "masks": len(self), "digest": self.digest}


def load_masks(path: str | Path, network: Network) -> dict[str, Masks]:
    """Masks for every trial from a .npz file: by weight name arrays (masks, rows, columns).

    >>> import numpy as np, sublearn as sl, tempfile, pathlib
    >>> net = sl.FeedForward((2, 2))
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "masks.npz"
    >>> np.savez(file, W1=np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]]], dtype=bool))
    >>> rules = sl.allocations.load_masks(file, net)
    >>> problem = sl.Problem(net, samples=1)
    >>> [sl.draw(problem, rules, trial=i).allocation.entries["W1"] for i in (0, 1, 2)]
    [((0, 0), (1, 1)), ((0, 1), (1, 0)), ((0, 0), (1, 1))]
    """
    file = Path(path)
    with reading(file, "masks"):
        arrays = read_npz(file, most=max(_ROOM, min(_MOST_MASKS, 2**12 * network.cells)))
    if not arrays:
        raise BadInputError(f"{file} holds no masks.")
    rules: dict[str, Masks] = {}
    counts, total = set(), 0
    for name, array in arrays.items():
        stack = array if array.ndim == 3 else array[None]
        if stack.ndim != 3 or not len(stack):
            raise BadInputError(
                f"{file}: {name} must have shape (masks, rows, columns), not {array.shape}."
            )
        try:
            masks = np.stack([mask_of(network, name, mask) for mask in stack])
            for mask in masks:
                Allocation.from_masks(network, {name: mask})
        except BadInputError as problem:
            raise BadInputError(f"{file}: {problem}") from None
        counts.add(len(masks))
        total = total + masks.sum(axis=(1, 2)) if len(counts) == 1 else total
        rules[name] = Masks.of(masks)
    if len(counts) > 1:
        raise BadInputError(
            f"{file} must hold as many masks of every weight, not {sorted(counts)}."
        )
    if not np.all(total):
        raise BadInputError(f"{file}: mask {int(np.argmin(total))} has no learnable weight.")
    return rules


def is_masks_file(text: str) -> bool:
    """Whether a text names a file of masks, alone or with its digest behind an @."""
    return text.partition("@")[0].endswith(".npz")


def masks_with_digest(text: str) -> str:
    """The name of a file of masks with the digest of its bytes, so that another one is noticed."""
    name, at, _ = text.partition("@")
    if at:
        return text
    return f"{name}@{_digest(name)}"


def masks_from_text(text: str, network: Network) -> dict[str, Masks]:
    """What :func:`load_masks` reads; a digest behind an @ must be that of the file."""
    name, at, digest = text.partition("@")
    if at and _digest(name) != digest:
        raise BadInputError(f"{name} has changed since its masks were asked for.")
    return load_masks(name, network)


def _digest(name: str) -> str:
    file = Path(name)
    with reading(file, "masks"):
        return hashlib.sha256(read_regular(file, _MOST_MASKS)).hexdigest()
