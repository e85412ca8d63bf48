"""Runs: the same tables however they are computed, and nothing lost when something goes wrong."""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

import sublearn.runs as runs
from runs.toys import Walk, tables, walks
from sublearn import BadInputError
from sublearn.runs import Experiment, Plan, Point, Progress, Run, execute

GRID = {"points": 3, "trials": 20, "chunk": 4}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """An uninterrupted run in this process."""
    return execute([walks(**GRID)], out=tmp_path_factory.mktemp("plain"))


def test_the_table_is_what_a_plain_loop_gives(tmp_path: Path) -> None:
    experiment = walks(**GRID)
    run = execute([experiment], out=tmp_path)
    table = run.table("walks")
    assert [row["steps"] for row in table] == [10, 20, 30]
    for row in table:
        rows = Walk().run({"steps": row["steps"]}, 0, range(20))
        assert row["trials"] == 20
        assert row["mean"] == float(np.mean([r["end"] for r in rows]))
        assert row["turns"] == sum(int(str(r["turns"])) for r in rows)
        assert row["up"] == sum(bool(r["up"]) for r in rows)
        assert row["right"] == float(np.mean([r["side"] == "right" for r in rows]))


def test_processes_give_the_same(tmp_path: Path, plain: Run) -> None:
    run = execute([walks(**GRID)], out=tmp_path, workers=2)
    assert tables(tmp_path) == tables(plain.folder) and run.failures == []


def test_threads_and_other_executors_give_the_same(tmp_path: Path, plain: Run) -> None:
    with ThreadPoolExecutor(3) as pool:
        execute([walks(**GRID)], out=tmp_path / "threads", executor=pool, workers=3)
        assert pool.submit(int).result() == 0, "the caller's executor stays open"
    assert tables(tmp_path / "threads") == tables(plain.folder)


def test_several_experiments_share_one_queue(tmp_path: Path, plain: Run) -> None:
    more = replace(walks("more", points=2), hours=1.0)
    news: list[str] = []
    run = execute([walks(**GRID), more], out=tmp_path, progress=lambda now: news.append(now.news))
    assert {name: text for name, text in tables(tmp_path).items() if "walks" in name} == tables(
        plain.folder
    )
    assert run.names == ["walks", "more"] and all(state.finished for state in run.states())
    ends = [line for line in news if line]
    assert ends[2] == "more: done" and ends[-1] == "walks: done", "the longest comes first"


def test_experiments_can_be_added_to_a_folder(tmp_path: Path, plain: Run) -> None:
    execute([walks("more")], out=tmp_path)
    before = tables(tmp_path)
    run = execute([walks(**GRID)], out=tmp_path)
    assert tables(tmp_path) == {**before, **tables(plain.folder)} and run.names == ["more", "walks"]


