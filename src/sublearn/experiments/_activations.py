"""The same allocations under other activations: linear, ReLU, tanh, sigmoid, and a tanh RNN."""

from __future__ import annotations

from typing import Any

from sublearn.experiments._lines import Figure, decided, in_panels, reached
from sublearn.experiments._table import (
    DECIDED,
    NAMES,
    NEWTON,
    Declared,
    decided_words,
    point,
    reached_words,
    said,
)
from sublearn.experiments.tasks import ExactOrWithin
from sublearn.runs import Plan, Points, Row, Table

EPS = 1e-2
_NAMES = {"linear": "Linear", "relu": "ReLU", "tanh": "Tanh", "sigmoid": "Sigmoid"}
_KINDS = {
    **{kind: (f"ffn:6-8-4,activation={kind}", 6, "W1", (4, 5, 6, 7, 8)) for kind in _NAMES},
    "linear RNN": ("lrnn:n=6,b=1,d=3,T=4", 4, "W", (3, 4, 5, 6)),
    "tanh RNN": ("rnn:n=6,b=1,d=3,T=4,activation=tanh", 4, "W", (3, 4, 5, 6)),
}


def _points(exact: int, within: int, all_rows: bool) -> Points:
    for kind, (network, samples, name, rows) in _KINDS.items():
        for k in rows if all_rows else (rows[0], rows[len(rows) // 2], rows[-1]):
            own: Row = {"kind": kind, "k": k}
            setting = network, samples, f"{name}:first-rows={k}"
            yield point(own, setting, exact, 6, method="ladder")
            more: Row = {"method": NEWTON, "eps": EPS, "steps": 200, "starts": 10}
            yield point(own, setting, within, 32, **more)


def _title(row: Row) -> str:
    kind = row["kind"]
    return f"{_NAMES[kind]}, n = 8" if kind in _NAMES else f"{kind[0].upper()}{kind[1:]}, n = 6"


def draw(table: Table) -> Figure:
    def lines(ax: Any, rows: Table) -> None:
        reached(ax, rows.where(method=NEWTON), "k", f"within {EPS:g}, {NAMES[NEWTON]}", colour=2)
        decided(ax, rows, "k", "exact match, decided")
        ax.set_xticks(rows.distinct("k"))

    words = "rows in use, k"
    return in_panels(table.apart("kind"), lines, words, _title, y="share of instances", height=2.9)


def find(table: Table) -> str:
    lines = []
    for common, rows in table.apart("kind"):
        for k in (rows.distinct("k")[0], rows.distinct("k")[-1]):
            exact = rows.where(k=k, method="ladder")
            within = rows.where(k=k, method=NEWTON)
            parts = [f"exact match {decided_words(row)}" for row in exact]
            parts += [f"within {EPS:g} {reached_words(row)}" for row in within]
            lines.append(f"{_title(common)}, k = {k}: {'; '.join(parts)}.")
    by_kind = {kind: table.where(kind=kind, method="ladder") for kind in _NAMES}
    low = min(by_kind.pop("linear").column("low"), default=0.0)
    bounded = [kind for kind, rows in by_kind.items() if rows]
    if bounded and all(max(by_kind[kind].column("high")) < low for kind in bounded):
        lines.append(
            f"A linear layer that matches becomes one that seldom does under {', '.join(bounded)}: what "
            "frozen readouts can make of units that are never negative, or bounded, is limited."
        )
    return said(lines)


EXPERIMENT = Declared(
    title="Linear, ReLU, tanh and sigmoid; a tanh RNN",
    source="Section 6, further work; the summary",
    claim="The results for linear networks and shallow ReLU networks should be extended to other "
    "nonlinear networks; nonlinearity itself is said to favour distributed allocations.",
    task=ExactOrWithin(),
    quick=Plan.of(_points(exact=12, within=32, all_rows=False)),
    full=Plan.of(_points(exact=DECIDED, within=200, all_rows=True)),
    hours=0.06,
    columns={"kind": "activation", "k": "rows k"},
)
