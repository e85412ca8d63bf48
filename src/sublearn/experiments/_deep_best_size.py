"""The best size of deep sigmoid networks by the rate of a cycle: measured, and by three formulas."""

from __future__ import annotations

from itertools import product

from sublearn.experiments._linear_size import best_words, measured_at
from sublearn.experiments._lines import in_panels
from sublearn.experiments._table import Declared, said
from sublearn.experiments._under_noise import answered, levels, means, paired
from sublearn.experiments.tasks import DeepRates
from sublearn.plots import COLOURS, Axes, Figure, ink, log_ticks
from sublearn.runs import Plan, Points, Row, Table

_WIDTHS = "5 7 9 12 16 22 32 45"
_LEVELS = (0.03, 0.05)


def _points(students: int, draws: int, approached: tuple[int, ...]) -> Points:
    for steps, gamma3 in product(approached, _LEVELS):
        own: Row = {"approached": steps, "widths": _WIDTHS, "draws": draws}
        yield paired({**levels(0.007, 1.0, gamma3), **own}, "widths", students)


def _lines(ax: Axes, rows: Table) -> None:
    sizes = rows.column("size")
    means(ax, rows, "size", "measured, mean of students", "gain")
    formula = rows.column("gain_predicted")
    ax.plot(sizes, formula, color=ink(), linewidth=1.0, label="<k> by formula")
    if rows[0]["best"] is not None:
        label = "measured best size, 95%"
        span = max(rows[0]["best_low"], 1.0), min(rows[0]["best_high"], 3 * sizes[-1])
        ax.axvspan(*span, color=COLOURS[4], alpha=0.15, lw=0, label=label)
    marks = (("best_of_curve", 2, "--", "best size by <k>"),
             ("best_predicted", 1, "-.", "by the published equation"))  # fmt: skip
    for name, colour, line, label in marks:
        if rows[0][name] is not None:
            ax.axvline(rows[0][name], color=COLOURS[colour], linestyle=line, label=label)
    log_ticks(ax)
    ax.set_xlim(0.9 * sizes[0], 1.1 * sizes[-1])


def draw(table: Table) -> Figure:
    title = "{approached} steps into learning, gamma3 = {gamma3:g}"
    groups = table.apart("approached", "gamma3")
    look: Row = {
        "unit_interval": False,
        "legend_across": 3,
        "across": 2,
        "width": 4.8,
        "height": 3.2,
    }
    y = "rate, more than at N = 235"
    return in_panels(groups, _lines, "number of weights N", title, y=y, **look)


def find(table: Table) -> str:
    firsts = [rows[0] for _, rows in table.apart("approached", "gamma3")]
    known = [row for row in firsts if row["best"] is not None]
    if not known:
        return said([], "Too few students to tell where the best size lies." if table else "")
    kept = [measured_at(row, "best_predicted") for row in known]
    yes = False if False in kept else True if all(kept) else None
    ours = [measured_at(row, "best_of_curve") for row in known]
    text = (
        f"the published equation's best size lies in the measured interval in "
        f"{len(kept) - kept.count(False)} of {len(kept)} settings, that of <k> in "
        f"{len(ours) - ours.count(False)}."
    )
    lines = [answered(yes, text)]
    lines += [
        f"{row['approached']} gradient steps into learning, gamma3 = {row['gamma3']:g}, "
        f"{row['repeats']} students: the rate is largest at {best_words(row)}; by <k> "
        f"{row['best_of_curve']:.0f}, by the published equation {row['best_predicted']:.0f}, by the "
        f"slides {row['best_slides']:.0f}."
        for row in known
    ]
    return said(lines)


EXPERIMENT = Declared(
    title="Best size of deep sigmoid networks beside the formulas",
    source="Slides, 'Optimal Non-Linear Network Size'; the published code",
    claim="The best size of a nonlinear network is the root N* of an equation in gamma1, gamma2, gamma3, T "
    "and the size N that it is padded from, wherever it is in learning.",
    task=DeepRates(),
    quick=Plan.of(_points(4, 20, (30,))),
    full=Plan.of(_points(32, 120, (30, 300))),
    hours=0.005,
)
