"""Where a fixed number of plastic weights should sit when synapses are noisy."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from sublearn._arrays import Array
from sublearn._errors import BadInputError, whole_number
from sublearn._kinds import MAXIMAL, MINIMAL
from sublearn._seeds import Tag, words
from sublearn._tables import aligned
from sublearn.allocations import Allocation, an_allocation
from sublearn.ensembles import Factors, Instance, Problem, draw_from
from sublearn.noise._candidates import Candidates
from sublearn.noise._exchanges import Exchangeable, Exchanges, improved
from sublearn.noise._geometry import local_geometry
from sublearn.noise._noise import Noise, check_noise
from sublearn.noise._settled import SteadyState, find_steady_state
from sublearn.noise._simulate import check_instances, check_repeats, simulate
from sublearn.noise._steady import Known, predict_steady_state
from sublearn.plots import (
    COLOURS,
    Figure,
    Row,
    Shown,
    figure,
    finite,
    ink,
    name_axes,
    shared_legend,
    whole_ticks,
)
from sublearn.verdicts import Verdict, certify

IMPROVED = "improved"


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
        said: Row = {"verdict": self.verdict.kind, "grade": self.verdict.grade.to_dict()}
        said |= {"rank": self.verdict.rank, "needed": self.verdict.needed}
        names = ("rate", "modes", "minimum", "predicted", "drift", "kind", "reason", "local")
        values = {name: getattr(self, name) for name in names}
        values |= {"predicted": finite(self.predicted), "simulated": self.steady.to_dict()}
        return {"name": self.name, "digest": self.allocation.digest, **said, **values}


@dataclass(frozen=True, eq=False, repr=False)
class Placement(Shown):
    """Allocations of the same budget compared, best first by the simulated error.

    ``exchanges``: what improving the best of them came to, where that was asked for; the row "improved" is
    its result. ``left_out``: candidates that are not compared, with the reason.
    """

    rows: tuple[PlacementRow, ...]
    noise: Noise
    cycles: int
    exchanges: Exchanges | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def plastic(self) -> int:
        """How many weights may change."""
        return len(self.best.allocation)

    @property
    def best(self) -> PlacementRow:
        """The allocation with the smallest simulated error."""
        return self.rows[0]

    @property
    def alike(self) -> list[list[str]]:
        """The names of the placements, those together that are the same weights."""
        groups: dict[str, list[str]] = {}
        for row in self.rows:
            groups.setdefault(row.allocation.digest, []).append(row.name)
        return list(groups.values())

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
        level = f"{best.steady.mean:.2g} of the error at the start"
        lost = [row for row in others if not self._ties(row)]
        if not others:
            words = f"{best.name}: the error comes to {level}."
        elif not lost:
            gap, error = max(self.margin(row) for row in others)
            words = (
                f"No placement is clearly better: {best.name} comes to {level}, and none is worse by more "
                f"than {gap:.2g} +- {error:.1g}."
            )
        else:
            worst = max(lost, key=lambda row: self.margin(row)[0])
            gap, error = self.margin(worst)
            names = " or ".join([best.name, *(row.name for row in others if row not in lost)])
            words = (
                f"Place them {names}: the error comes to {level}, against {worst.steady.mean:.2g} for "
                f"{worst.name} (difference {gap:.2g} +- {error:.1g})."
            )
        tried = [] if self.exchanges is None else [self.exchanges.words]
        return " ".join([words, *tried, *self._why(lost)])

    @property
    def recommended(self) -> tuple[PlacementRow, ...]:
        """The best placement, and those that are not clearly worse."""
        return (self.best, *(row for row in self.rows[1:] if self._ties(row)))

    @property
    def masks(self) -> dict[str, Allocation]:
        """The allocations that are recommended, by names of files: place-1-NAME.json and so on."""
        out = {}
        for number, row in enumerate(self.recommended, 1):
            plain = re.sub(r"[^A-Za-z0-9]+", "-", row.name)[:40].strip("-")
            out[f"place-{number}-{plain or 'mask'}.json"] = row.allocation
        return out

    def save(self, folder: str | Path) -> list[Path]:
        """Write the masks that are recommended into a folder, best first."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        files = {Path(folder) / name: mask for name, mask in self.masks.items()}
        for path, mask in files.items():
            mask.save(path)
        return list(files)

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
        sure = [row.name for row in self.rows if row.verdict.kind == MAXIMAL]
        if best.verdict.kind == MINIMAL and not sure:
            needed, most = best.verdict.needed, max(row.verdict.rank for row in self.rows)
            what = (
                f"{needed} weights would be needed"
                if self.plastic < needed
                else f"rank {needed} would be needed, and none has more than {most}"
            )
            out.append(f"None matches exactly: {what}.")
        elif best.verdict.kind != MAXIMAL and sure:
            out.append(
                f"(Of these only {' and '.join(sure)} can be proved to match exactly, which counts where "
                "there is no noise.)"
            )
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
        guessed = any(row.kind is Known.BOUND and math.isfinite(row.predicted) for row in self.rows)
        marked = ["~ marks an estimate: few modes, or long steps."] if guessed else []
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
            "exchanges": None if self.exchanges is None else self.exchanges.to_dict(),
            "left_out": dict(self.left_out),
            "recommendation": self.recommendation,
        }

    @property
    def headline(self) -> str:
        """How many weights, and the order of the placements."""
        return f"of {self.plastic} weights, best first: {', '.join(row.name for row in self.rows)}"

    def table(self) -> list[Row]:
        """A row for every placement, best first."""
        names = (
            "verdict",
            "grade",
            "rank",
            "needed",
            "rate",
            "modes",
            "minimum",
            "predicted",
            "drift",
        )
        out = []
        for row in self.rows:
            line = {"placement": row.name, **{name: row.to_dict()[name] for name in names}}
            line |= {"grade": str(row.verdict.grade), "simulated": row.steady.mean}
            line["standard_error"] = finite(row.steady.standard_error)
            out.append({**line, "settled": row.steady.reached, "digest": row.allocation.digest})
        return out

    def __str__(self) -> str:
        names = ("placement", "verdict", "rank", "rate", "modes", "F_min", "predicted", "simulated")
        cells = [names]
        for row in self.rows:
            minimum = "0" if row.minimum < 1e-9 else f"{row.minimum:.3g}"  # a rounding
            simulated = f"{row.steady.mean:.3g} +- {row.steady.standard_error:.1g}"
            cells.append(
                (
                    *(row.name, str(row.verdict.kind), f"{row.verdict.rank}/{row.verdict.needed}"),
                    *(f"{row.rate:.3g}", f"{row.modes:.4g}", minimum, _shown(row)),
                    simulated + (" " if row.steady.reached else "*"),
                )
            )
        lines = aligned(cells)
        if not all(row.steady.reached for row in self.rows):
            lines.append(f"* not settled in {self.cycles} cycles")
        lines += [f"Left out: {name}, because {why}" for name, why in self.left_out.items()]
        lines += [
            f"{' = '.join(names)}: the same weights" for names in self.alike if len(names) > 1
        ]
        return "\n".join([*lines, self.recommendation])

    def plot(self) -> Figure:
        """The error curves, and where each placement settles beside its prediction and F_min.

        Placements that are the same weights have one curve, named after all of them.
        """
        fig, (left, right) = figure(columns=2)
        looks: dict[str, dict[str, Any]] = {
            "predicted": {"marker": "D", "ms": 8, "mfc": "none", "color": ink(), "ls": "none"},
            "F_min": {"marker": "_", "ms": 18, "color": ink(), "ls": "none"},
        }
        names = {same[0]: " = ".join(same) for same in self.alike}
        if not any(math.isfinite(row.predicted) for row in self.rows):
            del looks["predicted"]
        for k, row in enumerate(self.rows):
            shade, steady = COLOURS[k % len(COLOURS)], row.steady
            if row.name in names:
                left.plot(row.curve, color=shade, linewidth=1.2, label=names[row.name])
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
        whole_ticks(left, "x")
        name_axes(right, "placement", "error at the end / error at the start")
        right.set_ylim(bottom=min(0.0, right.get_ylim()[0]))
        shared_legend(fig, [left, right], across=8)
        return fig


