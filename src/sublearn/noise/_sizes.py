"""The best size: the maximum of the mean rate along a path of growth, by formula and measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from sublearn._arrays import Array
from sublearn._errors import BadInputError, whole_number
from sublearn._tables import aligned
from sublearn.ensembles import Instance
from sublearn.noise._geometry import Best, Geometry, local_geometry
from sublearn.noise._measure import MeasuredRate, draw_measured
from sublearn.noise._noise import Noise, check_noise
from sublearn.plots import (
    Figure,
    Row,
    Shown,
    curve,
    figure,
    finite,
    ink,
    legend,
    log_ticks,
    name_axes,
)

STEADY = 0.05
"""Spread of q/|g| and |g|/F along a path up to which they count as constant."""
SizeFormula = Callable[[Noise, int], Best]
"""What somebody says of the best size, from the noise and the first size of a path."""


@dataclass(frozen=True)
class Exponent:
    """a in Tr H / |g| ~ N^a along a path: least squares in the logarithms, with its standard error.

    Two sizes fix a line and leave no error to see: None.
    """

    value: float
    error: float | None


@dataclass(frozen=True, eq=False, repr=False)
class SizeCurve(Shown):
    """Mean rates along a path of growth, where they are largest, and what the formulas say.

    ``best`` is the size of the largest <k> among the sizes asked about; if <k> has one peak, the peak
    lies within ``bracket``; ``best.reason`` says where <k> is to second order only, or its traces are
    estimated too roughly to tell. ``closed_form`` is ((1-a)/a) T gamma2^2/gamma3^2, none where it does
    not hold; ``beside`` has what others say, by the names that were given to their formulas. The
    reason of each says where it holds. ``measured``: rates over random cycles at
    each size, empty where none were asked for. ``units``: the hidden or recurrent units of each size,
    layer by layer, empty where a network has none or the path is one of geometries.
    """

    noise: Noise
    geometries: tuple[Geometry, ...]
    sizes: tuple[int, ...]
    rates: tuple[float, ...]
    difficulties: tuple[float, ...]
    critical_difficulties: tuple[float, ...]
    best: Best
    bracket: tuple[int, int]
    exponent: Exponent | None
    closed_form: Best
    beside: Mapping[str, Best] = field(default_factory=dict)
    measured: tuple[MeasuredRate, ...] = ()
    units: tuple[str, ...] = ()

    @property
    def measured_best(self) -> int | None:
        """The size whose measured rate is largest, which needs no formula; None where none was measured."""
        if not self.measured:
            return None
        return max(zip(self.measured, self.sizes, strict=True), key=lambda one: one[0].mean)[1]

    @property
    def _close(self) -> list[int]:
        """The sizes whose measured rate is within two standard errors of the largest."""
        means, errors = zip(*((rate.mean, rate.error) for rate in self.measured), strict=True)
        return _within_errors(self.sizes, means, errors)

    @property
    def meaning(self) -> str:
        """Which size learns fastest, and by how much, in a sentence."""
        best, rates = self.best, self.rates
        if best.value is None:
            return f"No size learns faster than another: {best.reason}"
        top = max(rates)
        if top <= 0:
            return f"No size learns on average; the least harm is done at {best.value:.0f} weights."
        if best.value == self.sizes[0]:
            return f"{best.reason[0].upper()}{best.reason[1:]}"
        gain = "and unlike"
        if rates[0] > 0:
            ratio = top / rates[0]
            gain = f"{ratio:.3g} times as fast as" if ratio >= 1.01 else "by less than 1% over"
        size = f"A network of {best.value:.0f} weights"
        if self.units:
            size += f" ({self.units[self.sizes.index(int(best.value))]} units)"
        return f"{size} learns fastest, {gain} the first: {best.reason}"

    @property
    def headline(self) -> str:
        """The sizes, and the best of them."""
        best = "none" if self.best.value is None else f"{self.best.value:.0f}"
        return f"of {len(self.sizes)} sizes from {self.sizes[0]} to {self.sizes[-1]}, best: {best}"

    def table(self) -> list[Row]:
        """A row for every size; measured rates are None where none were asked for."""
        rows = []
        for k, geometry in enumerate(self.geometries):
            measured = self.measured[k] if self.measured else None
            rows.append(
                {
                    "weights": self.sizes[k],
                    **({"units": self.units[k]} if self.units else {}),
                    "rate": self.rates[k],
                    "measured": None if measured is None else measured.mean,
                    "measured_error": None if measured is None else measured.error,
                    "difficulty": finite(self.difficulties[k]),
                    "critical_difficulty": self.critical_difficulties[k],
                    "best": self.best.value == self.sizes[k],
                    **geometry.to_dict(),
                }
            )
        return rows

    def __str__(self) -> str:
        cells: list[tuple[str, ...]] = [
            ("N", "units", "Tr H/|g|", "mean rate", "difficulty", "critical", "measured", "")
        ]
        for place, geo in enumerate(self.geometries):
            ratio = geo.trace / geo.gradient_norm if geo.gradient_norm else math.inf
            numbers = (ratio, self.rates[place], self.difficulties[place])
            seen = self.measured[place] if self.measured else None
            cells.append(
                (
                    str(geo.plastic),
                    self.units[place] if self.units else "",
                    *(f"{number:.5g}" for number in (*numbers, self.critical_difficulties[place])),
                    "" if seen is None else f"{seen.mean:.4g} +- {seen.error:.1g}",
                    "<- best" if self.best.value == geo.plastic else "",
                )
            )
        absent = {name for name in ("units", "measured") if not getattr(self, name)}
        kept = [place for place, name in enumerate(cells[0]) if name not in absent]
        lines = aligned([tuple(row[place] for place in kept) for row in cells])
        if self.exponent is not None:
            error = self.exponent.error
            spread = "from two sizes" if error is None else f"+- {error:.1g}"
            lines.append(f"Tr H/|g| grows as N^a, a = {self.exponent.value:.3f} {spread}")
        formulas = {"best size": self.best, "closed form": self.closed_form, **self.beside}
        for name, formula in formulas.items():
            shown = "none" if formula.value is None else f"{formula.value:.0f}"
            lines.append(f"{name:<18}{shown:>6}  {formula.reason}")
        if self.measured:
            close = self._close
            among = f"; within two standard errors {close[0]} to {close[-1]}" * (len(close) > 1)
            cycles = f"over {self.measured[0].draws} pairs of random cycles at each size{among}."
            lines.append(f"{'measured':<18}{self.measured_best:>6}  {cycles}")
        return "\n".join([*lines, self.meaning])

    def plot(self) -> Figure:
        """The rate against size, and local task difficulty beside its critical value."""
        fig, (left, right) = figure(columns=2)
        curve(left, self.sizes, self.rates, label="formula")
        if self.measured:
            draw_measured(left, self.sizes, self.measured)
        if self.best.value is not None:
            left.axvline(self.best.value, color=ink(), linewidth=0.8, label="best")
        name_axes(left, "weights N", "mean rate")
        curve(right, self.sizes, self.difficulties, label="difficulty", colour=2)
        label = "critical: learns below"
        curve(right, self.sizes, self.critical_difficulties, label=label, colour=3, dashed=True)
        name_axes(right, "weights N", "local task difficulty")
        for ax in (left, right):
            log_ticks(ax)
            legend(ax)
        return fig

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            **self.noise.to_dict(),
            "sizes": list(self.sizes),
            "units": list(self.units) or None,
            "rates": list(self.rates),
            "difficulties": [finite(value) for value in self.difficulties],
            "critical_difficulties": list(self.critical_difficulties),
            "geometries": [geometry.to_dict() for geometry in self.geometries],
            "bracket": list(self.bracket),
            "exponent": None
            if self.exponent is None
            else {"value": self.exponent.value, "error": self.exponent.error},
            "best": vars(self.best),
            "closed_form": vars(self.closed_form),
            "beside": {name: vars(formula) for name, formula in self.beside.items()},
            "measured": [vars(rate) for rate in self.measured] or None,
            "measured_best": self.measured_best,
            "meaning": self.meaning,
        }


def best_size(
    path: Sequence[Instance] | Sequence[Geometry],
    noise: Noise,
    *,
    draws: int = 0,
    seed: int = 0,
    beside: Mapping[str, SizeFormula] | None = None,
) -> SizeCurve:
    """The size with the largest mean rate <k> along a path of growth, formulas beside it.

    ``path`` is what :func:`sublearn.noise.grow` and the like return, or geometries, smallest first. With
    ``draws`` the rate at each size is measured over so many random cycles too. ``beside`` names formulas
    to compare with, functions of the noise and the first size, such as ``SIZES`` of
    ``sublearn.experiments.raman2019``.

    >>> import numpy as np, sublearn as sl
    >>> rng = np.random.default_rng(0)
    >>> net, W, X = sl.LinearEstimator(10, 5), rng.standard_normal((5, 10)), rng.standard_normal((10, 50))
    >>> Y = rng.standard_normal((5, 10)) @ X
    >>> given = sl.Instance(net, sl.Allocation.whole(net), {"W": W}, X, Y)
    >>> path = sl.noise.expansion_path(given, [k / 5 for k in range(5, 25)])
    >>> found = sl.best_size(path, sl.Noise((0.8, 1.0, 0.05)))
    >>> found.best.value, found.bracket, round(found.closed_form.value, 6)
    (392.0, (338, 450), 400.0)
    """
    check_noise(noise)
    if draws:
        whole_number("draws, 0 for none or else", draws, least=2)
    geometries = geometries_of(path, noise)
    if len(geometries) < 2:
        raise BadInputError(f"path must hold at least 2 sizes to compare, not {len(geometries)}.")
    sizes = tuple(geometry.plastic for geometry in geometries)
    if any(larger <= smaller for smaller, larger in pairwise(sizes)):
        raise BadInputError(f"path must go from smaller to larger sizes, not {list(sizes)}.")
    rates = tuple(geometry.rate(noise) for geometry in geometries)
    top = int(np.argmax(rates))
    exponent = fit_exponent(geometries)
    hidden = [one.network.hidden if isinstance(one, Instance) else () for one in path]
    return SizeCurve(
        noise=noise,
        geometries=geometries,
        sizes=sizes,
        rates=rates,
        difficulties=tuple(geometry.difficulty(noise) for geometry in geometries),
        critical_difficulties=tuple(geometry.critical_difficulty(noise) for geometry in geometries),
        best=_best(sizes, rates, top, noise, _caveats(geometries, sizes, rates, noise)),
        bracket=(sizes[max(top - 1, 0)], sizes[min(top + 1, len(sizes) - 1)]),
        exponent=exponent,
        closed_form=_closed_form(geometries, exponent, noise),
        beside={name: formula(noise, sizes[0]) for name, formula in (beside or {}).items()},
        measured=tuple(geo.measure(noise, draws, seed) for geo in geometries) if draws else (),
        units=tuple("-".join(map(str, widths)) for widths in hidden) if all(hidden) else (),
    )


def geometries_of(
    path: Sequence[Instance] | Sequence[Geometry], noise: Noise
) -> tuple[Geometry, ...]:
    """The geometries of a path, with noise where it falls."""
    return tuple(p if isinstance(p, Geometry) else local_geometry(p, on=noise.on) for p in path)


def _within_errors(
    sizes: Sequence[int], rates: Sequence[float], errors: Sequence[float]
) -> list[int]:
    """The sizes whose rate is within two standard errors of the largest."""
    top = int(np.argmax(rates))
    return [
        size
        for size, rate, error in zip(sizes, rates, errors, strict=True)
        if rates[top] - rate <= 2.0 * math.hypot(error, errors[top])
    ]


def _caveats(
    geometries: Sequence[Geometry], sizes: Sequence[int], rates: Sequence[float], noise: Noise
) -> str:
    """Why the size of the largest <k> may not be the one that learns fastest; empty if it is."""
    close = _within_errors(sizes, rates, [geometry.rate_error(noise) for geometry in geometries])
    words = ""
    if len(close) > 1:
        words = (
            f" Within two standard errors of the estimated traces it may be any from {close[0]} to "
            f"{close[-1]}."
        )
    if not all(geometry.quadratic for geometry in geometries):
        words += " The rates are to second order only: F is not known to be quadratic."
    return words


def _best(
    sizes: tuple[int, ...], rates: tuple[float, ...], top: int, noise: Noise, caveats: str
) -> Best:
    size = float(sizes[top])
    if max(rates) - min(rates) <= 1e-12 * max(abs(r) for r in rates):
        return Best(None, "the rate does not depend on the size along this path.")
    if top == 0:
        why = (
            "gamma2 = 0: there is no task-irrelevant part for size to dilute, so that growing only "
            "adds noise and the optimum lies at the boundary; no size is negative"
            if not noise.gamma[1]
            else "growing only slows learning along this path"
        )
        return Best(size, f"the smallest network learns fastest: {why}.{caveats}")
    if top == len(sizes) - 1:
        return Best(size, f"the largest of these sizes; the best one may lie beyond.{caveats}")
    return Best(
        size,
        f"the rate is largest here, among {len(sizes)} sizes, and lower on both sides.{caveats}",
    )


def fit_exponent(geometries: Sequence[Geometry]) -> Exponent | None:
    """a of Tr H / |g| ~ N^a, or None where a trace or gradient is not positive."""
    if any(geo.noise_trace <= 0 or geo.gradient_norm <= 0 for geo in geometries):
        return None
    x = np.log([geo.plastic for geo in geometries])
    y = np.log([geo.noise_trace / geo.gradient_norm for geo in geometries])
    x = x - x.mean()
    spread = float(x @ x)
    slope = float(x @ y) / spread
    rest: Array = y - y.mean() - slope * x
    freedom = len(geometries) - 2
    error = math.sqrt(float(rest @ rest) / freedom / spread) if freedom > 0 else None
    return Exponent(slope, error)


def _closed_form(geometries: Sequence[Geometry], exponent: Exponent | None, noise: Noise) -> Best:
    if exponent is None:
        return Best(None, "a trace or a gradient along the path is not positive: no power law.")
    a = exponent.value
    if abs(a - round(2 * a) / 2) < 1e-9:
        a = round(2 * a) / 2  # 0, 1/2 and 1 are exact along linear paths; rounding is not
    best = closed_form_size(noise, a)
    bends = [geo.q / geo.gradient_norm for geo in geometries]
    slopes = [geo.gradient_norm / geo.loss for geo in geometries]
    where = "It holds here: q/|g| and |g|/F stay constant along the path."
    for name, values in (("q/|g|", bends), ("|g|/F", slopes)):
        low, high = min(values), max(values)
        if high - low > STEADY * max(abs(low), abs(high)):
            where = f"It does not hold here: {name} goes from {values[0]:.3g} to {values[-1]:.3g}."
            if best.value:
                where += f" It would be {best.value:.0f}."
            return Best(None, f"{best.reason} {where}")
    error = exponent.error or 0.0
    if best.value and abs(a) <= 2.0 * error:
        return Best(
            None, f"a = {a:.2g} +- {error:.1g} cannot be told from 0, and so no size from none."
        )
    return Best(best.value, f"{best.reason} {where}")


def closed_form_size(noise: Noise, a: float) -> Best:
    """N* = ((1-a)/a) T gamma2^2 / gamma3^2, where Tr H/|g| ~ N^a and q/|g| and |g|/F are constant.

    >>> round(closed_form_size(Noise((0.8, 1.0, 0.05)), a=0.5).value, 6)
    400.0
    """
    (_, g2, g3), T = check_noise(noise).gamma, noise.T
    if a <= 0:
        return Best(None, f"a = {a:.3g}: the noise's cost does not grow, so larger is never worse.")
    if a >= 1 or not g2:
        why = f"a = {a:.3g}" if a >= 1 else "gamma2 = 0"
        return Best(0.0, f"{why}: growing dilutes nothing, so the smallest network is best.")
    if not g3:
        return Best(None, "gamma3 = 0: without synaptic noise larger is always better.")
    return Best((1 - a) / a * T * g2**2 / g3**2, f"((1-a)/a) T gamma2^2/gamma3^2 with a = {a:.3g}.")


def best_redundancy(geometry: Geometry, noise: Noise) -> Best:
    """The best number c of synapses per connection: [gamma1 |g| / (T gamma1^2 q + gamma3^2 Tr H_S)]^2.

    The maximum of <k> of ``geometry.redundant(c)`` over real c >= 1; gamma2 plays no part, because c
    synapses dilute its effect exactly as much as they multiply the trace.

    >>> geo = Geometry(loss=1.0, gradient_norm=2.0, q=0.1, trace=20.0, plastic=50)
    >>> round(best_redundancy(geo, Noise((0.5, 1.0, 0.1))).value, 4)     # (1 / (0.025 + 0.2))^2
    19.7531
    """
    (g1, _, g3), T = check_noise(noise).gamma, noise.T
    slope = g1 * geometry.gradient_norm
    cost = T * g1**2 * geometry.q + g3**2 * geometry.noise_trace
    if not slope:
        return Best(
            1.0 if cost > 0 else None,
            "there is no gradient step that more synapses could speed up.",
        )
    if cost <= 0:
        return Best(None, "curvature costs nothing here: more synapses are always better.")
    best = (slope / cost) ** 2
    if best <= 1:
        return Best(1.0, "one synapse per connection: more would overshoot or add noise.")
    return Best(best, "the faster step and its larger curvature and noise balance.")


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


def peak_of_batches(
    sizes: Sequence[int], means: Array, degree: int = DEGREE
) -> tuple[float, tuple[float, float], bool]:
    """Where batch means (batches, sizes) are largest, its 95% interval, and whether at an end.

    ``degree`` is that of the polynomial in log N through the sizes, of which there must be more.
    """
    batches = means.shape[0]
    middle, boundary = _peak(sizes, means.mean(axis=0), degree)
    # Leave one batch out at a time (jackknife): the peak of a mean is no mean of peaks.
    rest = (np.delete(means, b, axis=0).mean(axis=0) for b in range(batches))
    left = [_peak(sizes, each, degree)[0] for each in rest]
    logs = np.log(left)
    spread = math.sqrt((batches - 1) / batches * float(np.sum((logs - logs.mean()) ** 2)))
    from scipy.special import stdtrit

    width = float(stdtrit(batches - 1, 0.975)) * spread
    return middle, (middle * math.exp(-width), middle * math.exp(width)), boundary


def _peak(sizes: Sequence[int], rates: Array, degree: int) -> tuple[float, bool]:
    """Where the smoothed rate is largest, and whether that is at an end."""
    x = np.log(np.asarray(sizes, dtype=np.float64))
    fit = np.polynomial.Polynomial.fit(x, rates, degree)
    fine = np.linspace(x[0], x[-1], 4001)
    top = int(np.argmax(fit(fine)))
    return math.exp(fine[top]), top in (0, fine.size - 1)
