"""Machine code for the loops that no array expression says well."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """The same function as machine code, kept on disk between runs, free of the interpreter lock.

    The wrapper exists so that the type checker sees the Python signature.
    """
    decorate = numba.njit(cache=True, nogil=True, error_model="numpy")
    return cast(Function, decorate(function))


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc"})
def dot(one: NDArray[np.float64], two: NDArray[np.float64]) -> float:
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
