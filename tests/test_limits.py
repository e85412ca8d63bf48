"""Limits before work: one sentence that names the limit, and next to no memory spent on saying it."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

import sublearn as sl
from sublearn import BadInputError
from sublearn._limits import MOST_STEPS, check_memory, memory_limit, most_workers
from sublearn._reading import Unreadable, parse_json, read_json, read_npz, read_regular
from sublearn.datasets._idx import read_idx
from sublearn.experiments.tasks import TASKS
from sublearn.networks import network_from_text
from sublearn.runs import sweep_from_dict, sweep_from_file

NET = sl.FeedForward((3, 2))
SWEEP = {
    "task": "estimate",
    "trials": 4,
    "axes": {"k": [1, 2]},
    "params": {"network": "lrnn:n=2,b=1,d=1,T=2", "samples": 2, "learn": "W:first-rows={k}"},
}


# JSON, as every reader of it reads it.

JSON = [
    (b"[" * 100_000, "nested deeper than 32"),
    (b"[" * 33 + b"]" * 33, "nested deeper than 32"),
    (b'{"a":' * 40 + b"1" + b"}" * 40, "nested deeper than 32"),
    (b'{"a": 1, "b": 2, "a": 3}', "the key 'a' stands there twice"),
    (b'[{"b": {"a": 1, "a": 3}}]', "the key 'a' stands there twice"),
    (b"9" * 5000, "more than 4300 digits"),
    (b"[NaN]", "NaN is no number"),
    (b"[-1e999]", "-1e999 in it is beyond the range of float64"),
    (b"[-Infinity]", "-Infinity is no number"),
    (b"\xff", "not text in UTF-8"),
    (b"", "no JSON"),
    (b'{"a": ', "no JSON"),
    (b'"' + b"[" * 100, "no JSON|nested"),
]


@pytest.mark.parametrize(("content", "message"), JSON, ids=[repr(c[:20]) for c, _ in JSON])
def test_json_that_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(Unreadable, match=message):
        parse_json(content)


@pytest.mark.parametrize(
    "value", [{"a": '"[[[' * 99}, {"\\": "\\[{"}, {"a": ['\\"[' * 50]}, [[[[1]]]], 10**4000]
)
def test_json_that_is_read(value: object) -> None:
    assert parse_json(json.dumps(value).encode()) == value


def test_sizes_and_kinds_of_files(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_regular(path, 5) == b"12345"
    with pytest.raises(Unreadable, match="it has 5 B, and 4 B are allowed"):
        read_regular(path, 4)
    with pytest.raises(Unreadable, match="it is not a file"):
        read_regular(tmp_path, 5)
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "none")
    (tmp_path / "link").symlink_to(path)
    assert read_regular(tmp_path / "link", 5) == b"12345"
    with pytest.raises(Unreadable, match="it is a link"):
        read_regular(tmp_path / "link", 5, links=False)


# Masks.


def _npz(*members: tuple[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members:
            file.writestr(name, content)
    return buffer.getvalue()


def _npy(shape: str, kind: str = "|b1", body: bytes = b"") -> bytes:
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + body


MASKS = [
    (
        "a.json",
        b'{"format": "sublearn allocation 9", "entries": {}}',
        "format 'sublearn allocation 9'",
    ),
    ("a.json", b'{"format": 7, "entries": {}}', "format 7 is not known"),
    ("a.json", b'{"format": null, "masks": {}}', "format None is not known"),
    ("a.json", b'{"entries": {}, "entries": {"W1": [[0, 0]]}}', "'entries' stands there twice"),
    ("a.json", b'{"entries": {"W1": [], "W1": [[0, 0]]}}', "'W1' stands there twice"),
    ("a.json", b'{"entries": {}, "masks": {}}', "nothing but the format"),
    ("a.json", b"[" * 50_000, "nested deeper"),
    ("a.npz", b"garbage", "a zip of arrays"),
    ("a.npz", b"PK\x03\x04garbage", "a zip of arrays"),
    ("a.npz", _npz(("W1.npy", b"garbage")), "no array in numpy's format"),
    ("a.npz", _npz(("W1.txt", b"")), "is no array"),
    ("a.npz", _npz(("W1.npy", _npy("(2, 3)", "|O"))), "Python objects"),
    ("a.npz", _npz(("W1.npy", _npy("(99999999, 99999999)"))), "are allowed"),
    ("a.npz", _npz(("W1.npy", _npy("(-2, 3)"))), "are allowed"),
    ("a.npz", _npz(("W1.npy", _npy("(2, 3)", "|V0"))), "which is no array"),
    ("a.npz", _npz(("W1.npy", _npy("(2, 3)", body=b"\1" * 5))), "and there are others"),
    ("a.npz", _npz(("W1.npy", _npy("(2, 3)", body=b"\1" * 7))), "and there are others"),
]


@pytest.mark.parametrize(("name", "content", "message"), MASKS, ids=[m for *_, m in MASKS])
def test_masks_in_our_words(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInputError, match=message) as caught:
        sl.Allocation.load(tmp_path / name, NET)
    assert "pickle" not in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_arrays_of_one_name(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(_npz(("W1.npy", _npy("(1,)", body=b"\1")), ("W1.npy", b"")))
    with pytest.raises(Unreadable, match="a name stands in it twice"):
        read_npz(tmp_path / "a.npz")


def test_arrays_come_back_as_numpy_wrote_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    kinds = [np.float64, np.int32, np.bool_, ">f4"]
    arrays = {f"a{i}": rng.integers(0, 2, (3, 4, i)).astype(k) for i, k in enumerate(kinds)}
    arrays |= {
        "f": np.asfortranarray(rng.random((3, 5))),
        "none": np.zeros(()),
        "t": np.array("word"),
    }
    np.savez_compressed(tmp_path / "a.npz", **arrays)
    found = read_npz(tmp_path / "a.npz")
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype and np.array_equal(found[name], array)


# Certificates.


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    problem = sl.Problem(sl.LinearRNN(n=6, b=1, d=4, T=3), samples=3)
    found = sl.decide(sl.draw(problem, {"W": sl.FirstRows(4)}, trial=3))
    assert found.certificate is not None
    path = tmp_path_factory.mktemp("proof") / "proof.json"
    found.certificate.save(path)
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bits": 10**9}, "bits must be at most 65536"),
        ({"bits": 10**20}, "bits must be at most 65536"),
        ({"bits": -5}, "bits must be at most 65536 and not negative, not -5"),
        ({"bits": True}, "damaged"),
        ({"network": "lrnn:n=6,b=1,d=4,T=1000000000"}, f"T must be at most {MOST_STEPS}"),
        ({"network": "lrnn:n=1000000000,b=1,d=4,T=3"}, "of memory"),
        ({"samples": 10**9}, "numbers are wanted"),
        ({"samples": 10**30}, "samples|numbers|damaged"),
        ({"learnable": {"W": [10**25]}}, "outside|damaged"),
    ],
)
def test_certificates(change: dict, message: str, certificate: Path, tmp_path: Path) -> None:
    path = tmp_path / "proof.json"
    path.write_text(json.dumps({**json.loads(certificate.read_text()), **change}))
    with pytest.raises(BadInputError, match=message):
        sl.Certificate.load(path)


# Networks.


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lrnn:n=1000000000,b=1,d=1,T=1", "needs about 8 EB of memory, and at most"),
        ("linear:inputs=1000000000,outputs=1000000000", "of memory, and at most"),
        ("lrnn:n=3,b=1,d=1,T=1000000000", f"T must be at most {MOST_STEPS}, not 1000000000"),
        ("rnn:n=3,b=1,d=1,T=1000000000", f"T must be at most {MOST_STEPS}, not 1000000000"),
        ("ffn:" + "-".join(["2"] * 20_001), f"layers must be at most {MOST_STEPS}, not 20000"),
        ("ffn:2-" + "9" * 5000, "cannot be read"),
    ],
)
def test_networks(text: str, message: str) -> None:
    with pytest.raises(BadInputError, match=message) as caught:
        network_from_text(text)
    assert len(str(caught.value)) < 1100


def test_the_limit_is_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    assert memory_limit() > 10**8
    monkeypatch.setattr("sublearn._limits.memory_limit", lambda: 8_000)
    assert network_from_text("ffn:10-100").size == 1000
    with pytest.raises(BadInputError, match=r"1100 weights, needs about 8\.8 kB .* at most 8 kB"):
        network_from_text("ffn:11-100")
    with pytest.raises(BadInputError, match="ask for less"):
        check_memory("it", 8001, "less")


# Sweeps.


@pytest.mark.parametrize("digits", [9, 18, 40, 310, 4299])
def test_sweeps_of_too_many_trials(
    digits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sublearn._limits.memory_limit", lambda: 24 * 10**9)
    trials = 10**digits
    with pytest.raises(BadInputError, match="of memory, and at most 24 GB can be had here"):
        sweep_from_dict({**SWEEP, "trials": trials}, TASKS)
    point = sl.runs.Point(SWEEP["params"] | {"learn": "W:rows=0"}, trials)
    plan = sl.runs.Plan((point,))
    big = sl.runs.Experiment("big", "", "", "", TASKS["estimate"], plan, plan, 0.0)
    with pytest.raises(BadInputError, match="of memory, and at most 24 GB can be had here"):
        sl.runs.execute([big], out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == [], "no lock is left"


@pytest.mark.parametrize("digits", [310, 4000])
def test_a_sweep_file_with_a_number_beyond_floats(digits: int, tmp_path: Path) -> None:
    path = tmp_path / "sweep.toml"
    params = 'network = "lrnn:n=2,b=1,d=1,T=2"\nsamples = 2\nlearn = "W:first-rows={k}"'
    text = f"task = 'estimate'\ntrials = {'9' * digits}\n[axes]\nk = [1, 2]\n[params]\n{params}\n"
    path.write_text(text)
    with pytest.raises(BadInputError, match=r"with 2e\+\d+ trials in .* EB of memory") as caught:
        sweep_from_file(path, TASKS)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("digits", [400, 5000])
@pytest.mark.parametrize("sign", [1, -1])
def test_numbers_beyond_floats(digits: int, sign: int) -> None:
    huge = sign * 10**digits
    network = sl.LinearRNN(n=2, b=1, d=1, T=2)
    asked = [
        lambda: sl.Problem(network, huge),
        lambda: sl.RateRNN(n=2, b=1, d=1, T=2, leak=huge),
        lambda: sl.Noise((huge, 0.0, 0.0)),
        lambda: sl.Noise((0.1, 0.0, 0.0), T=huge),
        lambda: sl.noise.Homeostasis(norm=huge),
        lambda: sl.runs.Point({}, trials=-abs(huge)),
        lambda: sl.estimate(sl.Problem(network, 2), {"W": sl.FirstRows(1)}, -abs(huge)),
        lambda: sl.estimate(sl.Problem(network, 2), {"W": sl.FirstRows(1)}, 4, workers=huge),
        lambda: sl.estimate_within(sl.Problem(network, 2), {"W": sl.FirstRows(1)}, 4, eps=huge),
        lambda: sl.train(sl.draw(sl.Problem(network, 2), {"W": sl.FirstRows(1)}), scale=huge),
    ]
    for ask in asked:
        with pytest.raises(BadInputError) as caught:
            ask()
        assert len(str(caught.value)) < 400


def test_too_large_a_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sublearn._limits.memory_limit", lambda: 10**9)
    for rank in (10**9, 10**400):
        law = sl.Ensemble(inputs=sl.ensembles.LowRank(rank=rank))
        with pytest.raises(
            BadInputError, match=r"inputs of rank .* 1 GB .*: ask for a smaller rank"
        ):
            sl.Problem(sl.LinearRNN(n=2, b=1, d=1, T=2), 2, law)


@pytest.mark.parametrize("trials", [10**12, 10**400])
def test_too_many_trials_of_an_estimate(trials: int) -> None:
    problem = sl.Problem(sl.LinearRNN(n=2, b=1, d=1, T=2), samples=2)
    with pytest.raises(BadInputError, match=r"keeping .* trials needs .* ask for fewer trials"):
        sl.estimate(problem, {"W": sl.FirstRows(1)}, trials)


def test_derivatives_are_weighed_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """What certify and design hold most of."""
    network = network_from_text("rnn:n=500,b=3,d=2,T=10")
    problem = sl.Problem(network, 500)
    monkeypatch.setattr("sublearn._limits.memory_limit", lambda: 2 * 10**8)
    monkeypatch.setattr("sublearn.networks._derivatives.walk", None)
    # 24 bytes for each number of d n m + n m (W) and d n m + b m (B), 10 times, and of n m (D).
    for ask in (
        lambda: sl.certify(problem, sl.Allocation.from_rows(network, "W", range(100))),
        lambda: sl.design(problem, ["W"], count="20%"),
    ):
        with pytest.raises(BadInputError, match="500 samples needs about 306 MB of memory, and at"):
            ask()


def test_too_many_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sublearn._limits.memory_limit", lambda: 10**9)
    params = {**SWEEP["params"], "samples": 10**9}
    # 2 inputs, 2 units and 1 output a sample, each about four times in float64.
    with pytest.raises(BadInputError, match=r"needs about 160 GB of memory, and at most 1 GB"):
        sweep_from_dict({**SWEEP, "params": params}, TASKS)
    network = sl.LinearRNN(n=2, b=1, d=1, T=2)
    with pytest.raises(BadInputError, match=r"1000000000 samples of 'lrnn.* ask for fewer samples"):
        sl.Problem(network, 10**9)
    assert sl.Problem(network, 10**6).samples == 10**6


TOML = [
    (b"a = " + b"[" * 5000 + b"]" * 5000, "nested deeper than 4 levels"),
    (b"axes.k = [[[[[1]]]]]", "nested deeper than 4 levels"),
    (b"params." + b".".join([b"a"] * 5000) + b" = 1", "nested deeper than 4 levels"),
    (b"[" + b".".join([b"a"] * 200_000) + b"]", "nested deeper than 4 levels"),
    (b"[a]\n" * 9 + b"[" + b" . ".join([b'"a"'] * 100_000) + b"]", "nested deeper than 4 levels"),
    (b'x = "' + b'\\"[.' * 300_000, "cannot be read as TOML"),
    (b"trials = " + b"9" * 5000, "more than 4300 digits"),
    (b"trials = 1\ntrials = 2", "cannot be read as TOML"),
    (b"\xff", "not text in UTF-8"),
    (b"day = 2020-13-45", "cannot be read as TOML"),
    (b"x = 'y'\n" * 1 + b"#" * (5 * 1024**2), "are allowed"),
]


@pytest.mark.parametrize(("content", "message"), TOML, ids=[m + repr(c[:9]) for c, m in TOML])
def test_sweeps_that_cannot_be_read(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "sweep.toml"
    path.write_bytes(content)
    begun = time.process_time()
    with pytest.raises(BadInputError, match=message):
        sweep_from_file(path, TASKS)
    assert time.process_time() - begun < 10


def test_dots_and_brackets_in_texts_are_no_depth(tmp_path: Path) -> None:
    path = tmp_path / "sweep.toml"
    path.write_text(
        "title = \"a.b.c.d.e.f [[[[[[\"  # x.y.z.a.b.c.d [[[[[[ '''\n"
        "task = 'estimate'\ntrials = 1\n"
        '[params]\nnetwork = """lrnn:n=2,b=1,d=1,T=2"""\nsamples = 2\n'
        "learn = '''W:entries=0.0/0.1/1.0/1.1'''\n[axes]\nseeds = [{a = 1.5}, {a = 2.5}]\n"
    )
    with pytest.raises(BadInputError, match="a is not read by task estimate"):
        sweep_from_file(path, TASKS)


# Data.


def _idx(shape: tuple[int, ...], body: bytes, axes: int | None = None) -> bytes:
    head = bytes([0, 0, 8, len(shape) if axes is None else axes])
    return head + b"".join(n.to_bytes(4, "big") for n in shape) + body


IDX = [
    (_idx((1,) * 255, b"\1"), "must have 1 to 8 axes, not 255"),
    (_idx((), b"\1"), "must have 1 to 8 axes, not 0"),
    (_idx((0, 28, 28), b""), "holds no numbers"),
    (_idx((2**32 - 1,) * 3, b""), "of memory"),
    (_idx((10**9,), b"\1"), "and fewer follow"),
    (gzip.compress(_idx((3,), b"\0" * 10_000_000), mtime=0), "and more follow"),
    (gzip.compress(_idx((10**9,), b"\1"), mtime=0), "and fewer follow"),
    (gzip.compress(_idx((3,), b"\1\2\3"), mtime=0)[:-9], "damaged gzip"),
]


@pytest.mark.parametrize(
    ("content", "message"), IDX, ids=[f"{i}-{m}" for i, (_, m) in enumerate(IDX)]
)
def test_idx_files(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "images"
    path.write_bytes(content)
    with pytest.raises(BadInputError, match=message):
        read_idx(path)


# Workers.


def test_workers(tmp_path: Path) -> None:
    problem = sl.Problem(sl.LinearRNN(n=2, b=1, d=1, T=2), samples=2)
    many = sweep_from_dict(SWEEP, TASKS)
    message = f"workers must be at most {most_workers()}, not 10000"
    with pytest.raises(BadInputError, match=message):
        sl.runs.execute([many], out=tmp_path / "run", workers=10_000)
    with pytest.raises(BadInputError, match=message):
        sl.estimate(problem, {"W": sl.FirstRows(1)}, 4, workers=10_000)
    assert list(tmp_path.iterdir()) == []


# In a process that may not have much memory nor time: what was allocated would show.

# The child limits itself before it imports anything: JAX, which other tests load, forbids code after a fork.
CHILD = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, 3 * 2**30))
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
from sublearn.cli import main
main()
"""


