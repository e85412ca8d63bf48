"""Help and usage in our words: paragraphs that fill the line, and what is wrong with an option."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from copy import copy
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.models import OptionInfo

QUESTION = (
    *("network", "samples", "learn", "allocation", "weight", "data"),
    *("input_rank", "teacher", "ensemble", "covariance"),
)
"""The options that say what is asked about: in every help they come first, in this order."""
_LAST = ("error", "workers", "seed", "out", "overwrite", "as_json")


def add_commands(app: typer.Typer, *commands: Callable[..., None]) -> None:
    """Add functions as commands; the lines of a docstring are not those of a terminal."""
    for command in commands:
        paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
        words = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
        app.command(help=words)(with_groups(command))


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for each field of its groups: those parameters that are dataclasses.

    What several commands take is declared once, as a group, together with what it is read into. An option
    is called like its parameter; words in its annotation are its help, of two the first is what stands for
    its value there.
    """
    kinds = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in kinds.items() if is_dataclass(kind)}
    options: list[inspect.Parameter] = []
    for name, option in inspect.signature(command).parameters.items():
        group = groups.get(name)
        inside = {name: option} if group is None else inspect.signature(group).parameters
        types = kinds if group is None else get_type_hints(group, include_extras=True)
        options += [
            one.replace(
                kind=inspect.Parameter.KEYWORD_ONLY,
                annotation=_option(one.name, types[one.name]),
            )
            for one in inside.values()
        ]

    @wraps(command)
    def run(**given: Any) -> None:
        made = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**given, **made)

    options.sort(key=lambda option: _place(option.name))
    run.__annotations__ = {option.name: option.annotation for option in options}
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    return run


def _option(name: str, kind: Any) -> Any:
    """The annotation of a parameter, with the option of its name where it has none of its own."""
    if get_origin(kind) is not Annotated:
        return kind
    plain, *words, told = get_args(kind)
    metavar = words[0] if words else None
    told = typer.Option(metavar=metavar, help=told) if isinstance(told, str) else copy(told)
    # Typer keeps the first name that an option was given as its default.
    if isinstance(told, OptionInfo) and told.default is ...:
        told.param_decls = (f"--{name.replace('_', '-')}",)
    return Annotated[plain, told]


def _place(name: str) -> tuple[int, int]:
    """Where an option stands in a help: first, as the command declares it, or last."""
    if name in QUESTION:
        return 0, QUESTION.index(name)
    return (2, _LAST.index(name)) if name in _LAST else (1, 0)


# Options that were other questions, and the commands that answer them now.
_LEARNERS = (
    "sublearn estimate-within --eps EPS, of several learners sublearn trainability --eps EPS"
)
_MOVED = {
    "decide within": "ask sublearn decide-within --eps EPS.",
    "estimate within": f"ask {_LEARNERS}.",
    "estimate labels": "ask sublearn estimate-solved.",
    "estimate fresh": "ask sublearn generalisation --fresh N, or after a match within eps "
    "sublearn generalisation-within --fresh N --eps EPS.",
    **dict.fromkeys(
        ("estimate learner", "estimate steps", "estimate rate"),
        f"ask {_LEARNERS}, or with labels sublearn estimate-solved.",
    ),
}


def sentence(problem: typer.TyperException) -> str:
    """The problem in one sentence; empty where the help has been printed instead."""
    command = getattr(getattr(problem, "ctx", None), "info_name", None)
    option = getattr(problem, "option_name", "")
    if instead := _MOVED.get(f"{command} {option[2:]}"):
        return f"{command} takes no {option}: {instead}"
    number = _number(problem) if isinstance(problem, typer.BadParameter) else None
    if number is not None:
        return number
    message = problem.format_message().strip()
    return f"{message.rstrip('.')}." if message and not message.endswith("?") else message


def _number(problem: typer.BadParameter) -> str | None:
    """For numbers that cannot be read or are out of bounds; None for anything else."""
    from pydantic import ValidationError

    # What the validator that typer uses found first, if it was one that stopped here.
    cause = problem.__cause__
    if not isinstance(cause, ValidationError) or problem.param is None:
        return None
    error: Any = cause.errors()[0]
    kind, value = str(error["type"]), error["input"]
    # Bounds are on whole numbers: what was read as a number before it was compared.
    whole = kind.startswith("int") or (kind in _BOUNDS and _is_whole(value))
    if not whole and not kind.startswith("float") and kind not in _BOUNDS:
        return None
    least, most = (getattr(problem.param, end, None) for end in ("min", "max"))
    bounds = [f"at least {least}"] if least is not None else []
    bounds += [f"at most {most}"] if most is not None else []
    allowed = "a whole number" if whole else "a number"
    if bounds:
        allowed += f" of {' and '.join(bounds)}"
    said = value if kind in _BOUNDS else repr(value)
    return f"{problem.param.opts[0]} must be {allowed}, not {said}."


_BOUNDS = ("greater_than_equal", "less_than_equal")


def _is_whole(value: object) -> bool:
    try:
        return int(str(value)) is not None
    except ValueError:
        return False
