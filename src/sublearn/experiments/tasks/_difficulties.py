"""Local task difficulty against size."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from sublearn._errors import BadInputError
from sublearn.experiments.raman2019 import sigmoid_path
from sublearn.experiments.tasks._asked import Columns, Params
from sublearn.experiments.tasks._repeats import (
    by_case,
    listed,
    noise_of,
    quartiles,
    stream,
    turns,
    whole,
)
from sublearn.noise import Geometry, local_geometry
from sublearn.runs import Row, Table, Task


class Difficulties(Task):
    """Sigmoid students padded to each of the ``widths``: difficulty, its critical value, the rate.

    Students are those of the published pictures, ``approached`` gradient steps into learning; trial i
    is student i // W at the (i % W)-th of W widths. The table has a line per width, with medians and
    quartiles over students; ``best`` counts the students for whom the ratio of difficulty to critical
    difficulty is smallest at this width.
    """

    name = "difficulty"
    columns: Mapping[str, type] = {
        "repeat": int,
        "width": int,
        "size": int,
        **dict.fromkeys(("difficulty", "critical", "ratio", "rate"), float),
    }
    headings: Mapping[str, str] = {
        "width": "width of the five hidden layers",
        "size": "number of weights N",
        "students": "students",
        "difficulty": "local task difficulty, median",
        "difficulty_low": "lower quartile",
        "difficulty_high": "upper quartile",
        "ratio": "difficulty over critical difficulty, median",
        "ratio_low": "lower quartile",
        "ratio_high": "upper quartile",
        "rate": "mean rate <k>, median",
        "rate_low": "lower quartile",
        "rate_high": "upper quartile",
        "critical": "critical difficulty",
        "learn": "students that learn",
        "best": "students for whom this size has the smallest ratio",
    }
    results = tuple(headings)

    def check(self, point: Params) -> None:
        if not noise_of(point).gamma[0]:
            raise BadInputError("gamma1 must be above 0: without it nothing is learned.")
        whole(point, "approached", 30, least=0)
        _widths(point)

    def run(self, point: Params, seed: int, trials: range) -> Table:
        noise, widths = noise_of(point), _widths(point)
        approached = whole(point, "approached", 30, least=0)
        found: Table = []
        for student, place in turns(trials, len(widths)):
            geometry = _student(seed, student, approached, tuple(widths))[place]
            difficulty = geometry.difficulty(noise)
            critical = geometry.critical_difficulty(noise)
            found.append(
                {
                    "repeat": student,
                    "width": widths[place],
                    "size": geometry.plastic,
                    "difficulty": difficulty,
                    "critical": critical,
                    "ratio": difficulty / critical,
                    "rate": geometry.rate(noise),
                }
            )
        return found

    def summarise(self, point: Params, rows: Columns) -> Table:
        widths, ratios = by_case(rows, "width", "ratio")
        lowest = ratios.argmin(axis=1) if ratios.size else np.empty(0, dtype=int)
        lines: Table = []
        for place, width in enumerate(widths):
            here = rows["width"] == width
            line: Row = {"width": width, "size": int(rows["size"][here][0])}
            line["students"] = int(here.sum())
            for name in ("difficulty", "ratio", "rate"):
                line |= quartiles(name, rows[name][here])
            line["critical"] = float(np.median(rows["critical"][here]))
            line["learn"] = int((rows["ratio"][here] < 1).sum())
            line["best"] = int((lowest == place).sum())
            lines.append(line)
        return lines


def _widths(point: Params) -> list[int]:
    found = listed(point, "widths")
    if any(width != int(width) or width < 5 for width in found) or sorted(found) != found:
        raise BadInputError(
            f"widths must be whole numbers from 5 on, rising, not {point.get('widths')!r}."
        )
    return [int(width) for width in found]


@lru_cache(maxsize=8)  # the widths of one student come one after the other
def _student(
    seed: int, student: int, approached: int, widths: tuple[int, ...]
) -> tuple[Geometry, ...]:
    base = widths if widths[0] == 5 else (5, *widths)
    path = sigmoid_path(base, trained=0, approached=approached, seed=stream(seed, student))
    return tuple(local_geometry(grown) for grown in path[-len(widths) :])
