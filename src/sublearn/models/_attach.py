"""attach: train r numbers of a model and nothing else, in torch or JAX; load_delta: from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sublearn.models._jax import JaxAttached, JaxModel


def attach(model: Any, what: Any = None) -> Any:
    """Freeze the model and attach one trainable number to every entry that ``what`` holds.

    ``what`` is a choice, masks, names or flags (:func:`as_masks`). A torch model is changed in place,
    until ``detach()``, and an :class:`Attached` comes back; of a :class:`JaxModel` a function of the r
    numbers does, a :class:`JaxAttached`.

    >>> import torch
    >>> model = torch.nn.Linear(2, 1)
    >>> tuned = attach(model, {"weight": [[True, False]]})
    >>> [p.numel() for p in tuned.parameters()]
    [1]
    >>> tuned.detach() is model
    True
    """
    if isinstance(model, JaxModel):
        return JaxAttached(model, model.named(what))
    from sublearn.models import attach_torch

    return attach_torch(model, what)


def load_delta(model: Any, path: str | Path) -> Any:
    """Attach what ``save`` of an :class:`Attached` or :class:`JaxAttached` wrote.

    The model must have the same base weights. Of a JAX model, the ``values`` to start from are those
    of the file.
    """
    if isinstance(model, JaxModel):
        return JaxAttached.load(model, path)
    from sublearn.models import load_delta_torch

    return load_delta_torch(model, path)
