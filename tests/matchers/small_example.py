"""Example B.1.1 (n = 2, b = d = 1, T = m = 2), where a discriminant decides exactly."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

import numpy as np

import sublearn as sl
from sublearn.ensembles import Instance

NETWORK = sl.LinearRNN(n=2, b=1, d=1, T=2)
DIAGONAL = sl.Allocation.from_entries(NETWORK, {"W": [(0, 0), (1, 1)]})
CROSS = sl.Allocation.from_entries(NETWORK, {"W": [(0, 1), (1, 0)]})


def markov(instance: Instance) -> tuple[Fraction, Fraction]:
    """(D W B, D W^2 B) that the targets ask for: the teacher's own, else Y X^-1, X_1 facing W^2."""
    if instance.teacher is not None:
        held = {
            k: [[Fraction(v) for v in row] for row in m.tolist()]
            for k, m in instance.teacher.weights.items()
        }
        (w11, w12), (w21, w22) = held["W"]
        b1, b2 = held["B"][0][0], held["B"][1][0]
        d1, d2 = held["D"][0]
        u, v = w11 * b1 + w12 * b2, w21 * b1 + w22 * b2
        return d1 * u + d2 * v, d1 * (w11 * u + w12 * v) + d2 * (w21 * u + w22 * v)
    x = [[Fraction(float(instance.inputs[t, 0, s])) for s in range(2)] for t in range(2)]
    y = [Fraction(float(v)) for v in instance.targets[0]]
    det = x[0][0] * x[1][1] - x[0][1] * x[1][0]
    second = (y[0] * x[1][1] - y[1] * x[1][0]) / det
    first = (y[1] * x[0][0] - y[0] * x[0][1]) / det
    return first, second


def quadratic(instance: Instance) -> tuple[Fraction, Fraction, Fraction, Fraction, Fraction]:
    """(A, B, C, p, q): the first learnable weight u solves A u^2 + B u + C = 0, the second is p + q u."""
    weights = {
        n: [[Fraction(float(v)) for v in row] for row in m] for n, m in instance.weights.items()
    }
    (w11, w12), (w21, w22) = weights["W"]
    b1, b2 = weights["B"][0][0], weights["B"][1][0]
    d1, d2 = weights["D"][0]
    first, second = markov(instance)
    if instance.allocation == DIAGONAL:
        # d1 b1 u + d2 b2 v = e; d1 b1 u^2 + d2 b2 v^2 + g (u + v) + h = 0.
        one, two, g = d1 * b1, d2 * b2, d1 * b2 * w12 + d2 * b1 * w21
        e, h = first - g, w12 * w21 * (one + two) - second
        p, q = e / two, -one / two
        return one + two * q * q, 2 * two * p * q + g * (1 + q), two * p * p + g * p + h, p, q
    # d1 b2 u + d2 b1 v = e; s u v = h.
    one, two, s = d1 * b2, d2 * b1, d1 * b1 + d2 * b2
    e = first - d1 * b1 * w11 - d2 * b2 * w22
    h = second - d1 * b1 * w11**2 - d2 * b2 * w22**2 - (w11 + w22) * e
    p, q = e / two, -one / two
    return s * q, s * p, -h, p, q


def discriminant(instance: Instance) -> Fraction:
    a, b, c, _, _ = quadratic(instance)
    return b * b - 4 * a * c


def roots(instance: Instance) -> list[np.ndarray]:
    """Both real solutions (u, v) to about 60 digits, then rounded; none if there are none."""
    a, b, c, p, q = quadratic(instance)
    d = b * b - 4 * a * c
    if d < 0 or a == 0:
        return []
    scale = 10**60
    top = isqrt(d.numerator * d.denominator * scale * scale)
    root = Fraction(top, d.denominator * scale)
    firsts = [(-b - root) / (2 * a), (-b + root) / (2 * a)]
    return [np.array([float(u), float(p + q * u)]) for u in firsts]
