"""Activation patterns of shallow ReLU networks: section 5 and appendix D of the paper, exactly."""

from sublearn.patterns._counts import PatternCounts, allocation_patterns, pattern_counts
from sublearn.patterns._feasible import PatternFeasibility, pattern_feasible
from sublearn.patterns._full_rank import full_rank_patterns
from sublearn.patterns._pattern import (
    activation_pattern,
    enough_rows,
    enough_samples,
    pattern_agrees,
)
from sublearn.patterns._realizable import realizable_patterns
from sublearn.patterns._shallow import learnable_rows, why_not_shallow

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
