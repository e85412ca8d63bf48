"""Labelled data: instances that a learner solves within its steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from sublearn._errors import BadInputError, one_of
from sublearn.datasets import Dataset, digits, mnist, noise
from sublearn.ensembles import Labels, Problem
from sublearn.estimates import SolveJob, clopper_pearson
from sublearn.experiments.tasks._asked import asked, learn_of, problem_of
from sublearn.experiments.tasks._repeats import whole
from sublearn.networks import FeedForward
from sublearn.runs import Json, Row, Task
from sublearn.training import learner_named

LABEL, VECTOR = "label", "vector"
_NOISE = 5000  # samples of noise, as many as there are digits of MNIST
_SHUFFLED = "-shuffled"
_READ: dict[str, Callable[[], Dataset]] = {"mnist": mnist, "digits": digits}
DATA = ("mnist", "mnist-shuffled", "digits", "digits-shuffled", "noise")
_SHAPE = {"mnist": (784, 10), "digits": (64, 10)}  # pixels and classes, known without the files


class Labelled(Task):
    """Draw ``samples`` of the ``data`` in each trial, and train until the ``target`` is met.

    target label: every label right, learned by cross-entropy, as in Figure 3c. target vector: the
    one-hot vectors within ``eps``, the mean squared error. Data that end in -shuffled have their labels
    in a random order, noise has Gaussian inputs and random labels. ``learner`` (adam unless told) has
    at most ``steps`` steps from one start.

    Whether the data can be had is not asked before the first trial: where they cannot, this
    experiment fails with a sentence that says so, and the others go on.
    """

    @property
    def name(self) -> str:
        return "labelled"

    @property
    def results(self) -> tuple[str, ...]:
        return (
            "trials", "solved", "share", "low", "high", "median_steps", "median_right",
            "median_loss",
        )  # fmt: skip

    @property
    def columns(self) -> Mapping[str, type]:
        return {"solved": bool, "loss": float, "right": int, "steps": int}

    def check(self, point: Mapping[str, Json]) -> None:
        one_of("data", point.get("data"), DATA)
        one_of("target", point.get("target"), (LABEL, VECTOR))
        learner_named(str(point.get("learner") or "adam"))
        whole(point, "steps", 4000)
        _eps(point)
        problem = problem_of(point)
        asked(learn_of(point, problem), problem)
        name = str(point["data"]).removesuffix(_SHUFFLED)
        sizes = _sizes(problem)
        if sizes != _SHAPE.get(name, sizes):
            q, d = _SHAPE[name]
            raise BadInputError(
                f"on {name} the network must have {q} inputs and {d} outputs, not {sizes[0]} and "
                f"{sizes[1]}."
            )

    def run(self, point: Mapping[str, Json], seed: int, trials: range) -> list[Row]:
        job = _job(point, seed)
        return [
            {
                "solved": record.solved,
                "loss": record.loss,
                "right": -1 if record.right is None else record.right,
                "steps": record.steps,
            }
            for record in job.decide(trials)
        ]

    def summarise(
        self, point: Mapping[str, Json], rows: Mapping[str, np.ndarray[Any, Any]]
    ) -> list[Row]:
        there = rows["solved"]
        trials, solved = len(there), int(there.sum())
        low, high = clopper_pearson(solved, trials)
        taken = rows["steps"][there]
        return [
            {
                "trials": trials,
                "solved": solved,
                "share": solved / trials,
                "low": low,
                "high": high,
                "median_steps": float(np.median(taken)) if solved else None,
                "median_right": float(np.median(rows["right"])) / whole(point, "samples", 0),
                "median_loss": float(np.median(rows["loss"])),
            }
        ]


def _eps(point: Mapping[str, Json]) -> float | None:
    """The bound of a vector; None where labels are asked for."""
    if point.get("target") == LABEL:
        return None
    eps = point.get("eps", 1e-2)
    if isinstance(eps, bool) or not isinstance(eps, (int, float)) or not eps > 0:
        raise BadInputError(f"eps must be a positive number, such as 0.01, not {eps!r}.")
    return float(eps)


def _job(point: Mapping[str, Json], seed: int) -> SolveJob:
    problem = _problem(problem_of(point), str(point["data"]), seed)
    learn = asked(learn_of(point, problem), problem)
    learner = learner_named(str(point.get("learner") or "adam"))
    return SolveJob(
        problem, learn, learner, steps=whole(point, "steps", 4000), seed=seed, eps=_eps(point)
    )


def _sizes(problem: Problem) -> tuple[int, int]:
    """Inputs and outputs of the feed-forward network."""
    if not isinstance(problem.network, FeedForward):
        raise BadInputError(f"labelled data need a feed-forward network, not {problem.network}.")
    return problem.network.sizes[0], problem.network.sizes[-1]


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
