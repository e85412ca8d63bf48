"""Intervals against scipy's, against their definitions, and by how often they cover."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import betaln, xlog1py, xlogy
from scipy.stats import binom, binomtest

from sublearn import BadInputError
from sublearn.estimates import clopper_pearson, confidence_sequence


@pytest.mark.parametrize("trials", [1, 2, 7, 60, 1000])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_clopper_pearson_is_scipys_exact_interval(trials: int, level: float) -> None:
    for successes in {0, 1, trials // 3, trials - 1, trials}:
        theirs = binomtest(successes, trials).proportion_ci(level, method="exact")
        assert clopper_pearson(successes, trials, level) == pytest.approx(
            (theirs.low, theirs.high), abs=1e-10
        )


def test_clopper_pearson_ends_have_their_tails() -> None:
    low, high = clopper_pearson(13, 40)
    assert binom.sf(12, 40, low) == pytest.approx(0.025)
    assert binom.cdf(13, 40, high) == pytest.approx(0.025)


def test_no_trials_say_nothing() -> None:
    assert clopper_pearson(0, 0) == (0.0, 1.0)
    assert confidence_sequence(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize("p", [0.02, 0.5, 0.9])
def test_confidence_sequence_covers_at_all_times_at_once(p: float) -> None:
    rng = np.random.default_rng(5)
    runs, length, missed = 150, 120, 0
    for _ in range(runs):
        hits = np.cumsum(rng.random(length) < p)
        ends = (confidence_sequence(int(hits[n - 1]), n) for n in range(1, length + 1))
        missed += any(not low <= p <= high for low, high in ends)
    # At most 5% of the runs may ever leave the interval; 3 standard errors on top.
    assert missed / runs <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / runs)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
@pytest.mark.parametrize(("successes", "trials"), [(1, 2), (3, 40), (20, 40), (39, 40), (700, 900)])
def test_confidence_sequence_ends_where_the_mixture_outweighs(
    successes: int, trials: int, level: float
) -> None:
    """At both ends the uniform mixture is 1 / (1 - level) times as likely as p itself."""
    low, high = confidence_sequence(successes, trials, level)
    assert 0 < low < successes / trials < high < 1
    for p in (low, high):
        ratio = betaln(successes + 1, trials - successes + 1) - (
            xlogy(successes, p) + xlog1py(trials - successes, -p)
        )
        assert ratio == pytest.approx(-np.log(1 - level), abs=1e-8)


@pytest.mark.parametrize("trials", [1, 2, 50, 1000])
def test_confidence_sequence_without_a_success_or_a_failure(trials: int) -> None:
    # p ** n = (1 - level) / (n + 1), solved for p.
    edge = (0.05 / (trials + 1)) ** (1 / trials)
    assert confidence_sequence(trials, trials) == pytest.approx((edge, 1.0), abs=1e-12)
    assert confidence_sequence(0, trials) == pytest.approx((0.0, 1 - edge), abs=1e-12)


def test_peeking_breaks_the_fixed_interval_but_not_the_sequence() -> None:
    rng = np.random.default_rng(6)
    runs, length, p, missed = 200, 300, 0.5, 0
    for _ in range(runs):
        hits = np.cumsum(rng.random(length) < p)
        ends = (clopper_pearson(int(hits[n - 1]), n) for n in range(20, length + 1, 4))
        missed += any(not low <= p <= high for low, high in ends)
    assert missed / runs > 0.05, "if this fails the sequence would not be needed"


def test_sequence_is_wider_than_the_fixed_interval_and_narrows() -> None:
    widths = []
    for n in (10, 100, 1000, 10_000):
        low, high = confidence_sequence(n // 4, n)
        fixed = clopper_pearson(n // 4, n)
        assert low <= fixed[0] and fixed[1] <= high
        widths.append(high - low)
    assert widths == sorted(widths, reverse=True)


@pytest.mark.parametrize(
    ("successes", "trials", "level"), [(-1, 3, 0.95), (4, 3, 0.95), (1, 3, 0.0), (1, 3, 1.0)]
)
def test_nonsense_is_refused(successes: int, trials: int, level: float) -> None:
    for interval in (clopper_pearson, confidence_sequence):
        with pytest.raises(BadInputError):
            interval(successes, trials, level)
