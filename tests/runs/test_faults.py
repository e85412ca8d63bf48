"""Disks that fail, folders that go away, places that can be none, drivers that come second."""

from __future__ import annotations

import errno
import io
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import sublearn as sl
import sublearn.runs as runs
from runs.toys import walks
from sublearn import BadInputError
from sublearn.plots import curve, figure, name_axes
from sublearn.reports import write
from sublearn.runs import Experiment, Progress, Run, Table, execute
from sublearn.runs._lock import only_run

GRID = {"points": 2, "trials": 6, "chunk": 3}


def drawn() -> Experiment:
    """Walks with a picture and words, so that every kind of file is written."""
    from dataclasses import replace

    def draw(table: Table) -> dict[str, Any]:
        fig, ax = figure()
        curve(ax, [row["steps"] for row in table], [row["mean"] for row in table], label="means")
        name_axes(ax, "steps", "mean")
        return {"means": fig}

    return replace(walks(**GRID), draw=draw, find=lambda table: f"{len(table)} points")


def made(folder: Path) -> None:
    execute([drawn()], out=folder)
    write(folder)


def whole(folder: Path) -> dict[str, bytes]:
    """Everything but what depends on the clock: shards, table, words, pictures, manifest, page."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ("timings.csv", ".lock")
    }


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plain") / "run"
    made(folder)
    assert {path.suffix for path in folder.rglob("*.*")} >= {
        ".png",
        ".svg",
        ".html",
        ".csv",
        ".json",
    }
    return folder


class Gone(BaseException):
    """The process is dead: nothing after this reaches the disk."""


@contextmanager
def touching(act: Callable[[str, int], None]) -> Iterator[list[str]]:
    """Call ``act(what, how many before)`` before every touch of the disk that may change it."""
    import builtins

    seen: list[str] = []

    def told(what: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def touch(*args: Any, **kwargs: Any) -> Any:
            seen.append(what)
            act(what, len(seen))
            return real(*args, **kwargs)

        return touch

    real_open = builtins.open

    def opened(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        """Half of what is written by a process that dies is there."""
        stream = real_open(file, mode, *args, **kwargs)
        if mode != "wb":
            return stream
        seen.append("write")
        try:
            act("write", len(seen))
        except BaseException:
            stream.write(b"half")
            stream.close()
            raise
        return stream

    with pytest.MonkeyPatch.context() as patch:
        for name in ("fsync", "replace", "mkdir", "unlink"):
            patch.setattr(os, name, told(name, getattr(os, name)))
        for name in ("unlink", "replace"):
            patch.setattr(Path, name, told(name, getattr(Path, name)))
        patch.setattr(builtins, "open", opened)
        yield seen


def touches(tmp_path: Path) -> int:
    with touching(lambda what, count: None) as seen:
        made(tmp_path / "count")
    assert {"fsync", "replace", "mkdir", "write"} <= set(seen)
    return len(seen)


def _die_at(last: int) -> Callable[[str, int], None]:
    def act(what: str, count: int) -> None:
        if count >= last:
            raise Gone

    return act


def kills(tmp_path: Path, plain: Path, moments: list[list[int]]) -> int:
    """Each entry: a folder that dies at these touches, one after the other, and then goes on.

    Given back: how many of them came, since what goes on touches the disk less often.
    """
    deaths = 0
    for number, places in enumerate(moments):
        folder = tmp_path / str(number)
        for last in places:
            with touching(_die_at(last)) as seen:
                try:
                    made(folder)
                except Gone:
                    assert len(seen) >= last
                    deaths += 1
        made(folder)
        assert whole(folder) == whole(plain), f"killed at {places}"
        shutil.rmtree(folder)
    return deaths


def test_kills_at_write_points_of_tables_pictures_and_pages(tmp_path: Path, plain: Path) -> None:
    total = touches(tmp_path)
    moments = [[last] for last in range(1, total + 1, 7)]
    assert kills(tmp_path, plain, moments) == len(moments) > 5


@pytest.mark.slow
def test_a_hundred_kills_at_random_write_points(tmp_path: Path, plain: Path) -> None:
    import numpy as np

    total = touches(tmp_path)
    rng = np.random.default_rng(14)
    deaths = 0
    while deaths < 100:
        deaths += kills(tmp_path, plain, [[int(m) for m in rng.integers(1, total + 1, size=2)]])


DISK = {errno.ENOSPC: "make room", errno.EROFS: "cannot be written", errno.EDQUOT: "make room"}


@pytest.mark.parametrize("code", DISK, ids=[errno.errorcode[code] for code in DISK])
def test_a_disk_that_fails_at_any_point_names_the_file(
    code: int, tmp_path: Path, plain: Path
) -> None:
    total = touches(tmp_path)
    step = 7 if code == errno.ENOSPC else 17
    for last in range(1, total + 1, step):
        folder = tmp_path / str(last)

        def act(what: str, count: int, last: int = last) -> None:
            if count >= last and what != "unlink":  # a full disk lets files go
                raise OSError(code, os.strerror(code))

        with touching(act):
            try:
                made(folder)
                continue  # the point was an unlink, and the last one
            except OSError as problem:
                said = problem
        assert said.errno == code and DISK[code] in str(said.strerror)
        assert "kept" in str(said.strerror) and str(folder) in str(said.filename)
        assert list(folder.rglob(".*sublearn-part")) == [], f"left behind at {last}"
        made(folder)
        assert whole(folder) == whole(plain)
        shutil.rmtree(folder)


@pytest.mark.parametrize("name", ["walks/shards/*.parquet", "manifest.json"])
def test_a_disk_that_cannot_be_read_is_no_damage(
    name: str, tmp_path: Path, plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fails now may not fail later: nothing is set aside, nothing computed again."""
    folder = Path(shutil.copytree(plain, tmp_path / "run"))
    (path,) = folder.glob(name)
    real = os.open

    def failing(place: Any, *rest: Any, **more: Any) -> int:
        if Path(place) == path:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(place))
        return real(place, *rest, **more)

    monkeypatch.setattr(os, "open", failing)
    with pytest.raises((BadInputError, OSError), match="Input/output error"):
        made(folder)
    monkeypatch.undo()
    made(folder)
    assert whole(folder) == whole(plain)


