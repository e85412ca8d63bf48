"""The rate measured on the loss itself: random cycles, no expansion."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sublearn._arrays import Array
from sublearn._errors import BadInputError, whole_number
from sublearn._threads import single_thread
from sublearn.noise._loss import check_duration, check_gamma, pieces

if TYPE_CHECKING:
    from sublearn.noise._rates import Geometry, Surface

TOLERANCE = 0.1
"""Part of the first-order rate gamma1 |g| / F that second order may miss and still be called enough."""


class SecondOrderWarning(UserWarning):
    """The loss bends more than its second derivatives say: rates by formula are off here."""


@dataclass(frozen=True)
class MeasuredRate:
    """Mean and standard error of k = (1 - F(w + dw) / F(w)) / T over random cycles.

    Cycles come in pairs with opposite noise, which leaves the mean as it is and takes the odd orders
    out of the error; ``draws`` counts the pairs.
    """

    mean: float
    error: float
    draws: int

    def agrees(self, rate: float, errors: float = 3.0) -> bool:
        """Whether ``rate`` lies within so many standard errors."""
        # A quadratic loss without noise has no spread: rounding is all that is left.
        slack = 1e-9 * max(abs(rate), abs(self.mean))
        return abs(self.mean - rate) <= errors * self.error + slack


@dataclass(frozen=True)
class Validity:
    """Predicted and measured mean rates at T and at T/2, and whether second order is enough."""

    T: float
    predicted: float
    measured: MeasuredRate
    predicted_half: float
    measured_half: MeasuredRate
    scale: float  # gamma1 |g| / F, the first-order rate
    holds: bool
    holds_half: bool
    reason: str

    def __bool__(self) -> bool:
        return self.holds


def unit_rows(rng: np.random.Generator, count: int, size: int) -> Array:
    """``count`` independent directions, uniform on the unit sphere of ``size`` dimensions."""
    out = rng.standard_normal((count, size))
    out /= np.sqrt(np.einsum("kn,kn->k", out, out))[:, None]
    return out


def _surface(geometry: Geometry) -> Surface:
    if geometry._surface is None:
        raise BadInputError(
            "this geometry holds numbers alone: measuring needs one that local_geometry returned."
        )
    return geometry._surface


def measure(
    geometry: Geometry, gamma: Sequence[float], T: float, draws: int, seed: int
) -> MeasuredRate:
    """See :meth:`Geometry.measure`."""
    g1, g2, g3 = check_gamma(gamma)
    T = check_duration(T)
    whole_number("draws", draws, least=2)
    whole_number("seed", seed, least=0)
    surface = _surface(geometry)
    size, noisy = surface.vector.size, surface.noisy.size
    base = surface.vector.copy()
    if geometry.gradient_norm:
        base -= T * g1 / geometry.gradient_norm * surface.gradient
    rng = np.random.default_rng([seed, 0x5A7E])
    found = np.empty(draws)
    with single_thread():
        for part in pieces(draws, 4 * size, most=1 << 21):
            count = part.stop - part.start
            noise = np.zeros((count, size))
            noise[:, surface.plastic] = T * g2 * unit_rows(rng, count, surface.plastic.size)
            noise[:, surface.noisy] += math.sqrt(T * noisy) * g3 * unit_rows(rng, count, noisy)
            left = surface.loss(base + noise)
            noise *= -1.0
            found[part] = 0.5 * (left + surface.loss(base + noise))
    rates = (1.0 - found / geometry.loss) / T
    return MeasuredRate(
        float(rates.mean()), float(rates.std(ddof=1) / math.sqrt(draws)), int(draws)
    )


def check(geometry: Geometry, gamma: Sequence[float], T: float, draws: int, seed: int) -> Validity:
    """See :meth:`Geometry.check`."""
    g1, _, _ = check_gamma(gamma)
    T = check_duration(T)
    scale = g1 * geometry.gradient_norm / geometry.loss
    predicted, half = geometry.rate(gamma, T), geometry.rate(gamma, T / 2)
    measured = measure(geometry, gamma, T, draws, seed)
    measured_half = measure(geometry, gamma, T / 2, draws, seed)
    good = _enough(predicted, measured, scale)
    good_half = _enough(half, measured_half, scale)
    if good:
        reason = "second order is enough at this T."
    elif good_half:
        reason = (
            f"second order gives {predicted:.3g} where {measured.mean:.3g} is measured; at T/2 it is "
            "enough, so shorten the cycle or trust the measurement."
        )
    else:
        reason = (
            f"second order gives {predicted:.3g} where {measured.mean:.3g} is measured, and is not "
            "enough at T/2 either; trust the measurement."
        )
    if not good:
        warnings.warn(reason, SecondOrderWarning, stacklevel=3)
    return Validity(T, predicted, measured, half, measured_half, scale, good, good_half, reason)


def _enough(predicted: float, measured: MeasuredRate, scale: float) -> bool:
    # What chance explains is no evidence; what is small beside the step's own gain does no harm.
    return abs(predicted - measured.mean) <= 3.0 * measured.error + TOLERANCE * scale
