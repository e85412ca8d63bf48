"""Designs: the best allocation for any score, and the fewest moves that remove waste."""

from sublearn.designs._design import design, repair

__all__ = ["design", "repair"]
