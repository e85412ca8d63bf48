"""Where learning and noise balance on given modes: an estimate, its correction, and proved bounds.

In a mode, an eigenvector of H with eigenvalue lambda, x is the distance from the minimum. A cycle is
x <- x - h g/|g| + xi with g_i = lambda_i x_i, the step h = gamma1 T and noise xi of covariance S, that
is independent of x and symmetric. F, |g| and q = g'Hg/|g|^2 below are without the minimum's error.

*Two identities.* At a steady state |x|^2 and F are the same on average before and after a cycle:

    <F/|g|> = (h^2 + Tr S) / (4 h) = B,     <|g|> = (h^2 <q> + Tr HS) / (2 h) = A.

*The balance.* Where many modes share in |g| it hardly varies, eta = h/|g| is a rate, and every mode
has <x^2> = s / (eta lambda (2 - eta lambda)); eta follows from |g|^2 = sum lambda^2 <x^2>. This
satisfies both identities, and says <F> = A B.

*The correction.* <F> = A B + Cov(|g|, F/|g|). To first order in the fluctuations the energies x_i^2
follow a linear recursion, in which a large |g| makes all of them decay more slowly; its covariance is
one linear system. In the limit of short steps it is exact for equal eigenvalues, where |x| has the
density |x|^(k-1) exp(-2 h |x|/s) and <F> = lambda k (k + 1) s^2 / (8 h^2), not lambda k^2 s^2 / (8 h^2).

*Bounds*, for every spectrum and every length of the step, from the identities. With l and L the
smallest and the largest eigenvalue, (|g| - sqrt(2 l F)) (sqrt(2 L F) - |g|) >= 0, hence

    sqrt <F> >= (A + 2 sqrt(l L) B) / (sqrt(2 l) + sqrt(2 L)),     with A at q = l.

F^2 is the same on average before and after a cycle too, which bounds <F |g|> by <F>; and
<F>^2 <= <F/|g|> <F |g|>. For short steps, <F> <= A B (1 + 2 L / Tr H).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sublearn._arrays import Array
from sublearn.noise._radius import mean_square

MOST_CORRECTED = 2048
"""Modes up to which the correction is computed: one linear system of that size."""

SHORT = 0.02
"""eta lambda up to which the limit of short steps is as good, for equal modes, as solving for the law:
at this value they differ by 2 parts in 10,000 with one mode, and less with more."""

MOST_EQUAL = 64
"""Equal modes up to which the law of the distance is solved for; with more nothing is left to gain."""


@dataclass(frozen=True, eq=False)
class ModeNoise:
    """Noise on the modes in one cycle: n2 on ``plastic`` weights, n3 on ``noisy`` ones.

    Each has variance ``irrelevant`` or ``synaptic`` in every mode, the latter times ``gains``, a
    matrix where noise on frozen weights drives the modes together; ``rho`` correlates n2 in time.
    """

    irrelevant: float
    synaptic: float
    plastic: int
    noisy: int
    gains: Array | None = None
    rho: float = 0.0

    def gain(self, modes: int) -> Array:
        return np.ones(modes) if self.gains is None else np.diagonal(self.gains)

    def drive(self, slowness: Array) -> Array:
        """Variance per cycle in every mode, where a mode keeps ``slowness`` of itself in a cycle."""
        stretch = (1 + slowness * self.rho) / (1 - slowness * self.rho)
        return np.asarray(self.irrelevant * stretch + self.synaptic * self.gain(slowness.size))

    def covariance(self, modes: int) -> Array:
        """S, for n2 that is independent from cycle to cycle."""
        gains = np.eye(modes) if self.gains is None else self.gains
        return np.asarray(self.irrelevant * np.eye(modes) + self.synaptic * gains)


@dataclass(frozen=True)
class Balance:
    """``excess`` over the minimum; ``leading`` its closed form; bounds, None where none is proved.

    ``spread`` is the variance of |g|^2 relative to its mean, 4/k for k equal modes; ``step`` = eta
    lambda of the steepest mode, above 1 where a step carries it across the minimum. Both are NaN
    where there is no balance: a step without noise, or with too little. ``exact``: all eigenvalues
    are equal, and the stationary law of the distance was solved for (`_radius.py`) or is known.
    ``slowest``: cycles until the flattest mode keeps 1/e of what it was, 1 / (eta lambda).
    """

    excess: float
    leading: float
    lower: float | None
    upper: float | None
    spread: float = math.nan
    step: float = math.nan
    exact: bool = False
    slowest: float = math.nan


def balance(eigenvalues: Array, noise: ModeNoise, h: float) -> Balance:
    """<F> above the minimum over modes with positive ``eigenvalues``, for a step of length h > 0."""
    lam = np.asarray(eigenvalues, dtype=np.float64)
    lower, upper = bounds(lam, noise, h) if not noise.rho else (None, None)
    slow = noise.drive(np.ones(lam.size))
    leading = float(slow.sum() * (lam @ slow)) / (8.0 * h**2)
    eta = _rate(lam, noise, h)
    equal = _equal_gain(lam, noise)
    if equal is not None and (eta is None or eta > SHORT):
        second = (noise.synaptic * equal, noise.noisy)
        square = mean_square(lam.size, h, (noise.irrelevant, noise.plastic), second)
        if square is not None:
            slowest = math.nan if eta is None else 1.0 / eta
            excess = 0.5 * float(lam.mean()) * square
            return Balance(excess, leading, lower, upper, exact=True, slowest=slowest)
    if eta is None:  # the step alone jumps across the steepest mode: the identities with q = L
        across = (h**2 + slow.sum()) * (h**2 * lam.max() + lam @ slow) / (8.0 * h**2)
        return Balance(float(across), leading, lower, upper)
    shape = lam / lam.max()
    energy = _energies(shape, noise, eta)
    correction, spread = _fluctuations(shape, noise, eta, energy)
    excess = 0.5 * float(lam @ energy) * (1.0 + correction)
    exact, slowest = equal is not None and eta <= SHORT, 1.0 / (eta * float(shape.min()))
    return Balance(excess, leading, lower, upper, spread, eta, exact, slowest)


def _equal_gain(lam: Array, noise: ModeNoise) -> float | None:
    """The gain of n3, where modes are few and equal and the noise is the same in all of them."""
    k, gain = lam.size, 1.0
    if k > MOST_EQUAL or noise.rho or np.ptp(lam) > 1e-9 * lam[0]:
        return None
    if noise.gains is not None:
        gain = float(noise.gains[0, 0])
        if np.abs(noise.gains - gain * np.eye(k)).max() > 1e-9 * gain:
            return None
    # One weight goes up or down by a fixed amount: its law depends on the start.
    if noise.plastic == 1 or not (noise.irrelevant or noise.synaptic):
        return None
    return gain


def bounds(lam: Array, noise: ModeNoise, h: float) -> tuple[float, float]:
    """Proved bounds of <F> at a steady state, for noise that is independent from cycle to cycle."""
    low, high = float(lam.min()), float(lam.max())
    gain = noise.gain(lam.size)
    s = noise.irrelevant + noise.synaptic * gain
    total, weighted = float(s.sum()), float(lam @ s)
    B = (h**2 + total) / (4.0 * h)
    A = (h**2 * low + weighted) / (2.0 * h)
    root = (A + 2.0 * math.sqrt(low * high) * B) / (math.sqrt(2 * low) + math.sqrt(2 * high))
    # F' - F = -h|g| + h^2 q/2 + tau on average, with variance (Hy)'S(Hy) + kappa, y = x - h g/|g|.
    tau = 0.5 * weighted
    if noise.gains is None:
        largest = float(s[0])
        kappa = 0.5 * float(lam**2 @ s**2)
    else:
        S = noise.covariance(lam.size)
        largest = float(np.linalg.eigvalsh(S)[-1])
        kappa = 0.5 * float(np.sum((lam[:, None] * S) * (lam[:, None] * S).T))
    factor = 3.0 * h**2 * high + 2.0 * tau + 2.0 * high * largest
    rest = (0.5 * h**2 * high + tau) ** 2 - (2.0 * tau + 2.0 * largest * low) * (
        tau + 0.5 * h**2 * low
    )
    rest += largest * h**2 * high**2 + kappa
    # 2 h <F|g|> <= factor <F> + rest, and <F>^2 <= B <F|g|>.
    half = B * factor / (4.0 * h)
    inside = half**2 + B * rest / (2.0 * h)
    return root**2, half + math.sqrt(max(inside, 0.0))


def _energies(shape: Array, noise: ModeNoise, eta: float) -> Array:
    """<x^2> of every mode, eta and ``shape`` in units of the largest eigenvalue."""
    keep = 1.0 - eta * shape
    return np.asarray(noise.drive(keep) / (eta * shape * (1.0 + keep)))


def _rate(lam: Array, noise: ModeNoise, h: float) -> float | None:
    """eta times the largest eigenvalue; None where the noise is too weak for a balance."""
    from scipy.optimize import brentq

    if not noise.irrelevant and not noise.synaptic:
        return None
    shape = lam / lam.max()

    def gap(eta: float) -> float:
        # log of |g| = h / eta over what the modes make of it; both in units of the largest.
        energy = _energies(shape, noise, eta)
        return math.log(h / eta) - 0.5 * math.log(float(np.sum(shape**2 * energy)))

    low, high = 1e-6, 2.0 * (1.0 - 1e-13)
    if gap(high) > 0:
        return None
    while gap(low) < 0:
        low *= 1e-3
    return float(brentq(gap, low, high, xtol=1e-300, rtol=1e-12))


def _fluctuations(shape: Array, noise: ModeNoise, eta: float, energy: Array) -> tuple[float, float]:
    """Cov(|g|, F/|g|) / (<|g|> <F/|g|>) to first order, and Var |g|^2 / <|g|^2>^2.

    With E = x^2, a = 1 - eta lambda and y = |g|^2, a deviation follows
    dE' = a^2 dE + a eta lambda E dy/y + n, that is C = M C M' + Q for its covariance with
    M = diag(a^2) + u v', v = lambda^2. C v is all that is needed, and solves one linear system.
    """
    k = shape.size
    if k > MOST_CORRECTED:
        return 0.0, 4.0 * float(shape.max() / shape.sum())  # as for so many equal modes
    a, v = 1.0 - eta * shape, shape**2
    square, value = float(v @ energy), 0.5 * float(shape @ energy)
    A, u = a**2, a * eta * shape * energy / square
    first = np.diag(noise.drive(a) - noise.synaptic * noise.gain(k))
    second = noise.synaptic * (np.eye(k) if noise.gains is None else noise.gains)
    S = first + second
    Q = 4.0 * np.outer(a, a) / (1.0 - np.outer(a, a)) * S**2 + 4.0 * first * second
    # The squares of a direction's parts on a sphere of n dimensions, which add up to one.
    for part, n in ((first, noise.plastic), (second, noise.noisy)):
        own = np.diagonal(part)
        Q += (2.0 * n * part**2 - 2.0 * np.outer(own, own)) / (n + 2.0)
    D = 1.0 / (1.0 - np.outer(A, A))
    p = D @ (u * v)
    system = np.diag(1.0 - A * p) - u[:, None] * D * (A * v)[None, :] - np.outer(u * p, v)
    c = np.linalg.solve(system, (Q * D) @ v)
    spread = float(v @ c) / square**2
    shared = 0.5 * float(shape @ c) / (square * value)
    correction = 0.5 * shared - 0.25 * spread
    known = math.isfinite(correction) and spread >= 0  # of every spectrum that was ever tried
    return (correction, spread) if known else (0.0, math.nan)
