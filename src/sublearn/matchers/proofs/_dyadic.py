"""Dyadic rationals m 2^e with whole m and e: what floats and midpoints of balls are, exactly."""

from __future__ import annotations

from sublearn._arrays import Array
from sublearn.exact import from_floats, nearest
from sublearn.matchers.proofs._balls import Ball

Dyadic = tuple[int, int]


def to_float(value: Dyadic) -> float:
    """The nearest float64; infinite beyond its range."""
    return nearest(*value)


def from_ball(value: Ball) -> Dyadic:
    """The midpoint of a finite ball."""
    mantissa, exponent = value.mid().man_exp()
    return int(mantissa), int(exponent)


def to_ball(value: Dyadic) -> Ball:
    """The exact ball of a dyadic number, whatever the working precision."""
    from flint import arb

    return arb(value)


def from_pairs(high: Array, low: Array) -> list[Dyadic]:
    """high + low, exactly.

    >>> import numpy as np
    >>> from_pairs(np.array([1.0]), np.array([2.0**-60])) == [((1 << 112) + (1 << 52), -112)]
    True
    """
    out = []
    for (one, first), (two, second) in zip(from_floats(high), from_floats(low), strict=True):
        if two == 0:
            out.append((one, first))
        else:
            least = min(first, second)
            out.append(((one << (first - least)) + (two << (second - least)), least))
    return out
