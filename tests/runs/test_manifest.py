"""Manifests: what was asked is kept, older formats are recognised, declarations are never mixed."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import sublearn
import sublearn.runs as runs
from runs.toys import Walk, tables, walks
from sublearn import BadInputError
from sublearn.runs import Plan, Point, Progress, execute

# A run as the first release wrote it: walks(points=2, trials=10, chunk=4), of which the last chunk
# of the last point is missing.
FORMAT_1 = Path(__file__).with_name("format-1")


def today() -> runs.Experiment:
    return walks(points=2, trials=10, chunk=4)


def test_what_is_written_down(tmp_path: Path) -> None:
    manifest = execute([today()], out=tmp_path, seed=3).manifest
    assert manifest["format"] == 1
    assert manifest["versions"]["sublearn"] == sublearn.__version__
    assert {"python", "numpy", "numba", "pyarrow"} <= manifest["versions"].keys()
    assert manifest["tools"] == {} and "commit" in manifest
    entry = manifest["experiments"]["walks"]
    assert (entry["title"], entry["budget"], entry["seed"]) == ("Walks", "quick", 3)
    assert entry["points"][1] == {"params": {"steps": 20}, "trials": 10, "chunk": 4}
    assert entry["columns"] == {"end": "float", "turns": "int", "up": "bool", "side": "str"}


def test_each_experiment_says_at_which_commits_it_was_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(commit: str, *chosen: runs.Experiment) -> dict[str, list[str]]:
        monkeypatch.setattr("sublearn.runs._manifest._commit", lambda: commit)
        found = execute(chosen, out=tmp_path)
        return {name: found.declared(name)["commits"] for name in found.names}

    other = replace(today(), name="others")
    assert run("first", today()) == {"walks": ["first"]}
    # Nothing of the first is left to compute: that it was asked for again says nothing about its rows.
    assert run("second", today(), other) == {"walks": ["first"], "others": ["second"]}
    for shard in (tmp_path / "walks" / "shards").iterdir():
        shard.unlink()
    assert run("third", today()) == {"walks": ["first", "third"], "others": ["second"]}
    damaged = json.loads((tmp_path / "manifest.json").read_text())
    damaged["experiments"]["walks"]["commits"] = [3]
    (tmp_path / "manifest.json").write_text(json.dumps(damaged))
    with pytest.raises(BadInputError, match="walks: its commits are no texts"):
        runs.open(tmp_path)


def test_todays_format_is_read_tomorrow(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(FORMAT_1, folder)
    run = runs.open(folder)
    state = run.state("walks")
    assert (state.points_done, state.trials_done, state.trials) == (1, 18, 20)
    assert run.rows("walks")["turns"].tolist() == [
        row["turns"]
        for steps in (10, 20)
        for row in Walk().run({"steps": steps}, 0, range(10 if steps == 10 else 8))
    ]
    seen: list[Progress] = []
    execute([today()], out=folder, progress=seen.append)
    assert seen[0].done == 20, "only the missing chunk is computed"
    fresh = execute([today()], out=tmp_path / "fresh")
    assert run.table("walks") == fresh.table("walks") != []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 0}, r"has an older format \(0, written by sublearn 0.1.0\)"),
        ({"format": 2}, r"has another format \(2, .*this version reads format 1"),
        ({"format": "one"}, "has another format"),
        ({"format": 0, "versions": {}}, "written by sublearn of unknown version"),
    ],
)
def test_other_formats_are_refused_and_left_alone(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    shutil.copytree(FORMAT_1, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    with pytest.raises(BadInputError, match=message):
        runs.open(tmp_path)
    with pytest.raises(BadInputError, match=message):
        execute([today()], out=tmp_path)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"no": 1}', b"\xff\xfe"])
def test_a_damaged_manifest_is_set_aside(tmp_path: Path, content: bytes) -> None:
    expected = tables(execute([today()], out=tmp_path).folder)
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(BadInputError, match="cannot be read"):
        runs.open(tmp_path)
    seen: list[Progress] = []
    run = execute([today()], out=tmp_path, progress=seen.append)
    assert seen[0].done == 20, "shards know what they belong to"
    assert tables(tmp_path) == expected and run.names == ["walks"]
    assert (tmp_path / "manifest.json.damaged").read_bytes() == content


def test_a_damaged_manifest_does_not_let_declarations_mix(tmp_path: Path) -> None:
    execute([today()], out=tmp_path)
    (tmp_path / "manifest.json").write_bytes(b"")
    with pytest.raises(BadInputError, match="another declaration of walks"):
        execute([today()], out=tmp_path, seed=5)
    assert execute([today()], out=tmp_path).state("walks").finished, "the right one goes on"


class Newer(Walk):
    version = 2


OTHERS = [
    ({"seed": 1}, today(), "with seed 0, not 1"),
    ({"budget": "full"}, replace(today(), full=Plan((Point({"steps": 1}, 2),))), "budget quick"),
    ({}, walks(points=3), "an earlier declaration of walks"),
    ({}, replace(today(), task=Newer()), "an earlier declaration of walks"),
]


@pytest.mark.parametrize(("declared", "other", "message"), OTHERS, ids=[m for *_, m in OTHERS])
def test_two_declarations_are_never_mixed(
    tmp_path: Path, declared: dict, other: runs.Experiment, message: str
) -> None:
    execute([today()], out=tmp_path)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    with pytest.raises(BadInputError, match=message):
        execute([other], out=tmp_path, **declared)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_other_versions_are_remembered(tmp_path: Path) -> None:
    execute([today()], out=tmp_path)
    path = tmp_path / "manifest.json"
    content = json.loads(path.read_text())
    content["versions"]["numpy"] = "1.0"
    path.write_text(json.dumps(content))
    run = execute([today()], out=tmp_path)
    assert run.manifest["versions"]["numpy"] != "1.0"
    assert [entry["versions"]["numpy"] for entry in run.manifest["history"]] == ["1.0"]
    assert execute([today()], out=tmp_path).manifest == run.manifest


def test_folders_that_are_none_of_ours(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="there is no folder"):
        runs.open(tmp_path / "absent")
    with pytest.raises(BadInputError, match=r"it has no manifest\.json"):
        runs.open(tmp_path)
