"""Deeper ReLU networks: one layer learns, or several, on random and on real inputs."""

from __future__ import annotations

from typing import Any

from sublearn.experiments._lines import MATCH_PROBABILITY, Figures, decided, reached
from sublearn.experiments._table import DECIDED, NEWTON, decided_words, point, reached_words, said
from sublearn.experiments.tasks import ExactOrWithin
from sublearn.experiments.tasks._training import EXACT, WITHIN
from sublearn.plots import name_axes, panels, shared_legend
from sublearn.runs import Experiment, Plan, Point, Row, Table

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


def _points(exact: int, within: int) -> tuple[Point, ...]:
    found = []
    for case, (network, samples, learn) in _CASES.items():
        for k in (4, 6, 8):
            own: Row = {"case": case, "k": k}
            asked = network, samples, learn.format(k=k)
            found.append(point(own, asked, exact, 5, method="ladder"))
            training: Row = {"method": NEWTON, "eps": _EPS, "steps": 200, "starts": 5}
            found.append(point(own, asked, within, 20, **training))
    return tuple(found)


def draw(table: Table) -> Figures:
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
    return {"depth": fig}


def _answer(rows: Table) -> str:
    """Whether more rows give more matches within eps, for one case."""
    few, most = rows[0], rows[-1]
    if most["within_low"] > few["within_high"]:
        return "yes"
    return "no" if most["within_high"] < few["within_low"] else "not decided by this"


def find(table: Table) -> str:
    each = "; ".join(
        f"{case}: {_answer(rows)}"
        for case in table.distinct("case")
        if (rows := table.where(case=case, question=WITHIN))
    )
    lines = (
        [f"Does spreading over all rows bring more instances within eps? {each}."] if each else []
    )
    for case in table.distinct("case"):
        rows = table.where(case=case)
        exact: list[Any] = rows.where(question=EXACT)
        near: list[Any] = rows.where(question=WITHIN)
        each = "; ".join(f"k = {row['k']}: {decided_words(row)}" for row in exact)
        lines.append(f"{case}, exact: {each}.")
        each = "; ".join(f"k = {row['k']}: {reached_words(row)}" for row in near)
        lines.append(f"{case}, within {_EPS:g}: {each}.")
    return said(lines)


EXPERIMENT = Experiment(
    name="depth",
    title="Deeper ReLU networks",
    source="Open question 2 of the summary; section 6",
    claim="Whether the rules of thumb for distributing learnable weights hold in deeper nonlinear "
    "networks and on structured data is left open.",
    task=ExactOrWithin(),
    quick=Plan(_points(10, 20)),
    full=Plan(_points(DECIDED, 100)),
    hours=0.04,
    columns={"case": "where the weights are", "k": "rows k"},
    draw=draw,
    find=find,
)
