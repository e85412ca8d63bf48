"""One run at a time in a folder."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sublearn._errors import BadInputError
from sublearn.runs._files import explained

LOCK = ".lock"


@contextmanager
def only_run(folder: Path) -> Iterator[None]:
    """Hold the folder, or say which process does.

    The lock belongs to the open file and not to its content (flock), so it falls with the process,
    however that ends: after kill -9 nothing stale is left behind.
    """
    import fcntl

    path = folder / LOCK
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as problem:
        raise explained(problem, path) from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(handle, 200).decode(errors="replace").strip() or "another process"
            raise BadInputError(
                f"{folder} is in use by {holder}; wait for it to end, or give another folder."
            ) from None
        except OSError as problem:  # a file system that knows no locks
            raise explained(problem, path) from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)
