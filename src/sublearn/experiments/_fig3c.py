"""Figure 3c: every label of 1000 MNIST digits, with 10,000 learnable weights in k rows."""

from __future__ import annotations

from sublearn.experiments._lines import shares
from sublearn.experiments._table import Declared, point, said, solved_words
from sublearn.experiments.tasks import Labelled
from sublearn.plots import Figure, figure, name_axes, shared_legend
from sublearn.runs import Plan, Point, Row, Table

ALWAYS = 40  # rows above which the paper says 1


def _point(k: int, trials: int) -> Point:
    setting = "ffn:784-1000-10,activation=relu", 1000, f"W1:first-rows={k}"
    more: Row = {"target": "label", "learner": "adam", "steps": 4000}
    return point({"k": k, "data": "mnist"}, setting, trials, 1, **more)


def draw(table: Table) -> Figure:
    fig, ax = figure(height=4.0)
    shares(ax, table, "k", "every label right (Adam, at most 4000 steps)")
    look = {"color": "#777777", "linewidth": 1.0, "linestyle": ":"}
    ax.axvline(ALWAYS, label="from here on 1, says the paper", **look)
    ax.set_xscale("log")
    ticks = table.column("k")
    ax.set_xticks(ticks, [str(k) for k in ticks])
    ax.set_xticks([], minor=True)
    name_axes(ax, "rows in use, k (of 1000)", "share of trials solved", unit_interval=True)
    shared_legend(fig, [ax], across=1)
    return fig


def find(table: Table) -> str:
    lines = [f"k = {row['k']}: {solved_words(row)}." for row in table]
    above = table.where(lambda row: row["k"] > ALWAYS)
    if above:
        solved, trials = (sum(above.column(name)) for name in ("solved", "trials"))
        verdict = "as the paper says" if solved == trials else "not always, against the paper"
        lines.append(
            f"Above {ALWAYS} rows together {solved} of {trials} trials are solved, {verdict}."
        )
    missed = table.where(lambda row: row["solved"] != row["trials"])
    if missed:
        right = min(row["median_right"] for row in missed)
        lines.append(
            f"Where some trials are not solved the median share of right labels is still {right:.4f} or "
            "more: this is a fact about Adam and its steps, not a refutation."
        )
    return said(lines)


_ROWS = (13, 14, 16, 20, 30, 40, 60, 100)

EXPERIMENT = Declared(
    title="Figure 3c: MNIST digits",
    source="Figure 3c; appendices E.1 and E.2",
    claim="On MNIST (q = 784, n = 1000, d = 10, m = 1000; 10,000 learnable weights in the first k rows; "
    "Adam) every label becomes right in all trials when more than 40 rows are in use.",
    task=Labelled(),
    quick=Plan.of((_point(k, 3) for k in (13, 16)), (_point(k, 4) for k in (20, 40, 60, 100))),
    full=Plan.of(_point(k, 50) for k in _ROWS),
    hours=0.07,
    columns={"k": "rows k"},
)
