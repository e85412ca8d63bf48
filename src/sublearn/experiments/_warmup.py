"""Section 2.1: the linear estimator, every way to divide the weights among the rows."""

from __future__ import annotations

from sublearn.experiments._lines import MATCH_PROBABILITY, Figures
from sublearn.experiments._table import Declared, decided_words, point, pooled, said
from sublearn.experiments.tasks import Decisions
from sublearn.plots import COLOURS, figure, ink, name_axes
from sublearn.runs import Plan, Point, Row, Table

INPUTS, OUTPUTS, SAMPLES = 6, 3, 2


def _divisions() -> list[tuple[int, int, int]]:
    """All ways to write d m as d row sizes, largest first."""
    sizes = range(INPUTS + 1)
    return [
        (a, b, c)
        for a in reversed(sizes)
        for b in reversed(sizes[: a + 1])
        for c in reversed(sizes[: b + 1])
        if a + b + c == OUTPUTS * SAMPLES
    ][::-1]


def _point(division: tuple[int, ...], trials: int) -> Point:
    learn = " ".join(f"W:block={row}x0-{size - 1}" for row, size in enumerate(division) if size)
    own: Row = {
        "division": "+".join(map(str, division)),
        "moved": sum(max(0, size - SAMPLES) for size in division),
    }
    setting = f"linear:inputs={INPUTS},outputs={OUTPUTS}", SAMPLES, learn
    return point(own, setting, trials, chunk=50)


def draw(table: Table) -> Figures:
    fig, ax = figure(height=3.2)
    places = range(len(table))
    ax.bar(places, [max(v, 0.012) for v in table.column("share")], width=0.6, color=COLOURS[0])
    for place, row in zip(places, table, strict=True):
        low, high = row["low"], row["high"]
        ax.plot([place, place], [low, high], color=ink(), linewidth=1.4)
        ax.annotate(
            str(row["verdict"]),
            (place, high),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            fontsize=8,
            color=ink(),
        )
    ax.set_xticks(list(places), table.column("division"))
    name_axes(ax, "learnable weights in rows 0, 1 and 2", MATCH_PROBABILITY)
    ax.set_ylim(0, 1.12)
    return {"divisions": fig}


def find(table: Table) -> str:
    equal = table.where(lambda row: row["moved"] == 0)
    other = table.where(lambda row: row["moved"])
    lines = []
    for words, rows in (("Equal division", equal), ("All other divisions", other)):
        if rows:
            verdicts = ", ".join(rows.distinct("verdict"))
            lines.append(f"{words}: {decided_words(pooled(rows))}; certify says {verdicts}.")
    return said(lines)


EXPERIMENT = Declared(
    title="Warm-up: a linear estimator",
    source="Section 2.1, equations (2.1) and (2.2)",
    claim="An allocation of the linear estimator is maximal if every row has exactly m learnable "
    "weights, and minimal otherwise: moving a single weight to another row is enough.",
    task=Decisions(),
    quick=Plan.of(_point(division, 100) for division in _divisions()),
    full=Plan.of(_point(division, 10_000) for division in _divisions()),
    hours=0.02,
    columns={"division": "weights per row", "moved": "weights beyond m in a row"},
)
