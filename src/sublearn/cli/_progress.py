"""A progress bar on standard error, only where somebody is looking."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[float, str], None]


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show that ``what`` is under way, and for how long, where nobody can say how far it is."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn(what), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        bar.add_task("", total=None)
        yield


@contextmanager
def progress_bar(total: int, what: str, *, time_left: bool = True) -> Iterator[Advance]:
    """Yield ``advance(done, words)``; it does nothing when standard error is not a terminal.

    Without ``time_left`` the words say it: where steps differ much, the bar itself cannot know.
    """
    if not sys.stderr.isatty():
        yield lambda done, words: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    with Progress(
        TextColumn(what),
        BarColumn(bar_width=None),
        TaskProgressColumn(),
        TextColumn("{task.fields[words]}"),
        *([TimeRemainingColumn()] if time_left else []),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task("", total=total, words="")
        yield lambda done, words: bar.update(task, completed=done, words=words)
