"""An experiment, declared as data: points, budgets, what the source says, what is drawn."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING

from sublearn._errors import BadInputError, one_of, shown, whole_number
from sublearn._limits import check_memory
from sublearn.runs._tables import Table
from sublearn.runs._task import Json, Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BUDGETS = ("quick", "full")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,99}")  # it becomes the name of a folder


def is_name(text: str) -> bool:
    """Whether an experiment may be called so: no name leads out of a folder or needs quotes."""
    return _NAME.fullmatch(text) is not None


@dataclass(frozen=True)
class Point:
    """One setting of an experiment, and how many trials are spent on it.

    ``params`` is flat, its values plain (text, numbers, truth values, None). ``chunk`` trials are
    computed together; they are the unit that is handed to a worker and kept on disk, so a chunk should
    take between a tenth of a second and a few seconds.

    >>> Point({"n": 8, "k": 5}, trials=20).chunks
    [range(0, 8), range(8, 16), range(16, 20)]
    """

    params: Mapping[str, Json]
    trials: int
    chunk: int = 8

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", dict(self.params))
        whole_number("trials", self.trials, least=1)
        whole_number("chunk", self.chunk, least=1)
        for name, value in self.params.items():
            if not isinstance(name, str) or not name:
                raise BadInputError(f"the names of params must be text, not {name!r}.")
            if value is not None and type(value) not in (str, int, float, bool):
                raise BadInputError(
                    f"param {name} must be text, a number, a truth value or None, not {value!r}."
                )
            if isinstance(value, float) and not math.isfinite(value):
                raise BadInputError(f"param {name} must be finite, not {value!r}.")

    @property
    def chunks(self) -> list[range]:
        """The trials, cut into the pieces that are computed together."""
        starts = range(0, self.trials, self.chunk)
        return [range(i, min(i + self.chunk, self.trials)) for i in starts]


Points = Iterator[Point]


@dataclass(frozen=True)
class Plan:
    """One budget of an experiment: its points, and the seed of all their draws."""

    points: tuple[Point, ...]
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", tuple(self.points))
        whole_number("seed", self.seed, least=0)
        if not self.points:
            raise BadInputError("points must hold at least one point.")
        seen: set[str] = set()
        for point in self.points:
            key = json.dumps(dict(point.params), sort_keys=True)
            if key in seen:
                raise BadInputError(f"points must differ; {key} stands there twice.")
            seen.add(key)

    @classmethod
    def of(cls, *groups: Iterable[Point]) -> Plan:
        """All points of these groups, in their order."""
        return cls(tuple(chain(*groups)))

    @property
    def trials(self) -> int:
        """Of all points together."""
        return sum(point.trials for point in self.points)


@dataclass(frozen=True)
class Experiment:
    """A grid of points with a task, in a quick and a full budget, and what is made of the table.

    ``source`` says where in the paper or the slides it stands, ``claim`` what is said there. ``hours``
    is what the full budget is expected to take on two cores. ``columns`` gives the columns that are its
    own, and not of the task, their headings. ``draw`` makes the pictures and ``find`` the sentences,
    both from the final table alone: its rows are the params of a point followed by what the task made
    of its trials. ``needs`` names a package of an extra without which no trial can run.
    """

    name: str
    title: str
    source: str
    claim: str
    task: Task
    quick: Plan
    full: Plan
    hours: float
    columns: Mapping[str, str] = field(default_factory=dict)
    draw: Callable[[Table], dict[str, Figure]] = field(default=lambda table: {})
    find: Callable[[Table], str] = field(default=lambda table: "")
    needs: str = ""

    @property
    def headings(self) -> dict[str, str]:
        """The heading of each column of the table: what a point says, what the task makes of it."""
        return {**self.task.takes, **self.task.headings, **self.columns}

    @property
    def can_run(self) -> bool:
        """Whether the package that it needs is installed."""
        return not self.needs or find_spec(self.needs) is not None

    def __post_init__(self) -> None:
        if not is_name(self.name):
            raise BadInputError(
                f"name must be at most 100 lower-case letters, digits and hyphens, not {self.name!r}."
            )

    def plan(self, budget: str) -> Plan:
        """The plan of one budget, ``quick`` or ``full``."""
        return self.quick if one_of("budget", budget, BUDGETS) == "quick" else self.full


def check_names(task: Task, params: Mapping[str, Json]) -> None:
    """Refuse a param that is called like a result: in the table one would cover the other."""
    both = [name for name in params if name in task.headings]
    if both:
        raise BadInputError(
            f"{both[0]} is a result of task {task.name}, so no axis and no param can be called so; "
            f"its results are {', '.join(task.headings)}."
        )


def check_size(name: str, task: Task, trials: int, chunks: int) -> None:
    """Refuse an experiment whose rows, or whose list of chunks, would not fit into memory."""
    # A chunk takes a place in a set, a range and an object; rows are read, joined and sorted at the end.
    row = 3 * (12 + 8 * len(task.columns))
    check_memory(
        f"{name} with {shown(trials)} trials in {shown(chunks)} chunks",
        300 * chunks + row * trials,
        "fewer trials, or split it into several runs",
    )
