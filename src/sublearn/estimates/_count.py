"""One way to count: trials of a question, in chunks, on one process or many, with the same result.

A :class:`Question` says what one trial is. A :class:`Counted` holds the records of some trials and what
they come to. :func:`count_trials` goes on from one of them, which may be empty, to so many trials.

Ctrl-C goes to every process of a terminal. Worker processes of our own end at once and say nothing;
what has been answered until then is in this process, which alone decides what becomes of it.
"""

from __future__ import annotations

import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypedDict, TypeVar, Unpack

from sublearn._errors import BadInputError, shown, whole_number
from sublearn._interrupts import heed, held_back, let_in
from sublearn._intervals import clopper_pearson, confidence_sequence
from sublearn._limits import check_memory, check_workers, in_time
from sublearn.allocations import Allocation, Rule
from sublearn.ensembles import Instance, Problem, draw
from sublearn.estimates._files import described, load, save
from sublearn.plots import COLOURS, Figure, Row, Shown, figure, ink

_RECORD = 200  # bytes that a trial takes at least

Record = TypeVar("Record", bound=tuple[Any, ...])
Asked = TypeVar("Asked", bound="Question[Any]")
Result = TypeVar("Result", bound="Counted[Any, Any]")
Kept = TypeVar("Kept")


@dataclass(frozen=True)
class Question(ABC, Generic[Record]):
    """What is asked of many instances of a problem: how trials are drawn and answered.

    ``allocation`` is fixed, or rules that draw one for each trial. Trial i depends on (seed, problem, i)
    and on the question, and on nothing else. Questions are sent to worker processes.
    """

    problem: Problem
    allocation: Allocation | Mapping[str, Rule]
    seed: int = 0

    chunk: ClassVar[int] = 8  # trials that a worker takes at once
    parts: ClassVar[Mapping[str, Callable[[Any], Any]]] = {}  # fields that a file holds in pieces

    def __post_init__(self) -> None:
        if not isinstance(self.problem, Problem):
            raise BadInputError(f"problem must be a Problem, not {self.problem!r}.")
        whole_number("seed", self.seed, least=0)
        given, allocation = self.problem.ensemble.given, self.allocation
        if isinstance(allocation, Allocation) and given.settles(self.problem, allocation):
            raise BadInputError(
                "nothing is left to draw: inputs, targets and all frozen weights are given, and the "
                "allocation is fixed; ask decide about this one instance, or train it."
            )

    def draw(self, trial: int) -> Instance:
        """The instance of a trial."""
        return draw(self.problem, self.allocation, seed=self.seed, trial=trial)

    @abstractmethod
    def answer(self, trials: range) -> list[Record]:
        """The records of these trials, in their order."""


