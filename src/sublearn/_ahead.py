"""A second process compiles what will be needed next, while this one is busy compiling.

Who calls a kernel says what will be called after it (:func:`ahead`). Nothing happens where machine code is
loaded from disk. As soon as this process begins to compile, a helper begins as well: it does a rehearsal,
a tiny case of what comes next, whose machine code lands in the folder that both share. This process loads
what it finds there, and compiles what it does not: the helper may be late, or fail, or never have been
started. It ends with its rehearsal, and with this process at the latest.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module

from sublearn import _compile

# The paths are those of this process, as multiprocessing does it, but its script is not run again.
_CODE = (
    "import sys; sys.path[:] = {path!r}; from sublearn._ahead import _rehearse; _rehearse({what!r})"
)
_started: dict[str, subprocess.Popen[bytes]] = {}


def ahead(what: str) -> None:
    """If this process compiles from now on, have ``what`` ("module:function") compiled beside it, once."""
    if what not in _started:
        _compile.at_next_compiling[what] = lambda: _start(what)


def _start(what: str) -> None:
    if what in _started or not _may_start():
        return
    code = _CODE.format(path=[os.path.abspath(place) for place in sys.path], what=what)
    with suppress(OSError):  # no more processes to be had
        _started[what] = process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        atexit.register(_stop, process)
        with suppress(RuntimeError):  # no more threads: then its end is noted at ours
            threading.Thread(target=process.wait, daemon=True).start()


def _may_start() -> bool:
    """Whether a helper helps: a second core, a folder to share, and a process that is nobody's worker."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = (os.cpu_count() or 1) if affinity is None else len(affinity(0))
    return (
        cores > 1
        and _compile.is_kept()
        and not _compile.in_worker()
        and bool(sys.executable)
        and not getattr(sys, "frozen", False)
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        process.kill()
    process.wait()


def _rehearse(what: str) -> None:
    """What the helper does. Its standard input is held open by the process that it helps."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _compile.at_next_compiling.clear()
    from sublearn._threads import single_thread

    module, _, name = what.partition(":")
    rehearsal: Callable[[], object] = getattr(import_module(module), name)
    with single_thread():
        rehearsal()


def _end_with_parent() -> None:
    sys.stdin.buffer.read()  # until the other end is closed, by whatever ends that process
    os._exit(1)
