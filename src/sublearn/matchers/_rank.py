"""An allocation that certify calls minimal matches no generic instance."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sublearn.allocations import Allocation
from sublearn.ensembles import Instance, Problem
from sublearn.matchers._decision import REFUTED, UNDECIDED, Decision
from sublearn.matchers._matcher import Budget, Matcher
from sublearn.matchers._simplify import whole
from sublearn.verdicts import (
    GenericRank,
    Needed,
    UnknownRankError,
    generic_rank,
    needed_rank,
    teacher_may_collapse,
)


class Rank(Matcher):
    """Refute a drawn instance whose learnable columns have a generic rank below *needed*.

    What the student reaches is then of lower dimension than what the teacher reaches, so the targets
    lie in it with probability 0 (Sard). That holds with probability 1 over the draw, and says nothing
    about an instance that was made by hand.
    """

    name = "rank"

    def refusal(self, instance: Instance) -> str | None:
        instance = whole(instance)
        if not instance.generic:
            return "the instance was not drawn from laws with densities"
        if instance.network.has_gates:
            return "the rank depends on the gates of the network"
        assert instance.problem is not None, "a generic instance was drawn from a problem"
        if teacher_may_collapse(instance.problem):
            return "the gates of the teacher may leave it fewer dimensions than a generic one has"
        return None

    def attempt(self, instance: Instance, budget: Budget, rng: np.random.Generator) -> Decision:
        instance = whole(instance)
        problem = instance.problem
        assert problem is not None, "a generic instance was drawn from a problem"
        try:
            rank, needed = _ranks(problem, instance.allocation)
        except UnknownRankError as error:
            return Decision(UNDECIDED, self.name, str(error).rstrip("."))
        if rank.rank < needed.rank:
            reason = (
                f"generic rank {rank.rank} of {needed.rank} needed: no match, with probability 1"
            )
            # What is needed is never too large.
            return Decision(REFUTED, self.name, reason, rank.grade)
        return Decision(UNDECIDED, self.name, "full generic rank")


@lru_cache(maxsize=4096)
def _ranks(problem: Problem, allocation: Allocation) -> tuple[GenericRank, Needed]:
    rank = generic_rank(problem, allocation, error=1e-12, seed=0)
    return rank, needed_rank(problem, rank.rank, error=1e-12, seed=0)
