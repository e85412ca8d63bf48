"""First-order against second-order learners, on the same instances from the same starts."""

from __future__ import annotations

from typing import Any

from sublearn.experiments._lines import in_panels, spans
from sublearn.experiments._table import (
    ADAHESSIAN,
    NAMES,
    NEWTON,
    Declared,
    point,
    reached_words,
    said,
)
from sublearn.experiments.tasks import Learners
from sublearn.plots import COLOURS, MARKERS, Figure, ink
from sublearn.runs import Plan, Points, Row, Table

_CASES = {
    "Linear RNN": ("lrnn:n=8,b=1,d=4,T=4", 4, "W:first-rows=8"),
    "Shallow ReLU": ("ffn:6-8-4,activation=relu", 6, "W1:first-rows=8"),
}
# Levenberg-Marquardt, with which the others are compared, stands last.
_FIRST_ORDER = ("gradient-descent", "sgd", "adam", "adam:rate=0.1")
_NAMES = {**NAMES, "adam:rate=0.1": "Adam, rate 0.1"}
_LEARNERS = {name: _NAMES[name] for name in (*_FIRST_ORDER, ADAHESSIAN, NEWTON)}
_EPS = (1e-2, 1e-6)


def _points(instances: int, steps: int, starts: int) -> Points:
    for case, setting in _CASES.items():
        for eps in _EPS:
            more: Row = {"eps": eps, "steps": steps, "starts": starts}
            more["learners"] = " ".join(_LEARNERS)
            # Many instances make one batch of each learner.
            trials, chunk = instances * len(_LEARNERS), 25 * len(_LEARNERS)
            yield point({"case": case}, setting, trials, chunk, **more)


def draw(table: Table) -> Figure:
    learners = [name for name in _LEARNERS if name in table.distinct("learner")]

    def lines(ax: Any, some: Table) -> None:
        for shade, eps in enumerate(_EPS):
            rows = some.where(eps=eps)
            places = [learners.index(row["learner"]) + 0.12 * (2 * shade - 1) for row in rows]
            spans(ax, rows, places, shade, of="within_")
            look = {"color": COLOURS[shade], "marker": MARKERS[shade], "linestyle": "none"}
            label = f"mean squared error < {eps:g}"
            ax.plot(rows.column("within_share"), places, label=label, **look)
        ax.set_xlim(-0.03, 1.03)
        names = [_LEARNERS[name] for name in learners]
        ax.set_yticks(range(len(learners)), names, fontsize=9, color=ink())
        ax.set_ylim(max(len(learners), 1) - 0.5, -0.5)

    look: Row = {"y": "learner", "unit_interval": False, "width": 4.6, "height": 3.2}
    words = "share of instances reached (95% interval)"
    return in_panels(table.apart("case"), lines, words, "{case}", **look)


def find(table: Table) -> str:
    lines = []
    for common, rows in table.apart("case", "eps"):
        each = "; ".join(f"{_LEARNERS[row['learner']]} {reached_words(row)}" for row in rows)
        budget = f"{rows[0]['steps']} steps from each of {rows[0]['starts']} starts"
        lines.append(f"{common['case']}, within {common['eps']:g} with {budget}: {each}.")
        newton = rows.where(learner=NEWTON)
        first = [row for row in rows if row["learner"] in _FIRST_ORDER]
        if newton and first:
            best = max(first, key=lambda row: row["within"])
            if not best["within"]:
                lines.append("No first-order learner gets there.")
                continue
            apart = best["within_high"] < newton[0]["within_low"]
            tail = "the intervals are apart" if apart else "their intervals overlap"
            lines.append(
                f"The best first-order learner there, {_LEARNERS[best['learner']]}, misses "
                f"{best['missed']} instances that Levenberg-Marquardt solves, and solves {best['only']} "
                f"that it misses; {tail}."
            )
    return said(lines)


EXPERIMENT = Declared(
    title="First-order against second-order learners",
    source="Appendix E.1; the summary's open questions",
    claim="With r = d m learnable weights the network is not overparameterised: gradient descent failed "
    "to find solutions, and second-order methods were necessary.",
    task=Learners(),
    quick=Plan.of(_points(instances=25, steps=1000, starts=2)),
    full=Plan.of(_points(instances=100, steps=5000, starts=3)),
    hours=0.045,
    columns={"case": "network kind"},
)
