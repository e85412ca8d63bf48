"""Slope and curvature where the weights are now, and the mean learning rate that follows from them.

One cycle of time T moves the weights by dw = T wdot,

    wdot = -gamma1 ghat + gamma2 n2 + gamma3 sqrt(n_S / T) n3,

with ghat the unit gradient on the r plastic weights M, n2 a random unit direction on M, n3 a random
unit direction on the n_S noisy weights S (M again, or all weights). The rate k of a cycle is defined
by F(w + dw) = (1 - k T) F(w). To second order in dw its mean is

    <k> = (1/F) { gamma1 |g_M| - (T/2) [gamma1^2 q + (gamma2^2 / r) Tr H_M] - (gamma3^2 / 2) Tr H_S },

q = ghat' H ghat, exactly so where F is quadratic. (Raman, Rotondo & O'Leary 2019, with the errors of
the slides put right: the page "Where the slides are wrong".)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sublearn._arrays import Array, Indices
from sublearn._errors import BadInputError, one_of, whole_number
from sublearn._interrupts import heed
from sublearn._threads import single_thread
from sublearn.allocations import Allocation
from sublearn.ensembles import Instance, check_instance
from sublearn.noise._curvature import MatrixTrace, curvature_along, traces
from sublearn.noise._loss import (
    error_signal,
    flatten,
    loss_at,
    plastic_positions,
    positions,
    squared_error,
)
from sublearn.noise._noise import NOISE_ON, Gamma, Noise, check_noise
from sublearn.plots import COLOURS, Figure, Row, Shown, figure, finite, ink, legend, name_axes
from sublearn.verdicts import is_affine

if TYPE_CHECKING:
    from sublearn.noise._measure import MeasuredRate, Rate

TRACES = ("auto", "exact", "estimate")


@dataclass(frozen=True)
class Best:
    """A best value, or None where there is none; ``reason`` says why in a sentence."""

    value: float | None
    reason: str

    def __float__(self) -> float:
        if self.value is None:
            raise BadInputError(f"there is no best value: {self.reason}")
        return self.value


@dataclass(frozen=True)
class Critical:
    """The levels at which the mean rate is positive: low < level < high; empty where both are NaN.

    ``low`` 0 with no noise to overcome includes 0 itself; ``high`` may be infinite.
    """

    low: float
    high: float
    reason: str

    def __contains__(self, level: object) -> bool:
        return isinstance(level, (int, float)) and self.low < level < self.high

    def __float__(self) -> float:
        """The one level that parts learning from not learning, where there is just one."""
        edges = [edge for edge in (self.low, self.high) if 0 < edge < math.inf]
        if len(edges) != 1:
            raise BadInputError(f"there is no single critical level ({self}).")
        return edges[0]

    def __str__(self) -> str:
        return "nowhere" if self.empty else f"from {self.low:.4g} to {self.high:.4g}"

    @property
    def empty(self) -> bool:
        """Whether no level learns."""
        return math.isnan(self.low)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON: an end without a value is null."""
        ends = {"low": finite(self.low), "high": finite(self.high)}
        return {**ends, "empty": self.empty, "reason": self.reason}


def _never(reason: str) -> Critical:
    return Critical(math.nan, math.nan, reason)