def test_a_finished_run_computes_nothing_again(tmp_path: Path) -> None:
    execute([walks()], out=tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.csv")}
    seen: list[Progress] = []
    execute([walks()], out=tmp_path, progress=seen.append)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.csv")} == before
    assert [now.news for now in seen] == ["walks: done"] and seen[0].done == seen[0].trials


def test_an_interrupted_run_goes_on(tmp_path: Path, plain: Run) -> None:
    def stop(now: Progress) -> None:
        if now.done >= 24:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute([walks(**GRID)], out=tmp_path, progress=stop)
    state = runs.open(tmp_path).state("walks")
    assert (state.trials_done, state.points_done, state.finished) == (24, 1, False)
    seen: list[Progress] = []
    execute([walks(**GRID)], out=tmp_path, progress=seen.append)
    assert seen[0].done == 28, "what was done is not done again"
    assert tables(tmp_path) == tables(plain.folder)


@pytest.mark.slow
def test_interrupted_workers_end(tmp_path: Path, plain: Run) -> None:
    def stop(now: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute([walks(**GRID)], out=tmp_path, workers=2, progress=stop)
    assert get_context("spawn").active_children() == []
    execute([walks(**GRID)], out=tmp_path)
    assert tables(tmp_path) == tables(plain.folder)


@pytest.mark.parametrize("when", ["at rest", "under way"])
def test_a_damaged_shard_is_set_aside_and_redone(tmp_path: Path, plain: Run, when: str) -> None:
    def spoil(now: Progress | None = None) -> None:
        if now is None or now.done == 24:
            path = max((tmp_path / "walks" / "shards").glob("*.parquet"), key=str)
            path.write_bytes(path.read_bytes()[:-10])

    execute([walks(**GRID)], out=tmp_path, progress=spoil if when == "under way" else None)
    if when == "at rest":
        spoil()
        assert runs.open(tmp_path).state("walks").trials_done == 0
        execute([walks(**GRID)], out=tmp_path)
    assert tables(tmp_path) == tables(plain.folder)
    found = runs.summary(runs.open(tmp_path))
    assert len(found["damaged"]) == 1 and found["finished"]


def test_a_worker_that_dies_once_is_forgiven(tmp_path: Path, plain: Run) -> None:
    trap = tmp_path / "trap"
    run = execute([walks(**GRID, trap=str(trap))], out=tmp_path / "run", workers=2)
    assert trap.exists() and run.failures == []
    # The trap's path is a param, so the first column differs; the rest does not.
    table = run.table("walks")
    assert [{k: v for k, v in row.items() if k != "trap"} for row in table] == plain.table("walks")


@pytest.mark.slow
def test_a_worker_that_falls_silent_is_replaced(
    tmp_path: Path, plain: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its chunk is given to another, and it is gone itself."""
    for like in ("POINT", "EXPERIMENT"):
        monkeypatch.setattr(
            f"sublearn.runs._schedule._OF_{like}", (1.0, 20.0)
        )  # a worker starts in less
    pit = tmp_path / "pit"
    run = execute([walks(**GRID, pit=str(pit))], out=tmp_path / "run", workers=2)
    assert pit.exists() and run.failures == []
    table = run.table("walks")
    assert [{k: v for k, v in row.items() if k != "pit"} for row in table] == plain.table("walks")
    assert get_context("spawn").active_children() == []


@pytest.mark.slow
def test_a_chunk_that_keeps_killing_its_worker_fails_alone(tmp_path: Path) -> None:
    points = (
        Point({"steps": 10}, 20, 4),
        Point({"steps": 20, "mine": 9}, 20, 4),
        Point({"steps": 30}, 20, 4),
    )
    mined = replace(walks(), quick=Plan(points))
    run = execute([mined], out=tmp_path, workers=2)
    (failure,) = run.failures
    assert (failure["point"], failure["trials"]) == (1, [8, 12])
    assert "died" in failure["error"]
    assert [row["steps"] for row in run.table("walks")] == [10, 30]
    state = run.state("walks")
    assert (state.trials_done, state.failures, state.finished) == (56, 1, False)


def test_a_chunk_that_keeps_raising_is_recorded_and_tried_again_later(tmp_path: Path) -> None:
    faulty = walks(**GRID, fault=5)
    run = execute([faulty], out=tmp_path)
    assert [(f["step"], f["point"], f["trials"]) for f in run.failures] == [
        ("run", i, [4, 8]) for i in range(3)
    ]
    assert "trial 5 cannot be computed" in run.failures[0]["error"]
    assert "toys.py" in run.failures[0]["details"]
    assert run.table("walks") == [] and run.state("walks").trials_done == 48
    assert json.loads((tmp_path / "failures.json").read_text()) == run.failures
    again = execute([faulty], out=tmp_path)
    assert len(again.failures) == 3, "tried again, and failed again"


@pytest.mark.slow
def test_an_exception_that_cannot_be_sent_is_told_in_words(tmp_path: Path) -> None:
    run = execute([walks(points=1, odd=5)], out=tmp_path, workers=2)
    (failure,) = run.failures
    assert failure["error"].endswith("OddError: odd and very") and failure["trials"] == [4, 8]


class Liar(Walk):
    """Gives other rows than it promised, in the way that the point says."""

    def run(self, point, seed, trials):  # type: ignore[no-untyped-def]
        rows = super().run(point, seed, trials)
        if point["lie"] == "count":
            return rows[:-1]
        if point["lie"] == "name":
            return [{**row, "extra": 1} for row in rows]
        return [{**row, "turns": "many"} for row in rows]


def test_rows_that_differ_from_what_was_promised_fail(tmp_path: Path) -> None:
    plan = Plan(tuple(Point({"steps": 3, "lie": lie}, 2) for lie in ("count", "name", "type")))
    run = execute([replace(walks(), task=Liar(), quick=plan)], out=tmp_path)
    said = [failure["error"] for failure in run.failures]
    assert "1 rows for 2 trials" in said[0]
    assert "extra" in said[1]
    assert "'many' in column turns, which holds int" in said[2]


def test_trouble_with_pictures_or_words_stops_nothing(tmp_path: Path) -> None:
    def broken(table: object) -> dict[str, object]:
        raise RuntimeError("no ink")

    odd = replace(walks("odd"), draw=broken, find=broken)
    run = execute([odd, walks(**GRID)], out=tmp_path)
    assert [(f["experiment"], f["step"]) for f in run.failures] == [
        ("odd", "draw"),
        ("odd", "find"),
    ]
    assert len(run.table("odd")) == 3 and run.state("walks").finished


def _drawn(experiment: Experiment, calls: list[int]) -> Experiment:
    def draw(table: runs.Table) -> dict[str, object]:
        from matplotlib.figure import Figure

        calls.append(len(table))
        figure = Figure()
        figure.subplots().plot([row["mean"] for row in table])
        return {"means": figure}

    return replace(experiment, draw=draw, find=lambda table: f"{len(table)} points")


def test_pictures_and_words_come_from_the_table(tmp_path: Path) -> None:
    calls: list[int] = []
    experiment = _drawn(walks(), calls)
    run = execute([experiment], out=tmp_path)
    names = [path.name for path in run.pictures("walks")]
    assert names == ["means.png", "means.svg"]
    assert all(path.stat().st_size > 1000 for path in run.pictures("walks"))
    assert run.finds("walks") == "3 points" and calls == [3]
    execute([experiment], out=tmp_path)
    assert calls == [3], "the same table is not drawn again"
    (tmp_path / "walks" / "means.svg").unlink()
    execute([experiment], out=tmp_path)
    assert calls == [3, 3] and (tmp_path / "walks" / "means.svg").exists()
    execute([experiment], out=tmp_path, redraw=True)
    assert calls == [3, 3, 3]


def test_the_seed_and_the_budget_decide_the_rows(tmp_path: Path) -> None:
    one = execute([walks()], out=tmp_path / "one", seed=1)
    two = execute([walks()], out=tmp_path / "two", seed=2)
    assert one.table("walks") != two.table("walks")
    small = replace(walks(), full=Plan((Point({"steps": 5}, 3),)))
    full = execute([small], out=tmp_path / "full", budget="full")
    assert [row["trials"] for row in full.table("walks")] == [3]


REFUSED = [
    ({"experiments": []}, "at least one experiment"),
    ({"experiments": [walks(), walks()]}, "walks is there twice"),
    ({"budget": "huge"}, "budget must be one of quick, full"),
    ({"workers": 0}, "workers must be a whole number of at least 1, not 0"),
    ({"seed": -1}, "seed must be"),
    ({"dask": "tcp://127.0.0.1:1", "executor": ThreadPoolExecutor(1)}, "not both"),
]


@pytest.mark.parametrize(("asked", "message"), REFUSED, ids=[m for _, m in REFUSED])
def test_bad_input_writes_nothing(tmp_path: Path, asked: dict, message: str) -> None:
    chosen = asked.pop("experiments", [walks()])
    with pytest.raises(BadInputError, match=message):
        execute(chosen, out=tmp_path / "run", **asked)
    assert list(tmp_path.iterdir()) == []


class Reserved(Walk):
    columns = {"trial": int}  # noqa: RUF012


class Picky(Walk):
    def check(self, point):  # type: ignore[no-untyped-def]
        if point["steps"] > 20:
            raise BadInputError("steps must be at most 20.")


@pytest.mark.parametrize(
    ("task", "message"), [(Reserved(), "column trial"), (Picky(), "at most 20")]
)
def test_tasks_are_checked_at_the_door(tmp_path: Path, task: Walk, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        execute([replace(walks(), task=task)], out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(BadInputError, match="it is a file"):
        execute([walks()], out=file)
    assert file.read_text() == "mine"


@pytest.mark.slow
def test_workers_that_never_start_are_given_up(tmp_path: Path) -> None:
    pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=_die)
    with pool, pytest.raises(ChildProcessError, match="the executor broke"):
        execute([walks()], out=tmp_path, executor=pool)


def _die() -> None:
    import os

    os._exit(3)
