"""After a match on m samples: the error on fresh samples of the same teacher."""

from __future__ import annotations

from sublearn.experiments._table import DECIDED, NEWTON, Declared, point, said
from sublearn.experiments.tasks import FreshErrors
from sublearn.plots import Figure, curve, name_axes, panels, shared_legend
from sublearn.runs import Plan, Points, Row, Table

EPS = 1e-2
FLOOR = 1e-4  # smaller errors are drawn here: they are rounding
RNN, RELU = "linear RNN", "shallow ReLU"
_LINEAR = {
    "W, k = d rows": "W:first-rows=2",
    "W, all rows": "W:first-rows=6",
    "whole decoder, least norm": "D:all",
}
_CURVED = {"W1, all rows, r = d m": "W1:first-rows=8", "all 48 weights of W1": "W1:all"}
_TITLES = {
    RNN: "Linear RNN (T = 6), exact match",
    RELU: f"Shallow ReLU (q = 6), within {EPS:g}",
}


def _points(exact: int, within: int, few: bool) -> Points:
    training: Row = {"method": NEWTON, "eps": EPS, "steps": 200, "starts": 10}
    linear = "lrnn:n=6,b=1,d=2,T=6", (1, 3, 5, 6) if few else range(1, 7), exact, 16
    curved = "ffn:6-8-4,activation=relu", (2, 6, 10) if few else range(2, 13, 2), within, 32
    for case, learnables, (network, samples, trials, chunk), more in (
        (RNN, _LINEAR, linear, {}),
        (RELU, _CURVED, curved, training),
    ):
        for learnable, learn in learnables.items():
            for m in samples:
                own: Row = {"case": case, "learnable": learnable}
                setting = network, m, learn
                yield point(own, setting, trials, chunk, fresh=1000, **more)


def draw(table: Table) -> Figure:
    fig, axes = panels(2, width=4.8)
    for ax, case, first in zip(axes, (RNN, RELU), (0, 3), strict=True):
        rows = table.where(case=case).where(lambda row: row["median"] is not None)
        for colour, learnable in enumerate(rows.distinct("learnable"), first):
            part = rows.where(learnable=learnable)
            ends = [
                [max(value, FLOOR) for value in part.column(name)]
                for name in ("median", "quarter", "three_quarters")
            ]
            curve(ax, part.column("samples"), *ends, label=learnable, colour=colour)
        ax.axhline(1.0, color="#777777", linewidth=1.0, linestyle=":", label="answering 0")
        ax.set_yscale("log")
        least = f" (>= {FLOOR:g})" if case == RNN else ""
        words = f"relative fresh error{least}"
        name_axes(ax, "samples m that were solved", words, title=_TITLES[case])
    shared_legend(fig, axes, across=3)
    return fig


def _words(row: Row) -> str:
    if row["median"] is None:
        return f"m = {row['samples']}: none of {row['trials']} instances solved"
    return (
        f"m = {row['samples']}: median {row['median']:.2g} (quartiles {row['quarter']:.2g} "
        f"and {row['three_quarters']:.2g}; {row['solved']} of {row['trials']} solved, "
        f"{row['below_one']} of these below 1)"
    )


def find(table: Table) -> str:
    lines = []
    for common, rows in table.apart("case", "learnable"):
        each = "; ".join(map(_words, rows[:1] + rows[-1:] if len(rows) > 1 else rows))
        lines.append(f"{_TITLES[common['case']]}, {common['learnable']}: {each}.")
    whole = table.where(case=RNN, samples=6).where(lambda row: row["median"] is not None)
    if whole and max(row["three_quarters"] for row in whole) < 1e-6:
        lines.append(
            "With m = T b samples an exact match of a linear RNN is the teacher's map, and no error is left."
        )
    fewer = table.where(case=RNN).where(lambda row: row["samples"] < 6 and row["solved"])
    if fewer:
        below, solved = (sum(fewer.column(name)) for name in ("below_one", "solved"))
        lines.append(
            f"With fewer samples {below} of {solved} exact matches are better on fresh samples than "
            "answering 0."
        )
    return said(lines)


EXPERIMENT = Declared(
    title="What a match is worth on fresh samples",
    source="Section 6, limitations; the summary's open questions",
    claim="The analysis is about expressivity; generalisation is left to future work.",
    task=FreshErrors(),
    quick=Plan.of(_points(exact=48, within=64, few=True)),
    full=Plan.of(_points(exact=DECIDED, within=DECIDED, few=False)),
    hours=0.05,
    columns={"case": "network kind", "learnable": "learnable"},
)
