"""A run's folder, looked at: what is there, what is left, what went wrong."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from sublearn._errors import BadInputError, one_of
from sublearn._files import explained
from sublearn._limits import memory_limit
from sublearn._reading import Unreadable, read_json, read_regular
from sublearn.runs._chunks import Chunk, Done
from sublearn.runs._door import shown_by_shards
from sublearn.runs._files import (
    DAMAGED,
    KEPT,
    SHARDS,
    check_folders,
    disk_bytes,
    files_below,
    open_in_place,
    write_json,
)
from sublearn.runs._finish import ABOUT, TABLE, read_about, summarise
from sublearn.runs._manifest import KINDS, DamagedManifest, label, read_manifest
from sublearn.runs._shards import Shards
from sublearn.runs._tables import Table, parse_table
from sublearn.runs._task import Task

FAILURES = "failures.json"
TIMINGS = "timings.csv"
_TIMING = ("experiment", "point", "first", "trials", "seconds", "worker")
_MOST_PICTURE = 64 * 1024**2  # bytes
Read = TypeVar("Read")


@dataclass(frozen=True)
class ExperimentState:
    """How far one experiment is: points and trials that are on disk, of how many."""

    experiment: str
    budget: str
    seed: int
    points: int
    points_done: int
    trials: int
    trials_done: int
    failures: int
    has_table: bool
    pictures: int
    bytes: int

    @property
    def finished(self) -> bool:
        """Whether all trials are there and the table was made of them."""
        return self.has_table and self.trials_done == self.trials

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**asdict(self), "finished": self.finished}


class Run:
    """The folder of a run. Looking at it changes nothing, even while it is under way.

    It may come from a stranger: nothing in it is executed, no path leads out of it, no link is followed.
    What is damaged counts as not there, and ``damage`` says what that is.
    """

    def __init__(self, folder: str | Path):
        if not os.fspath(folder).strip():
            raise BadInputError(f"the folder of a run must be named; {folder!r} names none.")
        self.folder = Path(folder)
        try:
            self.manifest = read_manifest(self.folder)
        except DamagedManifest as problem:
            if not shown_by_shards(self.folder):
                raise
            hint = "its shards show a run, and the command that made it goes on with them."
            raise DamagedManifest(f"{str(problem).rstrip('.')}; {hint}") from None
        self._damage: dict[str, str] = {}
        self._looked: set[str] = set()
        for name in self.names:
            check_folders(self.folder / name)

    @property
    def names(self) -> list[str]:
        """The experiments, in the order in which they were first asked for."""
        return list(self.manifest["experiments"])

    def declared(self, name: str) -> Mapping[str, Any]:
        """What the manifest says of an experiment: title, source, claim, budget, seed, points, ..."""
        one_of("experiment", name, self.names)
        entry: Mapping[str, Any] = self.manifest["experiments"][name]
        return entry

    def rows(self, name: str) -> dict[str, np.ndarray]:
        """All trials that are on disk: the columns point and trial, then the task's."""
        shards = self._shards(name)
        rows = shards.rows(repair=False)
        self._note(name, shards)
        return rows

    def table(self, name: str) -> Table:
        """The final table; empty if it has not been made yet, or is damaged."""
        return self._table(name) or Table()

    def _table(self, name: str) -> Table | None:
        digest = self._about(name).get("table")

        def read(path: Path) -> Table:
            content = read_regular(path, memory_limit(), links=False)
            if digest not in (None, hashlib.sha256(content).hexdigest()):
                raise Unreadable("it is not the one that was written")
            return parse_table(content)

        return self._look(self.folder / name / TABLE, read)

    def summarise(self, name: str, task: Task) -> Table:
        """The table of the points that are finished, made anew from their trials."""
        return summarise(task, self.declared(name)["points"], self.rows(name))[0]

    def finds(self, name: str) -> str:
        """What is found, in words made from the final table; empty if it has not been made yet."""
        return str(self._about(name).get("finds", ""))

    def pictures(self, name: str) -> list[Path]:
        """The pictures that are there, PNG and SVG, in the order in which they were drawn."""
        paths = [self.folder / name / picture for picture in self._about(name).get("pictures", ())]
        return [path for path in paths if path.is_file() and not path.is_symlink()]

    def picture(self, path: Path) -> bytes:
        """The bytes of one of the pictures; empty if it cannot be had."""
        return self._look(path, lambda p: read_regular(p, _MOST_PICTURE, links=False)) or b""

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Chunks that kept failing, and tables or pictures that could not be made."""
        return self._look(self.folder / FAILURES, _failures) or []

    @property
    def damage(self) -> list[str]:
        """What is damaged, in one sentence each; the same command makes it anew."""
        for name in self.names:
            self.table(name)
            if name not in self._looked:
                self._trials(name)
        self.failures  # noqa: B018 - looked at for what it finds
        return [f"{path} is damaged: {why}." for path, why in sorted(self._damage.items())]

    def _trials(self, name: str) -> dict[int, np.ndarray]:
        """The trials that are on disk, by point."""
        shards = self._shards(name)
        there = shards.load(repair=False)
        self._note(name, shards)
        return there

    def _note(self, name: str, shards: Shards) -> None:
        self._looked.add(name)
        for path, why in shards.damage.items():
            self._damaged(path, why)

    def _damaged(self, path: Path, why: object) -> None:
        self._damage[path.relative_to(self.folder).as_posix()] = str(why)

    def seconds(self) -> dict[str, float]:
        """What each experiment took so far, summed over its workers."""
        out = dict.fromkeys(self.names, 0.0)
        for experiment, seconds in _timings(self.folder):
            if experiment in out:
                out[experiment] += seconds
        return out

    def state(self, name: str) -> ExperimentState:
        """How far one experiment is."""
        entry = self.declared(name)
        there = self._trials(name)
        points = entry["points"]
        done = [min(len(there.get(i, ())), p["trials"]) for i, p in enumerate(points)]
        folder = self.folder / name
        return ExperimentState(
            name,
            entry["budget"],
            entry["seed"],
            len(points),
            sum(n == p["trials"] for n, p in zip(done, points, strict=True)),
            sum(p["trials"] for p in points),
            sum(done),
            sum(failure["experiment"] == name for failure in self.failures),
            self._table(name) is not None,
            len(self.pictures(name)),
            disk_bytes(folder) if folder.is_dir() else 0,
        )

    def states(self) -> list[ExperimentState]:
        """How far each experiment is."""
        return [self.state(name) for name in self.names]

    def _shards(self, name: str) -> Shards:
        entry = self.declared(name)
        columns = {column: KINDS[kind] for column, kind in entry["columns"].items()}
        trials = [point["trials"] for point in entry["points"]]
        return Shards(self.folder / name / SHARDS, columns, label(name, entry), trials)

    def _about(self, name: str) -> dict[str, Any]:
        self.declared(name)
        return self._look(self.folder / name / ABOUT, read_about) or {}

    def _look(self, path: Path, read: Callable[[Path], Read]) -> Read | None:
        """What a file holds; None if it is not there, or damaged, which is noted."""
        try:
            return read(path)
        except FileNotFoundError:
            return None
        except Unreadable as problem:
            self._damaged(path, problem)
            return None


def summary(run: Run) -> dict[str, Any]:
    """Plain values of how a run stands, for JSON: states, failures, damaged files, bytes, seconds."""
    states = run.states()
    damaged = [path for path in files_below(run.folder) if path.name.endswith(DAMAGED)]
    return {
        "folder": str(run.folder),
        "experiments": [state.to_dict() for state in states],
        "finished": all(state.finished for state in states),
        "failures": run.failures,
        "damaged": [path.relative_to(run.folder).as_posix() for path in damaged],
        "damage": run.damage,
        "bytes": disk_bytes(run.folder),
        "seconds": sum(run.seconds().values()),
    }


def open_run(folder: str | Path) -> Run:
    """Open the folder of a run to look at it."""
    return Run(folder)


def read_failures(folder: Path) -> list[dict[str, Any]]:
    """What failures.json holds; it says nothing of rows, so a damaged one counts as empty."""
    try:
        return _failures(folder / FAILURES)
    except (FileNotFoundError, Unreadable):
        return []


def _failures(path: Path) -> list[dict[str, Any]]:
    failures = read_json(path, links=False)
    if not isinstance(failures, list) or not all(_is_failure(entry) for entry in failures):
        raise Unreadable("it is no list of failures")
    return list(failures)


def _is_failure(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and all(isinstance(entry.get(name), str) for name in ("experiment", "step", "error"))
        and isinstance(entry.get("params", {}), dict)
    )


def write_failures(folder: Path, failures: list[dict[str, Any]]) -> None:
    write_json(folder / FAILURES, failures)


def add_timings(folder: Path, done: Iterable[tuple[Chunk, Done]]) -> None:
    """Add lines to timings.csv, which stands outside everything that is compared."""
    path = folder / TIMINGS
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for chunk, result in done:
        first, count = chunk.trials.start, len(chunk.trials)
        seconds = f"{result.seconds:.6f}"
        writer.writerow([chunk.experiment, chunk.index, first, count, seconds, result.worker])
    try:
        with open(open_in_place(path), "rb+") as file:
            if not file.seek(0, 2):
                file.write((",".join(_TIMING) + "\n").encode())
            else:
                file.seek(-1, 2)
                if file.read(1) != b"\n":  # the last line of a killed run
                    file.write(b"\n")
            file.write(out.getvalue().encode())
    except OSError as problem:
        raise explained(problem, path, KEPT) from None


_SECONDS = re.compile(r"\d{1,9}\.\d{1,9}")


def _timings(folder: Path) -> list[tuple[str, float]]:
    """Experiment and seconds of every whole line; a torn line lacks its end."""
    try:
        content = read_regular(folder / TIMINGS, memory_limit(), links=False)
    except (FileNotFoundError, Unreadable):
        return []
    timings = []
    for line in content.decode(errors="replace").split("\n"):
        cells = line.split(",")
        if len(cells) == len(_TIMING) and cells[-1] and _SECONDS.fullmatch(cells[-2]):
            timings.append((cells[0], float(cells[-2])))
    return timings
