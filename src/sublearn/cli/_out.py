"""Where results are to be written: looked at before any work is done, not after it."""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from pathlib import Path

from sublearn._errors import BadInputError, one_of
from sublearn._files import check_out

_ROOM = 250  # bytes for the names of what is written there


def check_folder(out: str | None, option: str = "--out") -> Path | None:
    """The folder that ``option`` names, if it is there and can be written, or can be made."""
    if out is None:
        return None
    folder = check_out(out, option, room=_ROOM)
    try:
        if folder.exists() and not folder.is_dir():
            raise BadInputError(f"{option} must name a folder, and {out} is a file.")
        _try(next(place for place in (folder, *folder.absolute().parents) if place.exists()))
    except OSError as problem:
        raise BadInputError(
            f"{option} must name a folder that can be written, not {out}: {_why(problem)}."
        ) from None
    return folder


def check_file(
    out: str | None, endings: Collection[str] = (), option: str = "--out"
) -> Path | None:
    """The file that ``option`` names, if its folder is there and can be written."""
    if out is None:
        return None
    file = Path(out)
    check_out(file.parent if file.name else out, f"{option}: the folder of the file", room=_ROOM)
    if endings:
        one_of(f"{option}: the file's ending", file.suffix, endings)
    try:
        if file.is_dir():
            raise BadInputError(f"{option} must name a file, and {out} is a folder.")
        if not file.parent.is_dir():
            raise BadInputError(
                f"{option}: there is no folder {file.parent} to write {file.name} in."
            )
        # A file is renamed into its place: a device or a pipe there would be gone.
        if file.exists() and not file.is_file():
            raise BadInputError(f"{option} must name a file, and {out} is a device or a pipe.")
        _try(file.parent)
    except OSError as problem:
        raise BadInputError(
            f"{option} must name a file that can be written, not {out}: {_why(problem)}."
        ) from None
    return file


def _try(folder: Path) -> None:
    """Write there and take it away: rights and kinds of disks have too many rules to guess from."""
    with tempfile.TemporaryFile(dir=folder):
        pass


def _why(problem: OSError) -> str:
    words = problem.strerror or str(problem)
    return f"{words[:1].lower()}{words[1:]}"
