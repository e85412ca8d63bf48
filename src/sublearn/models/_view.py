"""What rules look at, computed from a torch model on some of its samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from sublearn._arrays import Array
from sublearn._errors import BadInputError
from sublearn.models._derivatives import Derivatives as Streamed
from sublearn.models._inputs import array_of, call_model, take
from sublearn.models._labels import CLASSES, OWN
from sublearn.models._pursuit import Derivatives, wanted_change

if TYPE_CHECKING:
    from sublearn.models._trainer import TorchTrainer

POSITIONS = 128  # of sequences, over all samples, at which outputs are looked at
PART = 512  # samples that go through the model at once
OTHERS = 16  # classes besides the right one, where there are more than twice as many


class TorchView:
    """A model on the samples ``ids``; see :class:`sublearn.models._rules.View`."""

    def __init__(self, trainer: TorchTrainer, ids: Any, seed: int = 0) -> None:
        self._trainer = trainer
        self._ids = ids
        self._seed = seed

    @cached_property
    def weights(self) -> dict[str, NDArray[Any]]:
        found = {name: array_of(parameter) for name, parameter in self._trainer.free.items()}
        for values in found.values():
            values.flags.writeable = False  # they are the model's own
        return found

    @cached_property
    def gradient(self) -> dict[str, NDArray[Any]]:
        parts, count = self._ids.split(PART), len(self._ids)
        return self._summed(parts, lambda held, g, part: held.add_(g, alpha=len(part) / count))

    @cached_property
    def squared_gradients(self) -> dict[str, NDArray[Any]]:
        return self._summed(self._ids.split(1), lambda held, g, _: held.addcmul_(g, g))

    def _summed(self, parts: Any, add: Callable[[Any, Any, Any], Any]) -> dict[str, NDArray[Any]]:
        """What ``add`` makes of the gradients of the loss on each of the parts, by name."""
        trainer, free = self._trainer, self._trainer.free
        total = {name: torch.zeros_like(parameter) for name, parameter in free.items()}
        for part in parts:
            with trainer.evaluating():
                loss = trainer.loss(part)
                found = torch.autograd.grad(loss, list(free.values()), allow_unused=True)
            for held, gradient in zip(total.values(), found, strict=True):
                if gradient is not None:
                    add(held, gradient, part)
        return {name: array_of(held) for name, held in total.items()}

    @cached_property
    def _readout(self) -> _Readout:
        return _Readout(self._trainer, self._ids, self._seed)

    @cached_property
    def derivatives(self) -> Derivatives:
        return self._readout.derivatives()

    @cached_property
    def target(self) -> Array:
        return self._readout.target(self.derivatives.outputs)

    def outputs(self) -> Array:
        return self._readout.outputs()

    @cached_property
    def layers(self) -> list[list[str]]:
        with self._trainer.evaluating():
            return layers_backwards(self._trainer.model, self._trainer.inputs, self._trainer.free)


class _Readout:
    """Which outputs of each sample are looked at: all of few, else some positions and classes."""

    def __init__(self, trainer: TorchTrainer, ids: Any, seed: int) -> None:
        if trainer.kind == OWN:
            raise BadInputError("method 'pursuit' needs labels: give them, or another method.")
        self._trainer, self._ids = trainer, ids
        self.labels = take(trainer.labels, ids)
        shape = trainer.output_shape
        samples = len(ids)
        draws = torch.Generator().manual_seed(seed)
        self._places: torch.Tensor | None = None  # (samples, looked at): flat places among outputs
        if trainer.kind != CLASSES:
            width = int(np.prod(shape)) if shape else 1
            self._groups, self._classes = 1, width
            if width > 2 * OTHERS:
                self._places = torch.rand(samples, width, generator=draws).argsort(1)[
                    :, : 2 * OTHERS
                ]
                self._classes = 2 * OTHERS
            return
        width = int(np.prod(shape[:-1])) if len(shape) > 1 else 1
        classes = shape[-1]
        labels = self.labels.reshape(samples, width)
        self._groups = min(width, max(1, -(-POSITIONS // samples)))
        self._classes = classes if classes <= 2 * OTHERS else OTHERS + 1
        if self._groups == width and self._classes == classes:
            self._right = labels
            return
        # Positions whose label is left out come last.
        order = torch.rand(samples, width, generator=draws) + (labels == -100) * 2.0
        where = order.argsort(1)[:, : self._groups]
        right = labels.gather(1, where)
        if self._classes == classes:
            picked = torch.arange(classes).expand(samples, self._groups, classes)
            self._right = right
        else:
            free = torch.rand(samples, self._groups, classes, generator=draws)
            free.scatter_(2, right.clamp_min(0)[..., None], 2.0)  # the right class comes first
            picked = free.argsort(2, descending=True)[..., : self._classes]
            self._right = torch.where(right == -100, right, torch.zeros_like(right))
        self._places = (where[..., None] * classes + picked).reshape(samples, -1)

    def derivatives(self) -> Derivatives:
        trainer = self._trainer

        def forward(model: Any, inputs: Any) -> Any:
            with trainer.evaluating():
                return call_model(model, inputs)

        with trainer.evaluating():
            return Streamed(
                trainer.model,
                take(trainer.inputs, self._ids),
                names=list(trainer.free),
                outputs=self._places,
                forward=forward,
            )

    def outputs(self) -> Array:
        """What is looked at, with the weights as they are now."""
        with torch.no_grad():
            parts = [self._trainer.outputs(part).flatten(1) for part in self._ids.split(PART)]
        flat = torch.cat(parts)
        found: Array = (
            (flat if self._places is None else flat.gather(1, self._places)).double().cpu().numpy()
        )
        return found

    def target(self, outputs: Array) -> Array:
        samples = len(outputs)
        if self._trainer.kind != CLASSES:
            targets = self.labels.reshape(samples, -1)
            if self._places is not None:
                targets = targets.gather(1, self._places)
            return wanted_change(outputs, targets=targets.double().cpu().numpy())
        labels = self._right.reshape(-1).cpu().numpy()
        change = wanted_change(outputs.reshape(-1, self._classes), labels=labels)
        return change.reshape(outputs.shape)


def layers_backwards(model: Any, inputs: Any, free: Mapping[str, Any]) -> list[list[str]]:
    """The names of the weights of each layer, the one that acts last first.

    A layer is a module with weights of its own. Modules that only hold others' weights, such as one
    with a position embedding beside its layers, come after those, since they act around them.
    """
    names = {id(parameter): name for name, parameter in free.items()}
    order: list[Any] = []
    hooks = []
    for module in model.modules():
        if any(True for _ in module.parameters(recurse=False)):
            hooks.append(module.register_forward_hook(lambda m, *_: order.append(m)))
    try:
        with torch.no_grad():
            call_model(model, take(inputs, slice(0, 1)))
    finally:
        for hook in hooks:
            hook.remove()
    whole = [m for m in order if not any(True for c in m.children() for _ in c.parameters())]
    around = [m for m in order if m not in whole]
    seen: set[str] = set()
    layers: list[list[str]] = []
    for module in [*reversed(whole), *reversed(around), *model.modules()]:
        held = [names[id(p)] for p in module.parameters(recurse=False) if id(p) in names]
        held = [name for name in held if name not in seen]
        seen.update(held)
        if held:
            layers.append(held)
    return layers
