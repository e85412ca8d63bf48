"""Files that are whole or not there: written beside, brought to disk, renamed.

Everything that this package writes goes through :func:`write_whole`.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any

from sublearn._errors import BadInputError

PART = ".sublearn-part"
_AS_BEFORE = "what was there before is as it was"
_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_RIGHTS = (errno.EROFS, errno.EACCES, errno.EPERM)
_LONGEST_PATH, _LONGEST_NAME = 4095, 255


def write_whole(path: Path, content: bytes, *, kept: str = _AS_BEFORE) -> None:
    """Write a file so that, whatever happens, it is there in full or as it was before.

    That holds for a kill, a full disk and a power cut: the content is brought to disk under another
    name, then renamed, then the new name is brought to disk. ``kept`` is what an error says of the rest.
    """
    # A name of our own, which no other process has; cut, so that a long name stays a name.
    beside = path.with_name(f".{path.name[:40]}-{os.getpid()}-{secrets.token_hex(4)}{PART}")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        handle = os.open(beside, flags, 0o666)
        try:
            with open(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(beside)
            raise
        sync_folder(path.parent)
    except OSError as problem:
        raise explained(problem, path, kept) from None


def save_json(path: str | Path, content: Any, what: str, indent: int | None = 1) -> None:
    """Write JSON to a file, whole; a device or a pipe there, which would be gone, is refused."""
    target = Path(path)
    if target.exists() and not target.is_file():
        raise BadInputError(f"{what} must be saved as a file, and {target} is none.")
    text = json.dumps(content, indent=indent, allow_nan=False)
    write_whole(target, f"{text}\n".encode())


def explained(problem: OSError, path: Path, kept: str = _AS_BEFORE) -> OSError:
    """The same error, which names the file and says what it means."""
    code = problem.errno or errno.EIO
    if problem.errno in _SPACE:
        why = f"{os.strerror(code)}; make room: {kept}"
    elif problem.errno in _RIGHTS:
        why = f"cannot be written ({os.strerror(code)}); {kept}"
    elif problem.errno == errno.ENOENT:
        why = f"cannot be written, because its folder is gone; {kept}"
    else:
        why = f"{os.strerror(code) if problem.errno else problem}; {kept}"
    return OSError(code, why, str(path))


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to disk, so that a rename outlives a power cut."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:  # a folder that may be written but not listed
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def check_out(out: str | Path, name: str = "out", *, room: int = 0) -> Path:
    """The path of a folder to write in, or one sentence on why it can be none.

    ``room`` is how many bytes the longest path below it takes.
    """
    text = os.fspath(out)
    if not text.strip():
        raise BadInputError(f"{name} must name a folder; {text!r} names none.")
    folder = check_path(text, name, room=room)
    for place in (folder, *folder.parents):
        try:
            os.stat(place)
            break
        except FileNotFoundError:
            if place.is_symlink():
                raise BadInputError(
                    f"{name} must name a folder, and {place} is a link to nothing."
                ) from None
        except OSError as problem:
            if problem.errno == errno.ELOOP:
                raise BadInputError(
                    f"{name} must name a folder, and {place} is a link that leads back to itself."
                ) from None
            break  # said by who tries to write there
    return folder


def check_path(text: str, name: str, *, room: int = 0) -> Path:
    """A path that every disk can hold, wherever it leads; ``room`` as in :func:`check_out`."""
    try:
        length = len(text.encode())
    except UnicodeEncodeError:
        raise BadInputError(f"{name} must be a path in UTF-8, not {text!r}.") from None
    if "\0" in text:
        raise BadInputError(f"{name} must be a path, which holds no zero byte, not {text!r}.")
    path = Path(text)
    if length + room > _LONGEST_PATH or any(
        len(part.encode()) > _LONGEST_NAME for part in path.parts
    ):
        raise BadInputError(
            f"{name} is too long: a path may have {_LONGEST_PATH - room} bytes here, and each of its "
            f"parts {_LONGEST_NAME}, not {length} as {text!r}."
        )
    return path
