"""Random numbers for a batch: a stream of its own for every row, so that a row's numbers depend on
its key and not on which rows it shares the batch with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sublearn._arrays import Array, Indices

# Signs are drawn for so many steps at once: a call per row and step would cost more than the step.
_AHEAD = 32


class Streams:
    """One generator per row of a batch, seeded by [seed, *key of the row].

    >>> Streams(0, [(7, 0), (7, 1)]).signs(3).shape
    (2, 3)
    """

    def __init__(self, seed: int, keys: Sequence[Sequence[int]]) -> None:
        self._streams = [_Stream(np.random.default_rng([seed, *key])) for key in keys]

    def __len__(self) -> int:
        return len(self._streams)

    def select(self, kept: Any) -> Streams:
        """The streams of some rows, going on from where they are."""
        out = object.__new__(Streams)
        out._streams = [self._streams[i] for i in np.arange(len(self))[kept]]
        return out

    def normal(self, size: int) -> Array:
        """Independent N(0, 1) numbers, (rows, size)."""
        return np.stack([stream.rng.standard_normal(size) for stream in self._streams])

    def signs(self, size: int) -> NDArray[np.int8]:
        """Independent +1 and -1 with equal probability (Rademacher), (rows, size)."""
        return np.stack([stream.signs(size) for stream in self._streams])

    def mini_batches(self, samples: int, size: int) -> Indices:
        """``size`` sample numbers for each row: the next of a random order, drawn anew for each epoch."""
        return np.stack([stream.mini_batch(samples, size) for stream in self._streams])


class _Stream:
    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self._signs = np.zeros((0, 0), dtype=np.int8)
        self._order = np.zeros(0, dtype=np.int64)

    def signs(self, size: int) -> NDArray[np.int8]:
        if not self._signs.shape[0]:
            drawn = self.rng.integers(0, 2, (_AHEAD, size), dtype=np.int8)
            self._signs = np.asarray(2 * drawn - 1, dtype=np.int8)
        first: NDArray[np.int8] = self._signs[0]
        self._signs = self._signs[1:]
        return first

    def mini_batch(self, samples: int, size: int) -> Indices:
        if self._order.size < size:  # what is left of an epoch and no full mini-batch is skipped
            self._order = self.rng.permutation(samples)
        first, self._order = self._order[:size], self._order[size:]
        return first
