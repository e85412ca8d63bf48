"""Training one instance as a user would, and many of them one after another."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from sublearn._arrays import PRECISIONS, Array, Indices
from sublearn._errors import BadInputError, no_truth, one_of, positive, whole_number
from sublearn._files import write_whole
from sublearn.ensembles import Instance, Problem, check_instance
from sublearn.plots import COLOURS, Figure, Row, Shown, figure, ink, legend, name_axes, whole_ticks
from sublearn.training._descend import Descent, Goal, Watch, descend, starting_values
from sublearn.training._learner import Learner
from sublearn.training._losses import LOSSES
from sublearn.training._named import learner_named, settings_of
from sublearn.training._objective import Objective, is_one_hot, labels_right
from sublearn.training._streams import Streams

EPS = 1e-2  # the paper's threshold on the mean squared error (appendix E.1)


@dataclass(frozen=True, repr=False)
class Training(Shown):
    """What training one instance came to.

    ``goal`` says what was asked for: within eps (a mean squared error below it), or labels (every label
    right). ``solved`` is whether the best start reached it, checked in float64 with the whole network.
    Not solved says nothing about the instance: only that this learner, with so many steps and starts,
    did not do it.
    """

    instance: Instance
    learner: Learner
    loss_name: str
    goal: Goal
    seed: int
    best: int  # the start that came furthest
    values: Array  # its learnable weights
    loss: float
    right: int | None  # labels right, where there are labels
    solved: bool
    starts: Descent  # all of them, as they were run

    def __bool__(self) -> NoReturn:
        no_truth(self, "solved")

    @property
    def weights(self) -> dict[str, Array]:
        """All weights; the frozen ones are the instance's, bit for bit."""
        return self.instance.with_values(self.values)

    @property
    def accuracy(self) -> float | None:
        """The share of the labels that are right; None where there are no labels."""
        return None if self.right is None else self.right / self.instance.samples

    @property
    def steps(self) -> int:
        """Steps of the best start."""
        return int(self.starts.steps[self.best])

    @property
    def curve(self) -> tuple[Indices, Array]:
        """(steps, loss) of the best start."""
        loss = self.starts.curve[:, self.best]
        seen = np.isfinite(loss)
        return self.starts.looks[seen], loss[seen]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "network": self.instance.network.spec,
            "samples": self.instance.samples,
            "learnable": len(self.instance.allocation),
            "learner": self.learner.name,
            "settings": settings_of(self.learner),
            "loss": self.loss_name,
            "goal": self.goal_words,
            "seed": self.seed,
            "starts": int(self.starts.loss.size),
            "solved": self.solved,
            "best_start": self.best,
            "steps": self.steps,
            "final_loss": self.loss,
            "labels_right": self.right,
            "reached": [bool(v) for v in self.starts.reached],
        }

    def table(self) -> list[Row]:
        """The loss of every start at every step that was looked at."""
        return [
            {"step": int(step), "start": start, "loss": float(loss)}
            for step, losses in zip(self.starts.looks, self.starts.curve, strict=True)
            for start, loss in enumerate(losses)
            if np.isfinite(loss)
        ]

    def save_weights(self, path: str | Path) -> None:
        """Write all weights by name to a .npz file."""
        packed = io.BytesIO()
        weights: dict[str, Any] = self.weights
        np.savez(packed, **weights)
        write_whole(Path(path), packed.getvalue())

    def plot(self) -> Figure:
        """The loss of every start against its steps, the best one in full colour; one look is a point."""
        fig, ax = figure()
        count = self.starts.loss.size
        name = f"best of {count} starts" if count > 1 else self.learner.name
        log = bool((self.starts.curve > 0).any())  # else the given weights match to the last digit
        for start in range(count):
            loss = self.starts.curve[:, start]
            seen = np.isfinite(loss) & ((loss > 0) | (not log))
            best = start == self.best
            ax.plot(
                self.starts.looks[seen], loss[seen], color=COLOURS[0] if best else ink(),
                linewidth=1.8 if best else 0.8, alpha=1.0 if best else 0.35, zorder=2 + best,
                label=name if best else None, marker="o" if seen.sum() == 1 else None,
            )  # fmt: skip
        if self.goal.eps is not None:
            ax.axhline(self.goal.eps, color=COLOURS[1], linestyle="--", label=self.goal_words)
        if log:
            ax.set_yscale("log")
        name_axes(ax, f"steps of {self.learner.name}", self.loss_name)
        whole_ticks(ax, "x")
        legend(ax)
        return fig

    @property
    def goal_words(self) -> str:
        """The goal in words."""
        return self.goal.words

    def __str__(self) -> str:
        head = "solved" if self.solved else "not solved"
        count = int(self.starts.loss.size)
        several = f"; best of {count} starts" if count > 1 else ""
        whole = self.instance.samples
        labels = "" if self.right is None else f", {self.right} of {whole} labels right"
        if self.solved and not self.steps:
            begun = self.instance.values(self.instance.start)
            given = np.allclose(self.values, begun, rtol=1e-6)  # of single precision, too
            return (
                f"nothing to train: the {'given' if given else 'random'} weights solve it already "
                f"({self.goal_words}), {self.loss_name} {self.loss:.4g}{labels}{several}"
            )
        return (
            f"{head} ({self.goal_words}): {self.learner.name}, {self.loss_name} {self.loss:.4g} after "
            f"{self.steps} steps{labels}{several}"
        )


