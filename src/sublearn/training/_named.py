"""Learners by name, as the command line and saved results write them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from sublearn._errors import BadInputError, one_of
from sublearn.training._adahessian import AdaHessian
from sublearn.training._adam import Adam
from sublearn.training._gradient_descent import GradientDescent
from sublearn.training._learner import Learner
from sublearn.training._levenberg import LevenbergMarquardt
from sublearn.training._sgd import SGD

_EVERY: tuple[type[Any], ...] = (LevenbergMarquardt, AdaHessian, Adam, SGD, GradientDescent)
LEARNERS: dict[str, type[Any]] = {kind.name: kind for kind in _EVERY}
"""Every learner by its name; one of your own is added with ``LEARNERS["its-name"] = ItsClass``."""


def learner_named(name: str, **settings: object) -> Learner:
    """The learner of that name, with its default settings except those given.

    >>> learner_named("adam", rate=0.05)
    Adam(rate=0.05, beta1=0.9, beta2=0.999, eps=1e-08)
    """
    kind = LEARNERS[one_of("learner", name, LEARNERS)]
    known = [field.name for field in fields(kind)]
    for setting in settings:
        if setting not in known:
            raise BadInputError(f"{name} has no setting {setting!r}; it has {', '.join(known)}.")
    learner: Learner = kind(**settings)
    return learner


def settings_of(learner: Learner) -> dict[str, Any]:
    """The settings of a learner by name, as plain values."""
    return dict(vars(learner))
