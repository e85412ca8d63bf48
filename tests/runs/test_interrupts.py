"""Ctrl-C: remembered, heeded at the next safe point, the second at once; 130 always, nothing lost."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sublearn as sl
import sublearn.runs as runs
from runs.toys import tables, walks
from sublearn._interrupts import deferred, ending, safe_point
from sublearn.estimates import Unfinished
from sublearn.estimates._exact import MatchQuestion, Trial
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


LINEAR = sl.LinearRNN(n=6, b=1, d=4, T=3)
SMALL, ROWS = sl.Problem(LINEAR, 3), {"W": sl.FirstRows(5)}
RELU = sl.Problem(sl.FeedForward((2, 3, 2), "relu"), 2)
FIRST = sl.Allocation.whole(RELU.network, ["W1"])
LEVELS = sl.Noise((0.1, 0.1, 0.01))


def drawn() -> sl.Instance:
    return sl.draw(RELU, FIRST)


def lesson() -> sl.Instance:
    net = sl.LinearEstimator(inputs=3, outputs=2)
    weights = {"W": np.ones((2, 3))}
    return sl.Instance(net, sl.Allocation.whole(net), weights, np.eye(3), np.zeros((2, 3)))


SCORES = np.array([[-0.54, 0.58], [0.36, 0.29], [0.03, 0.55]])
LONG: dict[str, Callable[[], object]] = {
    "estimate": lambda: sl.estimate(SMALL, ROWS, 2),
    "estimate_within": lambda: sl.estimate_within(RELU, FIRST, 2, eps=0.1, steps=2),
    "decide": lambda: sl.decide(sl.draw(SMALL, ROWS)),
    "decide_within": lambda: sl.decide_within(drawn(), 0.1),
    "train": lambda: sl.train(drawn(), steps=2),
    "certify": lambda: sl.certify(RELU, FIRST),
    "census": lambda: sl.census(sl.Problem(sl.FeedForward((3, 3, 2)), 2), "W1"),
    "census, drawn": lambda: sl.census(sl.Problem(sl.FeedForward((3, 3, 2)), 2), "W1", draws=2),
    "design": lambda: sl.design(RELU, ["W1"], want="best score", scores={"W1": SCORES}),
    "simulate": lambda: sl.simulate(lesson(), LEVELS, cycles=2, repeats=2),
    "best_size": lambda: sl.best_size(sl.noise.grow(lesson(), LEVELS), LEVELS),
    "rate": lambda: sl.local_geometry(lesson()).measure(LEVELS, draws=9),
}


@pytest.mark.parametrize("verb", LONG)
def test_what_takes_long_heeds_one_that_was_swallowed(verb: str) -> None:
    with pytest.raises(KeyboardInterrupt), _the_command_line():
        swallowing()
        LONG[verb]()


@contextmanager
def _the_command_line() -> Iterator[None]:
    """As inside ``ending``, which turns every end into its own."""
    problem: BaseException | None = None
    with suppress(SystemExit), ending():
        try:
            yield
        except BaseException as what:
            problem = what
    if problem is not None:
        raise problem


def test_counts_are_kept_where_one_was_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, answer = [], MatchQuestion.answer

    def answered(question: MatchQuestion, trials: range) -> list[Trial]:
        found = answer(question, trials)
        asked.append(trials)
        if len(asked) == 2:
            swallowing()
        return found

    monkeypatch.setattr(MatchQuestion, "answer", answered)
    with pytest.raises(Unfinished, match="after 16 trials"), _the_command_line():
        sl.estimate(SMALL, ROWS, 400)


def test_without_the_command_line_and_where_it_is_deferred_nothing_is_changed() -> None:
    swallowing()
    assert sl.estimate(SMALL, ROWS, 2).trials == 2
    with pytest.raises(KeyboardInterrupt), deferred():
        press()
        assert sl.estimate(SMALL, ROWS, 2).trials == 2  # the chunk in hand is finished
        safe_point()


def test_one_in_a_callback_of_the_compiler_is_heeded_without_a_traceback(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """What is raised in a function that C calls is printed by Python and dropped."""
    with pytest.raises(SystemExit) as end, ending():
        ctypes.CFUNCTYPE(None)(press)()
        safe_point()
    assert end.value.code == 130 and "Traceback" not in capfd.readouterr().err


def test_one_while_worker_processes_start_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    class Starting(Executor):
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def submit(self, work: Any, /, *what: Any, **how: Any) -> Any:
            press()
            done: Future[Any] = Future()
            done.set_result(work(*what, **how))
            return done

    monkeypatch.setattr("concurrent.futures.ProcessPoolExecutor", Starting)
    with pytest.raises(KeyboardInterrupt):
        sl.estimate(SMALL, ROWS, 9, workers=2)


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


SWEEP = ["sweep", "rows.toml", "--out", "run"]
PROBLEM = ["--network", "lrnn:n=6,b=1,d=4,T=3", "--samples", "3", "--learn", "W:first-rows=5"]
ESTIMATE = ["estimate", *PROBLEM, "--trials", "100000"]


def pressed_after(
    seconds: float, folder: Path, command: list[str], workers: int
) -> tuple[int, str]:
    """Exit code and words of a command that gets Ctrl-C so long after its first line, as a group does."""
    (folder / "rows.toml").write_text(SPEC)
    (folder / "start.py").write_text(CODE)
    words = ["start.py", *command, "--workers", str(workers)]
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
@pytest.mark.parametrize(
    ("command", "workers"),
    [(SWEEP, 1), (ESTIMATE, 1), (ESTIMATE, 2)],
    ids=["sweep", "estimate", "estimate-by-two"],
)
def test_early_ctrl_c(command: list[str], workers: int, seconds: float, tmp_path: Path) -> None:
    code, said = pressed_after(seconds, tmp_path, command, workers)
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
    source = str(Path(sl.__file__).parents[1])
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
@pytest.mark.parametrize("command", [SWEEP, ESTIMATE], ids=["sweep", "estimate"])
@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_at_random_moments_of_the_first_seconds(
    command: list[str], workers: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng(workers)
    for number in range(12):
        folder = tmp_path / str(number)
        folder.mkdir()
        seconds = float(rng.uniform(0.0, 6.0))
        code, said = pressed_after(seconds, folder, command, workers)
        # As above: on a busy machine the handler may take its time.
        assert code in (130, -signal.SIGINT) and "Traceback" not in said, said


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
