"""Choosing an allocation, and mending one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import fsum

import numpy as np
from numpy.typing import ArrayLike

from sublearn._errors import BadInputError, one_of, whole_number
from sublearn._grades import NUMERICAL, PROOF, weakest
from sublearn._kinds import MAXIMAL, Claim
from sublearn.allocations import Allocation
from sublearn.designs._basis import best_basis
from sublearn.designs._choice import Choices, Forbidden, Ids, as_allocation
from sublearn.designs._choice import autapses as self_connections
from sublearn.designs._count import Count, check_required, read_count, topped_up
from sublearn.designs._over_gates import (
    EFFORT,
    Basis,
    BasisQuery,
    GateShare,
    Progress,
    share_of_gates,
)
from sublearn.designs._quotas import best_in_quotas
from sublearn.designs._result import Design
from sublearn.designs._saturated import saturated_allocations
from sublearn.ensembles import Problem
from sublearn.verdicts import (
    Needed,
    certify,
    check_options,
    generic_rank,
    is_affine,
    needed_rank,
    reachable_equations,
)

WANTS = ("maximal", "best score")


def design(
    problem: Problem,
    learn: Iterable[str],
    scores: Mapping[str, ArrayLike] | None = None,
    forbidden: Forbidden = None,
    required: Mapping[str, ArrayLike] | Allocation | None = None,
    want: str | None = None,
    *,
    count: int | str | None = None,
    autapses: bool = True,
    effort: int = EFFORT,
    error: float = 1e-12,
    seed: int = 0,
    progress: Progress | None = None,
) -> Design:
    """The best allocation of as many weights as are needed, or as ``count`` says, among the named weights.

    The sets of weights whose generic Jacobian columns are independent are the independent sets of a
    matroid, and those that reach the rank *needed* are its bases: exactly the smallest allocations
    that are not minimal. ``want="best score"`` returns the basis with the largest sum of scores, by
    the greedy algorithm. ``want="maximal"`` returns one that is proved to match with probability 1:
    that basis if it is, else the best-scoring one with saturated rows, with saturated columns, or
    within a single weight in which the outputs are affine.
    Without ``want``: best score if scores are given, else maximal.

    The rank of a ReLU network depends on which units are on, its *gates*, and over all gates there is no
    matroid. There an allocation is admissible if its rank is full at gates of positive probability, and
    the best is searched by branch and bound over the gates, ``effort`` steps at most. The answer says
    whether it is the best or "good, not proved best", and at how many of 200 sampled gates its rank is
    full. Those of tanh and sigmoid networks are exact, as those of linear ones.

    ``scores`` (higher is better; default 0) and ``forbidden`` map names to matrices; ``required``
    weights are always part of the answer; with ``autapses=False`` no unit is connected to itself by what is
    chosen. Of equal scores, those come first that a walk along the diagonals meets first, so that rows and
    columns fill evenly; beyond a basis, those in rows and columns with the fewest weights so far.

    ``count`` is a budget: 200 weights, "20%" of those that may be chosen, or "2 per row" ("3 per column") as
    quotas. Fewer than needed: independent weights of the best score, and ``short`` says how many dimensions
    stay out of reach. More: a basis of the best score, and the rest by score, which is best for the sum
    (both are greedy algorithms on a matroid). With quotas: as large a rank as they allow, then the best
    score, by weighted matroid intersection; for ReLU and very large networks "good, not proved best".
    ``progress(done, effort)`` is called as the search goes on.

    >>> import sublearn as sl
    >>> problem = sl.Problem(sl.LinearRNN(n=4, b=1, d=2, T=2), samples=2)
    >>> a = sl.design(problem, learn=["W"])
    >>> len(a), sl.certify(problem, a).kind
    (4, 'maximal')
    """
    _check(problem, error, seed, effort)
    network = problem.network
    chosen = want or ("maximal" if scores is None else "best score")
    wanted = one_of("want", chosen.replace("-", " ") if isinstance(chosen, str) else chosen, WANTS)
    choice = Choices(network, learn, scores, forbidden)
    if not autapses:
        choice.forbid(self_connections(network))
    must = as_allocation(network, required)
    start = choice.ids(must)
    budget = None if count is None else read_count(count, choice)
    if budget is not None:
        check_required(budget, choice, start)
    _check_required(problem, choice, must, start, error, seed)
    need = _needed(problem, error, seed)
    if wanted == "maximal" and budget is not None and not _may_be_maximal(budget, need, want):
        wanted = "best score"
    needed = need.rank
    if wanted == "maximal":  # a teacher of another architecture is met for sure only by all outputs
        needed = max(needed, reachable_equations(problem) if problem.teacher is not None else 0)
    query = BasisQuery(
        problem=problem,
        choice=choice,
        order=choice.order(),
        start=start,
        wanted=needed if budget is None else min(needed, budget.total),
        gains=(choice.score,),
        error=error,
        seed=seed,
        effort=effort,
        progress=progress,
    )
    if budget is not None and budget.axis is not None:
        quota, rank = best_in_quotas(query, budget)
        return _scored(query, quota, need, rank, quota.best)
    basis = best_basis(query)
    if basis.ids.size < needed and budget is None:
        raise BadInputError(_unreachable(choice, basis, needed))
    if wanted == "maximal" and basis.ids.size == needed:
        maximal = _maximal(query, choice.allocation(basis.ids), must, budget)
        if maximal is not None:
            return maximal
        if budget is None or want is not None:
            raise BadInputError(
                f"no allocation of {' and '.join(choice.names)} under these conditions is known to be "
                f'maximal; "best score" finds one of full rank {needed}'
                f"{_alternatives(problem, choice)}."
            )
    return _best_score(query, basis, need, budget)


def _may_be_maximal(budget: Count, need: Needed, want: str | None) -> bool:
    """Whether a budget leaves room for a maximal allocation; refused if one was asked for."""
    if budget.axis is None and budget.total >= need.rank:
        return True
    if want is not None:
        what = "quotas" if budget.axis is not None else f"{budget.total} weights"
        raise BadInputError(
            f'want="maximal" needs {need.rank} weights without quotas, and count allows {what}: use '
            '"best score".'
        )
    return False


def _best_score(query: BasisQuery, basis: Basis, need: Needed, budget: Count | None) -> Design:
    """The best basis, and the rest by score where the budget allows more."""
    problem, choice, ids = query.problem, query.choice, basis.ids
    value, bound, best = basis.value[1], basis.bound[1], basis.best
    if basis.bound[0] > basis.value[0]:  # what has a smaller rank may score higher
        bound = fsum(np.sort(choice.score[choice.allowed])[-query.wanted :])
    if budget is not None and ids.size < budget.total:
        core, ids = ids, topped_up(choice, ids, budget.total)
        value = fsum(choice.score[ids])
        if problem.network.has_gates:
            # Other gates may have a basis that leaves better ones for the rest.
            rest = query.candidates[: ids.size - core.size]
            most = budget.filled(choice, query.candidates, query.start)
            bound = min(bound + fsum(choice.score[rest]), fsum(choice.score[most]))
            best = best and value >= bound
            bound = max(value, bound)
        else:
            bound = value
    whole = replace(basis, ids=ids, value=(basis.value[0], value), bound=(basis.value[0], bound))
    return _scored(query, whole, need, basis.ids.size, best)


def _scored(query: BasisQuery, basis: Basis, need: Needed, rank: int, best: bool) -> Design:
    """The weights of a basis as a design of this rank, and whether none scores higher."""
    chosen = query.choice.allocation(basis.ids)
    return Design(
        chosen,
        claim=Claim.BEST if best else Claim.GOOD,
        grade=weakest(basis.grade, need.grade),
        value=basis.value[1],
        bound=basis.bound[1],
        gates=_share(query.problem, chosen, min(query.wanted, rank), query.seed),
        needed=need.rank,
        short=max(0, need.rank - rank),
    )


def _maximal(
    query: BasisQuery, best: Allocation, must: Allocation, budget: Count | None
) -> Design | None:
    """The best-scoring allocation that is proved maximal; more learnable weights leave it so."""
    problem, choice = query.problem, query.choice
    known = _known_maximal(replace(query, effort=EFFORT, progress=None), must)
    for candidate in sorted([best, *known], key=lambda a: -choice.score[choice.ids(a)].sum()):
        verdict = certify(problem, candidate, error=query.error, seed=query.seed)
        if verdict.kind != MAXIMAL:
            continue
        ids = choice.ids(candidate)
        if budget is not None:
            if ids.size > budget.total:
                continue
            ids = topped_up(choice, ids, budget.total)
        return Design(
            choice.allocation(ids),
            claim=Claim.MAXIMAL,
            grade=verdict.grade,
            value=fsum(choice.score[ids]),
            bound=None,
            needed=verdict.needed,
        )
    return None


def _needed(problem: Problem, error: float, seed: int) -> Needed:
    """*needed*; of a ReLU teacher the largest rank at any gates, by the search that designs use."""
    teacher = problem.teacher_network
    if teacher is None or not teacher.has_gates:
        return needed_rank(problem, error=error, seed=seed)
    own = replace(problem, network=teacher, teacher=None)
    choice = Choices(teacher, teacher.shapes, None, None)
    basis = best_basis(
        BasisQuery(
            problem=own,
            choice=choice,
            order=choice.order(),
            wanted=teacher.expressible(problem.samples),
            error=error,
            seed=seed,
        )
    )
    return Needed(basis.ids.size, basis.grade if basis.best else NUMERICAL)


def _share(problem: Problem, chosen: Allocation, wanted: int, seed: int) -> GateShare | None:
    if not problem.network.has_gates:
        return None
    return share_of_gates(problem, chosen, wanted, seed=seed)


def _alternatives(problem: Problem, choice: Choices) -> str:
    """Name the weights in which every choice of full rank is maximal, if they were not asked for."""
    network = problem.network
    others = [
        name
        for name in network.shapes
        if network.is_linear
        and name not in choice.names
        and is_affine(network, Allocation.whole(network, [name]))
    ]
    return f", and in {' or '.join(others)} every choice of full rank is maximal" if others else ""


def repair(
    problem: Problem,
    allocation: Allocation,
    scores: Mapping[str, ArrayLike] | None = None,
    forbidden: Forbidden = None,
    learn: Iterable[str] | None = None,
    *,
    effort: int = EFFORT,
    error: float = 1e-12,
    seed: int = 0,
    progress: Progress | None = None,
) -> Design:
    """The allocation with the fewest weights moved such that none is wasted.

    Every independent set extends to a basis (the exchange property of matroids), so exactly
    ``wasted`` weights have to move: as many idle ones leave, and as many others come in. They come
    from the same weights unless ``learn`` names others; ``scores`` say which are preferred, else
    rows and columns with few learnable weights.

    That is so at given gates of a ReLU network too, but other gates ask for other moves: the fewest over
    all gates of positive probability are searched as in :func:`design`, and the answer says whether they
    are proved to be the fewest.

    >>> import sublearn as sl
    >>> problem = sl.Problem(sl.FeedForward((3, 3, 2)), samples=2)
    >>> a = sl.Allocation.from_entries(problem.network, {"W1": [(2, 0), (2, 1), (0, 2), (1, 2)]})
    >>> whole = sl.repair(problem, a)
    >>> len(a - whole), len(whole), sl.certify(problem, whole).kind
    (1, 4, 'maximal')
    """
    _check(problem, error, seed, effort)
    verdict = certify(problem, allocation, error=error, seed=seed)
    names = allocation.names if learn is None else Choices(problem.network, learn, None, None).names
    choice = Choices(problem.network, [*names, *allocation.names], scores, forbidden)
    before = choice.ids(allocation)
    _check_allowed(choice, before, "learnable")
    gated = problem.network.has_gates
    need = _needed(problem, error, seed) if gated else Needed(verdict.needed, verdict.needed_grade)
    if not gated and not verdict.wasted:
        independent = problem.network.is_linear and verdict.rank == len(allocation)
        grade = PROOF if independent else verdict.needed_grade
        return Design(allocation, claim=Claim.FEWEST, grade=grade, value=0.0, bound=0.0)
    for name in allocation.names:
        if name not in names:  # its weights may stay, but none may come in
            choice.part(choice.allowed, name)[:] = False
    wanted = min(before.size, need.rank)
    # The weights held come first, so that as many as possible stay; among these the best-scoring.
    within = before[np.argsort(-choice.score[before], kind="stable")]
    choice.allowed[before] = False
    order = np.concatenate([within, choice.order(_load(choice, allocation))])
    stays = np.zeros(choice.allowed.size)
    stays[before] = 1.0
    basis = best_basis(
        BasisQuery(
            problem=problem,
            choice=choice,
            order=order,
            wanted=wanted,
            gains=(stays, choice.score),
            error=error,
            seed=seed,
            effort=effort,
            progress=progress,
        )
    )
    if basis.ids.size < wanted:
        raise BadInputError(_unreachable(choice, basis, wanted))
    idle = within[~np.isin(within, basis.ids)]  # best first, so the last ones go
    stay = idle[: before.size - basis.ids.size]
    mended = choice.allocation(np.concatenate([basis.ids, stay]))
    grades = [basis.grade, need.grade] if gated else [basis.grade, need.grade, verdict.rank_grade]
    moved, least = wanted - basis.value[1], wanted - basis.bound[1]
    return Design(
        mended,
        claim=Claim.FEWEST if moved <= least else Claim.FEW,
        grade=weakest(*grades),
        value=moved,
        bound=least,
        gates=_share(problem, mended, wanted, seed),
    )


def _check(problem: Problem, error: float, seed: int, effort: int) -> None:
    if not isinstance(problem, Problem):
        raise BadInputError(f"problem must be a Problem, not {problem!r}.")
    check_options(error, seed)
    whole_number("effort", effort, least=0)
    lacking = problem.ensemble.without_density
    if problem.source.is_labelled:
        lacking = (*lacking, "data")
    if lacking:
        raise BadInputError(
            f"the law of the {' and '.join(lacking)} has no density, so the generic rank says nothing "
            "about a draw; design and repair need laws with a density."
        )


def _check_required(
    problem: Problem, choice: Choices, must: Allocation, start: Ids, error: float, seed: int
) -> None:
    if not start.size:
        return
    _check_allowed(choice, start, "required")
    if problem.network.has_gates:
        rank = generic_rank(problem, must, error=error, seed=seed, free_gates=True).rank
        if rank < len(must):
            raise BadInputError(
                f"the {len(must)} required weights have rank {rank} at most, whatever the gates, so no "
                "allocation without waste contains them."
            )
        return
    verdict = certify(problem, must, error=error, seed=seed)
    if verdict.rank < len(must):
        extra = f" {verdict.circuit.words}" if verdict.circuit is not None else ""
        raise BadInputError(
            f"the {len(must)} required weights have rank {verdict.rank} only, so no allocation without "
            f"waste contains them.{extra}"
        )


def _check_allowed(choice: Choices, ids: Ids, what: str) -> None:
    barred = ids[~choice.allowed[ids]]
    if barred.size:
        name, i, j = choice.allocation(barred).labels()[0]
        raise BadInputError(f"{name}({i}, {j}) is both {what} and forbidden.")


def _known_maximal(query: BasisQuery, must: Allocation) -> Iterator[Allocation]:
    problem, choice = query.problem, query.choice
    yield from saturated_allocations(problem, choice, must)
    for name in choice.names:
        alone = Allocation.whole(problem.network, [name])
        if len(choice.names) == 1 or (set(must.names) - {name}):
            continue
        if is_affine(problem.network, alone):
            mine = query.order[np.isin(query.order, choice.ids(alone))]
            basis = best_basis(replace(query, order=mine))
            if basis.ids.size == query.wanted:
                yield choice.allocation(basis.ids)


def _load(choice: Choices, allocation: Allocation) -> np.ndarray:
    """Learnable weights that share a row or column with each weight: fewer is preferred."""
    out = np.empty(choice.allowed.size, dtype=np.int64)
    for name in choice.names:
        rows, columns = allocation.row_counts(name), allocation.column_counts(name)
        choice.part(out, name)[:] = (rows[:, None] + columns[None, :]).ravel()
    # Equal loads in the even order.
    return np.asarray(out * choice.allowed.size + choice.evenly())


def _unreachable(choice: Choices, basis: Basis, needed: int) -> str:
    names = " and ".join(choice.names)
    if basis.bound[0] >= needed:  # ReLU networks only: the search ended too early to know
        return (
            f"the allowed weights of {names} reach rank {basis.ids.size} at the gates that were found, "
            f"but {needed} is needed: allow more weights, learn others as well, or raise effort."
        )
    return (
        f"the allowed weights of {names} reach rank {basis.ids.size}, but {needed} is "
        "needed: allow more weights, or learn others as well."
    )
