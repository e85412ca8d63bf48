"""Other laws than the normal one, with and without a density."""

from __future__ import annotations

from sublearn.experiments._lines import MATCH_PROBABILITY
from sublearn.experiments._table import Declared, decided_words, point, pooled, said
from sublearn.experiments.tasks import Decisions
from sublearn.plots import COLOURS, MARKERS, Figure, ink, name_axes, panels
from sublearn.runs import Plan, Point, Row, Table

# Name: the ensemble, and whether every law in it has a density.
_CASES = {
    "normal": ("", True),
    "uniform": ("weights=uniform teacher=uniform inputs=uniform", True),
    "student-t": ("weights=student-t teacher=student-t inputs=student-t", True),
    "signs, teacher": ("teacher=rademacher", False),
    "signs, inputs": ("inputs=rademacher", False),
    "signs, all": ("weights=rademacher teacher=rademacher inputs=rademacher", False),
    "sparse, all": ("weights=sparse teacher=sparse inputs=sparse", False),
}
_SETTINGS = {
    "diagonal, n = 2": ("lrnn:n=2,b=1,d=1,T=2", 2, "W:diagonal"),
    "one row, n = 2": ("lrnn:n=2,b=1,d=1,T=2", 2, "W:rows=0"),
    "k = 5 rows, n = 6, d = 4": ("lrnn:n=6,b=1,d=4,T=3", 3, "W:first-rows=5"),
}


def _point(setting: str, case: str, trials: int) -> Point:
    ensemble, density = _CASES[case]
    own: Row = {"setting": setting, "case": case, "density": density}
    # Without a density generic facts may not refute; what is not found early mostly stays open.
    starts = 3000 if density else 30
    return point(own, _SETTINGS[setting], trials, 10, ensemble=ensemble, starts=starts)


def draw(table: Table) -> Figure:
    settings = table.apart("setting")
    fig, axes = panels(len(settings), height=3.2)
    for ax, (common, rows) in zip(axes, settings, strict=False):
        for place, row in enumerate(rows):
            colour = 0 if row["density"] else 1
            wide: Row = {"linewidth": 6, "alpha": 0.25, "solid_capstyle": "butt"}
            thin: Row = {"marker": MARKERS[colour], "markersize": 5}
            for ends, look in ((("low", "high"), wide), (("share", "possible"), thin)):
                x = [row[end] for end in ends]
                ax.plot(x, [place] * 2, color=COLOURS[colour], **look)
        ax.set_yticks(range(len(rows)), rows.column("case"))
        ax.invert_yaxis()
        name_axes(ax, MATCH_PROBABILITY, "laws", title=common["setting"])
        ax.set_xlim(-0.03, 1.03)
        ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    fig.supxlabel(
        "circles: laws with a density; squares: without; shaded: 95% interval",
        fontsize=8.5,
        color=ink(),
    )
    return fig


def find(table: Table) -> str:
    lines = []
    for common, rows in table.apart("setting"):
        each = "; ".join(f"{row['case']} {decided_words(row)}" for row in rows)
        lines.append(f"{common['setting']}: {each}.")
    discrete = table.where(density=False)
    if discrete:
        total = pooled(discrete)
        lines.append(
            "Without a density no fact that holds almost surely may be used, rank included: "
            f"{total['undecided']} of {total['trials']} such instances stay undecided."
        )
    return said(lines)


EXPERIMENT = Declared(
    title="Weights and inputs that are not normal",
    source="Section 2 (assumptions); appendix F.1",
    claim="The weights are taken to be normal and independent, which guarantees that the matrices "
    "that occur are invertible; other laws are not tried.",
    task=Decisions(),
    quick=Plan.of(_point(s, case, 80) for s in _SETTINGS for case in _CASES),
    full=Plan.of(_point(s, case, 2000) for s in _SETTINGS for case in _CASES),
    hours=0.03,
    columns={"setting": "setting", "case": "laws", "density": "all have a density"},
)
