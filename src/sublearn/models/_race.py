"""The race: rules and rates tried on held-out parts of the samples, the better half kept each time.

Nothing here knows torch: a contest says how a rule at a rate does on a fold, and the race says which
to try. Every fold after the first is run by the better half of those before it, by their mean score
so far, until few are left; the winner is the best of those that ran all of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import CodeType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sublearn._arrays import Indices
from sublearn._errors import BadInputError
from sublearn._files import write_whole
from sublearn.models._choice import Standing, plain_numbers
from sublearn.models._guard import arrays_of

RATES = (0.01, 0.03, 0.1, 0.3)
FOLDS = 3
LEAST = 6  # samples that score in a fold, below which no race is run
KEPT = 0.5  # of the entrants, from fold to fold
FEW = 4  # entrants that are not cut further: they may be the rates of one rule
Entrant = tuple[str, float]
Outcome = tuple[float, float]  # score, loss
Run = tuple[str, float, int]  # rule, rate, fold
Watch = Callable[[int, int, str], None]  # done, of, words


class Scoring(Protocol):
    """How a rule at a rate does: chosen and tuned on one part of a fold, scored on the other."""

    def run(self, rule: str, rate: float, fold: int) -> Outcome:
        """Score (higher is better) and loss; depends on its arguments alone."""


def stages(entrants: int, folds: int) -> list[int]:
    """How many entrants run each fold.

    >>> stages(48, 3), stages(10, 4)
    ([48, 24, 12], [10, 5, 4, 4])
    """
    left = [entrants]
    while len(left) < folds:
        left.append(max(min(FEW, left[-1]), int(np.ceil(left[-1] * KEPT))))
    return left


def race(
    contest: Scoring,
    rules: Sequence[str],
    rates: Sequence[float],
    folds: int,
    *,
    known: dict[Run, Outcome] | None = None,
    watch: Watch | None = None,
) -> list[Standing]:
    """Run the race; the standings of everyone who ran, the winner first.

    What is ``known`` already is not run again; what is run is added to it.
    """
    known = {} if known is None else known
    entrants: list[Entrant] = [(rule, rate) for rule in rules for rate in rates]
    sizes = stages(len(entrants), folds)
    outcomes: dict[Entrant, list[Outcome]] = {entrant: [] for entrant in entrants}
    done = 0
    running = entrants

    def ranked(some: Iterable[Entrant]) -> list[Standing]:
        """Best first: those that ran more folds, then by mean score, then by loss, then as they came."""
        rows = [Standing(*entrant, *zip(*outcomes[entrant], strict=True)) for entrant in some]
        return sorted(rows, key=lambda row: (-len(row.scores), -row.mean, row.loss))

    for fold, size in enumerate(sizes):
        if fold:
            running = [(row.rule, row.rate) for row in ranked(running)[:size]]
        for rule, rate in running:
            if watch is not None:
                watch(done, sum(sizes), f"fold {fold + 1} of {folds}: {rule}, rate {rate:g}")
            if (rule, rate, fold) not in known:
                known[rule, rate, fold] = contest.run(rule, rate, fold)
            outcomes[rule, rate].append(known[rule, rate, fold])
            done += 1
    if watch is not None:
        watch(done, done, "")
    return ranked(entrants)


class Record(dict[Run, Outcome]):
    """Outcomes that are kept in a file too, one line each, so that a race that was stopped goes on.

    The first line holds the digest of the question; a file of another question is refused.
    """

    def __init__(self, path: str | Path, question: str) -> None:
        super().__init__()
        self.path, self.question = Path(path), question
        if not self.path.parent.is_dir():
            raise BadInputError(
                f"resume: there is no folder {self.path.parent} to write {self.path.name} in."
            )
        if not self.path.exists():
            self._write()
            return
        try:
            lines = self.path.read_text(encoding="utf-8").split("\n")
            head = json.loads(lines[0])["race"]
        except (ValueError, KeyError, TypeError, OSError):
            raise BadInputError(f"resume: {self.path} is not the record of a race.") from None
        if head != question:
            raise BadInputError(
                f"resume: {self.path} belongs to another race (other model, samples, settings or "
                "functions of your own)."
            )
        for line in lines[1:-1]:  # what follows the last line break was cut off in writing
            try:
                rule, rate, fold, score, loss = json.loads(line)
            except ValueError:
                continue  # a line cut off in writing, gone on after
            score = float("-inf") if score is None else score
            super().__setitem__((rule, rate, fold), (score, float("inf") if loss is None else loss))

    def __setitem__(self, run: Run, outcome: Outcome) -> None:
        super().__setitem__(run, outcome)
        self._write()

    def _write(self) -> None:
        runs = ([*run, *plain_numbers(outcome)] for run, outcome in self.items())
        lines = [json.dumps(line) for line in ({"race": self.question}, *runs)]
        write_whole(self.path, ("\n".join(lines) + "\n").encode())


def fingerprint(thing: Any, depth: int = 6) -> str:
    """What a function, or an object that is called, is made of, the same in every process.

    Code, constants, defaults and what it closes over; not what it finds in its module.

    >>> def above(least): return lambda x: x > least
    >>> fingerprint(above(1)) == fingerprint(above(1)), fingerprint(above(1)) == fingerprint(above(2))
    (True, False)
    """
    if thing is None or isinstance(thing, (int, float, str, bytes)):
        return repr(thing)
    parts: Iterable[Any] = ()
    if depth == 0:
        pass
    elif isinstance(thing, Mapping):
        parts = thing.items()
    elif isinstance(thing, (tuple, list)):
        parts = thing
    elif isinstance(thing, partial):
        parts = thing.func, thing.args, thing.keywords
    elif isinstance(thing, CodeType):
        parts = thing.co_code, thing.co_names, thing.co_consts
    elif hasattr(thing, "__code__"):
        held = [cell.cell_contents for cell in thing.__closure__ or ()]
        parts = thing.__code__, thing.__defaults__, thing.__kwdefaults__, held
    elif hasattr(thing, "shape"):
        (array,) = arrays_of({"held": thing}).values()
        parts = array.shape, str(array.dtype), sha256(array.tobytes()).hexdigest()
    elif not isinstance(thing, type) and callable(thing) and hasattr(thing, "__dict__"):
        parts = type(thing).__call__, vars(thing)
    name = getattr(thing, "__qualname__", type(thing).__qualname__)
    return f"{name}({', '.join(fingerprint(part, depth - 1) for part in parts)})"


def split_samples(
    count: int, folds: int, seed: int, classes: NDArray[Any] | None = None
) -> list[tuple[Indices, Indices]]:
    """Samples to tune by and to score by, for each fold: every sample is scored in one fold.

    With ``classes`` every class is spread evenly over the folds.
    """
    order = _spread(count, np.random.default_rng(seed), classes)
    parts = [np.sort(order[fold::folds]) for fold in range(folds)]
    return [(np.setdiff1d(order, part), part) for part in parts]


def split_once(
    count: int, held: int, seed: int, classes: NDArray[Any] | None = None
) -> tuple[Indices, Indices]:
    """All but ``held`` random samples, and these; with ``classes`` about evenly from each."""
    order = _spread(count, np.random.default_rng(seed), classes)
    # Every so many along the line, so that each class gives its share.
    picks = order[np.floor((np.arange(held) + 0.5) * count / held).astype(np.int64)]
    return np.setdiff1d(order, picks), np.sort(picks)


def _spread(count: int, rng: np.random.Generator, classes: NDArray[Any] | None) -> Indices:
    """The samples in random order; with classes, one class after the other."""
    order = rng.permutation(count)
    if classes is None:
        return order
    return order[np.argsort(classes[order], kind="stable")]
