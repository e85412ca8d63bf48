"""Labelled data: instances that a learner solves within its steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from sublearn._errors import BadInputError, one_of, positive
from sublearn.datasets import Dataset, digits, mnist, noise
from sublearn.ensembles import Labels, Problem
from sublearn.estimates import SolvedEstimate, SolvedQuestion
from sublearn.experiments.tasks._decisions import Counting
from sublearn.experiments.tasks._point import (
    INTERVAL,
    SETTING,
    Columns,
    Params,
    learnable_of,
    problem_of,
)
from sublearn.experiments.tasks._repeats import whole
from sublearn.runs import Row
from sublearn.training import learner_named

LABEL, VECTOR = "label", "vector"
_NOISE = 5000  # samples of noise, as many as there are digits of MNIST
_SHUFFLED = "-shuffled"
_READ: dict[str, Callable[[], Dataset]] = {"mnist": mnist, "digits": digits}
DATA = ("mnist", "mnist-shuffled", "digits", "digits-shuffled", "noise")
_SHAPE = {"mnist": (784, 10), "digits": (64, 10)}  # pixels and classes, known without the files


class Labelled(Counting[SolvedEstimate]):
    """Draw ``samples`` of the ``data`` in each trial, and train until the ``target`` is met.

    target label: every label right, learned by cross-entropy, as in Figure 3c. target vector: the
    one-hot vectors within ``eps``, the mean squared error. Data that end in -shuffled have their labels
    in a random order, noise has Gaussian inputs and random labels. ``learner`` (adam unless told) has
    at most ``steps`` steps from one start.

    Whether the data can be had is not asked before the first trial: where they cannot, this
    experiment fails with a sentence that says so, and the others go on.
    """

    name = "labelled"
    counted = SolvedEstimate
    takes: Mapping[str, str] = {
        **SETTING,
        "data": "data",
        "target": "to be reproduced",
        "learner": "learner",
        "steps": "steps allowed",
        "eps": "eps, bound on the mean squared error",
    }
    headings: Mapping[str, str] = {
        "trials": "trials",
        "solved": "solved",
        "share": "share solved",
        **INTERVAL,
        "median_steps": "median steps of the solved",
        "median_right": "median share of right labels",
        "median_loss": "median loss at the end",
    }

    @property
    def columns(self) -> Mapping[str, type]:
        return {**super().columns, "right": int}

    def check(self, point: Params) -> None:
        one_of("data", point.get("data"), DATA)
        one_of("target", point.get("target"), (LABEL, VECTOR))
        problem = problem_of(point)
        _question(point, 0, problem)
        name = str(point["data"]).removesuffix(_SHUFFLED)
        sizes = _sizes(problem)
        if sizes != _SHAPE.get(name, sizes):
            q, d = _SHAPE[name]
            raise BadInputError(
                f"on {name} the network must have {q} inputs and {d} outputs, not {sizes[0]} and "
                f"{sizes[1]}."
            )

    def question(self, point: Params, seed: int) -> SolvedQuestion:
        return _question(point, seed, _problem(problem_of(point), str(point["data"]), seed))

    def run(self, point: Params, seed: int, trials: range) -> list[Row]:
        # A column of whole numbers has no None: -1 where there are no labels.
        rows = super().run(point, seed, trials)
        return [{**row, "right": -1 if row["right"] is None else row["right"]} for row in rows]

    def summarise(self, point: Params, rows: Columns) -> list[Row]:
        # Summed up without the data, which need not be there any more.
        estimate = self.of(_question(point, 0, problem_of(point)), rows)
        line: Row = estimate.plain("trials", "solved", "share")
        line |= zip(("low", "high"), estimate.confidence, strict=True)
        line |= {"median_steps": estimate.median_steps, "median_right": estimate.median_accuracy}
        return [{**line, "median_loss": estimate.median_loss}]


def _question(point: Params, seed: int, problem: Problem) -> SolvedQuestion:
    learner, steps = learner_named(str(point.get("learner") or "adam")), whole(point, "steps", 4000)
    # A label has no bound.
    eps = None if point.get("target") == LABEL else positive("eps", point.get("eps", 1e-2))
    return SolvedQuestion(problem, learnable_of(point, problem), seed, learner, steps, eps=eps)


def _sizes(problem: Problem) -> tuple[int, int]:
    """Inputs and outputs of the feed-forward network."""
    if problem.network.is_sequence:
        raise BadInputError(f"labelled data need a feed-forward network, not {problem.network}.")
    return problem.network.input_blocks[0], problem.network.output_size


@lru_cache(maxsize=8)  # data are read once, and their digest is taken once
def _problem(plain: Problem, name: str, seed: int) -> Problem:
    if name == "noise":
        features, classes = _sizes(plain)
        data = noise(features, _NOISE, classes, seed)
    else:
        data = _READ[name.removesuffix(_SHUFFLED)]()
        if name.endswith(_SHUFFLED):
            data = data.shuffled(seed)
    return Problem(plain.network, plain.samples, teacher=Labels(data))
