"""A run's folder, looked at: what is there, what is left, what went wrong."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sublearn._errors import one_of
from sublearn.runs._chunks import Chunk, Done
from sublearn.runs._files import disk_bytes, explained, write_json
from sublearn.runs._finish import ABOUT, TABLE, summarise
from sublearn.runs._ledger import SHARDS
from sublearn.runs._manifest import label, read_manifest
from sublearn.runs._shards import DAMAGED, Shards
from sublearn.runs._tables import read_table
from sublearn.runs._task import Table, Task

FAILURES = "failures.json"
TIMINGS = "timings.csv"
_TIMING = ("experiment", "point", "first", "trials", "seconds", "worker")
_KINDS = {"int": int, "float": float, "bool": bool, "str": str}


@dataclass(frozen=True)
class State:
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
    """The folder of a run. Looking at it changes nothing, even while it is under way."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.manifest = read_manifest(self.folder)

    @property
    def names(self) -> list[str]:
        """The experiments, in the order in which they were first asked for."""
        return list(self.manifest["experiments"])

    def asked(self, name: str) -> Mapping[str, Any]:
        """What the manifest says of an experiment: title, source, claim, budget, seed, points, ..."""
        one_of("experiment", name, self.names)
        entry: Mapping[str, Any] = self.manifest["experiments"][name]
        return entry

    def rows(self, name: str) -> dict[str, np.ndarray]:
        """All trials that are on disk: the columns point and trial, then the task's."""
        return self._shards(name).rows(repair=False)

    def table(self, name: str) -> Table:
        """The final table; empty if it has not been made yet."""
        self.asked(name)
        path = self.folder / name / TABLE
        return read_table(path) if path.is_file() else []

    def summarise(self, name: str, task: Task) -> Table:
        """The table of the points that are finished, made anew from their trials."""
        return summarise(task, self.asked(name)["points"], self.rows(name))[0]

    def finds(self, name: str) -> str:
        """What is found, in words made from the final table; empty if it has not been made yet."""
        return str(self._about(name).get("finds", ""))

    def pictures(self, name: str) -> list[Path]:
        """The pictures, PNG and SVG, in the order in which they were drawn."""
        return [self.folder / name / picture for picture in self._about(name).get("pictures", ())]

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Chunks that kept failing, and tables or pictures that could not be made."""
        return read_failures(self.folder)

    def seconds(self) -> dict[str, float]:
        """What each experiment took so far, summed over its workers."""
        out = dict.fromkeys(self.names, 0.0)
        for line in _timing_lines(self.folder):
            if line["experiment"] in out:
                out[line["experiment"]] += float(line["seconds"])
        return out

    def state(self, name: str) -> State:
        """How far one experiment is."""
        entry = self.asked(name)
        there = self._shards(name).load(repair=False)
        points = entry["points"]
        done = [min(len(there.get(i, ())), p["trials"]) for i, p in enumerate(points)]
        folder = self.folder / name
        return State(
            name,
            entry["budget"],
            entry["seed"],
            len(points),
            sum(n == p["trials"] for n, p in zip(done, points, strict=True)),
            sum(p["trials"] for p in points),
            sum(done),
            sum(failure["experiment"] == name for failure in self.failures),
            (folder / TABLE).is_file(),
            len(self.pictures(name)),
            disk_bytes(folder) if folder.is_dir() else 0,
        )

    def states(self) -> list[State]:
        """How far each experiment is."""
        return [self.state(name) for name in self.names]

    def _shards(self, name: str) -> Shards:
        entry = self.asked(name)
        columns = {column: _KINDS[kind] for column, kind in entry["columns"].items()}
        return Shards(self.folder / name / SHARDS, columns, label(name, entry))

    def _about(self, name: str) -> dict[str, Any]:
        self.asked(name)
        path = self.folder / name / ABOUT
        return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def summary(run: Run) -> dict[str, Any]:
    """Plain values of how a run stands, for JSON: states, failures, damaged files, bytes, seconds."""
    states = run.states()
    damaged = sorted(run.folder.rglob(f"*{DAMAGED}"))
    return {
        "folder": str(run.folder),
        "experiments": [state.to_dict() for state in states],
        "finished": all(state.finished for state in states),
        "failures": run.failures,
        "damaged": [path.relative_to(run.folder).as_posix() for path in damaged],
        "bytes": disk_bytes(run.folder),
        "seconds": sum(run.seconds().values()),
    }


def open_run(folder: str | Path) -> Run:
    """Open the folder of a run to look at it."""
    return Run(folder)


def read_failures(folder: Path) -> list[dict[str, Any]]:
    """What failures.json holds; it says nothing of rows, so a damaged one counts as empty."""
    try:
        return list(json.loads((folder / FAILURES).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return []


def write_failures(folder: Path, failures: list[dict[str, Any]]) -> None:
    write_json(folder / FAILURES, failures, durable=False)


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
        with open(path, "ab+") as file:
            if not file.tell():
                file.write((",".join(_TIMING) + "\n").encode())
            else:
                file.seek(-1, 2)
                if file.read(1) != b"\n":  # the last line of a killed run
                    file.write(b"\n")
            file.write(out.getvalue().encode())
    except OSError as problem:
        raise explained(problem, path) from None


def _timing_lines(folder: Path) -> list[dict[str, str]]:
    path = folder / TIMINGS
    if not path.is_file():
        return []
    with open(path, encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    return [line for line in lines if line["worker"]]  # a torn line lacks its end
