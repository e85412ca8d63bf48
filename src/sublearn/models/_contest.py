"""Rules at rates on folds of a torch model's samples: what the race and the comparison run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np

from sublearn._arrays import Indices, Mask
from sublearn.models._limits import Limits
from sublearn.models._race import Outcome, split_samples
from sublearn.models._rules import Chosen, Rule, Setting, apply_rule
from sublearn.models._trainer import CLASSES, Trainer
from sublearn.models._view import TorchView

ALL = "all"  # the reference that tunes every weight that may be chosen


@dataclass(frozen=True)
class _Kept:
    """A choice by its indices: many are held at once, and a mask is as large as the model."""

    entries: Mapping[str, Indices]
    gap: float | None


class TorchContest:
    """Chooses anew in every fold, tunes on one part and scores on the other.

    ``samples`` are the ones to race within; everything depends on (seed, rule, fold) alone, so that
    budgets, restarts and the order of the runs do not matter.
    """

    def __init__(
        self,
        trainer: Trainer,
        limits: Limits,
        rules: Mapping[str, Rule],
        budget: int,
        folds: int,
        seed: int,
        samples: Indices | None = None,
        views: dict[int, TorchView] | None = None,
    ) -> None:
        self.trainer, self.limits, self.rules = trainer, limits, rules
        self.budget, self.seed = budget, seed
        self.samples = np.arange(trainer.samples) if samples is None else samples
        classes = None
        if trainer.kind == CLASSES and trainer.labels is not None and trainer.labels.ndim == 1:
            classes = trainer.labels.cpu().numpy()[self.samples]
        self.folds = [
            (self.samples[tune], self.samples[score])
            for tune, score in split_samples(len(self.samples), folds, seed, classes)
        ]
        self._chosen: dict[tuple[str, int], _Kept] = {}
        # Shared between budgets by who compares them: what rules look at does not depend on those.
        self._views = {} if views is None else views

    def run(self, rule: str, rate: float, fold: int) -> Outcome:
        """Score and loss on what the fold holds out."""
        tune, score = self.folds[fold]
        chosen = self.choose(rule, fold)
        with self.trainer.tuned(chosen.masks, _ids(tune), rate):
            return self.trainer.evaluate(_ids(score))

    def choose(self, rule: str, fold: int | None) -> Chosen:
        """What the rule chooses by the tuning part of a fold; by all samples where it is None."""
        key = (rule, -1 if fold is None else fold)
        kept = self._chosen.get(key)
        if kept is None:
            found = self._choose(rule, key[1])
            kept = _Kept(
                {name: np.flatnonzero(mask) for name, mask in found.masks.items()}, found.gap
            )
            self._chosen[key] = kept
        masks: dict[str, Mask] = {}
        for name, ids in kept.entries.items():
            masks[name] = np.zeros(self.limits.shapes[name], dtype=bool)
            masks[name].reshape(-1)[ids] = True
        return Chosen(masks, kept.gap)

    def _choose(self, rule: str, fold: int) -> Chosen:
        if rule == ALL:
            return Chosen({name: mask.copy() for name, mask in self.limits.allowed.items()})
        rng = np.random.default_rng([self.seed, fold + 1, crc32(rule.encode())])
        setting = Setting(self.view(fold), self.budget, self.limits, rng)
        return apply_rule(rule, self.rules[rule], setting)

    def view(self, fold: int = -1) -> TorchView:
        """What rules look at: the tuning part of a fold, or all samples where it is negative."""
        if fold not in self._views:
            ids = self.samples if fold < 0 else self.folds[fold][0]
            self._views[fold] = TorchView(self.trainer, _ids(ids), self.seed)
        return self._views[fold]


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


def _ids(values: Indices) -> Any:
    import torch

    return torch.from_numpy(np.ascontiguousarray(values))
