"""A Dask cluster of real processes on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def cluster(
    folder: Path, workers: int, naps: float = 0.0
) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """The address of a scheduler, and the processes: its own, then workers of one thread each."""
    path = os.pathsep.join([str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])])
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    env = {**os.environ, "PYTHONPATH": path, "WALK_NAPS": str(naps)}
    file = folder / "scheduler.json"

    def start(*words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "distributed.cli." + words[0], *words[1:]]
        return subprocess.Popen(command, env=env, cwd=folder, **quiet)  # type: ignore[call-overload]

    shared = ("--scheduler-file", str(file), "--no-dashboard")
    running = [start("dask_scheduler", "--host", "127.0.0.1", "--port", "0", *shared)]
    try:
        single = ("--nthreads", "1", "--no-nanny", "--memory-limit", "0")
        running += [start("dask_worker", *shared, *single) for _ in range(workers)]
        yield _address(file, running, workers), running
    finally:
        for process in reversed(running):
            process.kill()
            process.wait()


def _address(file: Path, running: list[subprocess.Popen[bytes]], workers: int) -> str:
    from distributed import Client

    # The scheduler writes its file in place: it may be there before it is whole.
    while not (file.exists() and file.read_text().rstrip().endswith("}")):
        assert running[0].poll() is None, "the scheduler did not start"
    address = str(json.loads(file.read_text())["address"])
    with Client(address, set_as_default=False) as client:
        client.wait_for_workers(workers, timeout=60)
    return address
