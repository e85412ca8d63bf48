"""Tables as CSV: exact numbers, one way of writing, readable by anything."""

from __future__ import annotations

import csv
import io
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sublearn._tables import table_bytes
from sublearn.runs._tables import parse_table

WORDS = st.text(
    st.characters(codec="utf-8", exclude_characters="\r\x00"), min_size=1, max_size=8
).filter(lambda word: word.lower() not in ("true", "false") and not _number(word))


def _number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _same(a: object, b: object) -> bool:
    if isinstance(a, float) and math.isnan(a):
        return isinstance(b, float) and math.isnan(b)
    return type(a) is type(b) and a == b


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "n": st.integers(),
                "x": st.floats() | st.none(),
                "ok": st.booleans() | st.none(),
                "word": WORDS | st.none(),
            }
        ),
        min_size=1,
    )
)
def test_what_is_written_is_read(rows: list) -> None:
    back = parse_table(table_bytes(rows))
    assert [list(row) for row in back] == [list(rows[0])] * len(rows)
    for row, read in zip(rows, back, strict=True):
        assert all(_same(row[name], read[name]) for name in row), (row, read)


def test_the_text() -> None:
    table = [
        {"k": 4, "share": 0.1, "done": True, "word": 'a, "b"'},
        {"k": np.int64(5), "share": np.float64(1.0), "done": False, "more": None},
    ]
    text = table_bytes(table).decode()
    assert text == 'k,share,done,word,more\n4,0.1,true,"a, ""b""",\n5,1.0,false,,\n'
    read = csv.DictReader(io.StringIO(text, newline=""))
    assert [row["word"] for row in read] == ['a, "b"', ""]


def test_columns_keep_one_type() -> None:
    first, second = parse_table(b"a,b,c,d\n1,1,nan,true\n2.5,,inf,2\n")
    assert [type(v) for v in first.values()] == [float, int, float, str]
    assert second["b"] is None


def test_a_table_without_rows() -> None:
    assert parse_table(table_bytes([])) == []
