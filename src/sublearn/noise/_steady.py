"""Whether learning and noise come to a balance, and where: for all weights plastic, or some.

The weights that *move* are the plastic ones and, with noise on all, every weight. What decides is the
loss as a function of all of them. Where the outputs are affine in them F is quadratic,

    F = F_min + 1/2 (w - w*)' H_M (w - w*)  over the r plastic weights M,

and F comes to a steady state over the modes of H_M, driven by noise of variance
s = T^2 gamma2^2 / r + T gamma3^2 per weight and held by steps of length gamma1 T (`_balance.py`). With
many modes and short steps

    F_ss = F_min + T^2 rank(H_M) Tr(H_M) (gamma2^2 / r + gamma3^2 / T)^2 / (8 gamma1^2),

the leading term. If n2 is correlated by rho from cycle to cycle, its variance acts as if it were
(1 + a rho) / (1 - a rho) times as large, a = 1 - eta lambda; (1 + rho) / (1 - rho) to leading order.
Directions in which H_M is 0 are flat: nothing holds the weights there, and they walk at random. F
does not notice.

Noise on all weights reaches the modes through the frozen weights too. With u the mode's direction in
the space of outputs and J the columns of all weights, gamma3^2 acts as if it were |u'J|^2 / (m lambda)
times as large: 1 where noise falls on the plastic weights alone. What it does outside the range of
the plastic weights nothing corrects, and the error drifts (see `_drift.py`): no steady state.

Where F is not quadratic in the weights that move, H changes as they do. Along flat directions they go
any distance, and H with them: there is no steady state, and none is predicted. Nor is one where n2 is a
second task's gradient or homeostasis, which are no noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from sublearn._arrays import Array
from sublearn._errors import BadInputError
from sublearn._threads import single_thread
from sublearn.allocations import Allocation
from sublearn.ensembles import Instance, check_instance
from sublearn.noise._balance import Balance, ModeNoise, balance
from sublearn.noise._loss import squared_error
from sublearn.noise._noise import Gamma, Noise, check_noise, step_correlation
from sublearn.noise._simulate import compress
from sublearn.plots import finite
from sublearn.verdicts import is_affine

MOST_NUMBERS = 1 << 27  # entries of a Jacobian that is formed at once: 1 GB


class Known(StrEnum):
    """What a predicted steady state may be, from the surest on; see :class:`SteadyPrediction`."""

    EXACT = "exact"
    LIMIT = "limit"
    BOUND = "bound"
    NONE = "none"


MANY = 0.5
"""Largest relative variance of |g|^2 that counts as that of many modes: that of 8 equal ones."""

LONGEST = 1.0
"""Largest eta lambda that counts as a short step: longer ones cross the minimum of a mode."""

MEMORY = 0.5
"""Largest eta lambda rho / (1 - rho) for correlated n2: it must forget before the modes do."""


@dataclass(frozen=True)
class Walk:
    """Weights that nothing holds: so many ``directions``, of variance ``per_cycle`` each.

    ``where`` is "plastic" for flat directions of the plastic weights, in which the outputs do not
    change, or "frozen" for frozen weights that noise moves.
    """

    where: str
    directions: int
    per_cycle: float

    @property
    def what(self) -> str:
        """In words: "8 flat directions", "1 frozen weight"."""
        what = "flat direction" if self.where == "plastic" else "frozen weight"
        return f"{self.directions} {what}{'s' if self.directions > 1 else ''}"

    def __str__(self) -> str:
        walk = "walk" if self.directions > 1 else "walks"
        return f"{self.what} {walk} at random, variance {self.per_cycle:.3g} per cycle"


@dataclass(frozen=True, kw_only=True)
class SteadyPrediction:
    """The predicted steady state of a network that learns under noise, or why there is none.

    ``kind``: "exact", the value holds as it stands; "limit", exact in the limit of many modes and
    short steps, and both are at hand; "bound", the mean error lies between ``lower`` and ``upper``,
    which are proved, and ``value`` is an estimate; "none", no steady state is known. ``reason`` says why.

    ``value`` = ``minimum`` + ``excess``, with ``minimum`` = F_min over the plastic weights and
    ``excess`` from the modes one by one; ``leading`` is the excess by the closed formula. ``rank`` and
    ``trace`` are those of H_M. Where the kind is none ``value`` is infinite if the error is known to
    grow for ever, by ``drift`` per cycle, and else NaN. ``quadratic``: F is, in all weights that move.
    ``exact_minimum``: the outputs are affine in the plastic weights, so that F_min is the global
    minimum over them; else it is local, found from the weights by least squares, and H_M is the
    Gauss-Newton Hessian there. ``walks``: the directions that nothing holds, which leave a quadratic
    F alone. ``slowest``: cycles until the flattest mode keeps 1/e of what it was, near the steady
    state; runs of fewer have not settled.
    """

    value: float = math.nan
    minimum: float
    excess: float = math.nan
    leading: float = math.nan
    rank: int
    trace: float
    plastic: int
    exact_minimum: bool
    quadratic: bool
    kind: Known = Known.NONE
    reason: str = ""
    lower: float | None = None
    upper: float | None = None
    drift: float = 0.0
    walks: tuple[Walk, ...] = ()
    slowest: float = math.nan

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON: an error that has no value, or no bound, is null."""
        plain = dict(vars(self))
        plain |= {name: finite(plain[name]) for name in ("value", "excess", "leading", "slowest")}
        plain["walks"] = [vars(walk) for walk in self.walks]
        return plain

    def __str__(self) -> str:
        none = self.kind is Known.NONE
        lines = [("predicted", "none" if none else f"{self.value:.4g} ({self.kind})")]
        lines.append(("  why" if none else "  how sure", self.reason))
        if self.lower is not None and self.upper is not None:
            lines.append(("  proved bounds", f"{self.lower:.4g} to {self.upper:.4g}"))
        where = "" if self.exact_minimum else " (local: found by least squares from the weights)"
        lines.append(("  F_min", f"{self.minimum:.4g}{where}"))
        if not none:
            lines.append(("  excess", f"{self.excess:.4g}, leading term {self.leading:.4g}"))
        lines.append(("  modes, Tr H", f"{self.rank}, {self.trace:.4g}"))
        if math.isfinite(self.slowest):
            lines.append(("  slowest mode", f"{self.slowest:.3g} cycles"))
        if self.drift:
            lines.append(("  drift per cycle", f"{self.drift:.4g}"))
        lines += [("  not held", str(walk)) for walk in self.walks]
        return "\n".join(f"{name:<21}{words}" for name, words in lines)


