"""Ctrl-C during an estimate: what was counted until then."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from typing import Generic, TypeVar

Found = TypeVar("Found")


class Unfinished(KeyboardInterrupt, Generic[Found]):
    """Ctrl-C during an estimate: what was decided until then is in ``estimate``.

    Whoever stops a run may have looked at it: its confidence interval is the one that may stop at any
    time.
    """

    def __init__(self, estimate: Found, trials: int) -> None:
        super().__init__(f"interrupted after {trials} trials")
        self.estimate = estimate


@contextmanager
def keeping(records: Sized, summary: Callable[[], Found]) -> Iterator[None]:
    """Turn Ctrl-C into :class:`Unfinished` with the summary so far, if there is anything to keep."""
    try:
        yield
    except KeyboardInterrupt:
        if not len(records):
            raise
        raise Unfinished(summary(), len(records)) from None
