"""Gaussian numbers for simulations: one stream per repeat, fast enough not to be the cost.

Sixteen xoshiro128++ generators (Blackman and Vigna 2021) side by side, seeded through numpy's
SeedSequence, feed Box and Muller's transform. Everything is element by element over the sixteen
lanes, so the compiler turns it into vector instructions: about five times as fast as
`Generator.standard_normal`. The numbers are float32: noise needs no more, and the noise of a run
in single precision is then the noise of the same run in double precision.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sublearn._compile import compiled, fma, inlined, wide

LANES = 16
BLOCK = 32 * LANES  # words of a block: it stays in the first-level cache
Stream = NDArray[np.uint32]

f4, u4, i4 = np.float32, np.uint32, np.int32


def stream(*entropy: int) -> Stream:
    """The state of a stream that these whole numbers alone determine."""
    words = np.random.SeedSequence(list(entropy)).generate_state(4 * LANES, np.uint32)
    return words.astype(np.uint32).reshape(4, LANES)


@inlined
def _bits(state: Stream, out: Stream) -> None:
    """Fill ``out``, a multiple of LANES, with steps of xoshiro128++ in every lane."""
    wide()
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    for start in range(0, out.size, LANES):
        row = out[start : start + LANES]  # out[start + lane] might be counted from the end
        for lane in range(LANES):
            a, b, c, d = s0[lane], s1[lane], s2[lane], s3[lane]
            total = u4(a + d)
            row[lane] = u4(u4(u4(total << u4(7)) | u4(total >> u4(25))) + a)
            shifted = u4(b << u4(9))
            c = u4(c ^ a)
            d = u4(d ^ b)
            s1[lane] = u4(b ^ c)
            s0[lane] = u4(a ^ d)
            s2[lane] = u4(c ^ shifted)
            s3[lane] = u4(u4(d << u4(11)) | u4(d >> u4(21)))


@inlined
def _box_muller(
    radius_bits: Stream, angle_bits: Stream, first: NDArray[np.float32], second: NDArray[np.float32]
) -> None:
    """Two normal numbers from every pair of random words."""
    wide()
    for lane in range(radius_bits.size):
        # u uniform in (0, 1]: u = (1 + mantissa) 2^exponent, and log u by the polynomial of the
        # Cephes library (Moshier 1989) on [sqrt(1/2), sqrt(2)].
        u = (f4(i4(radius_bits[lane] >> u4(1))) + f4(0.5)) * f4(2.0**-31)
        word = np.float32(u).view(np.int32)
        exponent = f4(i4((word >> i4(23)) - i4(126)))
        x = np.int32((word & i4(0x7FFFFF)) | i4(0x3F000000)).view(np.float32)
        below = x < f4(math.sqrt(0.5))
        x = x + x - f4(1) if below else x - f4(1)
        exponent = exponent - f4(1) if below else exponent
        p = f4(7.0376836292e-2)
        p = fma(p, x, f4(-1.1514610310e-1))
        p = fma(p, x, f4(1.1676998740e-1))
        p = fma(p, x, f4(-1.2420140846e-1))
        p = fma(p, x, f4(1.4249322787e-1))
        p = fma(p, x, f4(-1.6668057665e-1))
        p = fma(p, x, f4(2.0000714765e-1))
        p = fma(p, x, f4(-2.4999993993e-1))
        p = fma(p, x, f4(3.3333331174e-1))
        # log(1 + x) = x - x^2 / 2 + p x^3
        log = fma(exponent, f4(math.log(2.0)), fma(x * x, fma(p, x, f4(-0.5)), x))
        radius = np.sqrt(f4(-2) * min(log, f4(0)))
        # An angle uniform in [-pi/4, pi/4]; one bit mirrors it, another exchanges the axes.
        bits = angle_bits[lane]
        angle = f4(i4(bits) >> i4(2)) * f4(math.pi / 4 * 2.0**-29)
        square = angle * angle
        sine = fma(square, f4(-1.9515295891e-4), f4(8.3321608736e-3))
        sine = fma(square, sine, f4(-1.6666654611e-1))
        sine = fma(angle * square, sine, angle)
        cosine = fma(square, f4(2.443315711e-5), f4(-1.388731625e-3))
        cosine = fma(square, cosine, f4(4.166664568e-2))
        cosine = fma(square, fma(square, cosine, f4(-0.5)), f4(1))
        cosine = -cosine if (bits & u4(1)) != u4(0) else cosine
        swap = (bits & u4(2)) != u4(0)
        first[lane] = radius * (sine if swap else cosine)
        second[lane] = radius * (cosine if swap else sine)


@compiled
def fill_normals(state: Stream, out: NDArray[np.float32]) -> None:
    """Fill ``out`` with independent standard normal numbers and move the stream on.

    Numbers come in pairs of rows of LANES; what is left of the last pair is dropped, so a call's
    numbers depend on the calls before it and on nothing else.
    """
    radius = np.empty(BLOCK, np.uint32)
    angle = np.empty(BLOCK, np.uint32)
    done = 0
    while done < out.size:
        words = min(BLOCK, (out.size - done) // (2 * LANES) * LANES)
        if words > 0:
            _bits(state, radius[:words])
            _bits(state, angle[:words])
            middle = done + words
            _box_muller(
                radius[:words], angle[:words], out[done:middle], out[middle : middle + words]
            )
            done = middle + words
        else:
            left = np.empty(2 * LANES, np.float32)
            _bits(state, radius[:LANES])
            _bits(state, angle[:LANES])
            _box_muller(radius[:LANES], angle[:LANES], left[:LANES], left[LANES:])
            for k in range(out.size - done):
                out[done + k] = left[k]
            done = out.size
