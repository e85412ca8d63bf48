"""How the direction of a step trades slope for curvature."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from sublearn._errors import BadInputError, one_of
from sublearn.experiments.raman2019 import sigmoid_path, slope_against_curvature
from sublearn.experiments.tasks._point import Columns, Params
from sublearn.experiments.tasks._repeats import Paired, quartiles, stream, whole
from sublearn.noise import local_geometry
from sublearn.runs import Row

TOWARDS = ("flatter", "random")


class Directions(Paired):
    """Steps of a sigmoid student that turn away from the gradient, one angle per trial.

    The student of the published pictures, ``approached`` gradient steps into learning. A step has
    ``steps`` times the length |g|/|q| and turns from the gradient ``towards`` the flatter direction or
    a random one, by each of so many ``angles`` from 0 to 90 degrees: a repeat is a student at all of them.
    Slope, curvature and the fall of F are in units of the slope of the gradient step. The table tells
    students apart by the sign of q: where F ``bends`` up along the gradient the curvature eats into
    the slope, where it bends down it adds to it.
    """

    name = "directions"
    columns: Mapping[str, type] = {
        "bends": str,
        "angle": float,
        "slope": float,
        "curvature": float,
        "fall": float,
    }
    takes: Mapping[str, str] = {
        "towards": "turned towards",
        "steps": "length of the step, in |g|/|q|",
        "approached": "gradient steps into learning",
        "angles": "angles",
    }
    headings: Mapping[str, str] = {
        "bends": "F bends along the gradient",
        "angle": "angle to the gradient (degrees)",
        "students": "students",
        "slope": "slope (gradient step: 1), median",
        "curvature": "curvature, same unit, median",
        "curvature_low": "lower quartile",
        "curvature_high": "upper quartile",
        "fall": "fall of F, same unit, median",
        "fall_low": "lower quartile",
        "fall_high": "upper quartile",
        "learn": "students whose F falls",
    }

    def check(self, point: Params) -> None:
        one_of("towards", str(point.get("towards")), TOWARDS)
        whole(point, "approached", 30, least=0)
        self.cases(point)
        steps = point.get("steps", 1.0)
        if isinstance(steps, bool) or not isinstance(steps, int | float) or not steps > 0:
            raise BadInputError(f"steps must be a number above 0, not {steps!r}.")

    def cases(self, point: Params) -> range:
        return range(whole(point, "angles", 19, least=2))

    def one(self, point: Params, seed: int, repeat: int, case: int) -> Row:
        approached, steps = whole(point, "approached", 30, least=0), point.get("steps", 1.0)
        angles = len(self.cases(point))
        bends, rows = _turned(seed, repeat, approached, float(str(steps)), angles)
        row = [row for row in rows if row["towards"] == point["towards"]][case]
        unit = float(rows[0]["slope"])
        line = {name: float(row[name]) / unit for name in ("slope", "curvature")}
        fall = float(row["measured"]) / unit
        return {"bends": bends, "angle": row["angle"], **line, "fall": fall}

    def summarise(self, point: Params, rows: Columns) -> list[Row]:
        lines: list[Row] = []
        for bends in ("up", "down"):
            for angle in np.unique(rows["angle"][rows["bends"] == bends]):
                here = (rows["bends"] == bends) & (rows["angle"] == angle)
                fall = rows["fall"][here]
                line: Row = {"bends": bends, "angle": float(angle), "students": int(here.sum())}
                line["slope"] = float(np.median(rows["slope"][here]))
                line |= {**quartiles("curvature", rows["curvature"][here])}
                lines.append({**line, **quartiles("fall", fall), "learn": int((fall > 0).sum())})
        return lines


@lru_cache(maxsize=8)  # the angles of one student come one after the other
def _turned(
    seed: int, student: int, approached: int, steps: float, angles: int
) -> tuple[str, list[dict[str, float | str]]]:
    own = stream(seed, student)
    (grown,) = sigmoid_path((5,), trained=0, approached=approached, seed=own)
    geometry = local_geometry(grown)
    length = steps * geometry.gradient_norm / abs(geometry.q)
    rows = slope_against_curvature(grown, length=length, angles=angles, seed=own)
    return "up" if geometry.q > 0 else "down", rows
