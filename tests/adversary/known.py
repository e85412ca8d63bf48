"""Problems whose match probability is known, each with the argument in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from math import sqrt
from typing import Any

import numpy as np
from scipy.stats import binom

import sublearn as sl

DRAWS = 1_000_000
SLACK = 0.002  # four standard errors of a truth that was sampled
MOST_UNDECIDED = 0.05  # of the trials; of those with a match where ``open``


@dataclass(frozen=True)
class Known:
    """A problem, what may be learned, and the truth: a number, or where ``at_least``, a bound."""

    problem: sl.Problem
    asked: sl.Allocation | Mapping[str, Any]
    truth: Callable[[], float]
    why: str
    sampled: bool = False
    at_least: bool = False
    open: bool = False  # no rung refutes its system: what has no match may stay undecided


def _always() -> float:
    return 1.0


def _never() -> float:
    return 0.0


@cache
def small_example(which: str) -> float:
    """Example B.1.1 by plain Monte Carlo: the share of quadratics with a discriminant >= 0.

    n = 2, b = d = 1, T = m = 2: X drops out, D W B = M1 and D W^2 B = M2. With u = W B the learnable
    entries are fractions of u1 and u2, D u = M1 takes out u2, and D W u = M2 is quadratic in u1.
    """
    rng = np.random.default_rng(5)
    n = DRAWS
    d1, d2, t1, t2 = rng.standard_normal((4, n)) / sqrt(2)
    b1, b2, c1, c2 = rng.standard_normal((4, n))
    p, q, v11, v12, v21, v22 = rng.standard_normal((6, n)) / sqrt(2)
    h1, h2 = v11 * c1 + v12 * c2, v21 * c1 + v22 * c2
    M1 = t1 * h1 + t2 * h2
    M2 = t1 * (v11 * h1 + v12 * h2) + t2 * (v21 * h1 + v22 * h2)
    # u2 = s - k u1, and p, q are the frozen entries.
    k, s = d1 / d2, M1 / d2
    if which == "diagonal":  # W11 = (u1 - p b2) / b1, W22 = (u2 - q b1) / b2
        # d1 [W11 u1 + p u2] + d2 [q u1 + W22 u2] = M2
        a = d1 / b1 + d2 * k * k / b2
        b = -d1 * p * b2 / b1 - d1 * p * k + d2 * q - 2 * d2 * k * s / b2 + d2 * q * b1 * k / b2
        c = d1 * p * s + d2 * s * s / b2 - d2 * q * b1 * s / b2 - M2
    else:  # p = W11, q = W22 frozen: W12 = (u1 - p b1) / b2, W21 = (u2 - q b2) / b1
        # d1 [p u1 + W12 u2] + d2 [W21 u1 + q u2] = M2
        a = -d1 * k / b2 - d2 * k / b1
        b = d1 * p + d1 * (s + p * b1 * k) / b2 + d2 * (s - q * b2) / b1 - d2 * q * k
        c = -d1 * p * b1 * s / b2 + d2 * q * s - M2
    return float(np.mean(b * b - 4 * a * c >= 0))


@cache
def one_tanh_unit() -> float:
    """y = w tanh(W1 x) asks for |v tanh(V1 x_s)| < |w| on both samples; then W1 solves two equations."""
    rng = np.random.default_rng(6)
    w, v = rng.standard_normal((2, DRAWS))
    V = rng.standard_normal((2, DRAWS)) / sqrt(2)
    x = rng.standard_normal((2, 2, DRAWS))
    y = np.abs(v * np.tanh((V[:, None] * x).sum(axis=0)))
    return float(np.mean((y < np.abs(w)).all(axis=0)))


@cache
def rate_quadratic() -> float:
    """One linear unit for three steps, W learnable: D a V (x3 + x2 u + x1 u^2) = y with u = 1 - a + a W."""
    rng = np.random.default_rng(7)
    d, v, e, f, w = rng.standard_normal((5, DRAWS))
    x1, x2, x3 = rng.standard_normal((3, DRAWS))
    u = 0.9 + 0.1 * w
    y = e * f * (x3 + x2 * u + x1 * u * u) / (d * v)
    return float(np.mean(x2 * x2 - 4 * x1 * (x3 - y) >= 0))


@cache
def sparse_quadratic() -> float:
    """n = 2 without self-connections, T = m = 2: D W B and D W^2 B = w12 w21 D B ask for two numbers,
    p = d1 b2 w12 and q = d2 b1 w21, of which sum and product are given."""
    rng = np.random.default_rng(8)
    d1, d2, e1, e2 = rng.standard_normal((4, DRAWS)) / sqrt(2)
    b1, b2, c1, c2, v12, v21 = rng.standard_normal((6, DRAWS))
    total = e1 * c2 * v12 + e2 * c1 * v21
    product = v12 * v21 * (e1 * c1 + e2 * c2) * d1 * b2 * d2 * b1 / (d1 * b1 + d2 * b2)
    return float(np.mean(total**2 >= 4 * product))


def _problems() -> dict[str, Known]:
    Rule = sl.Anywhere
    lrnn2 = sl.LinearRNN(n=2, b=1, d=1, T=2)
    lrnn5 = sl.LinearRNN(n=2, b=1, d=1, T=5)
    relu1 = sl.FeedForward((2, 1, 1), activation="relu")
    relu2 = sl.FeedForward((2, 2, 1), activation="relu")
    out = sl.FeedForward((3, 1), output="tanh")
    two = sl.FeedForward((2, 1), output="tanh")
    row = sl.LinearEstimator(inputs=2, outputs=1)
    saturated = sl.FeedForward((3, 4, 1), activation="tanh", output="tanh")
    unit = sl.FeedForward((2, 1, 1), activation="tanh")
    low = sl.Ensemble(inputs=sl.ensembles.LowRank(rank=1))
    rate1 = sl.RateRNN(n=1, b=1, d=1, T=3, activation="linear", leak=0.1)
    rates = sl.RateRNN(n=2, b=1, d=1, T=2, leak=0.5, bias=True, readout="every", start="weights")
    rate_relu = sl.RateRNN(n=1, b=2, d=1, T=1, activation="relu", leak=0.5, start="weights")
    rate_relu = rate_relu.with_connections({"W": [[0]], "h0": [[0]]})
    thin = sl.LinearEstimator(inputs=3, outputs=2).with_connections({"W": [[1, 1, 1], [0, 1, 0]]})
    crossed = lrnn2.with_connections({"W": [[0, 1], [1, 0]]})
    copy = "all weights are learnable, so that the teacher's are reached"
    return {
        "behind tanh, copied": Known(sl.Problem(out, 5), {"W1": Rule(3)}, _always, copy),
        "behind tanh, half of it": Known(
            sl.Problem(two, 2, teacher=sl.Targets(sl.ensembles.Uniform())),
            {"W1": Rule(2)},
            lambda: 1 / 3,
            "two targets, uniform up to sqrt 3, must both lie below 1",
        ),
        "behind tanh, saturated": Known(
            sl.Problem(saturated, 2, sl.Gaussian(20.0)),
            {"W2": Rule(4)},
            _always,
            "four independent features for two samples, and the teacher stands behind the same tanh",
        ),
        "bottleneck, copied": Known(
            sl.Problem(sl.FeedForward((3, 1, 3)), 3), {"W1": Rule(3), "W2": Rule(3)}, _always, copy
        ),
        "bottleneck, one side": Known(
            sl.Problem(sl.FeedForward((3, 1, 3)), 3),
            {"W1": Rule(3)},
            _never,
            "the outputs are multiples of the student's W2, and the teacher's is another direction",
        ),
        "tanh, copied": Known(
            sl.Problem(sl.FeedForward((3, 2, 1), activation="tanh"), 12),
            {"W1": Rule(6), "W2": Rule(2)},
            _always,
            copy,
        ),
        "sigmoid RNN, copied": Known(
            sl.Problem(sl.RNN(n=2, b=1, d=1, T=2, activation="sigmoid"), 12),
            {"W": Rule(4), "B": Rule(2), "D": Rule(2)},
            _always,
            copy,
        ),
        "one tanh unit": Known(
            sl.Problem(unit, 2),
            {"W1": Rule(2)},
            one_tanh_unit,
            "the state is atanh(y / w), which exists where |y| < |w|; sampled here",
            sampled=True,
        ),
        "rescaled ReLU row": Known(
            sl.Problem(relu1, 6),
            sl.Allocation.whole(relu1, ["W1"]),
            lambda: 1 / 2 + 2**-7,
            "the teacher's row is rescaled if the signs of W2 agree; if not, it must be off on all 6",
        ),
        "two rescaled ReLU rows": Known(
            sl.Problem(relu2, 8),
            sl.Allocation.whole(relu2, ["W1"]),
            lambda: 0.375,
            "rows are rescaled where the signs of W2 agree in some order: 1/16 + 1/16 + 1/4, at least",
            at_least=True,
        ),
        "low rank, no match": Known(
            sl.Problem(sl.FeedForward((5, 2), bias=True), 3, low),
            {"W1": Rule(10)},
            _never,
            "samples are multiples of one vector, so that W1 cannot take the place of another bias",
        ),
        "low rank, one weight a row": Known(
            sl.Problem(sl.FeedForward((5, 2)), 3, low),
            {"W1": Rule(2)},
            lambda: 5 / 9,
            "one learnable weight in each row reaches all; of 9 places for the second 5 are in the other",
        ),
        "Lemma B.4": Known(
            sl.Problem(lrnn5, 5),
            sl.Allocation.from_entries(lrnn5, {"W": [(0, 0), (1, 1)], "B": [(0, 0), (1, 0)]}),
            lambda: 1 - sqrt(2) / 4,
            "the teacher's trace and determinant ask for real diagonals: w12 w21 decides",
        ),
        "example B.1.1, diagonal": Known(
            sl.Problem(lrnn2, 2),
            sl.Allocation.diagonal(lrnn2, "W"),
            lambda: small_example("diagonal"),
            "a quadratic; the share with real roots is sampled here",
            sampled=True,
        ),
        "example B.1.1, off the diagonal": Known(
            sl.Problem(lrnn2, 2),
            sl.Allocation.from_entries(lrnn2, {"W": [(0, 1), (1, 0)]}),
            lambda: small_example("off"),
            "a quadratic; the share with real roots is sampled here",
            sampled=True,
        ),
        "example B.1.1, dependent samples": Known(
            sl.Problem(lrnn2, 5),
            sl.Allocation.diagonal(lrnn2, "W"),
            lambda: small_example("diagonal"),
            "three more samples are combinations of two, for student and teacher",
            sampled=True,
        ),
        "dependent samples, copied": Known(
            sl.Problem(sl.LinearEstimator(inputs=3, outputs=1), 6), {"W": Rule(3)}, _always, copy
        ),
        "two weights a row": Known(
            sl.Problem(sl.LinearEstimator(inputs=3, outputs=2), 2),
            {"W": Rule(4)},
            lambda: 9 / 15,
            "each row of three needs two of the four learnable weights: 9 of 15 choices",
        ),
        "signs": Known(
            sl.Problem(row, 2, sl.Ensemble(inputs=sl.ensembles.Rademacher()), sl.Targets()),
            {"W": Rule(2)},
            lambda: 1 / 2,
            "a 2 x 2 matrix of signs is singular half the time, and then no targets with a density fit",
        ),
        "rate network, copied": Known(
            sl.Problem(rates, 4), sl.Allocation.whole(rates), _always, copy
        ),
        "rate network, a quadratic": Known(
            sl.Problem(rate1, 1),
            sl.Allocation.whole(rate1, ["W"]),
            rate_quadratic,
            "the share with real roots is sampled here",
            sampled=True,
            open=True,
        ),
        "rate network, rescaled ReLU row": Known(
            sl.Problem(rate_relu, 6),
            sl.Allocation.whole(rate_relu, ["Win"]),
            lambda: 1 / 2 + 2**-7,
            "one step from 0 is a layer: as the ReLU row above",
        ),
        "sparse rows": Known(
            sl.Problem(thin, 2),
            {"W": Rule(3)},
            lambda: 3 / 4,
            "two of three weights in one row and the only one of the other: 3 of 4 choices",
        ),
        "sparse recurrence": Known(
            sl.Problem(crossed, 2),
            sl.Allocation.whole(crossed, ["W"]),
            sparse_quadratic,
            "a quadratic; the share with real roots is sampled here",
            sampled=True,
            open=True,
        ),
    }


KNOWN = _problems()


@dataclass(frozen=True)
class Seen:
    """An estimate beside the truth."""

    name: str
    truth: float
    trials: int
    matched: int
    undecided: int
    interval: tuple[float, float]
    inside: bool  # the 95% interval
    far: bool  # outside of what happens once in a thousand
    many: bool  # more than 5% undecided, or where ``open`` of those with a match


def too_few_matched(matched: int, trials: int, truth: float) -> bool:
    """Whether so few matches happen less than once in a thousand if 95% of all there are, are found."""
    return bool(binom.cdf(matched, trials, (1 - MOST_UNDECIDED) * truth) < 0.0005)


def look(name: str, trials: int, seed: int = 1) -> Seen:
    """Estimate one of the problems, always by sampling."""
    known = KNOWN[name]
    found = sl.estimate(
        known.problem,
        known.asked,
        trials,
        seed=seed,
        sample_always=True,
        budget=sl.Budget(starts=300, paths=20_000, roots=200, nodes=20_000),
    )
    p = known.truth()
    slack = SLACK if known.sampled else 0.0
    low, high = found.confidence
    inside = low - slack <= p <= high + slack
    most = found.matched + found.undecided
    too_few = binom.cdf(most, trials, max(0.0, p - slack)) < 0.0005
    too_many = binom.sf(found.matched - 1, trials, min(1.0, p + slack)) < 0.0005
    if known.at_least:
        inside, too_many = high >= p, False
    many = found.undecided > MOST_UNDECIDED * trials
    if known.open:
        many = too_few_matched(found.matched, trials, p - slack)
    return Seen(
        name,
        p,
        trials,
        found.matched,
        found.undecided,
        (low, high),
        inside,
        bool(too_few or too_many),
        many,
    )
