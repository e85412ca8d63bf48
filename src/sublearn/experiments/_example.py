"""Appendix B.1.1: two units, two steps, all six allocations of two weights."""

from __future__ import annotations

import math
from typing import Any

from sublearn._kinds import MAXIMAL
from sublearn.experiments._lines import MATCH_PROBABILITY
from sublearn.experiments._table import Declared, decided_words, point, said
from sublearn.experiments.tasks import Decisions
from sublearn.plots import COLOURS, Figure, figure, ink, legend, name_axes
from sublearn.runs import Plan, Points, Row, Table

# Name, what the paper prints, and the closed form: by discriminants over 2 * 10^8 draws, standard error
# below 0.00004 (docs/notes/small-example.md prints it); 1 where the equation is linear.
_KNOWN = {
    ((0, 0), (0, 1)): ("row 0", 1.0, 1.0),
    ((1, 0), (1, 1)): ("row 1", 1.0, 1.0),
    ((0, 0), (1, 0)): ("column 0", 1.0, 1.0),
    ((0, 1), (1, 1)): ("column 1", 1.0, 1.0),
    ((0, 0), (1, 1)): ("diagonal", 0.74, 0.7154),
    ((0, 1), (1, 0)): ("off-diagonal", 0.83, 0.8289),
}


def _points(trials: int) -> Points:
    for entries, (name, printed, exact) in _KNOWN.items():
        own: Row = {"allocation": name, "printed": printed, "exact": exact}
        learn = "W:entries=" + "/".join(f"{i}.{j}" for i, j in entries)
        yield point(own, ("lrnn:n=2,b=1,d=1,T=2", 2, learn), trials, chunk=25)


def draw(table: Table) -> Figure:
    fig, ax = figure(height=3.4)
    places = list(range(len(table)))
    shares = table.column("share")
    ax.bar(places, shares, width=0.55, color=COLOURS[4], label="decided, with its 95% interval")
    for place, row in zip(places, table, strict=True):
        ax.plot([place] * 2, [row["low"], row["high"]], color=ink(), lw=1.6)
    looks: dict[str, dict[str, Any]] = {
        "printed": {"marker": "s", "color": COLOURS[1], "fillstyle": "none", "markersize": 8},
        "exact": {"marker": "_", "color": COLOURS[0], "markeredgewidth": 2.5, "markersize": 22},
    }
    for name, words in (("printed", "printed in the paper"), ("exact", "closed form")):
        ax.plot(places, table.column(name), label=words, linestyle="none", **looks[name])
    ax.set_xticks(places, table.column("allocation"), fontsize=9)
    name_axes(ax, "allocation of the two learnable weights of W", MATCH_PROBABILITY)
    ax.set_ylim(0, 1.42)
    ax.set_yticks([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    legend(ax, place="upper left")
    return fig


def _place(row: Row, key: str, whose: str) -> str:
    value = row[key]
    where = "inside" if row["low"] <= value <= row["high"] else "outside"
    return f"{value:.4g} ({whose}) lies {where}"


_THEIRS = 1000  # draws of every experiment of the paper (appendix E.1)


def apart(row: Row) -> float:
    """The printed number minus ours, in standard errors of both."""
    printed, own = float(row["printed"]), float(row["share"])
    errors = (p * (1.0 - p) / of for p, of in ((printed, _THEIRS), (own, row["trials"])))
    return (printed - own) / math.sqrt(sum(errors))


def find(table: Table) -> str:
    sure = [str(row["allocation"]) for row in table if row["verdict"] == MAXIMAL]
    lines = [f"Maximal without sampling: {', '.join(sure)}."] if sure else []
    for row in table:
        if row["verdict"] != MAXIMAL:
            lines.append(
                f"{str(row['allocation']).capitalize()}: {decided_words(row)}; "
                f"{_place(row, 'exact', 'the closed form')}, {_place(row, 'printed', 'the paper')}, "
                f"{abs(apart(row)):.1f} standard errors away if it is of {_THEIRS} draws."
            )
    return said(lines)


EXPERIMENT = Declared(
    title="The smallest recurrent example, all six allocations",
    source="Appendix B.1.1",
    claim="With n = T = m = 2 and b = d = 1, rows and columns are maximal; the diagonal has a match "
    "probability of about 0.74 and the off-diagonal of about 0.83.",
    task=Decisions(),
    quick=Plan.of(_points(300)),
    full=Plan.of(_points(20_000)),
    hours=0.04,
    columns={"allocation": "allocation", "printed": "MP printed", "exact": "MP, closed form"},
)
