"""The kinds of arrays that the package speaks of, each named once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sublearn._errors import BadInputError

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]
Complex = NDArray[np.complex128]
Floats = NDArray[Any]  # float32 or float64, the same throughout a computation

PRECISIONS = {"double": np.float64, "single": np.float32}  # in which a person may compute

UNIT = 2.0**-53  # of a number, the most that rounding it to float64 changes


def real_numbers(name: str, value: ArrayLike) -> Array:
    """A float64 array of its own, or a sentence that says why these cannot be meant as real numbers.

    >>> real_numbers("inputs", [[1, 2]])
    array([[1., 2.]])
    >>> real_numbers("inputs", [[1, 2j]])
    Traceback (most recent call last):
        ...
    sublearn._errors.BadInputError: inputs must hold real numbers, not complex ones.
    """
    try:
        array = np.asarray(value)
    except ValueError:
        raise BadInputError(f"{name} must be an array with rows of equal length.") from None
    check_real(name, array)
    return np.array(array, dtype=np.float64, order="C")


def check_real(name: str, array: NDArray[Any]) -> None:
    """Refuse an array of anything but real numbers."""
    kind = array.dtype.kind
    if kind not in "fiu":
        what = {"c": "complex ones", "b": "booleans", "U": "text", "S": "text"}
        raise BadInputError(
            f"{name} must hold real numbers, not {what.get(kind, f'{array.dtype}s')}."
        )


def finite_numbers(name: str, value: ArrayLike) -> Array:
    """The same of real numbers all of which are finite, or an error that says where one is not.

    >>> finite_numbers("inputs", np.array([[1.0, np.nan]]))
    Traceback (most recent call last):
        ...
    sublearn._errors.BadInputError: inputs must be finite, not nan at (0, 1).
    """
    array = real_numbers(name, value)
    if not np.isfinite(array).all():
        place = tuple(int(v) for v in np.argwhere(~np.isfinite(array))[0])
        raise BadInputError(f"{name} must be finite, not {array[place]} at {place}.")
    return array


def distinct(values: Indices) -> Indices:
    """The numbers in order, each once.

    As ``np.unique``, which hashes them and takes seconds over two million; sorted runs are merged at once.

    >>> distinct(np.array([1, 5, 9, 1, 2]))
    array([1, 2, 5, 9])
    """
    ordered = np.sort(values, kind="stable").astype(np.int64, copy=False)
    return ordered[np.insert(ordered[1:] != ordered[:-1], 0, True)] if ordered.size else ordered


def zeros(*shapes: int | tuple[int, ...], dtype: Any = np.float64) -> list[NDArray[Any]]:
    """Arrays of zeros, one of each shape: room for loops that make none.

    >>> [part.shape for part in zeros((2, 3), 4)]
    [(2, 3), (4,)]
    """
    return [np.zeros(shape, dtype) for shape in shapes]


def unpacked(bits: bytes, shape: tuple[int, int]) -> Mask:
    """The mask of which ``np.packbits`` made these bytes."""
    flat = np.unpackbits(np.frombuffer(bits, np.uint8), count=shape[0] * shape[1])
    return flat.astype(bool).reshape(shape)
