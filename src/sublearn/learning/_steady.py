"""Where learning and noise balance: the formulas for all weights plastic, or some.

On a quadratic loss F = F_min + 1/2 (w - w*)' H_M (w - w*) over the r plastic weights M, a step of
fixed length gamma1 T along the gradient is gradient descent with the rate eta = gamma1 T / |g|, and
at the steady state |g| hardly varies where H_M has many eigenvalues. Every mode lambda then is a
stationary process driven by noise of variance s2 = T^2 gamma2^2 / r + T gamma3^2 per weight:

    <e^2> = s2 / (eta lambda (2 - eta lambda)),   G^2 = sum lambda^2 <e^2>,   eta = gamma1 T / G,
    F_ss = F_min + 1/2 sum lambda <e^2>,

one equation for eta. Where eta lambda is small,

    F_ss = F_min + T^2 rank(H_M) Tr(H_M) (gamma2^2 / r + gamma3^2 / T)^2 / (8 gamma1^2),

the leading term. If n2 is correlated by rho from cycle to cycle, its variance acts as if it were
(1 + a rho) / (1 - a rho) times as large, a = 1 - eta lambda; (1 + rho) / (1 - rho) to leading order.

Noise on all weights reaches the modes through the frozen weights too. With u the mode's direction in
the space of outputs and J the columns of all weights, gamma3^2 acts as if it were |u'J|^2 / (m lambda)
times as large: 1 where noise falls on the plastic weights alone. What it does outside the range of
the plastic weights nothing corrects, and the error drifts (see `_drift.py`): no steady state.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sublearn._errors import BadInputError
from sublearn._threads import single_thread
from sublearn.allocations import Allocation
from sublearn.learning._loss import (
    Array,
    Gamma,
    Setting,
    check_duration,
    check_gamma,
    check_setting,
)
from sublearn.learning._simulate import step_correlation
from sublearn.learning._simulate_data import compress
from sublearn.networks import Network
from sublearn.verdicts._affine import is_affine

MOST_NUMBERS = 1 << 27  # entries of a Jacobian that is formed at once: 1 GB


@dataclass(frozen=True)
class SteadyPrediction:
    """The predicted steady state of a network that learns under noise.

    ``value`` = ``minimum`` + ``excess``, with ``minimum`` = F_min over the plastic weights and
    ``excess`` from the modes one by one; ``leading`` is the excess by the closed formula. ``rank`` and
    ``trace`` are those of H_M. ``exact_minimum``: the outputs are affine in the plastic weights, so
    that F is quadratic and F_min is the global minimum; else both are local, found from the weights
    by least squares, with the Gauss-Newton Hessian there. ``drift``: growth of F per cycle that noise
    on frozen weights causes; where it is not 0 there is no steady state, and ``value`` is infinite.
    """

    value: float
    minimum: float
    excess: float
    leading: float
    rank: int
    trace: float
    plastic: int
    exact_minimum: bool
    drift: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON: an excess that has no bound is null."""
        plain = dict(vars(self))
        for name in ("value", "excess", "leading"):
            plain[name] = plain[name] if math.isfinite(plain[name]) else None
        return plain


def predict_steady_state(
    network: Network,
    weights: Mapping[str, ArrayLike],
    *,
    inputs: ArrayLike,
    targets: ArrayLike,
    allocation: Allocation | None = None,
    gamma: Sequence[float],
    T: float = 1.0,
    mixing: float = 0.0,
    noise_on: str = "plastic",
) -> SteadyPrediction:
    """F_ss by the formulas of the module, for lengths by the L2 norm.

    >>> import sublearn as sl
    >>> net = sl.LinearEstimator(inputs=50, outputs=20)
    >>> X, W = 10.0 * np.eye(50), np.ones((20, 50))
    >>> found = sl.predict_steady_state(net, {"W": W}, inputs=X, targets=0 * W, gamma=(0.1, 1.0, 0.0))
    >>> found.rank, found.minimum, round(found.leading, 3), round(found.excess, 3)
    (1000, 0.0, 25.0, 25.502)
    """
    g, duration = check_gamma(gamma), check_duration(T)
    rho = step_correlation(mixing)
    setting = check_setting(network, weights, inputs, targets, allocation, noise_on)
    with single_thread():
        affine = is_affine(network, setting.allocation)
        at = setting if affine else _descend(setting)
        modes = plastic_modes(at)
        gains, lost = np.ones(modes.eigenvalues.size), 0.0
        if noise_on == "all":
            gains, lost = frozen_noise(modes)
    found = balance(modes, gains, len(setting.allocation), g, duration, rho, affine)
    drift = 0.5 * g[2] ** 2 * duration * lost
    return replace(found, drift=drift, value=math.inf) if drift else found


@dataclass(frozen=True, eq=False)
class Modes:
    """H_M = J'J/m by its non-zero eigenvalues; F_min; an orthonormal basis of the range of J."""

    eigenvalues: Array
    minimum: float
    basis: Array
    setting: Setting  # whose samples may be fewer than were given, with the same F up to a constant
    samples: int  # as given: F = (sum of squares) / (2 samples)