def test_a_folder_that_is_removed_is_noticed_at_the_next_chunk(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    seen: list[Progress] = []

    def remove(now: Progress) -> None:
        seen.append(now)
        if len(seen) == 1:
            shutil.rmtree(folder)

    with pytest.raises(OSError, match="removed or replaced while the run was under way"):
        execute([walks(points=4, trials=40, chunk=1)], out=folder, progress=remove)
    assert len(seen) == 1
    assert not folder.exists(), "it is not made again without its manifest"


def test_another_driver_on_a_disk_whose_locks_do_not_hold(tmp_path: Path) -> None:
    """A shared disk may grant both locks; the second writes its name into the file, the first sees it."""
    folder = tmp_path / "run"

    def second(now: Progress) -> None:
        (folder / ".lock").write_text("process 7 on another machine\n")

    with pytest.raises(OSError, match="another run has taken this folder"):
        execute([walks(**GRID)], out=folder, progress=second)
    assert runs.open(folder).state("walks").trials_done < 12


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOTSUP])
def test_a_disk_without_locks_is_refused(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    def no_locks(*args: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(BadInputError, match="knows no locks"), only_run(tmp_path):
        pass


def _loop(tmp_path: Path) -> Path:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    return tmp_path / "a"


def _dangling(tmp_path: Path) -> Path:
    (tmp_path / "a").symlink_to(tmp_path / "nothing")
    return tmp_path / "a"


PLACES: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda t: "", "names none"),
    "blank": (lambda t: "  ", "names none"),
    "not UTF-8": (lambda t: os.fsdecode(os.fsencode(t / "x") + b"\xff"), "in UTF-8"),
    "zero byte": (lambda t: f"{t}/a\0b", "zero byte"),
    "loop": (_loop, "leads back to itself"),
    "below a loop": (lambda t: _loop(t) / "deeper", "leads back to itself"),
    "dangling": (_dangling, "a link to nothing"),
    "below a dangling link": (lambda t: _dangling(t) / "deeper", "a link to nothing"),
    "long name": (lambda t: t / ("x" * 256), "too long"),
    "long path": (lambda t: str(t) + "/x" * 1980, "too long"),
}


