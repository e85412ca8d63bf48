"""A folded chain: its steps, and where each learnable value goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from sublearn._arrays import Floats, Indices
from sublearn.networks import Link


@dataclass(frozen=True)
class Slot:
    """A matrix that holds learnable entries: a stretch of the buffer, and its shape."""

    start: int
    rows: int
    columns: int

    @property
    def stop(self) -> int:
        return self.start + self.rows * self.columns

    def of(self, buffer: Floats) -> Floats:
        """The matrices (..., rows, columns) in buffers (..., size): a view."""
        shape = (*buffer.shape[:-1], self.rows, self.columns)
        return buffer[..., self.start : self.stop].reshape(shape)


@dataclass(frozen=True)
class Folded:
    """A folded chain: its steps, the buffer of all slots, and where each learnable value goes.

    The weights of its steps are ``slots``, which hold learnable entries, and ``matrices``, which hold
    none; arrays have a leading axis of instances (1: the same for all). ``frozen`` (., size + 1) is the
    buffer with the learnable entries at 0. Value number a of an instance goes to every one of
    ``places[., a, :]``, of which there are one or two; the last cell of the buffer is for values that
    have fewer places than others.
    """

    steps: tuple[Link, ...]
    slots: Mapping[str, Slot]
    matrices: Mapping[str, Floats]
    frozen: Floats
    places: Indices

    def views(self, buffer: Floats) -> dict[str, Floats]:
        """The slots in a buffer."""
        return {name: slot.of(buffer) for name, slot in self.slots.items()}

    def buffer(self, values: Floats) -> Floats:
        """The slots filled with ``values`` (batch, r)."""
        out = np.empty((values.shape[0], self.frozen.shape[-1]), dtype=self.frozen.dtype)
        out[:] = self.frozen
        for cells in self._cells(out):
            out.reshape(-1)[cells] = values
        out[:, -1] = 0.0
        return out

    def gather(self, buffer: Floats) -> Floats:
        """The transpose of :meth:`buffer`: derivatives by value from derivatives by slot."""
        first, *second = (buffer.reshape(-1)[cells] for cells in self._cells(buffer))
        out: Floats = first + second[0] if second else first
        return out

    def _cells(self, buffer: Floats) -> Iterator[Indices]:
        """Where the values go in the flattened buffers, (batch, r) each time."""
        begin = np.arange(buffer.shape[0])[:, None] * buffer.shape[1]
        for place in range(self.places.shape[-1]):
            yield begin + self.places[..., place]

    def select(self, kept: Indices) -> Folded:
        """The chain of some instances only; a chain shared by all is returned as it is."""
        if self.places.shape[0] == 1:
            return self
        return Folded(
            tuple(_map(step, lambda array: array[kept]) for step in self.steps),
            self.slots,
            {name: matrix[kept] for name, matrix in self.matrices.items()},
            self.frozen[kept],
            self.places[kept],
        )

    def at(self, samples: Indices) -> Folded:
        """The chain on some samples, (batch, size) of them."""

        def pick(array: Floats) -> Floats:
            if array.shape[-1] == 1:
                return array
            return np.take_along_axis(array, samples[:, None, :], axis=-1)

        return replace(self, steps=tuple(_map(step, pick) for step in self.steps))


def _map(step: Link, change: Callable[[Floats], Floats]) -> Link:
    changed: dict[str, Any] = {
        field.name: change(value)
        for field in fields(step)
        if isinstance(value := getattr(step, field.name), np.ndarray)
    }
    return replace(step, **changed)
