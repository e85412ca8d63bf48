"""Ensembles and problems: how weights, teachers and inputs are drawn."""

from sublearn.ensembles._distributions import (
    Correlated,
    Distribution,
    Factors,
    LowRank,
    Normal,
    Rademacher,
    Sparse,
    StudentT,
    Uniform,
)
from sublearn.ensembles._given import Given
from sublearn.ensembles._instance import Instance, Origin, draw, fresh_samples
from sublearn.ensembles._instance import check_instance as check_instance
from sublearn.ensembles._instance import draw_from as draw_from
from sublearn.ensembles._problem import Ensemble, Gaussian, Problem
from sublearn.ensembles._source import Drawn, Labels, Source, Targets, draw_weights
from sublearn.ensembles._teacher import Teacher, split_rows
from sublearn.ensembles._text import Learn, ensemble_from_text, learn_from_text

__all__ = [
    "Correlated",
    "Distribution",
    "Drawn",
    "Ensemble",
    "Factors",
    "Gaussian",
    "Given",
    "Instance",
    "Labels",
    "Learn",
    "LowRank",
    "Normal",
    "Origin",
    "Problem",
    "Rademacher",
    "Source",
    "Sparse",
    "StudentT",
    "Targets",
    "Teacher",
    "Uniform",
    "draw",
    "draw_weights",
    "ensemble_from_text",
    "fresh_samples",
    "learn_from_text",
    "split_rows",
]
