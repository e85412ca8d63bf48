"""What every way of estimating shares: counts that Ctrl-C cuts short are printed all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from sublearn._interrupts import INTERRUPTED
from sublearn.cli._show import print_json


def counted(count: Callable[[], Any]) -> tuple[Any, bool]:
    """What was counted, and whether Ctrl-C came before the end of it."""
    from sublearn.estimates import Unfinished

    try:
        return count(), False
    except Unfinished as stopped:
        return stopped.estimate, True


def show_counts(
    question: dict[str, Any],
    found: Any,
    unfinished: bool,
    trials: int,
    as_json: bool,
    more: Callable[[], None] = lambda: None,
) -> None:
    """Print what was found, with ``more`` lines behind it; end with 130 where it is not all."""
    if as_json:
        print_json({**question, **found.to_dict(), "unfinished": unfinished})
    else:
        before = f"unfinished, {found.trials} of {trials} trials: " if unfinished else ""
        typer.echo(f"{before}{found}")
        more()
    if unfinished:
        raise typer.Exit(INTERRUPTED)
