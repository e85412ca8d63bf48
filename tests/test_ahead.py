"""A helper compiles what comes next: it helps, and whatever becomes of it, nothing else changes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sublearn import _ahead, _compile

KERNELS = """
import time
from sublearn._compile import compiled

@compiled
def now(x):
    return x + 1

@compiled
def later(x):
    return 2 * x

def rehearse():
    later(3)

def fail():
    raise RuntimeError("a rehearsal that fails")

def idle():
    time.sleep(600)
"""

# A core of its own is there or not: that is asked of _may_start below.
MAIN = """
import sys
import kernels
from sublearn import _ahead
if {anyway}:
    _ahead._may_start = lambda: True
_ahead.ahead({what!r})
assert not _ahead._started  # nothing has been compiled yet
answers = [kernels.now(1)]
helper = _ahead._started.get({what!r})
print(0 if helper is None else helper.pid, flush=True)
{then}
answers.append(kernels.later(3))
print(answers, kernels.later.stats.cache_hits.total())
"""
WAIT = "helper is None or helper.wait(timeout=300)"


def _program(what: str, then: str, anyway: bool = True) -> str:
    return MAIN.format(what=f"kernels:{what}", then=then, anyway=anyway)


def _environment(place: Path) -> dict[str, str]:
    (place / "kernels.py").write_text(KERNELS, encoding="utf-8")
    return {**os.environ, "NUMBA_CACHE_DIR": str(place / "cache"), "PYTHONPATH": str(place)}


def _run(place: Path, what: str, then: str = WAIT, anyway: bool = True) -> tuple[int, str]:
    """The number of the helper's process, and what the program came to."""
    program = [sys.executable, "-c", _program(what, then, anyway)]
    done = subprocess.run(
        program, env=_environment(place), capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    pid, came = done.stdout.splitlines()
    return int(pid), came


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_what_comes_next_is_compiled_by_the_helper_and_loaded(tmp_path: Path) -> None:
    pid, came = _run(tmp_path, "rehearse")
    assert pid > 0
    assert came == "[2, 6] 1"


def test_no_helper_is_started_where_machine_code_is_loaded(tmp_path: Path) -> None:
    _run(tmp_path, "rehearse")
    assert _run(tmp_path, "rehearse") == (0, "[2, 6] 1")


@pytest.mark.parametrize("what", ["fail", "no_such_function"])
def test_a_helper_that_fails_does_no_harm(tmp_path: Path, what: str) -> None:
    pid, came = _run(tmp_path, what)
    assert pid > 0
    assert came == "[2, 6] 0"


def test_a_helper_that_is_late_is_not_waited_for_and_ends_with_the_program(tmp_path: Path) -> None:
    pid, came = _run(tmp_path, "idle", "assert helper.poll() is None")
    assert came == "[2, 6] 0"
    assert not _is_there(pid)


def test_a_helper_ends_with_a_program_that_is_killed(tmp_path: Path) -> None:
    program = [sys.executable, "-c", _program("idle", "import time; time.sleep(600)")]
    with subprocess.Popen(program, env=_environment(tmp_path), stdout=subprocess.PIPE) as main:
        assert main.stdout is not None
        pid = int(main.stdout.readline())
        assert _is_there(pid)
        main.send_signal(signal.SIGKILL)
    for _ in range(2000):  # it was told to idle for longer
        if not _is_there(pid):
            return
        time.sleep(0.05)
    raise AssertionError("the helper is still there")


def test_a_helper_that_has_ended_leaves_no_zombie(tmp_path: Path) -> None:
    then = "import time\nwhile helper.returncode is None: time.sleep(0.05)"  # asked of nobody
    assert _run(tmp_path, "rehearse", then)[1] == "[2, 6] 1"


def test_a_helper_starts_only_where_it_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: None)
    assert _ahead._may_start()
    for place, name, value in (
        (os, "sched_getaffinity", lambda _: {0}),
        (multiprocessing, "parent_process", multiprocessing.current_process),
        (_compile._WATCH, "kept", False),
        (sys, "executable", ""),
    ):
        with monkeypatch.context() as here:
            here.setattr(place, name, value)
            assert not _ahead._may_start(), name


