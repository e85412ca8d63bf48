"""Ctrl-C: remembered, heeded at the next safe point; a second one stops at once.

Python turns Ctrl-C into an exception that is raised wherever the program happens to be. Compilers and
unpicklers catch everything, and the exception is gone. So it is also written down here.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130  # as shells have it: 128 and the number of the signal


class _Told:
    """How often Ctrl-C was pressed, and what it means at the moment."""

    times = 0
    deferred = 0  # how many contexts want it only remembered
    whole_program = False  # whether this process is the command line
    ended = False  # whether the command line, and its process with it, has ended because of it


def interrupted() -> bool:
    """Whether Ctrl-C was pressed, even if somebody swallowed the exception."""
    return _Told.times > 0


def safe_point() -> None:
    """A place where stopping loses nothing: raise KeyboardInterrupt if it was pressed before."""
    if _Told.times:
        raise KeyboardInterrupt


def heed() -> None:
    """In what takes long: raise KeyboardInterrupt again where a compiler or unpickler swallowed it.

    Where it is :func:`deferred` it waits for a :func:`safe_point`.
    """
    if not _Told.deferred:
        safe_point()


@contextmanager
def ending(*, process: bool = False) -> Iterator[None]:
    """The command line: however it ends after Ctrl-C, it ends with 130 and without a traceback.

    ``process``: the process ends with it, and Ctrl-C has nothing more to stop.
    """
    ours = _is_ours_to_take(signal.SIG_DFL)  # where it is ignored (nohup) it stays so
    if ours:
        if process:
            atexit.register(_leave)  # before all others are, so that it comes after them
        signal.signal(signal.SIGINT, _handle)
        _Told.whole_program = True
    before = sys.unraisablehook

    def swallowed(found: sys.UnraisableHookArgs) -> None:
        # Raised in a callback of the compiler, which Python prints and drops; it is written down here.
        if not (interrupted() and issubclass(found.exc_type, KeyboardInterrupt)):
            before(found)

    sys.unraisablehook = swallowed
    try:
        yield
    except BaseException as problem:
        # What was interrupted may fail with anything, or end well where the exception was swallowed.
        if not interrupted():
            raise
        if not isinstance(problem, SystemExit) or problem.code != INTERRUPTED:
            _say("interrupted")
        _Told.ended = process
        raise SystemExit(INTERRUPTED) from None
    finally:
        sys.unraisablehook = before
        if ours:
            signal.signal(signal.SIGINT, signal.SIG_IGN if process else signal.default_int_handler)
            _Told.whole_program, _Told.times = False, 0


@contextmanager
def deferred() -> Iterator[None]:
    """Inside, the first Ctrl-C is remembered for :func:`safe_point`, and the second stops at once."""
    ours = _is_ours_to_take()
    before = signal.signal(signal.SIGINT, _handle) if ours else None
    _Told.deferred += 1
    try:
        yield
    finally:
        _Told.deferred -= 1
        if ours:
            signal.signal(signal.SIGINT, before)
            _Told.times = 0


@contextmanager
def held_back() -> Iterator[None]:
    """Ctrl-C waits outside, and is not lost; processes that start inside inherit that."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the business of the main thread
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def let_in(handler: signal.Handlers) -> None:
    """In a process that started :func:`held_back`: what Ctrl-C does in it from now on."""
    signal.signal(signal.SIGINT, handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _is_ours_to_take(*others: signal.Handlers) -> bool:
    """Whether Ctrl-C does what Python does with it, or ``others``; else it is somebody else's."""
    now = signal.getsignal(signal.SIGINT)
    here = threading.current_thread() is threading.main_thread()
    return here and (now is signal.default_int_handler or now in others)


def _handle(number: int, frame: FrameType | None) -> None:
    _Told.times += 1
    if _Told.times > 1 and _Told.whole_program:
        _stop_at_once()
    if _Told.times > 1 or not _Told.deferred:
        raise KeyboardInterrupt
    _say("stopping at the next safe point; Ctrl-C again stops at once")


def _say(words: str) -> None:
    # Not print: the handler may have come in the middle of one.
    with suppress(OSError):
        os.write(2, f"\nsublearn: {words}\n".encode())


def _leave() -> None:
    """The last thing that an interrupted process does.

    Where KeyboardInterrupt once came out of text that is executed, as dataclasses do it, Python ends
    itself by the signal, whatever the code is.
    """
    if _Told.ended:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # nobody reads any more
                stream.flush()
        os._exit(INTERRUPTED)


def _stop_at_once() -> NoReturn:
    """End without unwinding, which something might catch; files are whole or not there."""
    if "multiprocessing" in sys.modules:
        from multiprocessing import active_children

        for child in active_children():
            child.kill()
    if os.isatty(2):
        os.write(2, b"\x1b[?25h")  # a progress bar hides the cursor
    _say("stopped at once; what was on disk is kept")
    os._exit(INTERRUPTED)
