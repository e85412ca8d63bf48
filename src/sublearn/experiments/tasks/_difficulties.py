"""Local task difficulty against size."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from sublearn._errors import BadInputError
from sublearn.experiments.raman2019 import sigmoid_path
from sublearn.experiments.tasks._point import Columns, Params
from sublearn.experiments.tasks._repeats import (
    GAMMA,
    Paired,
    by_case,
    noise_of,
    quartiles,
    stream,
    whole,
    widths_of,
)
from sublearn.noise import Geometry, local_geometry
from sublearn.runs import Row


class Difficulties(Paired):
    """Sigmoid students padded to each of the ``widths``: difficulty, its critical value, the rate.

    Students are those of the published pictures, ``approached`` gradient steps into learning; a
    repeat is a student at all widths. The table has a line per width, with medians and
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
    takes: Mapping[str, str] = {
        **GAMMA,
        "approached": "gradient steps into learning",
        "widths": "widths compared",
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

    def check(self, point: Params) -> None:
        if not noise_of(point).gamma[0]:
            raise BadInputError("gamma1 must be above 0: without it nothing is learned.")
        whole(point, "approached", 30, least=0)
        self.cases(point)

    def cases(self, point: Params) -> list[int]:
        return widths_of(point, "from 5 on, rising")

    def one(self, point: Params, seed: int, repeat: int, case: int) -> Row:
        noise, widths = noise_of(point), self.cases(point)
        approached = whole(point, "approached", 30, least=0)
        geometry = student(seed, repeat, approached, tuple(widths))[widths.index(case)]
        difficulty, critical = geometry.difficulty(noise), geometry.critical_difficulty(noise)
        return {
            "repeat": repeat,
            "width": case,
            "size": geometry.plastic,
            "difficulty": difficulty,
            "critical": critical,
            "ratio": difficulty / critical,
            "rate": geometry.rate(noise),
        }

    def summarise(self, point: Params, rows: Columns) -> list[Row]:
        widths, ratios = by_case(rows, "width", "ratio")
        lowest = ratios.argmin(axis=1) if ratios.size else np.empty(0, dtype=int)
        lines: list[Row] = []
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


@lru_cache(maxsize=8)  # the widths of one student come one after the other
def student(
    seed: int, student: int, approached: int, widths: tuple[int, ...]
) -> tuple[Geometry, ...]:
    """One student at all widths."""
    base = widths if widths[0] == 5 else (5, *widths)
    path = sigmoid_path(base, trained=0, approached=approached, seed=stream(seed, student))
    return tuple(local_geometry(grown) for grown in path[-len(widths) :])
