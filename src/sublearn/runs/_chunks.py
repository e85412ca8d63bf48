"""A chunk: some trials of one point, computed together by one worker."""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from sublearn._tables import Row
from sublearn.runs._task import Json, Task

Columns = dict[str, list[Any]]


@dataclass(frozen=True)
class Chunk:
    """All that a worker needs to know; what comes out depends on nothing else."""

    experiment: str
    task: Task
    index: int
    params: Mapping[str, Json]
    seed: int
    trials: range

    @property
    def key(self) -> tuple[str, int, int]:
        """Which chunk of the run it is."""
        return self.experiment, self.index, self.trials.start


@dataclass(frozen=True)
class Done:
    """The columns of a chunk's rows; seconds and the worker's process stand apart."""

    columns: Columns
    seconds: float
    worker: str


@dataclass(frozen=True)
class Failed:
    """A chunk that failed, in words: an exception itself may not survive the way from a worker."""

    error: str
    details: str = ""
    attempts: int = 1


Outcome = Done | Failed


def compute(chunk: Chunk) -> Outcome:
    """Compute a chunk in this process, and check that the rows are what the task promised."""
    import os
    import socket

    begun = time.perf_counter()
    try:
        rows = chunk.task.run(chunk.params, chunk.seed, chunk.trials)
        columns = by_column(chunk.task, rows, len(chunk.trials))
    except Exception as problem:  # whatever a task may raise; Ctrl-C goes through
        return raised(problem)
    seconds = time.perf_counter() - begun
    return Done(columns, seconds, f"{socket.gethostname()}:{os.getpid()}")


def raised(problem: BaseException) -> Failed:
    """An exception in words."""
    said = "".join(traceback.format_exception_only(problem)).strip()
    return Failed(said, "".join(traceback.format_exception(problem)))


def by_column(task: Task, rows: list[Row], count: int) -> Columns:
    """The rows, turned; anything but the promised names and types is an error."""
    if len(rows) != count:
        raise ValueError(f"task {task.name} gave {len(rows)} rows for {count} trials")
    columns = task.columns
    for row in rows:
        if row.keys() != columns.keys():
            odd = ", ".join(sorted(columns.keys() ^ row.keys()))
            raise ValueError(f"task {task.name} gave rows that differ from its columns: {odd}")
    return {
        name: [_value(task, name, kind, row[name]) for row in rows]
        for name, kind in columns.items()
    }


def _value(task: Task, name: str, kind: type, value: Any) -> Any:
    if type(value) is kind:
        return value
    if kind is float and value is None:
        return math.nan
    if kind is float and isinstance(value, Real) and not isinstance(value, bool):
        return float(value)
    if kind is int and isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    if type(value).__name__ in ("bool", "bool_") and kind is bool:  # numpy's
        return bool(value)
    if kind is str and isinstance(value, str):
        return str(value)
    raise TypeError(
        f"task {task.name} gave {value!r} in column {name}, which holds {kind.__name__}"
    )
