"""Tables that can be read, sorted and copied."""

from __future__ import annotations

from collections.abc import Mapping

from sublearn._tables import shown
from sublearn.reports._html import around, tag
from sublearn.runs import Json, Table


def table(rows: Table, headings: Mapping[str, str], name: str) -> str:
    """The table with its headings; columns that never change are said once, above it."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    same = [c for c in columns if len(rows) > 1 and len({row.get(c) for row in rows}) == 1]
    same = [c for c in same if len(same) < len(columns)]
    constant = ""
    stated = [c for c in same if rows[0].get(c) is not None]
    if stated:
        each = "; ".join(f"{headings.get(c, c)}: {shown(rows[0].get(c))}" for c in stated)
        constant = tag("p", f"The same in every row: {each}.", class_="constant")
    kept = [c for c in columns if c not in same]
    head = "".join(_heading(c, headings.get(c, c), rows) for c in kept)
    body = "".join(around("tr", "".join(_cell(row.get(c)) for c in kept)) + "\n" for row in rows)
    inside = around("thead", around("tr", head)) + "\n" + around("tbody", "\n" + body)
    button = (
        '<button type="button" class="copy" data-copy="table">copy the table</button> '
        '<span class="hint">a click on a heading sorts</span>'
    )
    scroll = around(
        "div",
        around("table", inside),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label=f"Table of {name}",
    )
    return constant + around("p", button, class_="tools") + scroll


def _heading(column: str, words: str, rows: Table) -> str:
    button = tag("button", words, type="button")
    # Above numbers, which end at the right, the heading does too.
    kind = {"class_": "number"} if any(_is_number(row.get(column)) for row in rows) else {}
    return around("th", button, scope="col", data_column=column, **kind)


def _is_number(value: Json) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _cell(value: Json) -> str:
    text = shown(value)
    # The full value travels with the cell: sorting and copying use it.
    exact = {} if value is None or str(value) == text else {"data_v": repr(value)}
    return tag("td", text, **({"class_": "number"} if _is_number(value) else {}), **exact)