@dataclass(frozen=True, repr=False)
class Geometry(Shown):
    """Slope and curvature of a loss at one point, on the plastic and on the noisy weights.

    ``loss`` F, ``gradient_norm`` |g_M|, ``q`` = ghat' H ghat, ``trace`` Tr H_M with its standard error
    ``trace_error`` (0: exact), ``noise_trace`` Tr H_S likewise; ``plastic`` r, ``noisy`` n_S, ``size``
    the number N of all weights; noise falls ``on`` the "plastic" weights, on "all", or, in numbers that
    somebody made (None), wherever is asked. Where the gradient is 0 there is no direction to go, and q is 0.

    >>> geo = Geometry(loss=1.0, gradient_norm=2.0, q=1.0, trace=10.0, plastic=20)
    >>> geo.rate(Noise((0.5, 1.0, 0.1)))     # (0.5 * 2 - (0.25 * 1 + 10 / 20) / 2 - 0.005 * 10) / 1
    0.575
    >>> geo.best_gamma1(Noise((0.5, 1.0, 0.1))).value
    2.0
    """

    loss: float
    gradient_norm: float
    q: float
    trace: float
    plastic: int
    trace_error: float = 0.0
    noise_trace: float = math.nan
    noise_trace_error: float = 0.0
    noisy: int = 0
    size: int = 0
    probes: int = 0
    quadratic: bool = False
    on: str | None = None
    # Losses at displacements (..., N), and what a cycle needs to make them; None: numbers alone.
    _surface: Surface | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.plastic < 1:
            raise BadInputError(f"plastic must be at least 1 weight, not {self.plastic}.")
        if not (math.isfinite(self.loss) and self.loss > 0):
            raise BadInputError(
                f"the loss must be above 0 for a rate, which is relative to it, not {self.loss:g}."
            )
        if not (math.isfinite(self.gradient_norm) and self.gradient_norm >= 0):
            raise BadInputError(f"gradient_norm must be at least 0, not {self.gradient_norm}.")
        if not self.gradient_norm:
            object.__setattr__(self, "q", 0.0)
        if math.isnan(self.noise_trace):  # noise on the plastic weights
            object.__setattr__(self, "noise_trace", self.trace)
            object.__setattr__(self, "noise_trace_error", self.trace_error)
        object.__setattr__(self, "noisy", self.noisy or self.plastic)
        object.__setattr__(self, "size", self.size or max(self.plastic, self.noisy))

    def _levels(self, noise: Noise) -> tuple[Gamma, float]:
        """gamma and T of a noise that falls where the traces were taken."""
        check_noise(noise)
        if self.on is not None and noise.on != self.on and self.plastic != self.size:
            raise BadInputError(
                f"this geometry was taken with noise on={self.on!r}, and is asked about {noise.on!r}."
            )
        return noise.gamma, noise.T

    # The rate.

    def rate(self, noise: Noise) -> float:
        """The mean learning rate <k> over one cycle, to second order; see the module's formula."""
        (g1, _, _), T = self._levels(noise)
        return (g1 * self.gradient_norm - 0.5 * T * self._curvature(noise)) / self.loss

    def rate_error(self, noise: Noise) -> float:
        """Standard error of :meth:`rate` that the estimated traces leave; 0 where they are exact."""
        (_, g2, g3), T = self._levels(noise)
        irrelevant = g2**2 / self.plastic * self.trace_error
        synaptic = g3**2 / T * self.noise_trace_error
        # The two traces share their probes where the sets agree: the plain sum is never too small.
        return 0.5 * T * (irrelevant + synaptic) / self.loss

    def _curvature(self, noise: Noise) -> float:
        """<wdot' H wdot>."""
        (g1, g2, g3), T = self._levels(noise)
        return g1**2 * self.q + g2**2 / self.plastic * self.trace + g3**2 / T * self.noise_trace

    def speed(self, noise: Noise) -> float:
        """<|wdot|^2> = gamma1^2 + gamma2^2 + gamma3^2 n_S / T."""
        (g1, g2, g3), T = self._levels(noise)
        return g1**2 * (self.gradient_norm > 0) + g2**2 + g3**2 * self.noisy / T

    def difficulty(self, noise: Noise) -> float:
        """Local task difficulty <G_F>, G_F = u'Hu / (2|g|) along u = wdot/|wdot|, weighted by |wdot|^2."""
        speed = self.speed(noise)
        if not speed:
            raise BadInputError(
                "gamma must have a level above 0 (gamma1 counts where there is a gradient): "
                "weights that do not move meet no difficulty."
            )
        curvature = self._curvature(noise)
        if not self.gradient_norm:
            return math.copysign(math.inf, curvature) if curvature else math.nan
        return curvature / (2.0 * self.gradient_norm * speed)

    def critical_difficulty(self, noise: Noise) -> float:
        """gamma1 / (T <|wdot|^2>): the network learns on average iff its difficulty is below this."""
        speed = self.speed(noise)
        if not speed:
            raise BadInputError("gamma must have a level above 0.")
        return noise.gamma[0] / (noise.T * speed)

    # Best and critical levels.

    def best_gamma1(self, noise: Noise) -> Best:
        """The gamma1 of the largest mean rate, |g| / (T q) where q > 0; it depends on no noise."""
        _, T = self._levels(noise)
        if not self.gradient_norm:
            return Best(None, "the gradient is 0, so gamma1 does nothing.")
        if self.q > 0:
            return Best(
                self.gradient_norm / (T * self.q), "slope and curvature balance: |g| / (T q)."
            )
        return Best(
            None,
            f"q = {self.q:.3g} is not positive: along the gradient the loss falls faster and faster, "
            "so that to second order a larger gamma1 is always better.",
        )

    def critical_gamma1(self, noise: Noise) -> Critical:
        """The gamma1 at which the network learns on average, at the other two levels of the noise.

        Roots of (T q / 2) x^2 - |g| x + (T/2) c = 0, c the curvature that the noise meets.
        """
        _, T = self._levels(noise)
        cost = 0.5 * T * self._curvature(noise.with_level(0, 0.0))
        a, g = 0.5 * T * self.q, self.gradient_norm
        if not g:
            return self._all_or_none(-cost, "gamma1")
        inside = g * g - 4.0 * a * cost
        if inside < 0:
            if a > 0:
                return _never(
                    "the noise costs more than any gradient step gains: lower gamma2 or gamma3."
                )
            return Critical(0.0, math.inf, "both curvatures are negative: every step gains.")
        # The stable form of the quadratic's roots; `far` is beyond reach where q is 0.
        big = 0.5 * (g + math.sqrt(inside))
        near, far = cost / big, (big / a if a else math.inf)
        if a > 0:
            return Critical(
                max(near, 0.0), far, "below, the noise wins; above, the step jumps too far."
            )
        why = (
            "q is not positive, so no step is too long" if a < 0 else "q is 0: no step is too long"
        )
        return Critical(max(near, 0.0), math.inf, f"below, the noise wins; {why} (second order).")

    def critical_gamma2(self, noise: Noise) -> Critical:
        """The gamma2 at which the network learns on average, at the other two levels of the noise."""
        _, T = self._levels(noise)
        return self._critical(noise, 1, 0.5 * T * self.trace / self.plastic)

    def critical_gamma3(self, noise: Noise) -> Critical:
        """The gamma3 at which the network learns on average, at the other two levels of the noise."""
        return self._critical(noise, 2, 0.5 * self.noise_trace)

    def _critical(self, noise: Noise, place: int, cost: float) -> Critical:
        """Levels x >= 0 of one part with gain - cost x^2 > 0, where the other two alone gain so much."""
        (g1, _, _), T = self._levels(noise)
        gain = g1 * self.gradient_norm - 0.5 * T * self._curvature(noise.with_level(place, 0.0))
        name = f"gamma{place + 1}"
        if not cost:
            return self._all_or_none(gain, name)
        edge = math.sqrt(gain / cost) if gain / cost > 0 else 0.0
        if cost > 0:
            if gain <= 0:
                return _never(f"without {name} the network does not learn either.")
            return Critical(0.0, edge, f"above, {name} undoes what the gradient step gains.")
        why = "the trace is negative: random steps lower the loss on average"
        if gain > 0:
            return Critical(0.0, math.inf, f"{why}, so no level of {name} is too high.")
        return Critical(
            edge, math.inf, f"{why}, and need this much {name} to make up for the rest."
        )

    def _all_or_none(self, gain: float, name: str) -> Critical:
        if gain > 0:
            return Critical(0.0, math.inf, f"{name} costs nothing here: every level learns.")
        return _never(f"{name} changes nothing here, and the rest does not learn.")

    # Changed networks.

    def redundant(self, synapses: int) -> Geometry:
        """The geometry when every connection is carried by ``synapses`` equal synapses that add up.

        |g| grows by sqrt(c), q and the traces by c, the numbers of weights by c; F stays. So
        Tr H / |g| grows as N^(1/2), but q / |g| grows as well, which moves the best size.
        """
        if synapses < 1:
            raise BadInputError(f"synapses must be at least 1 per connection, not {synapses}.")
        names = "q trace trace_error noise_trace noise_trace_error plastic noisy size"
        times: dict[str, Any] = {name: getattr(self, name) * synapses for name in names.split()}
        norm = self.gradient_norm * math.sqrt(synapses)
        return replace(self, gradient_norm=norm, _surface=None, **times)

    # Against the loss itself.

    def measure(self, noise: Noise, draws: int = 1000, seed: int = 0) -> MeasuredRate:
        """The mean rate measured on the loss itself, over ``draws`` random cycles; no expansion."""
        from sublearn.noise._measure import measure

        return measure(self, noise, draws, seed)

    def check(self, noise: Noise, draws: int = 400, seed: int = 0) -> Rate:
        """The rate, whether second order is enough for it at T and at T/2, and what it means.

        A :class:`SecondOrderWarning` is given where second order is not enough.
        """
        from sublearn.noise._measure import check

        return check(self, noise, draws, seed)

    def trace_interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """The confidence interval of the trace: Student's t over the probes, a point where exact."""
        if not 0 < confidence < 1:
            raise BadInputError(f"confidence must lie between 0 and 1, not {confidence}.")
        if not self.probes:
            return self.trace, self.trace
        from scipy.special import stdtrit

        width = float(stdtrit(self.probes - 1, 0.5 + confidence / 2)) * self.trace_error
        return self.trace - width, self.trace + width

    def to_dict(self) -> dict[str, Any]:
        """The numbers, for JSON."""
        names = "loss gradient_norm q trace trace_error noise_trace noise_trace_error"
        out = {name: getattr(self, name) for name in names.split()}
        return {**out, "plastic": self.plastic, "noisy": self.noisy, "size": self.size}

    def table(self) -> list[Row]:
        """One row: the numbers."""
        return [self.to_dict()]

    def __str__(self) -> str:
        spread = f" +- {self.trace_error:.2g}" if self.trace_error else ""
        everywhere = "" if self.noisy == self.plastic else f"   Tr H on all {self.noise_trace:.4g}"
        return (
            f"{self.plastic} plastic of {self.size} weights, noise on {self.noisy}\n"
            f"loss F {self.loss:.4g}   |g| {self.gradient_norm:.4g}   q {self.q:.4g}   "
            f"Tr H {self.trace:.4g}{spread}{everywhere}"
        )

    @property
    def headline(self) -> str:
        """Loss, slope and curvature."""
        return ", ".join(str(self).splitlines()[::-1]).replace("   ", ", ")

    def plot(self) -> Figure:
        """The loss to second order along the gradient and, on average, along random directions.

        Down the gradient F - |g| s + q s^2 / 2 at a distance s; along a random direction on the plastic
        weights F + (Tr H_M / r) s^2 / 2 on average, on the noisy ones likewise. Where the loss itself is
        at hand it stands beside the first.

        >>> geo = Geometry(loss=1.0, gradient_norm=2.0, q=4.0, trace=10.0, plastic=20)
        >>> [line.get_label() for line in geo.plot().axes[0].lines]
        ['down the gradient', 'random direction, plastic weights']
        """
        fig, ax = figure()
        far = self._reach()
        s = np.linspace(0.0, far, 101)
        lines = [("down the gradient", -self.gradient_norm, self.q)]
        lines.append(("random direction, plastic weights", 0.0, self.trace / self.plastic))
        if self.noisy != self.plastic:
            lines.append(("random direction, all weights", 0.0, self.noise_trace / self.noisy))
        for k, (label, slope, bend) in enumerate(lines):
            values = self.loss + slope * s + 0.5 * bend * s * s
            ax.plot(s, values, color=COLOURS[k], linewidth=1.6, label=label)
        if self._surface is not None and self.gradient_norm:
            few = s[::5, None]
            moved = self._surface.vector - few * self._surface.gradient / self.gradient_norm
            look: dict[str, Any] = {"marker": "o", "ls": "none", "ms": 4.5, "mfc": "none"}
            ax.plot(few, self._surface.loss(moved), color=ink(), label="the loss itself", **look)
        name_axes(ax, "distance that the weights move", "loss F")
        legend(ax)
        return fig

    def _reach(self) -> float:
        """How far to look: past the lowest point along the gradient, or as far as the loss would fall."""
        if self.gradient_norm and self.q > 0:
            return 2.2 * self.gradient_norm / self.q
        if self.gradient_norm:
            return self.loss / self.gradient_norm
        bend = abs(self.trace) / self.plastic
        return math.sqrt(2.0 * self.loss / bend) if bend else 1.0


