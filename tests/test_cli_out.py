"""--out is looked at before any work is done: one sentence, exit code 2, nothing written."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from fnmatch import fnmatch
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sublearn as sl
from sublearn.cli import app

LAYER = ["--network", "ffn:3-3-2", "--samples", "2"]
LESSON = ["--network", "linear:inputs=3,outputs=2", "--samples", "4", "--gamma", ".1,.1,.1"]
# What the commands would work with: none of it may be reached.
VERBS = {
    "sublearn.training.train": ["train", *LAYER, "--learn", "W1:all"],
    "sublearn.noise.local_geometry": ["noise", "rate", *LESSON],
    "sublearn.noise.best_size": ["noise", "size", *LESSON],
    "sublearn.noise.simulate": ["noise", "steady", *LESSON],
    "sublearn.noise.place": ["noise", "place", *LESSON, "--plastic", "2"],
    "sublearn.runs.execute": ["reproduce", "fig2a"],
    "sublearn.designs.design": ["design", *LAYER, "--learn", "W1"],
    "sublearn.designs.repair": ["repair", *LAYER, "--learn", "W1:rows=0-1"],
    "sublearn.matchers.decide": ["decide", *LAYER, "--learn", "W1:all"],
}
FOLDERS = [verb for verb in VERBS if verb.split(".")[1] not in ("designs", "matchers")]
FILES = [verb for verb in VERBS if verb not in FOLDERS]


def refused(verb: str, out: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("work was done before --out was looked at")

    monkeypatch.setattr(verb, never)
    result = CliRunner().invoke(app, [*VERBS[verb], "--out", str(out)])
    assert isinstance(result.exception, sl.BadInputError), result.output
    assert "--out" in str(result.exception) and result.stdout == ""
    return str(result.exception)


@pytest.mark.parametrize("verb", FOLDERS)
def test_folders(verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_text("kept")
    assert "is a file" in refused(verb, file, monkeypatch)
    assert "not a directory" in refused(verb, file / "below" / "it", monkeypatch)
    assert "too long" in refused(verb, tmp_path / ("x" * 300), monkeypatch)
    assert "must name a folder" in refused(verb, tmp_path / "new.json", monkeypatch)
    assert file.read_text() == "kept" and list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("verb", FILES)
def test_files(verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, pipe = tmp_path / "folder.json", tmp_path / "pipe.json"
    folder.mkdir()
    os.mkfifo(pipe)
    assert "is a folder" in refused(verb, folder, monkeypatch)
    assert "there is no folder" in refused(verb, tmp_path / "no" / "a.json", monkeypatch)
    assert "too long" in refused(verb, tmp_path / ("x" * 300 + ".json"), monkeypatch)
    # A file is renamed into its place, which would take the pipe away.
    assert "a device or a pipe" in refused(verb, pipe, monkeypatch)
    assert pipe.is_fifo() and sorted(tmp_path.iterdir()) == [folder, pipe]


@pytest.mark.parametrize("verb", FILES)
def test_names_of_files(verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path / "x") + b"\xff.json"))
    assert "in UTF-8" in refused(verb, odd, monkeypatch)
    assert "zero byte" in refused(verb, tmp_path / "x\0.json", monkeypatch)
    link, loop = tmp_path / "link.json", tmp_path / "loop.json"
    link.symlink_to(tmp_path / "nothing.json")
    loop.symlink_to(loop)
    for path in (link, loop):
        assert "is there already" in refused(verb, path, monkeypatch)
    assert link.is_symlink() and sorted(tmp_path.iterdir()) == [link, loop]


@pytest.mark.parametrize("verb", VERBS)
def test_a_folder_without_the_right_to_write(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shut = tmp_path / "shut"
    shut.mkdir(mode=0o500)
    if os.geteuid() == 0:  # rights do not bind root: what the system would say is said for it
        real = tempfile.TemporaryFile

        def guarded(*, dir: Path) -> object:
            if Path(dir) == shut:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(dir))
            return real(dir=dir)

        monkeypatch.setattr(tempfile, "TemporaryFile", guarded)
    name = "a" if verb in FOLDERS else "a.json"
    assert "permission denied" in refused(verb, shut / name, monkeypatch)
    assert list(shut.iterdir()) == []


def test_a_certificate_takes_no_pipe_away(tmp_path: Path) -> None:
    problem = sl.Problem(sl.FeedForward((3, 3, 2)), samples=2)
    found = sl.decide(sl.draw(problem, sl.Allocation.whole(problem.network, ["W2"])))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert found.certificate is not None
    with pytest.raises(sl.BadInputError, match="must be saved as a file"):
        found.certificate.save(pipe)
    assert pipe.is_fifo() and list(tmp_path.iterdir()) == [pipe]


SHORT = [*LESSON, "--seed", "1"]
PICTURES = (".csv", ".png", ".svg")
CERTIFIED = ["mask.json", "certificate.json"]
WRITTEN = {
    "certify": (["certify", *LAYER, "--learn", "W1:rows=0-1"], "verdict", CERTIFIED),
    "design": (["design", *LAYER, "--learn", "W2"], "verdict", ["mask.json"]),
    "repair": (["repair", *LAYER, "--learn", "W1:rows=0-1"], "verdict", ["mask.json"]),
    "decide": (
        ["decide", *LAYER, "--learn", "W2:all"],
        "decision",
        CERTIFIED,
    ),
    "decide-within": (
        ["decide-within", *LAYER, "--learn", "W2:all", "--eps", "0.1"],
        "decision",
        ["mask.json"],
    ),
    "estimate": (
        ["estimate", *LAYER, "--learn", "W1:entries=0.0/0.1/1.1/1.2", "--trials", "3", "--always"],
        "estimate",
        ["mask.json", "trials.json"],
    ),
    "trainability": (
        [
            "trainability",
            *LAYER,
            "--learn",
            "W2:all",
            "--trials",
            "3",
            "--eps",
            "1",
            "--steps",
            "3",
        ],
        "estimate",
        ["mask.json"],
    ),
    "train": (
        ["train", *LAYER, "--learn", "W2:all", "--steps", "3"],
        "curve",
        ["mask.json", "weights.npz"],
    ),
    "rate": (["noise", "rate", *SHORT, "--draws", "4"], "rate", ["mask.json"]),
    "size": (["noise", "size", *SHORT], "size", []),
    "steady": (
        ["noise", "steady", *SHORT, "--cycles", "20", "--repeats", "2"],
        "steady",
        ["mask.json"],
    ),
    "place": (
        ["noise", "place", *SHORT, "--plastic", "2", "--cycles", "20", "--repeats", "2"],
        "place",
        ["place-*.json"],
    ),
}


@pytest.mark.parametrize("command", WRITTEN)
def test_a_folder_gets_picture_table_and_mask(command: str, tmp_path: Path) -> None:
    words, stem, more = WRITTEN[command]
    out = tmp_path / "new" / "folder"
    done = CliRunner().invoke(app, [*words, "--out", str(out)])
    assert done.exit_code == 0, (done.output, done.exception)
    names = {path.name for path in out.iterdir()}
    patterns = [*(f"{stem}{ending}" for ending in PICTURES), *more]
    assert all(any(fnmatch(name, one) for name in names) for one in patterns), names
    assert all(any(fnmatch(name, one) for one in patterns) for name in names), names
    assert " ".join(done.output.split()).count(f"written to {out}") == 1
    assert all(name in done.output for name in names)
    # Nothing is written over without a word; trials of an estimate go on.
    before = {path: path.read_bytes() for path in out.iterdir()}
    again = CliRunner().invoke(app, [*words, "--out", str(out)])
    if command == "estimate":
        assert again.exit_code == 0
        return
    assert isinstance(again.exception, sl.BadInputError) and "--overwrite" in str(again.exception)
    assert {path: path.read_bytes() for path in out.iterdir()} == before
    once_more = CliRunner().invoke(app, [*words, "--out", str(out), "--overwrite", "--json"])
    assert once_more.exit_code == 0
    assert {Path(path).name for path in json.loads(once_more.stdout)["saved"]} == names


@pytest.mark.parametrize("command", ["design", "repair", "certify", "decide", "estimate"])
def test_a_file_that_is_named_is_written_alone(command: str, tmp_path: Path) -> None:
    words, _, _ = WRITTEN[command]
    file = tmp_path / "own.json"
    file.write_text("kept")
    refused_first = CliRunner().invoke(app, [*words, "--out", str(file)])
    assert isinstance(refused_first.exception, sl.BadInputError) and file.read_text() == "kept"
    done = CliRunner().invoke(app, [*words, "--out", str(file), "--overwrite"])
    assert done.exit_code == 0, (done.output, done.exception)
    assert list(tmp_path.iterdir()) == [file]
    assert f"written to {file}" in " ".join(done.output.split())
    assert json.loads(file.read_text())["format"].startswith("sublearn ")
