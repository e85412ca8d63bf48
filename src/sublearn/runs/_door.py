"""The door: what cannot be run, and where it cannot run, is refused before a byte is written."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sublearn._errors import BadInputError, one_of, whole_number
from sublearn._files import PART, check_out
from sublearn._interrupts import safe_point
from sublearn.runs._experiment import BUDGETS, Experiment, Plan, check_names, check_size
from sublearn.runs._files import DAMAGED, SHARDS, check_folders
from sublearn.runs._lock import LOCK, check_lock
from sublearn.runs._manifest import (
    MANIFEST,
    DamagedManifest,
    Declared,
    check_same,
    declare,
    read_manifest,
)
from sublearn.runs._shards import ENDING, POINT, TRIAL, label_in

ROOM = 250  # bytes: the longest path below a run's folder, with the name of an experiment


def at_the_door(
    experiments: Iterable[Experiment], out: str | Path, budget: str, seed: int | None
) -> tuple[Path, dict[str, Declared]]:
    """The folder and what is asked for there, by name, if both can be."""
    chosen = list(experiments)
    one_of("budget", budget, BUDGETS)
    if seed is not None:
        whole_number("seed", seed, least=0)
    if not chosen:
        raise BadInputError("experiments must hold at least one experiment.")
    declared: dict[str, Declared] = {}
    for e in chosen:
        if e.name in declared:
            raise BadInputError(f"experiments must have different names; {e.name} is there twice.")
        plan = e.plan(budget)
        _check_experiment(e, plan)
        declared[e.name] = declare(e, budget, plan if seed is None else replace(plan, seed=seed))
    folder = check_out(out, room=ROOM)
    earlier_manifest(folder, declared)
    return folder, declared


def _check_experiment(experiment: Experiment, plan: Plan) -> None:
    task = experiment.task
    for name, kind in task.columns.items():
        if name in (POINT, TRIAL) or kind not in (int, float, bool, str):
            raise BadInputError(
                f"column {name} of task {task.name} must hold int, float, bool or str, and "
                f"must not be called {POINT} or {TRIAL}."
            )
    chunks = sum(-(-point.trials // point.chunk) for point in plan.points)
    check_size(experiment.name, task, plan.trials, chunks)
    for point in plan.points:
        check_names(task, point.params)
        task.check(point.params)
        safe_point()


def earlier_manifest(folder: Path, declared: Mapping[str, Declared]) -> Mapping[str, Any]:
    """The manifest that is there; nothing if there is none yet, or if it is damaged.

    Whose folder it is: a run writes only where it can prove that the place is its own.

    A folder is a run's if its manifest says so, or, where that is damaged or lost, if a shard does:
    nothing is lost then, since every shard says what it belongs to. An empty folder may become one.
    Anything else is somebody's, and is refused before a byte is written.
    """
    if not os.path.lexists(folder):
        return {}
    if not folder.is_dir():
        raise BadInputError(f"{folder} must be a folder, or not be there yet; it is a file.")
    check_lock(folder)
    earlier: Mapping[str, Any] = {}
    if os.path.lexists(folder / MANIFEST):
        try:
            earlier = read_manifest(folder)
        except DamagedManifest as problem:
            if not shown_by_shards(folder):
                raise BadInputError(
                    f"{str(problem).rstrip('.')}, and no shard beside it shows that this is the "
                    "folder of a run; give another folder."
                ) from None
    else:
        others = sorted(name for name in os.listdir(folder) if not _is_trace(name))
        if others and not shown_by_shards(folder):
            raise BadInputError(
                f"{folder} holds {others[0]!r} and is not the folder of a run: it has no {MANIFEST}; "
                "give an empty folder, or one that is not there yet."
            )
    for name in declared:
        _check_own(folder / name, name in earlier.get("experiments", {}))
    check_same(folder, earlier, declared)
    return earlier


def _is_trace(name: str) -> bool:
    """What a run leaves that was killed before it had a manifest."""
    return name == LOCK or (name.startswith(".") and name.endswith(PART))


def _check_own(folder: Path, declared: bool) -> None:
    """Refuse the folder of an experiment that leads elsewhere, or that nothing shows to be one."""
    check_folders(folder)
    if declared or not folder.is_dir():
        return
    others = [name for name in sorted(os.listdir(folder)) if not _is_trace(name)]
    if others == [SHARDS] and not os.listdir(folder / SHARDS):
        return
    if others and not shown_by_shards(folder.parent, folder.name):
        raise BadInputError(
            f"{folder} holds {others[0]!r}, and nothing shows that it belongs to this run; give "
            "another folder."
        )


def shown_by_shards(folder: Path, name: str | None = None) -> bool:
    """Whether a shard, whole, and under the name that its content has, says that it belongs here."""
    places = [folder / name] if name else sorted(p for p in folder.iterdir() if p.is_dir())
    for place in places:
        shards = place / SHARDS
        if place.is_symlink() or shards.is_symlink() or not shards.is_dir():
            continue
        for path in sorted(shards.iterdir()):
            if path.name.endswith((ENDING, ENDING + DAMAGED)):
                label = label_in(path)
                if label is not None and label.get("experiment") == place.name:
                    return True
    return False
