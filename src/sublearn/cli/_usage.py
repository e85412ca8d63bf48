"""Help and usage in our words: paragraphs that fill the line, and what is wrong with an option."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import typer


def add_commands(app: typer.Typer, *commands: Callable[..., None]) -> None:
    """Add functions as commands; the lines of a docstring are not those of a terminal."""
    for command in commands:
        paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
        words = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
        app.command(help=words)(command)


def sentence(problem: typer.TyperException) -> str:
    """The problem in one sentence; empty where the help has been printed instead."""
    number = _number(problem) if isinstance(problem, typer.BadParameter) else None
    if number is not None:
        return number
    message = problem.format_message().strip()
    return f"{message.rstrip('.')}." if message and not message.endswith("?") else message


def _number(problem: typer.BadParameter) -> str | None:
    """For numbers that cannot be read or are out of bounds; None for anything else."""
    found = _first_error(problem.__cause__)
    if found is None or problem.param is None:
        return None
    kind, value = str(found["type"]), found["input"]
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


def _first_error(cause: BaseException | None) -> Any:
    """What the validator that typer uses found first, if it was one that stopped here."""
    from pydantic import ValidationError

    return cause.errors()[0] if isinstance(cause, ValidationError) else None


def _is_whole(value: object) -> bool:
    try:
        return int(str(value)) is not None
    except ValueError:
        return False
