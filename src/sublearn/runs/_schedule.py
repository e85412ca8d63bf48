"""Hand out chunks, take back results, and outlive what goes wrong."""

from __future__ import annotations

import errno
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait

from sublearn.runs._chunks import Chunk, Done, Failed, Raised, raised
from sublearn.runs._executors import Workers

ATTEMPTS = 3
# So many deaths of workers in a row, with nothing computed between them, are no accident.
_HOPELESS = 3 * ATTEMPTS
_GRACE = 10.0  # seconds

Outcome = tuple[Chunk, Done | Failed]


def outcomes(
    workers: Workers, waiting: deque[Chunk], patience: float = 0.2
) -> Iterator[Outcome | None]:
    """Each chunk with what came of it, in the order in which they end.

    A chunk that raises is tried ``ATTEMPTS`` times. When a worker dies, all chunks under way are lost,
    and nobody knows which one was to blame: they are tried again one at a time, so that only the
    guilty one is ever called failed. None is given when nothing ended for ``patience`` seconds, so that
    the caller can look after other things; it may add to ``waiting`` meanwhile.
    """
    suspects: deque[Chunk] = deque()
    under_way: dict[Future[Done | Raised], Chunk] = {}
    tries: Counter[tuple[str, int, int]] = Counter()
    deaths, alone = 0, False
    while waiting or suspects or under_way:
        broken = False
        missing: list[Chunk] = []
        if not under_way:
            alone = bool(suspects)
        source = suspects if alone else waiting
        while source and len(under_way) < (1 if alone else workers.under_way):
            chunk = source.popleft()
            try:
                under_way[workers.submit(chunk)] = chunk
            except BrokenExecutor:
                source.appendleft(chunk)
                broken = True
                break
        ended, _ = wait(under_way, timeout=patience, return_when=FIRST_COMPLETED)
        if broken or any(_is_lost(future) for future in ended) or not (ended or workers.alive):
            broken = True
            # A broken executor ends them all; but for some of a cluster that is gone nobody is left.
            ended, rest = wait(under_way, timeout=_GRACE)
            missing += [under_way.pop(future) for future in rest]
        elif not ended:
            yield None
            continue
        for future in ended:
            chunk = under_way.pop(future)
            if _is_lost(future):
                missing.append(chunk)
                continue
            deaths = 0
            found = _result(future)
            if isinstance(found, Done):
                yield chunk, found
                continue
            tries[chunk.key] += 1
            if tries[chunk.key] < ATTEMPTS:
                waiting.append(chunk)
            else:
                yield chunk, Failed(ATTEMPTS, found.error, found.details)
        if broken:
            deaths += 1
            if deaths > _HOPELESS:
                raise ChildProcessError(
                    errno.ECHILD,
                    "die again and again without finishing anything; what was finished is kept (a "
                    "script that starts workers must do so under if __name__ == '__main__')",
                    "worker processes",
                )
            workers.renew()
            if len(missing) != 1:
                suspects.extend(missing)
                continue
            (chunk,) = missing
            tries[chunk.key] += 1
            if tries[chunk.key] < ATTEMPTS:
                suspects.append(chunk)
            else:
                yield chunk, Failed(ATTEMPTS, "the worker process died while it computed this")


def _is_lost(future: Future[Done | Raised]) -> bool:
    """Whether the worker is gone, and not the computation at fault."""
    return future.cancelled() or isinstance(future.exception(), BrokenExecutor)


def _result(future: Future[Done | Raised]) -> Done | Raised:
    """What came back; an exception is one of the way there and back, such as a task that cannot be sent."""
    problem = future.exception()
    return future.result() if problem is None else raised(problem)
