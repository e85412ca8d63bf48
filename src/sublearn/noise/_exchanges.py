"""A placement made better by exchanges: one plastic weight against one that is not, and a look."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sublearn._arrays import Array
from sublearn._errors import BadInputError
from sublearn._seeds import named_stream
from sublearn.allocations import Allocation
from sublearn.ensembles import Instance
from sublearn.noise._noise import Noise
from sublearn.noise._steady import Known, predict_steady_state

Label = tuple[str, int, int]
DOUBT = 0.05
"""The chance, over all exchanges of a search, that one of them is taken for better and is not."""


@dataclass(frozen=True)
class Exchanges:
    """What a number of exchanges came to, from the placement ``start`` on.

    ``taken``: (weight that left, weight that came), in their order; ``tried``: how many were looked at.
    ``by``: "formula", the predicted steady state was lower; "measured", the simulated one was, beyond
    doubt.
    """

    start: str
    tried: int
    by: str
    taken: tuple[tuple[Label, Label], ...]

    @property
    def words(self) -> str:
        """What was done, in a sentence."""
        how = "by the formula" if self.by == "formula" else "beyond doubt in the simulated errors"
        if not self.taken:
            return f"None of {self.tried} exchanges made {self.start} better {how}."
        return (
            f"'improved' is {self.start} after {len(self.taken)} of {self.tried} exchanges, each better "
            f"{how}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**vars(self), "taken": [[list(left), list(came)] for left, came in self.taken]}


@dataclass(frozen=True)
class Exchangeable:
    """Which weights may come in: ``among`` these, and with ``within`` in the row (column) of what leaves."""

    among: Allocation
    within: str | None
    count: int
    seed: int


def improved(
    search: Exchangeable,
    name: str,
    start: Allocation,
    lessons: Sequence[Instance],
    noise: Noise,
    measure: Callable[[Allocation], Array],
    tried: Callable[[], None] = lambda: None,
) -> tuple[Exchanges, Allocation]:
    """``count`` exchanges of a placement, each drawn at random, each kept if it is better.

    What leaves is uniform over the plastic weights, what comes over those that may. Where the formula of
    the steady state holds for all lessons, it decides: for one lesson by its value, for several by a
    test over them. Else the steady errors that ``measure`` gives, repeat by repeat in the same noise, do. A
    test asks for Student's t beyond its quantile at DOUBT / count, so that all of them together err with
    a probability of at most DOUBT. ``tried`` is called before each exchange.
    """
    exact = _predicted(lessons, start, noise)
    value = exact if exact is not None else measure(start)
    if exact is None and value.size < 2:
        raise BadInputError(
            "improve needs at least 2 repeats where no formula holds: one leaves no way to doubt."
        )
    rng = named_stream(search.seed, "exchanges", start.digest, search.among.digest)
    here, taken = start, []
    for _ in range(search.count):
        tried()
        pair = _drawn(search, here, rng)
        if pair is None:
            continue  # nothing may take the place of what would leave
        other = _exchanged(here, *pair)
        if exact is None:
            errors: Array | None = measure(other)
        else:
            errors = _predicted(lessons, other, noise)
        if errors is not None and _better(errors - value, value, search.count):
            here, value = other, errors
            taken.append(pair)
    by = "measured" if exact is None else "formula"
    return Exchanges(name, search.count, by, tuple(taken)), here


def _predicted(lessons: Sequence[Instance], plastic: Allocation, noise: Noise) -> Array | None:
    """The steady error of every lesson by formula, or None where it does not hold as it stands."""
    out = []
    for lesson in lessons:
        steady = predict_steady_state(lesson.with_allocation(plastic), noise)
        if steady.kind not in (Known.EXACT, Known.LIMIT):
            return None
        out.append(steady.value)
    return np.array(out)


def _better(gap: Array, before: Array, tests: int) -> bool:
    """Whether errors that differ by ``gap`` from those before are lower, beyond doubt."""
    mean = float(gap.mean())
    if gap.size == 1:
        return mean < -1e-9 * abs(float(before[0]))
    error = float(gap.std(ddof=1)) / math.sqrt(gap.size)
    from scipy.special import stdtrit

    return mean < -float(stdtrit(gap.size - 1, 1.0 - DOUBT / tests)) * error


def _drawn(
    search: Exchangeable, plastic: Allocation, rng: np.random.Generator
) -> tuple[Label, Label] | None:
    """A plastic weight and one that may take its place, at random."""
    mine = plastic.labels()
    leaves = mine[int(rng.integers(len(mine)))]
    free = (search.among - plastic).labels()
    if search.within is not None:
        axis = 1 if search.within == "row" else 2
        free = [one for one in free if (one[0], one[axis]) == (leaves[0], leaves[axis])]
    return (leaves, free[int(rng.integers(len(free)))]) if free else None


def _exchanged(plastic: Allocation, leaves: Label, comes: Label) -> Allocation:
    gone, new = (
        Allocation(plastic.shapes, {name: np.array([i * plastic.shapes[name][1] + j])})
        for name, i, j in (leaves, comes)
    )
    return (plastic - gone) | new
