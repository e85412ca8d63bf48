"""Do frozen weights stay still? Bits before and after real optimizer steps, and nothing less.

A gradient of zero proves nothing: weight decay, momentum from before, and optimizers that mix entries
move weights whose gradient is masked. The only sound check compares the numbers themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sublearn._arrays import Mask
from sublearn._errors import BadInputError
from sublearn.models._jax import tree_names
from sublearn.models._masks import DELTA, as_masks, resolve_masks


@dataclass(frozen=True)
class Moved:
    """Frozen entries of one parameter that changed: how many, of how many, ``where``, and by how much."""

    name: str
    count: int
    frozen: int
    largest: float
    note: str = ""
    where: Mask | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        if self.note:
            return f"{self.name}: {self.note}"
        return f"{self.name}: {self.count} of {self.frozen} frozen weights, by up to {self.largest:.2g}"


class FrozenWeightsMovedError(AssertionError):
    """Weights that should have stayed still have moved; ``moved`` lists them by parameter."""

    def __init__(self, moved: tuple[Moved, ...]) -> None:
        self.moved = moved
        total = sum(item.count for item in moved)
        shown = "; ".join(str(item) for item in moved[:5])
        more = f"; and {len(moved) - 5} parameters more" if len(moved) > 5 else ""
        super().__init__(
            f"{total} frozen weights moved: {shown}{more}. Masked gradients do not stop weight decay, "
            "momentum from before the mask, or optimizers that mix entries: attach() trains the chosen "
            "weights alone."
        )


def assert_frozen(before: Any, after: Any, what: Any = None) -> None:
    """Raise unless every weight outside ``what`` has the same bits before and after.

    ``before`` and ``after`` are torch modules, state dicts, or trees of JAX parameters; ``what`` says
    which weights may change (:func:`as_masks`), in the terms of ``before``. Where nothing may change,
    give ``what=[]``.

    >>> old = {"w": np.array([1.0, 2.0])}
    >>> assert_frozen(old, {"w": np.array([5.0, 2.0])}, {"w": [True, False]})
    """
    # A state dict has buffers too, which are no parameters of a model.
    stated = hasattr(after, "state_dict") and not hasattr(before, "named_parameters")
    first, second = arrays_of(before), arrays_of(after.state_dict() if stated else after)
    masks: Mapping[str, Mask] = {}
    if not _nothing(what):
        named = hasattr(before, "named_parameters") or hasattr(before, "named")
        shapes = {name: array.shape for name, array in first.items()}
        by_name = isinstance(what, Mapping) and set(what) <= set(shapes)
        given = what if by_name else _flattened(what)
        masks = as_masks(before, what) if named else resolve_masks(given, shapes)
    moved = compare_bits(first, second, masks)
    if moved:
        raise FrozenWeightsMovedError(moved)


def compare_bits(
    before: Mapping[str, NDArray[Any]], after: Mapping[str, NDArray[Any]], masks: Mapping[str, Mask]
) -> tuple[Moved, ...]:
    """Which frozen entries differ in any bit, parameter by parameter."""
    moved = []
    for name, old in before.items():
        free = masks.get(name)
        frozen = old.size if free is None else int(old.size - free.sum())
        new = after.get(name)
        if new is None or (new.shape, new.dtype) != (old.shape, old.dtype):
            note = "is gone"
            if new is not None:
                note = f"was {old.shape} {old.dtype}, is {new.shape} {new.dtype}"
            moved.append(Moved(name, frozen, frozen, 0.0, note))
            continue
        different = _bits(old) != _bits(new)
        if free is not None:
            different &= ~free
        count = int(np.count_nonzero(different))
        if count:
            change = np.abs(_numbers(new[different]) - _numbers(old[different]))
            largest = float(np.nanmax(change, initial=0.0))
            moved.append(Moved(name, count, frozen, largest, where=different))
    return tuple(moved)


def check_loop(
    before: Mapping[str, NDArray[Any]], after: Mapping[str, NDArray[Any]], masks: Mapping[str, Mask]
) -> None:
    """Refuse a training loop of one's own that moved anything but what ``masks`` hold."""
    moved = compare_bits(before, after, masks)
    if moved:
        raise BadInputError(
            f"loop moved {moved[0].count} entries of {moved[0].name} that are not chosen: it must change "
            "what masks holds and nothing else."
        )


