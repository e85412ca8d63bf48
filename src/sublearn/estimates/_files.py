"""Counted trials on disk: the question in plain values, and a column for each field of the records."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_type_hints

from sublearn._errors import BadInputError, shown
from sublearn._files import save_json
from sublearn._reading import Unreadable, load_json
from sublearn.allocations import Allocation, Rule
from sublearn.ensembles import Problem
from sublearn.training import Learner, learner_named, settings_of

if TYPE_CHECKING:
    from sublearn.estimates._count import Counted

    Result = TypeVar("Result", bound=Counted[Any, Any])

FORMAT = "sublearn trials 1"
_KEYS = {"format", "kind", "question", "early", "seconds", "trials"}


def described(value: Any) -> Any:
    """Plain values that tell two questions apart, for JSON: problems and allocations by their digest.

    >>> from sublearn.allocations import FirstRows
    >>> described({"W": FirstRows(5)})
    {'W': {'rule': 'FirstRows', 'k': 5, 'count': None}}
    """
    if isinstance(value, (Problem, Allocation)):
        return value.digest
    if isinstance(value, Learner):
        return {"name": value.name, **settings_of(value)}
    if isinstance(value, Mapping):
        return {name: described(part) for name, part in value.items()}
    if isinstance(value, Rule):
        return value.describe()
    if is_dataclass(value):
        return {field.name: described(getattr(value, field.name)) for field in fields(value)}
    return value


def learner_of(plain: Mapping[str, Any]) -> Learner:
    """The learner that :func:`described` describes."""
    settings = {name: value for name, value in plain.items() if name != "name"}
    return learner_named(plain["name"], **settings)


def save(counted: Counted[Any, Any], path: Path) -> None:
    """Write it beside and rename it, so that a reader never sees half a file."""
    kinds = get_type_hints(counted.record)
    columns: dict[str, Any] = {}
    for place, name in list(enumerate(counted.record._fields))[1:]:  # but for the trial's number
        cells = [record[place] for record in counted.records]
        # JSON has no nan.
        columns[name] = [float(v).hex() for v in cells] if kinds[name] is float else cells
    content = {
        "format": FORMAT,
        "kind": type(counted).__name__,
        "question": described(counted.question),
        "early": counted.early,
        "seconds": counted.seconds,
        "trials": columns,
    }
    save_json(path, content, "an estimate", indent=None)


def load(
    kind: type[Result], path: Path, problem: Problem, allocation: Allocation | Mapping[str, Rule]
) -> Result:
    """Read what :func:`save` wrote; anything else is an error that says what is wrong."""

    def read(content: Any) -> Result:
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise BadInputError(f"it is not of the format {FORMAT!r}.")
        if content["kind"] != kind.__name__:
            other = shown(content["kind"])
            raise BadInputError(f"it holds another kind of result, {other}, not {kind.__name__}.")
        if set(content) != _KEYS:
            raise Unreadable(f"its entries are not {', '.join(sorted(_KEYS))}")
        plain = dict(content["question"])
        for name, given in (("problem", problem), ("allocation", allocation)):
            if plain.pop(name) != described(given):
                raise BadInputError(f"it answers another question: its {name} is another one.")
        for name, rebuilt in kind.asks.parts.items():
            plain[name] = None if plain[name] is None else rebuilt(plain[name])
        question = kind.asks(problem, allocation, **plain)
        early, seconds = content["early"], content["seconds"]
        if type(early) is not bool or type(seconds) is not float or not 0 <= seconds < math.inf:
            raise Unreadable("early or seconds is none")
        records = _records(kind, content["trials"])
        return replace(kind.of(question), records=records, early=early, seconds=seconds)

    return load_json(path, "estimate", read)


def _records(kind: type[Counted[Any, Any]], columns: Mapping[str, Any]) -> tuple[Any, ...]:
    """Records from columns; every value must be of the type, and among the words, of its field."""
    kinds = get_type_hints(kind.record)
    names = [name for name in kind.record._fields if name != "trial"]
    if set(columns) != set(names):
        raise Unreadable(f"its trials must have the columns {', '.join(names)}")
    read = [[_read(name, kinds[name], value) for value in columns[name]] for name in names]
    for name, words in kind.words.items():
        if not set(columns[name]) <= set(words):
            raise Unreadable(f"{name} holds other words than {', '.join(map(repr, words))}")
    if len({len(column) for column in read}) > 1:
        raise Unreadable("its columns have different lengths")
    return tuple(
        kind.record(trial, *values) for trial, values in enumerate(zip(*read, strict=True))
    )


def _read(name: str, kind: Any, value: Any) -> Any:
    if kind is float:
        return float.fromhex(value)
    if type(value) not in (get_args(kind) or (kind,)):
        raise Unreadable(f"{name} holds {value!r}")
    if type(value) is int and value < 0:
        raise Unreadable(f"{name} holds {value}, and counts are not negative")
    return value
