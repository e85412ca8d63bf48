"""N_C: the number of complex solutions of an allocation at generic parameters.

It is counted exactly, but at random parameters modulo random primes, so it carries a grade. The chance
that one such count is wrong is bounded by ``miss`` (``_bezout.py``), whatever was asked; k counts that
agree are all wrong with probability at most ``miss ** k``, and that is the error of the grade. Where
the bound says nothing useful the grade is numerical, although no rounding is involved: the primes
agree, and nothing more is claimed. The arithmetic of msolve is trusted.

What follows from a count (for targets with a density on all d m numbers): odd means maximal, since
solutions that are not real come in pairs; 0 means minimal.

Time enters in one place: msolve is stopped after ``_msolve.PATIENCE`` seconds, and then there is no
count and the reason says so. Predicted sizes are limited so that this is rare.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import comb

import numpy as np

from sublearn._grades import NUMERICAL, PROOF, Grade, wrong_by_chance
from sublearn._seeds import named_stream
from sublearn.allocations import Allocation, an_allocation
from sublearn.ensembles import Problem
from sublearn.exact import random_prime
from sublearn.networks import Network
from sublearn.verdicts._affine import is_affine
from sublearn.verdicts._rank import generic_rank
from sublearn.verdicts.counts._bezout import BITS, CountBounds, count_bounds
from sublearn.verdicts.counts._msolve import (
    HOW_TO_INSTALL,
    MsolveError,
    count_standard_monomials,
    find_msolve,
    leading_monomials,
)
from sublearn.verdicts.counts._polynomials import (
    LiftedSystem,
    lifted_system,
    polynomials_modulo,
    without_determined,
)
from sublearn.verdicts.counts._product import product_form

FEWEST_PRIMES = 2
MOST_PRIMES = 6
USELESS = 1e-3
"""A bound above this is not worth stating: the grade is numerical."""
MOST_QUADRATIC = 22
MOST_LEFT = 18
"""More quadratic equations than this, with the determined rows or without, are only taken on if the
solutions are bounded to be few:"""
MOST_QUADRATIC_IF_FEW = 26
FEW = 5000.0


@dataclass(frozen=True)
class SolutionCount:
    """The number of complex solutions at generic parameters, or why there is none.

    ``count``: N_C, or None. ``primes``: those modulo which it was taken. ``grade``: how sure it is, or
    None without a count. ``reason``: one sentence.
    """

    count: int | None
    primes: tuple[int, ...]
    grade: Grade | None
    reason: str


def count_solutions(
    problem: Problem, allocation: Allocation, *, error: float = 1e-4, seed: int = 0
) -> SolutionCount:
    """N_C(A): how many complex values of the learnable weights reproduce generic targets, r = d m.

    Frozen weights, inputs and targets are generic; the number does not depend on them. It needs msolve
    unless the rank is deficient (then N_C = 0), the outputs are affine in the weights, or all that is
    left to solve is linear, as for saturated rows (then N_C = 1).
    More primes are drawn, 2 to 6, until the chance of a mistake is at most ``error``. Within one
    process each question is asked once.
    """
    an_allocation("allocation", allocation)
    problem.network.check_allocation(allocation)
    if problem.effective_samples < problem.samples:
        return _none("the samples are linearly dependent, so d m equations cannot be generic")
    return _count(problem.network, problem.samples, allocation, error, seed, find_msolve())


def _none(reason: str) -> SolutionCount:
    return SolutionCount(None, (), None, reason)


@lru_cache(maxsize=4096)
def _count(
    network: Network,
    samples: int,
    allocation: Allocation,
    error: float,
    seed: int,
    program: str | None,
) -> SolutionCount:
    """The program's path is an argument so that an answer without it does not outlive its arrival."""
    problem = Problem(network, samples)
    form = product_form(network, allocation, samples)
    if form is None:
        return _none(f"solutions are counted for linear RNNs and layers, not for {network.title}")
    if len(allocation) != problem.equations:
        return _none(
            f"solutions are counted for r = d m, and here r = {len(allocation)}, "
            f"d m = {problem.equations}"
        )
    rank = generic_rank(problem, allocation, error=1e-12, seed=seed)
    if rank.rank < problem.equations:
        reason = (
            f"the rank is {rank.rank} of {problem.equations}, so generic targets are not reached"
        )
        return SolutionCount(0, (), rank.grade, reason)
    if is_affine(network, allocation):
        reason = "the outputs are affine in the learnable weights and the rank is full"
        return SolutionCount(1, (), PROOF, reason)
    system = lifted_system(form)
    left = without_determined(system)
    if not left.quadratic:
        # Linear equations with a solution at generic parameters, as the rank is full, have one.
        reason = "the states solve a linear system, the weights of each group another, of full rank"
        return SolutionCount(1, (), PROOF, reason)
    if program is None:
        return _none(HOW_TO_INSTALL)
    refusal = too_large(system)
    if refusal is not None:
        return _none(refusal)
    rng = named_stream(seed, "count", problem.digest, allocation.digest)
    return _agreed(left, count_bounds(left), error, rng)


