"""A Dask cluster of real worker processes gives the same tables, even when one of them is killed."""

from __future__ import annotations

from pathlib import Path

import pytest

import sublearn.runs as runs
from runs.toys import tables, walks
from sublearn import BadInputError
from sublearn.experiments.tasks import TASKS
from sublearn.runs import Progress, execute, sweep_from_dict

pytest.importorskip("distributed")

GRID = {"points": 3, "trials": 40, "chunk": 2}
DECISIONS = {
    "task": "estimate",
    "trials": 8,
    "chunk": 2,
    "axes": {"k": [2, 3, 4]},
    "params": {"network": "lrnn:n=4,b=1,d=2,T=2", "samples": 2, "learn": "W:first-rows={k}"},
}


def test_no_scheduler_at_that_address(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"'127\.0\.0\.1:x'"):
        execute([walks()], out=tmp_path / "run", dask="127.0.0.1:x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_same_tables_even_when_a_worker_is_killed(tmp_path: Path) -> None:
    from runs.clusters import cluster

    # Decisions besides walks: compiled kernels, BLAS and ball arithmetic must not differ either.
    both = [walks(**GRID), sweep_from_dict(DECISIONS, TASKS, name="decisions")]
    execute(both, out=tmp_path / "here")
    execute(both, out=tmp_path / "two", workers=2)
    with cluster(tmp_path, workers=2, naps=0.01) as (address, (_, *workers)):
        execute(both, out=tmp_path / "dask", dask=address)

        def kill(now: Progress) -> None:
            if now.done >= 20 and workers[0].poll() is None:
                workers[0].kill()
                workers[0].wait()

        run = execute(both, out=tmp_path / "killed", dask=address, progress=kill)
        assert workers[0].poll() is not None and run.failures == []
        took_part = (tmp_path / "killed" / "timings.csv").read_text()
        assert all(f":{process.pid}\n" in took_part for process in workers)
    expected = tables(tmp_path / "here")
    assert {"walks/table.csv", "decisions/table.csv"} <= expected.keys()
    for name in ("two", "dask", "killed"):
        assert tables(tmp_path / name) == expected, name


@pytest.mark.slow
def test_a_cluster_that_goes_away_loses_nothing(tmp_path: Path) -> None:
    from runs.clusters import cluster

    folder = tmp_path / "run"
    with cluster(tmp_path, workers=1, naps=0.01) as (address, (scheduler, *_)):

        def end(now: Progress) -> None:
            if now.done >= 20 and scheduler.poll() is None:
                scheduler.kill()
                scheduler.wait()

        with pytest.raises(ConnectionError, match="the Dask cluster is gone"):
            execute([walks(**GRID)], out=folder, dask=address, progress=end)
    assert runs.open(folder).state("walks").trials_done >= 20
    execute([walks(**GRID)], out=folder)
    execute([walks(**GRID)], out=tmp_path / "here")
    assert tables(folder) == tables(tmp_path / "here")
