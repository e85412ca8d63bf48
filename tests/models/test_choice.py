"""Choices: what they print, that files give them back, that damaged files are refused."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from sublearn import BadInputError
from sublearn.models._choice import Choice, Standing, load


def example() -> Choice:
    rng = np.random.default_rng(0)
    return Choice(
        masks={
            "a.weight": rng.random((3, 4)) < 0.4,
            "a.bias": np.zeros(3, bool),
            "s": np.array(True),
        },
        budget=9,
        method="last",
        rate=0.03,
        standings=(
            Standing("last", 0.03, (0.7, 0.9), (1.0, 0.5)),
            Standing("random", 0.1, (0.2,), (2.0,)),
        ),
        metric="accuracy",
        gap=0.25,
        linearisation_error=0.5,
        passes=120,
        seed=3,
        notes=("a word",),
    )


def test_a_file_gives_the_choice_back(tmp_path: Path) -> None:
    choice = example()
    choice.save(tmp_path / "mask.npz")
    again = load(tmp_path / "mask.npz")
    assert again == choice
    assert again.to_dict() == choice.to_dict()
    assert list(again.masks) == list(choice.masks)
    for name, mask in choice.masks.items():
        assert again.masks[name].dtype == np.bool_
        assert again.masks[name].shape == mask.shape
        assert (again.masks[name] == mask).all()
    assert [path.name for path in tmp_path.iterdir()] == ["mask.npz"]


def test_the_file_is_small_however_large_the_model(tmp_path: Path) -> None:
    mask = np.zeros((2000, 2000), bool)
    mask[17, :10] = True
    Choice.from_masks({"w": mask}).save(tmp_path / "mask.npz")
    assert (tmp_path / "mask.npz").stat().st_size < 5000


def test_what_is_printed() -> None:
    text = str(example())
    count = int(example().masks["a.weight"].sum())
    assert f"{count + 1} of 16 weights chosen by last, rate 0.03" in text
    assert "0.800" in text and "0.141" in text  # mean and spread of .7 and .9, by hand
    assert "a word" in text
    assert "a.bias" not in text  # nothing of it is chosen
    layers = {row["layer"]: row for row in example().layers}
    assert layers["a.weight"] == {
        "layer": "a.weight",
        "chosen": count,
        "of": 12,
        "share": count / 12,
    }


def test_digest_and_equality_look_at_the_entries() -> None:
    one = Choice.from_masks({"w": [True, False]})
    assert one == Choice.from_masks({"w": [True, False]})
    assert one.digest != Choice.from_masks({"w": [False, True]}).digest
    assert one.digest != Choice.from_masks({"v": [True, False]}).digest
    assert one.digest != Choice.from_masks({"w": [[True, False]]}).digest


def test_bad_files(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"there is no file .*none\.npz"):
        load(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(BadInputError, match="is not a choice that this version can read"):
        load(tmp_path / "text.npz")
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    with pytest.raises(BadInputError, match="is not a choice that this version can read"):
        load(tmp_path / "other.npz")
    with pytest.raises(BadInputError, match=r"one of \.npz"):
        example().save(tmp_path / "mask.json")
    with pytest.raises(BadInputError, match="there is no folder"):
        example().save(tmp_path / "nowhere" / "mask.npz")
    with pytest.raises(BadInputError, match="must hold truth values, not float64"):
        Choice.from_masks({"w": [0.5]})


def test_an_entry_that_moved_in_the_file_is_noticed(tmp_path: Path) -> None:
    example().save(tmp_path / "mask.npz")
    with np.load(tmp_path / "mask.npz") as stored:
        arrays = dict(stored)
    arrays["entries_0"] = (arrays["entries_0"] + 1) % 12
    np.savez(tmp_path / "mask.npz", **arrays)
    with pytest.raises(BadInputError, match="damaged"):
        load(tmp_path / "mask.npz")
    assert zipfile.is_zipfile(tmp_path / "mask.npz")
    about = json.loads(str(arrays["about"][()]))
    assert about["format"] == "sublearn choice 1"


@pytest.mark.filterwarnings("error")
def test_no_spread_where_a_score_is_none() -> None:
    inf = float("inf")
    for scores in ((-inf, -inf), (0.5, -inf), (0.5,)):
        assert Standing("last", 0.1, scores, (inf,) * len(scores)).spread is None
    assert Standing("last", 0.1, (0.25, 0.75), (1.0, 1.0)).spread == pytest.approx(0.125**0.5)


def test_runs_that_went_astray_are_kept_and_told(tmp_path: Path) -> None:
    """JSON knows no infinity: such a run has null there, and comes back as it was."""
    row = Standing("last", 0.3, (float("-inf"), 0.5), (float("inf"), 1.0))
    choice = Choice({"w": np.array([True])}, 1, "last", standings=(row,))
    text = json.dumps(choice.to_dict(), allow_nan=False)
    assert json.loads(text)["standings"][0]["scores"] == [None, 0.5]
    choice.save(tmp_path / "mask.npz")
    assert load(tmp_path / "mask.npz").standings == (row,)
