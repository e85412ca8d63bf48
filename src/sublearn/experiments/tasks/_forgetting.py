"""A task that was learned, while task-irrelevant change goes on and nothing practises it."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from sublearn._arrays import Array
from sublearn._errors import BadInputError, positive
from sublearn.allocations import Allocation
from sublearn.ensembles import Instance
from sublearn.experiments.tasks._placements import Placements, second_seed
from sublearn.experiments.tasks._point import Columns, Params, problem_of
from sublearn.experiments.tasks._repeats import by_case, changed, noise_of, whole, with_errors
from sublearn.noise import (
    draw_lessons,
    flatten,
    loss_at,
    matrices,
    plastic_positions,
    predict_steady_state,
    simulate,
)
from sublearn.runs import Row


class Forgetting(Placements):
    """What ``cycles`` of ``irrelevant`` change, of length gamma2 T each, leave of a first task.

    ``network``, ``samples``, ``ensemble``, ``plastic`` as for placements. The first task is learned before:
    the weights are the nearest to the start that minimise its error. Then gamma1 = gamma3 = 0. The second
    task is another draw by the same laws, and homeostasis pulls rows to ``norm``. Errors of the first task
    are relative to the one before it was learned: ``value``, after the cycles; ``forgotten``, less what was
    left when it was learned; ``predicted``: under white change the mean, F + cycles T^2 gamma2^2 Tr H_M /
    (2 r); else the end that change leads to, the nearest weights that minimise the second task's error, or
    rows of the norm. ``other``: the second task's error, relative to that at the start. The table has a line
    per placement; ``more``: forgotten than spread, pair by pair.
    """

    name = "forgetting"
    version = 1
    columns: Mapping[str, type] = {
        "repeat": int,
        "placement": str,
        **dict.fromkeys(("value", "forgotten", "predicted", "other"), float),
    }
    takes: Mapping[str, str] = {
        **{name: words for name, words in Placements.takes.items() if name != "factors"},
        "norm": "norm to which homeostasis pulls rows",
    }
    headings: Mapping[str, str] = {
        "placement": "placement",
        "repeats": "paired repeats",
        "value": "error / error before learning",
        "error": "standard error",
        "forgotten": "forgotten: error less that when learned",
        "forgotten_error": "standard error of forgotten",
        "more": "more forgotten than spread",
        "more_error": "standard error, paired",
        "predicted": "predicted error / error before learning",
        "other": "second task's error / that at the start",
        "other_error": "standard error of the second task's",
    }

    def check(self, point: Params) -> None:
        super().check(point)
        positive("norm", point.get("norm"))
        gamma = noise_of(point).gamma
        if gamma[0] or gamma[2] or not gamma[1]:
            raise BadInputError(
                f"gamma must be 0, above 0 and 0 where a task is to be forgotten, not {gamma}."
            )

    def one(self, point: Params, seed: int, repeat: int, case: tuple[str, Allocation]) -> Row:
        problem, cycles = problem_of(point), whole(point, "cycles", 3000, least=8)
        own, (name, allocation) = range(repeat, repeat + 1), case
        first, second = (
            draw_lessons(problem, own, seed=one)[0].with_allocation(allocation)
            for one in (seed, second_seed(seed))
        )
        start = flatten(first.network, first.start)
        before, learned = loss_at(first, start), nearest(first, start)
        weights = matrices(first.network, learned)
        known = Instance(first.network, allocation, weights, first.inputs, first.targets)
        noise = changed(noise_of(point), point, lambda: second)
        run = simulate(known, noise, cycles=cycles + 1, repeats=own, seed=seed)
        value, left = run.errors[0, [-1, 0]] / before
        if noise.irrelevant is None:
            predicted = left + cycles * predict_steady_state(known, noise).drift / before
            other = math.nan
        elif run.other_errors is not None:
            predicted = loss_at(first, nearest(second, learned)) / before
            other = run.other_errors[0, -1] / loss_at(second, start)
        else:
            norm = positive("norm", point["norm"])
            predicted, other = loss_at(first, to_norm(known, norm)) / before, math.nan
        cells = {"value": value, "forgotten": value - left, "predicted": predicted, "other": other}
        return {"repeat": repeat, "placement": name, **{k: float(v) for k, v in cells.items()}}

    def summarise(self, point: Params, rows: Columns) -> list[Row]:
        names, forgotten = by_case(rows, "placement", "forgotten")
        lines: list[Row] = []
        for place, name in enumerate(names):
            here, lost = rows["placement"] == name, forgotten[:, place]
            line: Row = {"placement": name, "repeats": forgotten.shape[0]}
            line |= with_errors(
                value=rows["value"][here], forgotten=lost, more=lost - forgotten[:, 0]
            )
            line["predicted"] = float(rows["predicted"][here].mean())
            if point.get("irrelevant") == "second task":
                line |= with_errors(other=rows["other"][here])
            else:
                line |= {"other": None, "other_error": None}
            lines.append(line)
        return lines


def nearest(instance: Instance, start: Array) -> Array:
    """The weights nearest to ``start`` that minimise F over the plastic ones, where outputs are affine."""
    network, index = instance.network, plastic_positions(instance)
    weights = matrices(network, start)
    gap = instance.targets - network.forward(weights, instance.inputs)
    slope = network.jacobian(weights, instance.inputs, instance.allocation)
    end = start.copy()
    end[index] += np.linalg.lstsq(slope, gap.reshape(-1), rcond=None)[0]
    return end


def to_norm(instance: Instance, norm: float) -> Array:
    """The weights with the plastic ones of each row scaled, to 0 at least, until the row has the norm."""
    network = instance.network
    end, plastic = flatten(network, instance.start), np.zeros(network.cells, dtype=bool)
    plastic[plastic_positions(instance)] = True
    biases, parts = {step.bias for step in network.steps}, matrices(network, plastic)
    for name, matrix in matrices(network, end).items():  # views: what is written here stands in end
        for row, moves in zip(matrix, parts[name], strict=True):
            free = math.sqrt(row[moves] @ row[moves])
            if name not in biases and free:
                row[moves] *= math.sqrt(max(norm**2 - row[~moves] @ row[~moves], 0.0)) / free
    return end
