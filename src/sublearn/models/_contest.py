"""Rules at rates on folds of a model's samples: what the race and the comparison run.

Nothing here knows torch or JAX: a :class:`Trainer` tunes a model of either and scores it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypedDict
from zlib import crc32

import numpy as np

from sublearn._arrays import Array, Indices, Mask
from sublearn._errors import BadInputError, one_of, whole_number
from sublearn.models._jax import JaxModel
from sublearn.models._labels import OWN, GivenLabels
from sublearn.models._limits import Chosen, Limits, Picked, Where
from sublearn.models._race import Outcome, fingerprint, split_samples
from sublearn.models._rules import ModelView, Rule, Setting, apply_rule

ALL = "all"  # the reference that tunes every weight that may be chosen
BATCH = 128
STEPS = 60

Loss = Callable[[Any, Any], Any]  # (outputs, labels) -> a number with a gradient
Step = Callable[[Any, Any, Any], Any]  # (model, inputs, labels) -> a number with a gradient
Loop = Callable[[Any, Mapping[str, Mask], Any, Any, float], Any]
Forward = Callable[[Any, Any], Any]  # (model, inputs) -> outputs
Metric = Callable[[Any, Any], float]  # (outputs, labels) -> higher is better


class TuningOptions(TypedDict, total=False):
    """How chosen entries are tuned and scored; see :class:`Setup`."""

    steps: int
    batch: int
    loss: Loss | None
    step: Step | None
    loop: Loop | None
    metric: Metric | None
    forward: Forward | None


@dataclass(frozen=True)
class Setup:
    """How chosen entries are tuned and scored.

    ``steps`` of Adam on batches of at most ``batch`` samples. ``loss(outputs, labels)``,
    ``step(model, inputs, labels)`` or ``loop(model, masks, inputs, labels, rate)`` take the place of
    our loss, of outputs and loss, of the whole training; ``metric(outputs, labels)``, higher is
    better, that of our score; ``forward(model, inputs)`` returns the outputs of a torch model that
    returns something else. For a :class:`JaxModel`, ``step`` and ``loop`` are given its parameters in
    place of the model, and ``loop`` returns new ones.
    """

    steps: int = STEPS
    batch: int = BATCH
    loss: Loss | None = None
    step: Step | None = None
    loop: Loop | None = None
    metric: Metric | None = None
    forward: Forward | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("batch", 1), ("seed", 0)):
            whole_number(name, getattr(self, name), least=least)

    @property
    def own(self) -> bool:
        """Whether a person's own loss or step reads the labels."""
        return self.loss is not None or self.step is not None

    def check_labels(self, labels: Any) -> None:
        """Labels have to be there, unless the loss is computed without."""
        if labels is None and self.step is None:
            raise BadInputError("labels may be left out only where step computes the loss itself.")

    def scores(self, goal: GivenLabels) -> str:
        """What the scores are, in a word."""
        if self.metric is not None:
            return str(getattr(self.metric, "__name__", "own metric"))
        return "minus the loss" if goal.kind == OWN else goal.kind

    @property
    def functions(self) -> bytes:
        """What tells a person's own functions from others."""
        own = (self.loop, self.step, self.metric, self.loss, self.forward)
        return fingerprint(own).encode()


def one_number(called: str, loss: Any, kinds: Any, library: str) -> Any:
    """What a person's function returned, if it is of one of the kinds, and one number."""
    shape = tuple(getattr(loss, "shape", ()))
    if not isinstance(loss, kinds) or math.prod(shape) != 1:
        shown = f"shape {shape}" if shape else type(loss).__name__
        raise BadInputError(f"{called} must return one number as {library}, not {shown}.")
    return loss.reshape(()) if shape else loss


def no_gradient(called: str, library: str) -> BadInputError:
    """Why nothing can be trained by what a person's function returned."""
    return BadInputError(
        f"{called} returned a number without a gradient: compute it from the outputs by {library} alone."
    )


def outcome(score: Any, loss: Any) -> Outcome:
    """Score and loss as the race compares them: what is no number counts as the worst."""
    score, loss = float(score), float(loss)
    return -np.inf if np.isnan(score) else score, loss if np.isfinite(loss) else np.inf


class LimitOptions(TypedDict, total=False):
    """What may be chosen; see :class:`sublearn.models._limits.Limits`."""

    within: Where
    forbidden: Where
    required: Where
    at_most: int | Mapping[str, int] | None
    unit: str


class ChoiceOptions(TuningOptions, LimitOptions, total=False):
    """What ``choose`` and ``compare`` take besides their own."""


class Trainer(Protocol):
    """A model with its samples: tunes chosen entries on some of them, scores on others."""

    how: Setup
    samples: int
    shapes: Mapping[str, tuple[int, ...]]  # of what may be chosen from
    goal: GivenLabels
    metric: str  # what the scores are, in a word

    def tuned(
        self, masks: Mapping[str, Mask], ids: Any, rate: float
    ) -> AbstractContextManager[None]:
        """Within: tuned at ``rate`` on the samples ``ids``; afterwards all is as it was, to the bit."""

    def evaluate(self, ids: Any) -> Outcome:
        """Score, where higher is better, and loss of the model as it is now, on some samples."""

    def entries(self, masks: Mapping[str, Mask]) -> Array:
        """The chosen entries as they are now, name by name in the order of the weights."""

    def view(self, ids: Any, seed: int) -> ModelView:
        """What rules look at on the samples ``ids``."""

    def contents(self) -> Iterable[bytes]:
        """All that outcomes depend on and the settings do not say: weights, samples, functions."""


