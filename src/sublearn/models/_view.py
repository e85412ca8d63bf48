"""What rules look at, computed from a torch model on some of its samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from numpy.typing import NDArray

from sublearn._arrays import Array
from sublearn._errors import BadInputError
from sublearn.models._derivatives import Derivatives
from sublearn.models._inputs import array_of, as_outputs, call_model, samples_of, take
from sublearn.models._labels import CLASSES, LEFT_OUT, NO_GOAL, OWN
from sublearn.models._pursuit import DerivativeSums, wanted_change
from sublearn.models._squares import widened

if TYPE_CHECKING:
    from sublearn.models._trainer import TorchTrainer

POSITIONS = 128  # of sequences, over all samples, at which outputs are looked at
PART = 512  # samples that go through the model at once
OTHERS = 16  # classes besides the right one, where there are more than twice as many


class TorchView:
    """A model on the samples ``ids``; see :class:`sublearn.models._rules.ModelView`."""

    def __init__(self, trainer: TorchTrainer, ids: Any, seed: int = 0) -> None:
        self._trainer = trainer
        self._ids = ids
        self._seed = seed

    @cached_property
    def weights(self) -> dict[str, NDArray[Any]]:
        arrays = {name: array_of(parameter) for name, parameter in self._trainer.free.items()}
        for values in arrays.values():
            values.flags.writeable = False  # they are the model's own
        return arrays

    @cached_property
    def gradient(self) -> dict[str, NDArray[Any]]:
        parts, count = self._ids.split(PART), len(self._ids)
        return self._summed(parts, lambda total, g, part: total.add_(g, alpha=len(part) / count))

    @cached_property
    def squared_gradients(self) -> dict[str, NDArray[Any]]:
        return self._summed(self._ids.split(1), lambda total, g, _: total.addcmul_(g, g))

    def _summed(self, parts: Any, add: Callable[[Any, Any, Any], Any]) -> dict[str, NDArray[Any]]:
        """What ``add`` makes of the gradients of the loss on each of the parts, by name."""
        trainer, free = self._trainer, self._trainer.free
        total = {name: widened(torch.zeros_like(parameter)) for name, parameter in free.items()}
        for part in parts:
            with trainer.evaluating():
                grads = trainer.gradients(part, list(free.values()))
            for summed, gradient in zip(total.values(), grads, strict=True):
                if gradient is not None:
                    add(summed, widened(gradient), part)
        return {name: array_of(summed) for name, summed in total.items()}

    @cached_property
    def _looked_at(self) -> tuple[torch.Tensor | None, torch.Tensor]:
        return looked_at(self._trainer, self._ids, self._seed)

    @cached_property
    def derivatives(self) -> DerivativeSums:
        trainer = self._trainer

        def forward(model: Any, inputs: Any) -> Any:
            with trainer.evaluating():
                answer = trainer.forward(model, inputs)
            return trainer.classes_last(as_outputs(answer, samples_of(inputs)))

        places, _ = self._looked_at
        with trainer.evaluating():
            return Derivatives(
                trainer.model,
                take(trainer.inputs, self._ids),
                names=list(trainer.free),
                outputs=places,
                forward=forward,
            )

    @cached_property
    def target(self) -> Array:
        outputs, (_, labels) = self.derivatives.outputs, self._looked_at
        if self._trainer.kind != CLASSES:
            return wanted_change(outputs, targets=labels.double().cpu().numpy())
        flat = outputs.reshape(labels.numel(), -1)
        return wanted_change(flat, labels=labels.flatten().cpu().numpy()).reshape(outputs.shape)

    def outputs(self) -> Array:
        places, _ = self._looked_at
        with torch.no_grad():
            parts = [self._trainer.outputs(part) for part in self._ids.split(PART)]
        flat = self._trainer.classes_last(torch.cat(parts)).flatten(1)
        return (flat if places is None else flat.gather(1, places)).double().cpu().numpy()

    @cached_property
    def layers(self) -> list[list[str]]:
        with self._trainer.evaluating():
            return layers_backwards(self._trainer.model, self._trainer.inputs, self._trainer.free)


def looked_at(
    trainer: TorchTrainer, ids: Any, seed: int
) -> tuple[torch.Tensor | None, torch.Tensor]:
    """Which outputs of each sample are looked at: all of few, else some positions and classes.

    Their flat places (samples, looked at), None for all; and the labels that belong to them: numbers,
    one each, or for every position the place of the right class among those that are looked at.
    """
    if trainer.kind == OWN:
        raise BadInputError(NO_GOAL)
    shape, samples = trainer.output_shape, len(ids)
    draws = torch.Generator().manual_seed(seed)
    if trainer.kind != CLASSES:
        labels = take(trainer.labels, ids).reshape(samples, -1)
        width = labels.shape[1]
        if width <= 2 * OTHERS:
            return None, labels
        places = torch.rand(samples, width, generator=draws).argsort(1)[:, : 2 * OTHERS]
        return places, labels.gather(1, places)
    width, classes = math.prod(shape[:-1]), shape[-1]
    labels = take(trainer.labels, ids).reshape(samples, width)
    positions = min(width, max(1, -(-POSITIONS // samples)))
    some = classes if classes <= 2 * OTHERS else OTHERS + 1
    if positions == width and some == classes:
        return None, labels
    # Positions whose label is left out come last.
    order = torch.rand(samples, width, generator=draws) + (labels == LEFT_OUT) * 2.0
    where = order.argsort(1)[:, :positions]
    right = labels.gather(1, where)
    if some == classes:
        picked = torch.arange(classes).expand(samples, positions, classes)
    else:
        free = torch.rand(samples, positions, classes, generator=draws)
        free.scatter_(2, right.clamp_min(0)[..., None], 2.0)  # the right class comes first
        picked = free.argsort(2, descending=True)[..., :some]
        right = torch.where(right == LEFT_OUT, right, torch.zeros_like(right))
    return (where[..., None] * classes + picked).reshape(samples, -1), right


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
        own = [names[id(p)] for p in module.parameters(recurse=False) if id(p) in names]
        own = [name for name in own if name not in seen]
        seen.update(own)
        if own:
            layers.append(own)
    return layers
