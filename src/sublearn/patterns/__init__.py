"""Activation patterns of shallow ReLU networks: section 5 and appendix D of the paper, exactly."""

from sublearn.patterns._counts import PatternCounts, allocation_patterns, pattern_counts
from sublearn.patterns._feasible import PatternFeasibility, pattern_feasible
from sublearn.patterns._feasible import decide_pattern as decide_pattern
from sublearn.patterns._feasible import in_coordinates as in_coordinates
from sublearn.patterns._feasible import rounded_weights as rounded_weights
from sublearn.patterns._full_rank import full_rank_patterns
from sublearn.patterns._pattern import (
    activation_pattern,
    enough_rows,
    enough_samples,
    pattern_agrees,
)
from sublearn.patterns._program import LARGEST as LARGEST
from sublearn.patterns._program import SMALLEST as SMALLEST
from sublearn.patterns._program import Columns as Columns
from sublearn.patterns._program import Corner as Corner
from sublearn.patterns._program import Program as Program
from sublearn.patterns._program import Unit as Unit
from sublearn.patterns._program import build_program as build_program
from sublearn.patterns._program import choose_units as choose_units
from sublearn.patterns._realizable import realizable_patterns
from sublearn.patterns._shallow import learnable_rows, why_not_shallow
from sublearn.patterns._system import MOST_PAIRS as MOST_PAIRS
from sublearn.patterns._system import System as System
from sublearn.patterns._system import build_system as build_system
from sublearn.patterns._system import why_no_system as why_no_system

__all__ = [
    "PatternCounts",
    "PatternFeasibility",
    "activation_pattern",
    "allocation_patterns",
    "enough_rows",
    "enough_samples",
    "full_rank_patterns",
    "learnable_rows",
    "pattern_agrees",
    "pattern_counts",
    "pattern_feasible",
    "realizable_patterns",
    "why_not_shallow",
]
