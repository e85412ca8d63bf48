"""Allocations on disk: JSON (entries), NPZ (masks) and CSV (one mask)."""

from __future__ import annotations

import io
import json
import os
import tempfile
import zipfile
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
        np.savez_compressed(
            buffer,
            allow_pickle=False,
            **{n: allocation.mask(n) for n in allocation.names},
        )
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
    handle, temporary = tempfile.mkstemp(dir=path.parent or ".", prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def load(path: Path, network: Network, name: str | None) -> Allocation:
    """See :meth:`Allocation.load`. ``name`` says which weight a .csv mask belongs to."""
    one_of("the file's ending", path.suffix, SUFFIXES)
    if not path.is_file():
        raise BadInputError(f"there is no file {path}.")
    try:
        if path.suffix == ".json":
            return _from_json(path, network)
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as masks:
                return Allocation.from_masks(network, dict(masks))
        if name is None:
            if len(network.shapes) > 1:
                raise BadInputError(
                    f"a .csv mask needs the name of its weight, one of {', '.join(network.shapes)}."
                )
            name = next(iter(network.shapes))
        mask = np.loadtxt(path, delimiter=",", ndmin=2)
        return Allocation.from_masks(network, {name: mask})
    except BadInputError as error:
        raise BadInputError(f"{path}: {error}") from None
    except (OSError, ValueError, zipfile.BadZipFile, KeyError, TypeError) as error:
        raise BadInputError(f"{path} cannot be read as an allocation ({error}).") from None


def _from_json(path: Path, network: Network) -> Allocation:
    content: Any = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise ValueError("the file holds no JSON object")
    if "entries" in content:
        entries = content["entries"]
        if not isinstance(entries, dict):
            raise ValueError('"entries" must map weight names to lists of [row, column]')
        return Allocation.from_entries(network, entries)
    masks = content.get("masks", content)
    return Allocation.from_masks(network, masks)
