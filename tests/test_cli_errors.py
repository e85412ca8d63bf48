"""Bad input: one sentence on stderr, exit code 2, nothing on stdout, nothing written."""

from __future__ import annotations

import io
import re
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from sublearn.cli import app, main

LAYER = ["--network", "ffn:3-3-2", "--samples", "2"]

CASES = [
    # What is learnable.
    (["certify", *LAYER], "say what is learnable, with --learn NAME:WHAT or --allocation FILE."),
    (["certify", *LAYER, "--learn", "W1"], "'W1' must read NAME:WHAT"),
    (
        ["design", *LAYER, "--learn", "W1:rows=0"],
        "learn takes names alone, such as 'W1', not 'W1:r",
    ),
    (["certify", *LAYER, "--learn", "W9:all"], "weight name must be one of W1, W2, not 'W9'."),
    (["certify", *LAYER, "--learn", "W1:entries=3.0"], "entry (3, 0) lies outside W1"),
    (["certify", *LAYER, "--learn", "W1:entries=0.-1"], "entry (0, -1) lies outside W1"),
    (["certify", *LAYER, "--learn", "W1:entries=0.0/0.0"], "entry (0, 0) of W1 is given twice."),
    (["certify", *LAYER, "--learn", "W1:entries=a.b"], "cannot be read: write it like"),
    (["certify", *LAYER, "--learn", "W1:rows=5"], "rows of W1 must lie in 0..2, not 5."),
    (["certify", *LAYER, "--learn", "W1:spread=0"], "no learnable weight (r = 0)"),
    (["certify", *LAYER, "--learn", "W1:frist-rows=2"], "Did you mean 'first-rows'?"),
    (["certify", *LAYER, "--learn", "W1:first-rows=1"], "cannot carry 4 weights within the degree"),
    (["design", *LAYER, "--learn", "W1", "--plastic", "120%"], "--plastic: the count must be a nu"),
    (["design", *LAYER, "--learn", "W1", "--scores", "s.npz"], "must read NAME:FILE with a .csv"),
    # Networks and samples.
    (
        [
            "certify",
            "--network",
            "rate:n=3,b=1,d=1,T=2,leek=.1",
            "--samples",
            "2",
            "--learn",
            "W:all",
        ],
        "not 'leek'. Did you mean 'leak'?",
    ),
    (
        ["certify", "--network", "ffn:3-3-2", "--samples", "0", "--learn", "W1:all"],
        "samples must be",
    ),
    (
        ["certify", "--network", "ffn:3-3-2", "--samples=-4", "--learn", "W1:all"],
        "at least 1, not -4",
    ),
    (["certify", "--network", "rnm:n=2", "--samples", "2", "--learn", "W:all"], "lrnn, rnn"),
    (
        ["certify", "--network", "ffn:3-0-2", "--samples", "2", "--learn", "W1:all"],
        "at least 1, not 0",
    ),
    (
        ["certify", "--network", f"ffn:3-{'9' * 20}-2", "--samples", "2", "--learn", "W1:rows=0"],
        "must be at most 1000000000",
    ),
    (
        ["certify", "--network", "ffn:3--3-2", "--samples", "2", "--learn", "W1:all"],
        "cannot be read",
    ),
    (
        ["certify", "--network", "lrnn:n=-3,b=1,d=1,T=1", "--samples", "2", "--learn", "W:all"],
        "n must be a whole number of at least 1, not -3.",
    ),
    (
        ["certify", "--network", "lrnn:n=3,b=1", "--samples", "2", "--learn", "W:all"],
        "lacks d, T",
    ),
    (["certify", *LAYER, "--learn", "W1:all", "--teacher", "ffn:4-3-2"], "the teacher's inputs"),
    (["certify", *LAYER, "--learn", "W1:all", "--input-rank", "0"], "rank must be"),
    (["certify", *LAYER, "--learn", "W1:all", "--error", "0"], "error must lie strictly between"),
    # Options that cannot be read at all.
    (
        ["certify", *LAYER, "--learn", "W1:all", "--seed", "-1"],
        "--seed must be a whole number of at least 0, not -1.",
    ),
    (
        ["certify", *LAYER, "--learn", "W1:all", "--seed", "x"],
        "--seed must be a whole number of at least 0, not 'x'.",
    ),
    (
        ["certify", "--network", "ffn:3-3-2", "--samples", "two", "--learn", "W1:all"],
        "--samples must be a whole number, not 'two'.",
    ),
    (
        ["certify", "--network", "ffn:3-3-2", "--samples", "2.5", "--learn", "W1:all"],
        "--samples must be a whole number, not '2.5'.",
    ),
    (
        ["certify", "--network", "ffn:3-3-2", "--samples", "9" * 30, "--learn", "W1:all"],
        "samples must be at most 1000000000",
    ),
    (
        ["certify", *LAYER, "--learn", "W1:all", "--error", "small"],
        "--error must be a number, not 'small'.",
    ),
    (["noise", "plaec"], "No such command 'plaec'. Did you mean 'place'?"),
    (["certify", "--samples", "2", "--learn", "W1:all"], "Missing option '--network'."),
    (["certify", *LAYER, "--learn", "W1:all", "--frob"], "No such option: --frob"),
    (["frobnicate"], "No such command 'frobnicate'."),
    # Designs.
    (["design", *LAYER], "Missing option '--learn'."),
    (["design", *LAYER, "--learn", "W7"], "weight name must be one of W1, W2, not 'W7'."),
    (
        ["design", *LAYER, "--learn", "W1", "--want", "best"],
        "want must be one of maximal, best score",
    ),
    (["design", *LAYER, "--learn", "W1", "--forbidden", "W1:all"], "reach rank 0, but 4 is needed"),
    (
        ["design", *LAYER, "--learn", "W1", "--required", "W1:all"],
        "required weights have rank 4 only",
    ),
    (["design", *LAYER, "--learn", "W1", "--forbidden", "no.json"], "there is no file no.json."),
    (["design", *LAYER, "--learn", "W1", "--forbidden", "m.csv"], "there is no file m.csv."),
    (["design", *LAYER, "--learn", "W1", "--required", "W1:no.csv"], "there is no file no.csv."),
    (["repair", *LAYER, "--learn", "W1:all", "--forbidden", "W8:m.csv"], "no file W8:m.csv."),
    (["design", *LAYER, "--learn", "W1", "--scores", "W1"], "must read NAME:FILE"),
    (["design", *LAYER, "--learn", "W1", "--scores", "W1:no.csv"], "there is no file no.csv."),
    (["design", *LAYER, "--learn", "W1", "--error", "1"], "error must lie strictly between"),
    (["design", *LAYER, "--learn", "W1", "--out", "best.txt"], "ending must be one of"),
    (["design", *LAYER, "--learn", "W1", "--out", "nowhere/best.json"], "no folder nowhere"),
    # Repairs and counts.
    (["repair", *LAYER], "say what is learnable"),
    (
        ["repair", *LAYER, "--learn", "W1:rows=0", "--into", "W7"],
        "must be one of W1, W2, not 'W7'.",
    ),
    (
        ["repair", *LAYER, "--learn", "W1:rows=0", "--forbidden", "W1:entries=0.1"],
        "W1(0, 1) is both learnable and forbidden.",
    ),
    (["census", *LAYER, "--learn", "W1:all"], "not 'W1:all'"),
    (
        ["census", *LAYER, "--learn", "W1", "--draws", "0"],
        "--draws must be a whole number of at least 1",
    ),
    (["census", "--network", "ffn:9-9-6", "--samples", "6", "--learn", "W1"], "number of draws."),
]


