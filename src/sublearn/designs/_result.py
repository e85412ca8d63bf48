"""What design and repair return: an allocation, and what is claimed of it."""

from __future__ import annotations

from typing import Any

from sublearn._grades import Grade
from sublearn._kinds import Claim
from sublearn.allocations import Allocation
from sublearn.designs._over_gates import GateShare


class Design(Allocation):
    """An allocation that :func:`design` or :func:`repair` chose, and what is claimed of it.

    It is used like any other allocation; operations on it return plain ones.
    ``claim``: "best score" (no admissible allocation of as many weights scores higher), "good, not
    proved best", "proved maximal", "fewest moves" or "few moves, not proved fewest".
    ``grade``: how sure the claim is; of a claim that is not proved, how sure ``bound`` is.
    ``value``: the sum of scores, or how many weights moved. ``bound``: no admissible allocation has a
    higher sum, or fewer moves; None for "proved maximal".
    ``short``: how many of the ``needed`` dimensions stay out of reach, where ``count`` allowed too few.
    ``gates``: for ReLU networks, at how many sampled gates the rank is full (:class:`GateShare`).

    >>> import sublearn as sl
    >>> problem = sl.Problem(sl.FeedForward((2, 3, 2), activation="relu"), samples=2)
    >>> scores = [[-0.54, 0.58], [0.36, 0.29], [0.03, 0.55]]
    >>> best = sl.design(problem, learn=["W1"], scores={"W1": scores})
    >>> best.claim, round(best.value, 2), str(best.grade), best.gates.sampled
    ('best score', 1.78, 'proof', 200)
    """

    claim: Claim
    grade: Grade
    value: float
    bound: float | None
    gates: GateShare | None
    needed: int | None
    short: int

    def __init__(
        self,
        allocation: Allocation,
        *,
        claim: Claim,
        grade: Grade,
        value: float,
        bound: float | None,
        gates: GateShare | None = None,
        needed: int | None = None,
        short: int = 0,
    ) -> None:
        super().__init__(
            allocation.shapes, {name: allocation.flat(name) for name in allocation.shapes}
        )
        said = {"claim": claim, "grade": grade, "value": value, "bound": bound, "gates": gates}
        self.__dict__.update(said, needed=needed, short=short)

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (Allocation(self._shapes, self._flat), self._said())

    def _said(self) -> dict[str, Any]:
        names = ("claim", "grade", "value", "bound", "gates", "needed", "short")
        return {name: getattr(self, name) for name in names}

    @property
    def best(self) -> bool:
        """Whether nothing better exists: the claim is "best score" or "fewest moves"."""
        return self.claim in (Claim.BEST, Claim.FEWEST)

    @property
    def words(self) -> str:
        """The claim in a sentence or two."""
        grade = f" ({self.grade})"
        if self.claim == Claim.MAXIMAL:
            text = f"proved maximal{grade}; score {self.value:.6g}, the best of the patterns known."
        elif self.claim == Claim.BEST and not self.value:  # no scores: nothing to say of them
            text = f"the rank is as large as it can be here{grade}."
        elif self.claim == Claim.BEST:
            text = f"best score {self.value:.6g}{grade}: no admissible allocation scores higher."
        elif self.claim == Claim.GOOD:
            text = f"{self.claim}: score {self.value:.6g}, and none scores above {self.bound:.6g}{grade}."
        elif self.claim == Claim.FEWEST:
            text = f"fewest moves: {self.value:.0f}{grade}."
        else:
            text = (
                f"{self.claim}: {self.value:.0f}, and at least {self.bound:.0f} are needed{grade}."
            )
        if self.gates is not None:
            text = f"{text} It has {self.gates}."
        if self.short:
            text = f"{text} {self.short} of the {self.needed} dimensions needed stay out of reach."
        return text

    def to_dict(self) -> dict[str, Any]:
        """The claim as plain values, for JSON."""
        gates = None if self.gates is None else self.gates.to_dict()
        return {**self._said(), "grade": self.grade.to_dict(), "gates": gates}

    @property
    def headline(self) -> str:
        """How many weights, and the claim."""
        return f"of {len(self)} weights: {self.words}"

    def _in_words(self) -> str:
        return f"{len(self)} weights: {self.words}"


def _again(allocation: Allocation, said: dict[str, Any]) -> Design:
    return Design(allocation, **said)
