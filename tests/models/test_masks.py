"""Everything that says which weights may change becomes the same masks; no torch needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sublearn as sl
from sublearn.models._choice import Choice
from sublearn.models._masks import resolve_masks

SHAPES = {"fc.weight": (2, 3), "fc.bias": (2,), "head.weight": (1, 2)}


def _same(found: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return list(found) == list(wanted) and all(np.array_equal(found[n], wanted[n]) for n in wanted)


def test_every_way_in(tmp_path: Path) -> None:
    mask = np.array([[True, False, False], [False, False, True]])
    wanted = {"fc.weight": mask, "fc.bias": np.ones(2, bool)}
    given: dict[str, Any] = {"fc.bias": True, "fc.weight": mask.tolist(), "head.weight": False}
    choice = Choice.from_masks({"fc.bias": np.ones(2, bool), "fc.weight": mask})
    choice.save(tmp_path / "mask.npz")
    for what in (given, {**given, "fc.weight": mask.astype(int)}, choice, tmp_path / "mask.npz"):
        assert _same(resolve_masks(what, SHAPES), wanted)
    assert list(resolve_masks(["head.weight"], SHAPES)) == ["head.weight"]
    for kind in (str, object):
        names = np.array(["head.weight", "fc.bias"], dtype=kind)
        assert list(resolve_masks(names, SHAPES)) == ["fc.bias", "head.weight"]
    assert list(resolve_masks(["fc"], SHAPES)) == list(resolve_masks("fc", SHAPES)) == [*SHAPES][:2]
    assert list(resolve_masks("*.weight", SHAPES)) == ["fc.weight", "head.weight"]
    assert _same(resolve_masks({"fc": True, "head": False}, SHAPES), resolve_masks("fc", SHAPES))
    flags = {"fc.weight": False, "fc.bias": True, "head.weight": False}
    assert list(resolve_masks(None, SHAPES, {}, flags)) == ["fc.bias"]


def test_a_tied_weight_goes_by_any_of_its_names() -> None:
    tied = {"out.weight": "head.weight"}
    found = resolve_masks({"out.weight": [[1, 0]], "head.weight": [[0, 1]]}, SHAPES, tied)
    assert _same(found, {"head.weight": np.ones((1, 2), bool)})


def test_an_allocation() -> None:
    net = sl.FeedForward((3, 2, 1))
    allocation = sl.Allocation.from_entries(net, {"W1": [(0, 1)], "W2": [(0, 0), (0, 1)]})
    found = resolve_masks(allocation, net.shapes)
    assert found["W1"].tolist() == [[False, True, False], [False, False, False]]
    assert sl.Allocation.from_masks(net, found) == allocation


@pytest.mark.parametrize(
    "what, message",
    [
        ({"fc.wieght": True}, "Did you mean 'fc.weight'"),
        ({"fc.bias": [True]}, r"must be of shape \(2,\), not \(1,\): is it of another model"),
        ({"fc.bias": [0.5, 1]}, "only true and false"),
        ({"fc.bias": [[True], [True, False]]}, "array of true and false"),
        ({"a.weight": True, "a.bias": True}, "none of the masks' 2 names .*: are they of another"),
        ({"fc.bias": [np.nan, 1]}, "only true and false"),
        (np.ones((2, 3), dtype=bool), "not ndarray"),
        (np.array("fc.bias"), "not ndarray"),
        (np.array([["fc.bias"]]), "not ndarray"),
        (np.array(["fc.bais"]), "Did you mean 'fc.bias'"),
        ({"fc.bias": False}, "nothing may change"),
        (3, "not int"),
        ("fcc", "a name of a parameter, layer or pattern that may change must be one of fc.weight"),
        (["*.gain"], r"must be one of fc.weight, .*, not '\*.gain'"),
        ([3], "must be one of fc.weight, .*, not 3"),
        ("no-such-file.npz", "there is no file"),
    ],
)
def test_bad_input_gets_one_sentence(what: Any, message: str) -> None:
    with pytest.raises(sl.BadInputError, match=message) as caught:
        resolve_masks(what, SHAPES)
    assert "\n" not in str(caught.value)


def test_all_frozen() -> None:
    with pytest.raises(sl.BadInputError, match="all 3 parameters of the model are frozen"):
        resolve_masks(None, SHAPES, {}, dict.fromkeys(SHAPES, False))


def test_many_names_are_not_all_listed() -> None:
    shapes = {f"block.{i}.weight": (1,) for i in range(200)}
    with pytest.raises(sl.BadInputError) as caught:
        resolve_masks(["block.7.wieght"], shapes)
    assert "block.7.weight" in str(caught.value) and len(str(caught.value)) < 250