def plastic_modes(setting: Setting) -> Modes:
    """Eigenvalues, minimum and range on the plastic weights, where F is quadratic in them."""
    short, rest = shorten(setting)
    d, k, r = short.network.output_size, short.samples, len(short.allocation)
    if d * k * r > MOST_NUMBERS:
        raise BadInputError(
            f"d m r = {d * k * r} numbers are more than {MOST_NUMBERS}: too large a Jacobian for the "
            "steady state. Fewer samples or fewer plastic weights would do."
        )
    J = short.network.jacobian(short.weights, short.inputs, short.allocation)
    gap = short.targets - short.network.forward(short.weights, short.inputs)
    left, values, _ = np.linalg.svd(J, full_matrices=False)
    largest = values[0] if values.size else 0.0
    keep = values > largest * max(J.shape) * np.finfo(np.float64).eps
    basis = left[:, keep]
    flat = gap.reshape(-1)
    unmet = flat - basis @ (basis.T @ flat)
    scale = 1.0 / (2 * setting.samples)
    minimum = float((unmet @ unmet + rest) * scale)
    # Where everything can be met, what is left is rounding.
    floor = 1e-24 * float(flat @ flat + rest) * scale
    return Modes(
        values[keep] ** 2 / setting.samples,
        minimum if minimum > floor else 0.0,
        basis,
        short,
        setting.samples,
    )


def frozen_noise(modes: Modes) -> tuple[Array, float]:
    """How much noise on all weights drives each mode, and Tr S of what the modes cannot correct.

    The first is |u'J|^2 / (m lambda), the second |(1 - P) J_Z|^2 / m over the frozen columns J_Z, P the
    projection onto the range of the plastic columns.
    """
    short = modes.setting
    frozen = Allocation.whole(short.network).difference(short.allocation)
    gains = np.ones(modes.eigenvalues.size)
    if not len(frozen):
        return gains, 0.0
    J = short.network.jacobian(short.weights, short.inputs, frozen)
    inside = modes.basis.T @ J
    beyond = J - modes.basis @ inside
    gains += np.sum(inside * inside, axis=1) / (modes.samples * modes.eigenvalues)
    whole, left = float(np.sum(J * J)), float(np.sum(beyond * beyond))
    # What the projection leaves of columns that lie in the range is rounding.
    return gains, left / modes.samples if left > 1e-20 * whole else 0.0


def shorten(setting: Setting) -> tuple[Setting, float]:
    """The same problem on fewer samples, for linear networks, and the squares that it leaves out."""
    net = setting.network
    plain = net.is_linear and all(step.bias is None for step in net.steps)
    x = setting.inputs.reshape(-1, setting.samples)
    if not plain or setting.samples <= x.shape[0]:
        return setting, 0.0
    narrow, short, rest = compress(x[None], setting.targets[None])
    shape = (*setting.inputs.shape[:-1], narrow.shape[-1])
    return replace(setting, inputs=narrow[0].reshape(shape), targets=short[0]), float(rest[0])


def _descend(setting: Setting) -> Setting:
    """The weights at the local minimum over the plastic ones that least squares finds from here."""
    from scipy.optimize import least_squares

    start, index = setting.vector, setting.plastic
    net = setting.network
    if net.output_size * setting.samples * index.size > MOST_NUMBERS:
        raise BadInputError("the network is too large for its local minimum to be found here.")

    def weights(values: Array) -> dict[str, Array]:
        moved = start.copy()
        moved[index] = values
        return setting.matrices(moved)

    def gap(values: Array) -> Array:
        out: Array = net.forward(weights(values), setting.inputs) - setting.targets
        return out.reshape(-1)

    def slope(values: Array) -> Array:
        return net.jacobian(weights(values), setting.inputs, setting.allocation)

    found = least_squares(gap, start[index], jac=slope, x_scale=1.0, max_nfev=200)
    return replace(setting, weights=weights(found.x))


def balance(
    modes: Modes, gains: Array, plastic: int, gamma: Gamma, T: float, rho: float, exact: bool
) -> SteadyPrediction:
    """The balance of learning and noise over given modes: the formulas of this module."""
    lam = modes.eigenvalues
    g1, g2, g3 = gamma
    irrelevant, noise = T**2 * g2**2 / plastic, T * g3**2 * gains
    slow = irrelevant * (1 + rho) / (1 - rho) + noise
    if not lam.size:
        excess = leading = 0.0
    elif not g1:
        excess = leading = math.inf if g2 or g3 else 0.0
    else:
        leading = float(slow.sum() * (lam @ slow)) / (8.0 * g1**2 * T**2)
        excess = _excess(lam, irrelevant, noise, rho, g1 * T)
    return SteadyPrediction(
        value=modes.minimum + excess,
        minimum=modes.minimum,
        excess=excess,
        leading=leading,
        rank=int(lam.size),
        trace=float(lam.sum()),
        plastic=plastic,
        exact_minimum=exact,
    )


def _excess(lam: Array, irrelevant: float, noise: Array, rho: float, step: float) -> float:
    from scipy.optimize import brentq

    largest = float(lam[0])
    if not irrelevant and not noise.any():  # the step alone jumps across the steepest mode
        return largest * step**2 / 8.0
    shape = lam / largest

    def variance(eta: float) -> Array:
        """<e^2> of every mode, eta in units of 1/largest."""
        a = 1.0 - eta * shape
        drive = irrelevant * (1 + a * rho) / (1 - a * rho) + noise
        return np.asarray(drive / (eta * shape * (1.0 + a)))

    def gap(eta: float) -> float:
        # log of G = step / eta over what the modes make of it; both in units of `largest`.
        return math.log(step / eta) - 0.5 * math.log(float(np.sum(shape**2 * variance(eta))))

    low, high = 1e-6, 2.0 * (1.0 - 1e-13)
    if gap(high) > 0:  # noise so weak that only the step's own length counts
        return largest * step**2 / 8.0
    while gap(low) < 0:
        low *= 1e-3
    eta = float(brentq(gap, low, high, xtol=1e-300, rtol=1e-12))
    return 0.5 * largest * float(np.sum(shape * variance(eta)))
