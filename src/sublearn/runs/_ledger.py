"""What is done and what is left of one experiment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sublearn.runs._chunks import Chunk, Failed, Outcome
from sublearn.runs._files import SHARDS
from sublearn.runs._manifest import Declared, label
from sublearn.runs._shards import Piece, Shards

_SHOWN = 3  # params of a point that a line of news names


class Ledger:
    """One experiment under way: chunks left, rows not yet on disk, failures, seconds."""

    def __init__(self, run: Path, declared: Declared, repair: bool = True):
        self.experiment, self.plan, entry = declared
        experiment, plan = self.experiment, self.plan
        self.folder = run / experiment.name
        trials = [point.trials for point in plan.points]
        mark = label(experiment.name, entry)
        self.shards = Shards(self.folder / SHARDS, experiment.task.columns, mark, trials)
        self.failed: dict[tuple[int, int], Failed] = {}
        self.seconds = 0.0
        self.computed = 0
        self.trials_left = 0
        self._buffer: list[Piece] = []
        self._left: list[set[int]] = []
        first = plan.points[0].params
        self._varied = {
            name for p in plan.points for name in first.keys() | p.params.keys()
            if name not in first or name not in p.params or p.params[name] != first[name]
        }  # fmt: skip
        self.look(repair)

    def look(self, repair: bool = True) -> None:
        """Read from disk what is there; what is damaged is set aside, unless only looked at."""
        there = self.shards.load(repair=repair)
        self._left = []
        for index, point in enumerate(self.plan.points):
            present = np.zeros(point.trials, dtype=bool)
            if index in there:
                present[there[index]] = True
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

    def take(self, chunk: Chunk, outcome: Outcome) -> None:
        """Note what came of a chunk; its rows go to disk with the next ``flush``."""
        self.trials_left -= len(chunk.trials)
        if isinstance(outcome, Failed):
            self.failed[chunk.index, chunk.trials.start] = outcome
            return
        self._left[chunk.index].discard(chunk.trials.start)
        self._buffer.append(Piece(chunk.index, chunk.trials, outcome.columns))
        self.seconds += outcome.seconds
        self.computed += len(chunk.trials)

    def flush(self) -> None:
        """Bring the rows to disk; if that fails they are kept here."""
        if self._buffer:
            self.shards.append(self._buffer)
            self._buffer = []

    def words(self, index: int) -> str:
        """What sets a point apart from the others, in a few words."""
        params = self.plan.points[index].params
        varied = [name for name in params if name in self._varied]
        shown = ", ".join(f"{name} = {params[name]}" for name in varied[:_SHOWN])
        return f"{self.experiment.name}: {shown or 'the only point'}"

    def point_done(self, index: int) -> bool:
        """Whether all trials of a point are there."""
        return not self._left[index]

    @property
    def price(self) -> float:
        """Seconds of one core for a trial: of those computed, else what is declared for two cores."""
        if self.computed:
            return self.seconds / self.computed
        return 2 * 3600 * self.experiment.hours / self.experiment.full.trials

    @property
    def settled(self) -> bool:
        """Whether every chunk is done or has failed."""
        return self.trials_left == 0