@pytest.mark.parametrize("kind", PLACES)
def test_places_that_can_be_none_are_refused_at_the_door(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    place, message = PLACES[kind]
    out: Any = place(tmp_path)
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(BadInputError, match=message):
        execute([walks(**GRID)], out=out)
    assert sorted(os.listdir(tmp_path)) == before


def test_a_link_to_a_folder_is_a_folder(tmp_path: Path, plain: Path) -> None:
    """Many keep their runs on another disk."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "runs").symlink_to(tmp_path / "disk")
    made(tmp_path / "runs" / "one")
    assert whole(tmp_path / "disk" / "one") == whole(plain)


def test_a_lock_that_cannot_be_written_names_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="make room") as stopped:
        execute([walks(**GRID)], out=tmp_path / "run")
    assert str(stopped.value.filename).endswith(".lock")


def test_timings_at_a_full_disk_name_their_file(tmp_path: Path, plain: Path) -> None:
    """They are added to in place: half a line may be left, and harms nothing."""
    import builtins

    real = builtins.open

    class Full(io.BytesIO):
        def write(self, content: Any) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def full(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if mode != "rb+":
            return real(file, mode, *args, **kwargs)
        with real(file, mode) as half:
            half.write(b"walks,0,0,3,0.1")
        return Full()

    folder = tmp_path / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builtins, "open", full)
        with pytest.raises(OSError, match="make room") as stopped:
            made(folder)
    assert str(stopped.value.filename) == str(folder / "timings.csv")
    assert "kept" in str(stopped.value.strerror)
    assert runs.open(folder).state("walks").trials_done > 0, "rows are on disk before their times"
    made(folder)
    assert whole(folder) == whole(plain)
    lines = (folder / "timings.csv").read_text().splitlines()
    assert lines[0] == "walks,0,0,3,0.1" and len(lines) > 1, "the next line is one of its own"


def test_a_path_as_long_as_can_be_is_used(tmp_path: Path) -> None:
    """What is let in at the door can be written to the end."""
    folder = tmp_path
    while len(os.fsencode(folder)) < 3500:
        folder = folder / ("y" * 200)
    name = "x" * 100
    run = execute([walks(name, **GRID)], out=folder)
    assert run.state(name).finished and write(folder).is_file()


def test_other_files_are_whole_or_as_before_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Masks, certificates and pictures go through the same door."""
    network = sl.FeedForward((3, 2))
    path = tmp_path / "mask.json"
    sl.Allocation.whole(network).save(path)
    before = path.read_bytes()

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="make room") as stopped:
        sl.Allocation.diagonal(network, "W1").save(path)
    assert stopped.value.filename == str(path)
    fig, _ = figure()
    with pytest.raises(OSError, match="make room"):
        from sublearn.plots import save

        save(fig, tmp_path / "picture")
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_a_run_goes_on_after_the_other_driver_ended(tmp_path: Path, plain: Path) -> None:
    refused: list[str] = []

    def second(now: Progress) -> None:
        if not refused:
            with pytest.raises(BadInputError) as stopped:
                made(tmp_path / "run")
            refused.append(str(stopped.value))

    run: Run = execute([drawn()], out=tmp_path / "run", progress=second)
    assert f"is in use by process {os.getpid()} on " in refused[0] and "\n" not in refused[0]
    write(run.folder)
    assert whole(run.folder) == whole(plain)
