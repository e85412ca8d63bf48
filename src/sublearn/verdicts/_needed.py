"""How many independent directions a match needs: the dimension of what the teacher reaches."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sublearn.allocations import Allocation
from sublearn.ensembles import Labels, Problem, Targets
from sublearn.exact import greedy
from sublearn.networks import Network
from sublearn.verdicts._grade import NUMERICAL, PROOF, Grade
from sublearn.verdicts._numerical import numerical_rank
from sublearn.verdicts._points import Point, generator, miss_probability
from sublearn.verdicts._rank import points_needed


@dataclass(frozen=True)
class Needed:
    """Generic rank of a network's full Jacobian, with the grade of its not being larger."""

    rank: int
    grade: Grade


def _samples_of(problem: Problem, network: Network) -> int:
    """The samples that count for one of the two networks of a problem, student or teacher."""
    return replace(problem, network=network, teacher=None).effective_samples


def reachable_equations(problem: Problem) -> int:
    """d m', with m' the samples that count for the student or for the teacher.

    Both networks' outputs on the other samples follow from these, so a student whose rank is d m'
    leaves nothing open. Targets without a teacher follow from nothing: there m' = m.
    """
    if isinstance(problem.teacher, (Targets, Labels)):
        return problem.equations
    teacher = problem.teacher or problem.network
    return problem.network.output_size * max(
        problem.effective_samples, _samples_of(problem, teacher)
    )


def _full_rank(problem: Problem, network: Network, *, error: float, seed: int) -> Needed:
    """Generic rank of all p columns of a linear network, by the greedy over its factors."""
    limit = network.expressible(_samples_of(problem, network))
    names = list(network.shapes)
    rng = generator(seed, "needed", problem.digest, network.spec)
    # In a random order a basis fills up early; row by row most columns would be seen in vain.
    order = rng.permutation(network.size)
    # A draw falls short of the true rank only if it misses a set of at most `limit` columns; the
    # greedy's own screening adds a chance far below the last digit of this sum.
    miss = min(1.0, miss_probability(problem, network, limit) + 1e-9)
    draws = points_needed(miss, error)
    best = 0
    for _ in range(draws):
        point = Point(problem, network, rng)
        best = max(best, greedy(point.field, point.blocks(names), order, rng, wanted=limit).size)
        if best == limit:
            return Needed(best, PROOF)
    return Needed(best, Grade("probability", miss**draws))


def needed_rank(problem: Problem, rank: int = -1, *, error: float, seed: int) -> Needed:
    """*needed*: generic rank of the teacher's full Jacobian; d m where there is no teacher.

    ``rank`` is that of some allocation of the network, if known: a student that reaches all that its
    architecture can express shows at once that a teacher like it does.
    """
    network, samples = problem.network, problem.effective_samples
    if isinstance(problem.teacher, (Targets, Labels)):
        return Needed(problem.equations, PROOF)
    if problem.teacher is None and rank == network.expressible(samples):
        return Needed(rank, PROOF if network.is_linear else NUMERICAL)
    teacher = network if problem.teacher is None else problem.teacher
    if teacher.is_linear:
        return _full_rank(problem, teacher, error=error, seed=seed)
    whole = Allocation.whole(teacher)
    return Needed(numerical_rank(problem, teacher, whole, seed=seed).rank, NUMERICAL)


def teacher_may_collapse(problem: Problem) -> bool:
    """Whether the teacher has ReLU units.

    With positive probability their gates then leave it fewer dimensions than *needed*, as where all
    units are off and every target is 0. Facts about generic targets say nothing about such draws.
    """
    if isinstance(problem.teacher, (Targets, Labels)):
        return False
    teacher = problem.teacher or problem.network
    return any(step.activation == "relu" for step in teacher.steps)


def shortfall(problem: Problem, needed: Needed) -> list[str]:
    """A sentence that says why *needed* is below d m, where it is."""
    if needed.rank == problem.equations:
        return []
    if isinstance(problem.teacher, (Targets, Labels)):
        return []
    network = problem.network
    teacher = network if problem.teacher is None else problem.teacher
    why = teacher.degeneracy(problem.samples)
    if problem.effective_samples < min(problem.samples, sum(network.input_blocks)):
        counted = problem.effective_samples
        why = f"the inputs have low rank, so only {counted} of {problem.samples} samples count."
    reach = f"The teacher reaches {needed.rank} of the d m = {problem.equations} dimensions"
    return [f"{reach}: {why}" if why else f"{reach}."]
