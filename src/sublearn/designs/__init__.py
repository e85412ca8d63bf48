"""Designs: the best allocation for any score, and the fewest moves that remove waste."""

from sublearn.designs._choice import Choices as Choices
from sublearn.designs._choice import Forbidden as Forbidden
from sublearn.designs._choice import autapses as autapses
from sublearn.designs._count import CountError as CountError
from sublearn.designs._count import read_count as read_count
from sublearn.designs._design import design, repair
from sublearn.designs._over_gates import EFFORT as EFFORT
from sublearn.designs._over_gates import GateShare
from sublearn.designs._result import Design

__all__ = ["Design", "GateShare", "design", "repair"]
