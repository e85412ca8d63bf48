"""From the plain values of a point to the objects that are asked about."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from sublearn._errors import BadInputError, one_of
from sublearn.allocations import Allocation, Rule
from sublearn.ensembles import (
    Distribution,
    Ensemble,
    Normal,
    Problem,
    Rademacher,
    Sparse,
    StudentT,
    Uniform,
    learn_from_text,
)
from sublearn.networks import network_from_text
from sublearn.runs import Json

Params = Mapping[str, Json]
"""The plain values of a point."""
Columns = Mapping[str, np.ndarray[Any, Any]]
"""What is kept of the trials of a point, by column."""

LAWS: dict[str, type[Distribution]] = {
    "normal": Normal,
    "uniform": Uniform,
    "student-t": StudentT,
    "rademacher": Rademacher,
    "sparse": Sparse,
}
_PARTS = ("weights", "teacher", "inputs")


def ensemble_from_text(text: str) -> Ensemble:
    """Laws by part, such as ``weights=uniform teacher=normal*2``; parts not named are normal.

    ``*2`` is the scale g of appendix E.3.

    >>> ensemble_from_text("weights=uniform teacher=normal*2").teacher
    Normal(g=2.0)
    """
    laws: dict[str, Distribution] = {}
    for word in text.split():
        part, equals, rest = word.partition("=")
        one_of(f"the part of {word!r}", part, _PARTS)
        name, star, scale = rest.partition("*")
        if not equals or part in laws:
            raise BadInputError(f"the ensemble {text!r} must name each part once: weights=uniform.")
        one_of(f"the law of {word!r}", name, LAWS)
        try:
            g = float(scale) if star else 1.0
        except ValueError:
            raise BadInputError(f"the scale of {word!r} must be a number: normal*2.") from None
        laws[part] = LAWS[name](g)
    return Ensemble(**laws)


def problem_of(point: Params) -> Problem:
    """The problem of a point: its ``network``, ``samples`` and, if given, ``ensemble``."""
    for key in ("network", "samples"):
        if key not in point:
            raise BadInputError(f"a point needs {key!r}; it has {', '.join(point)}.")
    samples = point["samples"]
    if isinstance(samples, bool) or not isinstance(samples, int):
        raise BadInputError(f"samples must be a whole number of at least 1, not {samples!r}.")
    return _problem(str(point["network"]), samples, str(point.get("ensemble") or ""))


@lru_cache(maxsize=256)
def _problem(network: str, samples: int, ensemble: str) -> Problem:
    return Problem(network_from_text(network), samples, ensemble_from_text(ensemble))


def learnable_of(point: Params, problem: Problem) -> Allocation | Mapping[str, Rule]:
    """What the point's ``learn`` asks for: a fixed allocation, or rules that draw one per trial; not both.

    Several texts are set apart by spaces. Rules with a seed are drawn once, as on the command line.
    """
    text = str(point.get("learn") or "")
    if not text:
        raise BadInputError("a point needs 'learn', such as 'W:first-rows=5'.")
    learn = learn_from_text(problem.network, text.split())
    if learn.seed is not None:
        return learn.draw(problem)
    if learn.rules and len(learn.fixed):
        raise BadInputError("learn must hold fixed entries or rules, not both.")
    return learn.rules if learn.rules else learn.fixed
