"""The certifier: allocation in, verdict out, nothing sampled."""

from __future__ import annotations

from dataclasses import replace

from sublearn._errors import BadInputError
from sublearn._grades import NUMERICAL, PROOF, Grade, weakest
from sublearn.allocations import Allocation
from sublearn.ensembles import Problem
from sublearn.verdicts._affine import is_affine
from sublearn.verdicts._bounds import broken_bounds, rank_bound
from sublearn.verdicts._equations import equation_counts
from sublearn.verdicts._gates import GateRanks, ranks_at_gates
from sublearn.verdicts._maximal import Candidate, candidates
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
from sublearn.verdicts._verdict import Verdict
from sublearn.verdicts._words import circuit_of
from sublearn.verdicts.counts import count_solutions


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
    asked, problem = problem, _before_output(problem)
    if problem.network.has_gates:
        verdict = _certify_gated(problem, allocation, error, seed)
    else:
        found = generic_rank(problem, allocation, error=error, seed=seed)
        needed = needed_rank(problem, found.rank, error=error, seed=seed)
        notes = shortfall(problem, needed)
        kind, grade, reasons = _decide(problem, allocation, found, needed, error, seed)
        positive = has_positive_chance(problem)
        verdict = _assemble(
            problem, allocation, found, needed, kind, grade, [*reasons, *notes], positive=positive
        )
        if count and problem.network.is_linear:
            verdict = _counted(problem, allocation, verdict, seed)
    if problem is asked:
        return verdict
    words = (
        "The output activation is invertible and the teacher has the same: with and without it, the "
        "same draws are matched."
    )
    return replace(verdict, reasons=(*verdict.reasons, words))


def _before_output(problem: Problem) -> Problem:
    """The problem without the tanh or sigmoid that student and teacher both end with.

    Outputs agree exactly if what stands before the activation does.
    """
    student, teacher = problem.network, problem.teacher_network
    if teacher is None or student.steps[-1].activation not in ("tanh", "sigmoid"):
        return problem
    inner, shown = student.before_output(), teacher.before_output()
    same = student.steps[-1].activation == teacher.steps[-1].activation
    if not same or inner is student or shown is teacher:
        return problem
    return replace(problem, network=inner, teacher=shown)


def _counted(problem: Problem, allocation: Allocation, verdict: Verdict, seed: int) -> Verdict:
    """The verdict after counting complex solutions; the targets must fill all d m dimensions."""
    if verdict.kind != "between" or verdict.needed < problem.equations:
        return verdict
    if teacher_may_collapse(problem):
        return verdict
    found = count_solutions(problem, allocation, seed=seed)
    if found.count is None or found.grade is None:
        words = f"Solutions were not counted: {found.reason}."
        return replace(verdict, reasons=(*verdict.reasons, words))
    words = f"At generic parameters there are {found.reason}."
    if found.count % 2 == 0 or found.grade == NUMERICAL:
        return replace(verdict, reasons=(*verdict.reasons, words), solutions=found.count)
    odd = f"{words} An odd number: not all can come in conjugate pairs, so one is real."
    return replace(
        verdict,
        kind="maximal",
        grade=weakest(verdict.grade, found.grade),
        reasons=(odd, *verdict.reasons[1:]),
        theorems=compare(
            printed_claims(problem, allocation),
            "maximal",
            verdict.rank,
            verdict.needed,
            positive=True,
        ),
        solutions=found.count,
    )


def _check(problem: Problem, allocation: Allocation) -> None:
    if not isinstance(problem, Problem):
        raise BadInputError(f"problem must be a Problem, not {problem!r}.")
    if not isinstance(allocation, Allocation):
        raise BadInputError(f"allocation must be an Allocation, not {allocation!r}.")
    if dict(allocation.shapes) != problem.network.shapes:
        raise BadInputError(
            f"the allocation belongs to weights {dict(allocation.shapes)}, but the network has "
            f"{problem.network.shapes}."
        )
    if not len(allocation):
        raise BadInputError("the allocation has no learnable weight (r = 0): give it at least one.")


_COPIES = "Every weight is learnable, so the student can take the teacher's weights."


def _copies(problem: Problem, allocation: Allocation) -> bool:
    return problem.teacher is None and len(allocation) == problem.network.size


