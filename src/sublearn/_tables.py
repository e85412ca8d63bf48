"""Tables as CSV, written one way only: the same table, the same bytes. And values as people read them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = dict[str, Any]
"""Plain values by column; of no declared type, so that one can reckon with them."""


def table_bytes(table: Iterable[Mapping[str, Any]]) -> bytes:
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


def aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    """Cells as lines of text, two spaces apart: the first column to the left, the others to the right.

    >>> aligned([("name", "count"), ("a", "12"), ("long one", "3")])
    ['name      count', 'a            12', 'long one      3']
    """
    lines = list(rows)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    out = []
    for name, *cells in lines:
        right = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        out.append("  ".join([name.ljust(widths[0]), *right]).rstrip())
    return out


def plain(value: Any) -> Any:
    """A number of numpy's as one of Python's; everything else as it is."""
    return value.item() if type(value).__module__ == "numpy" else value


def _cell(value: Any) -> str:
    value = plain(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def shown(value: Any) -> str:
    """A value as people read it: four digits, yes and no, nothing for None.

    >>> shown(0.98333333), shown(1.2e-13), shown(True), shown(None), shown(3), shown(1.0)
    ('0.9833', '1.2e-13', 'yes', '', '3', '1')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
