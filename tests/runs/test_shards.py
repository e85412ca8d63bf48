"""Shards keep rows exactly, notice damage, and are the same bytes however the rows came in."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sublearn import BadInputError
from sublearn.runs import _shards
from sublearn.runs._files import DAMAGED
from sublearn.runs._shards import Piece, Shards

COLUMNS = {"end": float, "turns": int, "up": bool, "side": str}
LABEL = {"experiment": "toy", "declaration": "abc"}


def shards(folder: Path) -> Shards:
    return Shards(folder / "shards", COLUMNS, LABEL, [1000] * 4)


def part(point: int, trials: range) -> Piece:
    values = [1000 * point + trial for trial in trials]
    return Piece(
        point,
        trials,
        {
            "end": [math.sin(v) for v in values],
            "turns": values,
            "up": [v % 3 == 0 for v in values],
            "side": ["left" if v % 2 else "right" for v in values],
        },
    )


def parts(points: int, chunks: int, size: int = 4) -> list[Piece]:
    return [part(p, range(size * c, size * (c + 1))) for p in range(points) for c in range(chunks)]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "shards").iterdir()}


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    store = shards(tmp_path)
    for one in reversed(parts(3, 2)):
        store.append([one])
    rows = store.rows()
    assert list(rows) == ["point", "trial", *COLUMNS]
    assert rows["point"].tolist() == [0] * 8 + [1] * 8 + [2] * 8
    assert rows["trial"].tolist() == [*range(8)] * 3
    values = rows["turns"]
    assert values.tolist() == [1000 * p + t for p in range(3) for t in range(8)]
    assert rows["end"].tolist() == [math.sin(v) for v in values.tolist()]
    assert rows["up"].tolist() == [v % 3 == 0 for v in values.tolist()]
    assert rows["side"].tolist() == ["left" if v % 2 else "right" for v in values.tolist()]


@given(
    st.lists(st.tuples(st.floats(), st.integers(-(2**63), 2**63 - 1), st.text()), min_size=1),
)
def test_any_value_survives(tmp_path_factory: pytest.TempPathFactory, values: list) -> None:
    folder = tmp_path_factory.mktemp("values")
    store = Shards(folder, {"a": float, "b": int, "c": str}, LABEL, [len(values)])
    # Lone surrogates are no text that any file could hold.
    kept = [(a, b, c.encode("utf-8", "replace").decode()) for a, b, c in values]
    a, b, c = (list(column) for column in zip(*kept, strict=True))
    store.append([Piece(0, range(len(kept)), {"a": a, "b": b, "c": c})])
    rows = store.rows()
    assert rows["b"].tolist() == b and rows["c"].tolist() == c
    assert np.array_equal(rows["a"], np.array(a), equal_nan=True)


def test_the_same_rows_are_the_same_bytes(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    found = []
    for trial in range(3):
        store = shards(tmp_path / str(trial))
        mixed = parts(4, 5)
        rng.shuffle(mixed)  # type: ignore[arg-type]
        while mixed:
            take = int(rng.integers(1, 4)) if trial else len(mixed)
            store.append(mixed[:take])
            mixed = mixed[take:]
        store.compact()
        found.append(files(tmp_path / str(trial)))
    assert len(found[0]) == 1
    assert found[0] == found[1] == found[2]


def test_other_readers_can_open_them(tmp_path: Path) -> None:
    store = shards(tmp_path)
    store.append(parts(1, 2))
    (path,) = (tmp_path / "shards").iterdir()
    assert pq.read_table(path).to_pydict()["turns"] == list(range(8))


def test_columns_have_the_declared_types_whatever_the_rows_hold(tmp_path: Path) -> None:
    """A float that happens to be whole is a float in every file, so that files can be joined."""
    store = Shards(tmp_path, {"a": float, "b": int}, LABEL, [3])
    for trial, value in enumerate((1, 0.5, 2)):
        store.append([Piece(0, range(trial, trial + 1), {"a": [value], "b": [trial]})])
    for path in tmp_path.iterdir():
        kinds = {field.name: str(field.type) for field in pq.read_schema(path)}
        assert kinds == {"point": "int32", "trial": "int64", "a": "double", "b": "int64"}
    store.compact()
    assert store.rows()["a"].tolist() == [1.0, 0.5, 2.0]


def _flip(content: bytes) -> bytes:
    return content[:100] + bytes([content[100] ^ 1]) + content[101:]


@pytest.mark.parametrize(
    "spoil", [_flip, lambda c: c[: len(c) // 2], lambda c: b"", lambda c: c + b"x"]
)
def test_damage_is_noticed_and_set_aside(tmp_path: Path, spoil: object) -> None:
    store = shards(tmp_path)
    store.append([part(0, range(0, 4))])
    (first,) = (tmp_path / "shards").iterdir()
    store.append([part(0, range(4, 8))])
    first.write_bytes(spoil(first.read_bytes()))  # type: ignore[operator]
    looked = shards(tmp_path)
    assert looked.load(repair=False)[0].tolist() == [4, 5, 6, 7]
    assert first.exists(), "looking changes nothing"
    again = shards(tmp_path)
    assert again.load()[0].tolist() == [4, 5, 6, 7]
    assert again.set_aside == [first.with_name(first.name + DAMAGED)]
    assert again.set_aside[0].exists() and not first.exists()
    again.append([part(0, range(0, 4))])
    assert again.load()[0].tolist() == list(range(8))


def test_rows_that_stand_twice_count_once(tmp_path: Path) -> None:
    store = shards(tmp_path)
    store.append(parts(2, 1))
    store.append(parts(2, 2))
    assert len(files(tmp_path)) == 2
    assert {p: t.tolist() for p, t in store.load().items()} == {0: [*range(8)], 1: [*range(8)]}
    assert len(store.rows()["trial"]) == 16
    store.compact()
    assert len(files(tmp_path)) == 1 and len(store.rows()["trial"]) == 16


def test_the_number_of_files_stays_bounded(tmp_path: Path) -> None:
    store = shards(tmp_path)
    most = 0
    for one in parts(1, 140):
        store.append([one])
        most = max(most, len(list((tmp_path / "shards").iterdir())))
    assert most <= 64
    assert store.rows()["trial"].tolist() == list(range(560))
    assert shards(tmp_path).load()[0].tolist() == list(range(560))


def test_a_reader_that_is_overtaken_looks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the list of files and their reading, the run under way joins them into one."""
    store = shards(tmp_path)
    for one in parts(1, 3):
        store.append([one])
    reader, real = shards(tmp_path), _shards.read_regular
    joins = [store.compact]

    def overtaken(path: Path, most: int, *, links: bool) -> bytes:
        if joins:
            joins.pop()()
        return real(path, most, links=links)

    monkeypatch.setattr(_shards, "read_regular", overtaken)
    assert reader.rows(repair=False)["trial"].tolist() == list(range(12))
    assert joins == [] and len(files(tmp_path)) == 1


def test_shards_of_another_declaration_are_refused(tmp_path: Path) -> None:
    shards(tmp_path).append(parts(1, 1))
    other = Shards(tmp_path / "shards", COLUMNS, {**LABEL, "declaration": "xyz"}, [1000] * 4)
    with pytest.raises(BadInputError, match="another declaration of toy"):
        other.load()


def test_an_empty_store(tmp_path: Path) -> None:
    store = shards(tmp_path)
    assert store.load() == {} and store.rows() == {}
    store.compact()
    assert not (tmp_path / "shards").exists()
