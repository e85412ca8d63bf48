"""Certify: what can be said about an allocation with no sampling at all."""

from sublearn._grades import Grade
from sublearn.verdicts._census import Census, census
from sublearn.verdicts._certify import certify
from sublearn.verdicts._equations import EquationCounts, Equations
from sublearn.verdicts._gates import GateRanks, gated_rank
from sublearn.verdicts._rank import GenericRank, generic_rank
from sublearn.verdicts._verdict import Circuit, TheoremCheck, Verdict

__all__ = [
    "Census",
    "Circuit",
    "EquationCounts",
    "Equations",
    "GateRanks",
    "GenericRank",
    "Grade",
    "TheoremCheck",
    "Verdict",
    "census",
    "certify",
    "gated_rank",
    "generic_rank",
]
