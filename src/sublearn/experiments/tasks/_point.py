"""From the plain values of a point to the objects that are asked about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from sublearn._errors import BadInputError, one_of, whole_number
from sublearn.allocations import Allocation, Rule, is_masks_file, masks_with_digest
from sublearn.ensembles import (
    Correlated,
    Labels,
    Normal,
    Problem,
    ensemble_from_text,
    learn_from_text,
)
from sublearn.experiments.tasks._pictures import DIGITS, Pictures, coarse_digits
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
    "covariance": "correlation between every two numbers of a sample (none where nothing is said)",
}
"""What a point says of the instances that are drawn, with headings."""


PICTURES = {
    "inputs": "inputs (of the ensemble where nothing is said)",
    "targets": "targets (a teacher's where nothing is said)",
}
"""What a point may say of inputs that are real pictures, with headings."""
LABELS = "labels"

INTERVAL = {"low": "95% interval, low end", "high": "95% interval, high end"}
"""The ends of the interval of a share, with headings."""


def problem_of(point: Params) -> Problem:
    """The problem of a point: its ``network``, ``samples`` and, if given, ``ensemble`` and ``covariance``.

    ``covariance`` is the correlation between every two numbers of a sample, whose law is then normal.
    ``inputs`` may be digits, coarse enough for the network (:func:`coarse_digits`); ``targets`` may then
    be labels, as one-hot vectors, instead of a teacher's outputs.
    """
    for key in ("network", "samples"):
        if key not in point:
            raise BadInputError(f"a point needs {key!r}; it has {', '.join(point)}.")
    samples = whole_number("samples", point["samples"], least=1)
    plain = _problem(str(point["network"]), samples, str(point.get("ensemble") or ""))
    correlation = point.get("covariance")
    if correlation is not None:
        # Before anything is kept, where False is 0.
        if isinstance(correlation, bool) or not isinstance(correlation, (int, float)):
            raise BadInputError(f"covariance must be a number, such as 0.9, not {correlation!r}.")
        plain = _with_covariance(plain, correlation)
    inputs, targets = (point.get(name) for name in PICTURES)
    if not inputs and not targets:
        return plain
    one_of("inputs", inputs, (DIGITS,))
    return _on_digits(plain, bool(targets) and one_of("targets", targets, (LABELS,)) == LABELS)


@lru_cache(maxsize=256)
def _problem(network: str, samples: int, ensemble: str) -> Problem:
    return Problem(network_from_text(network), samples, ensemble_from_text(ensemble))


@lru_cache(maxsize=256)
def _with_covariance(plain: Problem, correlation: float) -> Problem:
    if plain.ensemble.inputs != Normal():
        raise BadInputError("covariance is for normal inputs: leave inputs out of ensemble.")
    law = Correlated.equally(sum(plain.network.input_blocks), correlation)
    return replace(plain, ensemble=replace(plain.ensemble, inputs=law))


@lru_cache(maxsize=256)
def _on_digits(plain: Problem, labelled: bool) -> Problem:
    network = plain.network
    if network.is_sequence:
        raise BadInputError(f"digits need a feed-forward network, not {network}.")
    data = coarse_digits(network.input_blocks[0], network.output_size)
    if labelled:
        return replace(plain, teacher=Labels(data))
    return replace(plain, ensemble=replace(plain.ensemble, inputs=Pictures(data=data)))


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
