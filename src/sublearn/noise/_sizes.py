"""The best size: the maximum of the mean rate along a path of growth, and formulas beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from sublearn._arrays import Array
from sublearn._errors import BadInputError
from sublearn.noise._growth import Grown
from sublearn.noise._loss import Gamma, check_duration, check_gamma
from sublearn.noise._rates import Best, Geometry

STEADY = 0.05
"""Spread of q/|g| and |g|/F along a path up to which they count as constant."""


@dataclass(frozen=True)
class Exponent:
    """a in Tr H / |g| ~ N^a along a path: least squares in the logarithms, with its standard error.

    Two sizes fix a line and leave no error to see: None.
    """

    value: float
    error: float | None


@dataclass(frozen=True, eq=False)
class SizeCurve:
    """Mean rates along a path of growth, where they are largest, and what the formulas say.

    ``best`` is the size of the largest <k> among the sizes asked about; if <k> has one peak, the peak
    lies within ``bracket``; ``best.reason`` says where <k> is to second order only, or its traces are
    estimated too roughly to tell. The formulas stand beside it, each with where it holds in its reason:
    ``closed_form`` ((1-a)/a) T gamma2^2/gamma3^2, none where it does not hold, ``slides`` for the one
    printed for linear networks, ``slides_nonlinear`` for the one printed for nonlinear ones,
    ``implicit`` for the equation of the published code.
    """

    gamma: Gamma
    T: float
    geometries: tuple[Geometry, ...]
    sizes: tuple[int, ...]
    rates: tuple[float, ...]
    difficulties: tuple[float, ...]
    critical_difficulties: tuple[float, ...]
    best: Best
    bracket: tuple[int, int]
    exponent: Exponent | None
    closed_form: Best
    slides: Best
    slides_nonlinear: Best
    implicit: Best

    def to_dict(self) -> dict[str, Any]:
        """The numbers, for JSON."""
        formulas = ("best", "closed_form", "slides", "slides_nonlinear", "implicit")
        return {
            "gamma": list(self.gamma),
            "T": self.T,
            "sizes": list(self.sizes),
            "rates": list(self.rates),
            "difficulties": list(self.difficulties),
            "critical_difficulties": list(self.critical_difficulties),
            "geometries": [geometry.to_dict() for geometry in self.geometries],
            "bracket": list(self.bracket),
            "exponent": None
            if self.exponent is None
            else {"value": self.exponent.value, "error": self.exponent.error},
            **{name: vars(getattr(self, name)) for name in formulas},
        }


def best_size(
    path: Sequence[Grown] | Sequence[Geometry], gamma: Sequence[float], T: float
) -> SizeCurve:
    """The size with the largest mean rate <k> along a path of growth, formulas beside it.

    ``path`` is what :func:`expansion_path` and the like return, or geometries, smallest first.

    >>> import numpy as np, sublearn as sl
    >>> rng = np.random.default_rng(0)
    >>> net, weights = sl.LinearEstimator(10, 5), {"W": rng.standard_normal((5, 10))}
    >>> x = rng.standard_normal((10, 50))
    >>> path = sl.noise.expansion_path(net, weights, inputs=x, targets=rng.standard_normal((5, 10)) @ x,
    ...                          factors=[k / 5 for k in range(5, 25)])
    >>> found = sl.best_size(path, gamma=(0.8, 1.0, 0.05), T=1.0)
    >>> found.best.value, found.bracket, round(found.closed_form.value, 6)
    (392.0, (338, 450), 400.0)
    """
    g = check_gamma(gamma)
    T = check_duration(T)
    geometries = tuple(p.geometry() if isinstance(p, Grown) else p for p in path)
    if len(geometries) < 2:
        raise BadInputError(f"path must hold at least 2 sizes to compare, not {len(geometries)}.")
    sizes = tuple(geometry.plastic for geometry in geometries)
    if any(larger <= smaller for smaller, larger in pairwise(sizes)):
        raise BadInputError(f"path must go from smaller to larger sizes, not {list(sizes)}.")
    rates = tuple(geometry.rate(g, T) for geometry in geometries)
    top = int(np.argmax(rates))
    bracket = (sizes[max(top - 1, 0)], sizes[min(top + 1, len(sizes) - 1)])
    exponent = fit_exponent(geometries)
    return SizeCurve(
        gamma=g,
        T=T,
        geometries=geometries,
        sizes=sizes,
        rates=rates,
        difficulties=tuple(geometry.difficulty(g, T) for geometry in geometries),
        critical_difficulties=tuple(geometry.critical_difficulty(g, T) for geometry in geometries),
        best=_best(sizes, rates, top, g, _caveats(geometries, rates, top, g, T)),
        bracket=bracket,
        exponent=exponent,
        closed_form=_closed_form(geometries, exponent, g, T),
        slides=slides_size(g, T),
        slides_nonlinear=slides_nonlinear_size(g, T, sizes[0]),
        implicit=implicit_size(g, T, sizes[0]),
    )


def _caveats(
    geometries: Sequence[Geometry], rates: tuple[float, ...], top: int, gamma: Gamma, T: float
) -> str:
    """Why the size of the largest <k> may not be the one that learns fastest; empty if it is."""
    errors = [geometry.rate_error(gamma, T) for geometry in geometries]
    close = [
        geometry.plastic
        for geometry, rate, error in zip(geometries, rates, errors, strict=True)
        if rates[top] - rate <= 2.0 * math.hypot(error, errors[top])
    ]
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
    sizes: tuple[int, ...], rates: tuple[float, ...], top: int, gamma: Gamma, caveats: str
) -> Best:
    size = float(sizes[top])
    if max(rates) - min(rates) <= 1e-12 * max(abs(r) for r in rates):
        return Best(None, "the rate does not depend on the size along this path.")
    if top == 0:
        why = (
            "gamma2 = 0: there is no task-irrelevant part for size to dilute, so that growing only "
            "adds noise and the optimum lies at the boundary; no size is negative"
            if not gamma[1]
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


def _closed_form(
    geometries: Sequence[Geometry], exponent: Exponent | None, gamma: Gamma, T: float
) -> Best:
    if exponent is None:
        return Best(None, "a trace or a gradient along the path is not positive: no power law.")
    a = exponent.value
    if abs(a - round(2 * a) / 2) < 1e-9:
        a = round(2 * a) / 2  # 0, 1/2 and 1 are exact along linear paths; rounding is not
    best = closed_form_size(gamma, T, a)
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
    return Best(best.value, f"{best.reason} {where}")


def closed_form_size(gamma: Sequence[float], T: float, a: float) -> Best:
    """N* = ((1-a)/a) T gamma2^2 / gamma3^2, where Tr H/|g| ~ N^a and q/|g| and |g|/F are constant.

    >>> round(closed_form_size((0.8, 1.0, 0.05), 1.0, a=0.5).value, 6)
    400.0
    """
    _, g2, g3 = check_gamma(gamma)
    T = check_duration(T)
    if a <= 0:
        return Best(None, f"a = {a:.3g}: the noise's cost does not grow, so larger is never worse.")
    if a >= 1 or not g2:
        why = f"a = {a:.3g}" if a >= 1 else "gamma2 = 0"
        return Best(0.0, f"{why}: growing dilutes nothing, so the smallest network is best.")
    if not g3:
        return Best(None, "gamma3 = 0: without synaptic noise larger is always better.")
    return Best((1 - a) / a * T * g2**2 / g3**2, f"((1-a)/a) T gamma2^2/gamma3^2 with a = {a:.3g}.")


def best_redundancy(geometry: Geometry, gamma: Sequence[float], T: float) -> Best:
    """The best number c of synapses per connection: [gamma1 |g| / (T gamma1^2 q + gamma3^2 Tr H_S)]^2.

    The maximum of <k> of ``geometry.redundant(c)`` over real c >= 1; gamma2 plays no part, because c
    synapses dilute its effect exactly as much as they multiply the trace.

    >>> geo = Geometry(loss=1.0, gradient_norm=2.0, q=0.1, trace=20.0, plastic=50)
    >>> round(best_redundancy(geo, (0.5, 1.0, 0.1), T=1.0).value, 4)     # (1 / (0.025 + 0.2))^2
    19.7531
    """
    g1, _, g3 = check_gamma(gamma)
    T = check_duration(T)
    slope = g1 * geometry.gradient_norm
    cost = T * g1**2 * geometry.q + g3**2 * geometry.noise_trace
    if not slope:
        return Best(
            1.0 if cost > 0 else None,
            "there is no gradient step that more synapses could speed up.",
        )
    if cost <= 0:
        return Best(None, "curvature costs nothing here: more synapses are always better.")
    found = (slope / cost) ** 2
    if found <= 1:
        return Best(1.0, "one synapse per connection: more would overshoot or add noise.")
    return Best(found, "the faster step and its larger curvature and noise balance.")


def slides_size(gamma: Sequence[float], T: float) -> Best:
    """T (gamma2^2 - gamma1^2) / gamma3^2, as the slides print it for linear networks; it does not hold.

    >>> round(slides_size((0.8, 1.0, 0.05), 1.0).value)
    144
    """
    g1, g2, g3 = check_gamma(gamma)
    T = check_duration(T)
    if not g3:
        return Best(None, "gamma3 = 0: the slides' formula divides by it.")
    value = T * (g2**2 - g1**2) / g3**2
    why = "It holds nowhere: gamma1 plays no part in the best size of linear networks"
    return Best(value, f"{why}{', and no size is negative' if value < 0 else ''}.")


def slides_nonlinear_size(gamma: Sequence[float], T: float, base: int) -> Best:
    """gamma1 sqrt(T N) / gamma3, as the slides print it for nonlinear networks of base size N.

    That is the root of N* = (T gamma2^2/gamma3^2) [gamma1^2 N / (gamma2^2 N*)].
    """
    g1, _, g3 = check_gamma(gamma)
    T = check_duration(T)
    if not g3:
        return Best(None, "gamma3 = 0: the slides' formula divides by it.")
    return Best(
        g1 * math.sqrt(T * base) / g3,
        "The slides print it without derivation, and it differs from the published code's.",
    )


def implicit_size(gamma: Sequence[float], T: float, base: int) -> Best:
    """The root N* of N* = (T/gamma3^2) sqrt[(gamma1^2 + gamma2^2)(gamma2^2 + gamma1^2 N/N*)].

    The equation of the published code for nonlinear networks padded from N weights.
    """
    g1, g2, g3 = check_gamma(gamma)
    T = check_duration(T)
    if not g3:
        return Best(None, "gamma3 = 0: the equation divides by it.")
    if not (g1 or g2):
        return Best(0.0, "nothing but noise moves the weights.")

    def excess(log_size: float) -> float:
        size = math.exp(log_size)
        return (
            log_size
            - math.log(T / g3**2)
            - 0.5 * math.log((g1**2 + g2**2) * (g2**2 + g1**2 * base / size))
        )

    # The left side rises and the right side falls with the size: one root, found by halving.
    low, high = -60.0, 60.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if excess(middle) < 0 else (low, middle)
    return Best(
        math.exp(0.5 * (low + high)),
        "From the published code, without a derivation: compare the maximum of <k>.",
    )
