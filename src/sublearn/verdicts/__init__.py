"""Certify: what can be said about an allocation with no sampling at all."""

from sublearn._grades import Grade
from sublearn.verdicts._affine import is_affine as is_affine
from sublearn.verdicts._census import Census, census
from sublearn.verdicts._census import deficient_draw as deficient_draw
from sublearn.verdicts._certificate import RankCertificate
from sublearn.verdicts._certificate import is_rank_certificate as is_rank_certificate
from sublearn.verdicts._certify import certify
from sublearn.verdicts._checking import RankCheck
from sublearn.verdicts._equations import EquationCounts, Equations
from sublearn.verdicts._equations import equation_counts as equation_counts
from sublearn.verdicts._gates import GateRanks, gated_rank
from sublearn.verdicts._gates import doubt_of as doubt_of
from sublearn.verdicts._gates import drawn_gates as drawn_gates
from sublearn.verdicts._gates import occurring_gates as occurring_gates
from sublearn.verdicts._gates import settled_gates as settled_gates
from sublearn.verdicts._given import GivenRank, rank_at
from sublearn.verdicts._given import rank_modulo_prime as rank_modulo_prime
from sublearn.verdicts._needed import Needed as Needed
from sublearn.verdicts._needed import needed_rank as needed_rank
from sublearn.verdicts._needed import reachable_equations as reachable_equations
from sublearn.verdicts._needed import teacher_may_collapse as teacher_may_collapse
from sublearn.verdicts._points import PrimePoint as PrimePoint
from sublearn.verdicts._points import UnknownRankError as UnknownRankError
from sublearn.verdicts._points import check_options as check_options
from sublearn.verdicts._points import miss_probability as miss_probability
from sublearn.verdicts._rank import GenericRank, generic_rank
from sublearn.verdicts._rank import points_needed as points_needed
from sublearn.verdicts._verdict import Circuit, TheoremCheck, Verdict

__all__ = [
    "Census",
    "Circuit",
    "EquationCounts",
    "Equations",
    "GateRanks",
    "GenericRank",
    "GivenRank",
    "Grade",
    "RankCertificate",
    "RankCheck",
    "TheoremCheck",
    "Verdict",
    "census",
    "certify",
    "gated_rank",
    "generic_rank",
    "rank_at",
]
