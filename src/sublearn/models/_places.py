"""Which output numbers of a model are looked at: all of few, else some of every sample."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sublearn._arrays import Indices
from sublearn._errors import BadInputError, first_line, whole_number

MOST_OUTPUTS = 4096
"""Outputs per sample above which some must be chosen: every one costs a backward pass."""


class NotRunError(BadInputError):
    """A model that cannot be run on the inputs, as they are."""


@contextmanager
def running(inputs: Iterable[Any]) -> Iterator[None]:
    """Within, a model is run for the first time: where it cannot be, one sentence says on what."""
    try:
        yield
    except BadInputError:
        raise
    except Exception as problem:
        shapes = [str(tuple(t.shape)) for t in inputs if hasattr(t, "shape")]
        shown = ", ".join(shapes[:3]) + (f" and {len(shapes) - 3} more" if len(shapes) > 3 else "")
        hint = ""
        if isinstance(problem, TypeError) and len(shapes) > 1:
            hint = ". A list holds the model's arguments: stack samples into one array or tensor."
        raise NotRunError(
            f"the model could not be run on inputs of shape {shown}: {first_line(problem)}{hint}"
        ) from None


def kind_of(answer: Any) -> str:
    """The type of what a model returned, with the names of what it holds.

    >>> kind_of({"scores": 1, "hidden": 2})
    'a dict of scores, hidden'
    """
    held = answer if isinstance(answer, Mapping) else getattr(answer, "__dict__", {})
    return f"a {type(answer).__name__}" + (f" of {', '.join(map(str, held))}" if held else "")


def each(change: Callable[..., Any], first: Any, *others: Any) -> Any:
    """The same tuple or dict with every value changed; a value alone is changed itself.

    With ``others``, of the same form, ``change`` is given the values that stand at one place.
    """
    if isinstance(first, Mapping):
        return {key: each(change, first[key], *(other[key] for other in others)) for key in first}
    if isinstance(first, (tuple, list)):
        return tuple(each(change, *values) for values in zip(first, *others, strict=True))
    return change(first, *others)


def count_samples(inputs: Iterable[Any]) -> int:
    """The number m of samples: the first dimension, which all arrays share."""
    shapes = [np.shape(leaf) for leaf in inputs]
    sizes = [shape[0] for shape in shapes if shape]
    if not sizes or len(sizes) < len(shapes):
        raise BadInputError(
            "inputs must be an array or tensor with one row per sample, or a tuple, dict or tree of them."
        )
    if sizes[0] == 0:
        raise BadInputError("inputs hold no sample.")
    if len(set(sizes)) > 1:
        raise BadInputError(
            f"inputs must have the same number of samples, not {', '.join(map(str, sizes))}."
        )
    return sizes[0]


def one_row_each(shape: tuple[int, ...], samples: int) -> None:
    """Refuse outputs of this shape unless there is one row of them per sample."""
    if not shape or shape[0] != samples:
        raise BadInputError(
            f"the model must return one row per sample, {samples} here, not outputs of shape "
            f"{tuple(shape)}."
        )


def check_apart(
    whole: NDArray[Any], outputs: Callable[[Indices], NDArray[Any]], tolerance: float
) -> None:
    """Refuse a model by which half of the samples, in reverse, get other outputs without the rest."""
    order = np.arange(len(whole))[::-1]
    halves = [half.copy() for half in (order[::2], order[1::2]) if len(half)]
    apart = np.concatenate([outputs(half) for half in halves])
    check_outputs(whole[np.concatenate(halves)], apart, tolerance)


def check_outputs(values: NDArray[Any], alone: NDArray[Any], tolerance: float) -> None:
    """Refuse outputs that are not finite, or whose first rows are not ``alone``, the samples' own."""
    if not np.isfinite(values).all():
        raise BadInputError(
            "the model's outputs on these inputs hold NaN or infinity: check its weights and the inputs."
        )
    if np.abs(alone - values[: len(alone)]).max() > tolerance * max(
        float(np.abs(values).max()), 1e-30
    ):
        raise BadInputError(
            "the model's output for a sample changes with the other samples of the batch, or from call to "
            "call, so no sample has a derivative of its own: use the model's evaluation mode, model.eval() "
            "in PyTorch; what has to look at a whole batch belongs into a loss or step of your own."
        )


def output_places(outputs: Any, shape: tuple[int, ...], samples: int, seed: int) -> Indices | None:
    """Places (samples, k) of the wanted outputs in each sample's flattened output; None: all of them.

    ``outputs`` is None, a whole number to draw so many of every sample, places (samples, k), or
    indices (samples, k, n) among outputs of n dimensions.

    >>> output_places([[[1, 2]]], (2, 3), samples=1, seed=0)
    array([[5]])
    """
    size = math.prod(shape)
    if outputs is None:
        if size > MOST_OUTPUTS:
            raise BadInputError(
                f"the model has {size} outputs per sample, of shape {shape}: give outputs=16, say, "
                "to look at 16 drawn at random, or the (position, class) of those that matter."
            )
        return None
    if isinstance(outputs, (int, np.integer)) and not isinstance(outputs, bool):
        count = whole_number("outputs", outputs, least=1)
        if count >= size:
            return None
        rng = np.random.default_rng(seed)
        return np.stack([np.sort(rng.choice(size, count, replace=False)) for _ in range(samples)])
    places = np.asarray(outputs)
    if places.dtype.kind not in "iu" or places.ndim not in (2, 3):
        raise BadInputError(
            "outputs must be a whole number, or an array of places (samples, k) or of indices "
            f"(samples, k, {len(shape)}), not one of shape {places.shape}."
        )
    if len(places) != samples:
        raise BadInputError(f"outputs must have one row per sample, {samples}, not {len(places)}.")
    if places.ndim == 3 and places.shape[2] != len(shape):
        raise BadInputError(
            f"outputs must hold {len(shape)} indices each, as the model's outputs are {shape} per "
            f"sample, not {places.shape[2]}."
        )
    if (places < 0).any() or (places >= (shape if places.ndim == 3 else size)).any():
        raise BadInputError(f"outputs must lie within the model's outputs of shape {shape}.")
    if places.ndim == 3:
        places = np.ravel_multi_index(tuple(np.moveaxis(places, -1, 0)), shape)
    return places.astype(np.int64)
