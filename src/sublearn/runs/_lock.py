"""One run at a time in a folder."""

from __future__ import annotations

import errno
import os
import re
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sublearn._errors import BadInputError, printable
from sublearn._files import explained
from sublearn._reading import Unreachable, Unreadable, read_regular
from sublearn.runs._files import KEPT, open_in_place

LOCK = ".lock"
_WRITTEN = re.compile(rb"process \d+ on .*\n[0-9a-f]*\n?|\0*")  # or cut short by a power cut
_LONGEST = 1000  # bytes, with the longest name of a machine
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL)


class Held:
    """A folder that this process holds."""

    def __init__(self, path: Path, handle: int):
        self._path = path
        self._handle = handle
        # Drawn anew each time, so that two machines never write the same.
        words = f"process {os.getpid()} on {socket.gethostname()}\n{secrets.token_hex(8)}\n"
        self._words = words.encode()
        os.ftruncate(handle, 0)
        os.pwrite(handle, self._words, 0)

    def check(self) -> None:
        """Raise OSError if the folder was taken away, or by another run where locks do not hold.

        Asked before every write: what is written into a folder that is gone would be lost.
        """
        try:
            there, ours = os.stat(self._path, follow_symlinks=False), os.fstat(self._handle)
            same = (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)
        except OSError:
            same = False
        if not same:
            raise OSError(
                errno.ENOENT,
                "the folder was removed or replaced while the run was under way; nothing more is "
                "written, and the same command starts anew",
                str(self._path.parent),
            )
        if os.pread(self._handle, len(self._words) + 1, 0) != self._words:
            raise OSError(
                errno.EBUSY,
                "another run has taken this folder, on a disk whose locks do not hold; this one stops, "
                f"and {KEPT}",
                str(self._path.parent),
            )


def check_lock(folder: Path) -> None:
    """Refuse a folder whose lock was not written by a run: it would be written over."""
    path = folder / LOCK
    try:
        ours = _WRITTEN.fullmatch(read_regular(path, _LONGEST, links=False)) is not None
    except FileNotFoundError:
        return
    except Unreachable as problem:
        raise BadInputError(f"{path} cannot be read ({problem}); give another folder.") from None
    except Unreadable:  # a link or a device, which is refused when it is opened, or too long
        ours = not path.is_file() or path.is_symlink()
    if not ours:
        raise BadInputError(f"{path} was not written by a run; give another folder, or remove it.")


@contextmanager
def only_run(folder: Path) -> Iterator[Held]:
    """Hold the folder, or say which process does.

    The lock belongs to the open file and not to its content (flock), so it falls with the process,
    however that ends: after kill -9 nothing stale is left behind.
    """
    try:
        import fcntl
    except ImportError:
        raise BadInputError(
            "runs need file locks (fcntl), which this system does not have, so that two runs in one "
            "folder could not be kept apart; every command without a run folder works."
        ) from None

    path = folder / LOCK
    handle = open_in_place(path)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            words = os.pread(handle, 200, 0).decode(errors="replace").partition("\n")[0]
            raise BadInputError(
                f"{folder} is in use by {printable(words) or 'another process'}; wait for it to end, "
                "or give another folder."
            ) from None
        except OSError as problem:
            if problem.errno in _NO_LOCKS:
                raise BadInputError(
                    f"{folder} is on a disk that knows no locks ({problem.strerror}), so that a second "
                    "run in it could not be refused; give a folder on another disk."
                ) from None
            raise explained(problem, path, KEPT) from None
        try:
            held = Held(path, handle)
        except OSError as problem:  # a disk that is full
            raise explained(problem, path, KEPT) from None
        yield held
    finally:
        os.close(handle)
