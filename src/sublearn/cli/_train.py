"""train: one instance, as a user would train it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sublearn._errors import BadInputError
from sublearn.cli._asking import OneInstance
from sublearn.cli._options import LEARNER_NAMES, JsonOption
from sublearn.cli._out import Out, tell_written
from sublearn.cli._progress import live_curve
from sublearn.cli._show import described, print_json, say

if TYPE_CHECKING:
    from sublearn.training import Learner


@dataclass(frozen=True)
class TrainingOut(Out):
    """Where a training is written."""

    out: Annotated[str | None, "DIR", "A folder for picture, table, mask and weights."] = None

    name = "curve"
    files = ("mask.json", "weights.npz")


@dataclass(frozen=True)
class Trained:
    """Who trains, and how far."""

    learner: Annotated[str, "NAME", f"{LEARNER_NAMES}."] = "adam"
    rate: Annotated[float | None, "Of the learner."] = None
    steps: Annotated[int | None, typer.Option(min=1, help="Of each start at most.")] = None
    starts: Annotated[int | None, typer.Option(min=1, help="Random starts at most.")] = None

    @property
    def options(self) -> dict[str, Any]:
        """What a verb takes of it, where it was said."""
        said = {"learner": self.read(), "steps": self.steps, "starts": self.starts}
        return {name: value for name, value in said.items() if value is not None}

    def read(self, name: str | None = None) -> Learner:
        """The learner, or the one of another name, at another rate if one was given."""
        from sublearn._errors import one_of
        from sublearn.training import LEARNERS, learner_named

        name = one_of("--learner", name or self.learner, LEARNERS)
        return learner_named(name, **({} if self.rate is None else {"rate": self.rate}))


@dataclass(frozen=True)
class Learning(Trained):
    """The same, from where and towards what."""

    method: Annotated[str | None, typer.Option(hidden=True)] = None
    steps: Annotated[int, "Of each start at most."] = 2000
    starts: Annotated[int, "Random starts."] = 1
    start: Annotated[str, "'random', or 'given': the first start is at --data's weights."] = (
        "random"
    )
    within: Annotated[
        float | None,
        "EPS",
        "The goal: a mean squared error below EPS (default 0.01). On labelled data the goal "
        "is every label right unless this is given.",
    ] = None
    loss: Annotated[str | None, "'squared error' or 'cross-entropy'."] = None
    single: Annotated[bool, "Compute in single precision."] = False

    def course(self, seed: int) -> dict[str, Any]:
        """The arguments of the verb that these options are."""
        kept = {name: getattr(self, name) for name in ("steps", "starts", "loss", "start")}
        precision = "single" if self.single else "double"
        return {**kept, "seed": seed, "eps": self.within, "precision": precision}


def train(
    one: OneInstance, learning: Learning, place: TrainingOut, as_json: JsonOption = False
) -> None:
    """Train one instance: only its learnable weights move, from random starts.

    In a terminal the loss of the first start is drawn while it falls. Not solved means that this learner
    did not do it within its steps and starts, and nothing more.
    """
    import numpy as np

    from sublearn.training import train as verb

    problem, own = one.read()
    if learning.start == "given" and (own is None or not own.weights):
        raise BadInputError("--start given needs --data FILE.npz with weights to start at.")
    chosen = learning.read(learning.method)
    rules = one.each_trial(problem)
    instance = one.draw(problem, rules)
    with live_curve(learning.steps, "loss") as show:

        def watch(step: int, losses: Any) -> None:
            if np.isfinite(losses).any():
                show(step, float(np.nanmin(losses)))

        trained = verb(instance, chosen, **learning.course(one.seed), watch=watch)
    more = {"mask.json": instance.allocation.save, "weights.npz": trained.save_weights}
    saved = place.write(trained, more)
    if as_json:
        question = {**described(problem, rules), **described(problem, instance.allocation)}
        print_json({**question, **trained.to_dict(), "trial": one.trial, "saved": saved})
        return
    say(str(trained))
    tell_written(saved)
