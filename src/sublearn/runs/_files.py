"""The files of a run: what is written, what was left behind, what they take."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from sublearn._errors import BadInputError
from sublearn._files import PART, explained, write_whole

KEPT = "what was finished before is kept, and the same command goes on from there"
SHARDS = "shards"
DAMAGED = ".damaged"


def write_file(path: Path, content: bytes) -> None:
    """A file of a run: whole or as it was before."""
    write_whole(path, content, kept=KEPT)


def write_json(path: Path, content: Any) -> None:
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    # A lone surrogate is no text that a file could hold; what a task raises may be anything.
    write_file(path, f"{text}\n".encode(errors="backslashreplace"))


def make_folder(folder: Path, *, parents: bool = False) -> None:
    """Make a folder; that of the run itself is never made again once it was there."""
    try:
        folder.mkdir(parents=parents, exist_ok=True)
    except OSError as problem:
        raise explained(problem, folder, KEPT) from None


def is_no_file(path: Path) -> bool:
    """Whether a folder, a pipe or a device stands where a file of the run should; a link is replaced."""
    return os.path.lexists(path) and not path.is_symlink() and not path.is_file()


def set_aside(path: Path) -> Path:
    """Give what is damaged another name, which is returned; no folder that has the name is lost."""
    aside, count = path.with_name(path.name + DAMAGED), 1
    while os.path.lexists(aside) and (aside.is_dir() or path.is_dir()):
        count += 1
        aside = path.with_name(f"{path.name}{DAMAGED}-{count}{DAMAGED}")
    try:
        path.replace(aside)
    except OSError as problem:
        raise explained(problem, path, KEPT) from None
    return aside


def open_in_place(path: Path) -> int:
    """A handle on a file that is added to and never replaced, made if it is not there.

    It must be nobody else's file under this name: no link, no pipe, no device.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    refused = BadInputError(
        f"{path} must be a file of the run, and it is a folder, a link or a device."
    )
    try:
        handle = os.open(path, flags, 0o666)
    except OSError as problem:
        if problem.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise refused from None
        raise explained(problem, path, KEPT) from None
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(handle)
        raise refused
    return handle


def check_folders(experiment: Path) -> None:
    """Refuse the folder of an experiment that leads elsewhere."""
    for place in (experiment, experiment / SHARDS):
        if place.is_symlink() or (os.path.lexists(place) and not place.is_dir()):
            raise BadInputError(f"{place} must be a folder of the run, and it is a link or a file.")


def remove_leftovers(folder: Path, names: Iterable[str]) -> None:
    """Remove what a killed run was still writing: files with our ending, where only a run writes."""
    below = [place for name in names for place in (folder / name, folder / name / SHARDS)]
    for place in (folder, *below):
        if place.is_symlink() or not place.is_dir():
            continue
        for path in place.glob(f".*{PART}"):
            if path.is_file() and not path.is_symlink():
                path.unlink(missing_ok=True)


def files_below(folder: Path) -> Iterator[Path]:
    """Every file of a folder, without following links, in a fixed order."""
    for place, below, names in os.walk(folder):
        below.sort()
        yield from (Path(place) / name for name in sorted(names))


def disk_bytes(folder: Path) -> int:
    """What a folder holds, in bytes."""
    total = 0
    for path in files_below(folder):
        with suppress(OSError):  # a run that is under way takes files away
            total += path.lstat().st_size
    return total
