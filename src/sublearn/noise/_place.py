"""Where a fixed number of plastic weights should sit when synapses are noisy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sublearn._arrays import Array
from sublearn._errors import BadInputError, whole_number
from sublearn._seeds import words
from sublearn.allocations import Allocation
from sublearn.designs import design
from sublearn.ensembles import Distribution, Instance, Problem, draw_from
from sublearn.networks import Network
from sublearn.noise._geometry import local_geometry
from sublearn.noise._noise import Noise, check_noise
from sublearn.noise._settled import SteadyState, find_steady_state
from sublearn.noise._simulate import check_instances, check_repeats, simulate
from sublearn.noise._steady import Known, predict_steady_state
from sublearn.plots import COLOURS, Shown, figure, finite, ink, name_axes, shared_legend
from sublearn.verdicts import Verdict, certify

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class PlacementRow:
    """One allocation, by what it can express and by how it learns.

    Errors are relative to the error at the start, each repeat to its own: ``minimum`` F_min,
    ``predicted`` the predicted steady state, ``steady`` the simulated one. ``rate`` is the mean learning
    rate <k> at the start, ``modes`` the rank of H_M, ``drift`` the predicted growth per cycle where
    noise falls on all weights. All are means over the instances. ``kind`` and ``reason`` are those of
    the prediction, of the least sure one over them (see :class:`SteadyPrediction`); where the
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
    kind: Known
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
            "predicted": finite(self.predicted),
            "drift": self.drift,
            "kind": self.kind,
            "reason": self.reason,
            "local": self.local,
            "simulated": self.steady.to_dict(),
        }


@dataclass(frozen=True, eq=False)
class Placement(Shown):
    """Allocations of the same budget compared, best first by the simulated error."""

    rows: tuple[PlacementRow, ...]
    noise: Noise
    cycles: int

    @property
    def plastic(self) -> int:
        """How many weights may change."""
        return len(self.best.allocation)

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
        if best.drift > 0 and self.noise.on == "all":
            out.append(f"The error keeps growing, by {best.drift:.2g} per cycle.")
        elif not best.steady.reached:
            out.append(f"The errors have not settled in {self.cycles} cycles.")
        elif best.kind is Known.NONE:
            out.append(
                f"They are level over these {self.cycles} cycles, but no steady state is known: "
                f"{best.reason}"
            )
        return out + self._how_far()

    def _how_far(self) -> list[str]:
        """Where the formulas are no more than a local picture."""
        if any(row.kind is Known.BOUND and math.isfinite(row.predicted) for row in self.rows):
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
            **self.noise.to_dict(),
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

    def plot(self) -> Figure:
        """The error curves, and where each placement settles beside its prediction and F_min."""
        fig, (left, right) = figure(columns=2)
        looks: dict[str, dict[str, Any]] = {
            "predicted": {"marker": "D", "ms": 8, "mfc": "none", "color": ink(), "ls": "none"},
            "F_min": {"marker": "_", "ms": 18, "color": ink(), "ls": "none"},
        }
        for k, row in enumerate(self.rows):
            shade, steady = COLOURS[k % len(COLOURS)], row.steady
            left.plot(row.curve, color=shade, linewidth=1.2, label=row.name)
            half = 2 * steady.standard_error
            right.plot([k, k], [steady.mean - half, steady.mean + half], color=shade, linewidth=2)
            right.plot(k, steady.mean, "o", color=shade)
            if math.isfinite(row.predicted):
                right.plot(k, row.predicted, **looks["predicted"])
            right.plot(k, row.minimum, **looks["F_min"])
        # The marks mean the same for every placement: the legend shows them in no placement's colour.
        right.plot([], [], "o-", color=ink(), linewidth=2, label="simulated, +- 2 standard errors")
        for name, look in looks.items():
            right.plot([], [], **look, label=name)
        right.set_xticks(range(len(self.rows)), [row.name for row in self.rows])
        right.set_xlim(-0.6, len(self.rows) - 0.4)
        name_axes(left, "cycle", "error / error at the start")
        name_axes(right, "placement", "steady error / error at the start")
        right.set_ylim(bottom=min(0.0, right.get_ylim()[0]))
        shared_legend(fig, [left, right], across=8)
        return fig  # type: ignore[no-any-return]


