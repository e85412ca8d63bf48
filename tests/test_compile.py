"""Machine code: who waits for it is told, and it needs no folder that can be written."""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sublearn import _compile

COMPILING = """
import time
from numba.core import event
from sublearn import _compile
{first}
_compile._patience = lambda kept: {seconds}
for status in (event.EventStatus.START, event.EventStatus.END):
    for _ in range(2):  # one inside the other
        event.broadcast(event.Event("numba:compile", status, None))
    if _compile._WATCH._timer.is_alive() and {seconds} < 1:
        _compile._WATCH._timer.join()
event.broadcast(event.Event("numba:compile", event.EventStatus.START, None))
"""


@pytest.mark.parametrize(("seconds", "lines"), [(0.0, 1), (1e-3, 1), (1000.0, 0), ("inf", 0)])
@pytest.mark.parametrize("kept", [True, False])
def test_who_waits_for_the_compiler_is_told_once(
    seconds: float | str, lines: int, kept: bool
) -> None:
    first = f"_compile._WATCH.kept = {kept}"
    code = COMPILING.format(first=first, seconds=f"float('{seconds}')")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    told = done.stderr.splitlines()
    assert len(told) == lines
    for line in told:
        assert line.startswith("sublearn: compiling machine code, ") and len(line) <= 80
        assert ("each time" in line) is not kept and ("once, for 3 to 15 seconds" in line) is kept


class _Stream:
    closed = False

    def __init__(self, terminal: bool) -> None:
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


def test_how_long_each_reader_waits_for_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _compile._patience(True) == inf  # this process reads what is said itself
    terminal, log = _Stream(terminal=True), _Stream(terminal=False)
    for stream, long, at_once in ((terminal, 1.0, 0.0), (log, 5.0, 0.0)):
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(sys, "__stderr__", stream)
        assert _compile._patience(True) == long
        assert _compile._patience(False) == at_once
    monkeypatch.setattr(_compile, "in_worker", lambda: True)
    for stream in (terminal, log):  # a word of every worker would tear the progress bar
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(sys, "__stderr__", stream)
        assert _compile._patience(True) == _compile._patience(False) == inf
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    assert _compile._patience(True) == 1.0
    monkeypatch.delitem(sys.modules, "ipykernel")
    monkeypatch.setattr(sys, "stderr", None)
    assert _compile._patience(True) == inf


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
    assert done.stderr == "sublearn: compiling machine code, each time: no folder can keep it.\n"


SEEDED = """
import numpy as np
import sublearn as sl
from sublearn.matchers.search._search import candidates
rows, rnn = sl.FirstRows, sl.LinearRNN(n=8, b=1, d=4, T=4)
layers = sl.FeedForward((4, 8, 8, 6))
for problem, rules, trials in (
    (sl.Problem(rnn, 4), {"W": rows(8)}, 3),
    (sl.Problem(sl.LinearRNN(n=16, b=1, d=4, T=8), 8), {"W": rows(16)}, 2),
    (sl.Problem(layers, 4), {"W1": sl.FirstColumns(4, 8), "W2": rows(4, 8), "W3": rows(4, 8)}, 2),
):
    for trial in range(trials):
        instance = sl.draw(problem, rules, seed=5, trial=trial)
        for values, effort in candidates(instance, 40, 200, np.random.default_rng([5, trial])):
            if values is not None:
                break
        print(effort.iterations, values is not None and values.tobytes().hex())
noise = sl.noise.Noise((1e-2, 1e-3, 1e-3), 1.0)
for activation in ("linear", "tanh", "sigmoid"):
    problem = sl.Problem(sl.FeedForward((10, 20, 20, 5), activation=activation), 30)
    instance = sl.draw(problem, {"W1": rows(20, 30), "W2": rows(20, 30)}, seed=1, trial=0)
    print(sl.noise.simulate(instance, noise, cycles=2000, repeats=1, seed=0).errors.tobytes().hex())
"""


@pytest.mark.slow
def test_results_do_not_depend_on_whether_machine_code_was_compiled_or_loaded(
    tmp_path: Path,
) -> None:
    compiled, loaded = (
        subprocess.run(
            [sys.executable, "-c", SEEDED],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            check=True,
        ).stdout
        for _ in range(2)
    )
    assert compiled == loaded


def test_the_compiler_orders_sums_only_where_they_are_exact() -> None:
    """Elsewhere bits would depend on which copy of a function is called, and so on what was loaded."""
    root = Path(_compile.__file__).parent
    free = {
        path.relative_to(root).parts[0]
        for path in root.rglob("*.py")
        if "fastmath" in (text := path.read_text(encoding="utf-8")) or "@any_order" in text
    }
    assert free == {"_compile.py", "exact"}


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_multiply_and_add_rounds_once(kind: type) -> None:
    """Against exact fractions, for machine code and for Python alike."""

    @_compile.compiled
    def fused(a: Any, b: Any, c: Any) -> Any:
        return _compile.fma(a, b, c)

    rng = np.random.default_rng(0)
    differs = 0
    for a, b in rng.normal(size=(200, 2)).astype(kind):
        c = kind(-a * b)  # so that what is left is what rounding twice would lose
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        assert Fraction(float(fused(a, b, c))) == exact == Fraction(float(_compile.fma(a, b, c)))
        differs += exact != 0
    assert differs > 100
