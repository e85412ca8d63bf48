"""Choosing an allocation, and mending one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import ArrayLike

from sublearn._errors import BadInputError, one_of
from sublearn.allocations import Allocation
from sublearn.designs._basis import best_basis
from sublearn.designs._choice import Choice, Forbidden, Ids, as_allocation
from sublearn.designs._saturated import saturated_allocations
from sublearn.ensembles import Labels, Problem
from sublearn.verdicts import certify
from sublearn.verdicts._affine import is_affine
from sublearn.verdicts._needed import needed_rank, reachable_equations
from sublearn.verdicts._points import check_options

WANTS = ("maximal", "best score")


def design(
    problem: Problem,
    learn: Iterable[str],
    scores: Mapping[str, ArrayLike] | None = None,
    forbidden: Forbidden = None,
    required: Mapping[str, ArrayLike] | Allocation | None = None,
    want: str | None = None,
    *,
    error: float = 1e-12,
    seed: int = 0,
) -> Allocation:
    """The best allocation of as many weights as are needed, among the named weights.

    The sets of weights whose generic Jacobian columns are independent are the independent sets of a
    matroid, and those that reach the rank *needed* are its bases: exactly the smallest allocations
    that are not minimal. ``want="best score"`` returns the basis with the largest sum of scores, by
    the greedy algorithm. ``want="maximal"`` returns one that is proved to match with probability 1:
    that basis if it is, else the best-scoring one with saturated rows, with saturated columns, or
    within a single weight in which the outputs are affine.
    Without ``want``: best score if scores are given, else maximal.

    ``scores`` (higher is better; default 0) and ``forbidden`` map names to matrices; ``required``
    weights are always part of the answer. Equal scores fill rows and columns evenly.

    >>> import sublearn as sl
    >>> problem = sl.Problem(sl.LinearRNN(n=4, b=1, d=2, T=2), samples=2)
    >>> a = sl.design(problem, learn=["W"])
    >>> len(a), sl.certify(problem, a).kind
    (4, 'maximal')
    """
    _check(problem, error, seed)
    network = problem.network
    chosen = want or ("maximal" if scores is None else "best score")
    wanted = one_of("want", chosen.replace("-", " ") if isinstance(chosen, str) else chosen, WANTS)
    choice = Choice(network, learn, scores, forbidden)
    must = as_allocation(network, required)
    start = choice.ids(must)
    _check_required(problem, choice, must, start, error, seed)
    needed = needed_rank(problem, error=error, seed=seed).rank
    if wanted == "maximal":  # a teacher of another architecture is met for sure only by all outputs
        needed = max(needed, reachable_equations(problem) if problem.teacher is not None else 0)
    basis = best_basis(problem, choice, choice.order(), start, needed, error=error, seed=seed)
    if basis.size < needed:
        raise BadInputError(_unreachable(choice, basis.size, needed))
    best = choice.allocation(basis)
    if wanted == "best score":
        return best
    known = _known_maximal(problem, choice, must, start, needed, error, seed)
    for candidate in _by_score(choice, [best, *known]):
        if certify(problem, candidate, error=error, seed=seed).kind == "maximal":
            return candidate
    raise BadInputError(
        f"no allocation of {' and '.join(choice.names)} under these conditions is known to be maximal; "
        f'"best score" finds one of full rank {needed}{_alternatives(problem, choice)}.'
    )


def _alternatives(problem: Problem, choice: Choice) -> str:
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
    error: float = 1e-12,
    seed: int = 0,
) -> Allocation:
    """The allocation with the fewest weights moved such that none is wasted.

    Every independent set extends to a basis (the exchange property of matroids), so exactly
    ``wasted`` weights have to move: as many idle ones leave, and as many others come in. They come
    from the same weights unless ``learn`` names others; ``scores`` say which are preferred, else
    rows and columns with few learnable weights.

    >>> import sublearn as sl
    >>> problem = sl.Problem(sl.FeedForward((3, 3, 2)), samples=2)
    >>> a = sl.Allocation.from_entries(problem.network, {"W1": [(2, 0), (2, 1), (0, 2), (1, 2)]})
    >>> whole = sl.repair(problem, a)
    >>> len(a - whole), len(whole), sl.certify(problem, whole).kind
    (1, 4, 'maximal')
    """
    _check(problem, error, seed)
    verdict = certify(problem, allocation, error=error, seed=seed)
    names = allocation.names if learn is None else Choice(problem.network, learn, None, None).names
    choice = Choice(problem.network, [*names, *allocation.names], scores, forbidden)
    held = choice.ids(allocation)
    _check_allowed(choice, held, "learnable")
    if not verdict.wasted:
        return allocation
    for name in allocation.names:
        if name not in names:  # its weights may stay, but none may come in
            choice.part(choice.allowed, name)[:] = False
    rank = verdict.rank
    # Among the weights held, keep the best-scoring independent ones.
    within = held[np.argsort(-choice.score[held], kind="stable")]
    none = held[:0]
    kept = best_basis(problem, choice, within, none, rank, error=error, seed=seed)
    choice.allowed[held] = False
    order = choice.order(_load(choice, allocation))
    wanted = rank + verdict.wasted
    grown = best_basis(problem, choice, order, kept, wanted, error=error, seed=seed)
    if grown.size < wanted:
        raise BadInputError(_unreachable(choice, grown.size, wanted))
    idle = within[~np.isin(within, kept)]  # best first, so the last ones go
    stay = idle[: held.size - grown.size]
    return choice.allocation(np.concatenate([grown, stay]))


def _check(problem: Problem, error: float, seed: int) -> None:
    if not isinstance(problem, Problem):
        raise BadInputError(f"problem must be a Problem, not {problem!r}.")
    check_options(error, seed)
    lacking = problem.ensemble.without_density
    if isinstance(problem.teacher, Labels):
        lacking = (*lacking, "data")
    if lacking:
        raise BadInputError(
            f"the law of the {' and '.join(lacking)} has no density, so the generic rank says nothing "
            "about a draw; design and repair need laws with a density."
        )


def _check_required(
    problem: Problem, choice: Choice, must: Allocation, start: Ids, error: float, seed: int
) -> None:
    if not start.size:
        return
    _check_allowed(choice, start, "required")
    verdict = certify(problem, must, error=error, seed=seed)
    if verdict.rank < len(must):
        extra = f" {verdict.circuit.words}" if verdict.circuit is not None else ""
        raise BadInputError(
            f"the {len(must)} required weights have rank {verdict.rank} only, so no allocation without "
            f"waste contains them.{extra}"
        )


def _check_allowed(choice: Choice, ids: Ids, what: str) -> None:
    barred = ids[~choice.allowed[ids]]
    if barred.size:
        name, i, j = choice.allocation(barred).labels()[0]
        raise BadInputError(f"{name}({i}, {j}) is both {what} and forbidden.")


def _known_maximal(
    problem: Problem,
    choice: Choice,
    must: Allocation,
    start: Ids,
    needed: int,
    error: float,
    seed: int,
) -> Iterator[Allocation]:
    yield from saturated_allocations(problem, choice, must)
    network = problem.network
    for name in choice.names:
        alone = Allocation.whole(network, [name])
        if len(choice.names) == 1 or (set(must.names) - {name}) or not is_affine(network, alone):
            continue
        order = choice.order()
        mine = np.isin(order, choice.ids(alone))
        basis = best_basis(problem, choice, order[mine], start, needed, error=error, seed=seed)
        if basis.size == needed:
            yield choice.allocation(basis)


def _by_score(choice: Choice, found: list[Allocation]) -> list[Allocation]:
    return sorted(found, key=lambda a: -choice.score[choice.ids(a)].sum())


def _load(choice: Choice, allocation: Allocation) -> np.ndarray:
    """Learnable weights that share a row or column with each weight: fewer is preferred."""
    out = np.empty(choice.allowed.size, dtype=np.int64)
    for name in choice.names:
        rows, columns = allocation.row_counts(name), allocation.column_counts(name)
        choice.part(out, name)[:] = (rows[:, None] + columns[None, :]).ravel()
    # Equal loads in the even order.
    return np.asarray(out * choice.allowed.size + choice.evenly())


def _unreachable(choice: Choice, reached: int, needed: int) -> str:
    return (
        f"the allowed weights of {' and '.join(choice.names)} reach rank {reached}, but {needed} is "
        "needed: allow more weights, or learn others as well."
    )