def prepare(
    model: Any, inputs: Any, labels: Any, seed: int, options: Mapping[str, Any]
) -> tuple[Trainer, Limits]:
    """The trainer of a torch or JAX model, and the limits, from the options that a person gave."""
    for name in options:
        one_of("an option", name, ChoiceOptions.__annotations__)
    training: Any = {k: v for k, v in options.items() if k in TuningOptions.__annotations__}
    bounds: Any = {k: v for k, v in options.items() if k not in training}
    from sublearn import models  # the room, which says so where torch is not installed

    make = models.JaxTrainer if isinstance(model, JaxModel) else models.TorchTrainer
    trainer: Trainer = make(model, inputs, labels, Setup(seed=seed, **training))
    return trainer, Limits(trainer.shapes, **bounds)


class Splits:
    """The ``samples`` of a trainer, all unless told, in so many folds, and what rules look at on each part.

    One serves the contests of all budgets, on which neither folds nor views depend.
    """

    def __init__(
        self, trainer: Trainer, count: int, seed: int, samples: Indices | None = None
    ) -> None:
        self.trainer, self.seed = trainer, seed
        self.samples = np.arange(trainer.samples) if samples is None else samples
        classes = trainer.goal.classes
        some = None if classes is None else classes[self.samples]
        self.folds = [
            (self.samples[tune], self.samples[score])
            for tune, score in split_samples(len(self.samples), count, seed, some)
        ]
        self._views: dict[int, ModelView] = {}

    def view(self, fold: int = -1) -> ModelView:
        """What rules look at: the tuning part of a fold, or all samples where it is negative."""
        if fold not in self._views:
            ids = self.samples if fold < 0 else self.folds[fold][0]
            self._views[fold] = self.trainer.view(ids, self.seed)
        return self._views[fold]


class Contest:
    """Chooses anew in every fold, tunes on one part and scores on the other.

    Everything depends on (seed, rule, fold) alone, so that budgets, restarts and the order of the runs
    do not matter.
    """

    def __init__(
        self, splits: Splits, limits: Limits, rules: Mapping[str, Rule], budget: int
    ) -> None:
        self.limits, self.rules, self.budget = limits, rules, budget
        self.trainer, self.seed = splits.trainer, splits.seed
        self.samples, self.folds, self.view = splits.samples, splits.folds, splits.view
        # By indices: many are held at once, and a mask is as large as the model.
        self._chosen: dict[tuple[str, int], Picked] = {}

    def run(self, rule: str, rate: float, fold: int) -> Outcome:
        """Score and loss on what the fold holds out."""
        tune, score = self.folds[fold]
        with self.trainer.tuned(self.choose(rule, fold).masks, tune, rate):
            return self.trainer.evaluate(score)

    def choose(self, rule: str, fold: int | None) -> Chosen:
        """What the rule chooses by the tuning part of a fold; by all samples where it is None."""
        key = (rule, -1 if fold is None else fold)
        kept = self._chosen.get(key)
        if kept is None:
            choice = self._choose(rule, key[1])
            kept = Picked({n: np.flatnonzero(mask) for n, mask in choice.masks.items()}, choice.gap)
            self._chosen[key] = kept
        return Chosen(kept.masks(self.limits.shapes), kept.gap)

    def _choose(self, rule: str, fold: int) -> Chosen:
        if rule == ALL:
            return Chosen({name: mask.copy() for name, mask in self.limits.allowed.items()})
        rng = np.random.default_rng([self.seed, fold + 1, crc32(rule.encode())])
        setting = Setting(self.view(fold), self.budget, self.limits, rng)
        return apply_rule(rule, self.rules[rule], setting)

    def linearisation_error(self, masks: Mapping[str, Mask], rate: float) -> float | None:
        """|f(w + delta) - f(w) - J delta| / |f(w + delta) - f(w)|, delta what tuning at rate moves.

        None where tuning moves no output.
        """
        view, trainer = self.view(), self.trainer
        derivatives = view.derivatives  # taken here, before the weights move
        before = trainer.entries(masks)
        with trainer.tuned(masks, self.samples, rate):
            change = view.outputs() - derivatives.outputs
            delta = trainer.entries(masks) - before
        moved = float(np.linalg.norm(change))
        if not 0 < moved < np.inf:
            return None
        linear = (derivatives.gather(masks) @ delta).reshape(change.shape)
        return float(np.linalg.norm(change - linear)) / moved


def choice_passes(rules: Sequence[str], outputs: int, rounds: int) -> int:
    """About how many passes, forward and backward, the rules take to choose once."""
    passes = 0
    if set(rules) - {"magnitude", "random", "last", "pivoted-qr", "pursuit", ALL}:
        passes += 1
    if "fisher" in rules:
        passes += 1
    if "pursuit" in rules:
        passes += outputs + 2 * rounds
    if "pivoted-qr" in rules:
        passes += outputs
    return passes
