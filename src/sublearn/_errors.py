"""Bad input: one sentence that names the argument, the value and what is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from math import inf, log10, nan
from numbers import Integral, Real
from typing import NoReturn

_LONGEST = 1000
_READABLE = 80  # signs of one value


class BadInputError(ValueError):
    """A request that cannot be answered as it was put; the message says what is allowed."""

    def __init__(self, message: str) -> None:
        # An array is written over several lines, and a value from a file may be as long as the file.
        message = " ".join(message.split("\n")) if "\n" in message else message
        if len(message) > _LONGEST:
            message = f"{message[: _LONGEST // 2]} ... {message[-_LONGEST // 2 :]}"
        super().__init__(message)


def no_truth(result: object, ask: str) -> NoReturn:
    """Refuse ``if result:``, which would be true whatever the result says."""
    name = type(result).__name__
    raise BadInputError(f"a {name} is neither true nor false: ask for its {ask}.")


def printable(text: str) -> str:
    """The same text in one line, with what a terminal would obey written out.

    >>> printable("red" + chr(27) + "[31m")
    'red\\\\x1b[31m'
    """
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text
    )


def first_line(problem: BaseException) -> str:
    """What somebody else's exception says, cut to one line; its name where it says nothing.

    >>> first_line(OSError("no such place.\\nLook elsewhere."))
    'no such place'
    """
    lines = str(problem).strip().splitlines() or [type(problem).__name__]
    return lines[0].rstrip(".")[:200]


def shown(value: object) -> str:
    """A value as a sentence shows it: as Python writes it, as far as that can be read.

    >>> shown("x"), shown(12), shown(-(10**5000)), len(shown("x" * 5000))
    ("'x'", '12', '-1e+5000', 81)
    """
    if isinstance(value, int) and abs(value) >= 10**_READABLE:  # Python refuses to write long ones
        power, rest = divmod(log10(abs(value)), 1)
        return f"{'-' * (value < 0)}{10**rest:.2g}e+{power:.0f}"
    try:
        text = repr(value)
    except ValueError:  # one such number inside
        return f"a {type(value).__name__} with a number of thousands of digits"
    half = _READABLE // 2
    return text if len(text) <= _READABLE else f"{text[: half - 2]} ... {text[2 - half :]}"


def as_float(value: object) -> float:
    """``value`` as a float: nan if it is no number, infinite if it is larger than floats are.

    >>> as_float(3), as_float("3"), as_float(-(10**400))
    (3.0, nan, -inf)
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        return nan
    try:
        return float(value)
    except OverflowError:
        return -inf if value < 0 else inf


def by_name(weights: object) -> None:
    """Refuse weights that are no dict: a list of matrices does not say which is which.

    >>> by_name([1.0])
    Traceback (most recent call last):
    ...
    sublearn._errors.BadInputError: weights must be a dict of matrices by name, like {'W': W}, not a list.
    """
    if not isinstance(weights, Mapping):
        kind = type(weights).__name__
        raise BadInputError(
            f"weights must be a dict of matrices by name, like {{'W': W}}, not a {kind}."
        )


def whole_number(name: str, value: object, *, least: int, most: int | None = None) -> int:
    """``value`` as an int of at least ``least`` and at most ``most``, or an error that names it.

    >>> whole_number("samples", 4, least=1)
    4
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise BadInputError(
            f"{name} must be a whole number of at least {least}, not {shown(value)}."
        )
    if most is not None and int(value) > most:
        raise BadInputError(f"{name} must be at most {most}, not {shown(value)}.")
    return int(value)


def positive(name: str, value: object) -> float:
    """``value`` as a positive finite float, or an error that names it."""
    number = as_float(value)
    if not 0 < number < inf:
        raise BadInputError(f"{name} must be positive and finite, not {shown(value)}.")
    return number


def fraction(name: str, value: object) -> float:
    """``value`` as a float in [0, 1), or an error that names it."""
    number = as_float(value)
    if not 0 <= number < 1:
        raise BadInputError(f"{name} must lie in [0, 1), not {shown(value)}.")
    return number


def one_of(name: str, value: object, allowed: Iterable[str]) -> str:
    """Return ``value`` if it is one of the ``allowed`` words, or say which words are."""
    words = list(allowed)
    if not isinstance(value, str) or value not in words:
        close = get_close_matches(value, words, n=1) if isinstance(value, str) else []
        if isinstance(value, str) and not close:
            close = [word for word in words if word.lower() == value.lower()]
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise BadInputError(f"{name} must be one of {', '.join(words)}, not {shown(value)}.{hint}")
    return value