def _shown(row: PlacementRow) -> str:
    if math.isfinite(row.predicted):
        return f"{row.predicted:.3g}{'~' if row.kind is Known.BOUND else ''}"
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
    improve: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Placement:
    """Compare allocations of the same number of plastic weights, and say which to take.

    By expressivity: :func:`certify`'s verdict and rank, for generic weights and inputs. By learning: the
    mean rate at the start, F_min, the predicted and the simulated steady state, for the numbers of the
    instance, whatever is learnable in it; several instances, as many as repeats, give every repeat its
    own. The noise of a repeat is the same for every allocation, so differences are taken pair by pair.

    With ``improve`` the best is then taken through so many exchanges: a plastic weight against another, at
    random, kept if the error is lower by the formula of the steady state where that holds, and else beyond
    doubt in the simulated errors. The others are those that :class:`Candidates` lie among, or all.
    ``progress`` is called with a name before each allocation is simulated and before each exchange.

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
    _check(allocations, whole_number("improve", improve, least=0))
    lessons = check_instances(instance, len(which))
    for lesson in lessons:
        _check_something_to_learn(lesson)

    def look(allocation: Allocation) -> tuple[list[Instance], Array]:
        """The lessons with these plastic weights, and their errors relative to those at the start."""
        placed = [lesson.with_allocation(allocation) for lesson in lessons]
        run = simulate(placed, noise, cycles=cycles, repeats=which, seed=seed, workers=workers)
        return placed, run.errors / run.errors[:, :1]

    rows: list[PlacementRow] = []
    for name, allocation in allocations.items():
        if progress is not None:
            progress(name)
        twin = next((row for row in rows if row.allocation == allocation), None)
        if twin is not None:
            rows.append(replace(twin, name=name))
        else:
            rows.append(_row(name, *look(allocation), noise, seed))
    rows.sort(key=lambda row: row.steady.mean)
    known = allocations if isinstance(allocations, Candidates) else Candidates({})
    exchanges = None
    if improve:
        among = known.among or Allocation.whole(lessons[0].network)
        exchanges, better = improved(
            Exchangeable(among, known.within, improve, seed),
            rows[0].name,
            rows[0].allocation,
            lessons,
            noise,
            lambda other: find_steady_state(look(other)[1]).per_repeat,
            (lambda: None) if progress is None else (lambda: progress(IMPROVED)),
        )
        if exchanges.taken:
            rows.append(_row(IMPROVED, *look(better), noise, seed))
            rows.sort(key=lambda row: row.steady.mean)
    return Placement(tuple(rows), noise, cycles, exchanges, known.left_out)


def _check_something_to_learn(lesson: Instance) -> None:
    """Errors are told relative to the error at the start, which must be more than a rounding."""
    gap = np.abs(lesson.network.forward(lesson.start, lesson.inputs) - lesson.targets).max()
    if gap <= 1e-12 * np.abs(lesson.targets).max():
        raise BadInputError(
            "targets must differ from the outputs of the weights given: there is nothing to learn."
        )


def _row(
    name: str, placed: Sequence[Instance], relative: Array, noise: Noise, seed: int
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
        verdict=certify(first.generic_problem, first.allocation),
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


def _check(allocations: Mapping[str, Allocation], improve: int) -> None:
    if improve and isinstance(allocations, Mapping) and IMPROVED in allocations:
        raise BadInputError(f"the name {IMPROVED!r} is for what exchanges find: give another.")
    if not isinstance(allocations, Mapping) or not allocations:
        raise BadInputError("allocations must map names to at least one Allocation.")
    for name, allocation in allocations.items():
        an_allocation(f"allocation {name!r}", allocation)
    sizes = {name: len(allocation) for name, allocation in allocations.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise BadInputError(f"allocations must all have the same number of weights, not {listed}.")


def draw_lessons(
    problem: Problem, repeats: int | range, seed: int = 0, *, factors: int | None = None
) -> list[Instance]:
    """One instance per repeat, all weights learnable, by the laws of the problem.

    Repeat i depends on (seed, problem, i) alone. With ``factors`` the inputs are correlated by so many
    latent numbers, :class:`sublearn.ensembles.Factors`, instead of by the law of the problem.
    """
    law = problem
    if factors is not None:
        law = replace(problem, ensemble=replace(problem.ensemble, inputs=Factors(count=factors)))
    whole, digest = Allocation.whole(problem.network), words(problem.digest)
    return [
        draw_from(np.random.default_rng([Tag.REPEATS, seed, *digest, number]), law, whole)
        for number in check_repeats(repeats)
    ]
