"""Deeper ReLU networks: one layer learns, or several, on random and on real inputs."""

from __future__ import annotations

from sublearn.experiments._lines import MATCH_PROBABILITY, decided, reached
from sublearn.experiments._table import (
    DECIDED,
    NEWTON,
    Declared,
    decided_words,
    point,
    reached_words,
    said,
)
from sublearn.experiments.tasks import ExactOrWithin
from sublearn.experiments.tasks._training import EXACT, WITHIN
from sublearn.plots import Figure, name_axes, panels, shared_legend
from sublearn.runs import Plan, Points, Row, Table

_EPS = 1e-2
_CASES = {
    "last hidden layer": ("ffn:6-8-8-4,activation=relu", 6, "W2:first-rows={k}"),
    "first layer": ("ffn:6-8-8-4,activation=relu", 6, "W1:first-rows={k}"),
    "both, half each": (
        "ffn:6-8-8-4,activation=relu",
        6,
        "W1:first-rows={k},count=12 W2:first-rows={k},count=12",
    ),
    "last of three hidden layers": ("ffn:6-8-8-8-4,activation=relu", 6, "W3:first-rows={k}"),
}


def _points(exact: int, within: int) -> Points:
    for case, (network, samples, learn) in _CASES.items():
        for k in (4, 6, 8):
            own: Row = {"case": case, "k": k}
            asked = network, samples, learn.format(k=k)
            yield point(own, asked, exact, 5, method="ladder")
            training: Row = {"method": NEWTON, "eps": _EPS, "steps": 200, "starts": 5}
            yield point(own, asked, within, 20, **training)


def draw(table: Table) -> Figure:
    fig, axes = panels(2, width=4.8)
    for colour, case in enumerate(table.distinct("case")):
        rows = table.where(case=case)
        decided(axes[0], rows.where(question=EXACT), "k", case, colour)
        reached(axes[1], rows.where(question=WITHIN), "k", case, colour)
    words = "first k rows that hold the weights"
    name_axes(axes[0], words, MATCH_PROBABILITY, title="exact matches", unit_interval=True)
    title = f"within {_EPS:g}, Levenberg-Marquardt"
    name_axes(axes[1], words, "share within eps", title=title, unit_interval=True)
    for ax in axes:
        ax.set_xticks(table.distinct("k"))
    shared_legend(fig, axes, across=2)
    return fig


def rises(few: Row, most: Row) -> bool | None:
    """Whether more instances come within eps in most rows than in few; None where intervals overlap."""
    if most["within_low"] > few["within_high"]:
        return True
    return False if most["within_high"] < few["within_low"] else None


def find(table: Table) -> str:
    words = {True: "yes", False: "no", None: "not decided by this"}
    trained = table.where(question=WITHIN).apart("case")
    each = "; ".join(f"{c['case']}: {words[rises(rows[0], rows[-1])]}" for c, rows in trained)
    lines = [f"Does spreading over all rows bring more instances within eps? {each}."] * bool(each)
    for common, rows in table.apart("case"):
        for head, question, told in (
            ("exact", EXACT, decided_words),
            (f"within {_EPS:g}", WITHIN, reached_words),
        ):
            each = "; ".join(
                f"k = {row['k']}: {told(row)}" for row in rows.where(question=question)
            )
            lines.append(f"{common['case']}, {head}: {each}.")
    return said(lines)


EXPERIMENT = Declared(
    title="Deeper ReLU networks",
    source="Open question 2 of the summary; section 6",
    claim="Whether the rules of thumb for distributing learnable weights hold in deeper nonlinear "
    "networks and on structured data is left open.",
    task=ExactOrWithin(),
    quick=Plan.of(_points(10, 20)),
    full=Plan.of(_points(DECIDED, 100)),
    hours=0.13,
    columns={"case": "where the weights are", "k": "rows k"},
)
