"""Files that somebody else may have written: their size and form are looked at before they are read."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import stat
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import isfinite, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sublearn._errors import BadInputError, first_line
from sublearn._limits import in_units, memory_limit

if TYPE_CHECKING:
    import numpy as np

MOST_JSON = 256 * 1024**2  # bytes
MOST_DEPTH = 32  # lists and objects inside each other
MOST_DIGITS = 4300  # of a whole number; reading one takes the square of them


Value = TypeVar("Value")


class Unreadable(ValueError):  # noqa: N818 - says what it is
    """Why a file cannot be used, in words that fit behind "cannot be read"."""


class Unreachable(Unreadable):
    """The system did not give the file: that says nothing of what is in it."""


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """One sentence where a file is not there, or within cannot be read as ``what``."""
    try:
        if not path.is_file():
            raise FileNotFoundError
        yield
    except FileNotFoundError:
        raise BadInputError(f"there is no file {path}.") from None
    except Unreadable as problem:
        raise BadInputError(f"{path} cannot be read as {what} ({problem}).") from None


def read_regular(path: Path, most: int, *, links: bool = True) -> bytes:
    """The bytes of a file; no device, no pipe, no more than ``most``, and without ``links`` no link.

    A file that is not there is a FileNotFoundError.
    """
    # Some systems lack some of them: where there is no link, none has to be refused.
    wanted = ("O_NONBLOCK", "O_BINARY") if links else ("O_NONBLOCK", "O_BINARY", "O_NOFOLLOW")
    flags = os.O_RDONLY
    for name in wanted:
        flags |= getattr(os, name, 0)
    try:
        handle = os.open(path, flags)
    except OSError as problem:
        if not links and problem.errno == errno.ELOOP:
            raise Unreadable("it is a link") from None
        if isinstance(problem, FileNotFoundError):
            raise
        raise Unreachable(problem.strerror or str(problem)) from None
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        os.close(handle)
        raise Unreadable("it is not a file")
    with open(handle, "rb") as file:
        if found.st_size > most:
            raise Unreadable(f"it has {in_units(found.st_size)}, and {in_units(most)} are allowed")
        try:
            return file.read(found.st_size)
        except OSError as problem:
            raise Unreachable(problem.strerror or str(problem)) from None


def read_json(path: Path, *, links: bool = True) -> Any:
    """What a JSON file holds: see :func:`parse_json`."""
    return parse_json(read_regular(path, MOST_JSON, links=links))


def load_json(path: str | Path, what: str, read: Callable[[Any], Value]) -> Value:
    """What ``read`` makes of a JSON file; whatever is wrong with the file or in it: one sentence."""
    source = Path(path)
    if not source.is_file():
        raise BadInputError(f"there is no file {source}.")
    try:
        content = read_json(source)
    except Unreadable as error:
        raise BadInputError(f"{source} is not a whole JSON file ({error}).") from None
    try:
        return read(content)
    except BadInputError as error:
        raise BadInputError(f"{source}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        words = f"no entry {error}" if isinstance(error, KeyError) else str(error)
        raise BadInputError(f"{source} is a damaged {what} ({words}).") from None


def as_whole(value: object) -> int:
    """A value of a file as a whole number of 64 bits, from 0 on, or an error for :func:`load_json`."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise ValueError(f"{value!r:.80} is no whole number of at least 0")
    return value


