"""One way to say which weights may change: whatever a person has becomes masks by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from os import PathLike
from typing import Any

import numpy as np

from sublearn._arrays import Mask
from sublearn._errors import BadInputError, one_of
from sublearn.allocations import Allocation


def as_masks(model: Any, what: Any = None) -> dict[str, Mask]:
    """The weights that may change, as boolean arrays by parameter name; only those with some.

    ``what`` is a :class:`Choice` or the path of a saved one, an :class:`Allocation` (for a model
    whose parameters carry its names), a mapping from names to masks (arrays, tensors, nested lists;
    True or False for all or nothing), names of parameters, layers or patterns such as "*.bias", one or
    a list of them, or None: the parameters that require a gradient, as PEFT and hand-made freezing
    leave them. A tied weight goes by any of its names. The model may be a torch module or a
    :class:`JaxModel`.

    >>> import torch
    >>> as_masks(torch.nn.Linear(2, 1), {"weight": [[True, False]]})
    {'weight': array([[ True, False]])}
    """
    from sublearn.models._jax import JaxModel

    if isinstance(model, JaxModel):
        return model.named(what)
    refuse_complex(model, what)
    return resolve_masks(what, *_description(model))


def refuse_complex(model: Any, what: Any = None) -> None:
    """Complex weights that may change: those that ``what`` names, or that require a gradient."""
    named = what if isinstance(what, (Mapping, list, tuple, set)) else ()
    for name, p in as_module(model).named_parameters():
        if p.is_complex() and (p.requires_grad if what is None else name in named):
            raise BadInputError(
                f"parameter {name} of model holds complex numbers, and only real ones may change: freeze it "
                "(requires_grad_(False)), or make its real and its imaginary part two parameters."
            )


ATTACHED = "_sublearn_attached"
"""Under which a model holds what is attached to it."""
DELTA = "sublearn_delta_"
"""How the names of the attached vectors begin."""


def as_module(model: Any) -> Any:
    """The model itself, if it is torch's."""
    if not hasattr(model, "named_parameters"):
        kind = type(model).__name__
        raise BadInputError(f"model must be a torch.nn.Module or a JaxModel, not {kind}.")
    return model


def _description(
    model: Any,
) -> tuple[dict[str, tuple[int, ...]], dict[str, str], dict[str, bool]]:
    """Shapes by name, other names of tied weights, and which are marked as trainable."""
    modules = as_module(model).named_parameters
    own = {name: p for name, p in modules() if p.is_floating_point()}
    if not own:
        raise BadInputError("model has no parameters, so there is nothing to tune.")
    names = {id(p): name for name, p in own.items()}
    other = {
        name: names[id(p)]
        for name, p in modules(remove_duplicate=False)
        if id(p) in names and name not in own
    }
    shapes = {name: tuple(int(n) for n in p.shape) for name, p in own.items()}
    return shapes, other, {name: bool(p.requires_grad) for name, p in own.items()}


def resolve_masks(
    what: Any,
    shapes: Mapping[str, tuple[int, ...]],
    tied: Mapping[str, str] | None = None,
    trainable: Mapping[str, bool] | None = None,
) -> dict[str, Mask]:
    """Masks by name, for parameters of these shapes; see :func:`as_masks`.

    >>> shapes = {"fc.weight": (1, 2), "fc.bias": (1,)}
    >>> resolve_masks(["fc.bias"], shapes)
    {'fc.bias': array([ True])}
    """
    if isinstance(what, PathLike) or (isinstance(what, str) and what.endswith(".npz")):
        from sublearn.models._choice import load

        what = load(str(what))
    elif isinstance(what, str):
        what = [what]
    if what is None:
        flags = trainable or {}
        what = [name for name in shapes if flags.get(name, True)]
        if not what:
            raise BadInputError(
                f"all {len(shapes)} parameters of the model are frozen: free some, or say which "
                "weights may change."
            )
    elif isinstance(what, Allocation):
        what = {name: what.mask(name) for name in what.entries}
    elif not isinstance(what, Mapping) and hasattr(what, "masks"):
        what = what.masks
    if isinstance(what, Mapping):
        given = dict(what)
    elif isinstance(what, Iterable) and not is_array(what):
        given = dict.fromkeys(what, True)
    else:
        raise BadInputError(
            "the weights that may change must be a Choice, masks by name, names of parameters or "
            f"None, not {type(what).__name__}."
        )
    names = [*shapes, *(tied or {})]
    masks: dict[str, Mask] = {}
    meant = {name: names_at(names, name) for name in given}
    if isinstance(what, Mapping) and len(given) > 1 and not any(meant.values()):
        raise BadInputError(
            f"none of the masks' {len(given)} names is a parameter of this model, which has "
            f"{', '.join(names[:3])}{', ...' * (len(names) > 3)}: are they of another model?"
        )
    for name, values in given.items():
        if not meant[name]:
            few = names if len(names) <= 12 else get_close_matches(str(name), names, 5, cutoff=0.0)
            one_of("a name of a parameter, layer or pattern that may change", name, few)
        for own in {(tied or {}).get(each, each) for each in meant[name]}:
            mask = _mask(own, values, tuple(shapes[own]))
            masks[own] = masks[own] | mask if own in masks else mask
    kept = {name: masks[name] for name in shapes if name in masks and masks[name].any()}
    if not kept:
        raise BadInputError("the masks hold no weight: nothing may change.")
    return kept


def names_at(names: Iterable[str], pattern: object) -> list[str]:
    """The names that are this one, lie in this layer or fit this pattern.

    >>> names_at(["fc.weight", "fc.bias"], "fc"), names_at(["fc.weight", "fc.bias"], "*.bias")
    (['fc.weight', 'fc.bias'], ['fc.bias'])
    """
    if not isinstance(pattern, str):
        return []
    inside = f"{pattern}."
    return [n for n in names if n == pattern or n.startswith(inside) or fnmatchcase(n, pattern)]


def is_array(what: Any) -> bool:
    """Whether it is an array, but for a row of names: it does not say which weights it is about."""
    kind = getattr(getattr(what, "dtype", None), "kind", None)
    return hasattr(what, "shape") and (len(what.shape) != 1 or kind not in ("U", "T", "O"))


def mask_at(shape: tuple[int, ...], entries: Any) -> Mask:
    """The mask that holds these flat places.

    >>> mask_at((2, 2), [1, 2])
    array([[False,  True],
           [ True, False]])
    """
    mask = np.zeros(shape, dtype=bool)
    mask.reshape(-1)[entries] = True
    return mask


def _mask(name: str, values: Any, shape: tuple[int, ...]) -> Mask:
    if isinstance(values, (bool, np.bool_)):
        return np.full(shape, bool(values))
    if hasattr(values, "detach"):  # a torch tensor
        values = values.detach().cpu().numpy()
    try:
        array = np.asarray(values)
    except ValueError:
        raise BadInputError(f"the mask of {name} must be an array of true and false.") from None
    if array.shape != shape:
        raise BadInputError(
            f"the mask of {name} must be of shape {shape}, not {array.shape}: is it of another model?"
        )
    if array.dtype != np.bool_:
        if array.dtype.kind not in "iuf" or not np.isin(array, (0, 1)).all():
            raise BadInputError(f"the mask of {name} must hold only true and false, or 0 and 1.")
        array = array.astype(bool)
    return np.array(array)


def entries_in(masks: Mapping[str, Mask]) -> int:
    """How many entries the masks choose."""
    return sum(int(mask.sum()) for mask in masks.values())
