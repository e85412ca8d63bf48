"""The streams of normal numbers behind simulations."""

from __future__ import annotations

import numpy as np
import pytest

from sublearn.noise._simulate_random import LANES, _bits, fill_normals, stream


def xoshiro128pp(state: list[int], count: int) -> list[int]:
    """The published algorithm (Blackman and Vigna 2021), one generator, plain whole numbers."""
    mask = (1 << 32) - 1

    def turn(x: int, k: int) -> int:
        return ((x << k) | (x >> (32 - k))) & mask

    s, out = list(state), []
    for _ in range(count):
        out.append((turn((s[0] + s[3]) & mask, 7) + s[0]) & mask)
        t = (s[1] << 9) & mask
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = turn(s[3], 11)
    return out


def test_lanes_are_the_published_generator() -> None:
    state = stream(3, 1)
    wanted = [xoshiro128pp([int(v) for v in state[:, lane]], 5) for lane in range(LANES)]
    out = np.empty(5 * LANES, dtype=np.uint32)
    _bits(state, out)
    assert out.reshape(5, LANES).T.tolist() == wanted


def normals(count: int, *entropy: int) -> np.ndarray:
    out = np.empty(count, dtype=np.float32)
    fill_normals(stream(*entropy), out)
    return out


def test_numbers_are_normal() -> None:
    from scipy.stats import kstest

    x = normals(300_000, 8).astype(np.float64)
    assert kstest(x, "norm").pvalue > 0.001
    # Means of x^k against their exact values, in standard errors: E x^2k = (2k - 1)!!.
    for power, mean, second in ((1, 0, 1), (2, 1, 3), (3, 0, 15), (4, 3, 105), (6, 15, 10395)):
        error = np.sqrt((second - mean**2) / x.size)
        assert abs((x**power).mean() - mean) < 4 * error
    beyond = (np.abs(x) > 4).sum()  # P = 6.334e-5, 19.0 of them
    assert abs(beyond - 19.0) < 4 * np.sqrt(19.0)
    for lag in (1, LANES, 2 * LANES, 512, 1024):
        assert abs((x[lag:] * x[:-lag]).mean()) < 4 / np.sqrt(x.size)


@pytest.mark.parametrize("count", [1, 31, 32, 33, 1024, 1500])
def test_every_length_is_filled(count: int) -> None:
    x = normals(count, 2)
    assert np.unique(x).size == count
    assert np.abs(x).max() < 7


def test_streams_differ_and_repeat() -> None:
    assert (normals(64, 1, 2) == normals(64, 1, 2)).all()
    assert (normals(64, 1, 2) != normals(64, 2, 1)).all()
