"""IDX files, the format in which MNIST is published (LeCun, Cortes and Burges)."""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sublearn._errors import BadInputError
from sublearn._limits import check_memory, memory_limit
from sublearn._reading import Unreadable, read_regular

# The third byte of a file says what its numbers are.
_KINDS = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_MOST_AXES = 8
# (images, labels) as they are published; some mirrors write a dot for the second dash.
TRAIN = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
TEST = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
# SHA-256 of the compressed files as MNIST's authors published them.
PUBLISHED = {
    "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}


def read_idx(path: Path) -> tuple[NDArray[Any], bool]:
    """The array in an IDX file, compressed or not, and whether its checksum is a published one.

    An IDX file is two zero bytes, a byte for the kind of number, a byte for the number of axes, the
    length of each axis as a big-endian 32-bit integer, and the numbers, last axis fastest.
    """
    try:
        packed = read_regular(path, memory_limit())
    except (Unreadable, FileNotFoundError) as problem:
        raise BadInputError(f"{path} cannot be read ({problem}).") from None
    known = hashlib.sha256(packed).hexdigest() in PUBLISHED
    is_packed = packed[:2] == b"\x1f\x8b"
    # Unpacked as far as the head says, and no further: of a packed file nobody knows the end.
    source: Any = gzip.GzipFile(fileobj=io.BytesIO(packed)) if is_packed else io.BytesIO(packed)
    # Deflate packs at most 1032 to 1 (zlib's technical notes).
    most = 1032 * len(packed) if is_packed else len(packed)
    with source:
        try:
            return _read(path, source, most), known
        except (OSError, EOFError, zlib.error) as problem:
            raise BadInputError(f"{path} is a damaged gzip file ({problem}).") from None


def _read(path: Path, source: Any, most: int) -> NDArray[Any]:
    """The array, from a stream that can give at most so many bytes."""
    head = source.read(4)
    if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in _KINDS:
        raise BadInputError(f"{path} is no IDX file: it must begin with two zero bytes and a kind.")
    kind, axes = np.dtype(_KINDS[head[2]]), head[3]
    if not 0 < axes <= _MOST_AXES:
        raise BadInputError(f"{path} must have 1 to {_MOST_AXES} axes, not {axes}.")
    lengths = source.read(4 * axes)
    if len(lengths) < 4 * axes:
        raise BadInputError(f"{path} is damaged: it ends within its head.")
    shape = tuple(np.frombuffer(lengths, dtype=">u4").tolist())
    size = kind.itemsize * prod(shape)
    if not size:
        raise BadInputError(f"{path} holds no numbers: its head announces the shape {shape}.")
    check_memory(f"{path}, whose head announces the shape {shape},", 3 * size, "a smaller file")
    content = source.read(size + 1) if size <= most else b""
    if len(content) != size:
        amount = "fewer" if len(content) < size else "more"
        raise BadInputError(
            f"{path} is damaged: its head announces {size} bytes of numbers, and {amount} follow."
        )
    values = np.frombuffer(content, dtype=kind).reshape(shape)
    return values.astype(kind.newbyteorder("="))


def find(folder: Path, stem: str) -> Path | None:
    """The file of that name in the folder, in any of the spellings in use."""
    for name in (stem, stem.replace("-idx", ".idx")):
        for ending in ("", ".gz"):
            path = folder / f"{name}{ending}"
            if path.is_file():
                return path
    return None
