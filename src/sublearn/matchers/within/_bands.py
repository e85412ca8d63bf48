"""What |output - target| <= eps asks of the numbers before the output activation: one interval each.

Every activation is increasing, so the last pre-activations that come within eps of a target form an
interval; an end is infinite where the band around the target reaches beyond the activation's image.

A refutation must hold for the infimum, limits at infinity included. So it is made for a slightly larger
tolerance, eps (1 + 2^-40): if no weights come within that, the infimum is at least that, and above eps.

"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sublearn._arrays import Array, Indices, Mask
from sublearn.ensembles import Instance
from sublearn.matchers._behind import before_output
from sublearn.matchers._ranges import IMAGES
from sublearn.matchers.proofs._balls import BALLS, Ball, middles, wanted

if TYPE_CHECKING:
    from sublearn.exact import Rational


BITS = 128
WIDER = 2.0**-40


def equal_samples(instance: Instance) -> list[list[int]]:
    """Groups of samples with the same inputs: every network answers them alike."""
    if instance.inputs_are_rounded:
        return []  # what looks the same in float64 need not be
    columns = instance.inputs.reshape(-1, instance.samples) + 0.0  # -0 and 0 are one number
    groups: dict[bytes, list[int]] = {}
    for s in range(instance.samples):
        groups.setdefault(columns[:, s].tobytes(), []).append(s)
    return [group for group in groups.values() if len(group) > 1]


@dataclass(frozen=True)
class Bands:
    """low <= z <= high for each (output, sample); where an end is infinite its ball is 0."""

    low: list[Ball]
    high: list[Ball]
    no_low: Mask
    no_high: Mask

    @property
    def bounded(self) -> Mask:
        """Where both ends are finite."""
        return ~(self.no_low | self.no_high)

    def select(self, kept: Indices) -> Bands:
        """Some of the bands."""
        low, high = ([ends[i] for i in kept.tolist()] for ends in (self.low, self.high))
        return Bands(low, high, self.no_low[kept], self.no_high[kept])

    def least(self, y: Sequence[Ball]) -> Ball | None:
        """The least y.z over all z within the bands; None where it is not known to be finite."""
        total: Ball = 0
        bounds = zip(self.low, self.high, self.no_low, self.no_high, strict=True)
        for value, (low, high, no_low, no_high) in zip(y, bounds, strict=True):
            if value.is_zero():
                continue
            # An end at infinity is harmless only where y certainly points away from it.
            if (no_low and not value < 0) or (no_high and not value > 0):
                return None
            if value > 0 or value < 0:
                total = total + value * (low if value > 0 else high)
            else:
                total = total + (value * low).min(value * high)
        return total

    def middle_and_half(self) -> tuple[Array, Array]:
        """A point inside each band and the room on its sides, in float64.

        Half-infinite bands get room 1; where nothing is asked both numbers are 0.
        """
        low, high = middles(self.low), middles(self.high)
        half = np.where(self.bounded, (high - low) / 2, 1.0)
        middle = np.where(self.bounded, low + half, 0.0)
        middle = np.where(self.no_low & ~self.no_high, high - 1.0, middle)
        middle = np.where(self.no_high & ~self.no_low, low + 1.0, middle)
        nothing = self.no_low & self.no_high
        return np.where(nothing, 0.0, middle), np.where(nothing, 0.0, half)


def bands(instance: Instance, eps: float) -> Bands | str:
    """The bands of an instance at the working precision, or why one of them is empty."""
    from flint import arb

    activation = instance.network.steps[-1].activation
    targets = wanted(instance, BALLS).entries()
    room = arb(eps) * (1 + arb(WIDER))
    first, second = IMAGES[activation]
    size, m = len(targets), instance.samples
    low: list[Ball] = [arb(0)] * size
    high: list[Ball] = [arb(0)] * size
    no_low, no_high = np.zeros(size, dtype=bool), np.zeros(size, dtype=bool)
    for i, target in enumerate(targets):
        left, right = (target - room).lower(), (target + room).upper()
        closed = activation == "relu"
        below = first is not None and (right < first if closed else right <= first)
        if below or (second is not None and left >= second):
            ends = f"[{first:g}, inf)" if second is None else f"({first:g}, {second:g})"
            return (
                f"output {i // m} of sample {i % m} lies in {ends}; its target "
                f"{float(target.mid()):.6g} is farther than eps from there"
            )
        no_low[i] = first is not None and bool(left <= first)
        no_high[i] = second is not None and bool(right >= second)
        if not no_low[i]:
            low[i] = before_output(activation, [left])[0]
        if not no_high[i]:
            high[i] = before_output(activation, [right])[0]
    made = Bands(low, high, no_low, no_high)
    return _joined(instance, made)


def _joined(instance: Instance, made: Bands) -> Bands | str:
    """Samples with equal inputs share their outputs, and so the intersection of their bands."""
    groups = equal_samples(instance)
    if not groups:
        return made
    low, high = list(made.low), list(made.high)
    no_low, no_high = made.no_low.copy(), made.no_high.copy()
    m = instance.samples
    for group in groups:
        for o in range(instance.network.output_size):
            places = [o * m + s for s in group]
            lows = [i for i in places if not made.no_low[i]]
            highs = [i for i in places if not made.no_high[i]]
            for i in lows:
                for j in highs:
                    if made.low[i] > made.high[j]:
                        return (
                            f"samples {i % m} and {j % m} have the same inputs, and their targets of "
                            f"output {o} differ by more than 2 eps"
                        )
            lowest, highest = None, None
            for i in lows:
                lowest = made.low[i] if lowest is None else lowest.max(made.low[i])
            for i in highs:
                highest = made.high[i] if highest is None else highest.min(made.high[i])
            for i in places:
                if lowest is not None:
                    low[i], no_low[i] = lowest, False
                if highest is not None:
                    high[i], no_high[i] = highest, False
    return Bands(low, high, no_low, no_high)


def rational(value: Ball, *, upper: bool) -> Rational:
    """An end of a ball as a fraction."""
    from flint import fmpq

    mantissa, exponent = (value.upper() if upper else value.lower()).man_exp()
    return fmpq(int(mantissa)) * fmpq(2) ** int(exponent)
