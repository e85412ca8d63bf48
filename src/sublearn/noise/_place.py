"""Where a fixed number of plastic weights should sit when synapses are noisy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sublearn._arrays import Array
from sublearn._errors import BadInputError
from sublearn.allocations import Allocation
from sublearn.ensembles import Problem
from sublearn.networks import Network
from sublearn.noise._geometry import local_geometry
from sublearn.noise._loss import Gamma, check_duration, check_gamma
from sublearn.noise._simulate import check_repeats, simulate
from sublearn.noise._simulate_data import numbers
from sublearn.noise._simulate_settled import SteadyState, find_steady_state
from sublearn.noise._steady import KINDS, predict_steady_state
from sublearn.verdicts import Verdict, certify


@dataclass(frozen=True, eq=False)
class PlacementRow:
    """One allocation, by what it can express and by how it learns.

    Errors are relative to the error at the start, each repeat to its own: ``minimum`` F_min,
    ``predicted`` the predicted steady state, ``steady`` the simulated one. ``rate`` is the mean learning
    rate <k> at the start, ``modes`` the rank of H_M, ``drift`` the predicted growth per cycle where
    noise falls on all weights. All are means over the drawn lessons. ``kind`` and ``reason`` are those of
    the prediction, of the least sure one over the lessons (see :class:`SteadyPrediction`); where the
    kind is none ``predicted`` is NaN, or infinite if the error grows for ever. ``local``: F is not
    quadratic in the weights that move, so ``rate`` is that of the second order at the given weights,
    and ``minimum`` is the one that least squares finds from them.
    """

    name: str
    allocation: Allocation
    verdict: Verdict
    rate: float
    modes: float
    minimum: float
    predicted: float
    drift: float
    kind: str
    reason: str
    local: bool
    steady: SteadyState
    curve: Array  # the simulated errors cycle by cycle, over repeats

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "name": self.name,
            "digest": self.allocation.digest,
            "verdict": self.verdict.kind,
            "grade": self.verdict.grade.to_dict(),
            "rank": self.verdict.rank,
            "needed": self.verdict.needed,
            "rate": self.rate,
            "modes": self.modes,
            "minimum": self.minimum,
            "predicted": self.predicted if math.isfinite(self.predicted) else None,
            "drift": self.drift,
            "kind": self.kind,
            "reason": self.reason,
            "local": self.local,
            "simulated": self.steady.to_dict(),
        }


@dataclass(frozen=True, eq=False)
class Placement:
    """Allocations of the same budget compared, best first by the simulated error."""

    rows: tuple[PlacementRow, ...]
    gamma: Gamma
    T: float
    plastic: int
    noise_on: str
    cycles: int

    @property
    def best(self) -> PlacementRow:
        """The allocation with the smallest simulated error."""
        return self.rows[0]

    def margin(self, row: PlacementRow) -> tuple[float, float]:
        """How much more error than the best: the mean over repeats pair by pair, its standard error."""
        gap = row.steady.per_repeat - self.best.steady.per_repeat
        if gap.size < 2:
            return float(gap.mean()), math.nan
        return float(gap.mean()), float(gap.std(ddof=1) / math.sqrt(gap.size))

    @property
    def recommendation(self) -> str:
        """What the table means, in a few sentences."""
        best, others = self.best, self.rows[1:]
        level = f"{best.steady.mean:.2f} of the error at the start"
        lost = [row for row in others if not self._ties(row)]
        if not others:
            words = f"{best.name}: the error comes to {level}."
        elif not lost:
            gap, error = max(self.margin(row) for row in others)
            words = (
                f"No placement is clearly better: {best.name} comes to {level}, and none is worse by more "
                f"than {gap:.2f} +- {error:.1g}."
            )
        else:
            worst = max(lost, key=lambda row: self.margin(row)[0])
            gap, error = self.margin(worst)
            names = " or ".join([best.name, *(row.name for row in others if row not in lost)])
            words = (
                f"Place them {names}: the error comes to {level}, against {worst.steady.mean:.2f} for "
                f"{worst.name} (difference {gap:.2f} +- {error:.1g})."
            )
        return " ".join([words, *self._why(lost)])

    def _ties(self, row: PlacementRow) -> bool:
        gap, error = self.margin(row)
        # Differences below a hundredth of the start are of no use, however sure they are.
        return gap <= 0.01 or (math.isfinite(error) and gap <= 2.0 * error)

    def _why(self, lost: list[PlacementRow]) -> list[str]:
        best, out = self.best, []
        # A local minimum is the one that was found: what lies below it is not known.
        lost = [row for row in lost if not (row.local or best.local)]
        if any(row.minimum < best.minimum - 0.01 and row.modes > best.modes for row in lost):
            out.append(
                "It cannot come as low without noise, but it has fewer modes for the noise to excite."
            )
        elif any(row.minimum > best.minimum + 0.01 for row in lost):
            out.append("It leaves less error that no plastic weight can remove.")
        if best.verdict.kind == "minimal" and not any(
            row.verdict.kind == "maximal" for row in self.rows
        ):
            out.append(f"None matches exactly: {best.verdict.needed} weights would be needed.")
        elif best.verdict.kind != "maximal" and any(
            row.verdict.kind == "maximal" for row in self.rows
        ):
            sure = next(row.name for row in self.rows if row.verdict.kind == "maximal")
            out.append(f"For an exact match without noise take {sure}.")
        if best.drift > 0 and self.noise_on == "all":
            out.append(f"The error keeps growing, by {best.drift:.2g} per cycle.")
        elif not best.steady.reached:
            out.append(f"The errors have not settled in {self.cycles} cycles.")
        elif best.kind == "none":
            out.append(
                f"They are level over these {self.cycles} cycles, but no steady state is known: "
                f"{best.reason}"
            )
        return out + self._how_far()

    def _how_far(self) -> list[str]:
        """Where the formulas are no more than a local picture."""
        if any(row.kind == "bound" and math.isfinite(row.predicted) for row in self.rows):
            marked = ["~ marks an estimate: few modes, or long steps."]
        else:
            marked = []
        names = [row.name for row in self.rows if row.local]
        if not names:
            return marked
        whose = "" if len(names) == len(self.rows) else f" of {' and '.join(names)}"
        return [
            *marked,
            f"Rate and F_min{whose} are local: second order at the given weights, and the minimum found "
            "from them; no steady state is predicted there.",
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "plastic": self.plastic,
            "gamma": list(self.gamma),
            "T": self.T,
            "noise_on": self.noise_on,
            "cycles": self.cycles,
            "local": any(row.local for row in self.rows),
            "rows": [row.to_dict() for row in self.rows],
            "recommendation": self.recommendation,
        }

    def __str__(self) -> str:
        head = (
            f"{'placement':<13} {'verdict':<9} {'rank':>9}   {'rate':>8}  {'modes':>6}  {'F_min':>6}  "
            f"{'predicted':>9}  {'simulated':>16}"
        )
        lines = [head]
        for row in self.rows:
            rank = f"{row.verdict.rank}/{row.verdict.needed}"
            mark = "" if row.steady.reached else " not settled"
            predicted = _shown(row)
            simulated = f"{row.steady.mean:.3f} +- {row.steady.standard_error:.3f}"
            lines.append(
                f"{row.name:<13} {row.verdict.kind:<9} {rank:>9}   {row.rate:>8.4f}  {row.modes:>6.4g}  "
                f"{row.minimum:>6.3f}  {predicted:>9}  {simulated:>16}{mark}"
            )
        return "\n".join([*lines, self.recommendation])


def _shown(row: PlacementRow) -> str:
    if math.isfinite(row.predicted):
        return f"{row.predicted:.3f}{'~' if row.kind == 'bound' else ''}"
    return "drifts" if row.drift else "none"


def place(
    network: Network,
    weights: Mapping[str, ArrayLike],
    *,
    inputs: ArrayLike,
    targets: ArrayLike,
    allocations: Mapping[str, Allocation],
    gamma: Sequence[float],
    T: float = 1.0,
    cycles: int = 3000,
    repeats: int | range = 8,
    seed: int = 0,
    mixing: float = 0.0,
    noise_on: str = "plastic",
    workers: int = 1,
    progress: Callable[[str], None] | None = None,
) -> Placement:
    """Compare allocations of the same number of plastic weights, and say which to take.

    By expressivity: :func:`certify`'s verdict and rank, for generic weights and inputs. By learning: the
    mean rate at the start, F_min, the predicted and the simulated steady state, for these weights and
    inputs. Weights, inputs and targets may have a leading axis over repeats, one lesson each. The
    noise of a repeat is the same for every allocation, so differences are taken pair by pair.

    >>> import sublearn as sl
    >>> problem = sl.Problem(sl.LinearEstimator(inputs=8, outputs=4), samples=2, ensemble=sl.Gaussian(4))
    >>> W, X, Y = sl.noise.draw_lessons(problem, repeats=4)
    >>> found = sl.place(problem.network, W, inputs=X, targets=Y, gamma=(0.1, 0.3, 0.01), repeats=4,
    ...                  allocations=sl.noise.candidate_placements(problem, 8), cycles=500)
    >>> [row.name for row in found.rows], found.rows[-1].verdict.kind
    (['spread', 'designed', 'concentrated'], 'minimal')
    """
    which = check_repeats(repeats)
    levels, duration = check_gamma(gamma), check_duration(T)
    held = _check(network, allocations)
    w = {name: numbers(f"weight {name}", value) for name, value in weights.items()}
    x, y = numbers("inputs", inputs), numbers("targets", targets)
    network.check_weights(w)
    lessons = list(_lessons(network, w, x, y, len(which)))
    rows: list[PlacementRow] = []
    for name, allocation in held.items():
        if progress is not None:
            progress(name)
        twin = next((row for row in rows if row.allocation == allocation), None)
        if twin is not None:
            rows.append(replace(twin, name=name))
            continue
        rows.append(
            _row(
                network,
                (w, x, y),
                lessons,
                name,
                allocation,
                levels,
                duration,
                cycles,
                which,
                seed,
                mixing,
                noise_on,
                workers,
            )
        )
    rows.sort(key=lambda row: row.steady.mean)
    size = len(rows[0].allocation)
    return Placement(tuple(rows), levels, duration, size, noise_on, cycles)


Lesson = tuple[dict[str, Array], Array, Array]


def _row(
    network: Network,
    data: tuple[Mapping[str, Array], Array, Array],
    lessons: list[Lesson],
    name: str,
    allocation: Allocation,
    gamma: Gamma,
    T: float,
    cycles: int,
    which: range,
    seed: int,
    mixing: float,
    noise_on: str,
    workers: int,
) -> PlacementRow:
    found, said, local = [], [], False
    for one_w, one_x, one_y in lessons:
        given: dict[str, Any] = {"inputs": one_x, "targets": one_y, "allocation": allocation}
        geo = local_geometry(network, one_w, **given, noise_on=noise_on, seed=seed)
        steady = predict_steady_state(
            network, one_w, **given, gamma=gamma, T=T, mixing=mixing, noise_on=noise_on
        )
        local = local or not steady.quadratic
        errors = (steady.minimum, steady.value, steady.drift)
        found.append([geo.rate(gamma, T), steady.rank, *(e / geo.loss for e in errors)])
        said.append((KINDS.index(steady.kind), steady.reason))
    rate, modes, minimum, predicted, drift = np.mean(found, axis=0).tolist()
    sure, reason = max(said, key=lambda one: one[0])
    w, x, y = data
    run = simulate(
        network,
        w,
        inputs=x,
        targets=y,
        allocation=allocation,
        gamma=gamma,
        T=T,
        cycles=cycles,
        repeats=which,
        seed=seed,
        mixing=mixing,
        noise_on=noise_on,
        workers=workers,
    )
    relative = run.errors / run.errors[:, :1]
    verdict = certify(Problem(network, x.shape[-1]), allocation)
    settled = find_steady_state(relative)
    curve = relative.mean(axis=0)
    return PlacementRow(
        name=name,
        allocation=allocation,
        verdict=verdict,
        rate=rate,
        modes=modes,
        minimum=minimum,
        predicted=predicted,
        drift=drift,
        kind=KINDS[sure],
        reason=reason,
        local=local,
        steady=settled,
        curve=curve,
    )


def _lessons(
    network: Network, w: Mapping[str, Array], x: Array, y: Array, repeats: int
) -> list[Lesson]:
    """The different lessons: one, or one per repeat where anything has a leading axis."""
    rank = 3 if network.is_sequence else 2
    many = x.ndim > rank or y.ndim > 2 or any(value.ndim > 2 for value in w.values())

    def pick(array: Array, base: int, k: int) -> Array:
        return array if array.ndim == base else array[k % len(array)]

    return [
        ({n: pick(v, 2, k) for n, v in w.items()}, pick(x, rank, k), pick(y, 2, k))
        for k in range(repeats if many else 1)
    ]


def _check(network: Network, allocations: Mapping[str, Allocation]) -> dict[str, Allocation]:
    if not isinstance(network, Network):
        raise BadInputError(f"network must be a Network such as FeedForward, not {network!r}.")
    if not isinstance(allocations, Mapping) or not allocations:
        raise BadInputError("allocations must map names to at least one Allocation.")
    for name, allocation in allocations.items():
        if not isinstance(allocation, Allocation):
            raise BadInputError(f"allocation {name!r} must be an Allocation, not {allocation!r}.")
    sizes = {name: len(allocation) for name, allocation in allocations.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise BadInputError(f"allocations must all have the same number of weights, not {listed}.")
    return dict(allocations)
