"""Allocations on disk: JSON (entries), NPZ (masks) and CSV (one mask)."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from sublearn._errors import BadInputError, one_of
from sublearn._files import write_whole
from sublearn._reading import Unreadable, read_json, read_npz, read_numbers
from sublearn.allocations._allocation import Allocation
from sublearn.networks import Network

SUFFIXES = (".json", ".csv", ".npz")
FORMAT = "sublearn allocation 1"
_ROOM = 2**26  # bytes that masks of another network may have, to be refused by their shapes


def save(allocation: Allocation, path: Path) -> None:
    """Write beside and rename, so that a reader never sees half a file."""
    one_of("the file's ending", path.suffix, SUFFIXES)
    if path.suffix == ".json":
        content = {"format": FORMAT, "entries": dict(allocation.entries)}
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
    write_whole(path, data)


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
        content = _content(path, network)
    except Unreadable as problem:
        raise BadInputError(f"{path} cannot be read as an allocation ({problem}).") from None
    try:
        if path.suffix == ".csv":
            return Allocation.from_masks(network, {name or next(iter(network.shapes)): content})
        if path.suffix == ".npz":
            return Allocation.from_masks(network, content)
        return _from_json(network, content)
    except BadInputError as error:
        raise BadInputError(f"{path}: {error}") from None


def _from_json(network: Network, content: dict[str, Any]) -> Allocation:
    """Entries, or masks by weight name, with or without the line that says the format."""
    if content.get("format", FORMAT) != FORMAT:
        raise BadInputError(
            f"format {content['format']!r} is not known; this version reads {FORMAT!r}."
        )
    rest = {name: value for name, value in content.items() if name != "format"}
    if "entries" in rest or "masks" in rest:
        (kind, *others) = rest
        if others:
            raise BadInputError(
                f"beside {kind} there must be nothing but the format, not {others[0]!r}."
            )
        make = Allocation.from_entries if kind == "entries" else Allocation.from_masks
        return make(network, rest[kind])
    return Allocation.from_masks(network, rest)


def _content(path: Path, network: Network) -> Any:
    """What the file holds, by its ending."""
    if path.suffix == ".csv":
        return read_numbers(path)
    if path.suffix == ".npz":
        # Whatever its heads announce: masks of this network are no larger, nor far from it.
        return read_npz(path, most=max(_ROOM, 32 * network.size))
    content = read_json(path)
    if not isinstance(content, dict):
        raise Unreadable("it holds no JSON object")
    return content
