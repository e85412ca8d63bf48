"""Estimates: how often instances of a problem can be matched, counted with honest bounds."""

from sublearn.estimates._estimate import Estimate, Trial, estimate
from sublearn.estimates._intervals import clopper_pearson, confidence_sequence

__all__ = ["Estimate", "Trial", "clopper_pearson", "confidence_sequence", "estimate"]
