"""Matches that are identities: the student becomes the teacher, on every input, up to a symmetry."""

from sublearn.matchers.identities._copy import Copy
from sublearn.matchers.identities._intertwine import Intertwine

__all__ = ["Copy", "Intertwine"]