class Guard:
    """Watches a torch model while it is trained; see :func:`guard`."""

    def __init__(self, model: Any, what: Any, restore: bool) -> None:
        if not hasattr(model, "named_parameters"):
            raise BadInputError(
                f"model must be a torch.nn.Module, not {type(model).__name__}; for JAX there is "
                "assert_frozen(before, after, masks)."
            )
        self.masks: Mapping[str, Mask] = {} if _nothing(what) else as_masks(model, what)
        self.model, self._restores = model, restore
        self._before = {name: array.copy() for name, array in arrays_of(model).items()}
        self._moved: dict[str, Moved] = {}

    @property
    def moved(self) -> tuple[Moved, ...]:
        """Which frozen weights any check found moved, put back or not; every entry counts once."""
        return tuple(self._moved[name] for name in self._before if name in self._moved)

    @property
    def compared_bytes(self) -> int:
        """What one check reads, and what the guard keeps: the parameters once over."""
        return sum(array.nbytes for array in self._before.values())

    def check(self) -> tuple[Moved, ...]:
        """Which frozen weights are not what they were; they are put back if asked for."""
        found = compare_bits(self._before, arrays_of(self.model), self.masks)
        for item in found:
            old = self._moved.get(item.name)
            if old is not None and old.where is not None and item.where is not None:
                where = old.where | item.where
                largest = max(old.largest, item.largest)
                item = replace(item, count=int(where.sum()), largest=largest, where=where)
            self._moved[item.name] = item
        if self._restores:
            self._put_back(found)
        return found

    def _put_back(self, found: tuple[Moved, ...]) -> None:
        import torch

        own = dict(self.model.named_parameters())
        with torch.no_grad():
            for item in found:
                if item.note:
                    continue
                p, old = own[item.name], torch.from_numpy(self._before[item.name])
                old = old.view(p.dtype).to(p.device)
                free = self.masks.get(item.name)
                if free is None:
                    p.copy_(old)
                else:
                    p.copy_(torch.where(torch.from_numpy(free).to(p.device), p, old))
        if lost := tuple(item for item in found if item.note):
            raise FrozenWeightsMovedError(lost)

    def __enter__(self) -> Guard:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            with suppress(FrozenWeightsMovedError):  # the error inside says more
                if self._restores:
                    self.check()
            return
        if self.check() and not self._restores:
            raise FrozenWeightsMovedError(self.moved)


def guard(model: Any, what: Any = None, *, restore: bool = False) -> Guard:
    """Watch a torch model while it is trained: ``with guard(model, choice): train(model)``.

    At the end every weight outside ``what`` is compared with what it was, bit by bit; if some moved,
    :class:`FrozenWeightsMovedError` says which. With ``restore`` they are put back instead, after an
    error inside too. ``check()`` does the same at any moment, after every step if need be, and ``moved``
    lists what any of them found. A check reads the parameters once; one copy of them is kept
    (``compared_bytes``). Buffers, such as the running means of batch normalisation, are no weights.

    >>> import torch
    >>> model = torch.nn.Linear(2, 1)
    >>> with guard(model, ["bias"]):
    ...     _ = model.bias.data.add_(1.0)
    """
    return Guard(model, what, restore)


def _nothing(what: Any) -> bool:
    """Whether no weight at all may change, which a list of no names says."""
    return isinstance(what, (list, tuple)) and not what


def arrays_of(given: Any) -> dict[str, NDArray[Any]]:
    """The numbers of a module, a state dict, a JAX model or a tree of arrays, by name.

    Types that numpy does not know are seen as whole numbers of the same bits.
    """
    if hasattr(given, "arrays") and hasattr(given, "params"):
        return dict(given.arrays())
    if hasattr(given, "named_parameters"):
        # What attach() adds is there to move; the base beside it is not.
        named = given.named_parameters()
        return {name: _array(p) for name, p in named if not name.startswith(DELTA)}
    flat = _flattened(given)
    if not isinstance(flat, Mapping) or "" in flat:
        raise BadInputError(
            f"weights must be a model, a state dict or a tree of arrays, not {type(given).__name__}."
        )
    return {name: _array(value) for name, value in flat.items()}


def _flattened(given: Any) -> Any:
    """A nested tree of dicts, lists or registered containers as one mapping with dotted names."""
    if given is None or hasattr(given, "masks"):
        return given
    if isinstance(given, Mapping) and not any(
        isinstance(v, (Mapping, list)) for v in given.values()
    ):
        return given
    if isinstance(given, (list, tuple)) and all(isinstance(v, str) for v in given):
        return given
    return tree_names(given)


def _array(value: Any) -> NDArray[Any]:
    if hasattr(value, "detach"):
        import torch

        value = value.detach().cpu()
        if value.dtype == torch.bfloat16:
            value = value.view(torch.int16)
        return np.asarray(value.numpy())
    return np.asarray(value)


def _bits(array: NDArray[Any]) -> NDArray[Any]:
    """The same memory as whole numbers: -0.0 is not 0.0, and a NaN equals itself."""
    if array.dtype.kind == "c":
        return np.ascontiguousarray(array).view(f"V{array.dtype.itemsize}").reshape(array.shape)
    if array.dtype.kind not in "fV" and array.dtype.name != "bfloat16":
        return array
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)


def _numbers(array: NDArray[Any]) -> NDArray[Any]:
    """For the size of a change; bits of bfloat16 are widened first."""
    if array.dtype == np.int16:
        wide = array.view(np.uint16).astype(np.uint32) << 16
        return wide.view(np.float32).astype(np.float64)
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
