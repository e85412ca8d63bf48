"""Residues one by one, for compiled loops."""

import numpy as np

from sublearn._arrays import Array
from sublearn._compile import any_order, compiled


@any_order
def dot(one: Array, two: Array) -> float:
    """The sum of the products of two vectors, in any order, which vector units need.

    The order does not matter as long as every partial sum is exact: at most `delay` nonzero terms.
    """
    total = 0.0
    for k in range(one.size):
        total += one[k] * two[k]
    return total


@compiled
def remainder(value: float, p: float, inverse: float) -> float:
    """A residue of `value` modulo p of absolute value at most p/2 + 4, for |value| <= 2^53.

    `inverse` is the float nearest 1/p. The quotient is below 2^31 and carries two relative
    roundings of 2^-53, so it is off by at most 2^-21 before `rint`, and the residue by at most
    p 2^-21 < 4 from the balanced range. A multiple of p gives exactly 0, so that zero tests on
    such residues are sound.
    """
    return float(value - p * np.rint(value * inverse))


@compiled
def reciprocal(value: float, p: float) -> float:
    """The balanced inverse of a nonzero residue modulo the prime p (extended Euclid)."""
    modulus = np.int64(p)
    previous, current = modulus, np.int64(value) % modulus
    before, coefficient = np.int64(0), np.int64(1)
    while current != 0:
        quotient = previous // current
        previous, current = current, previous - quotient * current
        before, coefficient = coefficient, before - quotient * coefficient
    # Euclid keeps |before| <= p/2, so the coefficient is balanced already.
    return float(before)
