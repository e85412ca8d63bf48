"""A progress bar or a growing curve on standard error, only where somebody is looking."""

from __future__ import annotations

import math
import sys
import time
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
        SpinnerColumn,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    # The first step may take long: what turns and counts seconds shows that it is under way.
    with Progress(
        SpinnerColumn(),
        TextColumn(what),
        TimeElapsedColumn(),
        BarColumn(bar_width=None),
        TaskProgressColumn(),
        TextColumn("{task.fields[words]}"),
        *([TimeRemainingColumn()] if time_left else []),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task("", total=total, words="")
        yield lambda done, words: bar.update(task, completed=done, words=words)


_BLOCKS = " ▁▂▃▄▅▆▇█"
_ROWS = 8
_FRAME = 0.1  # seconds between two pictures; nothing that is computed depends on it

Show = Callable[[int, float], None]


def drawing(losses: list[float], columns: int, rows: int = _ROWS) -> list[str]:
    """Lines of text: the losses from left to right, on a logarithmic scale.

    >>> print("\\n".join(drawing([8.0, 4.0, 2.0, 1.0], columns=4, rows=2)))
    █▃
    ██▆▁
    """
    seen = [math.log(max(loss, 1e-300)) for loss in losses if math.isfinite(loss)]
    if not seen:
        return []
    # The lowest loss of each stretch of steps: what was reached, not what it swung to.
    width = max(1, math.ceil(len(seen) / columns))
    points = [min(seen[i : i + width]) for i in range(0, len(seen), width)]
    low, high = min(points), max(points)
    span = (high - low) or 1.0
    heights = [1 + round((rows * 8 - 1) * (point - low) / span) for point in points]
    lines = []
    for row in range(rows - 1, -1, -1):
        lines.append("".join(_BLOCKS[min(8, max(0, height - 8 * row))] for height in heights))
    return [line.rstrip() for line in lines]


@contextmanager
def live_curve(total: int, what: str) -> Iterator[Show]:
    """Yield ``show(step, loss)``; it does nothing when standard error is not a terminal."""
    if not sys.stderr.isatty():
        yield lambda step, loss: None
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    losses: list[float] = []
    console = Console(stderr=True)
    last = 0.0

    def picture(step: int) -> Text:
        head = f"step {step} of {total}   {what} {losses[-1]:.4g}   lowest {min(losses):.4g}"
        return Text("\n".join([head, *drawing(losses, max(20, console.width - 2))]))

    with Live(console=console, auto_refresh=False, transient=True) as screen:

        def show(step: int, loss: float) -> None:
            nonlocal last
            losses.append(loss)
            if time.monotonic() - last >= _FRAME:
                last = time.monotonic()
                screen.update(picture(step), refresh=True)

        yield show
