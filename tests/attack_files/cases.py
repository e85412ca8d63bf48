"""Valid files of every kind that is read, ways to spoil them, and the readers that must stand it.

Case i of a kind depends on (kind, i) alone.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import shutil
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import sublearn as sl
import sublearn.runs as runs
from runs.toys import tables, walks
from sublearn._reading import Unreadable, read_npy, read_npz
from sublearn.datasets._digits import _from_folder
from sublearn.datasets._idx import read_idx
from sublearn.experiments.tasks import TASKS
from sublearn.matchers import Copy, Intertwine
from sublearn.reports import write
from sublearn.runs._manifest import digest_of

NETWORK = sl.FeedForward((3, 4, 2))
SMALL, ROWS = sl.Problem(sl.LinearRNN(n=2, b=1, d=1, T=2), 2), {"W": sl.FirstRows(2)}
SWEEP = """\
title = "Rows in use"
task = "estimate"
trials = 40
chunk = 4
skip = [{n = 4, k = 3}]
[axes]
size = [{n = 4, T = 2}, {n = 5, T = 3}]
k = [2, 3]
[params]
network = "lrnn:n={n},b=1,d=2,T={T}"
samples = "{T}"
learn = "W:first-rows={k}"
[plot]
x = "k"
y = "share"
lines = "n"
"""


@dataclass(frozen=True)
class Kind:
    """A file below a folder of good ones, what reads it, and what is done with its bytes first."""

    file: str
    read: Callable[[Path], None]
    spoil: Callable[[bytes, np.random.Generator], bytes]


def make(folder: Path) -> None:
    """The good files."""
    folder.mkdir(parents=True, exist_ok=True)
    mask = sl.Allocation.block(NETWORK, "W1", rows=[0, 2])
    for suffix in (".json", ".npz", ".csv"):
        mask.save(folder / f"mask{suffix}")
    for name, problem, learn, trial in (
        ("box", sl.Problem(sl.LinearRNN(n=6, b=1, d=4, T=3), 3), {"W": sl.FirstRows(4)}, 3),
        ("affine", sl.Problem(sl.FeedForward((3, 3, 2)), 2), {"W2": sl.FirstRows(2)}, 0),
    ):
        found = sl.decide(sl.draw(problem, learn, trial=trial))
        assert found.certificate is not None
        found.certificate.save(folder / f"{name}.json")
    for rung, network, learn, trial in (
        (Copy(), sl.FeedForward((3, 2, 1), activation="relu"), {"W1": 6, "W2": 1}, 0),
        (Intertwine(), sl.FeedForward((4, 2, 4)), {"W1": 6, "W2": 6}, 3),
    ):
        some = {name: sl.Anywhere(count) for name, count in learn.items()}
        found = sl.decide(sl.draw(sl.Problem(network, 4), some, trial=trial), ladder=[rung])
        assert found.certificate is not None
        found.certificate.save(folder / f"{rung.name}.json")
    for name, learn in (("rank", "W:rows=0-1"), ("ground", "W:first-rows=2,seed=0")):
        asked = sl.Problem(sl.LinearRNN(n=5, b=1, d=2, T=3), 3)
        held = sl.ensembles.learn_from_text(asked.network, [learn]).draw(asked)
        sl.certify(asked, held).save(folder / f"{name}.json")
    sl.estimate(SMALL, ROWS, 6).save(folder / "trials.json")
    (folder / "sweep.toml").write_text(SWEEP)
    np.save(folder / "scores.npy", np.arange(12.0).reshape(4, 3))
    rng = np.random.default_rng(0)
    images = bytes([0, 0, 8, 3, 0, 0, 0, 5, 0, 0, 0, 4, 0, 0, 0, 4]) + rng.bytes(80)
    (folder / "data").mkdir()
    (folder / "data" / "train-images-idx3-ubyte").write_bytes(images)
    (folder / "data" / "train-labels-idx1-ubyte").write_bytes(b"\0\0\x08\1\0\0\0\5\0\1\2\3\4")
    (folder / "packed").mkdir()
    (folder / "packed" / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(images, mtime=0))
    runs.execute([walk()], out=folder / "run")
    write(folder / "run")


def walk() -> runs.Experiment:
    """The experiment of the run."""
    return walks(points=2, trials=6, chunk=3)


# How bytes are spoilt.

NUMBERS = (b"0", b"-1", b"1000000000", b"100000000000000000000", b"1e308", b"-0.5", b"9" * 5000,
           b"null", b"true", b"[]", b"{}", b'""', b"NaN", b"[[1]]", b"1e999", b'"1e400"',
           b'"1e1000000000"', b'"-1/0"')  # fmt: skip


def bytes_spoilt(data: bytes, rng: np.random.Generator) -> bytes:
    """A few changes of the bytes, of the kinds that files suffer and that attackers try."""
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        place, length = int(rng.integers(0, len(out) + 1)), int(rng.geometric(0.1))
        change = rng.integers(0, 7)
        if change == 0 and out:
            out[min(place, len(out) - 1)] ^= 1 << int(rng.integers(0, 8))
        elif change == 1:
            del out[place : place + length]
        elif change == 2:
            out[place:place] = rng.bytes(length)
        elif change == 3:
            out[place:place] = out[place : place + length] * int(rng.integers(1, 4))
        elif change == 4:
            del out[place:]
        elif change == 5:
            out[place : place + 1] = bytes([int(rng.choice(list(b'[]{}",:\n\0\xff=./-')))])
        else:
            end = int(rng.integers(0, len(out) + 1))
            out[place : place + length], out[end : end + length] = (
                out[end : end + length],
                out[place : place + length],
            )
    return bytes(out)


def text_spoilt(data: bytes, rng: np.random.Generator) -> bytes:
    """The same, or another value in the place of one, or brackets as deep as a tower."""
    if rng.random() < 0.5:
        return bytes_spoilt(data, rng)
    if rng.random() < 0.1:
        deep = int(rng.choice([20, 40, 900, 20_000]))
        place = int(rng.integers(0, len(data) + 1))
        return data[:place] + b"[" * deep + b"]" * deep + data[place:]
    found = list(re.finditer(rb'-?\d+\.?\d*|"[^"\n]*"|true|false|null', data))
    if not found:
        return bytes_spoilt(data, rng)
    other = found[int(rng.integers(0, len(found)))].group()
    token = found[int(rng.integers(0, len(found)))]
    new = other if rng.random() < 0.3 else NUMBERS[int(rng.integers(0, len(NUMBERS)))]
    return data[: token.start()] + new + data[token.end() :]


def manifest_spoilt(data: bytes, rng: np.random.Generator) -> bytes:
    """A spoilt manifest, mostly with the digests that go with what it says now."""
    spoilt = text_spoilt(data, rng)
    if rng.random() < 0.2:
        return spoilt
    with suppress(Exception):  # it may be no manifest any more
        content = json.loads(spoilt)
        for entry in content["experiments"].values():
            entry["digest"] = digest_of(entry)
        return json.dumps(content).encode()
    return spoilt


def members_spoilt(data: bytes, rng: np.random.Generator) -> bytes:
    """An archive whose members are spoilt and packed again, so that the archive itself is sound."""
    if rng.random() < 0.4:
        return bytes_spoilt(data, rng)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            body = old.read(name)
            head = body[:128].replace(b"3", rng.choice([b"9", b"99999999", b"-1", b"3"]), 1)
            body = head + body[128:] if rng.random() < 0.5 else bytes_spoilt(body, rng)
            new.writestr(name if rng.random() < 0.9 else "../" + name, body)
    return out.getvalue()


def packed_spoilt(data: bytes, rng: np.random.Generator) -> bytes:
    """A gzip file, spoilt outside or inside."""
    if rng.random() < 0.5:
        return bytes_spoilt(data, rng)
    return gzip.compress(bytes_spoilt(gzip.decompress(data), rng), mtime=0)


# What reads them. A reader returns, or raises BadInputError.


def _mask(path: Path) -> None:
    sl.Allocation.load(path, NETWORK, "W1")


def _certificate(path: Path) -> None:
    sl.Certificate.load(path).check(max_bits=256)


def _ranks(path: Path) -> None:
    sl.verdicts.RankCertificate.load(path).check(most_work=10**9)


def _trials(path: Path) -> None:
    sl.Estimate.load(path, SMALL, ROWS).to_dict()


def _sweep(path: Path) -> None:
    from sublearn.runs import sweep_from_file

    sweep_from_file(path, TASKS)


def _array(path: Path) -> None:
    try:
        read_npy(path)
    except Unreadable as problem:
        raise sl.BadInputError(str(problem)) from None


def _arrays(path: Path) -> None:
    try:
        read_npz(path)
    except Unreadable as problem:
        raise sl.BadInputError(str(problem)) from None


def _images(path: Path) -> None:
    read_idx(path)
    if path.parent.name == "data":
        _from_folder.__wrapped__(str(path.parent), "train")


def _looked_at(folder: Path) -> None:
    run = runs.open(folder)
    runs.summary(run)
    write(folder)


def _run(path: Path) -> None:
    """Looked at, and gone on with: whatever a file of a run says, the tables end as they must."""
    folder = next(place for place in path.parents if place.name == "run")
    refused: sl.BadInputError | None = None
    try:
        _looked_at(folder)
    except sl.BadInputError as problem:
        refused = problem
    expected = tables(folder.parent / "kept")
    runs.execute([walk()], out=folder)
    _looked_at(folder)
    if path.parent.name != "shards":  # rows of a stranger are the stranger's
        assert tables(folder) == expected, "the tables differ"
    if refused is not None:
        raise refused


KINDS: dict[str, Kind] = {
    "mask .json": Kind("mask.json", _mask, text_spoilt),
    "mask .npz": Kind("mask.npz", _mask, members_spoilt),
    "mask .csv": Kind("mask.csv", _mask, text_spoilt),
    "certificate, box": Kind("box.json", _certificate, text_spoilt),
    "certificate, affine": Kind("affine.json", _certificate, text_spoilt),
    "certificate, copy": Kind("copy.json", _certificate, text_spoilt),
    "certificate, intertwined": Kind("intertwine.json", _certificate, text_spoilt),
    "certificate, rank": Kind("rank.json", _ranks, text_spoilt),
    "certificate, ground": Kind("ground.json", _ranks, text_spoilt),
    "trials": Kind("trials.json", _trials, text_spoilt),
    "sweep": Kind("sweep.toml", _sweep, text_spoilt),
    "scores": Kind("scores.npy", _array, bytes_spoilt),
    "arrays": Kind("mask.npz", _arrays, members_spoilt),
    "IDX": Kind("data/train-images-idx3-ubyte", _images, bytes_spoilt),
    "IDX, labels": Kind("data/train-labels-idx1-ubyte", _images, bytes_spoilt),
    "IDX, packed": Kind("packed/train-images-idx3-ubyte.gz", _images, packed_spoilt),
    "manifest": Kind("run/manifest.json", _run, manifest_spoilt),
    "about": Kind("run/walks/about.json", _run, text_spoilt),
    "table": Kind("run/walks/table.csv", _run, text_spoilt),
    "failures": Kind("run/failures.json", _run, text_spoilt),
    "timings": Kind("run/timings.csv", _run, text_spoilt),
    "shard": Kind("run/walks/shards/*.parquet", _run, bytes_spoilt),
}
NAMES = list(KINDS)


def attempt(good: Path, place: Path, number: int) -> str:
    """Case ``number``, of kind number % len(KINDS): "read" or "refused"; anything else is raised."""
    name = NAMES[number % len(NAMES)]
    kind = KINDS[name]
    rng = np.random.default_rng([14, number])
    top = kind.file.partition("/")[0]
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    if (good / top).is_dir():
        shutil.copytree(good / top, place / top)
        if top == "run":
            (place / "kept").symlink_to(good / "run")
    else:
        shutil.copy(good / top, place / top)
    (path,) = place.glob(kind.file)
    data = kind.spoil(path.read_bytes(), rng)
    if name == "shard":  # under the name that its content has, or nobody reads it
        path.unlink()
        path = path.with_name(f"{hashlib.sha256(data).hexdigest()[:32]}.parquet")
    path.write_bytes(data)
    try:
        kind.read(path)
    except sl.BadInputError as problem:
        said = str(problem)
        assert said and "\n" not in said and len(said) < 1200, f"no sentence: {said[:300]!r}"
        assert not re.search(r"allow_pickle|Traceback|<_io\.", said), said
        return "refused"
    return "read"


def described(number: int) -> str:
    """Which case it is, for who wants to see it again."""
    return json.dumps({"case": number, "kind": NAMES[number % len(NAMES)]})
