"""Few pixels of real pictures, as inputs of small networks."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from math import isqrt, sqrt
from typing import Any

import numpy as np

from sublearn._arrays import Array
from sublearn._errors import BadInputError
from sublearn.datasets import Dataset, digits
from sublearn.ensembles import Distribution

DIGITS = "digits"
_SIDE = 8  # pixels of a digit from left to right, and from top to bottom


@dataclass(frozen=True)
class Pictures(Distribution):
    """Inputs that are samples of data, drawn without replacement: no density."""

    of_inputs = True

    data: Dataset = field(kw_only=True)

    def standard(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return self.data.take(rng.choice(self.data.size, shape[-1], replace=False))[0]

    def describe(self) -> dict[str, Any]:
        return {"law": "Pictures", "g": self.g, "data": self.data.digest}


@lru_cache(maxsize=8)
def coarse_digits(features: int, classes: int) -> Dataset:
    """The first ``classes`` digits of scikit-learn, each as the sums of ``features`` blocks of pixels.

    The blocks are as square as can be and cover the middle; one mean and one spread for all, as
    for the digits themselves.

    >>> coarse_digits(6, 4)   # 2 x 3 blocks of 4 x 2 pixels
    <Dataset digits in 2 x 3 blocks: 720 samples of 6 features, 4 classes>
    """
    whole = digits()
    high = next(h for h in range(isqrt(features), 0, -1) if features % h == 0)
    wide = features // high
    if wide > _SIDE or not 2 <= classes <= whole.classes:
        raise BadInputError(
            f"digits have up to {_SIDE} x {_SIDE} features and {whole.classes} classes: "
            f"{features} features in {high} x {wide} blocks, or {classes} classes, are none of them."
        )
    sides = _SIDE // high, _SIDE // wide
    top, left = (_SIDE - high * sides[0]) // 2, (_SIDE - wide * sides[1]) // 2
    pixels = whole.features.astype(np.int64).reshape(_SIDE, _SIDE, -1)
    middle = pixels[top : top + high * sides[0], left : left + wide * sides[1]]
    sums = middle.reshape(high, sides[0], wide, sides[1], -1).sum(axis=(1, 3))
    kept = whole.labels < classes
    few = sums.reshape(features, -1)[:, kept]
    # From whole numbers, so that they are the same everywhere.
    count, total, square = few.size, int(few.sum()), int((few**2).sum())
    spread = sqrt(count * square - total**2) / count
    name = f"{whole.name} in {high} x {wide} blocks"
    return Dataset(name, few, whole.labels[kept], classes, total / count, spread)
