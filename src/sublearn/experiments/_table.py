"""Small helpers for tables: rows picked, counts pooled, numbers in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sublearn.estimates import clopper_pearson
from sublearn.runs import Json, Row, Table

SETTING = {
    "network": "network",
    "samples": "samples m",
    "learn": "learnable weights",
    "ensemble": "ensemble (normal where nothing is said)",
    "method": "method",
    "starts": "starts allowed",
}
COUNTS = {
    "trials": "trials",
    "matched": "matched",
    "refuted": "refuted",
    "undecided": "undecided",
    "proved": "decisions proved",
    "numerical": "decisions that are numerical",
    "error": "chance that any decision is wrong, at most",
    "share": "share matched",
    "possible": "share not refuted",
    "low": "95% interval, low end",
    "high": "95% interval, high end",
}
VERDICT = {"verdict": "verdict of certify", "verdict_grade": "its grade"}
ESTIMATE = {**SETTING, **VERDICT, **COUNTS}


def where(table: Table, **wanted: Json) -> Table:
    """The rows that hold these values, in their order."""
    return [row for row in table if all(row.get(key) == v for key, v in wanted.items())]


def values(table: Table, name: str) -> list[Any]:
    """One column; for arithmetic, so of no declared type."""
    return [row[name] for row in table]


def distinct(table: Table, name: str) -> list[Any]:
    """The different values of one column, in the order in which they first come."""
    return list(dict.fromkeys(values(table, name)))


def number(row: Row, name: str) -> float:
    """One cell as a number."""
    value = row[name]
    assert isinstance(value, (int, float)), f"{name} is {value!r}, not a number"
    return float(value)


def pooled(rows: Iterable[Row]) -> Row:
    """The counts of several rows of decisions as one, with its own bracket and interval."""
    held = list(rows)
    names = ("trials", "matched", "refuted", "undecided", "proved", "numerical")
    total = {name: sum(values(held, name)) for name in names}
    trials, matched = total["trials"], total["matched"]
    possible = matched + total["undecided"]
    return {
        **total,
        "share": matched / trials,
        "possible": possible / trials,
        "low": clopper_pearson(matched, trials)[0],
        "high": clopper_pearson(possible, trials)[1],
    }


def found_interval(row: Row) -> tuple[float, float]:
    """The 95% interval of the share that a protocol FINDS, where not found counts as no match."""
    return clopper_pearson(int(number(row, "matched")), int(number(row, "trials")))


def decided_words(row: Row) -> str:
    """For example "0.983 (95%: 0.911 to 1.000; 59 of 60 matched)"."""
    share, possible = number(row, "share"), number(row, "possible")
    ends = f"95%: {number(row, 'low'):.3f} to {number(row, 'high'):.3f}"
    text = f"{share:.3f}" if share == possible else f"{share:.3f} to {possible:.3f}"
    left = f", {row['undecided']} undecided" if row["undecided"] else ""
    return f"{text} ({ends}; {row['matched']} of {row['trials']} matched{left})"


def found_words(row: Row) -> str:
    """For example "31 of 40 (95%: 0.615 to 0.892)"."""
    low, high = found_interval(row)
    return f"{row['matched']} of {row['trials']} (95%: {low:.3f} to {high:.3f})"


def said(lines: Iterable[str]) -> str:
    """The finding, one sentence per line; a table without points has nothing to say yet."""
    return "\n".join(lines) or "No point is finished yet."
