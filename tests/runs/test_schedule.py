"""Handing out chunks: every chunk ends once, only the guilty fail, hopeless cases end."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.toys import Walk
from sublearn.runs._chunks import Chunk, Done, Failed, Outcome
from sublearn.runs._executors import Workers
from sublearn.runs._schedule import RETRIES, _hung, outcomes

ATTEMPTS = RETRIES + 1


def chunks(count: int) -> list[Chunk]:
    return [Chunk("toy", Walk(), i, {"steps": 1}, 0, range(1)) for i in range(count)]


class Played(Workers):
    """Workers in a play: ``act(chunk, go)`` says what becomes of a chunk at its ``go``-th try.

    Chunks end when as many are under way as may be, or when nothing else happens. 'die' breaks the
    executor, and with it everything that is under way.
    """

    count = 2
    under_way = 4

    def __init__(self, act: Callable[[int, int], str]):
        self.act = act
        self.goes: Counter[int] = Counter()
        self.open: list[tuple[Future[Outcome], Chunk]] = []
        self.company: list[list[int]] = []
        self.renewed = 0
        self.broken = False

    def submit(self, chunk: Chunk) -> Future[Outcome]:
        if self.broken:
            raise BrokenExecutor
        future: Future[Outcome] = Future()
        self.open = [(f, c) for f, c in self.open if not f.done()]
        self.open.append((future, chunk))
        self.company.append([c.index for _, c in self.open])
        if len(self.open) == self.under_way:
            self.end()
        return future

    def end(self) -> None:
        for future, chunk in self.open:
            if future.done():
                continue
            self.goes[chunk.index] += 1
            what = self.act(chunk.index, self.goes[chunk.index])
            if what == "die":
                self.broken = True
                break
            if what == "raise":
                future.set_result(Failed(f"chunk {chunk.index}"))
            elif what == "lose":
                future.set_exception(ValueError("cannot be sent"))
            else:
                future.set_result(Done({}, 0.0, ""))
        if self.broken:
            for future, _ in self.open:
                if not future.done():
                    future.set_exception(BrokenExecutor())

    def renew(self) -> None:
        self.renewed += 1
        self.broken = False
        self.open = []

    def close(self) -> None:
        pass


def play(count: int, act: Callable[[int, int], str]) -> tuple[dict[int, Outcome], Played]:
    workers = Played(act)
    found: dict[int, Outcome] = {}
    for outcome in outcomes(workers, deque(chunks(count)), patience=0.001):
        if outcome is None:
            workers.end()  # nothing ends by itself: let what waits end
            continue
        chunk, what = outcome
        assert chunk.index not in found, "a chunk ends once"
        found[chunk.index] = what
    return found, workers


def test_all_end_and_few_are_under_way() -> None:
    found, workers = play(50, lambda chunk, go: "end")
    assert set(found) == set(range(50)) and max(map(len, workers.company)) == 4
    assert set(workers.goes.values()) == {1}


def test_what_raises_is_tried_again_and_then_recorded() -> None:
    found, workers = play(
        10, lambda i, go: "raise" if i == 3 or (i == 5 and go < ATTEMPTS) else "end"
    )
    assert isinstance(found[3], Failed) and found[3].error == "chunk 3"
    assert workers.goes[3] == ATTEMPTS == found[3].attempts
    assert isinstance(found[5], Done)


def test_what_cannot_be_sent_is_recorded() -> None:
    found, _ = play(3, lambda i, go: "lose" if i == 1 else "end")
    assert isinstance(found[1], Failed) and found[1].error == "ValueError: cannot be sent"
    assert isinstance(found[0], Done) and isinstance(found[2], Done)


def test_suspects_are_tried_alone() -> None:
    """After a death nothing else is under way until every suspect has had its turn."""
    found, workers = play(12, lambda i, go: "die" if i == 2 else "end")
    assert {i for i, what in found.items() if isinstance(what, Failed)} == {2}
    assert workers.goes[2] == 1 + ATTEMPTS, "the first time was in company"
    together = [set(open_now) for open_now in workers.company if {2, 3} & set(open_now)]
    first = together.index({0, 1, 2, 3})
    assert all(len(open_now) == 1 for open_now in together[first + 1 :])
    assert len(together[first + 1 :]) == ATTEMPTS + 1


@given(
    guilty=st.sets(st.integers(0, 19), max_size=2),
    once=st.dictionaries(st.integers(0, 19), st.integers(1, 2), max_size=2),
)
def test_only_the_guilty_fail(guilty: set[int], once: dict[int, int]) -> None:
    """Some chunks always kill their worker, others die with it by accident."""

    def act(i: int, go: int) -> str:
        return "die" if i in guilty or go < once.get(i, 0) else "end"

    found, _ = play(20, act)
    assert set(found) == set(range(20))
    assert {i for i, what in found.items() if isinstance(what, Failed)} == guilty


def test_workers_that_fall_silent_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Futures that never end, of a cluster that is gone."""
    monkeypatch.setattr("sublearn.runs._schedule._GRACE", 0.01)

    class Silent(Played):
        alive = False

        def end(self) -> None:
            pass

        def renew(self) -> None:
            raise ConnectionError("gone")

    with pytest.raises(ConnectionError, match="gone"):
        list(outcomes(Silent(lambda i, go: "end"), deque(chunks(9)), patience=0.001))


