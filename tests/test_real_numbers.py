"""Complex numbers, text and booleans are no weights, inputs, targets or scores: refused at every door."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sublearn as sl
import test_cli
from test_cli import Run

run = test_cli.run
NET = sl.LinearEstimator(inputs=2, outputs=1)
SOME = sl.Allocation.from_entries(NET, {"W": [(0, 1)]})
PROBLEM = sl.Problem(NET, samples=2)
W, X, Y = np.ones((1, 2)), np.eye(2), np.ones((1, 2))
KINDS = {
    "complex ones": lambda good: good + 1j,
    "text": lambda good: good.astype(str),
    "booleans": lambda good: good.astype(bool),
}
DOORS: list[tuple[str, np.ndarray, Callable[[Any], object]]] = [
    ("weight W", W, lambda bad: sl.Instance(NET, SOME, {"W": bad}, X, Y)),
    ("inputs", X, lambda bad: sl.Instance(NET, SOME, {"W": W}, bad, Y)),
    ("targets", Y, lambda bad: sl.Instance(NET, SOME, {"W": W}, X, bad)),
    ("weight W", W, lambda bad: sl.Instance.given(NET, SOME, {"W": bad}, X, Y)),
    ("inputs", X, lambda bad: sl.Instance.given(NET, SOME, {"W": W}, bad, Y)),
    ("factor of the inputs", X, lambda bad: sl.Instance.given(NET, SOME, {"W": W}, (bad, X), Y)),
    ("targets", Y, lambda bad: sl.Instance.given(NET, SOME, {"W": W}, X, bad)),
    ("weight W", W, lambda bad: sl.Instance.from_teacher(NET, SOME, {"W": bad}, X, {"W": W})),
    ("inputs", X, lambda bad: sl.Instance.from_teacher(NET, SOME, {"W": W}, bad, {"W": W})),
    ("weight W", W, lambda bad: sl.Instance.from_teacher(NET, SOME, {"W": W}, X, {"W": bad})),
    ("weight W", W, lambda bad: sl.Problem.given(NET, {"W": bad}, X)),
    ("inputs", X, lambda bad: sl.Problem.given(NET, inputs=bad)),
    ("targets", Y, lambda bad: sl.Problem.given(NET, inputs=X, targets=bad)),
    ("inputs", X, lambda bad: sl.Problem.from_arrays(NET, bad)),
    ("targets", Y, lambda bad: sl.Problem.from_arrays(NET, X, bad)),
    ("weight W", W, lambda bad: sl.rank_at(NET, SOME, {"W": bad}, X)),
    ("inputs", X, lambda bad: sl.rank_at(NET, SOME, {"W": W}, bad)),
    ("weight W", W, lambda bad: NET.forward({"W": bad}, X)),
    ("inputs", X, lambda bad: NET.forward({"W": W}, bad)),
    ("inputs", X, lambda bad: NET.check({"W": W}, bad, Y)),
    ("outputs", Y, lambda bad: NET.check({"W": W}, X, bad)),
    ("scores for W", W, lambda bad: sl.design(PROBLEM, ["W"], scores={"W": bad})),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("door", range(len(DOORS)))
def test_every_door(door: int, kind: str) -> None:
    name, good, ask = DOORS[door]
    ask(good)
    with pytest.raises(sl.BadInputError, match=f"{name} must hold real numbers, not {kind}\\.$"):
        ask(KINDS[kind](good))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["W", "inputs", "targets"])
def test_a_file_of_ones_own(run: Run, tmp_path: Path, name: str, kind: str) -> None:
    arrays = {"W": W, "inputs": X, "targets": Y}
    asked = ("certify", "--network", "linear:inputs=2,outputs=1", "--learn", "W:all")
    file = tmp_path / "own.npz"
    np.savez(file, **arrays)
    assert run(*asked, "--data", str(file)).code == 0
    np.savez(file, **{**arrays, name: KINDS[kind](arrays[name])})
    found = run(*asked, "--data", str(file))
    said = " ".join(found.err.split())
    assert found.code == 2 and f"{name} must hold real numbers, not {kind}." in said


def test_a_learnable_entry_of_an_instance_may_hold_no_number() -> None:
    """Nobody looks at it before learning begins there."""
    unknown = {"W": np.array([[1.0, np.nan]])}
    given = [
        sl.Instance(NET, SOME, unknown, X, Y),
        sl.Instance.given(NET, SOME, unknown, X, Y),
        sl.Instance.from_teacher(NET, SOME, unknown, X, {"W": W}),
        sl.draw(sl.Problem.given(NET, unknown, X, Y), SOME),
    ]
    assert [sl.decide(instance).kind for instance in given] == ["matched"] * 4
    with pytest.raises(sl.BadInputError, match="weight W must be finite"):
        sl.Instance(NET, SOME, {"W": np.array([[np.nan, 1.0]])}, X, Y)
