"""Many repeats of a network that learns under noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from sublearn._arrays import Array, Indices
from sublearn._errors import BadInputError, one_of, whole_number
from sublearn.allocations import Allocation
from sublearn.networks import Network
from sublearn.noise._loss import NOISE_ON, Gamma, check_duration, check_gamma
from sublearn.noise._simulate_data import (
    FreshInputs,
    SimulationData,
    flat_weights,
    one_per_repeat,
    plastic_set,
    read_data,
)
from sublearn.noise._simulate_settled import SteadyState, find_steady_state
from sublearn.noise._sphere import cosines

if TYPE_CHECKING:
    from sublearn.noise._simulate_chain import Chain


NORMS = ("l2", "layers")
PRECISIONS = {"double": np.float64, "single": np.float32}
_INPUTS, _IRRELEVANT, _NOISE = range(3)
_TAG = 0x51A7  # keeps these streams apart from others of the same seed


@dataclass(frozen=True, eq=False)
class Simulation:
    """Error curves of a network that learns under noise, one row per repeat.

    ``errors[i, t]`` is the loss F before the change of cycle t in repeat ``repeats[i]``; ``weights``
    are those after the last cycle, with a leading axis over repeats.
    """

    errors: Array
    weights: dict[str, Array]
    gamma: Gamma
    T: float
    repeats: range
    seed: int

    @cached_property
    def steady_state(self) -> SteadyState:
        """Mean and standard error of the settled error, and whether it has settled."""
        return find_steady_state(self.errors)

    def final(self, cycles: int = 50) -> Array:
        """Mean error of the last ``cycles`` cycles, per repeat."""
        last = whole_number("cycles", cycles, least=1)
        return np.asarray(self.errors[:, -last:].mean(axis=1))

    def __repr__(self) -> str:
        repeats, cycles = self.errors.shape
        return (
            f"<Simulation {repeats} repeats of {cycles} cycles, gamma={self.gamma}, T={self.T:g}>"
        )


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
    check_mixing(mixing)
    if size is None or not mixing:
        return float(mixing / np.hypot(mixing, 1.0 - mixing))
    check_mixed_size(mixing, whole_number("size", size, least=1))
    if size == 1:
        return float(mixing > 0.5)
    u, chance = cosines(size, 256)
    along, length2 = mixing + (1.0 - mixing) * u, mixing**2 + (1.0 - mixing) ** 2
    return float(chance @ (along / np.sqrt(length2 + 2.0 * mixing * (1.0 - mixing) * u)))


def simulate(
    network: Network,
    weights: Mapping[str, ArrayLike],
    *,
    inputs: ArrayLike | FreshInputs,
    targets: ArrayLike | None = None,
    allocation: Allocation | None = None,
    gamma: Sequence[float],
    T: float = 1.0,
    cycles: int = 1500,
    repeats: int | range = 12,
    seed: int = 0,
    mixing: float = 0.0,
    norm: str = "l2",
    noise_on: str = "plastic",
    precision: str = "double",
    workers: int = 1,
    progress: Callable[[int], None] | None = None,
) -> Simulation:
    """Let the network learn with a useful, a task-irrelevant and a noisy part of every change.

    Each cycle changes the weights by dw = T wdot,

        wdot = -gamma1 g/|g| + gamma2 n2 + gamma3 sqrt(N/T) n3,

    where g is the gradient of F = 1/(2m) sum |y - y*|^2 and n2, n3 are random directions of length 1
    (the slides' model; Raman, Rotondo and O'Leary 2019). g and n2 live on the plastic weights; n3 on
    the plastic ones or, with ``noise_on="all"``, on all; N is how many n3 acts on. ``mixing`` = c
    makes n2 <- unit(c n2 + (1 - c) new). ``norm="layers"`` measures g, n2 and n3 by the sum of the
    norms of the layers, a layer being a matrix with its bias, as the published code does.

    Weights, inputs and targets may have a leading axis, one item per repeat. With
    :class:`FreshInputs` every cycle has new samples. ``repeats`` may be a range: repeat i depends on
    (seed, i) alone, so ranges can be computed apart, and ``workers`` threads change nothing.
    ``precision="single"`` is faster, by about 1.4 in deep networks; the noise is the same.

    >>> import sublearn as sl
    >>> net = sl.LinearEstimator(inputs=3, outputs=2)
    >>> X = np.eye(3)
    >>> run = sl.simulate(net, {"W": np.ones((2, 3))}, inputs=X, targets=np.zeros((2, 3)),
    ...                   gamma=(0.1, 0.1, 0.01), cycles=300, repeats=4)
    >>> run.errors.shape, run.errors[:, 0].tolist()
    ((4, 300), [1.0, 1.0, 1.0, 1.0])
    >>> run.steady_state.reached, run.steady_state.mean < 0.1
    (True, True)
    """
    which = check_repeats(repeats)
    g = check_gamma(gamma)
    duration = check_duration(T)
    whole_number("cycles", cycles, least=1)
    whole_number("seed", seed, least=0)
    whole_number("workers", workers, least=1)
    check_mixing(mixing)
    one_of("norm", norm, NORMS)
    one_of("noise_on", noise_on, NOISE_ON)
    dtype = PRECISIONS[one_of("precision", precision, PRECISIONS)]
    plastic = plastic_set(network, allocation)
    check_mixed_size(mixing, len(plastic))
    from sublearn.noise._simulate_chain import chain_of

    chain = chain_of(network, plastic)
    start = one_per_repeat("weights", flat_weights(network, chain, weights), len(which), 1)
    data = read_data(network, inputs, targets, len(which))
    run = _Run(
        chain=chain,
        plastic=chain.positions(plastic),
        everywhere=noise_on == "all",
        data=data,
        gamma=np.array(g),
        T=duration,
        mixing=float(mixing),
        summed=norm == "layers",
        cycles=cycles,
        dtype=dtype,
        seed=seed,
    )
    errors = np.empty((len(which), cycles))
    final = np.empty((len(which), chain.size))
    _each(run, which, start, errors, final, workers, progress)
    if not np.isfinite(errors).all():
        raise BadInputError(
            "the simulated errors overflow: weights, inputs or targets are too large."
        )
    return Simulation(errors, chain.matrices(final), g, duration, which, seed)


@dataclass(frozen=True, eq=False)
class _Run:
    chain: Chain
    plastic: Indices
    everywhere: bool
    data: SimulationData
    gamma: Array
    T: float
    mixing: float
    summed: bool
    cycles: int
    dtype: Any
    seed: int

    def repeat(self, number: int, row: int, start: Array, errors: Array, final: Array) -> None:
        """Repeat ``number`` of the seed, from row ``row`` of weights and data."""
        from sublearn.noise._simulate_kernel import run_repeat
        from sublearn.noise._simulate_random import stream

        chain, data = self.chain, self.data
        whole = np.arange(0, dtype=np.int64)
        plastic = whole if self.plastic.size == chain.size else self.plastic
        bounds = chain.bounds_of(self.plastic)
        noisy, noisy_bounds = (whole, chain.bounds) if self.everywhere else (plastic, bounds)
        w = start[row % len(start)].astype(self.dtype)
        teacher_w = np.empty(0, dtype=self.dtype)
        teacher_table = chain.table[:0]
        if data.teacher is not None and data.teacher_weights is not None:
            teacher_table = data.teacher.table
            teacher_w = data.teacher_weights[row % len(data.teacher_weights)].astype(self.dtype)
        kinds = (_INPUTS, _IRRELEVANT, _NOISE)
        streams = np.stack([stream(_TAG, self.seed, number, kind) for kind in kinds])
        run_repeat(
            chain.table,
            w,
            plastic,
            bounds,
            noisy,
            noisy_bounds,
            np.array(data.inputs[row % len(data.inputs)], dtype=self.dtype, order="C"),
            np.array(data.targets[row % len(data.targets)], dtype=self.dtype, order="C"),
            teacher_table,
            teacher_w,
            streams,
            self.gamma,
            self.T,
            self.mixing,
            self.summed,
            data.scale,
            errors[row],
        )
        errors[row] += data.rest[row % len(data.rest)]
        final[row] = w


def _each(
    run: _Run,
    which: range,
    start: Array,
    errors: Array,
    final: Array,
    workers: int,
    progress: Callable[[int], None] | None,
) -> None:
    from sublearn._threads import single_thread

    with single_thread():
        if workers == 1:
            for row, number in enumerate(which):
                run.repeat(number, row, start, errors, final)
                if progress is not None:
                    progress(row + 1)
            return
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(workers) as pool:
            jobs = [
                pool.submit(run.repeat, number, row, start, errors, final)
                for row, number in enumerate(which)
            ]
            for done, job in enumerate(jobs, 1):
                job.result()
                if progress is not None:
                    progress(done)


def check_repeats(repeats: int | range) -> range:
    if isinstance(repeats, range):
        if not len(repeats) or min(repeats) < 0:
            raise BadInputError(f"repeats must be a range of numbers from 0 on, not {repeats!r}.")
        return repeats
    return range(whole_number("repeats", repeats, least=1))


def check_mixing(mixing: float) -> None:
    good = isinstance(mixing, int | float | np.floating) and not isinstance(mixing, bool)
    if not good or not 0 <= mixing < 1:
        raise BadInputError(
            f"mixing must be a number from 0 up to, not including, 1, not {mixing!r}."
        )


def check_mixed_size(mixing: float, size: int) -> None:
    if size == 1 and mixing == 0.5:
        raise BadInputError(
            "mixing must not be 0.5 for one plastic weight: the old and the new direction may cancel."
        )
