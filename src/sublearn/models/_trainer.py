"""Short training runs of a torch model on few of its weights, undone to the bit afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from sublearn._arrays import Array, Mask
from sublearn._errors import BadInputError
from sublearn.models._contest import BATCH, Setup, no_gradient, one_number, outcome
from sublearn.models._guard import arrays_of, check_loop
from sublearn.models._inputs import (
    array_of,
    as_inputs,
    as_outputs,
    call_model,
    leaves,
    parameters_of,
    refuse_batch_norm,
    repeats_inputs,
    samples_of,
    take,
)
from sublearn.models._labels import CLASSES, OWN, GivenLabels, as_labels
from sublearn.models._masks import ATTACHED, refuse_complex
from sublearn.models._passes import tolerance
from sublearn.models._places import check_apart, each, running
from sublearn.models._race import fingerprint
from sublearn.models._view import TorchView

_KIND = "a tensor of torch"


def free_parameters(model: Any) -> dict[str, torch.nn.Parameter]:
    """The weights that may be chosen from: floating point, and not frozen; tied ones once."""
    every = parameters_of(model)
    refuse_complex(model)
    if ATTACHED in model.__dict__:
        raise BadInputError(
            "something is attached to this model already, and nothing else of it may change: detach() it "
            "before choosing among its weights."
        )
    free = {name: p for name, p in every.items() if p.requires_grad}
    if not free:
        raise BadInputError(
            f"all {len(every)} weights of model are frozen (requires_grad is False): free those that "
            "may be chosen."
        )
    return free


class TorchTrainer:
    """A torch model as a :class:`sublearn.models._contest.Trainer`.

    Without ``loss``, ``step`` or ``loop`` it minimises cross-entropy where the labels are whole
    numbers and the mean squared error where they are not, by Adam on the chosen entries alone, with a
    rate that falls to zero over ``steps``. The model is in its evaluation mode meanwhile, and every
    weight, flag and mode is as before when a run ends.
    """

    def __init__(self, model: Any, inputs: Any, labels: Any, how: Setup | None = None) -> None:
        self.model, self.how = model, how or Setup()
        self.forward = self.how.forward or call_model
        self.free = free_parameters(model)
        refuse_batch_norm(model)
        self.inputs = as_inputs(model, inputs)
        self.samples = samples_of(self.inputs)
        self.how.check_labels(labels)
        with self.evaluating(), torch.no_grad(), running(leaves(self.inputs)):
            outputs = self.outputs(slice(0, min(self.samples, BATCH)))
            if self.how.step is None:  # which may have a use for samples that meet
                given = lambda ids: array_of(self.outputs(torch.from_numpy(ids)))  # noqa: E731
                check_apart(array_of(outputs), given, tolerance(outputs.dtype))
            parts = torch.arange(self.samples).split(BATCH)
            finite = all(bool(torch.isfinite(self.outputs(part)).all()) for part in parts)
        known = self._read(labels)
        self.shapes = {name: tuple(parameter.shape) for name, parameter in self.free.items()}
        self.goal = GivenLabels(
            None if known is None else array_of(known),
            (self.samples, *outputs.shape[1:]),
            finite=finite,
            own=self.how.own,
        )
        self.output_shape = tuple(self.classes_last(outputs).shape[1:])
        self.kind = self.goal.kind
        self.metric = self.how.scores(self.goal)
        self._moves = False  # whether any weight is known to move what step returns

    def _read(self, labels: Any) -> Any:
        """Keep the labels; those back that are a tensor, unless their meaning is a function's own."""
        device, own = next(iter(self.free.values())).device, self.how.own

        def convert(part: Any) -> Any:
            things = part is None or part.dtype == object
            return part if things else torch.as_tensor(part, device=device)

        self.labels = each(convert, as_labels(labels, own))
        sizes = {len(part) if part.ndim else 1 for part in leaves(self.labels)} - {self.samples}
        if sizes:
            raise BadInputError(
                f"labels must be as many as the samples, {self.samples}, not {min(sizes)}."
            )
        if not isinstance(self.labels, torch.Tensor):
            return None
        if not repeats_inputs(self.labels, self.inputs):
            return self.labels
        if own:
            return None
        raise BadInputError(
            "labels are the inputs, place by place, so the model would learn to copy them: shift by one, "
            "inputs[:, :-1] and labels[:, 1:]. (Models of transformers shift inside, but only labels that "
            "they are given: step=lambda m, x, y: m(**x, labels=y).loss.)"
        )

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Every module in evaluation mode; afterwards modes and flags of weights are as they were."""
        modes = {module: module.training for module in self.model.modules()}
        flags = {parameter: parameter.requires_grad for parameter in self.model.parameters()}
        self.model.eval()
        try:
            yield
        finally:
            for module, mode in modes.items():
                module.training = mode
            for parameter, flag in flags.items():
                parameter.requires_grad_(flag)

    def outputs(self, ids: Any) -> torch.Tensor:
        """Of some samples, with the weights as they are now."""
        part = take(self.inputs, ids)
        return as_outputs(self.forward(self.model, part), samples_of(part))

    def classes_last(self, outputs: torch.Tensor) -> torch.Tensor:
        """Outputs with their classes on the last dimension."""
        return outputs.movedim(self.goal.axis, -1)

    def loss(self, ids: Any) -> torch.Tensor:
        """The loss on some samples, with its gradient."""
        if self.how.step is None:
            return self.loss_of(self.outputs(ids), take(self.labels, ids))
        given = self.how.step(self.model, take(self.inputs, ids), take(self.labels, ids))
        loss: torch.Tensor = one_number("step", given, torch.Tensor, _KIND)
        if torch.is_grad_enabled() and not (loss.requires_grad or self._moves):
            every = parameters_of(self.model).values()
            if all(parameter.requires_grad for parameter in every):
                raise no_gradient("step", "torch")
            with self.evaluating():  # those that are free now may take no part
                for parameter in every:
                    parameter.requires_grad_(True)
                self.loss(ids)
            self._moves = True
        return loss

    def gradients(self, ids: Any, weights: Sequence[Any]) -> Sequence[Any]:
        """Those of the loss on some samples; None for weights that take no part."""
        loss = self.loss(ids)
        if not loss.requires_grad:
            return [None] * len(weights)
        return torch.autograd.grad(loss, weights, allow_unused=True)

    def loss_of(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The loss of outputs against labels."""
        if self.how.loss is not None:
            loss = one_number("loss", self.how.loss(outputs, labels), torch.Tensor, _KIND)
            if outputs.requires_grad and not loss.requires_grad:
                raise no_gradient("loss", "torch")
            return loss
        if self.kind == CLASSES:
            return torch.nn.functional.cross_entropy(
                self.classes_last(outputs).flatten(0, -2), labels.flatten().long()
            )
        return torch.nn.functional.mse_loss(
            outputs, labels.reshape(outputs.shape).to(outputs.dtype)
        )

    @contextmanager
    def tuned(self, masks: Mapping[str, Mask], ids: Any, rate: float) -> Iterator[None]:
        run = self._adam if self.how.loop is None else self._own_loop
        with self.evaluating(), run(masks, torch.as_tensor(ids), rate):
            yield

    @contextmanager
    def _adam(self, masks: Mapping[str, Mask], ids: Any, rate: float) -> Iterator[None]:
        touched = [(self.free[name], mask) for name, mask in masks.items() if mask.any()]
        weights = [weight for weight, _ in touched]
        places = [torch.from_numpy(m).to(w.device).nonzero(as_tuple=True) for w, m in touched]
        before = [
            weight.detach()[place].clone() for weight, place in zip(weights, places, strict=True)
        ]
        sizes = [len(old) for old in before]
        try:
            # What is frozen needs no derivative, which saves most of a pass where the last layer runs.
            chosen = {id(weight) for weight in weights}
            for parameter in self.model.parameters():
                parameter.requires_grad_(id(parameter) in chosen)
            # Steps are summed in single precision at least, and rounded to the weight's own.
            wide = torch.promote_types(torch.float32, before[0].dtype) if before else torch.float32
            value = torch.cat([old.to(wide) for old in before]) if before else torch.zeros(0)
            mean, square = torch.zeros_like(value), torch.zeros_like(value)
            batches = self._batches(ids)
            for number in range(1, self.how.steps + 1):
                gradients = self.gradients(next(batches), weights)
                gradient = torch.cat(
                    [
                        torch.zeros_like(old) if grad is None else grad[place].to(wide)
                        for grad, place, old in zip(gradients, places, before, strict=True)
                    ]
                )
                # Adam (Kingma and Ba, 2015), on the chosen entries and nothing else.
                mean.mul_(0.9).add_(gradient, alpha=0.1)
                square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
                root = (square / (1 - 0.999**number)).sqrt_().add_(1e-8)
                falling = rate * (1 - (number - 1) / self.how.steps)
                value = value - (falling / (1 - 0.9**number)) * mean / root
                for weight, place, new in zip(weights, places, value.split(sizes), strict=True):
                    weight.data.index_put_(place, new.to(weight.dtype))
            yield
        finally:
            for weight, place, old in zip(weights, places, before, strict=True):
                weight.data.index_put_(place, old)

    def _batches(self, ids: Any) -> Iterator[Any]:
        count, most = len(ids), self.how.batch
        draws = torch.Generator().manual_seed(self.how.seed)
        while True:
            yield ids if count <= most else ids[torch.randperm(count, generator=draws)[:most]]

    @contextmanager
    def _own_loop(self, masks: Mapping[str, Mask], ids: Any, rate: float) -> Iterator[None]:
        assert self.how.loop is not None
        before = {name: value.detach().clone() for name, value in self.model.state_dict().items()}
        try:
            self.how.loop(self.model, masks, take(self.inputs, ids), take(self.labels, ids), rate)
            after = arrays_of(self.model)
            check_loop(arrays_of({name: before[name] for name in after}), after, masks)
            self.model.eval()
            yield
        finally:
            with torch.no_grad():
                for name, value in self.model.state_dict().items():
                    value.copy_(before[name])

    def evaluate(self, ids: Any) -> tuple[float, float]:
        ids = torch.as_tensor(ids)
        with self.evaluating(), torch.no_grad():
            if self.how.step is not None:
                loss = float(self.loss(ids))
            if self.how.step is None or self.kind != OWN or self.how.metric is not None:
                outputs = torch.cat([self.outputs(part) for part in ids.split(4 * BATCH)])
                labels = take(self.labels, ids)
            if self.how.step is None:
                loss = float(self.loss_of(outputs, labels))
            if self.kind == OWN and self.how.metric is None:
                return outcome(-loss, loss)
            if self.how.metric is not None:
                score = self.how.metric(outputs, labels)
            else:
                score = self.goal.score(array_of(self.classes_last(outputs)), ids.numpy())
        return outcome(score, loss)

    def view(self, ids: Any, seed: int) -> TorchView:
        return TorchView(self, torch.as_tensor(ids), seed)

    def contents(self) -> Iterable[bytes]:
        yield self.how.functions
        for name, module in self.model.named_modules():
            own = {k: v for k, v in vars(module).items() if k[0] != "_" and k != "training"}
            yield fingerprint((name, type(module).forward, own)).encode()
        held = *self.model.parameters(), *self.model.buffers()
        for part in (*held, *leaves(self.inputs), *leaves(self.labels)):
            known = isinstance(part, torch.Tensor)
            yield fingerprint((tuple(part.shape), str(part.dtype)) if known else part).encode()
            yield array_of(part).tobytes() if known else b""

    def entries(self, masks: Mapping[str, Mask]) -> Array:
        parts = [
            parameter.detach().cpu()[torch.from_numpy(masks[name])].double()
            for name, parameter in self.free.items()
            if name in masks
        ]
        return torch.cat(parts).numpy()
