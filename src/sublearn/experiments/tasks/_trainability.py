"""Learners side by side on the same instances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sublearn._errors import BadInputError, one_of
from sublearn.ensembles import draw
from sublearn.experiments.tasks._repeats import turns
from sublearn.experiments.tasks._within import (
    WITHIN_COUNTED,
    eps_of,
    within_counted,
    within_job,
)
from sublearn.runs import Json, Row, Task
from sublearn.training import LEARNERS, Learner, LevenbergMarquardt, learner_named

MOST_STEPS = 200  # of Levenberg-Marquardt


class Trainability(Task):
    """Each instance trained by each of the ``learners``, until its mean squared error is below ``eps``.

    Learners are set apart by spaces; one may say its rate, as in ``adam:rate=0.1``. Trial i is instance
    i // L with the (i % L)-th of L learners. All have ``starts`` starts of at most ``steps`` steps;
    Levenberg-Marquardt, whose steps are dear, has at most 200. The table has a line per learner.
    ``only`` counts the instances that it solved and the last learner did not, ``missed`` the other way
    round.
    """

    @property
    def name(self) -> str:
        return "trainability"

    @property
    def version(self) -> int:
        return 2  # targets are a teacher's outputs as real numbers, and no sample is left out

    @property
    def results(self) -> tuple[str, ...]:
        return ("learner", *WITHIN_COUNTED, "only", "missed", "median_steps")

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
        for learner in _learners(point).values():
            job = within_job(_own(point, learner), 0, learner)
        draw(job.problem, job.allocation)

    def run(self, point: Mapping[str, Json], seed: int, trials: range) -> list[Row]:
        learners = _learners(point)
        names = list(learners)
        found: dict[tuple[int, str], Row] = {}
        for number, (name, learner) in enumerate(learners.items()):
            mine = [instance for instance, place in turns(trials, len(learners)) if place == number]
            if not mine:
                continue
            # The instances of a learner in a chunk follow one another: one batch.
            job = within_job(_own(point, learner), seed, learner)
            for record in job.decide(range(mine[0], mine[-1] + 1)):
                found[record.trial, name] = {
                    "instance": record.trial,
                    "learner": name,
                    "within": record.within,
                    "mse": record.error,
                    "square": record.square,
                    "starts": record.starts,
                    "steps": record.steps,
                }
        return [found[instance, names[place]] for instance, place in turns(trials, len(learners))]

    def summarise(
        self, point: Mapping[str, Json], rows: Mapping[str, np.ndarray[Any, Any]]
    ) -> list[Row]:
        learners = list(_learners(point))
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
            within, starts, mse, square = (
                rows[name][here] for name in ("within", "starts", "mse", "square")
            )
            line = within_counted(within, starts, mse, square, eps_of(point))
            line |= {"only": len(solved[learner] - last), "missed": len(last - solved[learner])}
            line["median_steps"] = float(np.median(rows["steps"][here]))
            lines.append({"learner": learner, **line})
        return lines


def _learners(point: Mapping[str, Json]) -> dict[str, Learner]:
    """The learners by what the point calls them."""
    texts = str(point.get("learners") or "").split()
    if not texts or len(set(texts)) < len(texts):
        raise BadInputError(
            f"learners must be different names set apart by spaces, not {point.get('learners')!r}."
        )
    found: dict[str, Learner] = {}
    for text in texts:
        name, colon, setting = text.partition(":")
        one_of("a name in learners", name, LEARNERS)
        if not colon:
            found[text] = learner_named(name)
            continue
        try:
            rate = float(setting.removeprefix("rate="))
        except ValueError:
            raise BadInputError(
                f"a learner with a rate reads adam:rate=0.1, not {text!r}."
            ) from None
        found[text] = learner_named(name, rate=rate)
    return found


def _own(point: Mapping[str, Json], learner: Learner) -> dict[str, Json]:
    """The point with the steps that this learner may make."""
    steps = point.get("steps")
    if isinstance(learner, LevenbergMarquardt) and isinstance(steps, int):
        steps = min(steps, MOST_STEPS)
    return {**point, "steps": steps}
