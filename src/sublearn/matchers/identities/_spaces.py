"""The states of a chain as spaces, and which student weight faces which weight of a teacher.

A weight takes states of one space (its columns) to states of another (its rows). Steps that share a
weight share their spaces: the units of a recurrent network are one space. What the network is given and
what it puts out are fixed spaces, the same for student and teacher; in the others a student may be a
teacher in disguise. A state that leaks is added to the one that follows it, so that the two are one space,
and the leaks must be equal; a step aside leaves the state in its space.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sublearn.networks import Network, Step

Scale = Literal["one", "sign", "positive", "any"]
# The factors a that a unit's state may carry: phi(a x) = a phi(x).
SCALES: dict[str, Scale] = {
    "sigmoid": "one",
    "tanh": "sign",
    "relu": "positive",
    "linear": "any",
}
_STRICTEST: tuple[Scale, ...] = ("one", "sign", "positive", "any")
FIXED = -1


@dataclass(frozen=True)
class Facing:
    """A student weight, the teacher's weight in its place (None: zeros), and its two spaces."""

    student: str
    teacher: str | None
    rows: int
    columns: int


@dataclass(frozen=True)
class Spaces:
    """The free spaces by number: units of student and teacher, and what may be done to them."""

    weights: tuple[Facing, ...]
    student: tuple[int, ...]
    teacher: tuple[int, ...]
    scales: tuple[Scale, ...]


def spaces(student: Network, teacher: Network) -> Spaces | None:
    """The common form of two chains, or None where they have none."""
    if len(student.steps) != len(teacher.steps) or student.input_blocks != teacher.input_blocks:
        return None
    parents: dict[tuple[str, object], tuple[str, object]] = {}

    def root(place: tuple[str, object]) -> tuple[str, object]:
        while place in parents:
            place = parents[place]
        return place

    def join(one: tuple[str, object], two: tuple[str, object]) -> None:
        first, second = root(one), root(two)
        if first != second:
            # What is fixed stays the name of what it is joined with.
            if first[0] == "fixed":
                first, second = second, first
            parents[first] = second

    counterpart: dict[str, str | None] = {}

    def face(ours: str | None, theirs: str | None) -> bool:
        if ours is None:
            return theirs is None
        return counterpart.setdefault(ours, theirs) == theirs

    activations: list[tuple[tuple[str, object], str]] = []
    last = len(student.steps) - 1
    for p, (ours, theirs) in enumerate(zip(student.steps, teacher.steps, strict=True)):
        if _form(ours) != _form(theirs):
            return None
        if not all(
            face(mine, other)
            for mine, other in (
                (ours.weight, theirs.weight),
                (ours.encoder, theirs.encoder),
                (ours.drive, theirs.drive),
                (ours.bias, theirs.bias),
            )
        ):
            return None
        entering, leaving = ("state", p), ("after", p)
        join(("columns", ours.weight), entering)
        join(("rows", ours.weight), leaving)
        for name, meets in ((ours.encoder, entering), (ours.drive, leaving), (ours.bias, leaving)):
            if name is not None:
                join(("rows", name), meets)
                join(("columns", name), ("fixed", "given"))
        injected = ours.block is not None and ours.encoder is None and ours.drive is None
        if injected or (p == 0 and ours.block is None):
            join(entering, ("fixed", "given"))
        if p > 0 and ours.leak != 1.0:
            join(leaving, entering)
        if ours.aside or p == last:
            join(leaving, ("fixed", "read"))
        join(("state", p + 1), entering if ours.aside else leaving)
        activations.append((leaving, ours.activation))
    named = [name for name in counterpart.values() if name is not None]
    if len(set(named)) != len(named) or set(named) != set(teacher.shapes):
        return None
    numbers: dict[tuple[str, object], int] = {}

    def number(place: tuple[str, object]) -> int:
        found = root(place)
        return FIXED if found[0] == "fixed" else numbers.setdefault(found, len(numbers))

    facing, ours_size, theirs_size = [], {}, {}
    for name, other in counterpart.items():
        rows, columns = number(("rows", name)), number(("columns", name))
        facing.append(Facing(name, other, rows, columns))
        if other is not None:
            sizes = zip(student.shapes[name], teacher.shapes[other], strict=True)
            for place, (mine, its) in zip((rows, columns), sizes, strict=True):
                if place != FIXED:
                    ours_size[place], theirs_size[place] = mine, its
                elif mine != its:
                    return None
    kinds: dict[int, Scale] = {}
    for state, activation in activations:
        at, kind = number(state), SCALES[activation]
        if at != FIXED:
            kinds[at] = min(kinds.get(at, "any"), kind, key=_STRICTEST.index)
    count = len(numbers)
    if sorted(ours_size) != list(range(count)):
        return None
    return Spaces(
        tuple(facing),
        tuple(ours_size[at] for at in range(count)),
        tuple(theirs_size[at] for at in range(count)),
        tuple(kinds.get(at, "any") for at in range(count)),
    )


def _form(step: Step) -> tuple[object, ...]:
    """What must be the same in a student's step and a teacher's; a bias that one lacks is zeros."""
    beside = step.encoder is None, step.drive is None
    return step.activation, step.block, step.leak, step.aside, beside
