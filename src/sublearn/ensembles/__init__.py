"""Ensembles and problems: how weights, teachers and inputs are drawn."""

from sublearn.ensembles._distributions import (
    Distribution,
    LowRank,
    Normal,
    Rademacher,
    Sparse,
    StudentT,
    Uniform,
)
from sublearn.ensembles._problem import Ensemble, Gaussian, Problem, Targets

__all__ = [
    "Distribution",
    "Ensemble",
    "Gaussian",
    "LowRank",
    "Normal",
    "Problem",
    "Rademacher",
    "Sparse",
    "StudentT",
    "Targets",
    "Uniform",
]
