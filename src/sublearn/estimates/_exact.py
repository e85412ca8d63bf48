"""Match probability: many instances decided, counted honestly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple, Self, Unpack

import numpy as np

from sublearn._errors import one_of, whole_number
from sublearn._grades import NUMERICAL
from sublearn._kinds import MAXIMAL, MINIMAL, DecisionKind, GradeKind
from sublearn.allocations import Allocation, Rule
from sublearn.ensembles import Instance, Problem
from sublearn.estimates._count import Counted, HowFar, Question, count_trials
from sublearn.matchers import (
    Budget,
    Construct,
    Decision,
    Matcher,
    Reference,
    Search,
    decide,
    single_thread,
)
from sublearn.plots import Row
from sublearn.verdicts import UnknownRankError, Verdict, certify, teacher_may_collapse

METHODS = ("ladder", "search", "construction", "reference")
FROM_STARTS = ("search", "relu", "nonlinear", "reference")
"""The rungs that try random starts."""


_ALONE: dict[str, list[Matcher]] = {"search": [Search()], "construction": [Construct()]}


class Trial(NamedTuple):
    """What is kept of one decision."""

    trial: int
    kind: str
    rung: str
    grade: str
    error: float
    starts: int
    iterations: int
    paths: int


@dataclass(frozen=True)
class MatchQuestion(Question[Trial]):
    """Can the instance be matched exactly? Decided by ``method`` within ``budget``.

    The method is the ladder, the search alone, the construction of Theorem 3.5 alone, or fsolve as in
    the paper (reference: from 400 starts, or from the budget's).
    """

    method: str = "ladder"
    budget: Budget | None = None

    parts = {"budget": lambda plain: Budget(**plain)}  # noqa: RUF012

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("method", self.method, METHODS)
        for name, value in vars(self.budget or Budget()).items():
            whole_number(f"budget.{name}", value, least=0)

    def answer(self, trials: range) -> list[Trial]:
        with single_thread():
            return [record for record, _, _ in self.decided(trials)]

    def decided(self, trials: range) -> Iterator[tuple[Trial, Instance, Decision]]:
        """Of each trial what is kept of it, its instance, and the whole decision."""
        for trial in trials:
            instance = self.draw(trial)
            decision = self.decision(instance, trial)
            yield self._record(decision, trial), instance, decision

    @staticmethod
    def _record(answer: Decision, trial: int) -> Trial:
        kind, error = ("", 0.0) if answer.grade is None else (answer.grade.kind, answer.grade.error)
        effort = answer.effort
        counts = effort.starts, effort.iterations, effort.paths
        return Trial(trial, answer.kind, answer.rung, kind, error, *counts)

    def decision(self, instance: Instance, trial: int) -> Decision:
        """The whole answer, with the weights of a match."""
        budget = self.budget or Budget()
        if self.method != "reference":
            rungs = _ALONE.get(self.method)
            return decide(instance, budget=budget, seed=self.seed, ladder=rungs)
        starts = Reference.starts if self.budget is None else budget.starts
        # The stream is the trial's alone: the paper's starts know nothing of the allocation.
        rng = np.random.default_rng([self.seed, trial])
        return Reference(starts).attempt(instance, budget, rng)

    def verdict(self, count: bool = False) -> Verdict | None:
        """What certify says of a fixed allocation; None where its rank is not known, or rules draw one."""
        if not isinstance(self.allocation, Allocation):
            return None
        try:
            return certify(self.problem, self.allocation, count=count)
        except UnknownRankError:
            return None


@dataclass(frozen=True, repr=False)
class Estimate(Counted[MatchQuestion, Trial]):
    """Counts of the three decisions, and what they say about the match probability.

    ``bracket`` = (matched / N, (matched + undecided) / N): where the share of matches lies however the
    undecided ones fall. ``confidence``: the 95% interval around the bracket, Clopper-Pearson for a
    fixed number of trials, a confidence sequence when it was allowed to stop early. ``verdict`` is
    that of certify for a fixed allocation; where it is maximal, or minimal with no teachers set aside,
    nothing was sampled and the bracket is (1, 1) or (0, 0).
    """

    verdict: Verdict | None = field(default=None)

    asks: ClassVar[type[Any]] = MatchQuestion
    record = Trial
    words = {  # noqa: RUF012
        "kind": tuple(DecisionKind),
        "grade": ("", *GradeKind),
    }
    outcomes = ("matched", "undecided", "refuted")
    share_name: ClassVar[str] = "match probability"
    # The two ends come from two streams of successes, so each gets half of the 5%.
    early_level = 0.975

    @classmethod
    def of(cls, question: MatchQuestion) -> Self:
        return cls(question, verdict=question.verdict())

    @staticmethod
    def counts(record: Trial) -> bool:
        return record.kind == DecisionKind.MATCHED

    @classmethod
    def may_count(cls, record: Trial) -> bool:
        return record.kind != DecisionKind.REFUTED

    @property
    def method(self) -> str:
        """How instances were decided: the ladder, the search alone, or the paper's protocol."""
        return self.question.method

    @property
    def matched(self) -> int:
        """Instances with a match."""
        return self.bounds[0]

    @property
    def refuted(self) -> int:
        """Instances without one."""
        return self.trials - self.bounds[1]

    @property
    def undecided(self) -> int:
        """Instances of which neither is sure."""
        return self.bounds[1] - self.bounds[0]

    @property
    def sampled(self) -> bool:
        """Whether instances were drawn; False where certify already knew."""
        return self.trials > 0

    @property
    def bracket(self) -> tuple[float, float]:
        """The share of matches, with the undecided counted as none and as all."""
        if not self.sampled:
            return self.confidence
        least, most = self.bounds
        return least / self.trials, most / self.trials

    @property
    def confidence(self) -> tuple[float, float]:
        """The 95% interval around the bracket; the match probability itself where certify knew it."""
        if not self.sampled and self.verdict is not None:
            return (1.0, 1.0) if self.verdict.kind == MAXIMAL else (0.0, 0.0)
        return super().confidence

    @property
    def rungs(self) -> dict[str, int]:
        """How many trials each rung decided."""
        return dict(Counter(r.rung for r in self.records if r.kind != DecisionKind.UNDECIDED))

    @property
    def grades(self) -> dict[str, int]:
        """How many decisions have each grade."""
        return dict(Counter(r.grade for r in self.records if r.grade))

    @property
    def proved(self) -> int:
        """Matches that are proved."""
        sure = DecisionKind.MATCHED, GradeKind.PROOF
        return sum((r.kind, r.grade) == sure for r in self.records)

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
        counts = Counter(record.starts for record in self._by_starts)
        return list(zip(sorted(counts), accumulate(counts[s] for s in sorted(counts)), strict=True))

    @property
    def _by_starts(self) -> list[Trial]:
        """Matches that a random start led to."""
        matched = (r for r in self.records if r.kind == DecisionKind.MATCHED)
        return [r for r in matched if r.starts and r.rung in FROM_STARTS]

    @property
    def brief(self) -> str:
        low, high = self.bracket
        counts = f"{self.matched} matched, {self.refuted} refuted, {self.undecided} undecided"
        return f"{counts}  [{low:.3f}, {high:.3f}]"

    @property
    def details(self) -> list[str]:
        if not self.sampled:
            return []
        rungs = ", ".join(f"{rung} {count}" for rung, count in self.rungs.items())
        lines = [f"decided by: {rungs or 'none'}"]
        if self.curve:
            last, total = self.curve[-1]
            shown = [
                f"{sum(r.starts <= mark for r in self._by_starts)} by {mark}"
                for mark in (0, 1, 2, 5, 10, 20, 50, 100, 200, 400, 1000, 3000)
                if mark < last
            ]
            lines.append(f"restarts against matches: {', '.join([*shown, f'{total} by {last}'])}")
        return [*lines, *super().details]

    def facts(self) -> dict[str, Any]:
        return {
            **self.plain("method", "matched", "refuted", "undecided", "proved", "bracket"),
            **self.plain("confidence", "sampled", "rungs", "restarts"),
            "curve": [list(point) for point in self.curve],
            "verdict": None if self.verdict is None else self.verdict.to_dict(),
        }

    def table(self) -> list[Row]:
        """A row for every trial; where nothing was sampled, one that says what certify knew."""
        if self.verdict is None or self.sampled:
            return super().table()
        known = {"verdict": self.verdict.kind, "grade": str(self.verdict.grade)}
        return [{**known, "match_probability": self.confidence[0]}]

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
            f"{self.share_name} {share} (95%: {low:.4f} to {high:.4f}); of {self.trials} trials "
            f"{self.matched} matched ({self.proved} proved), {self.refuted} refuted, "
            f"{self.undecided} undecided"
        )