def fails(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    """The one sentence that a command ends with."""
    monkeypatch.setattr(sys, "argv", ["sublearn", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    captured = capsys.readouterr()
    assert stopped.value.code == 2
    assert captured.out == ""
    assert captured.err.startswith("sublearn: ") and captured.err.endswith("\n")
    assert captured.err.count("\n") == 1, captured.err
    assert "Traceback" not in captured.err
    return captured.err


@pytest.mark.parametrize(("arguments", "message"), CASES, ids=[" ".join(c[0]) for c in CASES])
def test_one_sentence(
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in fails(arguments, monkeypatch, capsys)
    assert list(tmp_path.iterdir()) == [], "nothing may be written"


# Questions that were options once: what was typed, and the command that answers it now.
MOVED = [
    (["decide", *LAYER, "--learn", "W1:all", "--within", "0.1"], "decide-within --eps EPS"),
    (["decide", "--within=0.1"], "decide-within --eps EPS"),
    (["estimate", *LAYER, "--learn", "W1:all", "--within", ".01"], "estimate-within --eps EPS"),
    (["estimate", "--within", ".01", "--learner", "sgd,adam"], "trainability --eps EPS"),
    (["estimate", *LAYER, "--labels", "--steps", "9"], "estimate-solved"),
    (["estimate", *LAYER, "--fresh", "100"], "generalisation --fresh N"),
    (["estimate", "--fresh=100", "--within", ".01"], "generalisation-within --fresh N --eps EPS"),
    (["estimate", "--learner", "adam", "--labels"], "estimate-solved"),
    (["estimate", *LAYER, "--steps", "9", "--within", "1"], "estimate-within"),
    (["estimate", *LAYER, "--rate", "9"], "estimate-within"),
]


@pytest.mark.parametrize(("arguments", "now"), MOVED, ids=[" ".join(m[0]) for m in MOVED])
def test_an_old_option_names_the_command_that_took_its_place(
    arguments: list[str],
    now: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = fails(arguments, monkeypatch, capsys)
    found = re.match(r"sublearn: ([a-z]+) takes no (--[a-z]+): ", said)
    assert found and found[1] == arguments[0] and found[2] in " ".join(arguments)
    assert f"sublearn {now}" in said
    assert set(re.findall("sublearn ([a-z-]+)", said)) <= {*get_command(app).commands}
    assert found[2] not in CliRunner().invoke(app, [arguments[0], "--help"]).output


def archive(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return buffer.getvalue()


def saved(array: object) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(array))
    return buffer.getvalue()


FILES = [
    ("empty.json", b"", "cannot be read"),
    ("words.json", b"not json", "cannot be read"),
    ("list.json", b"[1, 2]", "cannot be read"),
    ("bytes.json", b"\xff\xfe\x00\x01", "cannot be read"),
    ("shape.json", b'{"W1": [[1, 0], [0, 1]]}', "must have shape (3, 3), not (2, 2)"),
    ("ragged.json", b'{"W1": [[1, 0], [1]]}', "W1"),
    ("name.json", b'{"V": [[1]]}', "weight name must be one of W1, W2, not 'V'"),
    ("outside.json", b'{"entries": {"W1": [[3, 0]]}}', "entry (3, 0) lies outside W1"),
    ("twice.json", b'{"entries": {"W1": [[0, 0], [0, 0]]}}', "(0, 0) of W1 is given twice"),
    ("pair.json", b'{"entries": {"W1": [[0]]}}', "must be a pair"),
    ("number.json", b'{"entries": {"W1": [[0, 0.5]]}}', "0.5"),
    ("none.json", b'{"entries": {}}', "no learnable weight (r = 0)"),
    ("empty.csv", b"", "cannot be read"),
    ("words.csv", b"a,b,c\n", "cannot be read"),
    ("shape.csv", b"1,0\n0,1\n", "must have shape (3, 3), not (2, 2)"),
    ("twos.csv", b"2,0,0\n0,0,0\n0,0,0\n", "must hold only 0 and 1"),
    ("empty.npz", b"", "cannot be read"),
    ("words.npz", b"not a zip", "cannot be read"),
    ("members.npz", archive(readme=b"hello"), "members.npz"),
    ("array.npz", saved(np.eye(3)), "cannot be read"),
    ("mask.txt", b"1", "the file's ending must be one of .json, .csv, .npz, .npy, not '.txt'"),
]


@pytest.mark.parametrize(("name", "content", "message"), FILES, ids=[f[0] for f in FILES])
def test_unreadable_allocations(
    name: str,
    content: bytes,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    arguments = ["certify", *LAYER, "--allocation", str(file), "--weight", "W1"]
    said = fails(arguments, monkeypatch, capsys)
    assert message in said
    assert file.read_bytes() == content and list(tmp_path.iterdir()) == [file]


def test_absent_files_and_folders(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "folder.json").mkdir()
    for name in ("absent.json", "folder.json"):
        said = fails(["certify", *LAYER, "--allocation", str(tmp_path / name)], monkeypatch, capsys)
        assert f"there is no file {tmp_path / name}." in said
    (tmp_path / "mask.csv").write_text("1,0,0\n0,1,0\n0,0,1\n")
    said = fails(
        ["certify", *LAYER, "--allocation", str(tmp_path / "mask.csv")], monkeypatch, capsys
    )
    assert "a .csv mask needs the name of its weight, one of W1, W2." in said


def test_a_table_with_a_header_is_told_what_is_wanted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "mask.csv").write_text(",0,1,2\n0,1,0,0\n1,0,1,0\n2,0,0,1\n")  # as pandas writes it
    arguments = ["certify", *LAYER, "--allocation", str(tmp_path / "mask.csv"), "--weight", "W1"]
    said = fails(arguments, monkeypatch, capsys)
    assert "rows of numbers set apart by commas, without header or index" in said


SCORES = [
    ("empty.npy", b"", "cannot be read as scores"),
    ("words.npy", b"hello", "cannot be read as scores"),
    ("several.npy", archive(**{"a.npy": saved(np.eye(3))}), "it holds several arrays"),
    ("text.npy", saved([["a", "b"]]), "must hold real numbers, not text"),
    ("shape.npy", saved(np.eye(2)), "must have shape (3, 3), not (2, 2)"),
    ("nan.csv", b"nan,0,0\n0,0,0\n0,0,0\n", "must be finite"),
    ("empty.csv", b"", "cannot be read as scores"),
    ("words.csv", b"a,b,c\n", "cannot be read as scores"),
]


@pytest.mark.parametrize(("name", "content", "message"), SCORES, ids=[s[0] for s in SCORES])
def test_unreadable_scores(
    name: str,
    content: bytes,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    out = tmp_path / "best.json"
    said = fails(
        ["design", *LAYER, "--learn", "W1", "--scores", f"W1:{file}", "--out", str(out)],
        monkeypatch,
        capsys,
    )
    assert message in said and not out.exists()


def test_a_failed_design_leaves_an_old_file_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "best.json"
    out.write_text("old")
    arguments = ["design", *LAYER, "--learn", "W1", "--forbidden", "W1:all", "--out", str(out)]
    assert "is there already" in fails(arguments, monkeypatch, capsys)
    assert "reach rank 0" in fails([*arguments, "--overwrite"], monkeypatch, capsys)
    assert out.read_text() == "old" and list(tmp_path.iterdir()) == [out]
