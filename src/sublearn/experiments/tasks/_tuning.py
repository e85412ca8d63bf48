"""A small torch model of digits, adapted by few of its weights: the race against fixed rules."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from sublearn._errors import BadInputError, one_of
from sublearn.experiments.tasks._point import Columns, Params
from sublearn.experiments.tasks._repeats import whole
from sublearn.models import (
    FOLDS,
    RATES,
    RULES,
    Contest,
    Splits,
    compare_cell,
    paired_difference,
    prepare,
)
from sublearn.runs import Row, Task

RACE = "race"
SHIFTS = ("odd digits", "turned", "inverted", "relabelled")


class Tuning(Task):
    """Train an MLP on half of scikit-learn's digits, then tune ``budget`` weights on ``samples`` others.

    The others are changed as ``shift`` says: odd digits after even ones, all digits turned by a
    quarter, inverted, or under permuted labels. Every rule has its rates tuned on the same folds as
    the race, in ``steps`` steps of Adam. Kept is the accuracy of each method on the rest of the digits.
    """

    name = "tuning"
    columns: Mapping[str, type] = {
        RACE: float,
        **dict.fromkeys(RULES, float),
        "picked": str,
        "untuned": float,
    }

    takes: Mapping[str, str] = {
        "shift": "what changed",
        "budget": "weights tuned r",
        "samples": "samples m",
        "steps": "steps",
    }
    headings: Mapping[str, str] = {
        "method": "method",
        "trials": "trials",
        "score": "accuracy on fresh digits",
        "untuned": "accuracy before tuning",
        "regret": "behind the best rule in hindsight",
        "ahead": "the race minus this",
        "ahead_low": "its 95% interval, low end",
        "ahead_high": "its 95% interval, high end",
        "picked": "times that the race picked it",
    }

    def check(self, point: Params) -> None:
        one_of("shift", point.get("shift"), SHIFTS)
        whole(point, "budget", 100)
        whole(point, "steps", 60)
        if whole(point, "samples", 100) < 20:
            raise BadInputError(f"samples must be at least 20, not {point['samples']}.")

    def run(self, point: Params, seed: int, trials: range) -> list[Row]:
        return [_trial(point, seed, trial) for trial in trials]

    def summarise(self, point: Params, rows: Columns) -> list[Row]:
        best = np.max([rows[rule] for rule in RULES], axis=0)
        lines: list[Row] = []
        for method in (RACE, *RULES):
            gap = paired_difference(rows[RACE], rows[method])
            line: Row = {"method": method, "trials": len(best), "score": float(rows[method].mean())}
            line["untuned"] = float(rows["untuned"].mean())
            line["regret"] = float((best - rows[method]).mean())
            ends = (gap.low, gap.high) if gap.pairs > 1 else (None, None)
            line |= zip(("ahead", "ahead_low", "ahead_high"), (gap.mean, *ends), strict=True)
            lines.append({**line, "picked": int((rows["picked"] == method).sum())})
        return lines


def _trial(point: Params, seed: int, trial: int) -> Row:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # sums then come in one order
    try:
        count = whole(point, "samples", 100)
        steps = {"steps": whole(point, "steps", 60)}
        trainer, limits = prepare(*_given(str(point["shift"]), seed, trial), 0, steps)
        samples, exam = np.arange(count), np.arange(count, trainer.samples)
        untuned, _ = trainer.evaluate(exam)
        budget = limits.check_budget(whole(point, "budget", 100))
        contest = Contest(Splits(trainer, FOLDS, trial, samples), limits, RULES, budget)
        by_method = {row.method: row for row in compare_cell(contest, [RACE, *RULES], RATES, exam)}
    finally:
        torch.set_num_threads(threads)
    scores: Row = {method: row.score for method, row in by_method.items()}
    return {**scores, "picked": by_method[RACE].rule, "untuned": untuned}


@lru_cache(maxsize=4)
def _given(shift: str, seed: int, trial: int) -> tuple[Any, Any, Any]:
    """A trained model; samples to tune by, with those of the test after them, and their labels."""
    import torch

    from sublearn.datasets import digits

    rng = np.random.default_rng([seed, SHIFTS.index(shift), trial])
    data = digits()
    images, labels = np.asarray(data.inputs).T.reshape(-1, 8, 8), np.asarray(data.labels)
    order = rng.permutation(len(labels))
    if shift == "odd digits":
        first, rest = order[labels[order] % 2 == 0], order[labels[order] % 2 == 1]
        old, new = labels // 2, rng.permutation(5)[labels // 2]
    else:
        first, rest = order[: len(order) // 2], order[len(order) // 2 :]
        old, new = labels, labels
    changed = images
    if shift == "turned":
        changed = np.rot90(images, axes=(1, 2))
    elif shift == "inverted":
        changed = images.max() + images.min() - images
    elif shift == "relabelled":
        new = np.roll(np.arange(10), 1)[labels]
    with torch.random.fork_rng():
        torch.manual_seed(int(rng.integers(2**31)))
        classes = int(old.max()) + 1
        layers = [
            torch.nn.Linear(64, 64),
            torch.nn.ReLU(),
            torch.nn.Linear(64, 32),
            torch.nn.ReLU(),
        ]
        model = torch.nn.Sequential(*layers, torch.nn.Linear(32, classes))
        _train(model, images[first], old[first])
    inputs = torch.tensor(np.ascontiguousarray(changed[rest].reshape(-1, 64)), dtype=torch.float32)
    return model.eval(), inputs, torch.tensor(new[rest])


def _train(model: Any, images: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]) -> None:
    import torch

    inputs = torch.tensor(images.reshape(-1, 64), dtype=torch.float32)
    target = torch.tensor(labels)
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    for _ in range(20):
        for part in torch.randperm(len(inputs)).split(64):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs[part]), target[part]).backward()
            optimizer.step()