def predict_steady_state(instance: Instance, noise: Noise) -> SteadyPrediction:
    """Where the error settles, or why it does not, for lengths by the L2 norm; see the module.

    >>> import numpy as np, sublearn as sl
    >>> net = sl.LinearEstimator(inputs=50, outputs=20)
    >>> X, W = 10.0 * np.eye(50), np.ones((20, 50))
    >>> given = sl.Instance(net, sl.Allocation.whole(net), {"W": W}, X, 0 * W)
    >>> found = sl.predict_steady_state(given, sl.Noise((0.1, 1.0, 0.0)))
    >>> found.kind.value, found.rank, found.minimum, round(found.leading, 3), round(found.excess, 3)
    ('limit', 1000, 0.0, 25.0, 25.527)

    Two layers that both move make no quadratic loss, so that no steady state is predicted:

    >>> deep = sl.FeedForward((4, 6, 2))
    >>> start = {"W1": np.ones((6, 4)), "W2": np.ones((2, 6))}
    >>> given = sl.Instance(deep, sl.Allocation.whole(deep), start, np.eye(4)[:, :2], np.eye(2))
    >>> found = sl.predict_steady_state(given, sl.Noise((0.1, 0.3, 0.05)))
    >>> found.kind.value, str(found.walks[0])
    ('none', '32 flat directions walk at random, variance 0.005 per cycle')
    """
    network, g = check_instance(instance).network, check_noise(noise, white=False).gamma
    T = noise.T
    plastic = len(instance.allocation)
    rho = step_correlation(noise.mixing, plastic) if g[1] else 0.0
    whole = noise.on == "all" and g[2] > 0 and plastic < network.size
    with single_thread():
        alone = is_affine(network, instance.allocation)
        quadratic = is_affine(network, Allocation.whole(network)) if whole else alone
        modes = plastic_modes(instance if alone else _descend(instance))
        gains, lost = frozen_noise(modes) if whole and quadratic else (None, 0.0)
        driven = ModeNoise(
            irrelevant=T**2 * g[1] ** 2 / plastic,
            synaptic=T * g[2] ** 2,
            plastic=plastic,
            noisy=network.size if whole else plastic,
            gains=gains,
            rho=rho,
        )
        known = SteadyPrediction(  # "none" so far
            minimum=modes.minimum,
            rank=int(modes.eigenvalues.size),
            trace=float(modes.eigenvalues.sum()),
            plastic=plastic,
            exact_minimum=alone,
            quadratic=quadratic,
            walks=_walks(network.size, modes, driven, whole),
        )
        if not any(g):
            outputs = network.forward(instance.start, instance.inputs)
            value = float(squared_error(outputs, instance.targets))
            still = _at_minimum(known, "nothing moves: gamma is 0, and the error stays what it is.")
            return replace(still, value=value, excess=max(value - known.minimum, 0.0))
        if noise.no_formula:
            return replace(known, walks=(), reason=noise.no_formula)
        if rho == 1.0:  # one weight
            return replace(known, reason=_ONE_WAY)
        if not quadratic:
            return replace(known, reason=_not_quadratic(known, g, whole, alone))
        if lost or not g[0]:
            return _grows(known, modes, driven, g, lost)
        return _settles(known, modes, driven, g[0] * T)


