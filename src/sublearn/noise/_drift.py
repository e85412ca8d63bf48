"""Noise on all weights while only some are plastic: does the error drift, and how fast?

The frozen weights walk at random, each with variance gamma3^2 T per cycle. The plastic ones follow
the minimum as it moves. With H split into plastic M and frozen Z, the minimum over the plastic
weights is F_min = const + 1/2 z'S z with the Schur complement S = H_ZZ - H_ZM H_MM^+ H_MZ, so

    dF_min / dt = (gamma3^2 / 2) Tr S,

T times that per cycle, where F is quadratic in all weights together. There is a steady state only
where Tr S = 0: where the plastic weights can make up for every change of the outputs that the frozen
ones cause. Where F is not quadratic in all weights, H changes as the frozen ones walk: the formula is
the slope at the given weights, and Tr S = 0 does not mean that the error stays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sublearn._arrays import Array
from sublearn._errors import BadInputError, whole_number
from sublearn._threads import single_thread
from sublearn.allocations import Allocation
from sublearn.ensembles import Instance, check_instance
from sublearn.noise._noise import Noise, check_noise
from sublearn.noise._simulate import Simulation
from sublearn.noise._steady import frozen_noise, plastic_modes
from sublearn.verdicts import is_affine


@dataclass(frozen=True)
class Drift:
    """How fast the error grows: ``per_cycle``, with its ``standard_error`` where it was measured.

    ``schur_trace`` = Tr S where it was predicted; ``local``: F is not quadratic in all weights, and the
    prediction is the slope at these weights alone. ``compensated``: the plastic weights can make up
    for every change of the frozen ones, so that nothing drifts; never said of a local prediction.
    """

    per_cycle: float
    standard_error: float = 0.0
    schur_trace: float = math.nan
    local: bool = False

    @property
    def compensated(self) -> bool:
        return self.schur_trace == 0.0 and not self.local


def predict_drift(instance: Instance, noise: Noise) -> Drift:
    """(gamma3^2 T / 2) Tr S per cycle, whatever else the noise says of where it falls; see the module.

    With J_M, J_Z the plastic and frozen columns of the Jacobian and P the projection onto the range
    of J_M, Tr S = |(1 - P) J_Z|^2 / m. Exact where the outputs are affine in all weights together, as
    in a linear estimator; elsewhere it is ``local``: the slope at these weights by Gauss-Newton.

    >>> import numpy as np, sublearn as sl
    >>> net = sl.LinearEstimator(inputs=4, outputs=2)
    >>> X, W = 2.0 * np.eye(4), np.ones((2, 4))             # H is the identity
    >>> given = sl.Instance(net, sl.Allocation.from_rows(net, "W", [0]), {"W": W}, X, W)
    >>> found = sl.noise.predict_drift(given, sl.Noise((0.0, 0.0, 0.1), on="all"))
    >>> round(found.schur_trace, 12), round(found.per_cycle, 12)
    (4.0, 0.02)
    """
    network, gamma3 = check_instance(instance).network, check_noise(noise).gamma[2]
    with single_thread():
        _, trace = frozen_noise(plastic_modes(instance))
        local = not is_affine(network, Allocation.whole(network))
    return Drift(0.5 * gamma3**2 * noise.T * trace, schur_trace=trace, local=local)


def measure_drift(run: Simulation, start: int) -> Drift:
    """The slope of the error curves from cycle ``start`` on, by least squares, over repeats."""
    errors: Array = run.errors
    whole_number("start", start, least=0)
    repeats, cycles = errors.shape
    if cycles - start < 2:
        raise BadInputError(f"start must leave at least 2 of the {cycles} cycles, not {start}.")
    if repeats < 2:
        raise BadInputError("a drift is measured over at least 2 repeats.")
    time = np.arange(cycles - start) - (cycles - start - 1) / 2.0
    slopes = errors[:, start:] @ time / float(time @ time)
    return Drift(float(slopes.mean()), float(slopes.std(ddof=1) / math.sqrt(repeats)))
