"""A labelled data set."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sublearn._arrays import Array, Indices
from sublearn._errors import BadInputError, whole_number
from sublearn._seeds import Tag


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """N samples of q features each, with labels 0 .. classes - 1.

    ``features`` (q, N) are kept as they were read, samples as columns; a network is given
    (features - mean) / spread. Equal data sets have equal digests, on every machine.

    >>> import numpy as np
    >>> data = Dataset("two points", np.array([[0, 2], [1, 1]]), [0, 1], classes=2)
    >>> inputs, targets = data.take([1, 0])
    >>> inputs.tolist(), targets.tolist()
    ([[2.0, 0.0], [1.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]])
    """

    name: str
    features: NDArray[Any]
    labels: Indices
    classes: int
    mean: float = 0.0
    spread: float = 1.0
    verified: bool = False  # whether a published checksum was met

    def __post_init__(self) -> None:
        features = np.array(self.features)
        labels = np.array(self.labels)
        if features.ndim != 2 or not features.size or features.dtype.kind not in "uif":
            raise BadInputError(f"features must be numbers of shape (q, N), not {features.shape}.")
        if not np.isfinite(features).all():
            raise BadInputError("features must be finite.")
        classes = whole_number("classes", self.classes, least=2)
        if labels.shape != features.shape[1:] or labels.dtype.kind not in "ui":
            raise BadInputError(
                f"labels must be {features.shape[1]} whole numbers, one for each sample, not an array of "
                f"shape {labels.shape}."
            )
        if labels.min() < 0 or labels.max() >= classes:
            raise BadInputError(
                f"labels must lie in 0..{classes - 1}, not {labels.min()}..{labels.max()}."
            )
        if not 0 < self.spread < np.inf:
            raise BadInputError(f"spread must be positive and finite, not {self.spread!r}.")
        for array in (features, labels):
            array.flags.writeable = False
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "labels", labels.astype(np.int64))
        object.__setattr__(self, "classes", classes)

    @property
    def size(self) -> int:
        """The number N of samples."""
        return int(self.features.shape[1])

    @property
    def inputs(self) -> Array:
        """All samples as a network sees them, (q, N)."""
        return self.take(np.arange(self.size))[0]

    def take(self, samples: ArrayLike) -> tuple[Array, Array]:
        """Inputs (q, m) and one-hot targets (classes, m) of the samples of these numbers."""
        index = np.asarray(samples, dtype=np.int64)
        inputs = (self.features[:, index].astype(np.float64) - self.mean) / self.spread
        targets = np.zeros((self.classes, index.size))
        targets[self.labels[index], np.arange(index.size)] = 1.0
        return inputs, targets

    def shuffled(self, seed: int = 0) -> Dataset:
        """The same samples with their labels in a random order: what was to be learned is gone.

        >>> import sublearn as sl
        >>> data = sl.datasets.digits().shuffled()
        >>> data.name, int((data.labels == sl.datasets.digits().labels).sum()) < 300
        ('digits, labels shuffled', True)
        """
        order = np.random.default_rng(
            [whole_number("seed", seed, least=0), Tag.SHUFFLED]
        ).permutation(self.size)
        name = f"{self.name}, labels shuffled"
        return replace(self, name=name, labels=self.labels[order], verified=False)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of features, labels and scaling; the name does not count."""
        kind = "<f8" if self.features.dtype.kind == "f" else "<i8"
        head = {
            "format": "sublearn dataset 1",
            "shape": self.features.shape,
            "kind": kind,
            "classes": self.classes,
            "mean": float(self.mean),
            "spread": float(self.spread),
        }
        h = hashlib.sha256(json.dumps(head, sort_keys=True).encode())
        h.update(np.ascontiguousarray(self.features, dtype=kind).tobytes())
        h.update(np.ascontiguousarray(self.labels, dtype="<i8").tobytes())
        return h.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dataset) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return (
            f"<Dataset {self.name}: {self.size} samples of {self.features.shape[0]} features, "
            f"{self.classes} classes>"
        )
