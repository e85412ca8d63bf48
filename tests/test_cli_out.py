"""--out is looked at before any work is done: one sentence, exit code 2, nothing written."""

from __future__ import annotations

import errno
import os
import tempfile
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
    assert "permission denied" in refused(verb, shut / "a.json", monkeypatch)
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
