"""The stationary law of the distance from the minimum, where all modes have the same eigenvalue.

Then a step goes straight to the minimum, and a cycle is |x| <- |(|x| - h) e + xi| for a noise xi whose
direction is uniform in the k modes: a Markov chain of one number, whose law is solved for on a grid.
"""

from __future__ import annotations

import math

import numpy as np

from sublearn._arrays import Array
from sublearn.noise._noise import cosines

_RADII, _ANGLES, _BINS = 24, 48, 10
MOST_POINTS = 1 << 16


def mean_square(
    modes: int, h: float, first: tuple[float, int], second: tuple[float, int]
) -> float | None:
    """<|x|^2> for a step h and two noises, each a (variance per mode, dimensions it is drawn in).

    None where the grid would be too large, or misses the mean <|x|>, which is known:
    (h^2 + Tr S) / (2 h).

    >>> s, h = 0.01, 0.002                                 # short steps: k (k + 1) (s / 2 h)^2
    >>> round(mean_square(2, h, (s, 8), (0.0, 8)) / (6 * (s / 2 / h) ** 2), 2)
    1.0
    """
    s = first[0] + second[0]
    radii = _noise_radii(modes, first, second)
    grids = [_solve(modes, h, s, radii, _BINS * fine) for fine in (1, 2)]
    if grids[0] is None or grids[1] is None:
        return None
    known = (h**2 + modes * s) / (2.0 * h)
    # Sharing a point among its neighbours on the grid adds a variance that falls as the square.
    mean, square = ((4.0 * fine - coarse) / 3.0 for coarse, fine in zip(*grids, strict=True))
    return square if abs(mean / known - 1.0) < 1e-3 else None


def _noise_radii(modes: int, first: tuple[float, int], second: tuple[float, int]) -> Array:
    """Equally likely lengths of the noise in the modes, with its mean square as it is."""
    one, two = _part(modes, *first), _part(modes, *second)
    u, chance = cosines(modes, 32)
    p, q = one[:, None, None], two[None, :, None]
    square = np.maximum(p + q + 2.0 * np.sqrt(p * q) * u, 0.0)
    weight = np.broadcast_to(chance, square.shape).reshape(-1)
    flat = square.reshape(-1)
    order = np.argsort(flat)
    flat, ends = flat[order], np.cumsum(weight[order])
    sums = np.concatenate([[0.0], np.cumsum(flat * weight[order])])
    cuts = np.linspace(0.0, ends[-1], _RADII + 1)
    heights = np.interp(cuts, np.concatenate([[0.0], ends]), sums)
    means: Array = np.diff(heights) * _RADII / ends[-1]
    return np.sqrt(np.maximum(means, 0.0))


def _part(modes: int, variance: float, size: int) -> Array:
    """Squared lengths in the modes of a direction that is uniform in ``size`` dimensions."""
    if not variance:
        return np.zeros(1)
    if size <= modes:
        return np.full(1, variance * modes)
    from scipy.special import betaincinv

    middle = (np.arange(_RADII) + 0.5) / _RADII
    shares = betaincinv(modes / 2.0, (size - modes) / 2.0, middle)
    return np.asarray(variance * modes * shares / shares.mean())


def _solve(modes: int, h: float, s: float, radii: Array, fine: int) -> tuple[float, float] | None:
    """<|x|> and <|x|^2> on a grid with ``fine`` points per standard deviation of the noise."""
    from scipy.linalg import solve_banded

    spacing = math.sqrt(s) / fine
    reach = h + float(radii[-1])
    furthest = 2.0 * (h + reach) + s / (2.0 * h) * (modes + 10.0 * math.sqrt(modes) + 25.0)
    points = math.ceil(furthest / spacing) + 2
    width = math.ceil(reach / spacing) + 2
    if points > MOST_POINTS or points * width > 1 << 22:
        return None
    u, chance = cosines(modes, _ANGLES)
    weight = np.broadcast_to(chance / radii.size, (radii.size, u.size)).reshape(-1)
    at = np.arange(points) * spacing
    # Column i of `bands` holds where point i goes: row width + (j - i) is the share of point j.
    bands = np.zeros((2 * width + 1, points))
    for start in range(0, points, 512):
        part = slice(start, min(start + 512, points))
        left = (at[part] - h)[:, None, None]
        square = left**2 + 2.0 * left * radii[:, None] * u + radii[:, None] ** 2
        goes = np.sqrt(np.maximum(square, 0.0)).reshape(left.shape[0], -1) / spacing
        goes = np.minimum(goes, points - 1.001)
        below = goes.astype(np.int64)
        share = goes - below
        source = np.arange(part.start, part.stop)[:, None]
        row = width + below - source
        count = part.stop - part.start
        index = (row * count + source - start).reshape(-1)
        for shift, mass in ((0, 1.0 - share), (count, share)):
            each = np.bincount(index + shift, (mass * weight).reshape(-1), len(bands) * count)
            bands[:, part] += each.reshape(-1, count)
    bands[width] -= 1.0
    # One equation is implied by the others; in its place the mass of a typical point is set to 1.
    typical = round((h**2 + modes * s) / (2.0 * h) / spacing)
    for j in range(max(typical - width, 0), min(typical + width + 1, points)):
        bands[width + typical - j, j] = 0.0
    bands[width, typical] = 1.0
    right = np.zeros(points)
    right[typical] = 1.0
    law = solve_banded((width, width), bands, right, overwrite_ab=True, check_finite=False)
    law /= law.sum()
    return float(law @ at), float(law @ at**2)
