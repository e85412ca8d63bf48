"""Allocations on disk: round trips, files made by hand, and files that cannot be read."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sublearn as sl
from networks.reference import NETWORKS, by_spec, one_sentence
from sublearn import Allocation, BadInputError
from sublearn.networks import Network

NET = sl.LinearRNN(n=3, b=2, d=2, T=2)
ONE = sl.FeedForward((3, 2))


@pytest.mark.parametrize("suffix", [".json", ".npz"])
@pytest.mark.parametrize("network", NETWORKS, ids=by_spec)
def test_round_trip_over_several_weights(network: Network, suffix: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    masks = {name: rng.random(shape) < 0.4 for name, shape in network.shapes.items()}
    for a in (Allocation.from_masks(network, masks), Allocation(network.shapes, {})):
        a.save(tmp_path / f"a{suffix}")
        assert Allocation.load(tmp_path / f"a{suffix}", network) == a
    assert [p.name for p in tmp_path.iterdir()] == [f"a{suffix}"]


@given(st.sets(st.integers(0, 8), min_size=1))
def test_csv_round_trip(tmp_path_factory: pytest.TempPathFactory, flat: set[int]) -> None:
    path = tmp_path_factory.mktemp("csv") / "mask.csv"
    a = Allocation.from_entries(NET, {"W": [divmod(k, 3) for k in flat]})
    a.save(str(path))
    assert Allocation.load(str(path), NET, name="W") == a
    assert len(path.read_text().splitlines()) == 3


def test_csv_of_the_only_weight_needs_no_name(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("1,0,0\n0,0,1\n")
    found = Allocation.load(tmp_path / "m.csv", ONE)
    assert found.entries["W1"] == ((0, 0), (1, 2))


def test_files_are_what_the_documentation_says(tmp_path: Path) -> None:
    a = Allocation.from_entries(NET, {"W": [(2, 1), (0, 0)], "D": [(1, 2)]})
    for suffix in (".json", ".npz"):
        a.save(tmp_path / f"a{suffix}")
    content = json.loads((tmp_path / "a.json").read_text())
    assert content["format"] == "sublearn allocation 2"
    assert content["shapes"] == {name: list(shape) for name, shape in NET.shapes.items()}
    assert content["entries"] == {"W": [[0, 0], [2, 1]], "B": [], "D": [[1, 2]]}
    with np.load(tmp_path / "a.npz") as masks:
        assert {name: masks[name].shape for name in masks} == NET.shapes
        assert np.array_equal(masks["W"], a.mask("W"))


def test_files_made_by_hand(tmp_path: Path) -> None:
    a = Allocation.from_entries(ONE, {"W1": [(0, 0), (1, 2)]})
    mask = [[1, 0, 0], [0, 0, 1]]
    for content in (
        {"W1": mask},
        {"masks": {"W1": mask}},
        {"masks": {"W1": [[True, False, False], [False, False, True]]}},
        {"entries": {"W1": [[1, 2], [0, 0]]}},
    ):
        (tmp_path / "a.json").write_text(json.dumps(content))
        assert Allocation.load(tmp_path / "a.json", ONE) == a
    np.savez(tmp_path / "a.npz", W1=np.array(mask))
    assert Allocation.load(tmp_path / "a.npz", ONE) == a
    np.savez(tmp_path / "a.npz", W1=np.array(mask, dtype=float))
    with pytest.raises(BadInputError, match=r"say mask\.astype"):
        Allocation.load(tmp_path / "a.npz", ONE)


def test_one_mask_as_numpy_saves_it(tmp_path: Path) -> None:
    a = Allocation.from_entries(NET, {"W": [(2, 1), (0, 0)]})
    a.save(tmp_path / "a.npy")
    assert np.array_equal(np.load(tmp_path / "a.npy"), a.mask("W"))
    assert Allocation.load(tmp_path / "a.npy", NET, name="W") == a
    with pytest.raises(BadInputError, match="needs the name of its weight"):
        Allocation.load(tmp_path / "a.npy", NET)


def test_the_allocation_of_another_network_is_refused(tmp_path: Path) -> None:
    """Entries that fit by chance are no reason to read a mask that was made for another network."""
    a = Allocation.from_entries(NET, {"W": [(0, 0)]})
    n = NET.shapes["W"][0]
    other = type(NET)(n=n + 1, b=1, d=2, T=3)
    for name in ("a.json", "a.npz"):
        a.save(tmp_path / name)
        with pytest.raises(BadInputError, match=r"another network|must have shape"):
            Allocation.load(tmp_path / name, other)
    old = {"format": "sublearn allocation 1", "entries": {"W": [[0, 0]]}}
    (tmp_path / "old.json").write_text(json.dumps(old))
    assert Allocation.load(tmp_path / "old.json", NET) == a


def test_saving_replaces_and_keeps_ordinary_permissions(tmp_path: Path) -> None:
    path, plain = tmp_path / "a.json", tmp_path / "plain"
    Allocation.diagonal(NET, "W").save(path)
    Allocation.whole(NET).save(path)
    assert Allocation.load(path, NET) == Allocation.whole(NET)
    plain.touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_a_failed_save_leaves_the_old_file_and_nothing_else(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    old = Allocation.diagonal(NET, "W")
    old.save(path)

    def fail(*arguments: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(os, broken, fail)
    with pytest.raises(OSError, match="disk is full"):
        Allocation.whole(NET).save(path)
    monkeypatch.undo()
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]
    assert Allocation.load(path, NET) == old


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    two = Allocation.spread(NET, {"W": 1, "B": 1})
    for a, name, match in (
        (two, "a.csv", "holds the mask of one weight, but this allocation has 2"),
        (Allocation(NET.shapes, {}), "a.csv", "this allocation has 0"),
        (two, "a.txt", "ending must be one of .json, .csv, .npz, .npy, not '.txt'"),
        (two, "a", "ending must be one of"),
        (two, "no/a.json", "there is no folder .*no to write a.json in"),
    ):
        with pytest.raises(BadInputError, match=match) as caught:
            a.save(tmp_path / name)
        assert one_sentence(caught.value)
    assert list(tmp_path.iterdir()) == []


UNREADABLE: list[tuple[str, bytes | str, str]] = [
    ("a.json", "", "cannot be read as an allocation"),
    ("a.json", '{"entries": {"W1": [[0, 0]', "cannot be read as an allocation"),
    ("a.json", b"\xff\xfe\x00", "cannot be read as an allocation"),
    ("a.json", "[[0, 0]]", "it holds no JSON object"),
    ("a.json", "3", "it holds no JSON object"),
    ("a.json", '{"entries": [[0, 0]]}', "entries must be given by weight name"),
    ("a.json", '{"entries": {"W1": 3}}', "entries of W1 must be a list of pairs"),
    ("a.json", '{"entries": {"W1": [[0]]}}', "must be a pair"),
    ("a.json", '{"entries": {"W1": [[0, 0.5]]}}', "must be a whole number"),
    ("a.json", '{"entries": {"W1": [[0, 3]]}}', "lies outside W1"),
    ("a.json", '{"entries": {"W1": [[0, 0], [0, 0]]}}', "given twice"),
    ("a.json", '{"entries": {"W2": []}}', "weight name must be one of W1, not 'W2'"),
    ("a.json", '{"masks": [[1, 0, 0], [0, 0, 0]]}', "masks must be given by weight name"),
    ("a.json", '{"masks": {"W1": [[1, 0, 0], [0, 0]]}}', "rows of equal length"),
    ("a.json", '{"masks": {"W1": [[1, 0], [0, 0]]}}', r"must have shape \(2, 3\), not \(2, 2\)"),
    ("a.json", '{"masks": {"W1": [[1, 0, 2], [0, 0, 0]]}}', "only 0 and 1"),
    ("a.json", '{"masks": {"W1": [[1, 0, null], [0, 0, 0]]}}', "only 0 and 1"),
    ("a.json", '{"masks": {"W1": "yes"}}', "must have shape"),
    ("a.json", '{"weights": {"W1": []}}', "weight name must be one of W1, not 'weights'"),
    ("a.csv", "", "cannot be read as an allocation"),
    ("a.csv", "a,b,c\n1,0,0\n0,0,1\n", "cannot be read as an allocation"),
    ("a.csv", "1,0,0\n0,1\n", "cannot be read as an allocation"),
    ("a.csv", "1,0,0\n", r"must have shape \(2, 3\), not \(1, 3\)"),
    ("a.csv", "1,0,0\n0,0,7\n", "only 0 and 1"),
    ("a.npz", b"", "cannot be read as an allocation"),
    ("a.npz", b"PK\x03\x04 and then nothing", "cannot be read as an allocation"),
    ("a.npz", "no archive", "cannot be read as an allocation"),
]


@pytest.mark.parametrize(("name", "content", "match"), UNREADABLE)
def test_unreadable_files_get_one_sentence(
    name: str, content: bytes | str, match: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(BadInputError, match=match) as caught:
        Allocation.load(path, ONE)
    assert one_sentence(caught.value)
    assert str(caught.value).startswith(str(path))


def test_damaged_archives_are_read_or_refused(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.npz", tmp_path / "bad.npz"
    a = Allocation.spread(NET, {"W": 4, "D": 2})
    a.save(good)
    data = good.read_bytes()
    damaged = [data[:k] for k in range(0, len(data), 7)]
    for k in range(0, len(data), 3):
        damaged += [data[:k] + bytes([value]) + data[k + 1 :] for value in (0, 255)]
    refused = 0
    for content in damaged:
        bad.write_bytes(content)
        try:
            Allocation.load(bad, NET)
        except BadInputError as error:
            refused += one_sentence(error)
    assert refused > len(damaged) / 2


def test_other_ways_to_ask_for_the_wrong_file(tmp_path: Path) -> None:
    np.save(tmp_path / "array.npy", np.eye(3))
    (tmp_path / "array.npy").rename(tmp_path / "array.npz")
    np.savez(tmp_path / "objects.npz", W1=np.array([None, {}]))
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "m.csv").write_text("1,0,0\n" * 3)
    for name, match in (
        ("missing.json", "there is no file .*missing.json"),
        ("folder.json", "there is no file"),
        ("a.txt", "ending must be one of"),
        ("array.npz", "holds one array without a name"),
        ("objects.npz", "cannot be read as an allocation"),
        ("m.csv", "needs the name of its weight, one of W, B, D"),
    ):
        with pytest.raises(BadInputError, match=match) as caught:
            Allocation.load(tmp_path / name, NET)
        assert one_sentence(caught.value)
    with pytest.raises(BadInputError, match="weight name must be one of W, B, D"):
        Allocation.load(tmp_path / "m.csv", NET, name="V")
