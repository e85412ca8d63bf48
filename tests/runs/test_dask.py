"""A Dask cluster of real worker processes gives the same tables, even when one of them is killed."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import sublearn.runs as runs
from runs.toys import tables, walks
from sublearn import BadInputError
from sublearn.experiments.tasks import TASKS
from sublearn.runs import Progress, execute, sweep_from_dict
from sublearn.runs._executors import check_address

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


ADDRESSES = [
    "nowhere", "tcp://", "tcp://host", "tcp://host:", "tcp://host:0", "tcp://host:99999", "host:8786 x",
    "http://host:8786", "tcp://ho st:1", "8786", "", "tcp://host:8786/../x", "\x1b[31m:1",
]  # fmt: skip


@pytest.mark.parametrize("address", ADDRESSES)
def test_what_can_be_no_address_is_refused_before_anything_is_asked(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*args: object, **kwargs: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr("socket.create_connection", never)
    with pytest.raises(BadInputError, match="dask must be the address of a scheduler"):
        execute([walks()], out=tmp_path / "run", dask=address)
    assert list(tmp_path.iterdir()) == []


def test_where_nothing_listens_distributed_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*args: object, **kwargs: object) -> None:
        raise AssertionError("distributed was asked, and takes its time")

    monkeypatch.setattr("distributed.Client", never)
    with pytest.raises(BadInputError, match=r"no Dask scheduler answers at 'tcp://127\.0\.0\.1:1'"):
        execute([walks()], out=tmp_path / "run", dask="tcp://127.0.0.1:1")
    assert list(tmp_path.iterdir()) == []


def _silent(line: socket.socket) -> None:
    with suppress(OSError):
        line.recv(1)  # until the other side hangs up


def _dripping(line: socket.socket) -> None:
    with suppress(OSError):
        while True:
            line.sendall(b"\0")
            time.sleep(0.05)


def _web(line: socket.socket) -> None:
    with suppress(OSError):
        line.recv(1)
        line.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")


def _banner(line: socket.socket) -> None:
    with suppress(OSError):
        line.sendall(b"SSH-2.0-OpenSSH_9.0\r\n")


@pytest.mark.parametrize("scheme", ["", "tcp://"])
@pytest.mark.parametrize("answer", [_silent, _dripping, _web, _banner])
def test_what_answers_and_is_no_scheduler_is_refused_soon(
    answer: Callable[[socket.socket], None],
    scheme: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(*args: object, **kwargs: object) -> None:
        raise AssertionError("distributed was asked, and takes its time")

    monkeypatch.setattr("distributed.Client", never)
    monkeypatch.setattr("sublearn.runs._executors._PATIENCE", 0.5)

    def serve() -> None:
        line, _ = listener.accept()
        with line:
            answer(line)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve)
        server.start()
        begun = time.monotonic()
        with pytest.raises(BadInputError, match="does not greet as a scheduler does"):
            execute(
                [walks()],
                out=tmp_path / "run",
                dask=f"{scheme}127.0.0.1:{listener.getsockname()[1]}",
            )
        assert time.monotonic() - begun < 3
        server.join()
    assert list(tmp_path.iterdir()) == []


def test_a_scheduler_is_known_by_its_greeting() -> None:
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=0, processes=False, dashboard_address=None, host="127.0.0.1", protocol="tcp://"
    ) as cluster:
        check_address(cluster.scheduler_address)


@pytest.mark.parametrize(
    "address", ["127.0.0.1:8786", "tcp://127.0.0.1:8786", "tls://a.b-c:1/", "tcp://[::1]:8786"]
)
def test_addresses_that_can_be_ones_are_tried(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []

    def refused(place: tuple[str, int], timeout: float) -> None:
        asked.append(place)
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr("socket.create_connection", refused)
    with pytest.raises(BadInputError, match="no Dask scheduler answers at"):
        execute([walks()], out=tmp_path / "run", dask=address)
    assert asked == [(asked[0][0], int(address.rstrip("/").rpartition(":")[2]))]
    assert asked[0][0] in ("127.0.0.1", "a.b-c", "::1")


@pytest.mark.slow
def test_a_scheduler_that_dies_gives_our_sentence_alone(tmp_path: Path) -> None:
    """Nothing of the client's own words reaches the screen."""
    import subprocess
    import sys

    from runs.clusters import cluster

    script = tmp_path / "run.py"
    script.write_text(
        "import os, signal, sys\n"
        "from runs.toys import walks\n"
        "from sublearn.runs import execute\n"
        "def end(now):\n"
        "    if now.done >= 20:\n"
        "        os.kill(int(sys.argv[3]), signal.SIGKILL)\n"
        "try:\n"
        "    execute([walks(points=3, trials=40, chunk=2)], out=sys.argv[1], dask=sys.argv[2],\n"
        "            progress=end)\n"
        "except OSError as problem:\n"
        "    print(problem.strerror)\n"
    )
    with cluster(tmp_path, workers=1, naps=0.01) as (address, (scheduler, *_)):
        import os

        root = Path(__file__).resolve().parents[1]
        path = os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH")])])
        words = [sys.executable, str(script), str(tmp_path / "run"), address, str(scheduler.pid)]
        found = subprocess.run(
            words, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
        )
    assert found.stdout.startswith("the Dask cluster is gone; what was finished is kept")
    assert found.stderr == ""


@pytest.mark.slow
def test_a_worker_of_a_cluster_that_falls_silent_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread cannot be stopped from outside: the chunk goes to a worker that is not busy with ours."""
    from runs.clusters import cluster

    for like in ("POINT", "EXPERIMENT"):
        monkeypatch.setattr(
            f"sublearn.runs._schedule._OF_{like}", (1.0, 20.0)
        )  # a worker answers in less
    small = {"points": 2, "trials": 12, "chunk": 4}
    with cluster(tmp_path, workers=2) as (address, _):
        pit = tmp_path / "pit"
        run = execute([walks(**small, pit=str(pit))], out=tmp_path / "run", dask=address)
    assert pit.exists() and run.failures == [] and run.state("walks").finished
