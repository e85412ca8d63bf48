"""Deeper ReLU networks: one layer learns, or two, on drawn inputs and on real ones."""

from __future__ import annotations

from typing import Any

from sublearn.experiments._lines import decided, in_panels
from sublearn.experiments._table import (
    DECIDED,
    Declared,
    decided_words,
    point,
    pooled,
    rises,
    said,
)
from sublearn.experiments.tasks import ExactOrWithin
from sublearn.experiments.tasks._training import DECIDE_WITHIN
from sublearn.plots import Figure
from sublearn.runs import Plan, Points, Row, Table

_EPS = 0.1
_TWO, _THREE = "ffn:4-6-6-2,activation=relu", "ffn:4-6-6-6-2,activation=relu"
_BOTH = _TWO, "W1:first-rows={k},count=3 W2:first-rows={k},count=3"
_LADDER: Row = {"method": "ladder"}
# Network and learnable weights, r = d m = 6 of them, and how they are decided.
_CASES: dict[str, tuple[tuple[str, str], Row]] = {
    "second of two hidden layers": ((_TWO, "W2:first-rows={k}"), _LADDER),
    "first of two": ((_TWO, "W1:first-rows={k}"), _LADDER),
    "third of three": ((_THREE, "W3:first-rows={k}"), _LADDER),
    "first of three": ((_THREE, "W1:first-rows={k}"), _LADDER),
    "both of two, half each": (_BOTH, _LADDER),
    f"both of two, within {_EPS:g}": (_BOTH, {"method": DECIDE_WITHIN, "eps": _EPS}),
}
_DATA: dict[str, Row] = {
    "normal inputs, teacher": {},
    "digits, teacher": {"inputs": "digits"},
    "digits, labels": {"inputs": "digits", "targets": "labels"},
}


def _points(trials: int) -> Points:
    for data, drawn in _DATA.items():
        for case, ((network, learn), way) in _CASES.items():
            for k in (2, 6):
                own: Row = {"data": data, "case": case, "k": k}
                # Few, for the budget; whether more would match instances across layers is not known.
                more: Row = {**drawn, **way, "starts": 30}
                yield point(own, (network, 3, learn.format(k=k)), trials, 10, **more)


def draw(table: Table) -> Figure:
    cases = list(_CASES)
    kinds = {"one layer learns": cases[:4], "two layers learn": cases[4:]}
    # All rows are decided, some of them within eps: their cases say so.
    sorted_rows = Table(
        {**row, "method": "ladder", "layers": kind}
        for kind, own in kinds.items()
        for row in table
        if row["case"] in own
    )

    def lines(ax: Any, rows: Table) -> None:
        for case in rows.distinct("case"):
            decided(ax, rows.where(case=case), "k", case, cases.index(case))
        ax.set_xticks(rows.distinct("k"))

    return in_panels(
        sorted_rows.apart("layers", "data"),
        lines,
        "first k rows that hold the weights",
        "{layers}: {data}",
        y="share matched",
        across=3,
        legend_across=3,
    )


_LAYERS = {
    "first layer": ("first of two", "first of three"),
    "last hidden layer": ("second of two hidden layers", "third of three"),
}


_TURNS = {True: "more frequent", False: "rarer", None: "neither, by the intervals"}


def _by_layer(table: Table, data: str) -> tuple[list[str], set[bool | None]]:
    """What more rows bring, of all networks and data together, where one layer learns."""
    lines, kinds = [], set()
    for layer, own in _LAYERS.items():
        rows = Table(row for row in table if row["case"] in own)
        if len(ks := rows.distinct("k")) > 1:
            few, most = pooled(rows.where(k=min(ks))), pooled(rows.where(k=max(ks)))
            kinds.add(rises(few, most))
            lines.append(
                f"in more rows of the {layer}{data} matches are {_TURNS[rises(few, most)]}, "
                f"{decided_words(few)} in the fewest and {decided_words(most)} in all"
            )
    return lines, kinds


def find(table: Table) -> str:
    words, kinds = _by_layer(table, "")
    kind = "No" if False in kinds else "Not decided by this" if None in kinds else "Yes"
    lines = [f"{kind}: {'; '.join(words)}."] if words else []
    words, _ = _by_layer(
        table.where(lambda row: row["data"] != "normal inputs, teacher"), ", digits,"
    )
    lines += [f"{line.capitalize()}." for line in words]
    for common, rows in table.apart("case"):
        all_of = pooled(rows)
        left = f"{all_of['undecided']} of {all_of['trials']} instances are undecided"
        lines.append(f"{common['case']}: {left} ({all_of['undecided'] / all_of['trials']:.1%}).")
    for common, rows in table.apart("data", "case"):
        each = "; ".join(f"k = {row['k']}: {decided_words(row)}" for row in rows)
        turn = _TURNS[rises(rows[0], rows[-1])]
        lines.append(f"{common['data']}, {common['case']}, {turn} in more rows: {each}.")
    return said(lines)


EXPERIMENT = Declared(
    title="Deeper ReLU networks, on random and on real data",
    source="Open question 2 of the summary; section 6",
    claim="Whether the rules of thumb for distributing learnable weights hold in deeper nonlinear "
    "networks and on structured data is left open.",
    task=ExactOrWithin(),
    quick=Plan.of(_points(5)),
    full=Plan.of(_points(DECIDED)),
    hours=0.12,
    columns={"data": "inputs and targets", "case": "where the weights are", "k": "rows k"},
)
