"""The certifier: allocation in, verdict out, nothing sampled."""

from __future__ import annotations

import numpy as np

from sublearn._errors import BadInputError
from sublearn.allocations import Allocation
from sublearn.ensembles import Problem, Targets
from sublearn.networks import Network, gates_at
from sublearn.verdicts._affine import is_affine
from sublearn.verdicts._bounds import broken_bounds, rank_bound
from sublearn.verdicts._equations import equation_counts
from sublearn.verdicts._grade import NUMERICAL, PROOF, Grade
from sublearn.verdicts._maximal import candidates
from sublearn.verdicts._needed import Needed, needed_rank, shortfall
from sublearn.verdicts._numerical import draw_point, numerical_rank
from sublearn.verdicts._points import generator
from sublearn.verdicts._rank import GenericRank, generic_rank
from sublearn.verdicts._theorems import compare, printed_claims
from sublearn.verdicts._verdict import Verdict
from sublearn.verdicts._words import circuit_of


def certify(
    problem: Problem, allocation: Allocation, *, error: float = 1e-12, seed: int = 0
) -> Verdict:
    """Decide without sampling whether an allocation is maximal, minimal or between.

    With J the d m x r Jacobian of the outputs with respect to the learnable weights at generic
    weights and inputs: rank J below *needed* means match probability 0 (Sard), rank J = needed means
    that matches have positive probability, and probability 1 where the outputs are affine in the
    learnable weights or the recurrent matrix is saturated by rows or columns. See the page
    "Definitions" for the statements and their proofs.

    Independent columns are proved so. A dependency that no degree bound proves is checked at random
    points until the probability of a mistake is at most ``error``. ``seed`` changes the points, never
    the verdict.

    >>> import sublearn as sl
    >>> problem = sl.Problem(sl.FeedForward((3, 3, 2)), samples=2)
    >>> a = sl.Allocation.from_entries(problem.network, {"W1": [(2, 0), (2, 1), (0, 2), (1, 2)]})
    >>> v = sl.certify(problem, a)
    >>> v.kind, v.rank, v.needed, v.wasted
    ('minimal', 3, 4, 1)
    """
    _check(problem, allocation, error)
    if not problem.network.is_linear:
        return _certify_numerically(problem, allocation, seed)
    found = generic_rank(problem, allocation, error=error, seed=seed)
    needed = needed_rank(problem, found.rank, error=error, seed=seed)
    notes = shortfall(problem, needed)
    kind, grade, reasons = _decide(problem, allocation, found, needed, error, seed)
    return _assemble(problem, allocation, found, needed, kind, grade, [*reasons, *notes])


def _check(problem: Problem, allocation: Allocation, error: float) -> None:
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
    if not 0 < error < 1:
        raise BadInputError(f"error must lie strictly between 0 and 1, not {error!r}.")


def _decide(
    problem: Problem,
    allocation: Allocation,
    found: GenericRank,
    needed: Needed,
    error: float,
    seed: int,
) -> tuple[str, Grade, list[str]]:
    if problem.ensemble.without_density or _targets_without_density(problem):
        return "unknown", PROOF, [_no_density(problem)]
    rank, count = found.rank, len(allocation)
    if rank < needed.rank:
        # "needed" is never too large, so only "rank" can be in doubt, and only where no bound proves it.
        sure = rank_bound(problem, allocation) < needed.rank
        if count < needed.rank:
            reason = f"{count} learnable weights cannot reach the {needed.rank} dimensions needed."
        else:
            reason = (
                f"The {count} learnable weights move the outputs in only {rank} independent "
                f"directions; a match needs {needed.rank}."
            )
        return "minimal", PROOF if sure else found.grade, [reason]
    # Full rank: the dimension that is left to doubt is the teacher's.
    onto = rank == problem.effective_equations
    if problem.teacher is None:
        for part, why in candidates(problem, allocation):
            # An affine image of dimension `needed` inside the teacher's irreducible image is all of
            # it; the saturated constructions need all d m dimensions.
            if not onto and not (why.startswith("the outputs are affine")):
                continue
            if part == allocation or _rank_is(problem, part, needed.rank, error, seed):
                return "maximal", needed.grade, [f"Full rank, and {why}."]
        reason = (
            f"Full rank {rank}: some teachers are matched, so the match probability is positive; "
            "whether it is 1 is not known."
        )
        return "between", needed.grade, [reason]
    return _decide_other_teacher(problem, allocation, found, needed, error, seed)


