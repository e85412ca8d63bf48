"""Designs: the best allocation for any score, and the fewest moves that remove waste."""

from sublearn.designs._design import design, repair
from sublearn.designs._over_gates import EFFORT as EFFORT
from sublearn.designs._over_gates import GateShare
from sublearn.designs._result import Design

__all__ = ["Design", "GateShare", "design", "repair"]