def _shown(row: PlacementRow) -> str:
    if math.isfinite(row.predicted):
        return f"{row.predicted:.3f}{'~' if row.kind is Known.BOUND else ''}"
    return "drifts" if row.drift else "none"


def place(
    instance: Instance | Sequence[Instance],
    allocations: Mapping[str, Allocation],
    noise: Noise,
    *,
    cycles: int = 3000,
    repeats: int | range = 8,
    seed: int = 0,
    workers: int = 1,
    progress: Callable[[str], None] | None = None,
) -> Placement:
    """Compare allocations of the same number of plastic weights, and say which to take.

    By expressivity: :func:`certify`'s verdict and rank, for generic weights and inputs. By learning: the
    mean rate at the start, F_min, the predicted and the simulated steady state, for the numbers of the
    instance, whatever is learnable in it; several instances, as many as repeats, give every repeat its
    own. The noise of a repeat is the same for every allocation, so differences are taken pair by pair.

    >>> import sublearn as sl
    >>> problem = sl.Problem(sl.LinearEstimator(inputs=8, outputs=4), samples=2, ensemble=sl.Gaussian(4))
    >>> lessons = sl.noise.draw_lessons(problem, repeats=4)
    >>> found = sl.place(lessons, sl.noise.candidate_placements(problem, 8), sl.Noise((0.1, 0.3, 0.01)),
    ...                  repeats=4, cycles=500)
    >>> [row.name for row in found.rows], found.rows[-1].verdict.kind
    (['spread', 'designed', 'concentrated'], 'minimal')
    """
    which = check_repeats(repeats)
    check_noise(noise)
    _check(allocations)
    lessons = check_instances(instance, len(which))
    rows: list[PlacementRow] = []
    for name, allocation in allocations.items():
        if progress is not None:
            progress(name)
        twin = next((row for row in rows if row.allocation == allocation), None)
        if twin is not None:
            rows.append(replace(twin, name=name))
            continue
        placed = [lesson.with_allocation(allocation) for lesson in lessons]
        run = simulate(placed, noise, cycles=cycles, repeats=which, seed=seed, workers=workers)
        rows.append(_row(name, placed, noise, run.errors / run.errors[:, :1], seed))
    rows.sort(key=lambda row: row.steady.mean)
    return Placement(tuple(rows), noise, cycles)


def _row(
    name: str, placed: Sequence[Instance], noise: Noise, relative: Array, seed: int
) -> PlacementRow:
    """One allocation by its formulas and by simulated errors ``relative`` to those at the start."""
    kinds = list(Known)
    numbers, reasons, local = [], [], False
    for instance in placed:
        geo = local_geometry(instance, on=noise.on, seed=seed)
        steady = predict_steady_state(instance, noise)
        local = local or not steady.quadratic
        errors = (steady.minimum, steady.value, steady.drift)
        numbers.append([geo.rate(noise), steady.rank, *(e / geo.loss for e in errors)])
        reasons.append((kinds.index(steady.kind), steady.reason))
    rate, modes, minimum, predicted, drift = np.mean(numbers, axis=0).tolist()
    least_sure, reason = max(reasons, key=lambda one: one[0])
    first = placed[0]
    return PlacementRow(
        name=name,
        allocation=first.allocation,
        verdict=certify(Problem(first.network, first.samples), first.allocation),
        rate=rate,
        modes=modes,
        minimum=minimum,
        predicted=predicted,
        drift=drift,
        kind=kinds[least_sure],
        reason=reason,
        local=local,
        steady=find_steady_state(relative),
        curve=relative.mean(axis=0),
    )


