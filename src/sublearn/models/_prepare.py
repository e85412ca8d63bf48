"""A torch model made ready for an audit: a copy in float64, at a point slightly beside its own."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch

from sublearn._arrays import Mask
from sublearn._errors import BadInputError
from sublearn.models._derivatives import Derivatives
from sublearn.models._masks import ATTACHED, DELTA, as_module
from sublearn.models._places import NotRunError
from sublearn.models._spectrum import precision_of
from sublearn.models._structure import Structure

LARGE = 50_000_000
"""Weights above which the model is not copied in float64."""


def prepared(
    model: Any, inputs: Any, masks: Mapping[str, Mask], precision: str, settings: Mapping[str, Any]
) -> tuple[Derivatives, Structure, str]:
    """Derivatives for the masked parameters, the structure of the model, and the precision had.

    ``settings`` are ``perturb`` and what :class:`Derivatives` takes.
    """
    if ATTACHED in as_module(model).__dict__ and not all(name.startswith(DELTA) for name in masks):
        raise BadInputError(
            "something is attached to this model, which holds its own weights still: audit it as it is, "
            "without saying which weights, or detach() it before."
        )
    for name, p in model.named_parameters():
        if not bool(torch.isfinite(p).all()):
            raise BadInputError(f"parameter {name} of the model holds NaN or infinity.")
    size = sum(p.numel() for p in model.parameters())
    double = precision == "double" or (precision == "auto" and size <= LARGE)
    ready = copied(model, torch.float64 if double else None)
    options = dict(settings)
    perturb_entries(ready, masks, options.pop("perturb"), options["seed"])
    try:
        made = Derivatives(ready, inputs, names=list(masks), **options)
    except NotRunError:
        if not double or precision == "double":
            raise
        # It may turn numbers into float32.
        return prepared(model, inputs, masks, "single", settings)
    return made, structure_of(model), precision_of(torch.finfo(made.coarsest).eps)


def copied(model: Any, dtype: Any) -> Any:
    """A copy of the model that nobody else holds; half precision becomes float32 at least."""
    try:
        made = copy.deepcopy(model)
    except Exception as problem:
        raise BadInputError(
            f"the model cannot be copied ({type(problem).__name__}), which an audit needs: give a "
            "model whose parameters are leaves."
        ) from None
    if dtype is None and any(p.dtype in (torch.float16, torch.bfloat16) for p in made.parameters()):
        dtype = torch.float32
    if dtype is None:
        return made
    wide = {True: dtype.to_complex(), False: dtype}  # .to(dtype) would drop the imaginary parts
    return made._apply(
        lambda t: t.to(wide[t.is_complex()]) if t.is_complex() or t.is_floating_point() else t
    )


def perturb_entries(model: Any, masks: Mapping[str, Mask], share: float, seed: int) -> None:
    """Move the masked entries at random by ``share`` of the parameter's root mean square.

    A parameter of zeros (LoRA's B) moves by ``share`` of what a fresh layer would have.
    """
    if share == 0:
        return
    generator = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        if name not in masks:
            continue
        size = float(p.detach().double().square().mean().sqrt())
        if size == 0:
            size = max(int(p.shape[-1]) if p.dim() else 1, 1) ** -0.5
        noise = torch.randn(p.shape, generator=generator, dtype=torch.float64) * (share * size)
        with torch.no_grad():
            p.add_((noise * torch.from_numpy(masks[name])).to(device=p.device, dtype=p.dtype))


def structure_of(model: Any) -> Structure:
    """The kind of layer that holds each parameter."""
    kinds = {
        f"{prefix}.{name}".removeprefix("."): type(module).__name__
        for prefix, module in model.named_modules()
        for name, _ in module.named_parameters(recurse=False)
    }
    return Structure({name: kinds[name] for name, _ in model.named_parameters() if name in kinds})
