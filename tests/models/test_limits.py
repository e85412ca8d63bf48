"""Limits: the largest scores that they allow, against sorting everything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sublearn import BadInputError
from sublearn.models import _limits
from sublearn.models._limits import Limits, layer_of

SHAPES = {
    "a.weight": (3, 4),
    "a.bias": (3,),
    "b.0.weight": (2, 3, 2),
    "b.0.bias": (2,),
    "scale": (),
}


def by_sorting(
    limits: Limits, scores: dict[str, Any], count: int, taken: dict[str, Any], caps: dict[str, int]
) -> set[tuple[str, int]]:
    """Take one at a time, the best first, as long as its layer has room."""
    room = dict(caps)
    for name, mask in taken.items():
        if layer_of(name) in room:
            room[layer_of(name)] -= int(mask.sum())
    places = [
        (-float(scores[name].reshape(-1)[i]), number, i, name)
        for number, name in enumerate(limits.shapes)
        if name in scores
        for i in range(scores[name].size)
        if limits.allowed[name].reshape(-1)[i] and not taken[name].reshape(-1)[i]
    ]
    found: set[tuple[str, int]] = set()
    for _, _, i, name in sorted(places):
        if len(found) == count:
            break
        if room.get(layer_of(name), 1) > 0:
            found.add((name, i))
            if layer_of(name) in room:
                room[layer_of(name)] -= 1
    return found


@given(
    seed=st.integers(0, 10**6),
    count=st.integers(1, 30),
    cap=st.none() | st.integers(1, 6),
    ties=st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_the_largest_allowed_scores(seed: int, count: int, cap: int | None, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    forbidden = {name: rng.random(shape) < 0.2 for name, shape in SHAPES.items()}
    limits = Limits(SHAPES, forbidden=forbidden, at_most=cap)
    draw = (lambda s: rng.integers(0, 3, s).astype(float)) if ties else rng.standard_normal
    scores = {name: np.asarray(draw(shape)) for name, shape in SHAPES.items()}
    del scores[rng.choice(list(SHAPES))]
    taken = {
        name: (rng.random(shape) < 0.1) & limits.allowed[name]
        if cap is None
        else np.zeros(shape, bool)
        for name, shape in SHAPES.items()
    }
    found = limits.pick(scores, count, taken)
    held = {(name, int(i)) for name, ids in found.entries.items() for i in ids}
    caps = {} if cap is None else {layer_of(name): cap for name in SHAPES}
    assert held == by_sorting(limits, scores, count, taken, caps)
    assert found.count == len(held)


@pytest.mark.parametrize("ties", [False, True])
def test_many_blocks_give_the_same(monkeypatch: pytest.MonkeyPatch, ties: bool) -> None:
    rng = np.random.default_rng(0)
    score = rng.integers(0, 9, 500).astype(np.float32) if ties else rng.standard_normal(500)
    free = rng.random(500) < 0.7
    order = [i for i in np.argsort(-score, kind="stable") if free[i]]
    for block in (1, 7, 64, 1000):
        monkeypatch.setattr(_limits, "_BLOCK", block)
        for count in (0, 1, 5, 100, 400):
            assert _limits._largest(score, free, count).tolist() == sorted(order[:count])


def test_gap_at_the_cut() -> None:
    limits = Limits({"w": (4,)})
    nothing = limits.start()
    assert limits.pick({"w": np.array([4.0, 1.0, 3.0, 2.0])}, 2, nothing).gap == pytest.approx(
        1 / 3
    )
    assert limits.pick({"w": np.array([4.0, 3.0, 3.0, 2.0])}, 2, nothing).gap == 0.0
    assert limits.pick({"w": np.array([4.0, 3.0, 3.0, 2.0])}, 4, nothing).gap is None


def test_rows_are_chosen_whole_by_their_mean() -> None:
    limits = Limits({"w": (3, 4), "b": (3,)}, unit="row")
    scores = {
        "w": np.array([[1, 1, 1, 1], [9, 0, 0, 0], [2, 2, 2, 2]]),
        "b": np.array([3, 0.5, 0.1]),
    }
    found = limits.pick(scores, 9, limits.start())
    # Means 1, 2.25, 2; biases 3, .5, .1. In order: b0 (1), row 1 (4), row 2 (4): nine entries.
    assert sorted(found.entries["w"].tolist()) == [4, 5, 6, 7, 8, 9, 10, 11]
    assert found.entries["b"].tolist() == [0]
    # Where a row no longer fits, smaller units after it still do.
    assert limits.pick(scores, 7, limits.start()).entries["b"].tolist() == [0, 1, 2]


def test_a_row_must_be_allowed_whole() -> None:
    forbidden = np.zeros((2, 3), bool)
    forbidden[0, 1] = True
    limits = Limits({"w": (2, 3)}, forbidden={"w": forbidden}, unit="row")
    assert limits.allowed["w"].tolist() == [[False] * 3, [True] * 3]
    assert limits.size == 3


def test_names_layers_and_patterns() -> None:
    assert Limits(SHAPES, within="a").size == 15
    assert Limits(SHAPES, within=["*.bias", "scale"]).size == 6
    assert Limits(SHAPES, forbidden="b").size == 16
    assert Limits(SHAPES, at_most=2).size == 2 + 2 + 1
    assert Limits(SHAPES, at_most={"a": 4}).size == 4 + 14 + 1
    required = Limits(SHAPES, required="a.bias").start()
    assert {name: int(mask.sum()) for name, mask in required.items() if mask.any()} == {"a.bias": 3}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"within": "c"}, "within: the model has no weight or layer 'c'"),
        ({"within": "a.wieght"}, "Did you mean 'a.weight'"),
        ({"forbidden": [3]}, "forbidden must name layers, and 3 is no name"),
        ({"required": {"a.bias": [True]}}, r"required\['a.bias'\] must be a mask"),
        ({"required": "a", "forbidden": "a.bias"}, "required asks for 3 entries of a.bias"),
        (
            {"required": "a", "at_most": 5},
            "required asks for 15 entries of a, and at_most allows 5",
        ),
        ({"at_most": 0}, "at_most must be a whole number of at least 1, not 0"),
        ({"unit": "column"}, "unit must be one of entry, row, not 'column'"),
    ],
)
def test_bad_limits(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        Limits(SHAPES, **arguments)


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (0, "budget must be a whole number of at least 1, not 0"),
        (31, "budget must be at most 30, the number of weights of the model, not 31"),
        (2, "budget must be at least 3, the number of entries that required names, not 2"),
        (1.5, "budget must be a whole number"),
    ],
)
def test_bad_budgets(budget: Any, words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        Limits(SHAPES, required="a.bias").check_budget(budget)


def test_scores_that_cannot_be_used() -> None:
    limits = Limits({"w": (2,)})
    with pytest.raises(
        BadInputError, match=r"the scores of w must have its shape \(2,\), not \(3,\)"
    ):
        limits.pick({"w": np.zeros(3)}, 1, limits.start())
    with pytest.raises(BadInputError, match="some are NaN"):
        limits.pick({"w": np.array([0.0, np.nan])}, 1, limits.start())
