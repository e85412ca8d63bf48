"""Hand out chunks, take back results, and outlive what goes wrong."""

from __future__ import annotations

import errno
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import replace

from sublearn.runs._chunks import Chunk, Done, Failed, Outcome, raised
from sublearn.runs._executors import Workers

RETRIES = 2
# So many deaths of workers in a row, with nothing computed between them, are no accident.
_HOPELESS = 9
_GRACE = 10.0  # seconds
# A chunk hangs when nothing came back for so many times what the longest of its like took, and for so
# many seconds at least (short ones may have to compile first): its like are the chunks of its point, and
# before one of these is done those of its experiment, whose points may differ a thousandfold.
_OF_POINT, _OF_EXPERIMENT = (30.0, 600.0), (300.0, 3600.0)


def outcomes(
    workers: Workers,
    waiting: deque[Chunk],
    patience: float = 0.2,
    retries: int = RETRIES,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[tuple[Chunk, Outcome] | None]:
    """Each chunk with what came of it, in the order in which they end.

    A chunk that raises is tried again, ``retries`` times. When a worker dies or hangs, all chunks under
    way are lost, and nobody knows which one was to blame: they are tried again one at a time, so that
    only the guilty one is ever called failed. A chunk hangs when it is out for 30 times as long as the
    longest of its point so far, and for ten minutes at least; as long as none of its point is done, 300
    times the longest of its experiment and an hour. None is given when nothing ended for ``patience``
    seconds, so that the caller can look after other things; it may add to ``waiting`` meanwhile.
    """
    suspects: deque[Chunk] = deque()
    under_way: dict[Future[Outcome], Chunk] = {}
    since: dict[Future[Outcome], float] = {}
    tries: Counter[tuple[str, int, int]] = Counter()
    longest: dict[tuple[str, int | None], float] = {}
    deaths, alone = 0, False
    while waiting or suspects or under_way:
        broken, why = False, "the worker process died while it computed this"
        missing: list[Chunk] = []
        if not under_way:
            alone = bool(suspects)
        source = suspects if alone else waiting
        while source and len(under_way) < (1 if alone else workers.under_way):
            chunk = source.popleft()
            try:
                future = workers.submit(chunk)
            except BrokenExecutor:
                source.appendleft(chunk)
                broken = True
                break
            under_way[future], since[future] = chunk, clock()
        ended, _ = wait(under_way, timeout=patience, return_when=FIRST_COMPLETED)
        hung = None if ended else _hung(under_way, since, longest, clock())
        if hung is not None:
            broken, why = True, hung
            missing += [under_way.pop(future) for future in list(under_way)]
        elif broken or any(_is_lost(future) for future in ended) or not (ended or workers.alive):
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
            result = _result(future)
            if isinstance(result, Done):
                for like in (chunk.index, None):
                    took = longest.get((chunk.experiment, like), 0.0)
                    longest[chunk.experiment, like] = max(took, result.seconds)
                yield chunk, result
                continue
            tries[chunk.key] += 1
            if tries[chunk.key] <= retries:
                waiting.append(chunk)
            else:
                yield chunk, replace(result, attempts=tries[chunk.key])
        since = {future: since[future] for future in under_way}
        if broken:
            deaths += 1
            if deaths > max(_HOPELESS, retries + 1):
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
            if tries[chunk.key] <= retries:
                suspects.append(chunk)
            else:
                yield chunk, Failed(why, attempts=tries[chunk.key])


def _hung(
    under_way: Mapping[Future[Outcome], Chunk],
    since: Mapping[Future[Outcome], float],
    longest: Mapping[tuple[str, int | None], float],
    now: float,
) -> str | None:
    """In words, that a chunk is out for far longer than its like; None as long as none is."""
    for future, chunk in under_way.items():
        times, least = _OF_POINT
        like = longest.get((chunk.experiment, chunk.index))
        if like is None:
            times, least = _OF_EXPERIMENT
            like = longest.get((chunk.experiment, None))
        if like is not None and now - since[future] > max(least, times * like):
            return (
                f"no answer came in {now - since[future]:.0f} s, and the longest of its like took "
                f"{like:.3g} s"
            )
    return None


def _is_lost(future: Future[Outcome]) -> bool:
    """Whether the worker is gone, and not the computation at fault."""
    return future.cancelled() or isinstance(future.exception(), BrokenExecutor)


def _result(future: Future[Outcome]) -> Outcome:
    """What came back; an exception is one of the way there and back, such as a task that cannot be sent."""
    problem = future.exception()
    return future.result() if problem is None else raised(problem)