def test_when_all_workers_always_die_it_ends() -> None:
    with pytest.raises(ChildProcessError, match="die again and again"):
        play(1000, lambda i, go: "die")


def test_chunks_can_be_added_on_the_way() -> None:
    waiting = deque(chunks(3))
    extra = chunks(5)[3:]
    workers = Played(lambda i, go: "end")
    seen = []
    for outcome in outcomes(workers, waiting, patience=0.001):
        if outcome is None:
            workers.end()
            continue
        seen.append(outcome[0].index)
        if len(seen) == 3:
            waiting.extend(extra)
    assert sorted(seen) == [0, 1, 2, 3, 4]


class Clock:
    """Time that passes only when the test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def hanging(guilty: set[int], retries: int) -> tuple[dict[int, Outcome], Played]:
    """A play in which some chunks never end; nothing else happens until the clock is set forward."""
    clock = Clock()

    class Slow(Played):
        def end(self) -> None:
            for future, chunk in self.open:
                if not future.done() and chunk.index not in guilty:
                    future.set_result(Done({}, 2.0, ""))

    workers = Slow(lambda i, go: "end")
    found: dict[int, Outcome] = {}
    waiting = deque(chunks(12))
    for outcome in outcomes(workers, waiting, patience=0.001, retries=retries, clock=clock):
        if outcome is None:
            workers.end()
            clock.now += 1000.0  # less than an hour: several looks until it is too long
            continue
        found[outcome[0].index] = outcome[1]
    return found, workers


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_a_chunk_that_hangs_is_given_to_another_worker_and_then_recorded(retries: int) -> None:
    found, workers = hanging({5}, retries)
    assert {i for i, what in found.items() if isinstance(what, Failed)} == {5}
    failed = found[5]
    assert isinstance(failed, Failed) and failed.attempts == retries + 1
    assert "no answer came in 4000 s, and the longest of its like took 2 s" in failed.error
    handed_out = [open_now for open_now in workers.company if open_now[-1] == 5]
    assert len(handed_out) == retries + 1 == workers.renewed


def test_of_several_that_hang_each_is_blamed_only_alone() -> None:
    found, workers = hanging({5, 6}, retries=1)
    assert {i for i, what in found.items() if isinstance(what, Failed)} == {5, 6}
    for guilty in (5, 6):
        handed_out = [open_now for open_now in workers.company if open_now[-1] == guilty]
        assert handed_out[1:] == [[guilty]] * 2, (
            "the first time was in company, and counts for none"
        )


def test_without_its_like_no_chunk_is_called_hanging() -> None:
    clock = Clock()
    workers = Played(lambda i, go: "end")
    seen = []
    for outcome in outcomes(workers, deque(chunks(1)), patience=0.001, clock=clock):
        seen.append(outcome)
        clock.now += 10_000.0
        if len(seen) == 5:
            workers.end()
    assert seen[:5] == [None] * 5 and isinstance(seen[5][1], Done)


def test_its_like_are_the_chunks_of_its_point_first() -> None:
    """Ten minutes or 30 times the longest of its point; an hour or 300 times that of its experiment."""
    under: Future[Outcome] = Future()
    one, other = chunks(2)
    like = {("toy", 0): 1.0, ("toy", None): 40.0}
    for chunk, longest, limit in (
        (one, like, 600.0),
        (one, {**like, ("toy", 0): 100.0}, 3000.0),
        (other, like, 12_000.0),
        (other, {("toy", None): 1.0}, 3600.0),
    ):
        assert _hung({under: chunk}, {under: 5.0}, longest, 5.0 + limit) is None
        assert _hung({under: chunk}, {under: 5.0}, longest, 6.0 + limit) is not None
    assert _hung({under: other}, {under: 5.0}, {("else", None): 1.0}, 1e9) is None
