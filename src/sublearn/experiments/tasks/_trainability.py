"""Learners side by side on the same instances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sublearn._errors import BadInputError, one_of
from sublearn.ensembles import draw
from sublearn.experiments.tasks._repeats import turns
from sublearn.experiments.tasks._within import eps_of, within_counted, within_job
from sublearn.learners import LEARNERS
from sublearn.runs import Json, Row, Task

NEWTON = "levenberg-marquardt"


class Trainability(Task):
    """Each instance trained by each of the ``learners``, until its mean squared error is below ``eps``.

    Trial i is instance i // L with the (i % L)-th of L learners. All have ``starts`` starts of at most
    ``steps`` steps; Levenberg-Marquardt, whose steps are dear, has at most 200. The table has a line
    per learner. ``only`` counts the instances that it solved and the last learner did not, ``missed``
    the other way round.
    """

    @property
    def name(self) -> str:
        return "trainability"

    @property
    def columns(self) -> Mapping[str, type]:
        return {
            "instance": int,
            "learner": str,
            "within": bool,
            "mse": float,
            "square": float,
            "starts": int,
            "steps": int,
        }

    def check(self, point: Mapping[str, Json]) -> None:
        for learner in _learners(point):
            job = within_job(_own(point, learner), 0)
        draw(job.problem, job.allocation)

    def run(self, point: Mapping[str, Json], seed: int, trials: range) -> list[Row]:
        learners = _learners(point)
        found: dict[tuple[int, str], Row] = {}
        for number, learner in enumerate(learners):
            mine = [instance for instance, place in turns(trials, len(learners)) if place == number]
            if not mine:
                continue
            # The instances of a learner in a chunk follow one another: one batch.
            job = within_job(_own(point, learner), seed)
            for record in job.decide(range(mine[0], mine[-1] + 1)):
                found[record.trial, learner] = {
                    "instance": record.trial,
                    "learner": learner,
                    "within": record.within,
                    "mse": record.error,
                    "square": record.square,
                    "starts": record.starts,
                    "steps": record.steps,
                }
        return [
            found[instance, learners[place]] for instance, place in turns(trials, len(learners))
        ]

    def summarise(
        self, point: Mapping[str, Json], rows: Mapping[str, np.ndarray[Any, Any]]
    ) -> list[Row]:
        learners = _learners(point)
        solved = {
            learner: set(rows["instance"][(rows["learner"] == learner) & rows["within"]].tolist())
            for learner in learners
        }
        last = solved[learners[-1]]
        lines: list[Row] = []
        for learner in learners:
            here = rows["learner"] == learner
            if not here.any():
                continue
            own = (rows[name][here] for name in ("within", "starts", "mse", "square"))
            line = within_counted(*own, eps_of(point))
            line |= {"only": len(solved[learner] - last), "missed": len(last - solved[learner])}
            line["median_steps"] = float(np.median(rows["steps"][here]))
            lines.append({"learner": learner, **line})
        return lines


def _learners(point: Mapping[str, Json]) -> list[str]:
    names = str(point.get("learners") or "").split()
    if not names or len(set(names)) < len(names):
        raise BadInputError(
            f"learners must be different names set apart by spaces, not {point.get('learners')!r}."
        )
    return [one_of("a name in learners", name, LEARNERS) for name in names]


def _own(point: Mapping[str, Json], learner: str) -> dict[str, Json]:
    steps = point.get("steps")
    if learner == NEWTON and isinstance(steps, int):
        steps = min(steps, 200)
    return {**point, "method": learner, "steps": steps}
