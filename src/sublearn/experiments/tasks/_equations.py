"""Decisions grouped by the number of equations that stay quadratic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sublearn.experiments.tasks._decisions import COUNTED, Decisions, counted, record
from sublearn.runs import Json, Row
from sublearn.verdicts import equation_counts


class ByEquations(Decisions):
    """Decisions with the count of Lemma 3.3 beside each: T b k - d m, for the k rows in use.

    The table has a line for each value that was drawn. (A rule for the first k rows may leave some
    of them empty.)
    """

    @property
    def name(self) -> str:
        return "estimate-by-equations"

    @property
    def results(self) -> tuple[str, ...]:
        return ("left", *COUNTED)

    @property
    def columns(self) -> Mapping[str, type]:
        return {**super().columns, "left": int}

    def run(self, point: Mapping[str, Json], seed: int, trials: range) -> list[Row]:
        found = []
        for trial in trials:
            instance, row = record(point, seed, trial)
            assert instance.problem is not None
            counts = equation_counts(instance.problem, instance.allocation)
            found.append({**row, "left": -1 if counts is None else counts.by_rows.left})
        return found

    def summarise(
        self, point: Mapping[str, Json], rows: Mapping[str, np.ndarray[Any, Any]]
    ) -> list[Row]:
        found = []
        for left in np.unique(rows["left"]):
            here = rows["left"] == left
            part = {name: values[here] for name, values in rows.items()}
            found.append({"left": int(left), **counted(part)})
        return found