@dataclass(frozen=True, repr=False)
class Counted(Shown, Generic[Asked, Record]):
    """Trials 0, 1, ... of a question, and what they come to.

    ``early``: somebody could have stopped after any trial, because it was allowed to, was interrupted, or
    was continued after a look; then ``confidence`` is an interval that holds at all numbers of trials
    at once.
    """

    question: Asked
    records: tuple[Record, ...] = ()
    early: bool = False
    seconds: float = field(compare=False, default=0.0)

    asks: ClassVar[type[Any]]  # the kind of question
    record: ClassVar[type[Any]]  # of one trial
    words: ClassVar[Mapping[str, tuple[str, ...]]] = {}  # what a field of text may say
    early_level: ClassVar[float] = 0.95

    @classmethod
    def of(cls, question: Asked) -> Self:
        """No trials of a question yet."""
        return cls(question)

    @staticmethod
    @abstractmethod
    def counts(record: Any) -> bool:
        """Whether the trial is one of those that are counted."""

    @classmethod
    def may_count(cls, record: Any) -> bool:
        """Whether it may be one of them; more than :meth:`counts` where trials stay undecided."""
        return cls.counts(record)

    @classmethod
    def interval(cls, least: int, most: int, trials: int, early: bool) -> tuple[float, float]:
        """The 95% interval of a share of which the count is only known to lie in least..most."""
        ends = confidence_sequence if early else clopper_pearson
        level = cls.early_level if early else 0.95
        return ends(least, trials, level)[0], ends(most, trials, level)[1]

    @property
    def problem(self) -> Problem:
        """What the instances are drawn from."""
        return self.question.problem

    @property
    def seed(self) -> int:
        """Of the draws."""
        return self.question.seed

    @property
    def trials(self) -> int:
        """How many trials there are."""
        return len(self.records)

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """How many trials are counted, and how many may be."""
        return sum(map(self.counts, self.records)), sum(map(self.may_count, self.records))

    @property
    def share(self) -> float:
        """Trials that are counted, of all."""
        return self.bounds[0] / self.trials

    @property
    def confidence(self) -> tuple[float, float]:
        """The 95% interval of the share: Clopper-Pearson, or a confidence sequence if ``early``."""
        return self.interval(*self.bounds, self.trials, self.early)

    @property
    @abstractmethod
    def brief(self) -> str:
        """The counts so far in a few words, for a progress bar."""

    @property
    def details(self) -> list[str]:
        """Lines that may stand below the result."""
        names = ", ".join(self.problem.ensemble.given.names)
        given = [f"given in every trial: {names}"] if names else []
        early = [
            "this interval holds whenever one stops, and is wider than one for a number fixed before"
        ]
        return [*given, *early * self.early, in_time(self.seconds)]

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What is counted, and how, as plain values."""

    def plain(self, *names: str) -> dict[str, Any]:
        """Some of what is said here by name, for :meth:`facts`: tuples become lists."""
        named = {name: getattr(self, name) for name in names}
        return {name: list(v) if isinstance(v, tuple) else v for name, v in named.items()}

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; seconds stand apart from what is reproducible."""
        return {
            "network": self.problem.network.spec,
            "samples": self.problem.samples,
            "given": list(self.problem.ensemble.given.names),
            "seed": self.seed,
            "trials": self.trials,
            **self.facts(),
            "timing": {"seconds": self.seconds},
        }

    def table(self) -> list[Row]:
        """A row for every trial."""
        return [dict(zip(self.record._fields, record, strict=True)) for record in self.records]

    outcomes: ClassVar[tuple[str, str, str]] = ("solved", "undecided", "not solved")
    """What the trials that count, those that may, and the others are called in a picture."""

    def plot(self) -> Figure:
        """The trials as one bar, by outcome, with the 95% interval of the share below it."""
        from matplotlib.ticker import PercentFormatter

        fig, ax = figure(height=1.7)
        low, high = self.confidence
        least, most = self.bounds if self.trials else (round(low), round(high))
        total = self.trials or 1
        colours = (COLOURS[0], ink(), COLOURS[1])
        ends = (0, least, most, total)
        for word, colour, begin, end in zip(self.outcomes, colours, ends, ends[1:], strict=False):
            if end > begin:
                share = (end - begin) / total
                hatch = "////" if word == "undecided" else None
                fill = "none" if hatch else colour
                ax.barh(
                    1, share, left=begin / total, height=0.7, color=fill, edgecolor=colour,
                    hatch=hatch, label=f"{word}: {end - begin}" if self.trials else word,
                )  # fmt: skip
        ax.set_ylim(0, 1.5)
        if self.trials:
            ax.plot([low, high], [0.35, 0.35], color=ink(), marker="|", markersize=9, linewidth=1.6)
            ax.set_yticks([0.35, 1], ["95%", f"{self.trials} trials"])
        else:
            ax.set_yticks([1], ["proved"])
        ax.set_xlim(-0.01, 1.01)
        ax.xaxis.set_major_formatter(PercentFormatter(1.0))
        ax.grid(False, axis="y")
        fig.legend(loc="outside lower left", ncols=3, frameon=False, fontsize=9, labelcolor=ink())
        return fig

    def more(self, trials: int, **how: Unpack[HowFar[Self]]) -> Self:
        """The same with so many ``trials`` more: the counts are those of one run of them all."""
        return count_trials(self, self.trials + whole_number("trials", trials, least=1), **how)

    def save(self, path: str | Path) -> None:
        """Write question and records to a .json file, from which :meth:`load` goes on."""
        save(self, Path(path))

    @classmethod
    def load(
        cls, path: str | Path, problem: Problem, allocation: Allocation | Mapping[str, Rule]
    ) -> Self:
        """A saved result of this problem and allocation; a file about others is refused.

        >>> import sublearn as sl, tempfile, pathlib
        >>> problem, rows = sl.Problem(sl.LinearRNN(n=2, b=1, d=1, T=2), 2), {"W": sl.FirstRows(2)}
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "rows.json"
        >>> sl.estimate(problem, rows, trials=10).save(file)
        >>> more = sl.Estimate.load(file, problem, rows).more(20)
        >>> more.records == sl.estimate(problem, rows, trials=30).records
        True
        """
        return load(cls, Path(path), problem, allocation)


