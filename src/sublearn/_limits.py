"""Limits: what is asked for is weighed before it is allocated."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from sublearn._errors import BadInputError, shown, whole_number

MOST_STEPS = 2000
"""Steps of a chain: layers, or time steps of a recurrent network."""


def check_memory(what: str, size: int, instead: str) -> None:
    """Refuse what needs more bytes than there are; ``instead`` says what to ask for.

    >>> check_memory("a mask of W", 9, "a smaller network")
    >>> check_memory("a mask of W", 10**18, "a smaller network")
    Traceback (most recent call last):
    ...
    sublearn._errors.BadInputError: a mask of W needs about 1 EB of memory, ...
    """
    limit = memory_limit()
    if size > limit:
        raise BadInputError(
            f"{what} needs about {in_units(size)} of memory, and at most {in_units(limit)} can be "
            f"had here: ask for {instead}."
        )


def memory_limit() -> int:
    """The bytes that this process may have: the machine's, or less where a limit is set."""
    found = [2**63]
    with suppress(AttributeError, ValueError, OSError):  # not every system tells
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with suppress(ImportError):
        import resource

        soft = resource.getrlimit(resource.RLIMIT_AS)[0]
        if soft != resource.RLIM_INFINITY:
            found.append(soft)
    with suppress(OSError, ValueError):  # the limit of a container
        found.append(int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return min(found)


def most_workers() -> int:
    """How many processes may be asked for: enough for every machine, and no slip of the pen."""
    return max(64, 4 * (os.cpu_count() or 1))


def check_workers(workers: int, *, started_here: bool = True) -> int:
    """``workers`` as a number of processes, which has a limit where they are started here."""
    return whole_number("workers", workers, least=1, most=most_workers() if started_here else None)


def in_units(size: float) -> str:
    """A number of bytes as people read it.

    >>> in_units(1), in_units(2_500), in_units(6.1e9), in_units(10**4000)
    ('1 B', '2.5 kB', '6.1 GB', '1e+3982 EB')
    """
    units = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
    if isinstance(size, int) and size >= 10**300:  # not a float any more
        return f"{shown(size // 10**18)} {units[-1]}"
    place = 0
    while size >= 1000 and place < len(units) - 1:
        size, place = size / 1000, place + 1
    return f"{size:.3g} {units[place]}" if size < 1000 else f"{size:.0e} {units[place]}"


def in_time(seconds: float, *, about: bool = False) -> str:
    """A duration as people read it, never 0 of anything; ``about`` says that it is estimated.

    >>> in_time(0.03), in_time(1.23), in_time(50), in_time(500), in_time(9000)
    ('under 0.1 s', '1.2 s', '50 s', '8 min', '2.5 hours')
    >>> in_time(0.03, about=True), in_time(50, about=True)
    ('under 0.1 s', 'about 50 s')
    """
    if seconds < 0.1:
        return "under 0.1 s"
    word = "about " * about
    if seconds < 100:
        return f"{word}{seconds:.1f} s" if seconds < 9.95 else f"{word}{seconds:.0f} s"
    return (
        f"{word}{seconds / 60:.0f} min" if seconds < 6000 else f"{word}{seconds / 3600:.1f} hours"
    )
