"""Ctrl-C: remembered, heeded at the next safe point, the second at once; 130 always, nothing lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import sublearn
import sublearn.runs as runs
from runs.toys import tables, walks
from sublearn._interrupts import deferred, ending, safe_point
from sublearn.runs import Progress, execute

GRID = {"points": 3, "trials": 20, "chunk": 4}


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(autouse=True)
def _heard() -> object:
    """A shell gives background jobs an ignored SIGINT; here it is heard."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def swallowing() -> None:
    """As compilers do: whatever comes is caught."""
    with suppress(BaseException):
        press()


def test_one_that_is_swallowed_is_not_lost() -> None:
    with pytest.raises(SystemExit) as stopped, ending():
        swallowing()
        raise SystemExit(0)  # the command believes that all went well
    assert stopped.value.code == 130
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_fails_because_of_it_has_no_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped, ending():
        swallowing()
        raise SystemError("returned NULL without setting an exception")
    assert stopped.value.code == 130
    assert capfd.readouterr().err.strip() == "sublearn: interrupted"


def test_other_ends_stay_as_they_are() -> None:
    with pytest.raises(SystemExit) as stopped, ending():
        raise SystemExit(3)
    assert stopped.value.code == 3
    with pytest.raises(ZeroDivisionError), ending():
        _ = 1 / 0


def test_inside_it_is_remembered_until_a_safe_point(capfd: pytest.CaptureFixture[str]) -> None:
    reached = []
    with pytest.raises(KeyboardInterrupt), deferred():
        press()
        reached.append("after the first")
        safe_point()
        reached.append("after the safe point")
    assert reached == ["after the first"]
    assert "Ctrl-C again stops at once" in capfd.readouterr().err
    safe_point()  # and outside nothing of it is left


def test_the_second_comes_through_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), deferred():
        press()
        press()
        raise AssertionError("not reached")


def test_in_a_thread_nothing_is_changed() -> None:
    found: list[object] = []

    def work() -> None:
        with deferred():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]


def test_where_it_is_ignored_it_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with deferred():
        press()
        safe_point()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_a_run_keeps_the_chunk_in_hand(tmp_path: Path) -> None:
    """The first Ctrl-C comes while a chunk is computed; it is finished, kept, and the run stops."""
    pressed: list[int] = []

    def stop(now: Progress) -> None:
        if now.done == 8:
            pressed.append(now.done)
            press()

    with pytest.raises(KeyboardInterrupt):
        execute([walks(**GRID)], out=tmp_path / "run", progress=stop)
    assert pressed == [8] and runs.open(tmp_path / "run").state("walks").trials_done == 8
    execute([walks(**GRID)], out=tmp_path / "run")
    execute([walks(**GRID)], out=tmp_path / "plain")
    assert tables(tmp_path / "run") == tables(tmp_path / "plain")


SPEC = """
task = "estimate"
trials = 4000
axes.k = [1, 2]
[params]
network = "lrnn:n=2,b=1,d=1,T=2"
samples = 2
learn = "W:first-rows={k}"
"""
CODE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
print("here", flush=True)
from sublearn.__main__ import main
if __name__ == "__main__":
    main()
"""


def pressed_after(seconds: float, folder: Path, workers: int) -> tuple[int, str]:
    """Exit code and words of a sweep that gets Ctrl-C so long after its first line, as a group does."""
    (folder / "rows.toml").write_text(SPEC)
    (folder / "start.py").write_text(CODE)
    words = ["start.py", "sweep", "rows.toml", "--out", "run", "--workers", str(workers)]
    with _started(words, folder) as process:
        assert process.stdout is not None and process.stdout.readline() == "here\n"
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=seconds)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=300)
    return process.returncode, said


def _started(words: list[str], folder: Path) -> subprocess.Popen[str]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [sys.executable, *words]
    return subprocess.Popen(command, cwd=folder, start_new_session=True, **pipes)  # type: ignore


@pytest.mark.parametrize("seconds", [0.05, 1.5])
def test_early_ctrl_c(seconds: float, tmp_path: Path) -> None:
    code, said = pressed_after(seconds, tmp_path, workers=1)
    # Before the handler stands the signal itself ends the process, which a shell calls 130 too.
    assert code in (130, -signal.SIGINT) and "Traceback" not in said, said


SCRIPT = "from sublearn.__main__ import main\nmain()\n"


@pytest.mark.parametrize("words", [["-m", "sublearn"], ["sublearn"]])
def test_ctrl_c_while_the_package_itself_is_loaded(words: list[str], tmp_path: Path) -> None:
    """Pressed by the first thing that the package imports, before any line of the command is read."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sublearn").write_text(SCRIPT)
    (tmp_path / "lazy_loader.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)\n"
    )
    source = str(Path(sublearn.__file__).parents[1])
    before = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    (tmp_path / "sitecustomize.py").write_text(before)
    found = subprocess.run(
        [sys.executable, *words, "--version"],
        cwd=tmp_path / "bin",
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), source])},
        capture_output=True,
        text=True,
    )
    assert found.returncode in (130, -signal.SIGINT) and found.stderr == "", found.stderr


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_at_random_moments_of_the_first_seconds(workers: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(workers)
    for number in range(12):
        folder = tmp_path / str(number)
        folder.mkdir()
        code, said = pressed_after(float(rng.uniform(0.0, 6.0)), folder, workers)
        assert code == 130 and "Traceback" not in said, said


# In the middle of text that is executed, as dataclasses do while they are imported: Python then ends
# itself by the signal, whatever code was asked for.
INSIDE = """
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from sublearn._interrupts import ending
with ending(process=True):
    exec("os.kill(os.getpid(), signal.SIGINT)")
"""
# Before there is a handler: while the module that brings it is loaded.
BEFORE = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)

class Press:
    def find_spec(self, name, path=None, target=None):
        if name == "sublearn._interrupts":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Press())
from sublearn.__main__ import main
main()
"""


@pytest.mark.parametrize("code", [INSIDE, BEFORE], ids=["inside", "before"])
def test_at_awkward_moments(code: str, tmp_path: Path) -> None:
    """As a shell sees it: 130, and no traceback."""
    words = ["sh", "-c", '"$0" -c "$1"; exit $?', sys.executable, code]
    found = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert found.returncode == 130 and "Traceback" not in found.stderr, found.stderr


def test_the_code_is_130_for_who_is_no_shell(tmp_path: Path) -> None:
    words = [sys.executable, "-c", INSIDE]
    found = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert found.returncode == 130, found.stderr


DEAF = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from sublearn._interrupts import deferred, ending
with ending(process=True), deferred():
    print("here", flush=True)
    while True:
        try:
            signal.pause()
        except BaseException:
            pass
"""


def test_the_second_ctrl_c_ends_even_what_hears_nothing(tmp_path: Path) -> None:
    with _started(["-c", DEAF], tmp_path) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "here\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline() == "\n"
        assert "stopping at the next safe point" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
        assert process.wait(timeout=60) == 130 and "stopped at once" in said