def _check(allocations: Mapping[str, Allocation]) -> None:
    if not isinstance(allocations, Mapping) or not allocations:
        raise BadInputError("allocations must map names to at least one Allocation.")
    for name, allocation in allocations.items():
        if not isinstance(allocation, Allocation):
            raise BadInputError(f"allocation {name!r} must be an Allocation, not {allocation!r}.")
    sizes = {name: len(allocation) for name, allocation in allocations.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise BadInputError(f"allocations must all have the same number of weights, not {listed}.")


_TAG = 0x91AC


def candidate_placements(
    problem: Problem, plastic: int, learn: Iterable[str] | None = None, *, seed: int = 0
) -> dict[str, Allocation]:
    """Ways to place ``plastic`` weights among the weights named by ``learn`` (default: all).

    *spread*: each weight has its share by size, rows and columns filled evenly. *concentrated*: rows
    filled one after the other, from the first weight on. *designed*: the proved maximal allocation of
    :func:`sublearn.design`, filled up evenly; left out where more weights are needed, or where none is
    known.

    >>> import sublearn as sl
    >>> problem = sl.Problem(sl.LinearEstimator(inputs=4, outputs=4), samples=2)
    >>> found = candidate_placements(problem, 8)
    >>> {name: a.row_counts("W").tolist() for name, a in found.items()}
    {'spread': [2, 2, 2, 2], 'concentrated': [4, 4, 0, 0], 'designed': [2, 2, 2, 2]}
    """
    network = problem.network
    names = list(dict.fromkeys(network.shapes if learn is None else learn))
    sizes = {name: len(Allocation.whole(network, [name])) for name in names}
    r, total = whole_number("plastic", plastic, least=1), sum(sizes.values())
    if r > total:
        raise BadInputError(f"plastic must be at most the {total} weights of {names}, not {r}.")
    candidates = {
        "spread": _spread(network, sizes, r),
        "concentrated": _concentrated(network, sizes, r),
    }
    try:
        base = design(problem, names, seed=seed)
    except BadInputError:  # none is known, or the laws have no density
        return candidates
    if len(base) > r:
        return candidates
    # Filled up in the even order, so that surplus weights are spread as well.
    for count in range(r - len(base), total + 1):
        more = base | _spread(network, sizes, count)
        if len(more) >= r:
            extra = (more - base).labels()[: r - len(base)]
            by_name: dict[str, list[tuple[int, int]]] = {}
            for name, i, j in extra:
                by_name.setdefault(name, []).append((i, j))
            return {**candidates, "designed": base | Allocation.from_entries(network, by_name)}
    return candidates


def _spread(network: Network, sizes: dict[str, int], r: int) -> Allocation:
    total, ends = sum(sizes.values()), np.cumsum(list(sizes.values()))
    marks = np.rint(np.concatenate([[0], ends]) * r / total).astype(int)
    counts = {name: int(marks[k + 1] - marks[k]) for k, name in enumerate(sizes)}
    return Allocation.spread(network, counts)


def _concentrated(network: Network, sizes: dict[str, int], r: int) -> Allocation:
    flat, left = {}, r
    for name, size in sizes.items():
        flat[name] = np.flatnonzero(network.existing(name))[: min(left, size)]
        left -= flat[name].size
    return Allocation(network.shapes, flat)


@dataclass(frozen=True)
class Factors(Distribution):
    """Correlated inputs: f latent numbers per sample reach every feature.

    X = (U Z + E/2) / sqrt(f + 1/4) with U, Z and E standard normal, U drawn once per instance; every
    number keeps variance 1 over draws.
    """

    has_density: ClassVar[bool] = True
    has_full_support: ClassVar[bool] = True

    count: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("factors", self.count, least=1)

    def standard(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        own = rng.standard_normal(shape)
        U = rng.standard_normal((int(np.prod(shape[:-1])), self.count))
        Z = rng.standard_normal((self.count, shape[-1]))
        mixed: Array = (U @ Z).reshape(shape) + 0.5 * own
        return np.asarray(mixed / np.sqrt(self.count + 0.25))


def draw_lessons(
    problem: Problem, repeats: int | range, seed: int = 0, *, factors: int | None = None
) -> list[Instance]:
    """One instance per repeat, all weights learnable, by the laws of the problem.

    Repeat i depends on (seed, problem, i) alone. With ``factors`` the inputs are correlated by so many
    latent numbers, :class:`Factors`, instead of by the law of the problem.
    """
    law = (
        problem
        if factors is None
        else replace(problem, ensemble=replace(problem.ensemble, inputs=Factors(count=factors)))
    )
    whole, digest = Allocation.whole(problem.network), words(problem.digest)
    return [
        draw_from(np.random.default_rng([_TAG, seed, *digest, number]), law, whole)
        for number in check_repeats(repeats)
    ]