def estimate(
    problem: Problem,
    allocation: Allocation | Mapping[str, Rule],
    trials: int = 1000,
    *,
    method: str = "ladder",
    budget: Budget | None = None,
    seed: int = 0,
    count: bool = False,
    sample_always: bool = False,
    **how: Unpack[HowFar[Estimate]],
) -> Estimate:
    """Draw instances of a problem and decide each: MATCHED, REFUTED or UNDECIDED.

    ``allocation`` is fixed, or a rule that draws one for each trial, as the paper does: ``{"W":
    FirstRows(5)}``. A fixed one is certified first (with ``count``, if asked), and nothing is sampled
    where the verdict is maximal or minimal, unless ``sample_always`` or where "minimal" sets teachers
    aside (ReLU teachers that are off on the samples may be matched). With ``precision`` the run stops
    at the first trial at which the confidence interval, valid at all times, reaches no further than
    that from its middle. ``method="reference"`` is the paper's protocol (fsolve, 400 starts), for
    comparison. Of a problem of one's own numbers (:meth:`Problem.given`) only the rest is drawn, a rule's
    allocations alone where all are given, and nothing generic is used.

    Trial i depends on (seed, problem, i) alone, so the result is the same on any number of ``workers`` or
    on any ``executor``. ``progress`` is told the result so far; ``go_on`` is an earlier result whose
    trials are not run again (see :meth:`Estimate.more`, :meth:`Estimate.save`). How often a learner
    comes near is another question: :func:`sublearn.estimate_within`.

    >>> import sublearn as sl
    >>> problem = sl.Problem(sl.LinearRNN(n=2, b=1, d=1, T=2), samples=2)
    >>> diagonal = sl.Allocation.diagonal(problem.network, "W")
    >>> e = sl.estimate(problem, diagonal, trials=40)
    >>> e.matched + e.refuted + e.undecided, e.confidence[0] < 0.7155 < e.confidence[1]
    (40, True)
    """
    whole_number("trials", trials, least=1)
    question = MatchQuestion(problem, allocation, seed, method, budget)
    start = Estimate(question, verdict=question.verdict(count))
    if method == "ladder" and not sample_always and _settles(problem, start.verdict):
        return start
    return count_trials(start, trials, **how)


def _settles(problem: Problem, verdict: Verdict | None) -> bool:
    """Whether the verdict is a match probability: 1, or 0 with no teachers set aside.

    What is only numerical settles nothing, whatever it says.
    """
    if verdict is None or verdict.grade == NUMERICAL:
        return False
    if verdict.kind == MINIMAL:
        return not teacher_may_collapse(problem)
    return verdict.kind == MAXIMAL
