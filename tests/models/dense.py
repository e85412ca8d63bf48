"""Derivatives from a whole Jacobian, to test against."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sublearn._arrays import Array, Mask


class DenseDerivatives:
    """What pursuit and audits ask of a model, from a whole J in float64."""

    def __init__(self, jacobian: Any, shapes: Mapping[str, tuple[int, ...]], outputs: Any) -> None:
        self.jacobian: Array = np.asarray(jacobian, dtype=np.float64)
        self.shapes = dict(shapes)
        self.outputs: Array = np.asarray(outputs, dtype=np.float64)
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes.values()])
        self._slices = {
            name: slice(int(end) - int(np.prod(self.shapes[name])), int(end))
            for name, end in zip(self.shapes, ends, strict=True)
        }
        assert self.jacobian.shape == (self.outputs.size, int(ends[-1]))

    def _split(self, values: Array) -> dict[str, Array]:
        return {name: values[self._slices[name]].reshape(s) for name, s in self.shapes.items()}

    def scores(self, cotangents: Array) -> dict[str, Array]:
        return self._split(np.asarray(cotangents).reshape(-1) @ self.jacobian)

    def squared_norms(self) -> dict[str, Array]:
        return self._split(np.einsum("ij,ij->j", self.jacobian, self.jacobian))

    def gather(self, masks: Mapping[str, Mask]) -> Array:
        columns = [
            self._slices[name].start + np.flatnonzero(masks[name])
            for name in self.shapes
            if name in masks
        ]
        return self.jacobian[:, np.concatenate(columns)]