def as_text(value: object) -> str:
    """A value of a file as text, or an error for :func:`load_json`."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.80} is no text")
    return value


def parse_json(content: bytes) -> Any:
    """JSON as everybody reads it alike: UTF-8, no key twice, finite numbers, nothing deeper than 32 levels.

    >>> parse_json(b'{"a": [1, 2]}')
    {'a': [1, 2]}
    >>> parse_json(b'{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ...
    sublearn._reading.Unreadable: the key 'a' stands there twice
    """
    if _depth(content) > MOST_DEPTH:
        raise Unreadable(f"it is nested deeper than {MOST_DEPTH} levels")
    try:
        return json.loads(
            content.decode("utf-8"),
            object_pairs_hook=_once,
            parse_constant=_no_number,
            parse_float=_finite,
        )
    except Unreadable:
        raise
    except UnicodeDecodeError as problem:
        raise Unreadable(f"it is not text in UTF-8: byte {problem.start}") from None
    except json.JSONDecodeError as problem:
        raise Unreadable(f"it is no JSON: {problem}") from None
    except ValueError:  # of all the others only the length of numbers is left
        raise Unreadable(f"a number in it has more than {MOST_DIGITS} digits") from None


_BRACKETS = bytes(range(256)).translate(None, b'"[]{}')


def _depth(content: bytes) -> int:
    """How deep brackets stand in each other, those in texts left out; no recursion, no Python loop."""
    bare = re.sub(rb"\\.", b"", content, flags=re.DOTALL).translate(None, _BRACKETS)
    return brackets(re.sub(rb'"[^"]*"', b"", bare))


def brackets(bare: bytes) -> int:
    """How deep brackets stand in each other, in what holds no texts."""
    import numpy as np

    signs = np.frombuffer(bare, dtype=np.uint8)
    opens = (signs == ord("[")) | (signs == ord("{"))
    closes = (signs == ord("]")) | (signs == ord("}"))
    levels = np.cumsum(opens.astype(np.int64) - closes)
    return int(levels.max(initial=0))


def depth(content: object, most: int) -> bool:
    """Whether lists and tables in ``content`` stand at most ``most`` levels deep; no recursion."""
    level = [content]
    for _ in range(most + 1):
        below: list[object] = []
        for value in level:
            if isinstance(value, Mapping):
                below += value.values()
            elif isinstance(value, list):
                below += value
        if not below:
            return True
        level = below
    return False


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise Unreadable(f"the key {key[:80]!r} stands there twice")
            seen.add(key)
    return found


def _finite(digits: str) -> float:
    value = float(digits)
    if not isfinite(value):
        raise Unreadable(f"{digits[:80]} in it is beyond the range of float64")
    return value


def _no_number(word: str) -> Any:
    raise Unreadable(f"{word} is no number of JSON")


def read_npz(path: Path, *, most: int | None = None) -> dict[str, np.ndarray]:
    """The arrays of a .npz file, all in all ``most`` bytes (those of the machine, where it is not said).

    Sizes are taken from the heads of the arrays and weighed before anything is unpacked.
    """
    arrays: dict[str, np.ndarray] = {}
    content = read_regular(path, memory_limit())
    if content.startswith(b"\x93NUMPY"):
        raise Unreadable("it holds one array without a name")
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
        raise Unreadable("it is no .npz file, which is a zip of arrays") from None
    with archive:
        members = archive.infolist()
        if len({member.filename for member in members}) < len(members):
            raise Unreadable("a name stands in it twice")
        left = memory_limit() if most is None else most
        for member in members:
            name = member.filename
            if not name.endswith(".npy"):
                raise Unreadable(f"{name[:80]!r} in it is no array")
            try:
                with archive.open(member) as file:
                    arrays[name.removesuffix(".npy")] = read_array(file, left)
            except Unreadable as problem:
                raise Unreadable(f"{name[:80]!r} in it: {problem}") from None
            except Exception:  # a damaged archive fails in a dozen ways
                raise Unreadable(f"{name[:80]!r} in it is damaged") from None
            left -= arrays[name.removesuffix(".npy")].nbytes
    return arrays


def read_npy(path: Path) -> np.ndarray:
    """The array of a .npy file, its size weighed first."""
    content = read_regular(path, memory_limit())
    if content[:2] == b"PK":
        raise Unreadable("it holds several arrays")
    return read_array(io.BytesIO(content), memory_limit())


def read_array(file: Any, most: int) -> np.ndarray:
    """One array in numpy's format: no pickled objects, no more bytes than its head says and ``most``."""
    import numpy as np
    from numpy.lib import format as npy

    try:
        version = npy.read_magic(file)
        head = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy's advice to whoever wrote it
            shape, columnwise, kind = head(file)
    except Exception:  # garbage fails in a dozen ways
        raise Unreadable("it is no array in numpy's format") from None
    if kind.hasobject:
        raise Unreadable("it holds Python objects, which are never unpacked")
    count = prod(map(int, shape))
    size = count * kind.itemsize
    if any(length < 0 for length in shape) or size > most:
        raise Unreadable(
            f"its head announces shape {shape}, {in_units(max(size, 0))}; {in_units(most)} are allowed"
        )
    data = file.read(size + 1)
    if len(data) != size:
        raise Unreadable(f"its head announces {size} bytes, and there are others")
    try:
        flat = np.frombuffer(data, dtype=kind, count=count)
        return flat.reshape(shape, order="F" if columnwise else "C").copy()
    except ValueError:  # numbers of no bytes, or more axes than numpy has
        raise Unreadable(f"its head announces shape {shape} of {kind}, which is no array") from None


def read_csv(path: Path) -> np.ndarray:
    """A matrix from a .csv file: rows of numbers set apart by commas."""
    import numpy as np

    content = read_regular(path, MOST_JSON)
    if not content.strip():
        raise Unreadable("it is empty")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # numpy only warns of an empty file
            found: np.ndarray = np.loadtxt(io.BytesIO(content), delimiter=",", ndmin=2)
            return found
    except Exception as problem:  # numpy's reader fails in a dozen ways
        wanted = "rows of numbers set apart by commas, without header or index"
        raise Unreadable(f"it must hold {wanted}; {first_line(problem)}") from None
