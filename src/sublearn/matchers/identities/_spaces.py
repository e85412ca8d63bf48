"""The states of a chain as spaces, and which student weight faces which weight of a teacher.

A weight takes states of one space (its columns) to states of another (its rows). Steps that share a
weight share their spaces: the units of a recurrent network are one space. What the network is given and
what it puts out are fixed spaces, the same for student and teacher; in the others a student may be a
teacher in disguise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sublearn.networks import Network

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
    if not (student.is_plain and teacher.is_plain):
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
            if first[0] in ("input", "output"):
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
        if (ours.activation, ours.block) != (theirs.activation, theirs.block):
            return None
        if not (face(ours.weight, theirs.weight) and face(ours.bias, theirs.bias)):
            return None
        entering, leaving = ("state", p), ("state", p + 1)
        join(("columns", ours.weight), entering)
        join(("rows", ours.weight), leaving)
        if ours.bias is not None:
            join(("rows", ours.bias), leaving)
        if ours.block is not None:
            if (ours.encoder is None) != (theirs.encoder is None):
                return None
            if ours.encoder is None:
                join(entering, ("input", ours.block))
            else:
                if not face(ours.encoder, theirs.encoder):
                    return None
                join(("rows", ours.encoder), entering)
        activations.append((leaving, ours.activation))
        if p == last:
            join(leaving, ("output", 0))
    named = [name for name in counterpart.values() if name is not None]
    if len(set(named)) != len(named) or set(named) != set(teacher.shapes):
        return None
    numbers: dict[tuple[str, object], int] = {}

    def number(place: tuple[str, object]) -> int:
        found = root(place)
        return FIXED if found[0] in ("input", "output") else numbers.setdefault(found, len(numbers))

    facing, ours_size, theirs_size = [], {}, {}
    biases = {step.bias for step in student.steps}
    encoders = {step.encoder for step in student.steps}
    for name, other in counterpart.items():
        fixed_columns = name in biases or name in encoders
        rows = number(("rows", name))
        columns = FIXED if fixed_columns else number(("columns", name))
        facing.append(Facing(name, other, rows, columns))
        if other is not None:
            for place, axis in ((rows, 0), (columns, 1)):
                if place != FIXED:
                    ours_size[place] = student.shapes[name][axis]
                    theirs_size[place] = teacher.shapes[other][axis]
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
