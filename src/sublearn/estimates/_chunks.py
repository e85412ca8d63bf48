"""Trials in chunks, on one process or many, with the same result.

Ctrl-C goes to every process of a terminal. Worker processes of our own end at once and say nothing;
what has been decided until then is in this process, which alone decides what becomes of it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Protocol, TypeVar

Record = TypeVar("Record", covariant=True)  # of one trial


class Job(Protocol[Record]):
    """What a worker does with a chunk of trials."""

    def decide(self, trials: range) -> Sequence[Record]:
        """The records of these trials, in their order."""


def run_chunks(
    job: Job[Record], trials: int, workers: int, executor: Executor | None, size: int
) -> Iterator[Sequence[Record]]:
    """Chunks of decided trials, in the order of their numbers, whoever decided them."""
    chunks = [range(i, min(i + size, trials)) for i in range(0, trials, size)]
    if executor is None and workers == 1:
        for chunk in chunks:
            yield job.decide(chunk)
        return
    own = None
    if executor is None:
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        executor = own = ProcessPoolExecutor(
            workers, mp_context=get_context("spawn"), initializer=_end_quietly
        )
    waiting: list[Future[Sequence[Record]]] = []
    try:
        with _uninterrupted():  # the first jobs start the processes
            waiting += [executor.submit(job.decide, chunk) for chunk in chunks[:workers]]
        waiting += [executor.submit(job.decide, chunk) for chunk in chunks[workers:]]
        for future in waiting:
            yield future.result()
    finally:
        if own is None:
            for future in waiting:
                future.cancel()
        else:
            own.shutdown(wait=True, cancel_futures=True)


def _end_quietly() -> None:
    """Let Ctrl-C end a worker without a word, in place of a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ignore Ctrl-C for a moment: processes that start now do so too, until they set it themselves."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the business of the main thread
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
