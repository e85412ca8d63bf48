"""Rules of a person's own, and files of masks, one for each trial."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import sublearn as sl
from sublearn.allocations import Masks, OwnRule, load_masks, register_rule
from sublearn.cli import app
from sublearn.ensembles import learn_from_text

NET = sl.LinearRNN(n=4, b=1, d=2, T=2)
PROBLEM = sl.Problem(NET, samples=2)


@register_rule("band")
def band(exists: np.ndarray, count: int, rng: np.random.Generator, k: int = 0) -> np.ndarray:
    """``count`` of the entries at most k off the diagonal."""
    i, j = np.indices(exists.shape)
    near = np.flatnonzero(exists & (abs(i - j) <= k))
    mask = np.zeros(exists.shape, dtype=bool)
    mask.ravel()[rng.choice(near, count, replace=False)] = True
    return mask


@register_rule("too-many")
def too_many(exists: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    return np.ones_like(exists)


@register_rule("no-mask")
def no_mask(exists: np.ndarray, count: int, rng: np.random.Generator) -> str:
    return "W"


def test_a_registered_function_draws_an_allocation_for_each_trial() -> None:
    rules = {"W": OwnRule("band", k=1)}
    drawn = [sl.draw(PROBLEM, rules, trial=i).allocation for i in range(6)]
    assert all(len(a) == 4 and a.names == ("W",) for a in drawn)
    for a in drawn:
        i, j = np.nonzero(a.mask("W"))
        assert (abs(i - j) <= 1).all()
    assert len(set(drawn)) > 1
    assert drawn == [sl.draw(PROBLEM, rules, trial=i).allocation for i in range(6)]
    assert OwnRule("band", k=1) == OwnRule("band", k=1) != OwnRule("band", k=2)
    assert pickle.loads(pickle.dumps(rules)) == rules
    sparse = NET.with_connections({"W": np.eye(4, dtype=bool)})
    found = sl.draw(sl.Problem(sparse, 2), {"W": OwnRule("band", k=3)}).allocation
    assert found.mask("W").diagonal().all()


def test_texts_name_a_rule() -> None:
    learn = learn_from_text(NET, ["W:rule=band,k=1,count=3"])
    assert learn.rules == {"W": OwnRule("band", 3, k=1)} and learn.seed is None
    assert len(learn_from_text(NET, ["W:rule=band,k=1,seed=4"]).draw(PROBLEM)) == 4
    for text, words in (
        ("W:rule=none", "no rule 'none' is registered"),
        ("W:rule=band,k=x", "cannot be read"),
        ("W:rule=band,k=1,k=2", "cannot be read"),
        ("W:rule", "no rule '' is registered"),
    ):
        with pytest.raises(sl.BadInputError, match=words):
            learn_from_text(NET, [text])


@pytest.mark.parametrize(
    "rule, words",
    [
        (OwnRule("too-many", 3), "'too-many' must choose 3 .* not 16"),
        (OwnRule("no-mask", 3), "'no-mask' must give a mask"),
        (OwnRule("band", 3, other=1), "'band' cannot be drawn"),
        (OwnRule("band", 9, k=0), "'band' cannot be drawn"),
    ],
)
def test_what_a_function_does_wrong_is_one_sentence(rule: OwnRule, words: str) -> None:
    with pytest.raises(sl.BadInputError, match=words) as caught:
        sl.draw(PROBLEM, {"W": rule})
    assert "\n" not in str(caught.value)


def test_names_are_plain_and_taken_once() -> None:
    with pytest.raises(sl.BadInputError, match="lower-case"):
        register_rule("My rule")
    with pytest.raises(sl.BadInputError, match="taken"):
        register_rule("band")(too_many)
    assert register_rule("band")(band) is band  # the same again, as a notebook does
    with pytest.raises(sl.BadInputError, match=r"known are .*band"):
        OwnRule("unheard-of")


def test_estimates_are_saved_and_continued_with_a_rule_of_ones_own(tmp_path: Path) -> None:
    rules = {"W": OwnRule("band", k=1)}
    first = sl.estimate(PROBLEM, rules, trials=6)
    first.save(tmp_path / "e.json")
    more = sl.Estimate.load(tmp_path / "e.json", PROBLEM, rules).more(4)
    assert more.records == sl.estimate(PROBLEM, rules, trials=10).records
    with pytest.raises(sl.BadInputError, match="another question"):
        sl.Estimate.load(tmp_path / "e.json", PROBLEM, {"W": OwnRule("band", k=2)})


def masks_file(path: Path, count: int = 3) -> np.ndarray:
    rng = np.random.default_rng(0)
    masks = np.zeros((count, 16), dtype=bool)
    for mask in masks:
        mask[rng.choice(16, 4, replace=False)] = True
    np.savez(path, W=masks.reshape(count, 4, 4))
    return masks.reshape(count, 4, 4)


def test_trial_i_takes_mask_i_and_they_begin_again(tmp_path: Path) -> None:
    file = tmp_path / "own.npz"
    masks = masks_file(file)
    rules = load_masks(file, NET)
    for trial in range(7):
        found = sl.draw(PROBLEM, rules, trial=trial).allocation
        assert np.array_equal(found.mask("W"), masks[trial % 3])
    assert pickle.loads(pickle.dumps(rules)) == rules
    learn = learn_from_text(NET, [str(file)])
    assert learn.rules == rules
    with pytest.raises(sl.BadInputError, match="3 masks"):
        learn.draw(PROBLEM)  # one is asked for
    np.savez(file, W=masks[:1])
    assert learn_from_text(NET, [str(file)]).fixed == sl.Allocation.from_masks(NET, {"W": masks[0]})


def test_a_file_of_masks_that_is_none(tmp_path: Path) -> None:
    file = tmp_path / "own.npz"
    for arrays, words in (
        ({"W": np.ones((2, 4, 5), dtype=bool)}, "shape"),
        ({"V": np.ones((2, 4, 4), dtype=bool)}, "weight name"),
        ({"W": np.full((2, 4, 4), 0.5)}, "0 and 1"),
        (
            {"W": np.ones((2, 4, 4), dtype=bool), "B": np.ones((3, 4, 1), dtype=bool)},
            "as many masks",
        ),
        ({"W": np.zeros((2, 4, 4), dtype=bool)}, "no learnable weight"),
        ({}, "no masks"),
    ):
        np.savez(file, **arrays)
        with pytest.raises(sl.BadInputError, match=words):
            load_masks(file, NET)
    file.write_bytes(b"nothing")
    with pytest.raises(sl.BadInputError, match="cannot be read"):
        load_masks(file, NET)
    with pytest.raises(sl.BadInputError, match="there is no file"):
        learn_from_text(NET, [str(tmp_path / "none.npz")])


def test_a_name_with_a_digest_is_the_file_that_was_meant(tmp_path: Path) -> None:
    file = tmp_path / "own.npz"
    masks_file(file)
    digest = load_masks(file, NET)["W"].digest
    assert isinstance(load_masks(file, NET)["W"], Masks)
    meant = sl.allocations.masks_with_digest(str(file))
    assert meant.startswith(f"{file}@") and len(meant) == len(str(file)) + 65 and digest
    assert learn_from_text(NET, [meant]).rules == load_masks(file, NET)
    masks_file(file, count=4)
    with pytest.raises(sl.BadInputError, match="changed"):
        learn_from_text(NET, [meant])


def test_the_commands_take_them(tmp_path: Path) -> None:
    file = tmp_path / "own.npz"
    masks_file(file)
    asked = ["estimate", "--network", NET.spec, "--samples", "2", "--trials", "6", "--json"]
    found = CliRunner().invoke(app, [*asked, "--learn", str(file)])
    assert found.exit_code == 0, found.output
    content = json.loads(found.output)
    assert content["rules"]["W"]["masks"] == 3 and content["trials"] == 6
    found = CliRunner().invoke(app, [*asked, "--learn", "W:rule=band,k=1"])
    assert json.loads(found.output)["rules"]["W"] == {
        "rule": "band",
        "count": None,
        "k": 1,
    }
    once = CliRunner().invoke(app, ["certify", *asked[1:5], "--learn", str(file)])
    assert isinstance(once.exception, sl.BadInputError) and "3 masks" in str(once.exception)


def test_a_sweep_goes_through_masks_and_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sublearn.runs as runs
    from sublearn.experiments.tasks import TASKS

    monkeypatch.chdir(tmp_path)
    masks_file(Path("own.npz"))
    params = {"network": NET.spec, "samples": 2}
    declared = {"task": "estimate", "trials": 4, "chunk": 2, "params": params}
    sweep = runs.sweep_from_dict(
        {**declared, "axes": {"learn": ["own.npz", "W:rule=band,k=1"]}}, TASKS
    )
    said = [point.params["learn"] for point in sweep.full.points]
    assert str(said[0]).startswith("own.npz@") and said[1] == "W:rule=band,k=1"
    runs.execute([sweep], out=tmp_path / "run")
    masks_file(Path("own.npz"), count=5)  # another file under the same name is another sweep
    with pytest.raises(sl.BadInputError):
        again = runs.sweep_from_dict(
            {**declared, "axes": {"learn": ["own.npz", "W:rule=band,k=1"]}}, TASKS
        )
        runs.execute([again], out=tmp_path / "run")
