"""Tables as CSV: written one way only, so that the same table is the same bytes."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable
from typing import Any

from sublearn._reading import Unreadable
from sublearn.runs._task import Json, Row, Table

_WHOLE = re.compile(r"[+-]?\d+")
_WORDS = {"true": True, "false": False}


def table_bytes(table: Iterable[Row]) -> bytes:
    """The table as a file holds it: a line of names, then one line per row.

    Columns stand in the order in which they first occur; numbers as Python prints them, so that they
    read back as the same numbers; truth as true and false; None as nothing; what is no text in UTF-8 is
    written out.
    """
    rows = list(table)
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_cell(row.get(name)) for name in names] for row in rows)
    return out.getvalue().encode(errors="backslashreplace")


def parse_table(content: bytes) -> Table:
    """The table that a file holds: a column whose cells are all whole numbers, numbers or truth is one."""
    try:
        text = io.StringIO(content.decode("utf-8"), newline="")
        names, *lines = csv.reader(text, strict=True)
    except UnicodeDecodeError as problem:
        raise Unreadable(f"it is not text in UTF-8: byte {problem.start}") from None
    except (ValueError, csv.Error) as problem:  # no line at all, or one that csv cannot read
        raise Unreadable(f"it is no table ({problem})") from None
    if len(set(names)) < len(names) or any(len(line) != len(names) for line in lines if names):
        raise Unreadable("its lines are not as long as its head, or a name stands there twice")
    if not content.endswith(b"\n"):
        raise Unreadable("its last line has no end")
    columns = [_column([line[i] for line in lines]) for i in range(len(names))]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def plain(value: Any) -> Json:
    """A number of numpy's as one of Python's; everything else as it is."""
    item: Json = value.item() if type(value).__module__ == "numpy" else value
    return item


def _cell(value: Any) -> str:
    value = plain(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def _column(cells: list[str]) -> list[Json]:
    filled = [cell for cell in cells if cell]
    for reader in (_whole, float, _WORDS.__getitem__):
        read: Callable[[str], Json] = reader
        try:
            known = {cell: read(cell) for cell in filled}
        except (ValueError, KeyError):
            continue
        return [known[cell] if cell else None for cell in cells]
    return [cell or None for cell in cells]


def _whole(cell: str) -> int:
    if not _WHOLE.fullmatch(cell):
        raise ValueError(cell)
    return int(cell)  # a ValueError too where it has thousands of digits
