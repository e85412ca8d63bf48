"""Estimates: how often instances of a problem can be matched, counted with honest bounds."""

from sublearn._intervals import clopper_pearson, confidence_sequence
from sublearn.estimates._compare import Trainability, trainability
from sublearn.estimates._conjectures import Cell, compare_conjectures, conjecture_problems
from sublearn.estimates._estimate import Estimate, Trial, estimate
from sublearn.estimates._fresh import FreshTrial, Generalisation, generalisation
from sublearn.estimates._solved import SolvedEstimate, SolvedTrial, SolveJob, estimate_solved
from sublearn.estimates._unfinished import Unfinished
from sublearn.estimates._within import WithinEstimate, WithinTrial

__all__ = [
    "Cell",
    "Estimate",
    "FreshTrial",
    "Generalisation",
    "SolveJob",
    "SolvedEstimate",
    "SolvedTrial",
    "Trainability",
    "Trial",
    "Unfinished",
    "WithinEstimate",
    "WithinTrial",
    "clopper_pearson",
    "compare_conjectures",
    "confidence_sequence",
    "conjecture_problems",
    "estimate",
    "estimate_solved",
    "generalisation",
    "trainability",
]