def too_large(system: LiftedSystem) -> str | None:
    """Say why the solutions of a system are too many to count and to find, as far as can be predicted.

    What is left after the linear equations are solved is a square system of quadratic ones. Measured
    with msolve 0.10 on one core: without the determined rows 18 of them take 2 to 9 seconds; with
    them 21 take up to a minute, and 25 about ten seconds where at most 2000 solutions are possible; 24
    with up to 10^5 possible do not finish.
    """
    quadratic, left = system.quadratic, without_determined(system).quadratic
    if quadratic <= MOST_QUADRATIC or left <= MOST_LEFT:
        return None
    if quadratic <= MOST_QUADRATIC_IF_FEW and count_bounds(system).roots <= FEW:
        return None
    return (
        f"{left} quadratic equations are left, too many to count and to find all solutions "
        f"(at most {MOST_LEFT}, or more where the solutions are few)"
    )


def _agreed(
    system: LiftedSystem, bounds: CountBounds, error: float, rng: np.random.Generator
) -> SolutionCount:
    """Draw points and primes until one value has been found often enough."""
    miss, counts = bounds.miss, []
    primes = []
    for drawn in range(1, MOST_PRIMES + 1):
        prime = random_prime(rng, BITS)
        try:
            value = _at_one_point(system, prime, rng)
        except MsolveError as trouble:
            return _none(str(trouble))
        primes.append(prime)
        counts.append(value)
        # The rank is full, which is a proof that a finite number of solutions, not 0, is right.
        likely = max(set(counts) - {None, 0}, key=counts.count, default=None)
        votes = counts.count(likely)
        # A wrong value wins only if all its draws are wrong: some `votes` of the `drawn`.
        wrong = comb(drawn, votes) * miss**votes
        if likely is not None and votes >= FEWEST_PRIMES and 2 * votes > drawn and wrong <= error:
            break
    if likely is None or votes < FEWEST_PRIMES or 2 * votes <= drawn:
        return _none(f"counts modulo {drawn} primes disagree: {counts}")
    words = f"N_C = {likely}, counted at random parameters modulo {votes} random primes"
    if votes < drawn:
        words += f"; {drawn - votes} more say otherwise"
    grade = NUMERICAL if wrong > USELESS else wrong_by_chance(wrong)
    return SolutionCount(likely, tuple(primes), grade, words)


def _at_one_point(system: LiftedSystem, prime: int, rng: np.random.Generator) -> int | None:
    """The number of solutions at one random point, with multiplicity; None if there are infinitely many."""
    written = polynomials_modulo(system, prime, rng)
    if written is None:
        return 0
    polynomials, unknowns = written
    if not unknowns:
        return 0 if any(p != "0" for p in polynomials) else 1
    wanted = [p for p in polynomials if p != "0"]
    if not wanted:
        return None
    return count_standard_monomials(leading_monomials(wanted, unknowns, prime))
