"""A run that dies at any moment goes on as if nothing had happened."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sublearn.runs as runs
from runs.toys import tables, walks
from sublearn._files import PART
from sublearn.runs import Experiment, Run, execute

ROOT = Path(__file__).resolve().parents[2]


def experiments() -> list[Experiment]:
    return [walks(points=2, trials=6, chunk=3), walks("more", points=1, trials=4, chunk=2)]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return execute(experiments(), out=tmp_path_factory.mktemp("plain"))


class Dead(BaseException):
    """The process is gone: nothing after this reaches the disk."""


def dying(monkeypatch: pytest.MonkeyPatch, last: int) -> list[int]:
    """Let the process die at its ``last``-th touch of the disk; the list counts them."""
    count = [0]

    def guard(owner: Any, name: str) -> None:
        real: Callable[..., Any] = getattr(owner, name)

        def touch(*args: Any, **kwargs: Any) -> Any:
            count[0] += 1
            if count[0] >= last:
                raise Dead
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, touch)

    for owner, name in ((os, "fsync"), (os, "replace"), (os, "mkdir"), (os, "unlink")):
        guard(owner, name)
    guard(Path, "unlink")
    guard(Path, "replace")
    return count


def test_death_at_every_touch_of_the_disk(tmp_path: Path, plain: Run) -> None:
    """In turn before each fsync, rename, new folder and removal that a whole run makes."""
    with pytest.MonkeyPatch.context() as patch:
        touches = dying(patch, 10**9)
        execute(experiments(), out=tmp_path / "count")
    total = touches[0]
    assert total > 20
    for last in range(1, total + 1):
        folder = tmp_path / str(last)
        with pytest.MonkeyPatch.context() as patch:
            dying(patch, last)
            with pytest.raises(Dead):
                execute(experiments(), out=folder)
        execute(experiments(), out=folder)
        assert tables(folder) == tables(plain.folder), f"died at touch {last}"
        assert list(folder.rglob(f".*{PART}")) == []


DISK = [
    (errno.ENOSPC, "No space left on device; make room"),
    (errno.EROFS, "cannot be written (Read-only file system)"),
    (errno.EIO, "Input/output error"),
]


@pytest.mark.parametrize(("code", "message"), DISK, ids=[errno.errorcode[c] for c, _ in DISK])
def test_a_disk_that_fails_gives_a_clear_error_and_loses_nothing(
    tmp_path: Path, plain: Run, code: int, message: str
) -> None:
    real = os.fsync
    for last in (1, 3, 5, 7):
        folder = tmp_path / str(last)
        with pytest.MonkeyPatch.context() as patch:
            count = [0]

            def full(handle: int, count: list[int] = count, last: int = last) -> None:
                count[0] += 1
                if count[0] > last:
                    raise OSError(code, os.strerror(code))
                real(handle)

            patch.setattr(os, "fsync", full)
            with pytest.raises(OSError) as stopped:
                execute(experiments(), out=folder)
        assert stopped.value.errno == code
        assert message in str(stopped.value.strerror) and "goes on" in str(stopped.value.strerror)
        assert str(folder) in str(stopped.value.filename)
        kept = sum(s.trials_done for s in runs.open(folder).states())
        execute(experiments(), out=folder)
        assert tables(folder) == tables(plain.folder)
        assert kept > 0 or last < 5


def test_a_folder_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), "x")

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(OSError, match="cannot be written"):
        execute(experiments(), out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """What SCRIPT runs, uninterrupted."""
    return execute([walks(points=4, trials=60, chunk=3)], out=tmp_path_factory.mktemp("long"))


SCRIPT = """
import os, resource, sys
from runs.toys import walks
from sublearn.runs import execute
if __name__ == "__main__":
    if os.environ["LARGEST_FILE"]:
        limit = int(os.environ["LARGEST_FILE"])
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    folder, kind, where = sys.argv[1:]
    more = {"workers": int(where)} if kind == "workers" else {"dask": where}
    execute([walks(points=4, trials=60, chunk=3)], out=folder, **more)
"""


def started(
    script: Path, *words: str, limit: int | None = None, naps: float = 0.0
) -> subprocess.Popen[bytes]:
    """A run in a process of its own; with ``limit`` no file of it may be larger.

    It limits itself: JAX, which other tests load, forbids code between fork and exec.
    """
    script.write_text(SCRIPT)
    path = os.pathsep.join([str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, str(script), *words],
        env={
            **os.environ,
            "PYTHONPATH": path,
            "WALK_NAPS": str(naps),
            "LARGEST_FILE": "" if limit is None else str(limit),
        },
        stderr=subprocess.PIPE,
    )


@pytest.mark.slow
def test_a_write_that_the_system_refuses(tmp_path: Path, long: Run) -> None:
    """A real refusal: the shards of this run are larger than a file may be."""
    folder = tmp_path / "run"
    words = (str(folder), "workers", "1")
    process = started(tmp_path / "run.py", *words, limit=4000)
    said = process.communicate()[1].decode()
    assert process.returncode == 1
    assert "File too large; make room" in said.splitlines()[-1]
    assert list(folder.rglob(f".*{PART}")) == []
    process = started(tmp_path / "run.py", *words)
    assert process.communicate()[1] == b"" and process.returncode == 0
    assert tables(folder) == tables(long.folder)


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def _gone(pids: set[int]) -> bool:
    """Whether they end, given a while."""
    waiting = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(10)"])
    try:
        while waiting.poll() is None:
            if not any(_alive(pid) for pid in pids):
                return True
            with suppress(subprocess.TimeoutExpired):
                waiting.wait(timeout=0.05)
        return False
    finally:
        waiting.kill()
        waiting.wait()


NAPS = 0.03


def killed(folder: Path, script: Path, where: tuple[str, str], times: int, seed: int) -> None:
    """Start a run, kill it at a random moment, and so on; then let it finish.

    Moments count from when it takes the folder, or from when it has kept something new; importing is no
    moment of interest.
    """
    rng = np.random.default_rng(seed)
    words = (str(folder), *where)
    lock, timings = folder / ".lock", folder / "timings.csv"
    for _ in range(times):
        kept = timings.stat().st_size if timings.exists() else 0
        early = rng.random() < 0.25
        process = started(script, *words, naps=NAPS)
        while process.poll() is None:
            if early and lock.exists() and f"process {process.pid} " in lock.read_text():
                break
            if not early and timings.exists() and timings.stat().st_size > kept:
                break
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.02)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=float(rng.uniform(0.0, 0.4)))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL, "it ended before it was killed"
    process = started(script, *words)
    assert process.communicate()[1] == b"" and process.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "times"), [("1", 7), ("2", 7)])
def test_kill_9_at_random_moments(tmp_path: Path, long: Run, workers: str, times: int) -> None:
    folder = tmp_path / "run"
    killed(folder, tmp_path / "run.py", ("workers", workers), times, seed=int(workers))
    assert tables(folder) == tables(long.folder)
    lines = (folder / "timings.csv").read_text().splitlines()[1:]
    pids = {int(line.rpartition(":")[2]) for line in lines}
    assert len(pids) > 1, "several processes took part"
    assert _gone(pids), "workers end with the run that started them"


@pytest.mark.slow
def test_kill_9_of_a_run_on_a_dask_cluster(tmp_path: Path, long: Run) -> None:
    pytest.importorskip("distributed")
    from runs.clusters import cluster

    folder = tmp_path / "run"
    with cluster(tmp_path, workers=2, naps=NAPS) as (address, _):
        killed(folder, tmp_path / "run.py", ("dask", address), 6, seed=3)
    assert tables(folder) == tables(long.folder)
