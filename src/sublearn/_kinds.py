"""The kinds of results. A member of an enum here is its word: equal to it, printed and saved like it."""

from __future__ import annotations

from enum import StrEnum, auto
from typing import Self

from sublearn._errors import one_of


class Word(StrEnum):
    """An enum of words.

    >>> VerdictKind.MAXIMAL, VerdictKind.MAXIMAL == "maximal", f"{VerdictKind.MAXIMAL:>9}"
    ('maximal', True, '  maximal')
    """

    def __repr__(self) -> str:
        return repr(self.value)

    @classmethod
    def read(cls, name: str, word: object) -> Self:
        """The member that ``word`` is, or a sentence that says what ``name`` may be."""
        return cls(one_of(name, word, cls))


class GradeKind(Word):
    """How sure an answer is."""

    PROOF = auto()
    PROBABILITY = auto()
    NUMERICAL = auto()


class VerdictKind(Word):
    """What certify says of an allocation."""

    MAXIMAL = auto()
    MINIMAL = auto()
    BETWEEN = auto()
    UNKNOWN = auto()

    @property
    def meaning(self) -> str:
        """What it says about the match probability."""
        return _MEANING[self]


_MEANING = {
    VerdictKind.MAXIMAL: "a match exists with probability 1",
    VerdictKind.MINIMAL: "a match exists with probability 0",
    VerdictKind.BETWEEN: "a match is not ruled out, and not proved to exist always",
    VerdictKind.UNKNOWN: "no generic statement holds for this ensemble",
}


class DecisionKind(Word):
    """What deciding one instance says, and each trial of an estimate."""

    MATCHED = auto()
    REFUTED = auto()
    UNDECIDED = auto()


MAXIMAL, MINIMAL, BETWEEN, UNKNOWN = VerdictKind


class Claim(Word):
    """What is claimed of a design."""

    BEST = "best score"
    GOOD = "good, not proved best"
    MAXIMAL = "proved maximal"
    FEWEST = "fewest moves"
    FEW = "few moves, not proved fewest"