_ONE_WAY = (
    "with one plastic weight and mixing above 1/2 the direction of n2 never changes: it is a constant "
    "push, not noise."
)


def _walks(size: int, modes: Modes, noise: ModeNoise, whole: bool) -> tuple[Walk, ...]:
    rho = noise.rho
    stretch = (1 + rho) / (1 - rho) if rho < 1 else math.inf
    variance = noise.synaptic + (noise.irrelevant * stretch if noise.irrelevant else 0.0)
    walks = [Walk("plastic", noise.plastic - modes.eigenvalues.size, variance)]
    if whole:
        walks.append(Walk("frozen", size - noise.plastic, noise.synaptic))
    return tuple(walk for walk in walks if walk.directions and walk.per_cycle)


def _at_minimum(known: SteadyPrediction, why: str) -> SteadyPrediction:
    return replace(
        known, value=known.minimum, excess=0.0, leading=0.0, kind=Known.EXACT, reason=why
    )


def _not_quadratic(known: SteadyPrediction, gamma: Gamma, whole: bool, alone: bool) -> str:
    if whole and alone:
        why = "noise moves the frozen weights too, and F is not quadratic in all that moves"
    else:
        why = "F is not quadratic in the weights that move"
    if not gamma[0]:
        return f"{why}, and with gamma1 = 0 nothing is learned."
    if not known.walks:
        return f"{why}: its curvature changes with them, and no formula holds."
    listed = " and ".join(walk.what for walk in known.walks)
    return f"{why}: {listed} walk at random, and the curvature changes with them."


def _grows(
    known: SteadyPrediction, modes: Modes, noise: ModeNoise, gamma: Gamma, lost: float
) -> SteadyPrediction:
    drift = 0.5 * noise.synaptic * lost
    why = "the frozen weights move, and the plastic ones cannot make up for all of it"
    if not gamma[0]:
        lam = modes.eigenvalues
        drift += 0.5 * float(lam @ noise.drive(np.ones(lam.size)))
        why = "gamma1 = 0: nothing is learned"
        if not drift:
            return _at_minimum(known, "no weight that moves changes the outputs.")
    why += f", so the error grows by {drift:.2g} per cycle."
    endless = math.inf
    return replace(known, value=endless, excess=endless, leading=endless, drift=drift, reason=why)


def _settles(
    known: SteadyPrediction, modes: Modes, noise: ModeNoise, step: float
) -> SteadyPrediction:
    if not known.rank:
        return _at_minimum(known, "no plastic weight changes the outputs.")
    made = balance(modes.eigenvalues, noise, step)
    kind, why = _how_sure(made, known.rank, noise.rho)
    if kind is Known.NONE:
        return replace(known, reason=why)
    ends = (made.lower, made.upper)
    lower, upper = (None if end is None else known.minimum + end for end in ends)
    judged = replace(known, kind=kind, reason=why, lower=lower, upper=upper, slowest=made.slowest)
    value = known.minimum + made.excess
    return replace(judged, value=value, excess=made.excess, leading=made.leading)


def doubt(made: Balance, rho: float) -> str:
    """What keeps a balance from its limit, in words; empty where nothing does.

    Correlated n2 makes |g| vary more than the correction knows, so that it takes twice the modes.
    """
    if math.isnan(made.step):
        return "the steps outweigh the noise"
    if not made.step <= LONGEST:
        return "the steps are long, and cross the minimum of the steepest mode"
    if not made.spread <= (MANY / 2 if rho else MANY):
        count = 4.0 / made.spread
        return f"few modes share in the gradient, as much as {count:.2g} equal ones would"
    if made.step * rho > MEMORY * (1.0 - rho):
        return "n2 stays the same for longer than the steepest mode does"
    return ""


