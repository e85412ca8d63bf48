"""A student that is the teacher with its units renamed and rescaled: a match on every input at once.

Let every unit j of the teacher have a unit tau(j) of the student, with a factor a_j that its activation
lets pass (a sign for tanh, a positive number for ReLU, any but 0 where it is linear). If

    W[tau(i), tau(j)] = a_i W*[i, j] / a_j     and     W[tau(i), u] = 0 for units u that copy none,

for every weight, then state tau(j) of the student is a_j times state j of the teacher, step by step,
and the outputs agree. Learnable entries can be set so; frozen ones must be so already, exactly. Nothing
is rounded: float64 numbers are rationals, and so are the factors. States that leak keep theirs, since the
mix of two states is taken unit by unit, with the same leak in both networks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from sublearn.ensembles import Instance
from sublearn.exact import from_floats
from sublearn.matchers._decision import UNDECIDED, Decision, Effort, certified
from sublearn.matchers._matcher import Budget, Matcher
from sublearn.matchers.identities._spaces import FIXED, Scale, Spaces, spaces
from sublearn.matchers.proofs._certificate import Certificate

MOST_NODES = 20_000
Copied = tuple[int, Fraction]
"""The student unit that copies a unit of the teacher, and its factor."""
Units = tuple[tuple[Copied, ...], ...]
"""One entry per unit of the teacher, for every free space."""


class Copy(Matcher):
    """MATCHED by an identity: units renamed and rescaled so that the student is the teacher.

    It asks for nothing of the samples, so it is what proves matches with more equations than weights
    behind tanh and sigmoid units. It never refutes.

    >>> import sublearn as sl
    >>> problem = sl.Problem(sl.FeedForward((3, 2, 1), activation="tanh"), samples=12)
    >>> everything = {"W1": sl.Anywhere(6), "W2": sl.Anywhere(2)}
    >>> decision = sl.decide(sl.draw(problem, everything))
    >>> decision.kind, decision.rung, str(decision.grade)
    ('matched', 'copy', 'proof')
    """

    name = "copy"

    def refusal(self, instance: Instance) -> str | None:
        if instance.teacher is None:
            return "there is no teacher to copy"
        if spaces(instance.network, instance.teacher.network) is None:
            return "student and teacher are chains of different forms"
        return None

    def attempt(self, instance: Instance, budget: Budget, rng: np.random.Generator) -> Decision:
        search = Copying(instance, min(budget.nodes, MOST_NODES))
        units = search.units()
        effort = Effort(nodes=search.nodes)
        if units is None:
            reason = "the frozen weights are no renaming or rescaling of the teacher's"
            return Decision(UNDECIDED, self.name, reason, effort=effort)
        exact = copied_values(instance, units)
        assert exact is not None, "the search keeps every frozen entry"
        values = np.array([rounded(value) for value in exact])
        if not np.isfinite(values).all():
            reason = "the copy needs weights beyond the range of float64"
            return Decision(UNDECIDED, self.name, reason, effort=effort)
        certificate = Certificate(instance, "copy", 53, tuple(from_floats(values)), units=units)
        reason = "the student becomes the teacher, unit by unit: they agree on every input"
        return certified(self.name, reason, certificate, effort)


def copied_values(instance: Instance, units: Units) -> list[Fraction] | None:
    """The learnable weights of a copy, in the order of the labels; None where it is none."""
    assert instance.teacher is not None
    form = spaces(instance.network, instance.teacher.network)
    if form is None or len(units) != len(form.teacher):
        return None
    for held, ours, theirs, kind in zip(
        units, form.student, form.teacher, form.scales, strict=True
    ):
        taken = [unit for unit, _ in held]
        if len(held) != theirs or len(set(taken)) != theirs:
            return None
        if not all(0 <= unit < ours and allowed(kind, factor) for unit, factor in held):
            return None
    wanted: dict[tuple[str, int, int], Fraction] = {}
    for weight in form.weights:
        rows, columns = instance.network.shapes[weight.student]
        frozen = instance.weights[weight.student]
        learnable = instance.allocation.mask(weight.student)
        shown = None if weight.teacher is None else instance.teacher.weights[weight.teacher]
        down = _units_of(units, weight.rows, rows)
        across = _units_of(units, weight.columns, columns)
        faces = {unit: (j, factor) for j, (unit, factor) in enumerate(across)}
        for i, (row, scale) in enumerate(down):
            for column in range(columns):
                value = Fraction(0)
                if shown is not None and column in faces:
                    j, factor = faces[column]
                    value = scale * Fraction(float(shown[i, j])) / factor
                if learnable[row, column]:
                    wanted[weight.student, row, column] = value
                elif Fraction(float(frozen[row, column])) != value:
                    return None
    return [wanted.get(label, Fraction(0)) for label in instance.allocation.labels()]


def rounded(value: Fraction) -> float:
    """The nearest float64; infinite beyond its range."""
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


def _units_of(units: Units, space: int, size: int) -> tuple[Copied, ...]:
    if space == FIXED:
        return tuple((unit, Fraction(1)) for unit in range(size))
    return units[space]


def allowed(kind: Scale, factor: Fraction) -> bool:
    """Whether an activation of this kind lets the factor pass."""
    if kind == "one":
        return factor == 1
    if kind == "sign":
        return abs(factor) == 1
    return factor > 0 if kind == "positive" else factor != 0


@dataclass
class _Place:
    """A weight as one space sees it: entries towards a space, by (unit here, unit there)."""

    ours: np.ndarray
    theirs: np.ndarray | None
    learnable: np.ndarray
    other: int
    as_row: bool


@dataclass
class Copying:
    """The search for a copy: units of the teacher in turn, each tried on every unit of the student."""

    instance: Instance
    most: int
    nodes: int = 0
    _held: dict[tuple[int, int], tuple[int, Fraction | None]] = field(default_factory=dict)

    def units(self) -> Units | None:
        """A copy, or None."""
        teacher = self.instance.teacher
        assert teacher is not None
        form = spaces(self.instance.network, teacher.network)
        if form is None or any(o < t for o, t in zip(form.student, form.teacher, strict=True)):
            return None
        self.form = form
        self._places = self._facing(form)
        order = [(space, j) for space, size in enumerate(form.teacher) for j in range(size)]
        return self._assign(order, 0)

    def _facing(self, form: Spaces) -> list[list[_Place]]:
        instance, out = self.instance, [list[_Place]() for _ in form.teacher]
        assert instance.teacher is not None
        for weight in form.weights:
            ours = instance.weights[weight.student]
            theirs = None
            if weight.teacher is not None:
                theirs = instance.teacher.weights[weight.teacher]
            learnable = instance.allocation.mask(weight.student)
            if weight.rows != FIXED:
                out[weight.rows].append(_Place(ours, theirs, learnable, weight.columns, True))
            if weight.columns != FIXED:
                turned = None if theirs is None else theirs.T
                out[weight.columns].append(_Place(ours.T, turned, learnable.T, weight.rows, False))
        return out

    def _assign(self, order: list[tuple[int, int]], at: int) -> Units | None:
        if at == len(order):
            return self._settled()
        space, j = order[at]
        taken = {held[0] for place, held in self._held.items() if place[0] == space}
        for unit in range(self.form.student[space]):
            if unit in taken:
                continue
            for factor in self._factors(space, j, unit):
                self.nodes += 1
                if self.nodes > self.most:
                    return None
                self._held[space, j] = unit, factor
                found = self._assign(order, at + 1)
                if found is not None:
                    return found
                del self._held[space, j]
        return None

    def _settled(self) -> Units | None:
        """The units with a factor each: those left open follow from their neighbours, or are 1."""
        before = dict(self._held)
        open_units = [place for place, (_, factor) in before.items() if factor is None]
        while open_units:
            for place in open_units:
                unit = self._held[place][0]
                factor = next(self._factors(*place, unit), Fraction(0))
                if factor is not None:
                    break
            else:
                place, factor = open_units[0], Fraction(1)
            self._held[place] = self._held[place][0], factor
            open_units.remove(place)
        found = tuple(
            tuple((unit, factor) for unit, factor in held if factor is not None)
            for held in (
                [self._held[space, j] for j in range(size)]
                for space, size in enumerate(self.form.teacher)
            )
        )
        self._held = before
        return found if copied_values(self.instance, found) is not None else None

    def _factors(self, space: int, j: int, unit: int) -> Iterator[Fraction | None]:
        """The factors with which ``unit`` may copy unit j, as far as what is known can tell.

        None: any that its activation lets pass, so far.
        """
        kind = self.form.scales[space]
        forced: Fraction | None = None
        for place in self._places[space]:
            for there, (mine, theirs, other) in self._pairs(place, space, j, unit):
                if place.learnable[unit, there]:
                    continue
                ours = float(place.ours[unit, there])
                if (ours == 0.0) != (theirs == 0.0):
                    return
                if ours == 0.0 or other is None:
                    continue
                if mine:
                    # An entry from a unit to itself keeps its value whatever the factor is.
                    if ours != theirs:
                        return
                    continue
                ratio = Fraction(ours) / Fraction(theirs)
                factor = ratio * other if place.as_row else other / ratio
                if forced is None:
                    forced = factor
                elif forced != factor:
                    return
        if forced is not None:
            if allowed(kind, forced):
                yield forced
        elif kind == "one":
            yield Fraction(1)
        elif kind == "sign":
            yield from (Fraction(1), Fraction(-1))
        else:
            yield None

    def _pairs(
        self, place: _Place, space: int, j: int, unit: int
    ) -> Iterator[tuple[int, tuple[bool, float, Fraction | None]]]:
        """(unit there, (is it the same unit, the teacher's entry, its factor)) where that is known."""
        if place.other == FIXED:
            for there in range(place.ours.shape[1]):
                value = 0.0 if place.theirs is None else float(place.theirs[j, there])
                yield there, (False, value, Fraction(1))
            return
        assert place.theirs is not None, "a weight between free spaces faces one of the teacher"
        for (other, k), (there, factor) in self._held.items():
            if other == place.other:
                yield there, (False, float(place.theirs[j, k]), factor)
        if place.other == space:
            yield unit, (True, float(place.theirs[j, j]), Fraction(1))
