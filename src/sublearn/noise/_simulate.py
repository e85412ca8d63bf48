"""Many repeats of a network that learns under noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from sublearn._arrays import PRECISIONS, Array, Floats, Indices
from sublearn._errors import BadInputError, one_of, whole_number
from sublearn._interrupts import heed
from sublearn._seeds import Tag
from sublearn.allocations import Allocation
from sublearn.ensembles import Instance, check_instance
from sublearn.networks import Network, Packed, pack
from sublearn.noise._noise import Noise, check_mixed_size, check_noise
from sublearn.noise._settled import SteadyState, find_steady_state
from sublearn.plots import (
    COLOURS,
    Axes,
    Figure,
    Row,
    Shown,
    figure,
    ink,
    legend,
    name_axes,
    whole_ticks,
)

if TYPE_CHECKING:
    from sublearn.noise._simulate_kernel import Irrelevant, Samples

_INPUTS, _IRRELEVANT, _NOISE = range(3)


@dataclass(frozen=True, eq=False, repr=False)
class Simulation(Shown):
    """Error curves of a network that learns under noise, one row per repeat.

    ``errors[i, t]`` is the loss F before the change of cycle t in repeat ``repeats[i]``; ``weights``
    are those after the last cycle, with a leading axis over repeats. ``other_errors`` are those of the
    second task, where the noise has one.
    """

    errors: Array
    weights: dict[str, Array]
    noise: Noise
    repeats: range
    seed: int
    other_errors: Array | None = None

    @cached_property
    def steady_state(self) -> SteadyState:
        """Mean and standard error of the settled error, and whether it has settled."""
        return find_steady_state(self.errors)

    @property
    def start(self) -> float:
        """The mean error before the first cycle."""
        return float(self.errors[:, 0].mean())

    def final(self, cycles: int = 50) -> Array:
        """Mean error of the last ``cycles`` cycles, per repeat."""
        last = whole_number("cycles", cycles, least=1)
        return np.asarray(self.errors[:, -last:].mean(axis=1))

    @property
    def headline(self) -> str:
        """How many repeats of how many cycles, under which noise."""
        repeats, cycles = self.errors.shape
        noise, kind = self.noise, self.noise.irrelevant
        what = "" if kind is None else f", n2 {kind.word}"
        return f"{repeats} repeats of {cycles} cycles, gamma={noise.gamma}, T={noise.T:g}{what}"

    def __str__(self) -> str:
        return f"error at the start   {self.start:.5g}\nsimulated            {self.steady_state}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        repeats, cycles = self.errors.shape
        counts = {"cycles": cycles, "repeats": repeats, "seed": self.seed, "start": self.start}
        return {**self.noise.to_dict(), **counts, "simulated": self.steady_state.to_dict()}

    @property
    def mean(self) -> tuple[Array, Array]:
        """The mean error over repeats, cycle by cycle, and its standard error (0 for one repeat)."""
        return _over_repeats(self.errors)

    def table(self) -> list[Row]:
        """A row for every cycle: the mean error, its standard error, and every repeat."""
        columns: dict[str, Any] = {"cycle": range(self.errors.shape[1])}
        columns |= zip(("mean", "standard_error"), self.mean, strict=True)
        if self.other_errors is not None:
            both = _over_repeats(self.other_errors)
            columns |= zip(("other_mean", "other_standard_error"), both, strict=True)
        columns |= {f"repeat_{i}": each for i, each in zip(self.repeats, self.errors, strict=True)}
        cells = zip(*(np.asarray(part).tolist() for part in columns.values()), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in cells]

    def draw(self, ax: Axes) -> None:
        """The mean over repeats, two standard errors shaded, and the level at which it settles.

        The mean of a second task is beside it.
        """
        shown = [(self.errors, "mean over repeats")]
        if self.other_errors is not None:
            shown.append((self.other_errors, "second task, mean over repeats"))
        for colour, (errors, label) in enumerate(shown):
            mean, error = _over_repeats(errors)
            time = np.arange(mean.size)
            ax.plot(time, mean, color=COLOURS[colour], linewidth=1.2, label=label)
            low = mean - 2 * error
            # Where the error falls far, its settling shows on a logarithmic scale only.
            if mean.max() > 10.0 * mean.min() > 0.0:
                ax.set_yscale("log")
                low = np.maximum(low, 0.5 * mean.min())  # which has no room for 0 and below
            ax.fill_between(time, low, mean + 2 * error, color=COLOURS[colour], alpha=0.2, lw=0)
        steady, last = self.steady_state, self.errors.shape[1] - 1
        if steady.reached:
            words = f"steady: {steady.mean:.4g}, from cycle {steady.start} on"
            level: dict[str, Any] = {
                "marker": "|",
                "ms": 14,
                "markevery": [0],
                "lw": 1.0,
                "zorder": 3,
            }
            ax.plot([steady.start, last], 2 * [steady.mean], color=ink(), label=words, **level)
        name_axes(ax, "cycle", "error F")
        whole_ticks(ax, "x")

    def plot(self) -> Figure:
        """The error against the cycle."""
        fig, ax = figure()
        self.draw(ax)
        legend(ax)
        return fig


def _over_repeats(errors: Array) -> tuple[Array, Array]:
    """Mean and standard error, cycle by cycle; the latter is 0 for one repeat."""
    spread = errors.std(axis=0, ddof=min(1, len(errors) - 1))
    return errors.mean(axis=0), np.asarray(spread / math.sqrt(len(errors)))


class Repeated(TypedDict, total=False):
    """How far :func:`simulate` goes, and how often."""

    cycles: int
    repeats: int | range
    seed: int
    workers: int
    progress: Callable[[int], None] | None


def simulate(
    instance: Instance | Sequence[Instance],
    noise: Noise,
    *,
    cycles: int = 1500,
    repeats: int | range = 12,
    seed: int = 0,
    fresh: bool = False,
    precision: str = "double",
    workers: int = 1,
    progress: Callable[[int], None] | None = None,
) -> Simulation:
    """Let an instance learn from where it starts, every change made of the three parts of the noise.

    Several instances of one network and allocation, as many as repeats, give every repeat its own.
    With ``fresh`` every cycle has as many new samples, standard normal, from the instance's teacher.
    ``repeats`` may be a range: repeat i depends on (seed, i) alone, so ranges can be computed apart, and
    ``workers`` threads change nothing. ``precision="single"`` is faster, by about 1.4 in deep networks;
    the noise is the same. A second task, if the noise has one, keeps its samples.

    >>> import numpy as np, sublearn as sl
    >>> net = sl.LinearEstimator(inputs=3, outputs=2)
    >>> W, X, Y = np.ones((2, 3)), np.eye(3), np.zeros((2, 3))
    >>> given = sl.Instance(net, sl.Allocation.whole(net), {"W": W}, X, Y)
    >>> run = sl.simulate(given, sl.Noise((0.1, 0.1, 0.01)), cycles=300, repeats=4)
    >>> run.errors.shape, run.errors[:, 0].tolist()
    ((4, 300), [1.0, 1.0, 1.0, 1.0])
    >>> run.steady_state.reached, run.steady_state.mean < 0.1
    (True, True)
    """
    which = check_repeats(repeats)
    check_noise(noise, formula=False)
    whole_number("cycles", cycles, least=1)
    whole_number("seed", seed, least=0)
    whole_number("workers", workers, least=1)
    dtype = PRECISIONS[one_of("precision", precision, PRECISIONS)]
    given = check_instances(instance, len(which))
    check_mixed_size(noise.mixing, len(given[0].allocation))
    run = _Run(
        given, _fresh(given) if fresh else _fixed(given), noise, (len(which), cycles), dtype, seed
    )
    _each(run, which, workers, progress)
    if not np.isfinite(run.errors).all():
        raise BadInputError(
            "the simulated errors overflow: weights, inputs or targets are too large."
        )
    others = run.other_errors if run.second else None
    return Simulation(run.errors, run.chain.matrices(run.final), noise, which, seed, others)


def check_instances(instance: Instance | Sequence[Instance], repeats: int) -> Sequence[Instance]:
    """One instance for all repeats, or one for each, of the same network and allocation."""
    if not isinstance(instance, list | tuple):
        return [check_instance(instance)]
    for one in instance:
        check_instance(one)
    if len(instance) not in (1, repeats):
        raise BadInputError(
            f"instances must be one, or {repeats}, one per repeat, not {len(instance)}."
        )
    first = instance[0]
    for one in instance[1:]:
        if one.network != first.network or one.allocation != first.allocation:
            raise BadInputError("the instances must have one network and one allocation.")
        if one.samples != first.samples:
            raise BadInputError("the instances must have as many samples each.")
    return instance


@dataclass(frozen=True, eq=False)
class _Data:
    """Fixed samples, or the teacher of fresh ones; everything has a leading axis, 1 or repeats."""

    inputs: Array
    targets: Array
    scale: float  # of the sum of squared differences in F
    rest: Array  # the part of F that the inputs cannot explain, (1 or repeats,)
    teacher: Packed | None = None
    teacher_weights: Array | None = None


def _fixed(given: Sequence[Instance]) -> _Data:
    network, m = given[0].network, given[0].samples
    x = np.stack([one.inputs.reshape(-1, m) for one in given])
    y = np.stack([one.targets for one in given])
    x, y, rest = compress(network, x, y)
    scale = 1.0 / (2 * m)
    return _Data(x, y, scale, rest * scale)


def compress(network: Network, x: Array, y: Array) -> tuple[Array, Array, Array]:
    """Fewer samples with the same F up to a constant, where outputs are linear in the inputs.

    With X = L Q and orthonormal rows Q, |M X - Y|^2 = |M L - Y Q'|^2 + |Y - Y Q'Q|^2 for every M.
    """
    if not network.is_linear or network.is_biased or x.shape[-1] <= x.shape[-2]:
        return x, y, np.zeros(1)
    left, values, q = np.linalg.svd(x, full_matrices=False)
    largest = values[..., 0].max()
    floor = largest * x.shape[-1] * np.finfo(np.float64).eps
    kept = max(1, int((values > floor).sum(axis=-1).max()))
    q = q[..., :kept, :]
    short = y @ np.swapaxes(q, -1, -2)
    rest = y - short @ q
    narrow = left[..., :kept] * values[..., None, :kept]
    return narrow, short, np.atleast_1d(np.einsum("...os,...os->...", rest, rest))


def _second(task: Instance | Sequence[Instance], network: Network, repeats: int) -> _Data:
    given = check_instances(task, repeats)
    if given[0].network != network:
        raise BadInputError(
            f"the second task must have the network of the first, {network.spec}, not "
            f"{given[0].network.spec}."
        )
    return _fixed(given)


def _rows(network: Network, chain: Packed) -> Indices:
    """(rows, 2): where each row of each weight matrix begins and ends; biases are left out."""
    biases = {step.bias for step in network.steps}
    ends = []
    for name, place in chain.places.items():
        rows, columns = chain.shapes[name]
        begins = place + columns * np.arange(0 if name in biases else rows, dtype=np.int64)
        ends.append(np.stack([begins, begins + columns], axis=1))
    return np.concatenate(ends)


def _fresh(given: Sequence[Instance]) -> _Data:
    teachers = [one.teacher for one in given if one.teacher is not None]
    if len(teachers) < len(given) or any(t.network != teachers[0].network for t in teachers):
        raise BadInputError(
            "fresh samples need an instance with a teacher, the same network in all: "
            "Instance.from_teacher, or one that is drawn."
        )
    network, m, chain = given[0].network, given[0].samples, pack(teachers[0].network)
    x = np.zeros((1, sum(network.input_blocks), m))
    y = np.zeros((1, network.output_size, m))
    weights = np.stack([chain.flatten(teacher.weights) for teacher in teachers])
    return _Data(x, y, 1.0 / (2 * m), np.zeros(1), chain, weights)


class _Run:
    """What the repeats of a simulation share, and where their errors and last weights go."""

    def __init__(
        self,
        given: Sequence[Instance],
        data: _Data,
        noise: Noise,
        shape: tuple[int, int],
        dtype: Any,
        seed: int,
    ) -> None:
        network, (repeats, cycles) = given[0].network, shape
        self.data, self.noise, self.dtype, self.seed = data, noise, dtype, seed
        self.chain = chain = pack(network, given[0].allocation.names)
        self.existing = chain.positions(Allocation.whole(network))
        self.plastic = chain.positions(given[0].allocation)
        self.start = np.stack([chain.flatten(one.start) for one in given])
        # Change of no length is no change, whatever its kind.
        self.other = noise.irrelevant if noise.gamma[1] else None
        task = None if self.other is None else self.other.instance
        self.second = None if task is None else _second(task, network, repeats)
        self.rows = _rows(network, chain)
        self.errors, self.final = np.empty(shape), np.empty((repeats, chain.size))
        self.other_errors = np.empty((repeats, cycles if self.second else 0))

    def repeat(self, number: int, row: int) -> None:
        """Repeat ``number`` of the seed, from row ``row`` of weights and data."""
        from sublearn.noise._simulate_kernel import Chain, Learned, Levels, Part, run_repeat
        from sublearn.noise._simulate_random import stream

        chain, data, noise = self.chain, self.data, self.noise
        whole = np.arange(0, dtype=np.int64)
        plastic, noisy = (
            Part(whole if index.size == chain.size else index, chain.bounds_of(index))
            for index in (self.plastic, self.existing if noise.on == "all" else self.plastic)
        )
        w = self.start[row % len(self.start)].astype(self.dtype)
        teacher_w = np.empty(0, dtype=self.dtype)
        teacher_table = chain.table[:0]
        if data.teacher is not None and data.teacher_weights is not None:
            teacher_table = data.teacher.table
            teacher_w = data.teacher_weights[row % len(data.teacher_weights)].astype(self.dtype)
        kinds = (_INPUTS, _IRRELEVANT, _NOISE)
        streams = np.stack([stream(Tag.SIMULATION, self.seed, number, kind) for kind in kinds])
        run_repeat(
            Chain(chain.table, w),
            plastic,
            noisy,
            Learned(self.samples(data, row), Chain(teacher_table, teacher_w)),
            streams,
            Levels(np.array(noise.gamma), noise.T, noise.mixing, noise.norm == "layers"),
            self.irrelevant(row, w),
            self.errors[row],
        )
        self.errors[row] += data.rest[row % len(data.rest)]
        if self.second is not None:
            self.other_errors[row] += self.second.rest[row % len(self.second.rest)]
        self.final[row] = w

    def samples(self, data: _Data, row: int) -> Samples:
        from sublearn.noise._simulate_kernel import Samples

        x, y = (
            np.array(part[row % len(part)], dtype=self.dtype, order="C")
            for part in (data.inputs, data.targets)
        )
        return Samples(x, y, data.scale)

    def irrelevant(self, row: int, w: Floats) -> Irrelevant:
        """What n2 is in this row, with nothing in the place of what it is not."""
        from sublearn.noise import _simulate_kernel as kernel

        none = np.empty((0, 0), dtype=self.dtype)
        kind, data, norms = kernel.WHITE, kernel.Samples(none, none, 0.0), np.empty(0)
        if self.second is not None:
            kind, data = kernel.DOWNHILL, self.samples(self.second, row)
        elif self.other is not None:
            kind = kernel.TO_NORM
            norms = np.array(self.other.norms([w[begin:end] for begin, end in self.rows]))
        return kernel.Irrelevant(kind, data, self.other_errors[row], self.rows, norms)


def _each(run: _Run, which: range, workers: int, progress: Callable[[int], None] | None) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from sublearn._threads import single_thread

    with single_thread(), ThreadPoolExecutor(workers) as pool:
        # One worker is this thread itself: Ctrl-C then ends it between two repeats.
        each = map if workers == 1 else pool.map
        for done, _ in enumerate(each(run.repeat, which, range(len(which))), 1):
            if progress is not None:
                progress(done)
            heed()


def check_repeats(repeats: int | range) -> range:
    """So many repeats from 0 on, or a range of them."""
    if isinstance(repeats, range):
        if not len(repeats) or min(repeats) < 0:
            raise BadInputError(f"repeats must be a range of numbers from 0 on, not {repeats!r}.")
        return repeats
    return range(whole_number("repeats", repeats, least=1))
