"""Appendix E.1: why does Adam suffice on MNIST? The two conjectures, varied one at a time."""

from __future__ import annotations

from sublearn.experiments._lines import spans
from sublearn.experiments._table import Declared, point, said, solved_words
from sublearn.experiments.tasks import Labelled
from sublearn.plots import COLOURS, MARKERS, Figure, ink, name_axes, panels, shared_legend
from sublearn.runs import Plan, Points, Row, Table

EPS = 1e-2
DATA = {
    "mnist": "MNIST digits",
    "mnist-shuffled": "The same, labels shuffled",
    "noise": "Noise, random labels",
}
TARGETS = {"label": "every label right", "vector": f"one-hot vectors within {EPS:g}"}


def _points(n: int, samples: int, k: int, steps: int, trials: int) -> Points:
    setting = f"ffn:784-{n}-10,activation=relu", samples, f"W1:first-rows={k}"
    for data in DATA:
        for target in TARGETS:
            # A label has no eps.
            more: Row = {"eps": EPS} if target == "vector" else {}
            more = {"learner": "adam", "steps": steps, **more}
            yield point({"data": data, "target": target}, setting, trials, 1, **more)


def draw(table: Table) -> Figure:
    fig, (left, right) = panels(2, width=5.0, height=3.0)
    names = [name for name in DATA if name in table.distinct("data")]
    for shade, (target, words) in enumerate(TARGETS.items()):
        rows = Table(row for name in names for row in table.where(data=name, target=target))
        places = [names.index(row["data"]) + 0.12 * (2 * shade - 1) for row in rows]
        look = {"color": COLOURS[shade], "marker": MARKERS[shade], "linestyle": "none"}
        left.plot(rows.column("share"), places, label=words, **look)
        spans(left, rows, places, shade)
        right.plot(rows.column("median_right"), places, label=words, **look)
    name_axes(left, "share of trials solved, with its 95% interval", "data")
    name_axes(right, "labels right at the end (median share)", "data")
    for ax in (left, right):
        ax.set_yticks(range(len(names)), [DATA[name] for name in names], fontsize=9, color=ink())
        ax.set_ylim(-0.6, max(len(names), 1) - 0.4)
        ax.set_xlim(-0.03, 1.03)
        ax.invert_yaxis()
    shared_legend(fig, (left, right))
    return fig


def label_and_vector(table: Table) -> list[tuple[Row, Row]]:
    """The rows of the two targets, by data that have both."""
    label, vector = table.where(target="label"), table.where(target="vector")
    return [(a, b) for a in label for b in vector if a["data"] == b["data"]]


def find(table: Table) -> str:
    lines = [
        f"{DATA[row['data']]}, {TARGETS[row['target']]}: {solved_words(row)}"
        f"; {row['median_right']:.1%} of the labels are right at the end."
        for row in table
    ]
    pairs = label_and_vector(table)
    if pairs and all(a["low"] > b["high"] for a, b in pairs):
        lines.append(
            "A label is easier than a vector on all of these data: their intervals are apart."
        )
    elif pairs and all(a["share"] > b["share"] for a, b in pairs):
        lines.append(
            "A label is solved more often than a vector on all of these data, as conjectured; so few "
            "trials do not part their intervals."
        )
    solved = {str(row["data"]): row for row in table.where(target="label") if row["solved"]}
    if {"mnist", "noise"} <= solved.keys():
        steps = {name: row["median_steps"] for name, row in solved.items()}
        text = (
            f"Labels of noise take {steps['noise'] / steps['mnist']:.1f} times the steps of digits"
        )
        if "mnist-shuffled" in steps:
            text += (
                f", shuffled labels of the digits {steps['mnist-shuffled'] / steps['mnist']:.1f} times: "
                "correlated inputs help where the labels follow from them, and hinder where they do not"
            )
        lines.append(f"{text}.")
    return said(lines)


EXPERIMENT = Declared(
    title="Why Adam suffices on MNIST: two conjectures",
    source="Appendix E.1",
    claim="First-order learning does better on MNIST than in the other experiments because (1) random "
    "data are harder to learn, having no correlations, and (2) a label is easier to predict than a "
    "full vector.",
    task=Labelled(),
    # A fifth of the paper's network at the quick budget, with the same 10 weights per sample.
    quick=Plan.of(_points(n=200, samples=150, k=40, steps=2000, trials=3)),
    full=Plan.of(_points(n=1000, samples=1000, k=40, steps=4000, trials=12)),
    hours=0.12,
)
