"""From rows to what people look at: table, pictures and words of one experiment."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sublearn._files import explained
from sublearn._reading import Unreadable, read_json, read_regular
from sublearn._tables import plain, table_bytes
from sublearn.plots import save
from sublearn.runs._chunks import raised
from sublearn.runs._experiment import Experiment, Plan
from sublearn.runs._files import KEPT, make_folder, write_file, write_json
from sublearn.runs._shards import POINT, TRIAL
from sublearn.runs._tables import Table, parse_table
from sublearn.runs._task import Task

TABLE = "table.csv"
ABOUT = "about.json"

Problem = dict[str, Any]


def summarise(
    task: Task, points: list[Mapping[str, Any]], rows: Mapping[str, np.ndarray]
) -> tuple[Table, list[Problem]]:
    """The final table, from the points all of whose trials are there, in the order of the points."""
    table = Table()
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
        table += [{**entry["params"], **{n: plain(v) for n, v in line.items()}} for line in lines]
        if lines and (both := sorted(entry["params"].keys() & lines[0].keys())):
            # A task that does not say its results beforehand: nothing is overwritten in silence.
            same = ValueError(f"{both[0]} is a param of the point and a result of the task")
            problems.append(trouble("summarise", same, point=index, params=entry["params"]))
            del table[-len(lines) :]
    return table, problems


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
    content = table_bytes(table)
    path = folder / TABLE
    digest = hashlib.sha256(content).hexdigest()
    if not redraw and _same(path, content) and _complete(folder, digest):
        return problems
    make_folder(folder)
    (folder / ABOUT).unlink(missing_ok=True)
    write_file(path, content)
    # Drawn from what was written: what a reader of the file sees is what the picture shows.
    about = {"finds": "", "pictures": [], "table": digest}
    if table:
        back = parse_table(content)
        about["pictures"] = _draw(folder, experiment, back, problems)
        try:
            about["finds"] = experiment.find(back)
        except Exception as problem:
            problems.append(trouble("find", problem))
    write_json(folder / ABOUT, about)
    return problems


def _same(path: Path, content: bytes) -> bool:
    try:
        return read_regular(path, len(content), links=False) == content
    except (FileNotFoundError, Unreadable):
        return False


def _complete(folder: Path, digest: str) -> bool:
    """Whether words and pictures of this very table are there."""
    try:
        about = read_about(folder / ABOUT)
        paths = [folder / name for name in about["pictures"]]
        there = all(not path.is_symlink() and path.stat().st_size > 0 for path in paths)
        return there and about.get("table", digest) == digest
    except (OSError, Unreadable):
        return False


_PICTURE = re.compile(r"[\w-][\w.-]{0,200}\.(png|svg)", flags=re.ASCII)


def read_about(path: Path) -> dict[str, Any]:
    """What about.json says: words, the names of pictures in the same folder, the table's SHA-256."""
    about = read_json(path, links=False)
    if not isinstance(about, dict) or not isinstance(about.get("finds"), str):
        raise Unreadable("it does not say what is found")
    pictures = about.get("pictures")
    if not isinstance(pictures, list) or not all(
        isinstance(name, str) and _PICTURE.fullmatch(name) for name in pictures
    ):
        raise Unreadable("its pictures are not names of pictures beside it")
    if not isinstance(about.get("table", ""), str):
        raise Unreadable("the digest of its table is no text")
    return about


def _draw(folder: Path, experiment: Experiment, table: Table, problems: list[Problem]) -> list[str]:
    names: list[str] = []
    try:
        figures = experiment.draw(table)
        if figures:
            for name, figure in figures.items():
                if not _PICTURE.fullmatch(f"{name}.png"):
                    raise ValueError(f"a picture cannot be called {name!r}")
                save(figure, folder / name)
                names += [f"{name}.png", f"{name}.svg"]
    except OSError as problem:  # of the disk: said with its file
        raise explained(problem, Path(problem.filename or folder), KEPT) from None
    except Exception as problem:
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