def train(
    instance: Instance,
    learner: str | Learner = "adam",
    *,
    steps: int = 2000,
    starts: int = 1,
    seed: int = 0,
    loss: str | None = None,
    eps: float | None = None,
    scale: float = 1.0,
    precision: str = "double",
    start: str = "random",
    watch: Watch | None = None,
) -> Training:
    """Move the learnable weights of an instance, from random starts, until the goal is reached.

    On labelled data the loss is the cross-entropy and the goal is every label right, as in Figure 3c;
    otherwise the loss is the mean squared error and the goal is to bring it below ``eps`` (1e-2 unless
    told, the paper's threshold). With ``eps`` on labelled data the goal is the squared error too.
    ``precision`` "single" computes the steps in float32. Starts are N(0, scale^2 / row length); with
    ``start="given"`` the first one is at the weights that the instance was given (``instance.start``).

    >>> import sublearn as sl
    >>> problem = sl.Problem(sl.FeedForward((6, 8, 4), activation="relu"), samples=6)
    >>> instance = sl.draw(problem, {"W1": sl.FirstRows(8)}, trial=1)
    >>> result = sl.train(instance, "levenberg-marquardt", steps=100, starts=20)
    >>> result.solved, result.weights["W2"] is not None
    (True, True)
    """
    course = Course(steps, starts, seed, loss, eps, scale, precision, start)
    return train_keyed(instance, learner, (), course, watch)


@dataclass(frozen=True)
class Course:
    """How far training goes, from which starts and towards which goal; the arguments of :func:`train`."""

    steps: int = 2000
    starts: int = 1
    seed: int = 0
    loss: str | None = None
    eps: float | None = None
    scale: float = 1.0
    precision: str = "double"
    start: str = "random"

    def __post_init__(self) -> None:
        whole_number("steps", self.steps, least=1)
        whole_number("starts", self.starts, least=1)
        whole_number("seed", self.seed, least=0)
        one_of("precision", self.precision, PRECISIONS)
        one_of("start", self.start, ("random", "given"))
        positive("scale", self.scale)


def train_keyed(
    instance: Instance,
    learner: str | Learner,
    key: tuple[int, ...],
    course: Course,
    watch: Watch | None = None,
) -> Training:
    """:func:`train` with random numbers from (seed, key) instead of the seed alone."""
    chosen = learner if isinstance(learner, Learner) else learner_named(learner)
    name, goal = asked_of(check_instance(instance).problem, course.loss, course.eps)
    starts, dtype = course.starts, PRECISIONS[course.precision]
    objective = Objective(instance, starts=starts, loss=name, dtype=dtype)
    streams = Streams(course.seed, [(*key, start) for start in range(starts)])
    values = starting_values([instance], streams, starts, course.scale)
    if course.start == "given":
        values[0] = instance.values(instance.start)
    descent = descend(
        objective, chosen, values, steps=course.steps, goal=goal, streams=streams, watch=watch
    )
    # The one that reached the goal first, else the one with the lowest loss.
    order = np.where(descent.reached, descent.steps - float(course.steps) - 1.0, descent.loss)
    best = int(np.argmin(np.where(np.isnan(order), np.inf, order)))
    values = np.asarray(descent.values[best], dtype=np.float64)
    loss, right = judge(instance, values, name)
    labels = None if right is None else np.array([right])
    there = bool(goal.reached(np.array([loss]), labels, instance.samples)[0])
    told = (chosen, name, goal, course.seed, best)
    return Training(instance, *told, values, loss, right, there, descent)


def asked_of(problem: Problem | None, loss: str | None, eps: float | None) -> tuple[str, Goal]:
    """The loss and the goal of a problem's instances, where they are not given."""
    labelled = problem is not None and problem.source.is_labelled
    if loss is None:
        loss = "cross-entropy" if labelled and eps is None else "squared error"
    one_of("loss", loss, LOSSES)
    if eps is None and (labelled or loss == "cross-entropy"):
        return loss, Goal(labels=True)
    if loss == "cross-entropy":
        raise BadInputError("eps bounds the squared error; with it loss must be 'squared error'.")
    return loss, Goal(eps=EPS if eps is None else eps)


def judge(instance: Instance, values: Array, loss: str) -> tuple[float, int | None]:
    """Loss and labels right in float64, by running the whole network and nothing of the folding."""
    outputs = instance.network.forward(instance.with_values(values), instance.inputs)
    value = float(LOSSES[loss].value(outputs, instance.targets))
    if not is_one_hot(instance.targets):
        return value, None
    return value, int(labels_right(outputs, instance.targets))
