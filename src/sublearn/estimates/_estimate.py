"""Match probability: many instances decided, counted honestly."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

from sublearn._errors import BadInputError, one_of, whole_number
from sublearn._grades import NUMERICAL
from sublearn._intervals import clopper_pearson, confidence_sequence
from sublearn._limits import check_workers
from sublearn.allocations import Allocation, Rule
from sublearn.ensembles import Problem, draw
from sublearn.estimates._chunks import run_chunks
from sublearn.estimates._unfinished import keeping
from sublearn.matchers import Budget, Decision, decide, single_thread
from sublearn.verdicts import Verdict, certify, teacher_may_collapse

if TYPE_CHECKING:
    from sublearn.estimates._within import WithinEstimate
    from sublearn.training import Learner

METHODS = ("ladder", "reference")
FROM_STARTS = ("search", "relu", "nonlinear", "reference")
"""The rungs that try random starts."""
_CHUNK = 8


@dataclass(frozen=True)
class Trial:
    """What is kept of one decision."""

    trial: int
    kind: str
    rung: str
    grade: str
    error: float
    starts: int
    iterations: int
    paths: int
    seconds: float = field(compare=False, default=0.0)


@dataclass(frozen=True, repr=False)
class Estimate:
    """Counts of the three decisions, and what they say about the match probability.

    ``bracket`` = (matched / N, (matched + undecided) / N): where the share of matches lies however the
    undecided ones fall. ``confidence``: the 95% interval around the bracket, Clopper-Pearson for a
    fixed number of trials, a confidence sequence when it was allowed to stop early. ``verdict`` is
    that of certify for a fixed allocation; where it is maximal, or minimal with no teachers set aside,
    nothing was sampled and the bracket is (1, 1) or (0, 0).
    """

    problem: Problem
    trials: int
    matched: int
    refuted: int
    undecided: int
    confidence: tuple[float, float]
    method: str
    seed: int
    verdict: Verdict | None
    records: tuple[Trial, ...]
    seconds: float = field(compare=False, default=0.0)

    @property
    def sampled(self) -> bool:
        """Whether instances were drawn; False where certify already knew."""
        return self.trials > 0

    @property
    def bracket(self) -> tuple[float, float]:
        """The share of matches, with the undecided counted as none and as all."""
        if not self.sampled:
            return self.confidence
        low, high = self.matched, self.matched + self.undecided
        return low / self.trials, high / self.trials

    @property
    def rungs(self) -> dict[str, int]:
        """How many trials each rung decided."""
        return dict(Counter(r.rung for r in self.records if r.kind != "undecided"))

    @property
    def proved(self) -> int:
        """Matches that are proved."""
        return sum(r.kind == "matched" and r.grade == "proof" for r in self.records)

    @property
    def restarts(self) -> int:
        """Random starts used in all."""
        return sum(r.starts for r in self.records)

    @property
    def curve(self) -> list[tuple[int, int]]:
        """(starts, matches found from at most so many starts): the saturation curve of E.1.

        Only matches that a random start led to count: those of rungs that construct, count or enumerate
        say nothing about how many starts are enough, however many were spent before them.
        """
        counts = Counter(
            r.starts
            for r in self.records
            if r.kind == "matched" and r.starts and r.rung in FROM_STARTS
        )
        out, total = [], 0
        for starts in sorted(counts):
            total += counts[starts]
            out.append((starts, total))
        return out

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; seconds stand apart from what is reproducible."""
        return {
            "network": self.problem.network.spec,
            "samples": self.problem.samples,
            "method": self.method,
            "seed": self.seed,
            "trials": self.trials,
            "matched": self.matched,
            "refuted": self.refuted,
            "undecided": self.undecided,
            "proved": self.proved,
            "bracket": list(self.bracket),
            "confidence": list(self.confidence),
            "sampled": self.sampled,
            "rungs": self.rungs,
            "restarts": self.restarts,
            "curve": [list(point) for point in self.curve],
            "verdict": None if self.verdict is None else self.verdict.to_dict(),
            "timing": {"seconds": self.seconds},
        }

    def __repr__(self) -> str:
        return f"<Estimate {self}>"

    def __str__(self) -> str:
        low, high = self.confidence
        if not self.sampled:
            assert self.verdict is not None
            known = f"{self.verdict.kind}, {self.verdict.grade}"
            return f"match probability {low:.0f}: {known}; no sampling needed"
        share = f"{self.bracket[0]:.4f}"
        if self.undecided:
            share += f" to {self.bracket[1]:.4f}"
        return (
            f"match probability {share} (95%: {low:.4f} to {high:.4f}); of {self.trials} trials "
            f"{self.matched} matched ({self.proved} proved), {self.refuted} refuted, "
            f"{self.undecided} undecided"
        )