def _decide(
    problem: Problem,
    allocation: Allocation,
    found: GenericRank,
    needed: Needed,
    error: float,
    seed: int,
) -> tuple[str, Grade, list[str]]:
    if _copies(problem, allocation):
        return "maximal", PROOF, [_COPIES]
    if problem.ensemble.without_density or problem.source.lacks_density:
        return "unknown", PROOF, [_no_density(problem)]
    rank, count = found.rank, len(allocation)
    if rank < needed.rank:
        # "needed" is never too large, so only "rank" can be in doubt, and only where no bound proves it.
        sure = rank_bound(problem, allocation) < needed.rank
        reason = _too_few(count, rank, needed.rank)
        grade = PROOF if sure else found.grade
        return "minimal", grade, [reason, *_set_aside(problem, needed)]
    if problem.teacher is not None:
        return _decide_other_teacher(problem, allocation, found, needed, error, seed)
    # Full rank: the dimension that is left to doubt is the teacher's.
    onto = rank == problem.effective_equations
    for known in candidates(problem, allocation):
        # An affine image of dimension `needed` inside the teacher's irreducible image is all of it;
        # the saturated constructions need all d m' dimensions, and so do analytic teachers.
        if (known.onto or not problem.network.is_linear) and not onto:
            continue
        if _holds(problem, allocation, known, needed.rank, error, seed):
            return "maximal", needed.grade, [f"Full rank, and {known.why}."]
    reason = (
        f"Full rank {rank}: some teachers are matched, so the match probability is positive; "
        "whether it is 1 is not known."
    )
    return "between", needed.grade, [reason]


def _too_few(count: int, rank: int, needed: int, most: str = "only ") -> str:
    if count < needed:
        return f"{count} learnable weights cannot reach the {needed} dimensions needed."
    return (
        f"The {count} learnable weights move the outputs in {most}{rank} independent directions; a "
        f"match needs {needed}."
    )


def _decide_other_teacher(
    problem: Problem,
    allocation: Allocation,
    found: GenericRank,
    needed: Needed,
    error: float,
    seed: int,
) -> tuple[str, Grade, list[str]]:
    equations = reachable_equations(problem)
    if found.rank < equations:
        reason = (
            f"The rank {found.rank} is below the {equations} outputs that count, but the teacher "
            f"reaches only {needed.rank} dimensions itself; whether the two meet is not decided by "
            "ranks."
        )
        return "between", found.grade, [reason]
    for known in candidates(problem, allocation):
        # What is affine and onto matches any targets; the others need generic ones.
        if known.onto and (needed.rank < equations or teacher_may_collapse(problem)):
            continue
        if _holds(problem, allocation, known, equations, error, seed):
            grade = needed.grade if known.onto else PROOF
            return "maximal", grade, [f"Full rank {equations}, and {known.why}."]
    if has_positive_chance(problem):
        return "between", PROOF, [f"Full rank {equations}: the match probability is positive."]
    reason = f"Full rank {equations}, but for this teacher a positive probability is not proved."
    return "between", PROOF, [reason]


def has_positive_chance(problem: Problem) -> bool:
    """Whether full rank proves a positive match probability: the student's outputs near a point of
    full rank are an open set, and it must be one that the targets can hit."""
    return problem.teacher is None or problem.source.has_full_support


def _holds(
    problem: Problem, allocation: Allocation, known: Candidate, wanted: int, error: float, seed: int
) -> bool:
    if known.problem is not None:
        return _rank_is(known.problem, known.part, len(known.part), error, seed)
    return known.part == allocation or _rank_is(problem, known.part, wanted, error, seed)


def _rank_is(problem: Problem, part: Allocation, wanted: int, error: float, seed: int) -> bool:
    if len(part) < wanted or rank_bound(problem, part) < wanted:
        return False
    return generic_rank(problem, part, error=error, seed=seed).rank == wanted


def _set_aside(problem: Problem, needed: Needed) -> list[str]:
    """What "minimal" leaves out for ReLU teachers: their dimension depends on their gates."""
    if not teacher_may_collapse(problem):
        return []
    return [
        f"Teachers whose gates leave them fewer than {needed.rank} dimensions, such as all units off, "
        "are set aside: they may be matched by chance."
    ]


def _no_density(problem: Problem) -> str:
    parts = list(problem.ensemble.without_density)
    laws = [f"{part} ({type(getattr(problem.ensemble, part)).__name__})" for part in parts]
    laws += [problem.source.lacks_density] if problem.source.lacks_density else []
    return (
        f"No density: {', '.join(laws)}. Generic statements hold with probability 1 only for laws "
        "with a density (2 x 2 sign matrices are singular half the time), so rank and needed below "
        "describe generic weights, not these. Estimate the match probability instead."
    )