class Unfinished(KeyboardInterrupt, Generic[Kept]):
    """Ctrl-C during an estimate: what was decided until then is in ``estimate``.

    Whoever stops a run may have looked at it: its confidence interval is the one that may stop at any
    time.
    """

    def __init__(self, estimate: Kept, trials: int) -> None:
        super().__init__(f"interrupted after {trials} trials")
        self.estimate = estimate


class How(TypedDict, Generic[Result], total=False):
    """How trials are run; nothing of it changes a count.

    ``workers`` processes, or any ``executor``. ``progress`` is told the result so far after every chunk.
    ``go_on`` is an earlier result of the same question, whose trials are not run again.
    """

    workers: int
    executor: Executor | None
    progress: Callable[[Result], None] | None
    go_on: Result | None


class HowFar(How[Result], total=False):
    """The same, and ``precision``: to stop at the first trial at which the confidence interval, valid at
    all times, reaches no further than that from its middle.
    """

    precision: float | None


def count_trials(
    start: Result,
    trials: int,
    *,
    precision: float | None = None,
    workers: int = 1,
    executor: Executor | None = None,
    progress: Callable[[Result], None] | None = None,
    go_on: Result | None = None,
) -> Result:
    """Go on from ``start``, which may hold no trials yet, until there are ``trials`` of them.

    With ``precision`` it stops at the first trial at which the confidence interval, valid at all times,
    reaches no further than that from its middle. Ctrl-C is :class:`Unfinished` if there is anything
    to keep.
    """
    whole_number("trials", trials, least=1)
    check_memory(f"keeping {shown(trials)} trials", _RECORD * trials, "fewer trials")
    check_workers(workers, started_here=executor is None)
    if precision is not None and not 0 < precision < 0.5:
        raise BadInputError(f"precision must lie strictly between 0 and 0.5, not {precision!r}.")
    if go_on is not None:
        start = _continued(start, go_on)
    if start.trials >= trials:
        return start
    begun = time.perf_counter()
    records, (least, most) = list(start.records), start.bounds
    # Whoever goes on has seen what there was.
    may_stop = start.early or precision is not None or bool(records)

    def result(early: bool) -> Result:
        seconds = start.seconds + time.perf_counter() - begun
        return replace(start, records=tuple(records), early=early, seconds=seconds)

    try:
        for chunk in _chunks(start.question, range(start.trials, trials), workers, executor):
            for record in chunk:
                records.append(record)
                least, most = least + start.counts(record), most + start.may_count(record)
                if precision is not None:
                    low, high = start.interval(least, most, len(records), early=True)
                    if (high - low) / 2 <= precision:
                        return result(early=True)
            if progress is not None:
                progress(result(may_stop))
            heed()
    except KeyboardInterrupt:
        if not records:
            raise
        raise Unfinished(result(early=True), len(records)) from None
    return result(may_stop)


def _continued(start: Result, earlier: Result) -> Result:
    """``start`` with the trials of an earlier result, if both answer the same question."""
    if type(earlier) is not type(start):
        raise BadInputError(f"go_on must be a {type(start).__name__}, not {earlier!r}.")
    ours, theirs = described(start.question), described(earlier.question)
    for name, value in ours.items():
        if theirs[name] != value:
            raise BadInputError(
                f"go_on answers another question: its {name} is {theirs[name]!r}, not {value!r}."
            )
    return replace(start, records=earlier.records, early=earlier.early, seconds=earlier.seconds)


def _chunks(
    question: Question[Record], trials: range, workers: int, executor: Executor | None
) -> Iterator[list[Record]]:
    """Chunks of answered trials, in the order of their numbers, whoever answered them."""
    size = question.chunk
    chunks = [trials[i : i + size] for i in range(0, len(trials), size)]
    if executor is None and workers == 1:
        for chunk in chunks:
            yield question.answer(chunk)
        return
    own = None
    if executor is None:
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        executor = own = ProcessPoolExecutor(
            workers, mp_context=get_context("spawn"), initializer=_end_quietly
        )
    waiting: list[Future[list[Record]]] = []
    try:
        with held_back():  # the first jobs start the processes
            waiting += [executor.submit(question.answer, chunk) for chunk in chunks[:workers]]
        waiting += [executor.submit(question.answer, chunk) for chunk in chunks[workers:]]
        for future in waiting:
            yield future.result()
    finally:
        if own is None:
            for future in waiting:
                future.cancel()
        else:
            own.shutdown(wait=True, cancel_futures=True)


def _end_quietly() -> None:
    """Let Ctrl-C end a worker without a word, in place of a traceback."""
    let_in(signal.SIG_DFL)
