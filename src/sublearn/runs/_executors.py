"""Who computes the chunks: this process, other processes, or a Dask cluster."""

from __future__ import annotations

import errno
import logging
import os
import re
import threading
import time
from abc import ABC, abstractmethod
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from sublearn._errors import BadInputError, first_line
from sublearn._interrupts import held_back, let_in
from sublearn._threads import single_thread
from sublearn.runs._chunks import Chunk, Outcome, compute

if TYPE_CHECKING:
    import socket

_THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
)


class Workers(ABC):
    """Workers behind a ``concurrent.futures.Executor``, which can be replaced when it breaks."""

    count: int
    """How many chunks are computed at the same time."""
    under_way: int
    """How many chunks are handed out at most: enough to keep all busy, and no more."""

    @property
    def alive(self) -> bool:
        """Whether what was handed out can still come back; asked when nothing does."""
        return True

    @abstractmethod
    def submit(self, chunk: Chunk) -> Future[Outcome]:
        """Hand out a chunk."""

    @abstractmethod
    def renew(self) -> None:
        """Start again after a worker died and took the executor with it, or hangs; nothing under way
        is waited for."""

    @abstractmethod
    def close(self) -> None:
        """End the workers; chunks that are under way are given up."""


class ThisProcess(Workers):
    """No workers: a chunk is computed when it is handed out."""

    count = 1
    under_way = 1

    def submit(self, chunk: Chunk) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        with single_thread():
            future.set_result(compute(chunk))
        return future

    def renew(self) -> None:
        raise AssertionError("this process cannot break")

    def close(self) -> None:
        pass


class Processes(Workers):
    """Worker processes on this machine, started fresh (spawn) and kept for the whole run."""

    def __init__(self, count: int):
        self.count = count
        self.under_way = 4 * count  # they go on with these while tables and pictures are made here
        self._start()

    def _start(self) -> None:
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        context = get_context("spawn")
        # Our end of this pipe closes when we close it or die, even by kill -9; the workers see it.
        leash, self._hand = context.Pipe(duplex=False)
        self._pool = ProcessPoolExecutor(
            self.count, mp_context=context, initializer=_begin, initargs=(leash,)
        )
        self._leash = leash

    def submit(self, chunk: Chunk) -> Future[Outcome]:
        # A process that starts now must not hear Ctrl-C before it has said what it does with it.
        with held_back():
            return self._pool.submit(compute_alone, chunk)

    def renew(self) -> None:
        self.close()
        self._start()

    def close(self) -> None:
        self._hand.close()
        # One that hangs in compiled code does not see the pipe close.
        for process in list((self._pool._processes or {}).values()):
            process.kill()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._leash.close()


class Cluster(Workers):
    """A Dask cluster, by the address of its scheduler. Its workers need this package too."""

    def __init__(self, address: str):
        check_address(address)
        try:
            from distributed import Client
        except ImportError:
            raise BadInputError(
                "a Dask cluster needs the package distributed: pip install 'sublearn[dask]'."
            ) from None
        # What goes wrong is said once, by us.
        self._quiet = [logging.getLogger(name) for name in _TALKATIVE]
        self._levels = [logger.level for logger in self._quiet]
        for logger in self._quiet:
            logger.setLevel(logging.CRITICAL + 1)
        try:
            connect: Any = Client
            self._client = connect(address, timeout="10s", set_as_default=False)
            self._look()
        except Exception as problem:  # whatever speaks there, it is no scheduler
            self._speak_again()
            raise _no_answer(address, first_line(problem)) from None
        self._address = address
        self._pool: Executor = self._client.get_executor(pure=False)
        self._busy: set[str] = set()
        self._handed_out = 0

    def _speak_again(self) -> None:
        for logger, level in zip(self._quiet, self._levels, strict=True):
            logger.setLevel(level)

    @property
    def alive(self) -> bool:
        # While the scheduler does not answer, the client tries again by itself, and then gives up.
        return self._client.status in ("running", "connecting")

    def _look(self) -> None:
        """See how many workers there are: they come and go."""
        self.count = max(1, sum(self._client.nthreads().values()))
        self.under_way = max(8, 3 * self.count)

    def submit(self, chunk: Chunk) -> Future[Outcome]:
        self._handed_out += 1
        if self._handed_out % 64 == 0:
            with suppress(OSError):  # a lost scheduler shows soon enough
                self._look()
        return self._pool.submit(compute_alone, chunk)

    def renew(self) -> None:
        if not self.alive or self._client.status != "running":
            raise _gone(self._address)
        # A chunk hangs, and a thread cannot be stopped: the workers that are busy with ours are left alone.
        try:
            self._busy |= {worker for worker, keys in self._client.processing().items() if keys}
            rest = [worker for worker in self._client.nthreads() if worker not in self._busy]
        except Exception:
            raise _gone(self._address) from None
        self._pool.shutdown(wait=False)  # gives our chunks up
        only = {"workers": rest} if rest else {}
        self._pool = self._client.get_executor(pure=False, **only)

    def close(self) -> None:
        # The futures are ours: closing the client makes the cluster forget them.
        with suppress(Exception):  # a scheduler that is gone cannot be told
            self._client.close(timeout=5)
        self._speak_again()


