"""The race: rules and rates tried on held-out parts of the samples, the better half kept each time.

Nothing here knows torch: a contest says how a rule at a rate does on a split, and the race says which
to try. Every split after the first is run by the better half of those before it, by their mean score
so far; the winner is the best of those that ran all of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from sublearn._errors import BadInputError
from sublearn.models._choice import Standing

RATES = (0.003, 0.01, 0.03, 0.1, 0.3)
SPLITS = 3
SHARE = 0.7  # of the samples, to choose and tune by; the others score
LEAST = 4  # held-out samples below which no race is run
KEPT = 0.5  # of the entrants, from split to split
Entrant = tuple[str, float]
Outcome = tuple[float, float]  # score, loss
Watch = Callable[[int, int, str], None]  # done, of, words


class Contest(Protocol):
    """How a rule at a rate does: chosen and tuned on one part of a split, scored on the other."""

    def run(self, rule: str, rate: float, split: int) -> Outcome:
        """Score (higher is better) and loss; depends on its arguments alone."""


def stages(entrants: int, splits: int) -> list[int]:
    """How many entrants run each split.

    >>> stages(60, 3)
    [60, 30, 15]
    """
    found = [entrants]
    while len(found) < splits:
        found.append(max(1, int(np.ceil(found[-1] * KEPT))))
    return found


def order_of(entrants: Iterable[Standing]) -> list[Standing]:
    """Best first: those that ran more splits, then by mean score, then by loss, then as they came."""
    return sorted(entrants, key=lambda row: (-len(row.scores), -row.mean, row.loss))


def race(
    contest: Contest,
    rules: Sequence[str],
    rates: Sequence[float],
    splits: int,
    *,
    record: Record | None = None,
    watch: Watch | None = None,
) -> list[Standing]:
    """Run the race; the standings of everyone who ran, the winner first."""
    entrants: list[Entrant] = [(rule, rate) for rule in rules for rate in rates]
    sizes = stages(len(entrants), splits)
    outcomes: dict[Entrant, list[Outcome]] = {entrant: [] for entrant in entrants}
    done = 0
    running = entrants
    for split, size in enumerate(sizes):
        if split:
            ranked = order_of(standing(entrant, outcomes[entrant]) for entrant in running)
            running = [(row.rule, row.rate) for row in ranked[:size]]
        for rule, rate in running:
            if watch is not None:
                watch(done, sum(sizes), f"split {split + 1} of {splits}: {rule}, rate {rate:g}")
            known = record.get(rule, rate, split) if record is not None else None
            if known is None:
                known = contest.run(rule, rate, split)
                if record is not None:
                    record.put(rule, rate, split, known)
            outcomes[rule, rate].append(known)
            done += 1
    if watch is not None:
        watch(done, done, "")
    return order_of(standing(entrant, found) for entrant, found in outcomes.items())


def standing(entrant: Entrant, outcomes: Sequence[Outcome]) -> Standing:
    """The outcomes of one rule at one rate, as a line of the standings."""
    scores, losses = zip(*outcomes, strict=True)
    return Standing(entrant[0], entrant[1], tuple(scores), tuple(losses))


class Record:
    """Outcomes in a file, one line each, so that a race that was stopped goes on.

    The first line holds the digest of the question; a file of another question is refused.
    """

    def __init__(self, path: str | Path, question: str) -> None:
        self.path = Path(path)
        self._known: dict[tuple[str, float, int], Outcome] = {}
        if not self.path.parent.is_dir():
            raise BadInputError(
                f"resume: there is no folder {self.path.parent} to write {self.path.name} in."
            )
        if not self.path.exists():
            self.path.write_text(json.dumps({"race": question}) + "\n", encoding="utf-8")
            return
        try:
            lines = self.path.read_text(encoding="utf-8").split("\n")
            head = json.loads(lines[0])["race"]
        except (ValueError, KeyError, TypeError, OSError):
            raise BadInputError(f"resume: {self.path} is not the record of a race.") from None
        if head != question:
            raise BadInputError(
                f"resume: {self.path} belongs to another race (other model, samples or settings)."
            )
        for line in lines[1:-1]:  # what follows the last line break was cut off in writing
            try:
                rule, rate, split, score, loss = json.loads(line)
            except ValueError:
                continue  # a line cut off in writing, gone on after
            self._known[rule, rate, split] = (
                float("-inf") if score is None else score,
                float("inf") if loss is None else loss,
            )
        if lines[-1]:
            with self.path.open("a", encoding="utf-8") as file:
                file.write("\n")

    def get(self, rule: str, rate: float, split: int) -> Outcome | None:
        return self._known.get((rule, rate, split))

    def put(self, rule: str, rate: float, split: int, outcome: Outcome) -> None:
        self._known[rule, rate, split] = outcome
        plain = [value if np.isfinite(value) else None for value in outcome]
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([rule, rate, split, *plain]) + "\n")


def split_samples(
    count: int, splits: int, seed: int, classes: np.ndarray | None = None
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Random halves of the samples, SHARE to tune by and the rest to score by, with sorted indices.

    With ``classes`` every class is cut in the same share, so that no split lacks one that has two.
    """
    found = []
    for split in range(splits):
        rng = np.random.default_rng([seed, split])
        if classes is None:
            order = rng.permutation(count)
            cut = min(count - 1, max(1, round(SHARE * count)))
            first, rest = order[:cut], order[cut:]
        else:
            # Spread each class evenly along the line, then cut the line once.
            place = np.empty(count)
            for value in np.unique(classes):
                members = rng.permutation(np.flatnonzero(classes == value))
                offset = rng.random()
                place[members] = (np.arange(len(members)) + offset) / len(members)
            order = np.argsort(place, kind="stable")
            cut = min(count - 1, max(1, round(SHARE * count)))
            first, rest = order[:cut], order[cut:]
        found.append((np.sort(first), np.sort(rest)))
    return found
