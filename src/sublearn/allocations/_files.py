"""Allocations on disk: JSON (entries), NPZ (masks) and CSV (one mask)."""

from __future__ import annotations

import io
import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from sublearn._errors import BadInputError, one_of
from sublearn.allocations._allocation import Allocation
from sublearn.networks import Network

SUFFIXES = (".json", ".csv", ".npz")


def save(allocation: Allocation, path: Path) -> None:
    """Write beside and rename, so that a reader never sees half a file."""
    one_of("the file's ending", path.suffix, SUFFIXES)
    if path.suffix == ".json":
        content = {"format": "sublearn allocation 1", "entries": dict(allocation.entries)}
        data = (json.dumps(content, indent=1) + "\n").encode()
    elif path.suffix == ".npz":
        buffer = io.BytesIO()
        masks: dict[str, Any] = {name: allocation.mask(name) for name in allocation.names}
        np.savez_compressed(buffer, **masks)
        data = buffer.getvalue()
    else:
        if len(allocation.names) != 1:
            raise BadInputError(
                f"a .csv holds the mask of one weight, but this allocation has "
                f"{len(allocation.names)}: use .json or .npz."
            )
        text = io.StringIO()
        np.savetxt(text, allocation.mask(allocation.names[0]).astype(int), fmt="%d", delimiter=",")
        data = text.getvalue().encode()
    if not path.parent.is_dir():
        raise BadInputError(f"there is no folder {path.parent} to write {path.name} in.")
    # Named by the process, so that two of them never write the same file.
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        beside.write_bytes(data)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def load(path: Path, network: Network, name: str | None) -> Allocation:
    """See :meth:`Allocation.load`. ``name`` says which weight a .csv mask belongs to."""
    one_of("the file's ending", path.suffix, SUFFIXES)
    if not path.is_file():
        raise BadInputError(f"there is no file {path}.")
    if path.suffix == ".csv" and name is None and len(network.shapes) > 1:
        raise BadInputError(
            f"a .csv mask needs the name of its weight, one of {', '.join(network.shapes)}."
        )
    try:
        content = _READERS[path.suffix](path)
    except Exception as error:  # a damaged file fails in a dozen ways inside the readers
        why = str(error).partition("\n")[0].rstrip(".")
        raise BadInputError(f"{path} cannot be read as an allocation ({why}).") from None
    try:
        if path.suffix == ".csv":
            return Allocation.from_masks(network, {name or next(iter(network.shapes)): content})
        if "entries" in content:
            return Allocation.from_entries(network, content["entries"])
        return Allocation.from_masks(network, content.get("masks", content))
    except BadInputError as error:
        raise BadInputError(f"{path}: {error}") from None


def _read_json(path: Path) -> Any:
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise ValueError("it holds no JSON object")
    return content


def _read_npz(path: Path) -> Any:
    # From memory: of a damaged archive on disk numpy leaves the file open.
    found = np.load(io.BytesIO(path.read_bytes()), allow_pickle=False)
    if isinstance(found, np.ndarray):
        raise ValueError("it holds one array without a name")
    with found:
        return dict(found)


def _read_csv(path: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # numpy only warns of an empty file
        return np.loadtxt(path, delimiter=",", ndmin=2)


_READERS = {".json": _read_json, ".npz": _read_npz, ".csv": _read_csv}
