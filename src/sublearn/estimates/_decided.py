"""How often do some weights bring every output within eps of its target? Decided, not trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from sublearn._errors import positive
from sublearn.ensembles import Instance
from sublearn.estimates._exact import Estimate, MatchQuestion
from sublearn.matchers import Decision, decide_within


@dataclass(frozen=True, kw_only=True)
class DecidedWithinQuestion(MatchQuestion):
    """Do some weights bring every output of the instance within ``eps`` of its target?

    Decided by proof within ``budget``, as :func:`sublearn.decide_within` does.
    """

    eps: float

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("eps", self.eps)

    def decision(self, instance: Instance, trial: int) -> Decision:
        return decide_within(instance, self.eps, budget=self.budget, seed=self.seed)


class DecidedWithin(Estimate):
    """How many instances have a point within eps: the three decisions of ``decide_within``, counted.

    The distance is the largest over the d m outputs, and "no" is proved too. How often a learner comes
    near in the mean is another question, that of :class:`WithinEstimate`. :func:`count_trials` counts.

    >>> import sublearn as sl
    >>> from sublearn.estimates import DecidedWithin, DecidedWithinQuestion, count_trials
    >>> problem = sl.Problem(sl.LinearEstimator(inputs=2, outputs=1), samples=2)
    >>> first = sl.Allocation.from_entries(problem.network, {"W": [(0, 0)]})
    >>> near = DecidedWithin(DecidedWithinQuestion(problem, first, eps=0.5))
    >>> near = count_trials(near, 20)
    >>> near.matched + near.refuted, 0 < near.matched < 20
    (20, True)
    """

    question: DecidedWithinQuestion
    asks = DecidedWithinQuestion
    share_name = "share"

    @classmethod
    def of(cls, question: MatchQuestion) -> Self:
        return cls(question)

    @property
    def eps(self) -> float:
        """How far an output may be from its target."""
        return self.question.eps

    def facts(self) -> dict[str, Any]:
        said = super().facts()
        del said["method"], said["verdict"]  # both are about exact matches
        return {"criterion": "every output within eps", "eps": self.eps, **said}

    def __str__(self) -> str:
        return f"every output within eps = {self.eps:g}, decided: {super().__str__()}"