_TALKATIVE = ("distributed", "distributed.client", "distributed.core", "distributed.comm",
              "distributed.scheduler", "tornado.application", "asyncio")  # fmt: skip
_ADDRESS = re.compile(
    r"(?:(?:tcp|tls|ws|wss|ucx|ucxx)://)?(?:\[[0-9a-fA-F:.%]+\]|[\w.-]+):(\d{1,5})/?",
    flags=re.ASCII,
)


_PLAIN = re.compile(r"tcp://|(?!\w+://)")
_GREETING = b"pickle-protocol"  # a word of the message with which every scheduler begins
_PATIENCE = 10.0  # seconds to connect, and as many to hear the greeting


def check_address(address: str) -> None:
    """Refuse what cannot be the address of a scheduler, or where none answers within ``_PATIENCE``.

    The client of distributed waits for minutes where something else answers, so it is not asked: on
    plain connections a scheduler speaks first, and who does not greet as one is none.
    """
    import socket

    found = _ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found[1]) < 2**16:
        raise BadInputError(
            f"dask must be the address of a scheduler, such as tcp://host:8786, not {address!r}."
        )
    host, _, port = address.rstrip("/").rpartition("://")[2].rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE) as line:
            greets = not _PLAIN.match(address) or _GREETING in _heard(line)
    except (OSError, UnicodeError) as problem:
        raise _no_answer(address, getattr(problem, "strerror", None) or str(problem)) from None
    if not greets:
        raise _no_answer(address, "what answers there does not greet as a scheduler does")


def _heard(line: socket.socket) -> bytes:
    """What the other side says first, in the time that it has."""
    heard = b""
    end = time.monotonic() + _PATIENCE
    while _GREETING not in heard and len(heard) < 1000:
        left = end - time.monotonic()
        if left <= 0:
            break
        line.settimeout(left)
        try:
            said = line.recv(1000)
        except TimeoutError:
            break
        if not said:
            break
        heard += said
    return heard


def _no_answer(address: str, why: str) -> BadInputError:
    return BadInputError(f"no Dask scheduler answers at {address!r} ({why}).")


def _gone(address: str) -> ConnectionError:
    return ConnectionError(
        errno.ECONNRESET,
        "the Dask cluster is gone; what was finished is kept, and the same command goes on",
        address,
    )


class GivenExecutor(Workers):
    """An executor that the caller made and keeps."""

    def __init__(self, executor: Executor, count: int):
        self._pool = executor
        self.count = count
        self.under_way = 2 * count
        self._futures: set[Future[Outcome]] = set()

    def submit(self, chunk: Chunk) -> Future[Outcome]:
        future = self._pool.submit(compute_alone, chunk)
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        return future

    def renew(self) -> None:
        # It is the caller's: one that broke cannot be mended here; one that hangs may have other workers.
        try:
            self._pool.submit(int).cancel()
        except (BrokenExecutor, RuntimeError):
            raise ChildProcessError(
                errno.ECHILD,
                "the executor broke; what was finished is kept, and the same call goes on",
                type(self._pool).__name__,
            ) from None

    def close(self) -> None:
        for future in list(self._futures):
            future.cancel()


def compute_alone(chunk: Chunk) -> Outcome:
    """Compute a chunk in a worker, which uses one thread for good."""
    _pin_threads()
    return compute(chunk)


@cache
def _pin_threads() -> None:
    """One thread for this process, from now on: sums come in one order, workers do not fight.

    It is never lifted: with several threads of one worker at work, one would lift it for another.
    """
    for name in _THREADS:  # read by libraries that are loaded later
        os.environ[name] = "1"
    import numpy  # noqa: F401 - its BLAS must be loaded before it can be limited
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_limits

    threadpool_limits(limits=1)


def _begin(leash: Any) -> None:
    """Start of a worker process: it ends when the process that started it closes its end or dies."""
    import signal

    let_in(signal.SIG_IGN)  # Ctrl-C is for the one who started us
    for name in _THREADS:
        os.environ[name] = "1"

    def watch() -> None:
        from multiprocessing.connection import wait

        wait([leash])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