def test_a_mask_that_unpacks_to_six_gigabytes(tmp_path: Path) -> None:
    path = _bomb(tmp_path / "bomb.npz", "W1", f"({6 * 10**9},)")
    said = _refused("certify", "--network", "ffn:3-2", "--samples", "1", "--allocation", str(path))
    assert "6 GB" in said and "67.1 MB are allowed" in said


def test_data_that_unpack_to_six_gigabytes(tmp_path: Path) -> None:
    path = _bomb(tmp_path / "bomb.npz", "inputs", "(3, 2000000000)")
    words = ["decide", "--network", "ffn:3-2", "--learn", "W1:all", "--data", str(path)]
    said = _refused(*words, "--samples", "3")
    assert "announces shape (3, 2000000000), 6 GB; 67.1 MB are allowed" in said
    assert "announces shape (3, 2000000000), 6 GB" in _refused(*words)


def _bomb(path: Path, name: str, shape: str) -> Path:
    """Six gigabytes of zeros in six megabytes, stored as deflate does."""
    block = b"\0" * 10**7
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        member = zipfile.ZipInfo(f"{name}.npy")
        member.compress_type = zipfile.ZIP_DEFLATED
        with file.open(member, "w", force_zip64=True) as stream:
            stream.write(_npy(shape))
            for _ in range(20):  # as much as is written in no time; its head says the rest
                stream.write(block)
    return path


def _refused(*words: str) -> str:
    found = subprocess.run(
        [sys.executable, "-c", CHILD, *words],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert found.returncode == 2 and found.stderr.count("\n") == 1, found.stderr
    return found.stderr
