"""Trainability: which learners solve which instances, within the same budget of starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from sublearn._arrays import Mask
from sublearn._errors import BadInputError
from sublearn._tables import aligned
from sublearn.allocations import Allocation, Rule
from sublearn.ensembles import Problem
from sublearn.estimates._count import How, Unfinished, count_trials
from sublearn.estimates._within import Within, WithinEstimate, WithinQuestion
from sublearn.plots import COLOURS, Figure, Row, Shown, figure, ink
from sublearn.training import LEARNERS, Learner


@dataclass(frozen=True, repr=False)
class Trainability(Shown):
    """The fraction of instances that each learner brings within eps, on the same instances and starts.

    ``runs`` holds one :class:`WithinEstimate` per learner. ``solved`` is the table behind it: row i is
    trial i, column j learner j. A learner's number says what it finds with its settings, steps and
    starts; it bounds the share of instances that can be solved from below only. In a table that was
    interrupted the last learner has fewer trials, and ``solved`` holds those that all learners have.
    """

    runs: tuple[WithinEstimate, ...]

    @property
    def learners(self) -> tuple[str, ...]:
        """The learners' names, in the order of the columns."""
        return tuple(run.learner.name for run in self.runs)

    @property
    def trials(self) -> int:
        """How many instances all learners were tried on."""
        return min(run.trials for run in self.runs)

    @property
    def solved(self) -> Mask:
        """(trials, learners): whether the instance came within eps."""
        rows = [[record.within for record in run.records[: self.trials]] for run in self.runs]
        return np.array(rows).T

    @property
    def by_any(self) -> int:
        """Instances that at least one learner solved."""
        return int(self.solved.any(axis=1).sum())

    def only(self, one: int, other: int) -> tuple[int, int]:
        """Instances solved by learner number ``one`` and not by ``other``, and the other way round."""
        table = self.solved
        first, second = table[:, one], table[:, other]
        return int((first & ~second).sum()), int((second & ~first).sum())

    @property
    def details(self) -> list[str]:
        """Nothing: the table says all."""
        return []

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "eps": self.runs[0].eps,
            "trials": self.trials,
            "by_any": self.by_any,
            "learners": [run.to_dict() for run in self.runs],
        }

    @property
    def headline(self) -> str:
        """What each learner brought within eps."""
        counts = ", ".join(f"{run.learner.name} {run.within}" for run in self.runs)
        return f"within eps = {self.runs[0].eps:g} of {self.trials}: {counts}"

    def table(self) -> list[Row]:
        """A row for every learner."""
        return [
            {
                "learner": run.learner.name,
                "steps": run.steps,
                "starts": run.starts,
                "solved": run.within,
                "trials": run.trials,
                "share": run.share,
                "low": run.confidence[0],
                "high": run.confidence[1],
                "seconds": run.seconds,
            }
            for run in self.runs
        ]

    def plot(self) -> Figure:
        """The share that each learner brings within eps, with its 95% interval."""
        fig, ax = figure(height=0.8 + 0.4 * len(self.runs))
        for place, row in enumerate(self.table()):
            ax.barh(place, row["share"], height=0.6, color=COLOURS[0])
            ax.plot(
                [row["low"], row["high"]], [place, place], color=ink(), marker="|", linewidth=1.6
            )
        ax.set_yticks(range(len(self.runs)), self.learners)
        ax.invert_yaxis()
        ax.set_xlim(-0.01, 1.01)
        ax.grid(False, axis="y")
        ax.set_xlabel(f"share of {self.trials} instances within eps = {self.runs[0].eps:g}, 95%")
        return fig

    def __str__(self) -> str:
        first = self.runs[0]
        head = (
            f"within eps = {first.eps:g} ({first.relative_eps:.2g} of the targets' mean square), "
            f"{self.trials} instances, {self.by_any} of them solved by some learner"
        )
        rows = [("learner", "steps", "starts", "solved", "share", "95%", "seconds")]
        for run in self.runs:
            low, high = run.confidence
            counts = str(run.steps), str(run.starts), f"{run.within} of {run.trials}"
            share = f"{run.share:.3f}", f"{low:.3f} to {high:.3f}", f"{run.seconds:.1f}"
            rows.append((run.learner.name, *counts, *share))
        return "\n".join([head, *aligned(rows)])


def trainability(
    problem: Problem,
    allocation: Allocation | Mapping[str, Rule],
    trials: int = 100,
    *,
    eps: float,
    learners: Sequence[str | Learner] = tuple(LEARNERS),
    steps: int | Mapping[str, int] | None = None,
    starts: int | None = None,
    seed: int = 0,
    **how: Unpack[How[WithinEstimate]],
) -> Trainability:
    """Train the same instances with several learners, and count which they bring within eps.

    ``steps`` is one number for all, or a number by name. Instances are those of
    :func:`sublearn.estimate_within`, and start number j of an instance is the same for all learners (up
    to the scale, which Levenberg-Marquardt varies).

    >>> import sublearn as sl
    >>> problem = sl.Problem(sl.LinearRNN(n=6, b=1, d=2, T=3), samples=3)
    >>> table = sl.estimates.trainability(
    ...     problem, {"W": sl.FirstRows(6)}, 20, eps=1e-3,
    ...     learners=["gradient-descent", "levenberg-marquardt"], steps=200, starts=2,
    ... )
    >>> table.solved.shape, table.runs[0].within < table.runs[1].within
    ((20, 2), True)
    """
    if not learners:
        raise BadInputError("learners must name at least one learner.")
    names = [one.name if isinstance(one, Learner) else one for one in learners]
    own_steps = steps if isinstance(steps, Mapping) else dict.fromkeys(names, steps)
    for unknown in (name for name in own_steps if name not in names):
        raise BadInputError(f"steps names {unknown!r}, which is not among the learners.")
    all_by = [
        Within(eps, one, own_steps.get(name), starts)
        for one, name in zip(learners, names, strict=True)
    ]
    runs: list[WithinEstimate] = []
    try:
        for by in all_by:
            question = WithinQuestion(problem, allocation, seed, by=by)
            runs.append(count_trials(WithinEstimate(question), trials, **how))
    except KeyboardInterrupt as stopped:
        if isinstance(stopped, Unfinished):
            runs.append(stopped.estimate)
        if not runs:
            raise
        table = Trainability(tuple(runs))
        raise Unfinished(table, sum(run.trials for run in runs)) from None
    return Trainability(tuple(runs))
