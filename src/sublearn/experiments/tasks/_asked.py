"""From the plain values of a point to the objects that are asked about."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from sublearn._errors import BadInputError, whole_number
from sublearn.allocations import Allocation, Rule, is_masks_file, masks_with_digest
from sublearn.ensembles import Problem, ensemble_from_text, learn_from_text
from sublearn.networks import network_from_text
from sublearn.runs import Json

Params = Mapping[str, Json]
"""The plain values of a point."""
Columns = Mapping[str, np.ndarray[Any, Any]]
"""What is kept of the trials of a point, by column."""

SETTING = {
    "network": "network",
    "samples": "samples m",
    "learn": "learnable weights",
    "ensemble": "ensemble (normal where nothing is said)",
}
"""What a point says of the instances that are drawn, with headings."""


INTERVAL = {"low": "95% interval, low end", "high": "95% interval, high end"}
"""The ends of the interval of a share, with headings."""


def problem_of(point: Params) -> Problem:
    """The problem of a point: its ``network``, ``samples`` and, if given, ``ensemble``."""
    for key in ("network", "samples"):
        if key not in point:
            raise BadInputError(f"a point needs {key!r}; it has {', '.join(point)}.")
    samples = whole_number("samples", point["samples"], least=1)
    return _problem(str(point["network"]), samples, str(point.get("ensemble") or ""))


@lru_cache(maxsize=256)
def _problem(network: str, samples: int, ensemble: str) -> Problem:
    return Problem(network_from_text(network), samples, ensemble_from_text(ensemble))


def settled_learn(params: dict[str, Json]) -> dict[str, Json]:
    """The params with every file of masks in ``learn`` named by its digest too."""
    text = params.get("learn")
    if not isinstance(text, str):
        return params
    words = [masks_with_digest(word) if is_masks_file(word) else word for word in text.split()]
    return {**params, "learn": " ".join(words)}


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
