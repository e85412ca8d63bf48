"""IDX files, the format in which MNIST is published (LeCun, Cortes and Burges)."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sublearn._errors import BadInputError

# The third byte of a file says what its numbers are.
_KINDS = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
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
    content = path.read_bytes()
    known = hashlib.sha256(content).hexdigest() in PUBLISHED
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as problem:
            raise BadInputError(f"{path} is a damaged gzip file ({problem}).") from None
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _KINDS:
        raise BadInputError(f"{path} is no IDX file: it must begin with two zero bytes and a kind.")
    kind, axes = np.dtype(_KINDS[content[2]]), content[3]
    start = 4 + 4 * axes
    if len(content) < start:
        raise BadInputError(f"{path} is damaged: it ends within its head.")
    shape = tuple(np.frombuffer(content[4:start], dtype=">u4").tolist())
    wanted = start + kind.itemsize * prod(shape)
    if len(content) != wanted:
        raise BadInputError(
            f"{path} is damaged: its head announces {wanted} bytes, and there are {len(content)}."
        )
    values = np.frombuffer(content, dtype=kind, offset=start).reshape(shape)
    return values.astype(kind.newbyteorder("=")), known


def find(folder: Path, stem: str) -> Path | None:
    """The file of that name in the folder, in any of the spellings in use."""
    for name in (stem, stem.replace("-idx", ".idx")):
        for ending in ("", ".gz"):
            path = folder / f"{name}{ending}"
            if path.is_file():
                return path
    return None