Asked = Allocation | Mapping[str, Rule]


@overload
def estimate(
    problem: Problem,
    allocation: Asked,
    trials: int = 1000,
    *,
    seed: int = 0,
    precision: float | None = None,
    budget: Budget | None = None,
    method: str | None = None,
    count: bool = False,
    sample_always: bool = False,
    workers: int = 1,
    executor: Executor | None = None,
    progress: Callable[[Estimate], None] | None = None,
) -> Estimate: ...
@overload
def estimate(
    problem: Problem,
    allocation: Asked,
    trials: int = 1000,
    *,
    eps: float,
    method: str | Learner | None = None,
    steps: int | None = None,
    starts: int | None = None,
    seed: int = 0,
    precision: float | None = None,
    workers: int = 1,
    executor: Executor | None = None,
    progress: Callable[[WithinEstimate], None] | None = None,
) -> WithinEstimate: ...
def estimate(
    problem: Problem,
    allocation: Asked,
    trials: int = 1000,
    *,
    eps: float | None = None,
    method: str | Learner | None = None,
    steps: int | None = None,
    starts: int | None = None,
    seed: int = 0,
    precision: float | None = None,
    budget: Budget | None = None,
    count: bool = False,
    sample_always: bool = False,
    workers: int = 1,
    executor: Executor | None = None,
    progress: Callable[[Any], None] | None = None,
) -> Estimate | WithinEstimate:
    """Draw instances of a problem and decide each: MATCHED, REFUTED or UNDECIDED.

    ``allocation`` is fixed, or a rule that draws one for each trial, as the paper does: ``{"W":
    FirstRows(5)}``. A fixed one is certified first (with ``count``, if asked), and nothing is sampled
    where the verdict is maximal or minimal, unless ``sample_always`` or where "minimal" sets teachers
    aside (ReLU teachers that are off on the samples may be matched). With ``precision`` the run stops
    at the first trial at which the confidence interval, valid at all times, reaches no further than
    that from its middle. ``method="reference"`` is the paper's protocol (fsolve, 400 starts), for
    comparison.

    With ``eps`` the question is another one, and so is the result, a :class:`WithinEstimate`: how many
    instances a learner brings to a mean squared error below eps. ``method`` is then the learner or its
    name ("levenberg-marquardt", "adahessian", "adam", "sgd", "gradient-descent"), with at most
    ``steps`` steps from each of ``starts`` random starts. "Not reached" is not "no".

    Trial i depends on (seed, problem, i) alone, so the result is the same on any number of workers.

    >>> import sublearn as sl
    >>> problem = sl.Problem(sl.LinearRNN(n=2, b=1, d=1, T=2), samples=2)
    >>> diagonal = sl.Allocation.diagonal(problem.network, "W")
    >>> e = sl.estimate(problem, diagonal, trials=40)
    >>> e.matched + e.refuted + e.undecided, e.confidence[0] < 0.7155 < e.confidence[1]
    (40, True)
    >>> relu = sl.Problem(sl.FeedForward((6, 8, 4), activation="relu"), samples=6)
    >>> w = sl.estimate(relu, {"W1": sl.FirstRows(8)}, trials=20, eps=1e-2)
    >>> 0 < w.within < w.trials
    True
    """
    whole_number("trials", trials, least=1)
    check_workers(workers, started_here=executor is None)
    if precision is not None and not 0 < precision < 0.5:
        raise BadInputError(f"precision must lie strictly between 0 and 0.5, not {precision!r}.")
    if eps is not None:
        if budget is not None or count or sample_always:
            raise BadInputError(
                "budget, count and sample_always belong to exact matches; with eps give steps and starts."
            )
        from sublearn.estimates._within import within

        return within(
            problem,
            allocation,
            trials,
            eps=eps,
            method=method,
            steps=steps,
            starts=starts,
            seed=seed,
            precision=precision,
            workers=workers,
            executor=executor,
            progress=progress,
        )
    if steps is not None or starts is not None:
        raise BadInputError(
            "steps and starts belong to a match within eps: give eps, or a Budget for exact matches."
        )
    way = one_of("method", "ladder" if method is None else method, METHODS)
    begun = time.perf_counter()
    verdict = None
    if isinstance(allocation, Allocation):
        verdict = certify(problem, allocation, count=count)
        if _settles(problem, verdict) and not sample_always and way == "ladder":
            ends = (1.0, 1.0) if verdict.kind == "maximal" else (0.0, 0.0)
            return Estimate(problem, 0, 0, 0, 0, ends, way, seed, verdict, ())
    job = _Job(problem, allocation, seed, budget or Budget(), way)
    records: list[Trial] = []

    def summary(done: list[Trial], early: bool = precision is not None) -> Estimate:
        seconds = time.perf_counter() - begun
        return _summarise(problem, done, early, way, seed, verdict, seconds)

    with keeping(records, lambda: summary(records, early=True)):
        for chunk in run_chunks(job, trials, workers, executor, _CHUNK):
            for record in chunk:
                records.append(record)
                if precision is not None and _narrow(records, precision):
                    return summary(records)
            if progress is not None:
                progress(summary(records))
    return summary(records)


