"""Spread or concentrated: the same number of plastic weights, placed in different ways."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

from sublearn._errors import BadInputError
from sublearn._seeds import Tag
from sublearn.allocations import Allocation
from sublearn.ensembles import Instance, Problem
from sublearn.experiments.tasks._point import Columns, Params, problem_of
from sublearn.experiments.tasks._repeats import (
    GAMMA,
    Paired,
    by_case,
    changed,
    irrelevant_of,
    is_level,
    noise_of,
    stream,
    whole,
    with_errors,
)
from sublearn.noise import (
    candidate_placements,
    draw_lessons,
    local_geometry,
    predict_steady_state,
    simulate,
)
from sublearn.plots import finite
from sublearn.runs import Row
from sublearn.verdicts import certify, is_affine


class Placements(Paired):
    """``plastic`` weights of a network placed spread, concentrated or as designed, each repeat alike.

    ``network``, ``samples`` and ``ensemble`` as for decisions; with ``factors`` = f above 0 the inputs
    are correlated by f latent factors. A repeat draws weights, inputs and targets, the same
    for all placements. Errors are relative to the one at the start:
    ``value``, simulated, from the middle of ``cycles`` on; ``minimum`` F_min; ``predicted`` the
    predicted steady state. The table has a line per placement; ``more``: than spread, pair by pair.
    ``irrelevant`` "second task" or "homeostasis" says what n2 is instead of white: then neither a steady
    state nor a rate is predicted. The second task is another draw by the same laws.
    """

    name = "placements"
    version = 2  # predictions with the correction for few modes
    columns: Mapping[str, type] = {
        "repeat": int,
        "placement": str,
        "modes": int,
        **dict.fromkeys(("value", "change", "minimum", "predicted", "rate"), float),
    }
    takes: Mapping[str, str] = {
        "network": "network",
        "samples": "samples m",
        "ensemble": "ensemble",
        "factors": "latent factors of the inputs (0: white)",
        "plastic": "plastic weights r",
        **GAMMA,
        "cycles": "cycles",
        "irrelevant": "task-irrelevant change n2",
    }
    headings: Mapping[str, str] = {
        "placement": "placement",
        "verdict": "verdict of certify",
        "verdict_grade": "its grade",
        "rank": "rank",
        "needed": "needed",
        "repeats": "paired repeats",
        "value": "simulated error / error at the start",
        "error": "standard error",
        "more": "more than spread",
        "more_error": "standard error, paired",
        "change": "last quarter of the cycles less the one before",
        "change_error": "standard error of the change",
        "level": "settled",
        "minimum": "F_min / error at the start",
        "predicted": "predicted steady state / error at the start",
        "rate": "mean rate <k> at the start",
        "modes": "rank of H_M",
    }

    def check(self, point: Params) -> None:
        noise_of(point)
        irrelevant_of(point)
        whole(point, "cycles", 3000, least=8)
        whole(point, "factors", 0, least=0)
        problem = problem_of(point)
        for name, allocation in self.cases(point):
            if not is_affine(problem.network, allocation):
                raise BadInputError(
                    f"the outputs of {problem.network.title} must be affine in the plastic weights for a "
                    f"steady state, and are not when these are {name}."
                )

    def cases(self, point: Params) -> list[tuple[str, Allocation]]:
        return list(candidates(problem_of(point), whole(point, "plastic", 0, least=1)).items())

    def one(self, point: Params, seed: int, repeat: int, case: tuple[str, Allocation]) -> Row:
        problem, cycles = problem_of(point), whole(point, "cycles", 3000, least=8)
        factors = whole(point, "factors", 0, least=0) or None
        own, (name, allocation) = range(repeat, repeat + 1), case

        def lesson(seed: int) -> Instance:
            return draw_lessons(problem, own, seed=seed, factors=factors)[0]

        placed = lesson(seed).with_allocation(allocation)
        noise = changed(noise_of(point), point, lambda: lesson(second_seed(seed)))
        geometry = local_geometry(placed)
        said = predict_steady_state(placed, noise)
        # The noise of a repeat is the same for every placement.
        run = simulate(placed, noise, cycles=cycles, repeats=own, seed=seed)
        errors, quarter = run.errors[0] / run.errors[0, 0], cycles // 4
        early, late = errors[2 * quarter : 3 * quarter].mean(), errors[3 * quarter :].mean()
        return {
            "repeat": repeat,
            "placement": name,
            "modes": said.rank,
            "value": float(early + late) / 2,
            "change": float(late - early),
            "minimum": said.minimum / geometry.loss,
            "predicted": said.value / geometry.loss,
            "rate": math.nan if noise.no_formula else geometry.rate(noise),
        }

    def summarise(self, point: Params, rows: Columns) -> list[Row]:
        problem, placements = problem_of(point), dict(self.cases(point))
        names, table = by_case(rows, "placement", "value")
        lines: list[Row] = []
        for place, name in enumerate(names):
            here = rows["placement"] == name
            verdict = certify(problem, placements[name])
            line: Row = {"placement": name, "verdict": verdict.kind}
            line |= {"verdict_grade": verdict.grade.kind, "rank": verdict.rank}
            line |= {"needed": verdict.needed, "repeats": table.shape[0]}
            more, change = table[:, place] - table[:, 0], rows["change"][here]
            line |= with_errors(value=table[:, place], more=more, change=change)
            means = ("minimum", "predicted", "rate", "modes")
            line |= {kept: finite(float(rows[kept][here].mean())) for kept in means}
            lines.append({**line, "level": is_level(line)})
        return lines


@lru_cache(maxsize=16)
def candidates(problem: Problem, plastic: int) -> dict[str, Allocation]:
    """The placements that are compared; one that repeats another, such as designed, is left out."""
    distinct: dict[str, Allocation] = {}
    for name, allocation in candidate_placements(problem, plastic).items():
        if allocation not in distinct.values():
            distinct[name] = allocation
    return distinct


def second_seed(seed: int) -> int:
    """Of the draws of second tasks."""
    return stream(seed, Tag.SECOND_TASK)
