"""Confidence intervals for counts of three values."""

from __future__ import annotations

from collections.abc import Callable
from math import lgamma, log, log1p

from sublearn._errors import BadInputError


def check_counts(successes: int, trials: int, level: float) -> None:
    """0 <= successes <= trials and 0 < level < 1, or a clear error."""
    if not 0 <= successes <= trials:
        raise BadInputError(f"successes must lie in 0..{trials}, not {successes}.")
    if not 0 < level < 1:
        raise BadInputError(f"level must lie strictly between 0 and 1, not {level!r}.")


def clopper_pearson(successes: int, trials: int, level: float = 0.95) -> tuple[float, float]:
    """The exact two-sided interval of Clopper and Pearson (1934) for a fixed number of trials.

    The lower end is the p at which ``successes`` or more have probability (1 - level) / 2, the upper
    end the p at which ``successes`` or fewer have.

    >>> low, high = clopper_pearson(8, 10)
    >>> round(low, 4), round(high, 4)
    (0.4439, 0.9748)
    """
    from scipy.special import betaincinv

    check_counts(successes, trials, level)
    tail = (1 - level) / 2
    low = float(betaincinv(successes, trials - successes + 1, tail)) if successes else 0.0
    high = 1.0
    if successes < trials:
        high = float(betaincinv(successes + 1, trials - successes, 1 - tail))
    return low, high


def confidence_sequence(successes: int, trials: int, level: float = 0.95) -> tuple[float, float]:
    """An interval that holds at all numbers of trials at once, so that one may stop at any time.

    Robbins' mixture: with a uniform prior on p, the ratio of the mixture's likelihood to that of p is
    a martingale of mean 1, so by Ville's inequality it ever exceeds 1 / (1 - level) with probability
    at most 1 - level. The interval is where it does not.

    >>> low, high = confidence_sequence(80, 100)
    >>> low < clopper_pearson(80, 100)[0] < 0.8 < clopper_pearson(80, 100)[1] < high
    True
    """
    check_counts(successes, trials, level)
    failures = trials - successes
    mixture = lgamma(successes + 1) + lgamma(failures + 1) - lgamma(trials + 2)
    bar = mixture + log(1 - level)

    def inside(p: float) -> bool:
        # p ** s (1 - p) ** f, with 0 ** 0 = 1, against the mixture
        likelihood = 0.0
        if successes:
            likelihood += successes * log(p) if p > 0 else float("-inf")
        if failures:
            likelihood += failures * log1p(-p) if p < 1 else float("-inf")
        return likelihood >= bar

    centre = successes / trials if trials else 0.5
    return _edge(inside, centre, 0.0), _edge(inside, centre, 1.0)


def _edge(inside: Callable[[float], bool], centre: float, end: float) -> float:
    """The last point from centre towards end that is inside, by bisection to the last bit."""
    if inside(end):
        return end
    near, far = centre, end
    for _ in range(100):
        middle = (near + far) / 2
        if middle in (near, far):
            break
        if inside(middle):
            near = middle
        else:
            far = middle
    return far
