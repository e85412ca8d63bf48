"""How many independent directions a match needs: the dimension of what the teacher reaches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sublearn._grades import NUMERICAL, PROOF, Grade, wrong_by_chance
from sublearn._seeds import named_stream
from sublearn.ensembles import Ensemble, Problem
from sublearn.exact import greedy
from sublearn.networks import Network
from sublearn.verdicts._gates import GATED_POINTS, occurring_gates
from sublearn.verdicts._points import PrimePoint, miss_probability
from sublearn.verdicts._rank import points_needed


@dataclass(frozen=True)
class Needed:
    """Generic rank of a network's full Jacobian: never too large, ``grade`` of its not being larger.

    The grade is numerical where a ReLU network may have a larger rank at gates that were not sampled.
    """

    rank: int
    grade: Grade


def samples_of(problem: Problem, network: Network) -> int:
    """The samples that count for one of the two networks of a problem, student or teacher."""
    laws = Ensemble(inputs=problem.ensemble.inputs)  # given weights are the student's
    return Problem(network, problem.samples, laws).effective_samples


def reachable_equations(problem: Problem) -> int:
    """d m', with m' the samples that count for the student or for the teacher.

    Both networks' outputs on the other samples follow from these, so a student whose rank is d m'
    leaves nothing open. Targets without a teacher follow from nothing: there m' = m.
    """
    teacher = problem.teacher_network
    if teacher is None:
        return problem.equations
    return problem.network.output_size * max(
        problem.effective_samples, samples_of(problem, teacher)
    )


def _full_rank(
    problem: Problem, network: Network, least: int, *, error: float, seed: int
) -> Needed:
    """Generic rank of all p columns, by the greedy over their factors.

    For ReLU networks the largest rank at sampled gates, each of which occurs with positive
    probability. The rank with free gates bounds it for all gates; where the two meet, no gates that
    were not sampled can have a larger one. ``least`` is a rank of some of its columns, if known.
    """
    limit = network.expressible(samples_of(problem, network))
    names = list(network.shapes)
    rng = named_stream(seed, "needed", problem.digest, network.spec)
    # In a random order a basis fills up early; row by row most columns would be seen in vain.
    exist = np.concatenate([network.existing(name).ravel() for name in names])
    order = np.flatnonzero(exist)[rng.permutation(network.size)]
    gated = network.has_gates

    def rank_at(point: PrimePoint, wanted: int) -> int:
        return greedy(point.field, point.blocks(names), order, rng, wanted=wanted).size

    # A draw falls short of the true rank only if it misses a set of at most `limit` columns; the
    # greedy's own screening adds a chance far below the last digit of this sum.
    miss = min(1.0, miss_probability(problem, network, limit, free_gates=gated) + 1e-9)
    draws = points_needed(miss, error)
    best = 0
    for _ in range(draws):
        best = max(best, rank_at(PrimePoint(problem, network, rng, free_gates=gated), limit))
        if best == limit:
            break
    grade = PROOF if best == limit else wrong_by_chance(miss**draws)
    if not gated:
        return Needed(best, grade)
    limit, best = best, least
    for _ in range(GATED_POINTS if least < limit else 0):
        gates = occurring_gates(problem, network, rng)
        best = max(best, rank_at(PrimePoint(problem, network, rng, gates), limit))
        if best == limit:
            break
    return Needed(best, grade if best == limit else NUMERICAL)


def needed_rank(problem: Problem, rank: int = -1, *, error: float, seed: int) -> Needed:
    """*needed*: generic rank of the teacher's full Jacobian; d m where there is no teacher.

    ``rank`` is that of some allocation of the network, if known: a student that reaches all that its
    architecture can express shows at once that a teacher like it does.
    """
    teacher = problem.teacher_network
    if teacher is None:
        return Needed(problem.equations, PROOF)
    if problem.teacher is None and rank == teacher.expressible(problem.effective_samples):
        return Needed(rank, PROOF)
    least = max(rank, 0) if problem.teacher is None else 0
    return _full_rank(problem, teacher, least, error=error, seed=seed)


def teacher_may_collapse(problem: Problem) -> bool:
    """Whether the teacher has ReLU units.

    With positive probability their gates then leave it fewer dimensions than *needed*, as where all
    units are off and every target is 0. Facts about generic targets say nothing about such draws.
    """
    return problem.teacher_network is not None and problem.teacher_network.has_gates


def shortfall(problem: Problem, needed: Needed) -> list[str]:
    """A sentence that says why *needed* is below d m, where it is."""
    teacher = problem.teacher_network
    if teacher is None or needed.rank == problem.equations:
        return []
    why = teacher.degeneracy(problem.samples)
    if problem.effective_samples < min(problem.samples, sum(problem.network.input_blocks)):
        counted = problem.effective_samples
        why = f"the inputs have low rank, so only {counted} of {problem.samples} samples count."
    reach = f"The teacher reaches {needed.rank} of the d m = {problem.equations} dimensions"
    return [f"{reach}: {why}" if why else f"{reach}."]