def _certify_gated(problem: Problem, allocation: Allocation, error: float, seed: int) -> Verdict:
    """ReLU networks: what holds whatever the gates are is settled, the rest is said of sampled ones."""
    always = generic_rank(problem, allocation, error=error, seed=seed, free_gates=True)
    sampled = ranks_at_gates(problem, allocation, error=error, seed=seed)
    needed = needed_rank(problem, sampled.largest, error=error, seed=seed)
    counted = rank_bound(problem, allocation)
    highest = min(counted, always.rank)
    rank_grade = NUMERICAL  # gates that were not sampled may have a larger rank
    if sampled.largest == highest:
        rank_grade = PROOF if counted <= always.rank else always.grade
    found = GenericRank(sampled.largest, always.basis, always.idle, always.circuit, rank_grade)
    kind, grade, reasons = "between", NUMERICAL, [_range(sampled, highest)]
    positive = False
    if _copies(problem, allocation):
        kind, grade = "maximal", PROOF
        reasons.insert(0, _COPIES)
    elif problem.ensemble.without_density or problem.source.lacks_density:
        kind, grade = "unknown", PROOF
        reasons.insert(0, _no_density(problem))
    elif highest < needed.rank:
        # "needed" is the teacher's rank at gates that occur, so never too large.
        kind, grade = "minimal", PROOF if counted < needed.rank else always.grade
        reasons.insert(0, _too_few(len(allocation), highest, needed.rank, "at most "))
        reasons += _set_aside(problem, needed)
    elif sampled.largest < needed.rank:
        reasons.append(
            f"No sampled gates reach the {needed.rank} dimensions that a match needs, and nothing "
            "excludes that others do: estimate the match probability."
        )
    elif has_positive_chance(problem) and needed.grade != NUMERICAL:
        # A teacher near the student that has these gates has the same rank, and is matched.
        grade, positive = needed.grade, True
        reasons.append(
            f"Full rank {sampled.largest} at gates that occur with positive probability: some teachers "
            "are matched, so the match probability is positive; whether it is 1 is not known."
        )
    else:
        grade = needed.grade
        reasons.append("Full rank at some gates, but a positive match probability is not proved.")
    if is_affine(problem.network, allocation) and kind == "between":
        reasons.append(
            "The outputs are affine in the learnable weights, so a match exists wherever the rank "
            f"is {problem.equations}."
        )
    reasons += shortfall(problem, needed)
    return _assemble(
        problem, allocation, found, needed, kind, grade, reasons, positive=positive, gates=sampled
    )


def _range(sampled: GateRanks, highest: int) -> str:
    low, high = sampled.smallest, sampled.largest
    if low == high:
        seen = f"the exact rank is {high} at all of them"
    else:
        seen = f"the exact rank goes from {low} to {high}, which {sampled.at_largest} of them reach"
    where = f"At the gates of {sampled.sampled} random points"
    return f"{where} {seen}; whatever the gates, it is at most {highest}."


def _assemble(
    problem: Problem,
    allocation: Allocation,
    found: GenericRank,
    needed: Needed,
    kind: str,
    grade: Grade,
    reasons: list[str],
    *,
    positive: bool,
    gates: GateRanks | None = None,
) -> Verdict:
    broken = broken_bounds(problem, allocation)
    circuit = None
    # What is wasted at some gates need not be at others: the witness holds for all.
    if found.basis.size < min(len(allocation), needed.rank):
        circuit = circuit_of(problem, allocation.select(found.circuit))
    lines = list(reasons)
    lines += [f"{str(bound)[0].upper()}{str(bound)[1:]}." for bound in broken[:5]]
    if len(broken) > 5:
        lines.append(f"{len(broken) - 5} more rows and columns break their bounds.")
    if circuit is not None:
        lines.append(circuit.words)
    return Verdict(
        kind=kind,
        grade=grade,
        learnable=len(allocation),
        equations=problem.equations,
        rank=found.rank,
        needed=needed.rank,
        rank_grade=found.grade,
        needed_grade=needed.grade,
        affine=is_affine(problem.network, allocation),
        reasons=tuple(lines),
        theorems=compare(
            printed_claims(problem, allocation),
            kind,
            found.rank,
            needed.rank,
            positive=kind == "between" and positive,
        ),
        broken=broken,
        idle=allocation.select(found.idle),
        circuit=circuit,
        counts=equation_counts(problem, allocation),
        gates=gates,
        set_aside=kind == "minimal" and teacher_may_collapse(problem),
    )
