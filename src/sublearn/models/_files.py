"""Files of choices and deltas: a .npz of arrays with one JSON text, ``about``, beside them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sublearn._arrays import Mask
from sublearn._errors import BadInputError, one_of
from sublearn._files import write_whole
from sublearn._reading import Unreadable, parse_json, read_npz

DELTA_FORMAT = "sublearn delta 1"


def file_to_write(path: str | Path, ending: str) -> Path:
    """The path of a file that can be written: of this ending, in a folder that is there."""
    file = Path(path)
    one_of("the file's ending", file.suffix, (ending,))
    if not file.parent.is_dir():
        raise BadInputError(f"there is no folder {file.parent} to write {file.name} in.")
    return file


def write_entries(
    path: str | Path,
    form: str,
    masks: Mapping[str, Mask],
    about: Mapping[str, Any] | None = None,
    values: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Write a .npz: masks as flat indices by name, what is said about them, values of the entries."""
    file = file_to_write(path, ".npz")
    shapes = [list(mask.shape) for mask in masks.values()]
    said = {"format": form, **(about or {}), "names": list(masks), "shapes": shapes}
    arrays: dict[str, Any] = {}
    for number, (name, mask) in enumerate(masks.items()):
        parts = {"entries": np.flatnonzero(mask), **(values or {}).get(name, {})}
        arrays |= {f"{what}_{number}": array for what, array in parts.items()}
    packed = io.BytesIO()
    np.savez_compressed(packed, about=np.array(json.dumps(said, allow_nan=False)), **arrays)
    write_whole(file, packed.getvalue())


@contextmanager
def reading_entries(
    path: str | Path, form: str, what: str, values: tuple[str, ...] = ()
) -> Iterator[tuple[Any, dict[str, dict[str, Any]]]]:
    """What :func:`write_entries` wrote, if its format is ``form``: about; by name, shape and arrays.

    Whatever is wrong with the file, the arrays or what is made of them within: one sentence.
    """
    file = Path(path)
    if not file.is_file():
        raise BadInputError(f"there is no file {file}.")
    try:
        arrays = read_npz(file)
        about = parse_json(str(arrays["about"][()]).encode())
        if about["format"] != form:
            raise Unreadable(f"its format is {about['format']!r}, not {form!r}")
        places = zip(about["names"], about["shapes"], strict=True)
        yield (
            about,
            {
                name: {
                    "shape": tuple(shape),
                    **{array: arrays[f"{array}_{number}"] for array in ("entries", *values)},
                }
                for number, (name, shape) in enumerate(places)
            },
        )
    except BadInputError:
        raise
    except Exception as problem:  # zip, JSON, missing keys, indices out of range: one answer
        why = problem if isinstance(problem, Unreadable) else type(problem).__name__
        raise BadInputError(f"{file} is not {what} that this version can read ({why}).") from None


def read_delta(path: str | Path) -> dict[str, dict[str, Any]]:
    """Names, shapes, places, values and base of a delta that was saved."""
    with reading_entries(path, DELTA_FORMAT, "a delta", ("delta", "base")) as (_, stored):
        return stored


def check_base(path: str | Path, name: str, base: NDArray[Any], saved: Mapping[str, Any]) -> None:
    """Refuse a delta for a parameter whose entries are not those that it was made for."""
    if not np.array_equal(base.astype(saved["base"].dtype), saved["base"]):
        raise BadInputError(
            f"{path} was made for other base weights: {name} differs where it would be changed."
        )
