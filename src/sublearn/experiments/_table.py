"""What experiments are declared with, and helpers for their tables: rows picked, counts pooled, words.

A share that a learner reaches is never called a match probability: it belongs to the learner and its
budget, and "not reached" is not "no".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

from sublearn.estimates import clopper_pearson
from sublearn.runs import Experiment, Json, Plan, Point, Row, Table

NEWTON, ADAHESSIAN = "levenberg-marquardt", "adahessian"
NAMES = {
    "gradient-descent": "gradient descent",
    "sgd": "SGD",
    "adam": "Adam",
    "adahessian": "AdaHessian",
    "levenberg-marquardt": "Levenberg-Marquardt",
}


Declared = partial(Experiment, "declared")
"""What a file says of its experiment; the rest is the file's: its name, and its functions draw and find."""

OURS = "the law of the starts and the form of the equations are ours"
"""What is said beside every share that the paper's protocol finds: the paper names neither."""

DECIDED = 410
"""Trials of a decided share at full budget: its 95% interval is then at most 0.05 to either side."""


def full_trials(method: str) -> int:
    """Trials at full budget; the paper's protocol takes seconds for each, so it has fewer."""
    return 20 if method == "reference" else DECIDED


def full_plan(make: Callable[..., Point], *settings: tuple[int, ...]) -> Plan:
    """Every setting decided, and every one by the paper's protocol: ``make(*setting, method, trials)``."""
    ways = [(method, full_trials(method)) for method in ("ladder", "reference")]
    return Plan.of(make(*setting, *way) for way in ways for setting in settings)


def point(own: Row, setting: tuple[str, int, str], trials: int, chunk: int, **more: Json) -> Point:
    """A point: columns of its own, then network, samples and learnable weights, then what else is said."""
    network, samples, learn = setting
    params: Row = {"network": network, "samples": samples, "learn": learn}
    return Point({**own, **params, **more}, trials, chunk)


def by_ladder(table: Table) -> Table:
    """The rows that were decided by the ladder, as they are where no method is named."""
    return table.where(lambda row: row.get("method") in (None, "ladder"))


def by_protocol(table: Table) -> Table:
    """The rows of the paper's protocol: fsolve, and where E.2 says so the construction of Theorem 3.5."""
    return table.where(lambda row: row["method"] in ("reference", "construction"))


_DRAWN = ("network", "samples", "ensemble", "covariance", "inputs", "targets")


def low_end(count: int, trials: int, copies: int) -> float:
    """The low end of a share's 95% interval where each draw is in ``copies`` trials, which may be alike."""
    once = trials // copies
    return clopper_pearson(count * once // trials, once)[0]


def copies_in(rows: Table) -> int:
    """How many of these rows share their draws, at most: those of one problem have the same instances."""
    return max(Counter(tuple(row.get(name) for name in _DRAWN) for row in rows).values())


def pooled(rows: Table) -> Row:
    """The counts of several rows of decisions as one, with its own bracket and interval.

    Where ``copies`` of the rows share their draws, the interval counts every draw once.
    """
    names = ("trials", "matched", "refuted", "undecided", "proved", "numerical")
    total = {name: sum(rows.column(name)) for name in names}
    trials, matched = total["trials"], total["matched"]
    possible, copies = matched + total["undecided"], copies_in(rows)
    return {
        **total,
        "copies": copies,
        "share": matched / trials,
        "possible": possible / trials,
        "low": low_end(matched, trials, copies),
        "high": 1.0 - low_end(total["refuted"], trials, copies),
    }


def rises(few: Row, most: Row) -> bool | None:
    """Whether more match in ``most`` than in ``few``; None where intervals, with the undecided, overlap."""
    if most["low"] > few["high"]:
        return True
    return False if most["high"] < few["low"] else None


def found_interval(row: Row) -> tuple[float, float]:
    """The 95% interval of the share that a protocol FINDS, where not found counts as no match."""
    return clopper_pearson(int(row["matched"]), int(row["trials"]))


def decided_words(row: Row) -> str:
    """For example "0.983 (95%: 0.911 to 1.000; 59 of 60 matched)"; no interval where draws are shared."""
    share, possible = row["share"], row["possible"]
    ends = f"95%: {row['low']:.3f} to {row['high']:.3f}; " if row.get("copies", 1) == 1 else ""
    text = f"{share:.3f}" if share == possible else f"{share:.3f} to {possible:.3f}"
    left = f", {row['undecided']} undecided" if row["undecided"] else ""
    return f"{text} ({ends}{row['matched']} of {row['trials']} matched{left})"


def found_words(row: Row) -> str:
    """For example "31 of 40 (95%: 0.615 to 0.892)"."""
    low, high = found_interval(row)
    return f"{row['matched']} of {row['trials']} (95%: {low:.3f} to {high:.3f})"


def reached_words(row: Row) -> str:
    """For example "12 of 100 (95%: 0.064 to 0.200)"."""
    ends = f"95%: {row['within_low']:.3f} to {row['within_high']:.3f}"
    return f"{row['within']} of {row['trials']} ({ends})"


def solved_words(row: Row) -> str:
    """For example "3 of 3 solved (95%: 0.292 to 1.000), median 311 steps"."""
    ends = f"95%: {row['low']:.3f} to {row['high']:.3f}"
    text = f"{row['solved']} of {row['trials']} solved ({ends})"
    return text if not row["solved"] else f"{text}, median {row['median_steps']:.0f} steps"


def named(row: Row, names: Iterable[str]) -> str:
    """For example "n = 8, d = 4"."""
    return ", ".join(f"{name} = {row[name]}" for name in names)


def pooled_words(table: Table, by: Iterable[str], over: str, head: str = "Decided") -> list[str]:
    """A sentence for each group of decided rows, which differ in ``over`` and are taken together."""
    return [
        f"{head}, {named(common, by)}, {over} = {rows[0][over]} to {rows[-1][over]} together: "
        f"{decided_words(pooled(rows))}."
        for common, rows in by_ladder(table).apart(*by)
    ]


def protocol_words(table: Table, by: Iterable[str]) -> list[str]:
    """What the paper's protocol finds, in a sentence, if it was run."""
    each = [f"{named(row, by)}: {found_words(row)}" for row in by_protocol(table)]
    return [f"The paper's protocol ({OURS}) finds {'; '.join(each)}."] if each else []


def said(lines: Iterable[str], otherwise: str = "") -> str:
    """The finding, one sentence per line; a table without points has nothing to say yet."""
    return "\n".join(lines) or otherwise or "No point is finished yet."
