"""Machine code: who waits for it is told, and it needs no folder that can be written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sublearn import _compile

COMPILING = """
import time
from numba.core import event
from sublearn import _compile
_compile._someone_waits = lambda: True
_compile._WATCH._left = {seconds}
for status in (event.EventStatus.START, event.EventStatus.END):
    for _ in range(2):  # one inside the other
        event.broadcast(event.Event("numba:compile", status, None))
    if _compile._WATCH._timer.is_alive() and {seconds} < 1:
        _compile._WATCH._timer.join()
"""


@pytest.mark.parametrize(("seconds", "lines"), [(1e-3, 1), (1000.0, 0)])
def test_who_waits_for_the_compiler_is_told_once(seconds: float, lines: int) -> None:
    code = COMPILING.format(seconds=seconds)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    told = done.stderr.splitlines()
    assert len(told) == lines
    assert all("compiling machine code" in line for line in told)


def test_nobody_is_told_where_nobody_waits() -> None:
    assert not sys.stderr.isatty()
    assert not _compile._someone_waits()


def test_an_installation_that_cannot_be_written_works(tmp_path: Path) -> None:
    """No folder for machine code, as with a read-only installation and no home: it stays in memory."""
    code = (
        "from numba.core import caching\n"
        "caching.FunctionCache._impl_class._locator_classes = []\n"
        "from sublearn import _compile\n"
        "twice = _compile.compiled(lambda x: x + x)\n"
        "print(twice(21), _compile._WATCH.kept)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path / "none")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["42", "False"]