def test_a_worker_process_starts_no_helper(tmp_path: Path) -> None:
    code = (
        "from concurrent.futures import ProcessPoolExecutor\n"
        "from multiprocessing import get_context\n"
        "from sublearn._ahead import _may_start\n"
        "if __name__ == '__main__':\n"
        "    with ProcessPoolExecutor(1, mp_context=get_context('spawn')) as pool:\n"
        "        print(pool.submit(_may_start).result())\n"
    )
    file = tmp_path / "main.py"
    file.write_text(code, encoding="utf-8")
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


def _cache(place: Path, stamp: str = "of the source") -> Any:
    kept: Any = _compile._Kept
    return kept(str(place), "kernel-1.py311", stamp)


def test_two_processes_that_write_at_once_do_not_mix_machine_code_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One has read the index before the other writes it, and writes its code in between."""
    one, two = _cache(tmp_path), _cache(tmp_path)
    write = one._save_data

    def after_the_other(name: str, data: object) -> None:
        two.save("for floats", "code for floats")
        write(name, data)

    monkeypatch.setattr(two, "_load_index", dict)
    monkeypatch.setattr(one, "_save_data", after_the_other)
    one.save("for integers", "code for integers")
    assert _cache(tmp_path).load("for integers") == "code for integers"
    assert _cache(tmp_path).load("for floats") == "code for floats"


def test_machine_code_of_an_older_version_is_never_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may look at any moment between the first thing that is written and the last."""
    _cache(tmp_path, "older").save("for floats", "old code")
    new, seen = _cache(tmp_path), []

    def looking(write: Any) -> Any:
        def write_and_look(*what: object) -> None:
            seen.append(_cache(tmp_path).load("for floats"))
            write(*what)
            seen.append(_cache(tmp_path).load("for floats"))

        return write_and_look

    for step in ("_save_data", "_save_index"):
        monkeypatch.setattr(new, step, looking(getattr(new, step)))
    new.save("for floats", "new code")
    assert seen == [None, None, None, "new code"]


REHEARSED = """
import sublearn as sl
from sublearn.matchers.proofs import _doubles, _quick
names = ("residual", "jacobian", "descend", "bound_moves", "inflate", "multiply", "factors", "enclose")
def types():
    return {name: getattr(_doubles, name).signatures for name in names}
_quick.rehearse()
before = types()
assert all(len(found) == 1 for found in before.values()), before
problem = sl.Problem(sl.LinearRNN(n=8, b=1, d=4, T=4), samples=4)
assert sl.decide(sl.draw(problem, {"W": sl.FirstRows(5)}, trial=17)).rung == "search"
assert types() == before
"""


def test_the_rehearsal_of_a_proof_compiles_what_a_proof_needs() -> None:
    subprocess.run([sys.executable, "-c", REHEARSED], check=True)


@pytest.mark.slow
def test_a_decision_is_the_same_with_and_without_a_helper(tmp_path: Path) -> None:
    """Both with nothing compiled before."""
    code = (
        "import sublearn as sl\n"
        "from sublearn import _ahead\n"
        "_ahead._may_start = lambda: {anyway}\n"
        "problem = sl.Problem(sl.LinearRNN(n=8, b=1, d=4, T=4), samples=4)\n"
        "found = sl.decide(sl.draw(problem, {{'W': sl.FirstRows(5)}}, trial=17))\n"
        "assert bool(_ahead._started) is {anyway}\n"
        "print(found.rung, found.effort, found.values.tobytes().hex())"
    )
    alone, helped = (
        subprocess.run(
            [sys.executable, "-c", code.format(anyway=anyway)],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / str(anyway))},
            capture_output=True,
            check=True,
        ).stdout
        for anyway in (False, True)
    )
    assert alone == helped
