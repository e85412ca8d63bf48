"""Trials that go through several cases in every repeat, so that cases are compared pair by pair."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sublearn._arrays import Array
from sublearn._errors import BadInputError, one_of, whole_number
from sublearn.ensembles import Instance
from sublearn.experiments.tasks._point import Columns, Params
from sublearn.noise import DEGREE, TOLERANCE, Homeostasis, Noise, SecondTask, peak_of_batches
from sublearn.runs import Row, Task

GAMMA = {
    "gamma1": "gamma1, task-relevant",
    "gamma2": "gamma2, task-irrelevant",
    "gamma3": "gamma3, synaptic noise",
}
"""The levels of noise that a point says, with headings."""

IRRELEVANT = ("white", "second task", "homeostasis")
"""What task-irrelevant change may be, as a point's ``irrelevant`` says; white where it says nothing."""

CUBIC = 3
"""Degree of the polynomial in log N for a best size, where sizes are few or repeats differ much."""

BEST = {
    "best_low": "95% interval, low end",
    "best_high": "95% interval, high end",
    "inside": "best size inside the range",
    "best_of_curve": "best size of the predicted curve",
    "best_predicted": "best size by formula",
    "best_slides": "best size by the slides' formula",
}
"""What a table says of a best size beside the size itself, with headings."""


class Paired(Task):
    """Trials that go through the same cases in every repeat: trial i is case i % C of repeat i // C."""

    shares = "paired"

    @abstractmethod
    def cases(self, point: Params) -> Sequence[Any]:
        """What a repeat goes through, in order; BadInputError if the point does not say it rightly."""

    @abstractmethod
    def one(self, point: Params, seed: int, repeat: int, case: Any) -> Row:
        """What is kept of one case of a repeat."""

    def run(self, point: Params, seed: int, trials: range) -> list[Row]:
        cases = self.cases(point)
        return [
            self.one(point, seed, repeat, cases[at]) for repeat, at in turns(trials, len(cases))
        ]


def turns(trials: range, cases: int) -> Iterator[tuple[int, int]]:
    """(repeat, case) of each trial: trial i is case i % cases of repeat i // cases.

    >>> list(turns(range(2, 5), 3))
    [(0, 2), (1, 0), (1, 1)]
    """
    for trial in trials:
        yield divmod(trial, cases)


def by_case(rows: Columns, case: str, value: str) -> tuple[list[Any], Array]:
    """Cases in their order, and the values (repeats, cases) of the repeats that have them all.

    Where no repeat is whole, as after a single trial, the cases that are there count.
    """
    repeat = rows["repeat"]
    cases = list(dict.fromkeys(rows[case].tolist()))
    own = [repeat == number for number in np.unique(repeat)]
    repeats = [dict(zip(rows[case][here].tolist(), rows[value][here], strict=True)) for here in own]
    whole = [row for row in repeats if len(row) == len(cases)]
    return cases, np.array([[row[one] for one in cases] for row in whole], dtype=np.float64)


def with_errors(**columns: Array) -> Row:
    """Means and standard errors as cells: ``value`` with ``error``, any other x with ``x_error``."""
    cells: Row = {}
    for name, each in columns.items():
        cells[name], cells["error" if name == "value" else f"{name}_error"] = mean_and_error(each)
    return cells


def mean_and_error(values: Array) -> tuple[float, float | None]:
    """The mean and its standard error; a single value has none."""
    if values.size < 2:
        return float(values.mean()), None
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(values.size))


def quartiles(name: str, values: np.ndarray[Any, Any]) -> Row:
    """Median and quartiles of one column, as cells of a table."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75]).tolist()
    return {name: middle, f"{name}_low": low, f"{name}_high": high}


def is_level(cells: Row) -> bool:
    """Whether the ``change`` between two stretches, with twice its error, is small beside ``value``."""
    value, change, error = (cells[name] for name in ("value", "change", "change_error"))
    return error is not None and abs(change) + 2.0 * error <= TOLERANCE * abs(value)


def noise_of(point: Params, on: str = "plastic") -> Noise:
    """``gamma1``, ``gamma2`` and ``gamma3`` of a point, its ``T`` and ``mixing`` if it has them."""
    names = ("gamma1", "gamma2", "gamma3")
    for name in names:
        if name not in point:
            raise BadInputError(f"a point needs {name!r}; it has {', '.join(point)}.")
    levels: Any = tuple(point[name] for name in names)
    more: Any = {name: point[name] for name in ("T", "mixing") if name in point}
    return Noise(levels, on=on, **more)


def irrelevant_of(point: Params) -> str:
    """One of :data:`IRRELEVANT`; only white change has an old part to be mixed with."""
    kind = one_of("irrelevant", point.get("irrelevant", "white"), IRRELEVANT)
    if kind != "white" and point.get("mixing"):
        raise BadInputError(f"mixing must be 0 where n2 is {kind!r}, not {point['mixing']!r}.")
    return kind


def changed(noise: Noise, point: Params, second: Callable[[], Instance]) -> Noise:
    """The same noise with task-irrelevant change as the point says; ``second`` gives the other task.

    Homeostasis keeps the ``norm`` of the point, or that which each row starts with.
    """
    kind, norm = irrelevant_of(point), point.get("norm")
    if kind == "white":
        return noise
    own: Any = SecondTask(second()) if kind == "second task" else Homeostasis(norm)  # type: ignore
    return replace(noise, irrelevant=own)


def best_of(sizes: Sequence[int], table: Array, degree: int = DEGREE) -> Row:
    """The size at which means (repeats, sizes) are largest, as cells of a table; None where too few."""
    if len(sizes) <= degree or table.shape[0] < 2:
        return {"best": None, "best_low": None, "best_high": None, "inside": None}
    best, (low, high), boundary = peak_of_batches(sizes, table, degree)
    return {"best": best, "best_low": low, "best_high": high, "inside": not boundary}


def top_of(sizes: Sequence[int], curve: Array, degree: int = DEGREE) -> float | None:
    """Where a predicted curve is largest, found in the same way as that of the measured one."""
    if len(sizes) <= degree or not np.isfinite(curve).all():
        return None
    return peak_of_batches(sizes, np.stack([curve, curve]), degree)[0]


def listed(point: Params, name: str) -> list[float]:
    """Numbers set apart by spaces, such as ``widths`` = "5 8 12"."""
    words = str(point.get(name) or "").split()
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        numbers = []
    if not numbers or len(set(numbers)) < len(numbers) or not all(map(math.isfinite, numbers)):
        raise BadInputError(
            f"{name} must be different numbers set apart by spaces, not {point.get(name)!r}."
        )
    return numbers


def widths_of(point: Params, words: str, most: float = math.inf) -> list[int]:
    """The ``widths`` of a point; ``words`` say what they may be, in order where that is "rising"."""
    widths = listed(point, "widths")
    good = all(width == int(width) and 5 <= width <= most for width in widths)
    if not good or ("rising" in words and sorted(widths) != widths):
        raise BadInputError(f"widths must be whole numbers {words}, not {point.get('widths')!r}.")
    return [int(width) for width in widths]


def whole(point: Params, name: str, usual: int, least: int = 1) -> int:
    """A whole number of the point, ``usual`` unless it says one."""
    return whole_number(name, point.get(name, usual), least=least)


def stream(*parts: int) -> int:
    """One seed from several numbers, for verbs that take one."""
    return int(np.random.SeedSequence(list(parts)).generate_state(1, np.uint64)[0] >> 1)
