"""Whether a set of error curves has settled, and at what error: detected, not assumed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sublearn._arrays import Array
from sublearn._errors import BadInputError

TOLERANCE = 0.2
_FEWEST = 40
_STRETCHES = 8


@dataclass(frozen=True, eq=False)
class SteadyState:
    """The error at which learning and noise balance, as the curves show it.

    ``mean`` and ``standard_error`` are over repeats, each averaged from cycle ``start`` on. ``change``
    is the later half of that stretch less the earlier one, over repeats, with ``change_error``.
    ``reached`` says whether the curves are level from ``start`` on, ``reason`` why.
    """

    mean: float
    standard_error: float
    reached: bool
    reason: str
    start: int
    change: float
    change_error: float
    per_repeat: Array

    def __str__(self) -> str:
        state = "steady" if self.reached else "NOT steady"
        return f"{self.mean:.4g} +- {self.standard_error:.2g} ({state}: {self.reason})"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {name: value for name, value in vars(self).items() if name != "per_repeat"}


def find_steady_state(errors: Array, tolerance: float = TOLERANCE) -> SteadyState:
    """Find from which cycle on error curves (repeats, cycles) are level, and their mean from there.

    Starts at 0, 5, ..., 50% of the cycles are tried in turn. From a start on the curves are level if
    neither the later half differs from the earlier one, nor the first quarter from the rest, by more
    than two standard errors over repeats. ``reached`` asks for power too: the change between the
    halves and two standard errors of it must together stay within ``tolerance`` of the mean, so that
    curves too noisy to show a change are not called steady. A single repeat is cut into stretches
    that stand for repeats.

    >>> level = 1.0 + 0.01 * np.random.default_rng(0).standard_normal((4, 400))
    >>> found = find_steady_state(level + np.exp(-np.arange(400) / 20))
    >>> found.reached, round(found.mean, 2), 40 <= found.start <= 160
    (True, 1.0, True)
    >>> find_steady_state(level + np.arange(400) / 400).reached
    False
    """
    curves = np.atleast_2d(np.asarray(errors, dtype=np.float64))
    if curves.ndim != 2 or not curves.size or not np.isfinite(curves).all():
        raise BadInputError("errors must be finite numbers of shape (repeats, cycles).")
    cycles = curves.shape[1]
    if cycles < _FEWEST:
        words = f"{cycles} cycles are too few to tell, {_FEWEST} at least."
        return _measure(curves, cycles // 2, False, words)
    for percent in range(0, 55, 5):
        start = cycles * percent // 100
        if _is_level(curves[:, start:]):
            break
    else:
        state = _measure(curves, cycles // 2, False, "")
        way = "falling" if state.change < 0 else "rising"
        much = f"{abs(state.change):.2g} +- {state.change_error:.1g}"
        words = f"still {way} in the last half of {cycles} cycles, by {much}."
        return replace(state, reason=words)
    state = _measure(curves, start, True, f"level from cycle {start} of {cycles} on.")
    if abs(state.change) + 2.0 * state.change_error > tolerance * abs(state.mean):
        words = (
            f"no clear change from cycle {start} of {cycles} on, but {state.change:+.2g} +- "
            f"{state.change_error:.1g} may exceed {tolerance:.0%} of the mean: more cycles or repeats would "
            "tell."
        )
        return replace(state, reached=False, reason=words)
    return state


def _difference(one: Array, two: Array) -> tuple[float, float]:
    """Mean of ``two`` less that of ``one``, and its standard error, over repeats."""
    repeats = one.shape[0]
    if repeats > 1:
        each = two.mean(axis=1) - one.mean(axis=1)
        return float(each.mean()), float(each.std(ddof=1) / math.sqrt(repeats))
    squares, means = 0.0, []
    for part in (one[0], two[0]):
        stretches = np.array([s.mean() for s in np.array_split(part, min(_STRETCHES, part.size))])
        means.append(float(part.mean()))
        squares += float(stretches.var(ddof=1)) / stretches.size
    return means[1] - means[0], math.sqrt(squares)


def _is_level(tail: Array) -> bool:
    cycles = tail.shape[1]
    for cut in (cycles // 2, cycles // 4):
        change, error = _difference(tail[:, :cut], tail[:, cut:])
        if abs(change) > 2.0 * error:
            return False
    return True


def _measure(curves: Array, start: int, reached: bool, reason: str) -> SteadyState:
    repeats, cycles = curves.shape
    tail = curves[:, start:]
    each = tail.mean(axis=1)
    if cycles - start > 3:
        middle = (cycles - start) // 2
        change, change_error = _difference(tail[:, :middle], tail[:, middle:])
    else:
        change, change_error = 0.0, 0.0
    # One repeat: the error of a mean of two halves is half that of their difference.
    spread = float(each.std(ddof=1)) / math.sqrt(repeats) if repeats > 1 else change_error / 2.0
    return SteadyState(
        mean=float(each.mean()),
        standard_error=spread,
        reached=reached,
        reason=reason,
        start=start,
        change=change,
        change_error=change_error,
        per_repeat=each,
    )
