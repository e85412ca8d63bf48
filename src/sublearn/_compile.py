"""Machine code for the loops that no array expression says well, kept on disk between runs.

The wrappers exist so that the type checker sees the Python signatures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])
_USUAL: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}


def compiled(function: Function) -> Function:
    """The same function as machine code, free of the interpreter lock, every rounding as written."""
    return cast(Function, numba.njit(**_USUAL)(function))


def fused(function: Function) -> Function:
    """The same where multiply and add may be one instruction, and loops may sum in several lanes.

    Expressions keep their order: sums of a large and a small part, as in exp, stay what they are.
    """
    return cast(Function, numba.njit(**_USUAL, fastmath={"contract", "reassoc"})(function))


def fast(function: Function) -> Function:
    """The same with sums in any order and divisions as products with reciprocals.

    A NaN still compares unlike everything: tests for a state that blew up rely on it.
    """
    flags = {"contract", "reassoc", "arcp", "nsz"}
    return cast(Function, numba.njit(**_USUAL, fastmath=flags)(function))
