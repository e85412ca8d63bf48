"""How sure an answer is."""

from __future__ import annotations

from dataclasses import dataclass

from sublearn._kinds import GradeKind


@dataclass(frozen=True)
class Grade:
    """The grade of a verdict: proof; wrong with probability at most ``error``; or numerical.

    ``proof``: no chance was involved, or chance could only have hidden the answer, not faked it.
    ``probability``: random points and primes were drawn, and the answer is wrong with probability at
    most ``error`` over those draws, whatever was asked. ``numerical``: seen, at sampled gates or in
    float64, and not proved; it settles nothing.

    >>> print(PROOF, "|", Grade("probability", 1e-13), "|", NUMERICAL)
    proof | probability of error <= 1.0e-13 | numerical
    """

    kind: GradeKind
    error: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", GradeKind.read("the kind of a grade", self.kind))

    def __str__(self) -> str:
        if self.kind == GradeKind.PROBABILITY:
            return f"probability of error <= {self.error:.1e}"
        return str(self.kind)

    def to_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        return {
            "kind": self.kind,
            "error": self.error if self.kind == GradeKind.PROBABILITY else None,
        }


PROOF = Grade(GradeKind.PROOF)
NUMERICAL = Grade(GradeKind.NUMERICAL)


def weakest(*grades: Grade) -> Grade:
    """The grade of a conclusion that needs all of these: errors add up, numerical wins.

    >>> print(weakest(PROOF, Grade("probability", 1e-9), Grade("probability", 2e-9)))
    probability of error <= 3.0e-09
    """
    if NUMERICAL in grades:
        return NUMERICAL
    return wrong_by_chance(sum(grade.error for grade in grades))


def wrong_by_chance(error: float) -> Grade:
    """The grade of what is wrong with probability at most ``error``: a proof where that is 0."""
    return Grade(GradeKind.PROBABILITY, min(1.0, error)) if error else PROOF
