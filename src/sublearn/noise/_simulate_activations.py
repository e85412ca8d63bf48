"""Activations as machine code, several numbers at a time, in single or double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import overload

from sublearn._arrays import Floats
from sublearn._compile import fma, lean
from sublearn.networks.packed import RELU, SIGMOID, TANH


def _logistic(x: Any) -> Any:
    """1 / (1 + exp(-x)), as Python has it; machine code takes one of the two below, by precision."""
    return 1.0 / (1.0 + np.exp(-x))


@overload(_logistic)
def _logistic_by_precision(x: Any) -> Any:
    from numba import types

    if x == types.float32:

        def single(x: Any) -> Any:
            # exp(-x) = 2^n exp(r), |r| <= log(2)/2, written out so that it runs several at a time
            # (Cephes, Moshier 1989; relative error below 2e-7).
            f4, i4 = np.float32, np.int32
            z = min(max(-x, f4(-87.0)), f4(87.0))
            n = np.floor(fma(z, f4(1.44269504088896341), f4(0.5)))
            r = fma(n, f4(2.12194440e-4), fma(n, f4(-0.693359375), z))
            p = f4(1.9875691500e-4)
            p = fma(p, r, f4(1.3981999507e-3))
            p = fma(p, r, f4(8.3334519073e-3))
            p = fma(p, r, f4(4.1665795894e-2))
            p = fma(p, r, f4(1.6666665459e-1))
            p = fma(p, r, f4(5.0000001201e-1))
            power = np.int32((i4(n) + i4(127)) << i4(23)).view(np.float32)
            return f4(1) / fma(fma(p, r * r, r + f4(1)), power, f4(1))

        return single

    def double(x: Any) -> Any:
        # exp(r) = (Q + P) / (Q - P) with Cephes' P, odd in r, and Q, even: numerator and denominator
        # of the logistic function at once, so that one division is enough.
        z = min(max(-x, -700.0), 700.0)
        n = np.floor(fma(z, 1.4426950408889634, 0.5))
        r = fma(n, -1.90821492927058770002e-10, fma(n, -0.693147180369123816490, z))
        square = r * r
        p = 1.26177193074810590878e-4
        p = fma(p, square, 3.02994407707441961300e-2)
        p = fma(p, square, 1.0) * r
        q = 3.00198505138664455042e-6
        q = fma(q, square, 2.52448340349684104192e-3)
        q = fma(q, square, 2.27265548208155028766e-1)
        q = fma(q, square, 2.0)
        power = np.int64((np.int64(np.int32(n)) + np.int64(1023)) << np.int64(52)).view(np.float64)
        return (q - p) / fma(q + p, power, q - p)

    return double


@lean
def activate(code: int, state: Floats, slope: Floats) -> None:
    """state <- phi(state) and slope <- phi'(state)."""
    one = state.dtype.type(1)
    zero = state.dtype.type(0)
    if code == SIGMOID:
        for k in range(state.size):
            y = _logistic(state[k])
            state[k] = y
            slope[k] = y * (one - y)
    elif code == TANH:
        for k in range(state.size):
            half = _logistic(state[k] + state[k])
            y = half + half - one
            state[k] = y
            slope[k] = one - y * y
    elif code == RELU:
        for k in range(state.size):
            slope[k] = one if state[k] >= zero else zero
            state[k] = max(state[k], zero)
