"""The slides' own formulas, kept so that they can be shown to be wrong."""

from __future__ import annotations

from collections.abc import Sequence

from sublearn._errors import BadInputError
from sublearn.noise._loss import check_duration, check_gamma
from sublearn.noise._rates import Geometry


def slides_rate(geometry: Geometry, gamma: Sequence[float], T: float) -> float:
    """The mean rate as the slides print it; it does not hold.

        <k> = -(|g|/F) { -gamma1 + T gamma1^2 q + T Tr H / (2 |g|^2) [gamma2^2/N + gamma3^2/T] }

    The gamma1^2 term lacks 1/(2|g|), the trace term has |g|^2 for |g|.
    """
    g1, g2, g3 = check_gamma(gamma)
    T = check_duration(T)
    g = geometry.gradient_norm
    if not g:
        raise BadInputError("the slides' formula divides by the gradient, which is 0 here.")
    noise = g2**2 / geometry.plastic + g3**2 / T
    inside = -g1 + T * g1**2 * geometry.q + T * geometry.noise_trace / (2 * g**2) * noise
    return -g / geometry.loss * inside


def slides_expanded_rate(
    base: Geometry, c1: float, c2: float, gamma: Sequence[float], T: float
) -> float:
    """The slides' mean rate of the network expanded by (c1, c2), from the base network's geometry.

    c2 multiplies both curvature terms there. It multiplies the trace, but q stays as it is.
    """
    g1, g2, g3 = check_gamma(gamma)
    T = check_duration(T)
    g = base.gradient_norm
    noise = g2**2 / (c1 * c2 * base.plastic) + g3**2 / T
    inside = -g1 + T * c2 * g1**2 * base.q + T * c2 * base.noise_trace / (2 * g**2) * noise
    return -g / base.loss * inside
