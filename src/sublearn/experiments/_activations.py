"""The same allocations under other activations: linear, ReLU, tanh, sigmoid, and a tanh RNN."""

from __future__ import annotations

from typing import Any

from sublearn.experiments._lines import Figures, decided, in_panels, reached
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
from sublearn.runs import Plan, Point, Row, Table

EPS = 1e-2
_KINDS = {
    **{
        name: (f"ffn:6-8-4,activation={name}", 6, "W1", (4, 5, 6, 7, 8))
        for name in ("linear", "relu", "tanh", "sigmoid")
    },
    "linear RNN": ("lrnn:n=6,b=1,d=3,T=4", 4, "W", (3, 4, 5, 6)),
    "tanh RNN": ("rnn:n=6,b=1,d=3,T=4,activation=tanh", 4, "W", (3, 4, 5, 6)),
}
_TITLES = {
    "linear": "Linear, n = 8",
    "relu": "ReLU, n = 8",
    "tanh": "Tanh, n = 8",
    "sigmoid": "Sigmoid, n = 8",
    "linear RNN": "Linear RNN, n = 6",
    "tanh RNN": "Tanh RNN, n = 6",
}


def _points(exact: int, within: int, all_rows: bool) -> tuple[Point, ...]:
    found = []
    for kind, (network, samples, name, rows) in _KINDS.items():
        for k in rows if all_rows else (rows[0], rows[len(rows) // 2], rows[-1]):
            own: Row = {"kind": kind, "k": k}
            asked = network, samples, f"{name}:first-rows={k}"
            found.append(point(own, asked, exact, 6, method="ladder"))
            more: Row = {"method": NEWTON, "eps": EPS, "steps": 200, "starts": 10}
            found.append(point(own, asked, within, 32, **more))
    return tuple(found)


def draw(table: Table) -> Figures:
    def lines(ax: Any, rows: Table) -> None:
        reached(ax, rows.where(method=NEWTON), "k", f"within {EPS:g}, {NAMES[NEWTON]}", colour=2)
        decided(ax, rows, "k", "exact match, decided")
        ax.set_xticks(rows.distinct("k"))

    def title(row: Row) -> str:
        return _TITLES[row["kind"]]

    words = "rows in use, k"
    fig = in_panels(table, ["kind"], lines, words, title, y="share of instances", height=2.9)
    return {"activations": fig}


def find(table: Table) -> str:
    lines = []
    for kind in table.distinct("kind"):
        rows = table.where(kind=kind)
        for k in (rows.distinct("k")[0], rows.distinct("k")[-1]):
            exact = rows.where(k=k, method="ladder")
            within = rows.where(k=k, method=NEWTON)
            parts = [f"exact match {decided_words(row)}" for row in exact]
            parts += [f"within {EPS:g} {reached_words(row)}" for row in within]
            lines.append(f"{_TITLES[kind]}, k = {k}: {'; '.join(parts)}.")
    by_kind = {kind: table.where(kind=kind, method="ladder") for kind in table.distinct("kind")}
    bounded = [kind for kind in ("relu", "tanh", "sigmoid") if by_kind.get(kind)]
    linear = by_kind.get("linear")
    if (
        linear
        and bounded
        and all(
            max(row["high"] for row in by_kind[kind]) < min(row["low"] for row in linear)
            for kind in bounded
        )
    ):
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
    quick=Plan(_points(exact=12, within=32, all_rows=False)),
    full=Plan(_points(exact=DECIDED, within=200, all_rows=True)),
    hours=0.06,
    columns={"kind": "activation", "k": "rows k"},
)
