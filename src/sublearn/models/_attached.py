"""Train r numbers of a torch model and nothing else: the base stays as it is, bit by bit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sublearn._arrays import Mask
from sublearn._errors import BadInputError
from sublearn.models._files import DELTA_FORMAT, check_base, read_delta, write_entries
from sublearn.models._inputs import array_of
from sublearn.models._masks import ATTACHED, DELTA, as_masks, as_module, mask_at
from sublearn.models._uses import Tensor


class _Put(torch.autograd.Function):
    """A base with entries at flat places.

    It saves no tensor for the way back: a checkpoint counts those, and a block that runs again puts
    together what it found in the cache before.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(base: Tensor, index: Tensor, entries: Tensor) -> Tensor:
        return base.reshape(-1).index_copy(0, index, entries).view(base.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.index = inputs[1]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return None, None, gradient.reshape(-1)[ctx.index]


class Addition:
    """What is added to one parameter: ``delta`` at the flat places ``index``.

    The effective parameter is round(base + delta) at these places, computed in float32 at least and
    rounded to the base's type, and the base elsewhere.
    """

    def __init__(self, base: Tensor, index: Tensor) -> None:
        wide = base.dtype if base.dtype == torch.float64 else torch.float32
        self.index = index
        self.delta = torch.nn.Parameter(torch.zeros(len(index), dtype=wide, device=base.device))
        self.original: Tensor | None = None  # entries of the base, while merged
        self.caching = False
        self.cache: Tensor | None = None

    def entries(self, base: Tensor) -> Tensor:
        """The effective values at the places, in the base's type."""
        values = base.detach().reshape(-1)[self.index].to(self.delta.dtype)
        return (values + self.delta).to(base.dtype)

    def effective(self, base: Tensor) -> Tensor:
        """The parameter that the model sees."""
        if self.original is not None:
            return base
        if self.cache is not None:
            return self.cache
        whole = _Put.apply(base.detach(), self.index, self.entries(base))
        if self.caching:
            self.cache = whole
        return whole


class Attached:
    """A model whose base is frozen and to which r trainable numbers are attached.

    The model is changed in place and computes with base + delta; ``parameters()`` are the r numbers,
    in one vector per changed parameter, which ``model.parameters()`` lists too, so that any optimizer
    and any loop trains them and keeps state for them alone. Tied weights stay tied.
    """

    def __init__(self, model: Any, masks: Mapping[str, Mask]) -> None:
        self.model = model
        self.masks = {name: np.array(mask) for name, mask in masks.items()}
        own = dict(model.named_parameters())
        self._flags = {name: bool(p.requires_grad) for name, p in own.items()}
        self._slots: dict[str, Addition] = {}
        self._classes: list[tuple[Any, type]] = []
        self._hooks: list[Any] = []
        places: dict[int, list[tuple[Any, str]]] = {}
        for module in model.modules():
            for attribute, p in module._parameters.items():
                if p is not None:
                    places.setdefault(id(p), []).append((module, attribute))
        for p in own.values():
            p.requires_grad_(False)
        redirected: dict[Any, dict[str, Addition]] = {}
        for number, (name, mask) in enumerate(self.masks.items()):
            base = own[name]
            index = torch.from_numpy(np.flatnonzero(mask)).to(base.device)
            slot = Addition(base, index)
            self._slots[name] = slot
            for module, attribute in places[id(base)]:
                redirected.setdefault(module, {})[attribute] = slot
            model.register_parameter(f"{DELTA}{number}", slot.delta)
        for module, slots in redirected.items():
            self._classes.append((module, type(module)))
            module.__dict__["_sublearn_slots"] = slots
            module.__class__ = _redirecting(type(module), slots)
        self._hooks.append(model.register_forward_pre_hook(self._before))
        self._hooks.append(model.register_forward_hook(self._after, always_call=True))
        model.__dict__[ATTACHED] = self

    def _before(self, module: Any, args: Any) -> None:
        # Within one forward pass a tied or recurring weight is put together once.
        for slot in _slots_of(module):
            slot.cache, slot.caching = None, True

    def _after(self, module: Any, args: Any, result: Any) -> None:
        for slot in _slots_of(module):
            slot.cache, slot.caching = None, False

    # What is trained.

    @property
    def count(self) -> int:
        """The number r of trainable numbers."""
        return sum(len(slot.index) for slot in self._slots.values())

    @property
    def merged(self) -> bool:
        """Whether the delta is written into the base."""
        return any(slot.original is not None for slot in self._slots.values())

    def parameters(self) -> Iterator[Tensor]:
        """The vectors of trainable numbers, for an optimizer."""
        return iter([slot.delta for slot in self._slots.values()])

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """The same with the names of the parameters they belong to."""
        return iter([(name, slot.delta) for name, slot in self._slots.items()])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.model(*args, **kwargs)

    def __repr__(self) -> str:
        state = "merged" if self.merged else "not merged"
        return f"<Attached: {self.count} weights of {len(self._slots)} parameters, {state}>"

    def state_dict(self) -> dict[str, Tensor]:
        """The plain model's state dict with the tuned values in it."""
        attached = {f"{DELTA}{number}" for number in range(len(self._slots))}
        state = {n: v for n, v in self.model.state_dict().items() if n not in attached}
        if self.merged:
            return state
        data = {id(p): name for name, p in self.model.named_parameters()}
        for module_name, p in self.model.named_parameters(remove_duplicate=False):
            slot = self._slots.get(data.get(id(p), ""))
            if slot is not None and module_name in state:
                state[module_name] = slot.effective(p).detach().clone()
        return state

    # Into the base and out again.

    @torch.no_grad()
    def merge(self) -> None:
        """Write base + delta into the base, keeping the entries that are overwritten."""
        self._alive()
        if self.merged:
            raise BadInputError("the delta is merged already: unmerge() takes it out again.")
        own = dict(self.model.named_parameters())
        for name, slot in self._slots.items():
            flat = _flat(name, own[name])
            slot.original, flat[slot.index] = flat[slot.index].clone(), slot.entries(flat)

    @torch.no_grad()
    def unmerge(self) -> None:
        """Put the kept entries back: the same bits as before :meth:`merge`."""
        self._alive()
        if not self.merged:
            raise BadInputError("the delta is not merged, so there is nothing to take out.")
        own = dict(self.model.named_parameters())
        for name, slot in self._slots.items():
            _flat(name, own[name])[slot.index] = slot.original
            slot.original = None

    def detach(self) -> Any:
        """Make the model plain again and return it: tuned if merged, else with its base weights."""
        self._alive()
        for number in range(len(self._slots)):
            del self.model._parameters[f"{DELTA}{number}"]
        for module, kind in self._classes:
            module.__class__ = kind
            del module.__dict__["_sublearn_slots"]
            if isinstance(module, torch.nn.RNNBase):
                names = module._flat_weights_names
                module._flat_weights = [module._parameters[name] for name in names]
        for hook in self._hooks:
            hook.remove()
        for name, p in self.model.named_parameters():
            p.requires_grad_(self._flags[name])
        del self.model.__dict__[ATTACHED]
        return self.model

    def _alive(self) -> None:
        if self.model.__dict__.get(ATTACHED) is not self:
            raise BadInputError("this was detached from its model already: attach() again.")

    # Files.

    def save(self, path: str | Path) -> None:
        """Write a .npz of places and values alone, with the base's entries there to know it by."""
        values = {}
        own = dict(self.model.named_parameters())
        for name, slot in self._slots.items():
            base = own[name].detach().reshape(-1)[slot.index]
            base = base if slot.original is None else slot.original
            values[name] = {
                "delta": slot.delta.detach().cpu().numpy(),
                "base": base.to(slot.delta.dtype).cpu().numpy(),
            }
        write_entries(path, DELTA_FORMAT, self.masks, values=values)

    @torch.no_grad()
    def load(self, path: str | Path) -> None:
        """Take the values of a file that :meth:`save` wrote for the same weights."""
        self._alive()
        if self.merged:
            raise BadInputError("the delta is merged: unmerge() before loading another.")
        stored = read_delta(path)
        if set(stored) != set(self._slots) or any(
            not np.array_equal(stored[name]["entries"], slot.index.cpu().numpy())
            for name, slot in self._slots.items()
        ):
            raise BadInputError(f"{path} holds other weights than those attached here.")
        for name, slot in self._slots.items():
            slot.delta.copy_(torch.from_numpy(stored[name]["delta"]))


def _redirecting(kind: type, attributes: Iterable[str]) -> type:
    """A class of modules whose ``attributes`` are the effective parameters; the base stays where it was."""
    body: dict[str, Any] = {"__module__": kind.__module__, "__reduce_ex__": _reduced}
    if issubclass(kind, torch.nn.RNNBase):
        # It keeps a list of its weights, which would pass the effective ones by.
        body["_flat_weights"] = property(
            lambda self: [getattr(self, n) for n in self._flat_weights_names],
            lambda self, value: None,
        )

    def effective(attribute: str) -> property:
        def get(self: Any) -> Tensor:
            base = self._parameters[attribute]
            return self.__dict__["_sublearn_slots"][attribute].effective(base)

        def put(self: Any, value: Any) -> None:
            self._parameters[attribute] = value

        return property(get, put)

    body |= {attribute: effective(attribute) for attribute in attributes}
    return type(kind.__name__, (kind,), body)


def _reduced(self: Any, protocol: Any) -> tuple[Any, ...]:
    """For copies and files, which cannot name a class that was made here."""
    kind: Any = type(self).__bases__[0]
    _, _, *state = kind.__reduce_ex__(self, protocol)
    return _remade, (kind, tuple(self.__dict__["_sublearn_slots"])), *state


def _remade(kind: type, attributes: Iterable[str]) -> Any:
    made: Any = _redirecting(kind, attributes)
    return made.__new__(made)


def _slots_of(model: Any) -> list[Addition]:
    """The slots of a model or of a copy of it, whose own they are then."""
    slots = {}
    for module in model.modules():
        for slot in module.__dict__.get("_sublearn_slots", {}).values():
            slots[id(slot)] = slot
    return list(slots.values())


def _flat(name: str, base: Tensor) -> Tensor:
    if not base.is_contiguous():
        raise BadInputError(f"parameter {name} must be contiguous to be merged into.")
    return base.view(-1)


def attach_torch(model: Any, what: Any = None) -> Attached:
    """See :func:`sublearn.models.attach`."""
    if ATTACHED in as_module(model).__dict__:
        raise BadInputError("something is attached to this model already: detach() it before.")
    masks = as_masks(model, what)
    own = dict(model.named_parameters())
    for module in model.modules():
        if torch.nn.utils.parametrize.is_parametrized(module) and any(
            own[name] is p for name in masks for p in module.parametrizations.parameters()
        ):
            raise BadInputError(
                "a weight that may change is parametrized (torch.nn.utils.parametrize): remove the "
                "parametrization, or choose other weights."
            )
    return Attached(model, masks)


def load_delta_torch(model: Any, path: str | Path) -> Attached:
    """See :func:`sublearn.models.load_delta`."""
    stored = read_delta(path)
    own = dict(model.named_parameters())
    masks = as_masks(
        model, {name: mask_at(saved["shape"], saved["entries"]) for name, saved in stored.items()}
    )
    for name in masks:
        saved = stored[name]
        base = own[name].detach().reshape(-1)[torch.from_numpy(saved["entries"])]
        check_base(path, name, array_of(base), saved)
    made = attach_torch(model, masks)
    made.load(path)
    return made
