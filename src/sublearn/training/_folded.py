"""A folded chain: its steps, and where each learnable value goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from sublearn._arrays import Floats, Indices


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
class FoldedStep:
    """state <- activation(matrix (state + entering + encoder block) + bias still + offset).

    Whatever is None is absent; arrays have a leading axis of instances (1: the same for all).
    """

    activation: str
    matrix: Slot | Floats  # (., out, in)
    entering: Floats | None = None  # (., in, m)
    offset: Floats | None = None  # (., out, m), or (., out, 1)
    bias: Slot | None = None
    still: Floats | None = None  # (., columns of bias, 1), what the bias is applied to: 1, mostly
    encoder: Slot | None = None
    block: Floats | None = None  # (., b, m), what the encoder is applied to


@dataclass(frozen=True)
class Folded:
    """A folded chain: its steps, the buffer of all slots, and where each learnable value goes.

    ``frozen`` (., size + 1) is the buffer with the learnable entries at 0. Value number a of an
    instance goes to every one of ``places[., a, :]``, of which there are one or two; the last cell of
    the buffer is for values that have fewer places than others.
    """

    steps: tuple[FoldedStep, ...]
    frozen: Floats
    places: Indices

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
            self.frozen[kept],
            self.places[kept],
        )

    def at(self, samples: Indices) -> Folded:
        """The chain on some samples, (batch, size) of them."""

        def pick(array: Floats) -> Floats:
            if array.shape[-1] == 1:
                return array
            return np.take_along_axis(array, samples[:, None, :], axis=-1)

        # Matrices have no axis of samples.
        steps = tuple(_map(step, pick, keep=("matrix",)) for step in self.steps)
        return replace(self, steps=steps)


def _map(
    step: FoldedStep, change: Callable[[Floats], Floats], keep: tuple[str, ...] = ()
) -> FoldedStep:
    changed: dict[str, Any] = {
        field.name: change(value)
        for field in fields(step)
        if isinstance(value := getattr(step, field.name), np.ndarray) and field.name not in keep
    }
    return replace(step, **changed)