def _decide_other_teacher(
    problem: Problem,
    allocation: Allocation,
    found: GenericRank,
    needed: Needed,
    error: float,
    seed: int,
) -> tuple[str, Grade, list[str]]:
    equations = problem.equations
    if found.rank == equations:
        generic_targets = needed.rank == equations
        for part, why in candidates(problem, allocation):
            if not generic_targets and not why.startswith("the outputs are affine"):
                continue
            if part == allocation or _rank_is(problem, part, equations, error, seed):
                return "maximal", PROOF, [f"Full rank d m = {equations}, and {why}."]
        if isinstance(problem.teacher, Targets) and problem.teacher.law.has_full_support:
            return "between", PROOF, [f"Full rank {equations}: the match probability is positive."]
        return (
            "between",
            PROOF,
            [f"Full rank {equations}, but for this teacher a positive probability is not proved."],
        )
    return (
        "between",
        found.grade,
        [
            f"The rank {found.rank} is below d m = {equations}, but the teacher reaches only "
            f"{needed.rank} dimensions itself; whether the two meet is not decided by ranks."
        ],
    )


def _rank_is(problem: Problem, part: Allocation, wanted: int, error: float, seed: int) -> bool:
    if len(part) < wanted or rank_bound(problem, part) < wanted:
        return False
    return generic_rank(problem, part, error=error, seed=seed).rank == wanted


def _targets_without_density(problem: Problem) -> bool:
    return isinstance(problem.teacher, Targets) and not problem.teacher.law.has_density


def _no_density(problem: Problem) -> str:
    parts = list(problem.ensemble.without_density)
    laws = [f"{part} ({type(getattr(problem.ensemble, part)).__name__})" for part in parts]
    if _targets_without_density(problem):
        assert isinstance(problem.teacher, Targets)
        laws.append(f"targets ({type(problem.teacher.law).__name__})")
    return (
        f"No density: {', '.join(laws)}. Generic statements hold with probability 1 only for laws "
        "with a density (2 x 2 sign matrices are singular half the time), so rank and needed below "
        "describe generic weights, not these. Estimate the match probability instead."
    )


def _certify_numerically(problem: Problem, allocation: Allocation, seed: int) -> Verdict:
    network = problem.network
    seen = numerical_rank(problem, network, allocation, seed=seed)
    found = GenericRank(seen.rank, seen.basis, seen.idle, seen.circuit, NUMERICAL)
    needed = needed_rank(problem, seen.rank, error=1e-12, seed=seed)
    shown = "none left out" if np.isinf(seen.gap) else f"a drop by {seen.gap:.1e} after them"
    point = f"At random points in float64: {seen.rank} singular values counted, {shown}."
    reasons = [point, *_gated(problem, allocation, network, seed)]
    affine = is_affine(network, allocation)
    if problem.ensemble.without_density or _targets_without_density(problem):
        kind = "unknown"
        reasons.insert(0, _no_density(problem))
    elif seen.rank < needed.rank:
        kind = "minimal"
    elif affine and seen.rank == problem.equations:
        kind = "maximal"
        reasons.append("The outputs are affine in the learnable weights.")
    else:
        kind = "between"
    reasons += shortfall(problem, needed)
    return _assemble(problem, allocation, found, needed, kind, NUMERICAL, reasons, seen.gap)


def _gated(problem: Problem, allocation: Allocation, network: Network, seed: int) -> list[str]:
    """For ReLU networks: the exact rank with the gates of one random point held fixed."""
    if not network.is_piecewise_linear:
        return []
    rng = generator(seed, "gates", problem.digest, allocation.digest)
    gates = gates_at(network, *draw_point(problem, network, rng))
    rank = generic_rank(problem, allocation, error=1e-12, seed=seed, gates=gates).rank
    return [f"With the gates of one random point held fixed, the exact rank is {rank}."]


def _assemble(
    problem: Problem,
    allocation: Allocation,
    found: GenericRank,
    needed: Needed,
    kind: str,
    grade: Grade,
    reasons: list[str],
    gap: float | None = None,
) -> Verdict:
    broken = broken_bounds(problem, allocation)
    circuit = None
    if found.rank < min(len(allocation), needed.rank):
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
        theorems=compare(printed_claims(problem, allocation), kind, found.rank, needed.rank),
        broken=broken,
        idle=allocation.select(found.idle),
        circuit=circuit,
        counts=equation_counts(problem, allocation),
        gap=gap,
    )
