"""The numbers behind the pictures: rows that tables and plots are made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from sublearn._arrays import Array
from sublearn._errors import BadInputError, whole_number
from sublearn._threads import single_thread
from sublearn.allocations import Allocation
from sublearn.networks import FeedForward, Network
from sublearn.noise._curvature import hessian_product
from sublearn.noise._growth import Grown, zero_pad
from sublearn.noise._loss import check_gamma, check_setting, error_signal
from sublearn.noise._rates import Geometry
from sublearn.noise._sizes import best_size

Row = dict[str, float | int | str | None]


def slope_against_curvature(
    network: Network,
    weights: Mapping[str, ArrayLike],
    *,
    inputs: ArrayLike,
    targets: ArrayLike,
    allocation: Allocation | None = None,
    length: float | None = None,
    angles: int = 37,
    seed: int = 0,
) -> list[Row]:
    """How the direction of a step trades slope for curvature.

    Steps of one ``length`` s along u = -cos(t) ghat + sin(t) v, for angles t from 0 to 90 degrees: v
    is either the direction at right angles to ghat in which the curvature falls fastest ("flatter"),
    or a random one ("random"). Without a length s is the gradient step's best one, |g|/q (1 where
    q <= 0). ``slope`` = -s g'u is what the gradient promises, ``curvature`` =
    s^2 u'Hu / 2 what bending takes back, ``predicted`` the fall slope - curvature, ``measured``
    the fall of F itself.
    """
    setting = check_setting(network, weights, inputs, targets, allocation)
    whole_number("angles", angles, least=2)
    if length is not None and not (math.isfinite(length) and length > 0):
        raise BadInputError(f"length must be a number above 0, not {length}.")
    plastic = setting.plastic
    inside = np.zeros(network.size)
    inside[plastic] = 1.0
    with single_thread():
        outputs = network.forward(setting.weights, setting.inputs)
        signal = error_signal(outputs, setting.targets)
        gradient = inside * setting.flatten(network.vjp(setting.weights, setting.inputs, signal))
        norm = float(np.linalg.norm(gradient))
        if not norm or plastic.size < 2:
            raise BadInputError("a direction to turn to needs a gradient and two plastic weights.")
        ghat = gradient / norm
        bent = inside * hessian_product(setting, ghat)
        if length is None:
            length = norm / float(bent @ ghat) if bent @ ghat > 0 else 1.0
        rng = np.random.default_rng([seed, 0xD1E])
        wild = inside * rng.standard_normal(network.size)
        rows: list[Row] = []
        # u'Hu has the mixed term -2 cos sin ghat'Hv: turning towards +H ghat flattens fastest.
        for name, towards in (("flatter", bent), ("random", wild)):
            v = towards - (towards @ ghat) * ghat
            if np.linalg.norm(v) <= 1e-12 * np.linalg.norm(towards):
                continue  # ghat is an eigenvector: to first order no direction is flatter
            v /= np.linalg.norm(v)
            turn = np.linspace(0.0, math.pi / 2, angles)
            cos, sin = np.cos(turn), np.sin(turn)
            across = float(v @ hessian_product(setting, v))
            bend = cos**2 * (bent @ ghat) - 2 * cos * sin * (bent @ v) + sin**2 * across
            steps = length * (sin[:, None] * v - cos[:, None] * ghat)
            fall = setting.loss(setting.vector) - setting.loss(setting.vector + steps)
            slope, cost = length * norm * cos, 0.5 * length**2 * bend
            rows += [
                {
                    "towards": name,
                    "angle": math.degrees(turn[place]),
                    "slope": float(slope[place]),
                    "curvature": float(cost[place]),
                    "predicted": float(slope[place] - cost[place]),
                    "measured": float(fall[place]),
                }
                for place in range(angles)
            ]
    return rows


def difficulty_against_size(
    path: Sequence[Grown] | Sequence[Geometry],
    gammas: Sequence[Sequence[float]],
    T: float = 1.0,
) -> list[Row]:
    """Local task difficulty, its critical value and the rate at each size, for each ``gamma``.

    The slides' picture has gamma3 = 0.05 and 0.1: a network learns on average where the first curve
    lies below the second, that is where their ``ratio`` is below 1. gamma1 must be above 0.
    """
    for gamma in gammas:
        if not check_gamma(gamma)[0]:
            raise BadInputError("gamma1 must be above 0: without it nothing is learned.")
    geometries = [p.geometry() if isinstance(p, Grown) else p for p in path]
    return [
        {
            "gamma1": float(gamma[0]),
            "gamma2": float(gamma[1]),
            "gamma3": float(gamma[2]),
            "size": geo.plastic,
            "difficulty": geo.difficulty(gamma, T),
            "critical": geo.critical_difficulty(gamma, T),
            "ratio": geo.difficulty(gamma, T) / geo.critical_difficulty(gamma, T),
            "rate": geo.rate(gamma, T),
        }
        for gamma in gammas
        for geo in geometries
    ]


def best_size_against_noise(
    path: Sequence[Grown] | Sequence[Geometry],
    gamma1: float,
    gamma2: float,
    gamma3: Sequence[float],
    T: float = 1.0,
) -> list[Row]:
    """The best size at each level of synaptic noise: less noise allows larger circuits.

    The slides predict that size is inversely related to per-synapse noise; along linear expansion
    with c1 = c2 it is T gamma2^2 / gamma3^2.
    """
    geometries = [p.geometry() if isinstance(p, Grown) else p for p in path]
    rows: list[Row] = []
    for level in gamma3:
        found = best_size(geometries, (gamma1, gamma2, level), T)
        rows.append(
            {
                "gamma3": float(level),
                "best": found.best.value,
                "low": found.bracket[0],
                "high": found.bracket[1],
                "closed_form": found.closed_form.value,
                "slides": found.slides.value,
                "reason": found.best.reason,
            }
        )
    return rows


def sigmoid_path(
    widths: Sequence[int] = (5, 8, 12, 17, 22, 32, 45),
    *,
    layers: int = 5,
    samples: int = 50,
    trained: int = 1000,
    approached: int = 0,
    seed: int = 0,
) -> list[Grown]:
    """The sigmoid student of the published pictures, zero-padded to each of the ``widths``.

    10 inputs, ``layers`` hidden layers, 10 outputs, sigmoids throughout, biases; weights of student and
    teachers uniform with standard deviation 4 / sqrt(n_in). The student of the first width takes
    ``trained`` gradient steps of length 0.05 towards another teacher, on fresh inputs each, then
    ``approached`` such steps towards its own: the later in learning, the smaller the gradient
    beside the curvature.
    """
    whole_number("layers", layers, least=1)
    whole_number("samples", samples, least=1)
    whole_number("trained", trained, least=0)
    whole_number("approached", approached, least=0)
    network = FeedForward(
        (10, *[widths[0]] * layers, 10), activation="sigmoid", output="sigmoid", bias=True
    )
    rng = np.random.default_rng([seed, 0x516])
    student, other, teacher = (_uniform_weights(network, rng) for _ in range(3))
    with single_thread():
        for goal in [other] * trained + [teacher] * approached:
            x = rng.standard_normal((10, samples))
            signal = error_signal(network.forward(student, x), network.forward(goal, x))
            slope = network.vjp(student, x, signal)
            norm = math.sqrt(sum(float(np.sum(part**2)) for part in slope.values()))
            for name, part in slope.items():
                student[name] = student[name] - 0.05 / norm * part
    x = rng.standard_normal((10, samples))
    y = network.forward(teacher, x)
    return [zero_pad(network, student, inputs=x, targets=y, widths=width) for width in widths]


def _uniform_weights(network: FeedForward, rng: np.random.Generator) -> dict[str, Array]:
    """Uniform with standard deviation 4 / sqrt(n_in), the bias counted among the n_in."""
    out = {}
    for name, shape in network.shapes.items():
        entering = network.shapes["W" + name[1:]][1] + 1
        reach = 4.0 * math.sqrt(3.0 / entering)
        out[name] = rng.uniform(-reach, reach, size=shape)
    return out
