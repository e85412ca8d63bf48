"""What a run will take: points, trials, time and disk, told without writing anything."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sublearn._interrupts import deferred, safe_point
from sublearn._threads import single_thread
from sublearn.runs._chunks import by_column
from sublearn.runs._door import at_the_door
from sublearn.runs._experiment import Experiment, Plan, Point
from sublearn.runs._ledger import Ledger

_POINTS, _TRIALS = 9, 4  # that are computed to see how long they take
_LINE = 60  # bytes of a line of timings.csv
_WORDS = 300_000  # bytes of table, pictures and page of an experiment
_SIZES = {int: 8, float: 8, bool: 1}


@dataclass(frozen=True)
class Forecast:
    """What is left of one experiment, and what that takes.

    ``seconds`` are those of one core, from a few trials of up to nine points, evenly spread over the plan:
    each speaks for the points nearest to it. ``bytes`` are an upper bound: files are packed.
    """

    experiment: str
    points: int
    trials: int
    trials_left: int
    seconds: float
    bytes: int

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def forecast(
    experiments: Iterable[Experiment],
    *,
    out: str | Path,
    budget: str = "quick",
    seed: int | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> list[Forecast]:
    """What :func:`execute` would compute into this folder, and what it would take; nothing is written.

    >>> import tempfile, sublearn as sl
    >>> from sublearn.experiments.tasks import TASKS
    >>> point = sl.runs.Point({"network": "ffn:2-2", "samples": 2, "learn": "W1:all"}, trials=300)
    >>> plan = sl.runs.Plan((point,))
    >>> whole = sl.runs.Experiment("whole", "All of W1", "", "", TASKS["estimate"], plan, plan, hours=0)
    >>> (found,) = forecast([whole], out=tempfile.mkdtemp())
    >>> found.points, found.trials_left, found.seconds > 0
    (1, 300, True)
    """
    with deferred():
        folder, chosen = at_the_door(experiments, out, budget, seed)
        forecasts = []
        for declared in chosen.values():
            ledger = Ledger(folder, declared, repair=False)
            forecasts.append(_of_one(declared.experiment, declared.plan, ledger.trials_left))
            progress(len(forecasts))
            safe_point()
        return forecasts


def _of_one(experiment: Experiment, plan: Plan, left: int) -> Forecast:
    seconds, size = 0.0, 0.0
    if left:
        points, last = plan.points, len(plan.points) - 1
        places = sorted({round(i * last / (_POINTS - 1)) for i in range(_POINTS)})
        looks = [_computed(experiment, points[place], plan.seed) for place in places]
        for number, point in enumerate(points):
            near = min(range(len(places)), key=lambda look: abs(places[look] - number))
            of_chunk, of_trial, size_of_trial = looks[near]
            seconds += point.trials * (of_trial + of_chunk / min(point.chunk, point.trials))
            size += point.trials * size_of_trial
        seconds, size = (total * left / plan.trials for total in (seconds, size))
        size += _LINE * left / max(1, min(point.chunk for point in points)) + _WORDS
    return Forecast(experiment.name, len(plan.points), plan.trials, left, seconds, round(size))


def processor_seconds() -> float:
    """Of this process, and of the programs that it started and that have ended, such as msolve."""
    return time.process_time() + sum(os.times()[2:4])


def _computed(experiment: Experiment, point: Point, seed: int) -> tuple[float, float, float]:
    """Processor seconds of a chunk by itself and of a trial in it, and the bytes of a trial.

    Many tasks take a chunk at once, so that a trial more costs little: one trial and a few are timed, and
    the line through both is followed. One trial is computed beforehand, for what has to be compiled.
    """
    task, count = experiment.task, min(_TRIALS, point.chunk, point.trials)
    times: list[float] = []
    with single_thread():
        for trials in (range(1), range(1), range(count)):
            safe_point()
            begun = processor_seconds()
            rows = task.run(point.params, seed, trials)
            times.append(processor_seconds() - begun)
    _, one, several = times
    of_trial = max(0.0, several - one) / (count - 1) if count > 1 else one
    columns: Mapping[str, list[Any]] = by_column(task, rows, count)
    size = 12.0 * count
    for name, kind in task.columns.items():
        size += sum(_SIZES.get(kind) or 4 + len(str(value)) for value in columns[name])
    return max(0.0, one - of_trial), of_trial, size / count
