"""The noise of one cycle: how far each part of a change goes, and where it falls.

Task-irrelevant change may be no white noise, but learning on another task or homeostasis, which the slides
name as its examples. Its direction is then decided by the weights, so it is not independent of gradient and
curvature, which every formula of this room takes it to be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from sublearn._arrays import Array, Floats
from sublearn._errors import (
    BadInputError,
    as_float,
    fraction,
    one_of,
    positive,
    shown,
    whole_number,
)
from sublearn.ensembles import Instance, check_instance

Gamma = tuple[float, float, float]

NOISE_ON = ("plastic", "all")
NORMS = ("l2", "layers")


@dataclass(frozen=True, eq=False)
class SecondTask:
    """n2 = -g2/|g2|, g2 the gradient of another task's loss on the plastic weights: learning on other tasks.

    ``instance`` gives the network and the samples of that task, or several do, one for each repeat; which
    weights are plastic and where they start, the first task says.

    >>> import numpy as np, sublearn as sl
    >>> net, W, X = sl.LinearEstimator(inputs=2, outputs=1), np.zeros((1, 2)), np.eye(2)
    >>> first, second = (
    ...     sl.Instance(net, sl.Allocation.whole(net), {"W": W}, X[:, [k]], np.ones((1, 1))) for k in (0, 1)
    ... )
    >>> noise = sl.Noise((0.1, 0.1, 0.0), irrelevant=sl.noise.SecondTask(second))
    >>> sl.simulate(first, noise, cycles=5, repeats=1).weights["W"].round(3).tolist()
    [[[0.5, 0.5]]]
    """

    word: ClassVar[str] = "a second task"

    instance: Instance | Sequence[Instance]

    def __post_init__(self) -> None:
        several = isinstance(self.instance, list | tuple)
        tasks: Sequence[Instance] = self.instance if several else [self.instance]  # type: ignore
        for one in tasks:
            check_instance(one)
        object.__setattr__(self, "instance", tuple(tasks) if several else self.instance)

    def norms(self, rows: Sequence[Floats]) -> list[float]:
        """To which it pulls each row of weights that start like this: it pulls none."""
        return []


@dataclass(frozen=True)
class Homeostasis:
    """n2 pulls every unit's incoming weights to a norm: -d/|d|, d the gradient of sum (|w_i| - norm)^2 / 2.

    w_i are the rows of the weight matrices, frozen entries counted; biases are left alone. Only plastic
    weights move. Without a ``norm`` each row has that with which the simulation starts.

    >>> import numpy as np, sublearn as sl
    >>> net = sl.LinearEstimator(inputs=2, outputs=1)
    >>> given = sl.Instance(net, sl.Allocation.whole(net), {"W": [[3.0, 4.0]]}, np.eye(2), np.zeros((1, 2)))
    >>> noise = sl.Noise((0.0, 0.5, 0.0), irrelevant=sl.noise.Homeostasis(norm=3.0))
    >>> sl.simulate(given, noise, cycles=4, repeats=1).weights["W"].round(3).tolist()
    [[[1.8, 2.4]]]
    """

    word: ClassVar[str] = "homeostasis"
    instance: ClassVar[None] = None  # it goes down no other task's loss

    norm: float | None = None

    def __post_init__(self) -> None:
        if self.norm is not None:
            object.__setattr__(self, "norm", positive("norm", self.norm))

    def norms(self, rows: Sequence[Floats]) -> list[float]:
        """To which it pulls each row of weights that start like this."""
        if self.norm is not None:
            return [self.norm] * len(rows)
        # Summed as the kernel does: by a last bit more or less a row would be off its own norm, and be
        # pulled at full length.
        return [math.sqrt(np.cumsum(row * row, dtype=np.float64)[-1]) for row in rows]


Irrelevant = SecondTask | Homeostasis


@dataclass(frozen=True)
class Noise:
    """What moves the weights in one cycle of time ``T``: dw = T wdot,

        wdot = -gamma1 g/|g| + gamma2 n2 + gamma3 sqrt(N/T) n3,

    with ``gamma`` = (gamma1, gamma2, gamma3), g the gradient on the plastic weights, n2 a random unit
    direction on them, and n3 one on the N weights that synaptic noise falls ``on``: the "plastic" ones,
    or "all" (Raman, Rotondo and O'Leary 2019). ``mixing`` = c makes n2 <- unit(c n2 + (1 - c) new).
    ``norm`` "layers" measures lengths by the sum of the norms of the layers, a layer being a matrix with
    its bias, as the published code does; the formulas are for "l2". ``irrelevant`` says what n2 is if it
    is no random direction: :class:`SecondTask` or :class:`Homeostasis`, for which no formula holds.

    >>> Noise((0.1, 0.3, 0.02), T=2.0).gamma
    (0.1, 0.3, 0.02)
    """

    gamma: Gamma
    T: float = 1.0
    mixing: float = 0.0
    on: str = "plastic"
    norm: str = "l2"
    irrelevant: Irrelevant | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", _levels(self.gamma))
        object.__setattr__(self, "T", positive("T, the time of one cycle,", self.T))
        object.__setattr__(self, "mixing", fraction("mixing", self.mixing))
        one_of("noise on", self.on, NOISE_ON)
        one_of("norm", self.norm, NORMS)
        if not isinstance(self.irrelevant, Irrelevant | None):
            raise BadInputError(
                "irrelevant must be None, for white change, or a SecondTask or a Homeostasis, not "
                f"{self.irrelevant!r}."
            )
        if self.irrelevant is not None and self.mixing:
            raise BadInputError(
                f"mixing must be 0 where n2 is {self.irrelevant.word}, not {self.mixing:g}."
            )

    @property
    def no_formula(self) -> str:
        """Why no formula for white change holds here; empty where one does."""
        if self.irrelevant is None or not self.gamma[1]:
            return ""
        return (
            "the formulas take task-irrelevant change to be independent of gradient and curvature, and "
            f"it is not where it is {self.irrelevant.word}."
        )

    def with_level(self, place: int, level: float) -> Noise:
        """The same noise with gamma1, gamma2 or gamma3 (``place`` 0, 1 or 2) at another level."""
        levels = list(self.gamma)
        levels[place] = level
        return replace(self, gamma=(levels[0], levels[1], levels[2]))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        word = "white" if self.irrelevant is None else self.irrelevant.word
        named = {"noise_on": self.on, "norm": self.norm, "irrelevant": word}
        return {"gamma": list(self.gamma), "T": self.T, "mixing": self.mixing, **named}


def check_noise(noise: object, *, formula: bool = True, white: bool = True) -> Noise:
    """``noise`` itself, or a sentence: no Noise, or one that no ``formula``, for ``white`` change, is for."""
    if not isinstance(noise, Noise):
        raise BadInputError(f"noise must be a Noise((gamma1, gamma2, gamma3)), not {noise!r}.")
    if formula and noise.norm != "l2":
        raise BadInputError(f"the formulas are for lengths by norm 'l2', not {noise.norm!r}.")
    if formula and white and noise.no_formula:
        raise BadInputError(noise.no_formula)
    return noise


def _levels(gamma: object) -> Gamma:
    values = tuple(gamma) if isinstance(gamma, tuple | list | np.ndarray) else ()
    if len(values) != 3 or not all(0 <= as_float(value) < math.inf for value in values):
        raise BadInputError(
            f"gamma must be three numbers of at least 0, (gamma1, gamma2, gamma3), not {shown(gamma)}."
        )
    return float(values[0]), float(values[1]), float(values[2])


def step_correlation(mixing: float, size: int | None = None) -> float:
    """Correlation of n2 from one cycle to the next when n2 <- unit(c n2 + (1 - c) new), c = mixing.

    <n2(t) . n2(t + j)> = rho^j in any number of dimensions, since the mean of the next direction is rho
    times this one. In ``size`` dimensions rho is a mean over the angle to the new direction; without
    ``size`` it is the limit of many, where a new direction is orthogonal: rho = c / sqrt(c^2 + (1 - c)^2).
    The difference is rho (1 - rho^2)(1 - 3 rho^2 / 2) / size, to first order. In one dimension
    rho is 0 for c < 1/2, and 1 for c > 1/2: the sign never changes.

    >>> round(step_correlation(0.1), 3), round(step_correlation(0.1, size=2), 3)
    (0.11, 0.056)
    """
    fraction("mixing", mixing)
    if size is None or not mixing:
        return float(mixing / np.hypot(mixing, 1.0 - mixing))
    check_mixed_size(mixing, whole_number("size", size, least=1))
    if size == 1:
        return float(mixing > 0.5)
    u, chance = cosines(size, 256)
    along, length2 = mixing + (1.0 - mixing) * u, mixing**2 + (1.0 - mixing) ** 2
    return float(chance @ (along / np.sqrt(length2 + 2.0 * mixing * (1.0 - mixing) * u)))


def check_mixed_size(mixing: float, size: int) -> None:
    """Refuse the one case in which the old and the new direction may cancel."""
    if size == 1 and mixing == 0.5:
        raise BadInputError(
            "mixing must not be 0.5 for one plastic weight: the old and the new direction may cancel."
        )


_FEW = 64


def cosines(size: int, count: int) -> tuple[Array, Array]:
    """Nodes and weights for the cosine u of the angle between two random directions.

    Its density is (1 - u^2)^((size - 3)/2); in one dimension it is 1 or -1.

    >>> nodes, weights = cosines(5, 64)
    >>> round(float(weights @ nodes**2), 12)             # 1 / size
    0.2
    """
    if size == 1:
        return np.array([-1.0, 1.0]), np.array([0.5, 0.5])
    if size <= _FEW:
        nodes, weights = np.polynomial.legendre.leggauss(count)
        angle = (nodes + 1.0) * math.pi / 2.0
    else:
        # A peak that vanishes with many derivatives at both ends, where midpoints are as good.
        points = max(count, math.ceil(8.0 * math.sqrt(size)))
        angle, weights = (np.arange(points) + 0.5) * math.pi / points, np.ones(points)
    weights = weights * np.exp((size - 2.0) * np.log(np.sin(angle)))
    return np.cos(angle), weights / weights.sum()
