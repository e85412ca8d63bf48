"""The rate of a cycle beside what the loss itself does: random cycles, no expansion."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sublearn._arrays import Array
from sublearn._errors import BadInputError, whole_number
from sublearn._interrupts import heed
from sublearn._seeds import Tag
from sublearn._threads import single_thread
from sublearn.noise._geometry import Critical, Geometry, Surface
from sublearn.noise._loss import pieces
from sublearn.noise._noise import Noise
from sublearn.plots import Axes, Figure, Row, Shown, curve, figure, finite, ink, legend, name_axes

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


@dataclass(frozen=True, eq=False, repr=False)
class Rate(Shown):
    """The mean rate of one cycle: by formula, ``measured`` at T and at T/2, and what it means.

    It is true where second order is enough at T. ``scale`` is gamma1 |g| / F, the first-order rate;
    ``draws`` and ``seed`` are those of the random cycles.
    """

    geometry: Geometry
    noise: Noise
    measured: MeasuredRate
    measured_half: MeasuredRate
    draws: int
    seed: int

    @property
    def predicted(self) -> float:
        """<k> by the formula."""
        return self.geometry.rate(self.noise)

    @property
    def predicted_half(self) -> float:
        """<k> by the formula at T/2."""
        return self.geometry.rate(replace(self.noise, T=self.noise.T / 2))

    @property
    def scale(self) -> float:
        """gamma1 |g| / F."""
        return self.noise.gamma[0] * self.geometry.gradient_norm / self.geometry.loss

    @property
    def holds(self) -> bool:
        """Whether second order is enough at T."""
        return self._enough(self.predicted, self.measured)

    @property
    def holds_half(self) -> bool:
        """Whether second order is enough at T/2."""
        return self._enough(self.predicted_half, self.measured_half)

    def _enough(self, predicted: float, measured: MeasuredRate) -> bool:
        # What chance explains is no evidence; what is small beside the step's own gain does no harm.
        return abs(predicted - measured.mean) <= 3.0 * measured.error + TOLERANCE * self.scale

    def __bool__(self) -> bool:
        return self.holds

    @property
    def reason(self) -> str:
        """Whether second order is enough, in a sentence."""
        if self.holds:
            return "second order is enough at this T."
        seen = f"second order gives {self.predicted:.3g} where {self.measured.mean:.3g} is measured"
        if self.holds_half:
            return f"{seen}; at T/2 it is enough, so shorten the cycle or trust the measurement."
        return f"{seen}, and is not enough at T/2 either; trust the measurement."

    @property
    def meaning(self) -> str:
        """What one cycle does to the loss, in a sentence."""
        share = 100 * self.measured.mean * self.noise.T
        doing = f"removes {share:.3g}% of" if share >= 0 else f"adds {-share:.3g}% to"
        exact = "the loss is quadratic, so the formula is exact"
        why = exact if self.geometry.quadratic else self.reason
        return f"On average one cycle {doing} the loss; {why.rstrip('.')}."

    @property
    def critical(self) -> dict[str, Critical]:
        """The levels of each part at which the network learns, the other two as they are."""
        geo, noise = self.geometry, self.noise
        return {
            "gamma1": geo.critical_gamma1(noise),
            "gamma2": geo.critical_gamma2(noise),
            "gamma3": geo.critical_gamma3(noise),
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        geo, noise = self.geometry, self.noise
        return {
            **noise.to_dict(),
            **geo.to_dict(),
            "rate": self.predicted,
            "rate_error": geo.rate_error(noise),
            "difficulty": finite(geo.difficulty(noise)),
            "critical_difficulty": geo.critical_difficulty(noise),
            "best_gamma1": vars(geo.best_gamma1(noise)),
            "learns_for": {name: level.to_dict() for name, level in self.critical.items()},
            "measured": vars(self.measured),
            "second_order_is_enough": self.holds,
            "meaning": self.meaning,
        }

    def __str__(self) -> str:
        geo, noise, measured = self.geometry, self.noise, self.measured
        best = geo.best_gamma1(noise)
        shown = "none" if best.value is None else f"{best.value:.4g}"
        lines = [
            str(geo),
            f"mean rate <k> {self.predicted:.4g} by formula, {measured.mean:.4g} +- {measured.error:.1g} "
            f"over {self.draws} pairs of cycles",
            f"local task difficulty {geo.difficulty(noise):.4g}, "
            f"critical {geo.critical_difficulty(noise):.4g}",
            f"best gamma1   {shown}: {best.reason}",
            *(f"{name} learns  {level}: {level.reason}" for name, level in self.critical.items()),
            self.meaning,
        ]
        return "\n".join(lines)

    @property
    def headline(self) -> str:
        """The mean rate, by formula and measured."""
        measured = f"{self.measured.mean:.4g} +- {self.measured.error:.1g}"
        return f"<k> {self.predicted:.4g} by formula, {measured} measured"

    @cached_property
    def _levels(self) -> dict[str, list[tuple[float, float, MeasuredRate | None]]]:
        """By the name of a part of the noise: its levels, the rate there, and every other one measured."""
        geo, noise = self.geometry, self.noise
        out = {}
        for place, name in ((0, "gamma1"), (2, "gamma3")):
            ends = [v for v in (self.critical[name].high, 2 * noise.gamma[place]) if 0 < v < np.inf]
            levels = np.linspace(0.0, 1.15 * max(ends, default=1.0), 25).tolist()
            at = [noise.with_level(place, level) for level in levels]
            seen = [geo.measure(one, self.draws, self.seed) for one in at[::2]]
            beside = [None if k % 2 else seen[k // 2] for k in range(len(at))]
            out[name] = list(zip(levels, [geo.rate(one) for one in at], beside, strict=True))
        return out

    def table(self) -> list[Row]:
        """The rate against gamma1 and against gamma3, by formula and measured."""
        return [
            {
                "part": name,
                "level": level,
                "formula": rate,
                "measured": None if seen is None else seen.mean,
                "measured_error": None if seen is None else seen.error,
            }
            for name, levels in self._levels.items()
            for level, rate, seen in levels
        ]

    def plot(self) -> Figure:
        """The rate against gamma1 and against gamma3, by formula and measured; this noise marked."""
        fig, axes = figure(columns=2)
        for ax, place, (name, levels) in zip(axes, (0, 2), self._levels.items(), strict=True):
            curve(ax, [one[0] for one in levels], [one[1] for one in levels], label="formula")
            measured = [(level, seen) for level, _, seen in levels if seen is not None]
            draw_measured(ax, [one[0] for one in measured], [one[1] for one in measured])
            ax.axhline(0.0, color=ink(), linewidth=0.8)
            here = self.noise.gamma[place]
            ax.axvline(here, color=ink(), linewidth=0.8, linestyle=":", label=f"{here:g}, as asked")
            name_axes(ax, name, "mean rate")
            legend(ax)
        return fig


def draw_measured(ax: Axes, x: ArrayLike, measured: Sequence[MeasuredRate]) -> None:
    """Measured rates, two standard errors shaded."""
    means = np.array([one.mean for one in measured])
    errors = 2 * np.array([one.error for one in measured])
    curve(ax, x, means, means - errors, means + errors, label="measured", colour=1, dashed=True)


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


def measure(geometry: Geometry, noise: Noise, draws: int, seed: int) -> MeasuredRate:
    """See :meth:`Geometry.measure`."""
    (g1, g2, g3), T = geometry._levels(noise)
    whole_number("draws", draws, least=2)
    whole_number("seed", seed, least=0)
    surface = _surface(geometry)
    size, noisy = surface.vector.size, surface.noisy.size
    base = surface.vector.copy()
    if geometry.gradient_norm:
        base -= T * g1 / geometry.gradient_norm * surface.gradient
    rng = np.random.default_rng([seed, Tag.CYCLES])
    losses = np.empty(draws)
    with single_thread():
        for part in pieces(draws, 4 * size, most=1 << 21):
            heed()
            count = part.stop - part.start
            moved = np.zeros((count, size))
            moved[:, surface.plastic] = T * g2 * unit_rows(rng, count, surface.plastic.size)
            moved[:, surface.noisy] += math.sqrt(T * noisy) * g3 * unit_rows(rng, count, noisy)
            left = surface.loss(base + moved)
            moved *= -1.0
            losses[part] = 0.5 * (left + surface.loss(base + moved))
    rates = (1.0 - losses / geometry.loss) / T
    return MeasuredRate(
        float(rates.mean()), float(rates.std(ddof=1) / math.sqrt(draws)), int(draws)
    )


def check(geometry: Geometry, noise: Noise, draws: int, seed: int) -> Rate:
    """See :meth:`Geometry.check`."""
    whole = measure(geometry, noise, draws, seed)
    half = measure(geometry, replace(noise, T=noise.T / 2), draws, seed)
    rate = Rate(geometry, noise, whole, half, draws, seed)
    if not rate:
        warnings.warn(rate.reason, SecondOrderWarning, stacklevel=3)
    return rate