def _settles(problem: Problem, verdict: Verdict) -> bool:
    """Whether the verdict is a match probability: 1, or 0 with no teachers set aside.

    What is only numerical settles nothing, whatever it says.
    """
    if verdict.grade == NUMERICAL:
        return False
    if verdict.kind == "minimal":
        return not teacher_may_collapse(problem)
    return verdict.kind == "maximal"


@dataclass(frozen=True)
class _Job:
    """What a worker needs to know."""

    problem: Problem
    allocation: Asked
    seed: int
    budget: Budget
    method: str

    def decide(self, trials: range) -> list[Trial]:
        with single_thread():
            return [self._one(trial) for trial in trials]

    def _one(self, trial: int) -> Trial:
        begun = time.perf_counter()
        instance = draw(self.problem, self.allocation, seed=self.seed, trial=trial)
        found: Decision
        if self.method == "reference":
            import numpy as np

            from sublearn.matchers._reference import Reference

            rng = np.random.default_rng([self.seed, trial])
            found = Reference().attempt(instance, self.budget, rng)
        else:
            found = decide(instance, budget=self.budget, seed=self.seed)
        grade = found.grade
        return Trial(
            trial,
            found.kind,
            found.rung,
            "" if grade is None else grade.kind,
            0.0 if grade is None else grade.error,
            found.effort.starts,
            found.effort.iterations,
            found.effort.paths,
            time.perf_counter() - begun,
        )


def _counts(records: list[Trial]) -> tuple[int, int, int]:
    kinds = Counter(record.kind for record in records)
    return kinds["matched"], kinds["refuted"], kinds["undecided"]


def _sequence(matched: int, undecided: int, trials: int) -> tuple[float, float]:
    # The two ends come from two streams of successes, so each gets half of the 5%.
    low = confidence_sequence(matched, trials, 0.975)[0]
    high = confidence_sequence(matched + undecided, trials, 0.975)[1]
    return low, high


def _narrow(records: list[Trial], precision: float) -> bool:
    matched, _, undecided = _counts(records)
    low, high = _sequence(matched, undecided, len(records))
    return (high - low) / 2 <= precision


def _summarise(
    problem: Problem,
    records: list[Trial],
    early: bool,
    method: str,
    seed: int,
    verdict: Verdict | None,
    seconds: float,
) -> Estimate:
    matched, refuted, undecided = _counts(records)
    count = len(records)
    if early:
        ends = _sequence(matched, undecided, count)
    else:
        ends = clopper_pearson(matched, count)[0], clopper_pearson(matched + undecided, count)[1]
    return Estimate(
        problem,
        count,
        matched,
        refuted,
        undecided,
        ends,
        method,
        seed,
        verdict,
        tuple(records),
        seconds,
    )
