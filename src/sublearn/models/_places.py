"""Which output numbers of a model are looked at: all of few, else some of every sample."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from sublearn._arrays import Indices
from sublearn._errors import BadInputError, whole_number

MOST_OUTPUTS = 4096
"""Outputs per sample above which some must be chosen: every one costs a backward pass."""


@contextmanager
def running(inputs: Iterable[Any]) -> Iterator[None]:
    """Within, a model is run for the first time: where it cannot be, one sentence says on what."""
    try:
        yield
    except BadInputError:
        raise
    except Exception as problem:
        shapes = ", ".join(str(tuple(t.shape)) for t in inputs if hasattr(t, "shape"))
        first = (str(problem).splitlines() or [type(problem).__name__])[0]
        raise BadInputError(
            f"the model could not be run on inputs of shape {shapes}: {first}"
        ) from problem


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