def _how_sure(made: Balance, rank: int, rho: float) -> tuple[Known, str]:
    if made.exact:
        why = "the modes have equal eigenvalues, and the law of the distance is known."
        return Known.EXACT, why
    why = doubt(made, rho)
    if not why:
        return Known.LIMIT, f"exact in the limit of many modes, here {rank}, and short steps."
    if rho:
        return Known.NONE, f"{why}, and n2 is correlated from cycle to cycle: no formula holds."
    return Known.BOUND, f"{why}: the bounds are proved, the value is an estimate."


@dataclass(frozen=True, eq=False)
class Modes:
    """H_M = J'J/m by its non-zero eigenvalues; F_min; an orthonormal basis of the range of J."""

    eigenvalues: Array
    minimum: float
    basis: Array
    instance: Instance  # its samples may be fewer than were given, with the same F up to a constant
    samples: int  # as given: F = (sum of squares) / (2 samples)


def plastic_modes(instance: Instance) -> Modes:
    """Eigenvalues, minimum and range on the plastic weights, where F is quadratic in them."""
    short, rest = shorten(instance)
    d, k, r = short.network.output_size, short.samples, len(short.allocation)
    if d * k * r > MOST_NUMBERS:
        raise BadInputError(
            f"d m r = {d * k * r} numbers are more than {MOST_NUMBERS}: too large a Jacobian for the "
            "steady state. Fewer samples or fewer plastic weights would do."
        )
    J = short.network.jacobian(short.start, short.inputs, short.allocation)
    gap = short.targets - short.network.forward(short.start, short.inputs)
    left, values, _ = np.linalg.svd(J, full_matrices=False)
    largest = values[0] if values.size else 0.0
    keep = values > largest * max(J.shape) * np.finfo(np.float64).eps
    basis = left[:, keep]
    flat = gap.reshape(-1)
    unmet = flat - basis @ (basis.T @ flat)
    scale = 1.0 / (2 * instance.samples)
    minimum = float((unmet @ unmet + rest) * scale)
    # Where everything can be met, what is left is rounding.
    floor = 1e-24 * float(flat @ flat + rest) * scale
    return Modes(
        values[keep] ** 2 / instance.samples,
        minimum if minimum > floor else 0.0,
        basis,
        short,
        instance.samples,
    )


def frozen_noise(modes: Modes) -> tuple[Array | None, float]:
    """How noise on all weights drives the modes together, and Tr S of what they cannot correct.

    The first has u'J J'v / (m sqrt(lambda mu)) for the modes u and v, and is None for the identity,
    the second is |(1 - P) J_Z|^2 / m over the frozen columns J_Z, P the projection onto the range of
    the plastic columns.
    """
    short = modes.instance
    frozen = Allocation.whole(short.network).difference(short.allocation)
    if not len(frozen):
        return None, 0.0
    J = short.network.jacobian(short.start, short.inputs, frozen)
    inside = modes.basis.T @ J
    beyond = J - modes.basis @ inside
    inside_scaled = inside / np.sqrt(modes.samples * modes.eigenvalues)[:, None]
    gains = np.eye(modes.eigenvalues.size) + inside_scaled @ inside_scaled.T
    whole, left = float(np.sum(J * J)), float(np.sum(beyond * beyond))
    # What the projection leaves of columns that lie in the range is rounding.
    return gains, left / modes.samples if left > 1e-20 * whole else 0.0


def shorten(instance: Instance) -> tuple[Instance, float]:
    """The same problem on fewer samples, for linear networks, and the squares that it leaves out."""
    net = instance.network
    x = instance.inputs.reshape(-1, instance.samples)
    narrow, short, rest = compress(net, x[None], instance.targets[None])
    if narrow.shape[-1] == instance.samples:
        return instance, 0.0
    inputs = narrow[0].reshape(net.input_shape(narrow.shape[-1]))
    return Instance(net, instance.allocation, instance.start, inputs, short[0]), float(rest[0])


def _descend(instance: Instance) -> Instance:
    """The weights at the local minimum over the plastic ones that least squares finds from here."""
    from scipy.optimize import least_squares

    if instance.equations * len(instance.allocation) > MOST_NUMBERS:
        raise BadInputError("the network is too large for its local minimum to be found here.")
    lowest = least_squares(
        lambda values: instance.residual(values).reshape(-1),
        instance.values(instance.start),
        jac=instance.jacobian,
        x_scale=1.0,
        max_nfev=200,
    )
    weights = instance.with_values(lowest.x)
    return Instance(
        instance.network, instance.allocation, weights, instance.inputs, instance.targets
    )
