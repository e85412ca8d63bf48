"""From rows to what people look at: table, pictures and words of one experiment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sublearn.runs._chunks import raised
from sublearn.runs._experiment import Experiment, Plan
from sublearn.runs._files import make_folder, write_json, write_whole
from sublearn.runs._shards import POINT, TRIAL
from sublearn.runs._tables import plain, read_table, table_text
from sublearn.runs._task import Row, Table, Task

TABLE = "table.csv"
ABOUT = "about.json"

Problem = dict[str, Any]


def summarise(
    task: Task, points: list[Mapping[str, Any]], rows: Mapping[str, np.ndarray]
) -> tuple[Table, list[Problem]]:
    """The final table, from the points all of whose trials are there, in the order of the points."""
    table: Table = []
    problems: list[Problem] = []
    if not rows:
        return table, problems
    point = rows[POINT]
    bounds = np.searchsorted(point, np.arange(len(points) + 1, dtype=point.dtype))
    for index, entry in enumerate(points):
        low, high = bounds[index : index + 2]
        if high - low < entry["trials"]:
            continue
        own = {name: rows[name][low:high] for name in task.columns}
        try:
            lines = task.summarise(entry["params"], own)
        except Exception as problem:  # one point's trouble is not the others'
            problems.append(trouble("summarise", problem, point=index, params=entry["params"]))
            continue
        table += [_line(entry["params"], line) for line in lines]
    return table, problems


def _line(params: Mapping[str, Any], line: Mapping[str, Any]) -> Row:
    return {**params, **{name: plain(value) for name, value in line.items()}}


def finish(
    folder: Path, experiment: Experiment, plan: Plan, rows: Mapping[str, np.ndarray], redraw: bool
) -> list[Problem]:
    """Write table, pictures and words; what goes wrong on the way is returned and stops nothing else.

    Nothing is drawn again when the same table and its pictures are there, unless ``redraw``.
    """
    points: list[Mapping[str, Any]] = [
        {"params": p.params, "trials": p.trials} for p in plan.points
    ]
    table, problems = summarise(experiment.task, points, rows)
    content = table_text(table).encode()
    path = folder / TABLE
    same = path.is_file() and path.read_bytes() == content
    if same and not redraw and _complete(folder):
        return problems
    make_folder(folder)
    (folder / ABOUT).unlink(missing_ok=True)
    write_whole(path, content, durable=False)
    # Drawn from what was written: what a reader of the file sees is what the picture shows.
    about = {"finds": "", "pictures": []}
    if table:
        back = read_table(path)
        about["pictures"] = _draw(folder, experiment, back, problems)
        try:
            about["finds"] = experiment.find(back)
        except Exception as problem:
            problems.append(trouble("find", problem))
    write_json(folder / ABOUT, about, durable=False)
    return problems


def _complete(folder: Path) -> bool:
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        return all((folder / name).stat().st_size > 0 for name in about["pictures"])
    except (OSError, ValueError, KeyError):
        return False


def _draw(folder: Path, experiment: Experiment, table: Table, problems: list[Problem]) -> list[str]:
    names: list[str] = []
    try:
        figures = experiment.draw(table)
        if figures:
            from sublearn.plots import save

            for name, figure in figures.items():
                save(figure, folder / name)
                names += [f"{name}.png", f"{name}.svg"]
    except Exception as problem:
        if isinstance(problem, OSError):
            raise
        problems.append(trouble("draw", problem))
    return names


def trouble(step: str, problem: BaseException, **where: Any) -> Problem:
    """An entry of failures.json."""
    said = raised(problem)
    return {"step": step, **where, "error": said.error, "details": said.details}


def complete_trials(plan: Plan, rows: Mapping[str, np.ndarray]) -> int:
    """How many of the plan's trials are among the rows."""
    if not rows:
        return 0
    limits = np.array([p.trials for p in plan.points])
    known = rows[POINT] < len(limits)
    return int((rows[TRIAL][known] < limits[rows[POINT][known]]).sum())
