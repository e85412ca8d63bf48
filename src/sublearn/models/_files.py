"""Files of choices and deltas: a .npz of arrays with one JSON text, ``about``, beside them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sublearn._errors import BadInputError, one_of
from sublearn._files import write_whole
from sublearn._reading import Unreadable, parse_json, read_npz


def file_to_write(path: str | Path, ending: str) -> Path:
    """The path of a file that can be written: of this ending, in a folder that is there."""
    file = Path(path)
    one_of("the file's ending", file.suffix, (ending,))
    if not file.parent.is_dir():
        raise BadInputError(f"there is no folder {file.parent} to write {file.name} in.")
    return file


def write_arrays(path: str | Path, about: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write arrays and what is said about them to a .npz file."""
    file = file_to_write(path, ".npz")
    packed = io.BytesIO()
    text = np.array(json.dumps(about, allow_nan=False))
    np.savez_compressed(packed, about=text, **arrays)
    write_whole(file, packed.getvalue())


@contextmanager
def reading_arrays(path: str | Path, form: str, what: str) -> Iterator[tuple[Any, Any]]:
    """What :func:`write_arrays` wrote, as (about, arrays), if its format is ``form``.

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
        yield about, arrays
    except BadInputError:
        raise
    except Exception as problem:  # zip, JSON, missing keys, indices out of range: one answer
        why = problem if isinstance(problem, Unreadable) else type(problem).__name__
        raise BadInputError(f"{file} is not {what} that this version can read ({why}).") from None
