"""Run experiments: compute what is missing, keep it, and make the tables."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sublearn._errors import BadInputError, whole_number
from sublearn._interrupts import deferred, safe_point
from sublearn._limits import check_workers
from sublearn.runs._chunks import Chunk, Done, Failed, Outcome
from sublearn.runs._door import at_the_door, earlier_manifest
from sublearn.runs._executors import Cluster, GivenExecutor, Processes, ThisProcess, Workers
from sublearn.runs._experiment import Experiment
from sublearn.runs._files import (
    DAMAGED,
    is_no_file,
    make_folder,
    remove_leftovers,
    set_aside,
)
from sublearn.runs._finish import ABOUT, TABLE, complete_trials, finish
from sublearn.runs._ledger import Ledger
from sublearn.runs._lock import Held, only_run
from sublearn.runs._manifest import MANIFEST, write_manifest
from sublearn.runs._run import FAILURES, Run, add_timings, read_failures, write_failures
from sublearn.runs._schedule import RETRIES, outcomes

# Writing may take one part in so many of the time: dear chunks are kept one by one, cheap ones together.
_SHARE = 50


@dataclass(frozen=True)
class Progress:
    """How far a run is. ``news`` is one line when a point or an experiment has just ended."""

    trials: int
    done: int
    failures: int
    seconds_left: float | None
    news: str = ""


def execute(
    experiments: Iterable[Experiment],
    *,
    out: str | Path,
    budget: str = "quick",
    seed: int | None = None,
    workers: int = 1,
    dask: str | None = None,
    executor: Executor | None = None,
    redraw: bool = False,
    retries: int = RETRIES,
    progress: Callable[[Progress], None] | None = None,
) -> Run:
    """Run experiments into a folder, or go on with them there.

    Rows depend on the declaration and the seed alone, and tables are made from them in a fixed order:
    the result is the same, byte for byte, in this process, in ``workers`` processes, on a Dask cluster
    (the address of its scheduler) or on any ``executor`` with so many ``workers``; interrupted or not.
    A chunk that fails or hangs is tried again, ``retries`` times; then it is recorded in failures.json,
    its point is left out of the table, and the rest goes on; running again tries it again. The folder
    must be a run's, empty, or not there yet. Ctrl-C is heeded when the chunk in hand is done, the second
    one at once.

    >>> import tempfile, sublearn as sl
    >>> from sublearn.experiments.tasks import TASKS
    >>> point = sl.runs.Point({"network": "ffn:2-2", "samples": 2, "learn": "W1:all"}, trials=3)
    >>> plan = sl.runs.Plan((point,))
    >>> whole = sl.runs.Experiment("whole", "All of W1", "", "", TASKS["estimate"], plan, plan, hours=0)
    >>> run = sl.runs.execute([whole], out=tempfile.mkdtemp())
    >>> run.table("whole")[0]["matched"], run.state("whole").finished
    (3, True)
    """
    with deferred():
        whole_number("retries", retries, least=0)
        if dask is not None and executor is not None:
            raise BadInputError("give dask or executor, not both.")
        folder, chosen = at_the_door(experiments, out, budget, seed)
        crew = _crew(workers, dask, executor)
        try:
            make_folder(folder, parents=True)
            with only_run(folder) as held:
                earlier = earlier_manifest(folder, chosen)  # now nobody else can write it
                remove_leftovers(folder, chosen)
                # First the shards, which may belong to another declaration, then the manifest.
                ledgers = {}
                for name, declared in chosen.items():
                    ledgers[name] = Ledger(folder, declared)
                    safe_point()
                session = _Session(folder, ledgers, crew, redraw, retries, held, progress)
                if not earlier and (folder / MANIFEST).exists():
                    session.tell_damaged([set_aside(folder / MANIFEST)])
                # Where a file of the run should be, a folder or a pipe would stay in the way for good.
                own = [folder / name / file for name in chosen for file in (TABLE, ABOUT)]
                for path in filter(is_no_file, (folder / FAILURES, *own)):
                    session.tell_damaged([set_aside(path)])
                left = [name for name, ledger in ledgers.items() if ledger.trials_left]
                write_manifest(folder, chosen.values(), earlier, left)
                session.run()
        finally:
            crew.close()
        safe_point()
        return Run(folder)


def _crew(workers: int, dask: str | None, executor: Executor | None) -> Workers:
    check_workers(workers, started_here=dask is None and executor is None)
    if dask is not None:
        return Cluster(dask)
    if executor is not None:
        return GivenExecutor(executor, workers)
    return ThisProcess() if workers == 1 else Processes(workers)


@dataclass
class _Session:
    """One call of ``execute`` that holds the folder."""

    folder: Path
    ledgers: dict[str, Ledger]
    crew: Workers
    redraw: bool
    retries: int
    held: Held
    progress: Callable[[Progress], None] | None
    timings: list[tuple[Chunk, Done]] = field(default_factory=list)
    flushed: float = 0.0
    price: float = 0.0

    def __post_init__(self) -> None:
        self.trials = sum(ledger.plan.trials for ledger in self.ledgers.values())
        kept = read_failures(self.folder)
        self.failures = [f for f in kept if f["experiment"] not in self.ledgers]

    def run(self) -> None:
        for ledger in self.ledgers.values():
            self.tell_damaged(ledger.shards.set_aside)
        # Longest first, so that the last hour is not one experiment on one worker.
        order = sorted(self.ledgers.values(), key=lambda ledger: -ledger.experiment.hours)
        waiting: deque[Chunk] = deque()
        for ledger in order:
            waiting.extend(ledger.chunks())
        for ledger in order:
            if ledger.settled:
                waiting.extend(self.finish(ledger))
        try:
            for outcome in outcomes(self.crew, waiting, retries=self.retries):
                if outcome is not None:
                    self.held.check()  # a folder that is gone is noticed now, not when all is done
                    waiting.extend(self.take(*outcome))
                if time.perf_counter() - self.flushed >= _SHARE * self.price:
                    self.flush()
                safe_point()
        except BaseException:
            with suppress(OSError):  # the first trouble is the one to tell of
                self.flush()
            raise
        self.flush()
        self.held.check()
        write_failures(self.folder, self.failures)

    def take(self, chunk: Chunk, outcome: Outcome) -> list[Chunk]:
        """Note what came of a chunk; give the chunks that have to be computed again."""
        ledger = self.ledgers[chunk.experiment]
        ledger.take(chunk, outcome)
        news = ""
        if isinstance(outcome, Failed):
            self.failures.append(_entry(chunk, outcome))
            write_failures(self.folder, self.failures)
            news = f"{ledger.words(chunk.index)}: failed: {outcome.error.splitlines()[0]}"
        else:
            self.timings.append((chunk, outcome))
            if ledger.point_done(chunk.index):
                trials = ledger.plan.points[chunk.index].trials
                news = f"{ledger.words(chunk.index)}: {trials} trials"
        self.tell(news)
        return self.finish(ledger) if ledger.settled else []

    def finish(self, ledger: Ledger) -> list[Chunk]:
        """Make table and pictures of an experiment; give what turned out to be damaged meanwhile."""
        safe_point()
        self.held.check()
        ledger.flush()
        ledger.shards.compact()
        rows = ledger.shards.rows()
        failed = len(ledger.failed)
        if complete_trials(ledger.plan, rows) < ledger.plan.trials and not failed:
            ledger.look()
            self.tell_damaged(ledger.shards.set_aside)
            return list(ledger.chunks())
        name = ledger.experiment.name
        for problem in finish(ledger.folder, ledger.experiment, ledger.plan, rows, self.redraw):
            self.failures.append({"experiment": name, **problem})
        self.tell(f"{name}: done" if not failed else f"{name}: done, but for {failed} chunks")
        return []

    def flush(self) -> None:
        begun = time.perf_counter()
        if self.timings:
            self.held.check()
            for ledger in self.ledgers.values():
                ledger.flush()
            add_timings(self.folder, self.timings)
            self.timings = []
        self.flushed = time.perf_counter()
        self.price = self.flushed - begun

    def tell_damaged(self, aside: list[Path]) -> None:
        """Tell once of each file that was damaged and is set aside."""
        while aside:
            path = aside.pop(0)
            name = path.relative_to(self.folder).as_posix()
            self.tell(f"{name.partition(DAMAGED)[0]} is damaged: kept as {name}, and made anew")

    def tell(self, news: str) -> None:
        if self.progress is not None:
            left = sum(ledger.trials_left for ledger in self.ledgers.values())
            self.progress(
                Progress(self.trials, self.trials - left, len(self.failures), self.left(), news)
            )

    def left(self) -> float | None:
        """Seconds left: the trials left of each experiment at the price of those computed.

        Where none is yet, at the price that it declares, or at the mean price if it declares none.
        """
        computed = sum(ledger.computed for ledger in self.ledgers.values())
        if not computed:
            return None
        mean = sum(ledger.seconds for ledger in self.ledgers.values()) / computed
        seconds = sum(
            ledger.trials_left * (ledger.price or mean) for ledger in self.ledgers.values()
        )
        return seconds / self.crew.count


def _entry(chunk: Chunk, failed: Failed) -> dict[str, Any]:
    return {
        "experiment": chunk.experiment,
        "step": "run",
        "point": chunk.index,
        "params": dict(chunk.params),
        "trials": [chunk.trials.start, chunk.trials.stop],
        "attempts": failed.attempts,
        "error": failed.error,
        "details": failed.details,
    }