@dataclass(frozen=True, eq=False)
class Surface:
    """The loss as a function of displaced weights, with the gradient on the plastic ones."""

    vector: Array
    gradient: Array  # flat, 0 outside the plastic set
    plastic: Indices
    noisy: Indices
    loss: Callable[[Array], Array]

    @property
    def norm(self) -> float:
        """|g_M|."""
        return float(np.linalg.norm(self.gradient))

    def geometry(self, over: Sequence[MatrixTrace], **rest: Any) -> Geometry:
        """The geometry here, with traces over the plastic weights and, last, over the noisy ones."""
        return Geometry(
            gradient_norm=self.norm,
            trace=over[0].value,
            trace_error=over[0].error,
            noise_trace=over[-1].value,
            noise_trace_error=over[-1].error,
            plastic=self.plastic.size,
            noisy=self.noisy.size,
            probes=over[0].probes,
            _surface=self,
            **rest,
        )


def local_geometry(
    instance: Instance, *, on: str = "plastic", trace: str = "auto", probes: int = 64, seed: int = 0
) -> Geometry:
    """F, |g|, q = ghat'H ghat and Tr H where an instance starts, on its plastic set and on the noisy one.

    The loss is F = 1/(2m) sum_s |y_s - y*_s|^2; the learnable weights are the plastic ones. Synaptic
    noise falls ``on`` the "plastic" weights or on "all". ``trace="auto"`` computes traces exactly where
    the work is bounded, else estimates them from ``probes`` random sign vectors, with the standard error
    in ``trace_error``. For any other loss see :func:`sublearn.noise.loss_geometry`.

    >>> import numpy as np, sublearn as sl
    >>> net = sl.LinearEstimator(inputs=2, outputs=1)
    >>> x = np.eye(2) * np.sqrt(2)                    # H is the identity
    >>> given = sl.Instance(net, sl.Allocation.whole(net), {"W": [[3.0, 4.0]]}, x, np.zeros((1, 2)))
    >>> geo = sl.local_geometry(given)
    >>> round(geo.loss, 12), round(geo.gradient_norm, 12), round(geo.q, 12), round(geo.trace, 12)
    (12.5, 5.0, 1.0, 2.0)
    """
    check_instance(instance)
    check_how(on, trace, probes, seed)
    heed()
    network, weights, x = instance.network, instance.start, instance.inputs
    with single_thread():
        outputs = network.forward(weights, x)
        value = float(squared_error(outputs, instance.targets))
        plastic = plastic_positions(instance)
        noisy = plastic if on == "plastic" else positions(network, Allocation.whole(network))
        signal = error_signal(outputs, instance.targets)
        full = flatten(network, network.vjp(weights, x, signal))
        gradient = np.zeros_like(full)
        gradient[plastic] = full[plastic]
        here = Surface(
            flatten(network, weights), gradient, plastic, noisy, partial(loss_at, instance)
        )
        q = curvature_along(instance, gradient / here.norm) if here.norm else 0.0
        sets = [plastic] if noisy is plastic else [plastic, noisy]
        over = traces(instance, sets, trace, probes, seed)
        moving = Allocation.whole(network) if on == "all" else instance.allocation
        quadratic = is_affine(network, moving)
    return here.geometry(over, loss=value, q=q, size=network.size, quadratic=quadratic, on=on)


def check_how(on: str, trace: str, probes: int, seed: int) -> None:
    """Refuse what no geometry can be taken with."""
    one_of("noise on", on, NOISE_ON)
    one_of("trace", trace, TRACES)
    whole_number("probes", probes, least=2)
    whole_number("seed", seed, least=0)
