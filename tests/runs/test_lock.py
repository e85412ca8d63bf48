"""One run at a time in a folder, and no lock outlives its process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runs.toys import walks
from sublearn import BadInputError
from sublearn.runs import Progress, execute
from sublearn.runs import open as open_run
from sublearn.runs._lock import only_run

HOLD = """
import sys
from pathlib import Path
from sublearn.runs._lock import only_run
with only_run(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_second_of_two_runs_is_refused(tmp_path: Path) -> None:
    refused: list[str] = []

    def second(now: Progress) -> None:
        if not refused:
            with pytest.raises(BadInputError) as stopped:
                execute([walks("other")], out=tmp_path)
            refused.append(str(stopped.value))
            # Looking is always allowed.
            assert open_run(tmp_path).state("walks").trials == 60

    run = execute([walks()], out=tmp_path, progress=second)
    assert f"is in use by process {os.getpid()} on " in refused[0]
    assert run.names == ["walks"] and run.state("walks").finished
    execute([walks("other")], out=tmp_path)


def test_a_process_that_is_killed_lets_go(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    with (
        pytest.raises(BadInputError, match=f"in use by process {holder.pid} on"),
        only_run(tmp_path),
    ):
        pass
    holder.kill()
    holder.communicate()
    assert f"process {holder.pid}" in (tmp_path / ".lock").read_text(), "its name is still there"
    with only_run(tmp_path):
        assert f"process {os.getpid()} " in (tmp_path / ".lock").read_text()


def test_a_system_without_locks_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with pytest.raises(BadInputError, match="runs need file locks"), only_run(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []
