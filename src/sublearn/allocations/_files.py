"""Allocations on disk: JSON (entries and shapes), NPZ (masks), CSV and NPY (one mask)."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sublearn._errors import BadInputError, one_of
from sublearn._files import write_whole
from sublearn._reading import Unreadable, as_whole, read_csv, read_json, read_npy, read_npz, reading
from sublearn.allocations._allocation import Allocation
from sublearn.networks import Network

SUFFIXES = (".json", ".csv", ".npz", ".npy")
FORMAT = "sublearn allocation 2"
WITHOUT_SHAPES = "sublearn allocation 1"
_ONE_MASK = (".csv", ".npy")
_ROOM = 2**26  # bytes that masks of another network may have, to be refused by their shapes


def save(allocation: Allocation, path: Path) -> None:
    """Write beside and rename, so that a reader never sees half a file."""
    one_of("the file's ending", path.suffix, SUFFIXES)
    if path.suffix == ".json":
        shapes = {name: list(shape) for name, shape in allocation.shapes.items()}
        content = {"format": FORMAT, "shapes": shapes, "entries": dict(allocation.entries)}
        data = (json.dumps(content, indent=1) + "\n").encode()
    elif path.suffix == ".npz":
        buffer = io.BytesIO()
        masks: dict[str, Any] = {name: allocation.mask(name) for name in allocation.shapes}
        np.savez_compressed(buffer, **masks)
        data = buffer.getvalue()
    else:
        if len(allocation.names) != 1:
            raise BadInputError(
                f"a {path.suffix} holds the mask of one weight, but this allocation has "
                f"{len(allocation.names)}: use .json or .npz."
            )
        mask = allocation.mask(allocation.names[0])
        if path.suffix == ".npy":
            buffer = io.BytesIO()
            np.save(buffer, mask)
            data = buffer.getvalue()
        else:
            text = io.StringIO()
            np.savetxt(text, mask.astype(int), fmt="%d", delimiter=",")
            data = text.getvalue().encode()
    if not path.parent.is_dir():
        raise BadInputError(f"there is no folder {path.parent} to write {path.name} in.")
    write_whole(path, data)


def load(path: Path, network: Network, name: str | None) -> Allocation:
    """See :meth:`Allocation.load`. ``name`` says which weight a .csv or .npy mask belongs to."""
    one_of("the file's ending", path.suffix, SUFFIXES)
    with reading(path, "an allocation"):
        if path.suffix in _ONE_MASK and name is None and len(network.shapes) > 1:
            known = ", ".join(network.shapes)
            raise BadInputError(
                f"a {path.suffix} mask needs the name of its weight, one of {known}."
            )
        content = _content(path, network)
    try:
        if path.suffix in _ONE_MASK:
            return Allocation.from_masks(network, {name or next(iter(network.shapes)): content})
        if path.suffix == ".npz":
            return Allocation.from_masks(network, content)
        return _from_json(network, content)
    except BadInputError as error:
        raise BadInputError(f"{path}: {error}") from None


def _from_json(network: Network, content: dict[str, Any]) -> Allocation:
    """Entries, or masks by weight name, with or without the line that says the format."""
    written = content.get("format", WITHOUT_SHAPES)
    if written not in (FORMAT, WITHOUT_SHAPES):
        raise BadInputError(f"format {written!r} is not known; this version reads {FORMAT!r}.")
    rest = {name: value for name, value in content.items() if name != "format"}
    if written == FORMAT:
        shapes = {name: list(shape) for name, shape in network.shapes.items()}
        if rest.pop("shapes", None) != shapes:
            raise BadInputError("it is the allocation of another network: its shapes are others.")
    if "entries" in rest or "masks" in rest:
        (kind, *others) = rest
        if others:
            raise BadInputError(
                f"beside {kind} there must be nothing but the format, not {others[0]!r}."
            )
        make = Allocation.from_entries if kind == "entries" else Allocation.from_masks
        return make(network, rest[kind])
    return Allocation.from_masks(network, rest)


def flat_entries(allocation: Allocation) -> dict[str, list[int]]:
    """The learnable entries by name, as places in the flat weight: how certificates write them."""
    return {name: allocation.flat(name).tolist() for name in allocation.names}


def from_flat_entries(network: Network, content: object) -> Allocation:
    """The allocation that :func:`flat_entries` describes, from a file that anybody may have written."""
    if not isinstance(content, Mapping):
        raise ValueError("the learnable weights must be given by name")
    entries = {
        name: [divmod(as_whole(place), network.shape(name)[1]) for place in places]
        for name, places in content.items()
    }
    return Allocation.from_entries(network, entries)


def _content(path: Path, network: Network) -> Any:
    """What the file holds, by its ending."""
    if path.suffix == ".csv":
        numbers = read_csv(path)
        return numbers.astype(np.int64) if np.isin(numbers, (0, 1)).all() else numbers
    if path.suffix == ".npy":
        return read_npy(path)
    if path.suffix == ".npz":
        # Whatever its heads announce: masks of this network are no larger, nor far from it.
        return read_npz(path, most=max(_ROOM, 32 * network.cells))
    content = read_json(path)
    if not isinstance(content, dict):
        raise Unreadable("it holds no JSON object")
    return content
