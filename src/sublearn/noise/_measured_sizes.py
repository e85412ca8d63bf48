"""The best size measured: random cycles at every size, no formula for the rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sublearn._arrays import Array
from sublearn._errors import BadInputError, whole_number
from sublearn.ensembles import Instance
from sublearn.noise._measure import MeasuredRate
from sublearn.noise._noise import Noise, check_noise
from sublearn.noise._sizes import geometries_of

DEGREE = 6
"""Degree of the polynomial in log N that smooths the measured rates.

Lower degrees shift the peak by a percent over a tenfold range of sizes, more than chance does.
"""


@dataclass(frozen=True)
class MeasuredSize:
    """Where the measured mean rate is largest: a size with its 95% confidence interval.

    ``rates`` are the measured rates at ``sizes``. The maximum is that of a polynomial of degree 6 in
    log N through them; its error comes from as many independent batches.
    """

    best: float
    interval: tuple[float, float]
    sizes: tuple[int, ...]
    rates: tuple[MeasuredRate, ...]
    boundary: bool  # the maximum sits at the first or the last size

    def __contains__(self, size: object) -> bool:
        return isinstance(size, (int, float)) and self.interval[0] <= size <= self.interval[1]


def measure_best_size(
    path: Sequence[Instance],
    noise: Noise,
    draws: int = 4000,
    batches: int = 20,
    seed: int = 0,
) -> MeasuredSize:
    """The size of the largest mean rate along a path, measured over ``draws`` random cycles per size.

    The loss itself is evaluated after each cycle; nothing is expanded and no formula of this room is
    used, so that it can settle which formula is right.
    """
    whole_number("batches", batches, least=2)
    each = whole_number("draws", draws, least=2 * batches) // batches
    if len(path) <= DEGREE:
        raise BadInputError(f"path must hold more than {DEGREE} sizes, not {len(path)}.")
    geometries = geometries_of(path, check_noise(noise))
    sizes = tuple(geometry.plastic for geometry in geometries)
    means = np.empty((batches, len(path)))
    for place, geometry in enumerate(geometries):
        for batch in range(batches):
            stream = (seed * len(path) + place) * batches + batch
            means[batch, place] = geometry.measure(noise, each, seed=stream).mean
    middle, interval, boundary = peak_of_batches(sizes, means)
    errors = means.std(axis=0, ddof=1) / math.sqrt(batches)
    rates = tuple(
        MeasuredRate(float(mean), float(error), each * batches)
        for mean, error in zip(means.mean(axis=0), errors, strict=True)
    )
    return MeasuredSize(middle, interval, sizes, rates, boundary)


def peak_of_batches(sizes: Sequence[int], means: Array) -> tuple[float, tuple[float, float], bool]:
    """Where batch means (batches, sizes) are largest, its 95% interval, and whether at an end."""
    batches = means.shape[0]
    middle, boundary = _peak(sizes, means.mean(axis=0))
    # Leave one batch out at a time (jackknife): the peak of a mean is no mean of peaks.
    left = [_peak(sizes, np.delete(means, b, axis=0).mean(axis=0))[0] for b in range(batches)]
    logs = np.log(left)
    spread = math.sqrt((batches - 1) / batches * float(np.sum((logs - logs.mean()) ** 2)))
    from scipy.special import stdtrit

    width = float(stdtrit(batches - 1, 0.975)) * spread
    return middle, (middle * math.exp(-width), middle * math.exp(width)), boundary


def _peak(sizes: Sequence[int], rates: Array) -> tuple[float, bool]:
    """Where the smoothed rate is largest, and whether that is at an end."""
    x = np.log(np.asarray(sizes, dtype=np.float64))
    fit = np.polynomial.Polynomial.fit(x, rates, DEGREE)
    fine = np.linspace(x[0], x[-1], 4001)
    top = int(np.argmax(fit(fine)))
    return math.exp(fine[top]), top in (0, fine.size - 1)
