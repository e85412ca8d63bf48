"""What is done and what is left of one experiment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sublearn.runs._chunks import Chunk, Done, Failed
from sublearn.runs._experiment import Experiment, Plan
from sublearn.runs._shards import Part, Shards

SHARDS = "shards"
_SHOWN = 3  # params of a point that a line of news names


class Ledger:
    """One experiment under way: chunks left, rows not yet on disk, failures, seconds."""

    def __init__(self, folder: Path, experiment: Experiment, plan: Plan, label: Mapping[str, Any]):
        self.folder = folder
        self.experiment = experiment
        self.plan = plan
        self.shards = Shards(folder / SHARDS, experiment.task.columns, label)
        self.failed: dict[tuple[int, int], Failed] = {}
        self.seconds = 0.0
        self.computed = 0
        self.trials_left = 0
        self._buffer: list[Part] = []
        self._left: list[set[int]] = []
        self.look()

    def look(self) -> None:
        """Read from disk what is there."""
        there = self.shards.load()
        self._left = []
        for index, point in enumerate(self.plan.points):
            present = np.zeros(point.trials, dtype=bool)
            if index in there:
                present[there[index][there[index] < point.trials]] = True
            self._left.append(
                {c.start for c in point.chunks if not present[c.start : c.stop].all()}
            )
        self.failed = {}
        self.trials_left = sum(len(chunk.trials) for chunk in self.chunks())

    def chunks(self) -> Iterator[Chunk]:
        """What is left to compute."""
        e = self.experiment
        for index, point in enumerate(self.plan.points):
            for trials in point.chunks:
                if trials.start in self._left[index]:
                    yield Chunk(e.name, e.task, index, point.params, self.plan.seed, trials)

    def take(self, chunk: Chunk, outcome: Done | Failed) -> None:
        """Note what came of a chunk; its rows go to disk with the next ``flush``."""
        self.trials_left -= len(chunk.trials)
        if isinstance(outcome, Failed):
            self.failed[chunk.index, chunk.trials.start] = outcome
            return
        self._left[chunk.index].discard(chunk.trials.start)
        self._buffer.append(Part(chunk.index, chunk.trials, outcome.columns))
        self.seconds += outcome.seconds
        self.computed += len(chunk.trials)

    def flush(self) -> None:
        """Bring the rows to disk; if that fails they are kept here."""
        if self._buffer:
            self.shards.append(self._buffer)
            self._buffer = []

    def words(self, index: int) -> str:
        """What sets a point apart from the others, in a few words."""
        points = self.plan.points
        params = points[index].params
        varied = [
            name for name in params if any(p.params.get(name) != params[name] for p in points)
        ]
        shown = ", ".join(f"{name} = {params[name]}" for name in varied[:_SHOWN])
        return f"{self.experiment.name}: {shown or 'the only point'}"

    def point_done(self, index: int) -> bool:
        """Whether all trials of a point are there."""
        return not self._left[index]

    @property
    def settled(self) -> bool:
        """Whether every chunk is done or has failed."""
        return self.trials_left == 0
