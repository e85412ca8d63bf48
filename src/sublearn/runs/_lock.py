"""One run at a time in a folder."""

from __future__ import annotations

import errno
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sublearn._errors import BadInputError, printable
from sublearn._files import explained
from sublearn.runs._files import KEPT, open_in_place

LOCK = ".lock"
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
