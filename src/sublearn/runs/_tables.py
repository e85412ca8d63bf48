"""Tables: what is asked of their rows, and how they are read back from CSV.

:mod:`sublearn._tables` writes them.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from typing import Any

from sublearn._reading import Unreadable
from sublearn._tables import Row
from sublearn.runs._task import Json

_WHOLE = re.compile(r"[+-]?\d+")
_WORDS = {"true": True, "false": False}


class Table(list[Row]):
    """The rows of a table, with what is asked of them: some rows, one column, rows that go together.

    >>> table = Table([{"n": 8, "k": 4, "share": 0.9}, {"n": 8, "k": 5, "share": 1.0}])
    >>> table.where(n=8, k=5).column("share"), table.distinct("n")
    ([1.0], [8])
    >>> [(common, len(rows)) for common, rows in table.apart("n")]
    [({'n': 8}, 2)]
    """

    def where(self, holds: Callable[[Row], Any] | None = None, /, **wanted: Json) -> Table:
        """The rows that hold these values, and of which ``holds`` is true, in their order."""
        rows = (row for row in self if all(row.get(key) == v for key, v in wanted.items()))
        return Table(rows if holds is None else filter(holds, rows))

    def column(self, name: str) -> list[Any]:
        """One column."""
        return [row[name] for row in self]

    def distinct(self, name: str) -> list[Any]:
        """The different values of one column, in the order in which they first come."""
        return list(dict.fromkeys(self.column(name)))

    def apart(self, *names: str) -> list[tuple[Row, Table]]:
        """Rows that agree in these columns, together: what they agree in, and the rows."""
        groups = dict.fromkeys(tuple(row[name] for name in names) for row in self)
        common = [dict(zip(names, group, strict=True)) for group in groups]
        return [(one, self.where(**one)) for one in common]


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
    return Table(dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))


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
