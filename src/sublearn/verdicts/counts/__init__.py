"""Counts: how many complex solutions an allocation has at generic parameters."""

from sublearn.verdicts.counts._count import SolutionCount, count_solutions
from sublearn.verdicts.counts._msolve import find_msolve, msolve_version

__all__ = ["SolutionCount", "count_solutions", "find_msolve", "msolve_version"]
