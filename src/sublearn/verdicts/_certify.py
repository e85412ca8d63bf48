"""The certifier: allocation in, verdict out, nothing sampled."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sublearn._errors import BadInputError
from sublearn._grades import NUMERICAL, PROOF, Grade, weakest
from sublearn._kinds import BETWEEN, MAXIMAL, MINIMAL, UNKNOWN, VerdictKind
from sublearn.allocations import Allocation, an_allocation
from sublearn.ensembles import Problem
from sublearn.networks import before_both
from sublearn.verdicts._affine import is_affine
from sublearn.verdicts._bounds import broken_bounds, rank_bound
from sublearn.verdicts._equations import equation_counts
from sublearn.verdicts._gates import FEW_POINTS, GATED_POINTS, GateRanks, ranks_at_gates
from sublearn.verdicts._maximal import Candidate, candidates, rank_wanted
from sublearn.verdicts._needed import (
    Needed,
    needed_rank,
    reachable_equations,
    shortfall,
    teacher_may_collapse,
)
from sublearn.verdicts._points import check_options
from sublearn.verdicts._rank import GenericRank, generic_rank
from sublearn.verdicts._theorems import compare, printed_claims
from sublearn.verdicts._verdict import Proof, Verdict
from sublearn.verdicts._words import circuit_of
from sublearn.verdicts.counts import count_solutions

_LIGHT = 200_000_000  # multiplications that nobody waits for


def certify(
    problem: Problem,
    allocation: Allocation,
    *,
    count: bool = False,
    error: float = 1e-12,
    seed: int = 0,
) -> Verdict:
    """Decide without sampling whether an allocation is maximal, minimal or between.

    With J the d m x r Jacobian of the outputs with respect to the learnable weights at generic
    weights and inputs: rank J below *needed* means match probability 0 (Sard), rank J = needed means
    that matches have positive probability, and probability 1 where the outputs are affine in the
    learnable weights or the recurrent matrix is saturated by rows or columns. See the page
    "Definitions" for the statements and their proofs. Ranks are exact, modulo primes, for linear, tanh
    and sigmoid networks alike; floating point decides nothing.

    The rank of a ReLU network depends on its gates. There, "minimal" is what holds whatever the gates
    are, and ``gates`` gives the range of exact ranks at the gates of random points.

    With ``count``, an allocation between the two has its complex solutions at generic parameters
    counted as well (by msolve, for small systems): solutions that are not real come in pairs, so an
    odd number makes it maximal, at the grade of the count.

    Independent columns are proved so. A dependency that no degree bound proves is checked at random
    points until the probability of a mistake is at most ``error``. ``seed`` changes the points, never
    the verdict; for ReLU networks it changes the sampled gates, hence their range, and the verdict only
    where rare gates raise a rank.

    >>> import sublearn as sl
    >>> problem = sl.Problem(sl.FeedForward((3, 3, 2)), samples=2)
    >>> a = sl.Allocation.from_entries(problem.network, {"W1": [(2, 0), (2, 1), (0, 2), (1, 2)]})
    >>> v = sl.certify(problem, a)
    >>> v.kind, v.rank, v.needed, v.wasted
    ('minimal', 3, 4, 1)
    """
    _check(problem, allocation)
    check_options(error, seed)
    inner = _before_output(problem)
    case = _Case(inner, allocation, error, seed)
    verdict = case.at_gates() if inner.network.has_gates else case.everywhere()
    if count and inner.network.is_linear:
        verdict = _counted(inner, allocation, verdict, seed)
    if inner is problem:
        return verdict
    words = (
        "The output activation is invertible and the teacher has the same: with and without it, the "
        "same draws are matched."
    )
    return replace(verdict, reasons=(*verdict.reasons, words))


def _before_output(problem: Problem) -> Problem:
    """The problem without the tanh or sigmoid that student and teacher both end with."""
    teacher = problem.teacher_network
    pair = None if teacher is None else before_both(problem.network, teacher)
    return problem if pair is None else replace(problem, network=pair[0], teacher=pair[1])


def _counted(problem: Problem, allocation: Allocation, verdict: Verdict, seed: int) -> Verdict:
    """The verdict after counting complex solutions; the targets must fill all d m dimensions."""
    if verdict.kind != BETWEEN or verdict.needed < problem.equations:
        return verdict
    if teacher_may_collapse(problem):
        return verdict
    solutions = count_solutions(problem, allocation, seed=seed)
    if solutions.count is None or solutions.grade is None:
        words = f"Solutions were not counted: {solutions.reason}."
        return replace(verdict, reasons=(*verdict.reasons, words))
    words = f"At generic parameters there are {solutions.reason}."
    if solutions.count % 2 == 0 or solutions.grade == NUMERICAL:
        return replace(verdict, reasons=(*verdict.reasons, words), solutions=solutions.count)
    odd = f"{words} An odd number: not all can come in conjugate pairs, so one is real."
    claims, ranks = printed_claims(problem, allocation), (verdict.rank, verdict.needed)
    return replace(
        verdict,
        kind=MAXIMAL,
        grade=weakest(verdict.grade, solutions.grade),
        reasons=(odd, *verdict.reasons[1:]),
        theorems=compare(claims, MAXIMAL, *ranks, positive=True),
        solutions=solutions.count,
    )


def _check(problem: Problem, allocation: Allocation) -> None:
    if not isinstance(problem, Problem):
        raise BadInputError(f"problem must be a Problem, not {problem!r}.")
    an_allocation("allocation", allocation)
    problem.network.check_allocation(allocation)
    if not len(allocation):
        raise BadInputError("the allocation has no learnable weight (r = 0): give it at least one.")


@dataclass(frozen=True)
class _Finding:
    """A kind, how sure it is and why; ``positive``: the match probability is proved to be above 0."""

    kind: VerdictKind
    grade: Grade
    reasons: tuple[str, ...]
    positive: bool = False
    ground: Candidate | None = None


@dataclass(frozen=True)
class _Case:
    """One question: an allocation of a problem, and how sure the ranks have to be."""

    problem: Problem
    allocation: Allocation
    error: float
    seed: int

    def everywhere(self) -> Verdict:
        """Networks whose rank is the same at almost every point."""
        rank = generic_rank(self.problem, self.allocation, error=self.error, seed=self.seed)
        needed = needed_rank(self.problem, rank.rank, error=self.error, seed=self.seed)
        finding = self._at_once() or self._by_rank(rank, needed)
        return self._verdict(rank, needed, finding)

    def at_gates(self) -> Verdict:
        """ReLU networks: what holds whatever the gates are is settled, the rest is said of sampled ones."""
        problem, allocation = self.problem, self.allocation
        counted = rank_bound(problem, allocation)
        early = self._beyond_count(counted)
        always = generic_rank(
            problem, allocation, error=self.error, seed=self.seed, free_gates=True
        )
        points = GATED_POINTS if early is None or self._looks_light() else FEW_POINTS
        sampled = ranks_at_gates(
            problem, allocation, error=self.error, seed=self.seed, points=points
        )
        needed = early
        if needed is None or needed.rank < sampled.largest:
            needed = needed_rank(problem, sampled.largest, error=self.error, seed=self.seed)
        highest = min(counted, always.rank)
        grade = NUMERICAL  # gates that were not sampled may have a larger rank
        if sampled.largest == highest:
            grade = PROOF if counted <= always.rank else always.grade
        rank = replace(always, rank=sampled.largest, grade=grade)
        seen = _range(sampled, highest)
        finding = self._at_once()
        if finding is not None:
            finding = replace(finding, reasons=(*finding.reasons, seen))
        elif highest < needed.rank:
            # "needed" is the teacher's rank at gates that occur, so never too large.
            why = _too_few(len(allocation), highest, needed.rank, "at most ")
            sure = PROOF if counted < needed.rank else always.grade
            if sampled.sampled < GATED_POINTS:
                seen += " Counting settles the verdict, so that few gates were sampled."
            finding = _Finding(MINIMAL, sure, (why, seen, *_set_aside(problem, needed)))
        else:
            finding = self._between(sampled.largest, needed, seen)
        return self._verdict(rank, needed, finding, sampled)

    def _beyond_count(self, counted: int) -> Needed | None:
        """*needed*, where more of it than counting lets the allocation reach: that settles the verdict."""
        teacher = self.problem.teacher_network
        if teacher is not None and counted >= teacher.expressible(self.problem.samples):
            return None
        needed = needed_rank(self.problem, error=self.error, seed=self.seed)
        return needed if counted < needed.rank else None

    def _looks_light(self) -> bool:
        """Whether ranks at all the gates that are usually sampled cost next to nothing."""
        problem, count = self.problem, len(self.allocation)
        rows = problem.equations
        return GATED_POINTS * rows * count * min(rows, count) <= _LIGHT

    def _between(self, largest: int, needed: Needed, seen: str) -> _Finding:
        problem, sure, positive = self.problem, needed.grade, False
        if largest < needed.rank:
            sure = NUMERICAL
            why = (
                f"No sampled gates reach the {needed.rank} dimensions that a match needs, and nothing "
                "excludes that others do: estimate the match probability."
            )
        elif has_positive_chance(problem) and needed.grade != NUMERICAL:
            # A teacher near the student that has these gates has the same rank, and is matched.
            positive = True
            why = (
                f"Full rank {largest} at gates that occur with positive probability: some teachers "
                "are matched, so the match probability is positive; whether it is 1 is not known."
            )
        else:
            why = "Full rank at some gates, but a positive match probability is not proved."
        reasons: tuple[str, ...] = (seen, why)
        if is_affine(problem.network, self.allocation):
            reasons += (
                "The outputs are affine in the learnable weights, so a match exists wherever the rank "
                f"is {problem.equations}.",
            )
        return _Finding(BETWEEN, sure, reasons, positive)

    def _at_once(self) -> _Finding | None:
        """What needs no rank: the student can copy the teacher, or nothing generic can be said."""
        problem = self.problem
        if problem.teacher is None and len(self.allocation) == problem.network.size:
            why = "Every weight is learnable, so the student can take the teacher's weights."
            return _Finding(MAXIMAL, PROOF, (why,))
        if problem.ensemble.without_density or problem.source.lacks_density:
            return _Finding(UNKNOWN, PROOF, (_no_density(problem),), has_positive_chance(problem))
        return None

    def _by_rank(self, rank: GenericRank, needed: Needed) -> _Finding:
        problem, allocation = self.problem, self.allocation
        if rank.rank < needed.rank:
            # "needed" is never too large, so only "rank" can be in doubt, and only where no bound proves it.
            sure = rank_bound(problem, allocation) < needed.rank
            why = _too_few(len(allocation), rank.rank, needed.rank)
            reasons = (why, *_set_aside(problem, needed))
            return _Finding(MINIMAL, PROOF if sure else rank.grade, reasons)
        if problem.teacher is not None:
            return self._other_teacher(rank, needed)
        # Full rank: the dimension that is left to doubt is the teacher's.
        ground = self._ground(rank, needed)
        if ground is not None:
            why = f"Full rank, and {ground.why}."
            return _Finding(MAXIMAL, needed.grade, (why,), ground=ground)
        why = (
            f"Full rank {rank.rank}: some teachers are matched, so the match probability is positive; "
            "whether it is 1 is not known."
        )
        return _Finding(BETWEEN, needed.grade, (why,), positive=True)

    def _other_teacher(self, rank: GenericRank, needed: Needed) -> _Finding:
        problem, equations = self.problem, reachable_equations(self.problem)
        positive = has_positive_chance(problem)
        if rank.rank < equations:
            why = (
                f"The rank {rank.rank} is below the {equations} outputs that count, but the teacher "
                f"reaches only {needed.rank} dimensions itself; whether the two meet is not decided by "
                "ranks."
            )
            return _Finding(BETWEEN, rank.grade, (why,), positive)
        ground = self._ground(rank, needed)
        if ground is not None:
            why = f"Full rank {equations}, and {ground.why}."
            grade = needed.grade if ground.onto else PROOF
            return _Finding(MAXIMAL, grade, (why,), ground=ground)
        why = f"Full rank {equations}, but for this teacher a positive probability is not proved."
        if positive:
            why = f"Full rank {equations}: the match probability is positive."
        return _Finding(BETWEEN, PROOF, (why,), positive)

    def _ground(self, rank: GenericRank, needed: Needed) -> Candidate | None:
        """The first part that is known to be maximal at its rank, in its own problem where it has one."""
        for known in candidates(self.problem, self.allocation):
            wanted = rank_wanted(self.problem, known, rank.rank, needed.rank)
            if wanted is None:
                continue
            problem, part = known.problem or self.problem, known.part
            if known.problem is None and part == self.allocation:
                return known
            if len(part) < wanted or rank_bound(problem, part) < wanted:
                continue
            if generic_rank(problem, part, error=self.error, seed=self.seed).rank == wanted:
                return known
        return None

    def _verdict(
        self, rank: GenericRank, needed: Needed, finding: _Finding, gates: GateRanks | None = None
    ) -> Verdict:
        problem, allocation = self.problem, self.allocation
        broken = broken_bounds(problem, allocation)
        lines = [*finding.reasons, *shortfall(problem, needed)]
        lines += [f"{str(bound)[0].upper()}{str(bound)[1:]}." for bound in broken[:5]]
        if len(broken) > 5:
            lines.append(f"{len(broken) - 5} more rows and columns break their bounds.")
        circuit = None
        # What is wasted at some gates need not be at others: the witness holds for all.
        if rank.basis.size < min(len(allocation), needed.rank):
            circuit = circuit_of(problem, allocation.select(rank.circuit))
            lines.append(circuit.words)
        between = finding.kind == BETWEEN and finding.positive
        claims = printed_claims(problem, allocation)
        return Verdict(
            kind=finding.kind,
            grade=finding.grade,
            allocation=allocation,
            equations=problem.equations,
            rank=rank.rank,
            needed=needed.rank,
            rank_grade=rank.grade,
            needed_grade=needed.grade,
            affine=is_affine(problem.network, allocation),
            reasons=tuple(lines),
            theorems=compare(claims, finding.kind, rank.rank, needed.rank, positive=between),
            broken=broken,
            idle=allocation.select(rank.idle),
            circuit=circuit,
            counts=equation_counts(problem, allocation),
            gates=gates,
            set_aside=finding.kind == MINIMAL and teacher_may_collapse(problem),
            proof=Proof(problem, finding.ground),
        )


def _too_few(count: int, rank: int, needed: int, most: str = "only ") -> str:
    if count < needed:
        return f"{count} learnable weights cannot reach the {needed} dimensions needed."
    return (
        f"The {count} learnable weights move the outputs in {most}{rank} independent directions; a "
        f"match needs {needed}."
    )


def has_positive_chance(problem: Problem) -> bool:
    """Whether full rank proves a positive match probability: the student's outputs near a point of
    full rank are an open set, and it must be one that the targets can hit."""
    return problem.teacher is None or problem.source.has_full_support


def _set_aside(problem: Problem, needed: Needed) -> list[str]:
    """What "minimal" leaves out for ReLU teachers: their dimension depends on their gates."""
    if not teacher_may_collapse(problem):
        return []
    return [
        f"Teachers whose gates leave them fewer than {needed.rank} dimensions, such as all units off, "
        "are set aside: they may be matched by chance."
    ]


def _no_density(problem: Problem) -> str:
    ensemble = problem.ensemble
    laws = [
        f"{part} (given)"
        if part in ensemble.given.parts
        else f"{part} ({type(getattr(ensemble, part)).__name__})"
        for part in ensemble.without_density
    ]
    laws += [problem.source.lacks_density] if problem.source.lacks_density else []
    return (
        f"No density: {', '.join(laws)}. Generic statements hold with probability 1 only for laws "
        "with a density (2 x 2 sign matrices are singular half the time), so rank and needed below "
        "describe generic weights, not these. Estimate the match probability instead."
    )


def _range(sampled: GateRanks, highest: int) -> str:
    low, high = sampled.smallest, sampled.largest
    if low == high:
        seen = f"the exact rank is {high} at all of them"
    else:
        seen = f"the exact rank goes from {low} to {high}, which {sampled.at_largest} of them reach"
    where = f"At the gates of {sampled.sampled} random points"
    return f"{where} {seen}; whatever the gates, it is at most {highest}."
