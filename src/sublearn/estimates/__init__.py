"""Estimates: how often instances of a problem can be matched, counted with honest bounds.

Every verb is a :class:`Question` (what one trial is) and one engine, :func:`count_trials`.
"""

from sublearn._intervals import clopper_pearson, confidence_sequence
from sublearn.estimates._compare import Trainability, trainability
from sublearn.estimates._count import Counted, How, HowFar, Question, Unfinished, count_trials
from sublearn.estimates._decided import DecidedWithin, DecidedWithinQuestion
from sublearn.estimates._exact import Estimate, MatchQuestion, Trial, estimate
from sublearn.estimates._fresh import FreshQuestion, FreshTrial, Generalisation, generalisation
from sublearn.estimates._solved import (
    SolvedEstimate,
    SolvedQuestion,
    SolvedTrial,
    estimate_solved,
)
from sublearn.estimates._within import (
    Within,
    WithinEstimate,
    WithinQuestion,
    WithinTrial,
    estimate_within,
)

__all__ = [
    "Counted",
    "DecidedWithin",
    "DecidedWithinQuestion",
    "Estimate",
    "FreshQuestion",
    "FreshTrial",
    "Generalisation",
    "How",
    "HowFar",
    "MatchQuestion",
    "Question",
    "SolvedEstimate",
    "SolvedQuestion",
    "SolvedTrial",
    "Trainability",
    "Trial",
    "Unfinished",
    "Within",
    "WithinEstimate",
    "WithinQuestion",
    "WithinTrial",
    "clopper_pearson",
    "confidence_sequence",
    "count_trials",
    "estimate",
    "estimate_solved",
    "estimate_within",
    "generalisation",
    "trainability",
]
