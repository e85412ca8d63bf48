"""What the samples should give: one class each, numbers, or nothing that is said; and scores by it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sublearn._arrays import Array
from sublearn._errors import BadInputError
from sublearn.models._pursuit import wanted_change

CLASSES, NUMBERS, OWN = "accuracy", "R^2", "own"
NO_GOAL = (
    "pursuit and pivoted QR need labels that are classes, or numbers like the outputs: give them, or another "
    "method."
)
LEFT_OUT = -100  # the label that torch's cross-entropy leaves out


def as_labels(labels: Any, own: bool = False) -> Any:
    """The labels, if they are numbers in an array, a tensor or nested lists.

    With a loss or step of one's ``own`` they may be anything, one per sample, in tuples and dicts too.
    """
    if labels is None:
        return None
    if own and isinstance(labels, Mapping):
        return {name: as_labels(part, own) for name, part in labels.items()}
    if own and isinstance(labels, tuple) and any(hasattr(part, "shape") for part in labels):
        return tuple(as_labels(part, own) for part in labels)
    try:
        words = getattr(getattr(labels, "dtype", None), "kind", "f") in "OSU"
        plain = np.asarray(labels) if words or not hasattr(labels, "dtype") else None
    except ValueError:
        plain = np.asarray(None)
    if own and plain is not None and plain.dtype.kind not in "iubf" and hasattr(labels, "__len__"):
        return np.fromiter(labels, dtype=object, count=len(labels))
    if plain is not None and plain.dtype.kind not in "iubf":
        raise BadInputError(
            f"labels must be whole numbers (classes) or numbers, one row per sample, not {labels!r:.60}."
        )
    return labels if plain is None else plain


class GivenLabels:
    """Labels of the samples: classes where they are whole numbers, else numbers; OWN without any.

    ``shape`` is that of the model's outputs, samples first; ``axis`` is that of the classes in them: 1, as
    torch's cross-entropy has it, or the last. ``called`` is what messages call the labels. Where a loss or
    step of one's ``own`` reads them, labels of another form are OWN too.

    >>> GivenLabels(np.array([0, 1]), (2, 3), finite=True).score(np.eye(3)[:2], slice(None))
    1.0
    """

    def __init__(
        self,
        labels: Any,
        shape: tuple[int, ...],
        *,
        finite: bool,
        called: str = "labels",
        own: bool = False,
    ) -> None:
        self._called, self.axis = called, -1
        self.values: NDArray[Any] | None = None if labels is None else np.asarray(labels)
        self.width = int(shape[-1]) if len(shape) > 1 else 1
        if not finite:
            raise BadInputError("model gives NaN or infinite outputs on inputs.")
        self.kind = OWN
        if self.values is None:
            return
        count = len(self.values) if self.values.ndim else "a single number"
        if count != shape[0]:
            raise BadInputError(
                f"{called} must be as many as the samples, {shape[0]}, not {count}."
            )
        try:
            self.kind = self._kind(self.values, shape)
        except BadInputError:
            if not own:
                raise

    def _kind(self, labels: NDArray[Any], shape: tuple[int, ...]) -> str:
        if labels.dtype.kind not in "iubf":
            raise BadInputError(f"{self._called} must be real numbers, not {labels.dtype.name}.")
        if labels.dtype.kind == "f":
            if labels.size != int(np.prod(shape)):
                classes = (
                    ": classes must be whole numbers, not floating-point ones"
                    if labels.shape == shape[:-1] and (labels == np.round(labels)).all()
                    else ""
                )
                raise BadInputError(
                    f"{self._called} must have the shape of the outputs, {shape}, not {labels.shape}"
                    f"{classes}."
                )
            if not np.isfinite(labels).all():
                raise BadInputError(f"{self._called} must be finite, and some are NaN or infinite.")
            self._variance = float(labels.astype(np.float64).var()) or 1.0
            return NUMBERS
        if len(shape) < 2:
            raise BadInputError(
                f"{self._called} are whole numbers, so model must give one output per class, not outputs of "
                f"shape {shape}."
            )
        ends = labels.shape == shape[:-1]
        if len(shape) > 2 and labels.shape == (shape[0], *shape[2:]):
            if ends:
                raise BadInputError(
                    f"{self._called} of shape {labels.shape} leave open whether the classes are dimension 1 "
                    f"of the outputs, of shape {shape}, as in torch's cross-entropy, or the last: give loss=."
                )
            self.axis, shape = 1, (*labels.shape, shape[1])
        elif not ends:
            several = labels.shape == shape
            raise BadInputError(
                f"{self._called} must have shape {shape[:-1]}, one class per output, not {labels.shape}"
                f"{': several classes of each sample are for a loss of your own' if several else ''}."
            )
        self.width = shape[-1]
        used = labels[labels != LEFT_OUT]
        if not used.size or used.min() < 0 or used.max() >= shape[-1]:
            given = f"{int(used.min())} to {int(used.max())}" if used.size else "none at all"
            raise BadInputError(
                f"{self._called} must be classes from 0 to {shape[-1] - 1}, not {given}."
            )
        return CLASSES

    @property
    def classes(self) -> NDArray[Any] | None:
        """The class of every sample, where it has one."""
        one_each = self.kind == CLASSES and self.values is not None and self.values.ndim == 1
        return self.values if one_each else None

    def score(self, outputs: NDArray[Any], ids: Any) -> float:
        """Of outputs on the samples ``ids``: the accuracy, or R^2; higher is better."""
        assert self.values is not None
        labels = self.values[ids]
        if not np.isfinite(outputs).all():
            return 0.0 if self.kind == CLASSES else float("-inf")
        if self.kind == CLASSES:
            used = labels != LEFT_OUT
            return float((outputs.argmax(-1)[used] == labels[used]).mean())
        error = np.square(outputs.astype(np.float64) - labels.reshape(outputs.shape)).mean()
        return 1.0 - float(error) / self._variance

    def target(self, outputs: Array, ids: Any) -> Array:
        """The change of the outputs (samples, d) that is wanted on the samples ``ids``."""
        assert self.values is not None
        if self.kind == CLASSES:
            labels = self.values[ids].reshape(-1)
            flat = outputs.reshape(len(labels), -1)
            return wanted_change(flat, labels=labels).reshape(outputs.shape)
        return wanted_change(outputs, targets=self.values[ids].reshape(outputs.shape))
