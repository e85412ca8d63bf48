"""What a person gives for a torch model: inputs, outputs, parameters, in any form that torch users have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sublearn._errors import BadInputError, one_of
from sublearn.models._labels import LEFT_OUT
from sublearn.models._masks import as_module
from sublearn.models._places import count_samples, each, kind_of, one_row_each
from sublearn.models._uses import Tensor


def call_model(model: Any, inputs: Any) -> Any:
    """The model's answer: keywords for a dict, places for a tuple or list, else one argument."""
    if isinstance(inputs, Mapping):
        return model(**inputs)
    if isinstance(inputs, (tuple, list)):
        return model(*inputs)
    return model(inputs)


def as_outputs(answer: Any, samples: int) -> Tensor:
    """The tensor of outputs in a model's answer: itself, its logits, or the first of a tuple."""
    tensor = answer
    if isinstance(answer, Mapping):
        tensor = answer.get("logits")
    elif not isinstance(answer, torch.Tensor) and hasattr(answer, "logits"):
        tensor = answer.logits
    elif isinstance(answer, (tuple, list)) and answer:
        tensor = answer[0]
    if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point():
        raise BadInputError(
            f"the model must return a floating-point tensor, alone or as logits, not {kind_of(answer)}: give "
            "forward=, a function of (model, inputs) that returns one, or wrap the model."
        )
    one_row_each(tensor.shape, samples)
    return tensor.unsqueeze(1) if tensor.dim() == 1 else tensor


def as_inputs(model: Any, inputs: Any) -> Any:
    """Tensors on the model's device; arrays of numbers take the model's type."""
    first = next((p for p in as_module(model).parameters() if p.is_floating_point()), None)

    def convert(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            value = torch.from_numpy(np.ascontiguousarray(value))
        if not isinstance(value, torch.Tensor):
            return value
        if first is not None:
            value = value.to(first.device)
            if value.is_floating_point():
                value = value.to(first.dtype)
        return value

    return each(convert, inputs)


def leaves(values: Any) -> list[Any]:
    """What a tensor, or a tuple, list or dict of them, is made of; nothing for None."""
    if isinstance(values, Mapping):
        return [leaf for value in values.values() for leaf in leaves(value)]
    if isinstance(values, (tuple, list)):
        return [leaf for value in values for leaf in leaves(value)]
    return [] if values is None else [values]


def samples_of(inputs: Any) -> int:
    """The number m of samples, of which flags and single numbers beside them have none."""
    return count_samples(leaf for leaf in leaves(inputs) if getattr(leaf, "ndim", 0))


def take(values: Any, ids: Any) -> Any:
    """The samples ``ids``, indices or a slice, of everything that has samples."""
    # One index as a tensor is a number to numpy, which would take a thing in the place of a row of one.
    some = ids if isinstance(ids, slice) else np.asarray(ids)
    return each(
        lambda value: (
            value
            if not getattr(value, "ndim", 0)
            else value[some if isinstance(value, np.ndarray) else ids]
        ),
        values,
    )


def repeats_inputs(labels: Tensor, inputs: Any) -> bool:
    """Whether the labels of sequences are their tokens, but for those that are left out."""
    first = leaves(inputs)[0]
    tokens = inputs.get("input_ids", first) if isinstance(inputs, Mapping) else first
    if (
        labels.ndim < 2
        or labels.is_floating_point()
        or getattr(tokens, "shape", ()) != labels.shape
    ):
        return False
    return (
        bool(((labels == tokens) | (labels == LEFT_OUT)).all()) and not tokens.is_floating_point()
    )


def parameters_of(model: Any, names: Sequence[str] | None = None) -> dict[str, Tensor]:
    """The floating-point parameters by name, all or those that are named."""
    every = {name: p for name, p in as_module(model).named_parameters() if p.is_floating_point()}
    if not every:
        raise BadInputError("the model has no parameters.")
    if names is None:
        return every
    for name in names:
        one_of("a name of a parameter", name, every)
    chosen = set(names)
    if not chosen:
        raise BadInputError("no parameter is chosen.")
    return {name: p for name, p in every.items() if name in chosen}


def refuse_batch_norm(model: Any) -> None:
    """Batch norm by statistics of the batch: the outputs of a sample are then no function of it alone."""
    for name, module in model.named_modules():
        if not isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            continue
        why, way = "is in training mode, where", "call model.eval() before"
        if bare := module.running_mean is None:
            why = "keeps no running statistics, so that in evaluation mode too"
            way = (
                "make it with track_running_stats=True and run it in training mode on some batches"
            )
        if bare or module.training:
            raise BadInputError(
                f"batch normalisation {name!r} {why} every output depends on all samples of the batch: {way}."
            )


def refuse_random_layers(model: Any) -> None:
    """Batch norm and dropout in training mode: the output is then no function of one sample."""
    refuse_batch_norm(model)
    for name, module in model.named_modules():
        drops = (
            module.p
            if isinstance(module, torch.nn.modules.dropout._DropoutNd)
            else module.dropout
            if isinstance(module, (torch.nn.RNNBase, torch.nn.MultiheadAttention))
            else 0
        )
        if module.training and drops > 0:
            raise BadInputError(
                f"dropout {name!r} is in training mode, so the outputs are random: call "
                "model.eval() before."
            )


def array_of(tensor: Tensor) -> NDArray[Any]:
    """As a numpy array; numbers of half precision, which numpy does not all know, become float32."""
    values = tensor.detach().cpu()
    half = values.is_floating_point() and values.element_size() < 4
    return np.asarray((values.float() if half else values).numpy())
