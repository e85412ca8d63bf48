"""More learnable weights than equations: what a surplus buys."""

from __future__ import annotations

from sublearn.experiments._lines import MATCH_PROBABILITY, decided, quartiles
from sublearn.experiments._table import DECIDED, Declared, decided_words, point, pooled, said
from sublearn.experiments.tasks import Matches
from sublearn.plots import Figure, name_axes, panels, shared_legend
from sublearn.runs import Plan, Points, Row, Table

# The network, its samples, the weight that learns, d m, and the numbers of learnable weights.
_CASES = {
    "linear RNN": ("lrnn:n=8,b=1,d=2,T=6", 4, "W", 8, (6, 7, 8, 9, 10, 12, 16, 24, 32)),
    "three linear layers": ("ffn:6-8-8-4", 4, "W2", 16, (13, 16, 18, 20, 24, 32, 48, 64)),
    "shallow ReLU": ("ffn:6-8-4,activation=relu", 3, "W1", 12, (10, 12, 15, 18, 24, 36, 48)),
}
_MEASURES = {
    "size": "size of the solution / of a draw",
    "condition": "condition at the solution",
    "fresh": "relative error on fresh samples",
}


def _points(trials: int, few: bool) -> Points:
    for case, (network, samples, name, needed, counts) in _CASES.items():
        for count in counts[::2] if few else counts:
            own: Row = {"case": case, "r": count, "ratio": count / needed}
            setting = network, samples, f"{name}:random={count}"
            yield point(own, setting, trials, 10)


def draw(table: Table) -> Figure:
    fig, axes = panels(4, across=2)
    for colour, (common, rows) in enumerate(table.apart("case")):
        case = str(common["case"])
        decided(axes[0], rows, "ratio", case, colour)
        matched = rows.where(lambda row: row["size"] is not None)
        for ax, name in zip(axes[1:], _MEASURES, strict=True):
            quartiles(ax, matched, "ratio", name, case, colour=colour)
    words = "learnable weights over equations, r / (d m)"
    name_axes(axes[0], words, MATCH_PROBABILITY, unit_interval=True)
    for ax, name in zip(axes[1:], _MEASURES.values(), strict=True):
        ax.set_yscale("log")
        name_axes(ax, words, name)
    shared_legend(fig, axes)
    return fig


def _like(row: Row) -> str:
    return (
        f"r / (d m) = {row['ratio']:.2g}: size {row['size']:.2g}, condition "
        f"{row['condition']:.2g}, relative fresh error {row['fresh']:.2g}"
    )


def _answer(table: Table) -> list[str]:
    below = table.where(lambda row: row["ratio"] < 1)
    above = table.where(lambda row: row["ratio"] > 1)
    if not below or not above:
        return []
    small, large = pooled(below), pooled(above)
    least = "Yes" if not small["matched"] and not small["undecided"] else "No"
    return [
        f"{least}: with fewer than d m weights {small['matched']} of {small['trials']} instances were "
        f"matched, with more {large['matched']} of {large['trials']}."
    ]


def find(table: Table) -> str:
    lines = _answer(table)
    for common, rows in table.apart("case"):
        case, below = common["case"], rows.where(lambda row: row["ratio"] < 1)
        at, more = rows.where(ratio=1.0), rows.where(lambda row: row["ratio"] > 1)
        for head, some in (("below", below), ("at", at), ("above", more[-1:])):
            lines += [
                f"{case}, {head} r = d m (r = {row['r']}): {decided_words(row)}." for row in some
            ]
        matched = rows.where(lambda row: row["size"] is not None)
        if len(matched) > 1:
            lines.append(
                f"{case}, medians of the matches: {_like(matched[0])}; {_like(matched[-1])}."
            )
        finders = matched.distinct("found_by")
        if finders:
            lines.append(f"{case}, found by: {finders[0]} (fewest weights); {finders[-1]} (most).")
    return said(lines)


EXPERIMENT = Declared(
    title="More learnable weights than equations",
    source="Appendix F.1",
    claim="r = d m is the least number of learnable weights that can match a linear teacher; with more, "
    "some may be used inefficiently and the equations stay solvable.",
    task=Matches(),
    quick=Plan.of(_points(20, few=True)),
    full=Plan.of(_points(DECIDED, few=False)),
    hours=0.01,
    columns={"case": "network kind", "r": "learnable weights r", "ratio": "r / (d m)"},
)
