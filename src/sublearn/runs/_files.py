"""Files that are whole or not there: written beside, brought to disk, renamed."""

from __future__ import annotations

import errno
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

_BESIDE = ".tmp"
_KEPT = "what was finished before is kept, and the same command goes on from there"
_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_whole(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Write a file so that, whatever happens, it is there in full or as it was before.

    Not ``durable``: after a power cut it may be torn, which is for files that are made anew from others.
    """
    beside = path.with_name(f".{path.name}{_BESIDE}")
    try:
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(beside, path)
        if durable:
            sync_folder(path.parent)
    except OSError as problem:
        with suppress(OSError):
            beside.unlink()
        raise explained(problem, path) from None


def explained(problem: OSError, path: Path) -> OSError:
    """The same error, which says what it means for the run."""
    if problem.errno in _SPACE:
        why = f"{os.strerror(problem.errno or errno.ENOSPC)}; make room: {_KEPT}"
    elif problem.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        why = f"cannot be written ({os.strerror(problem.errno)}); {_KEPT}"
    else:
        why = f"{problem.strerror or problem}; {_KEPT}"
    return OSError(problem.errno or errno.EIO, why, str(path))


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to disk, so that a rename outlives a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(path: Path, content: Any, *, durable: bool = True) -> None:
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    write_whole(path, f"{text}\n".encode(), durable=durable)


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise explained(problem, folder) from None


def remove_leftovers(folder: Path) -> None:
    """Remove what a killed run was still writing; nothing of it was ever in use."""
    for ending in (_BESIDE, ".part"):  # ours, and that of pictures
        for path in folder.rglob(f".*{ending}"):
            path.unlink(missing_ok=True)


def disk_bytes(folder: Path) -> int:
    """What a folder holds, in bytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
