"""Local task difficulty against size."""

from __future__ import annotations

from sublearn.experiments._table import Declared, said
from sublearn.experiments._under_noise import levels, paired
from sublearn.experiments.tasks import Difficulties
from sublearn.plots import Figure, curve, log_ticks, name_axes, panels, shared_legend
from sublearn.runs import Plan, Point, Table

_WIDTHS = "5 6 8 10 12 15 17 22 27 32 38 45"


def _point(gamma3: float, students: int) -> Point:
    params = {**levels(0.007, 1.0, gamma3), "approached": 30, "widths": _WIDTHS}
    return paired(params, "widths", students, at_once=4)


def draw(table: Table) -> Figure:
    levels = table.apart("gamma3")
    fig, axes = panels(2 * max(1, len(levels)), across=2, width=4.6, height=3.0)
    for row, (common, level) in enumerate(levels):
        left, right = axes[2 * row : 2 * row + 2]
        sizes = level.column("size")
        ends = (level.column("difficulty_low"), level.column("difficulty_high"))
        label = "local task difficulty, median and quartiles"
        curve(left, sizes, level.column("difficulty"), *ends, label=label)
        critical = level.column("critical")
        curve(left, sizes, critical, label="critical difficulty", colour=1, dashed=True)
        ends = (level.column("ratio_low"), level.column("ratio_high"))
        label = "difficulty over critical difficulty"
        curve(right, sizes, level.column("ratio"), *ends, label=label, colour=2)
        right.axhline(1.0, color="#777777", linewidth=0.8)
        for ax, words in ((left, "difficulty"), (right, "ratio; below 1 it learns")):
            log_ticks(ax)
            ax.set_yscale("log")
            name_axes(ax, "number of weights N", words, title=f"gamma3 = {common['gamma3']:g}")
        low, high = right.get_ylim()
        shown = [tick for tick in (0.2, 0.5, 1, 2, 5, 10, 20, 50) if low <= tick <= high]
        right.set_yticks(shown, [f"{tick:g}" for tick in shown])
        right.yaxis.minorticks_off()
    if not levels:
        for ax in axes:
            name_axes(ax, "number of weights N", "difficulty")
    shared_legend(fig, axes, across=3)
    return fig


def find(table: Table) -> str:
    lines, best = [], []
    for common, level in table.apart("gamma3"):
        first, last = level[0], level[-1]
        low = min(level, key=lambda row: row["ratio"])
        most = max(level, key=lambda row: row["learn"])
        best.append(low["size"])
        lines.append(
            f"gamma3 = {common['gamma3']:g}, {first['students']} students: the median difficulty falls from "
            f"{first['difficulty']:.2g} at N = {first['size']} to {last['difficulty']:.2g} "
            f"at N = {last['size']}, the critical one from {first['critical']:.2g} to "
            f"{last['critical']:.2g}; their ratio is smallest at N = {low['size']}, "
            f"{low['ratio']:.2f} (quartiles {low['ratio_low']:.2f} to "
            f"{low['ratio_high']:.2f}). "
            + (
                f"Most students learn at N = {most['size']}: {most['learn']} of {most['students']}."
                if most["learn"]
                else "No student learns at any size."
            )
        )
    if len(best) > 1 and best[-1] < best[0]:
        lines.append(
            f"More noise moves the best size from N = {best[0]:.0f} to {best[-1]:.0f}, and makes every "
            "size harder."
        )
    return said(lines)


EXPERIMENT = Declared(
    title="Local task difficulty against size",
    source="Slides, 'Local Task Difficulty' (low and high intrinsic noise)",
    claim="Top: low intrinsic noise, gamma3 = 0.05. Bottom: high intrinsic noise, gamma3 = 0.1. Learning "
    "occurs where the difficulty lies below gamma1 / (T (gamma1^2 + gamma2^2 + gamma3^2 N / T)); there is "
    "an optimal size.",
    task=Difficulties(),
    quick=Plan.of(_point(gamma3, 24) for gamma3 in (0.05, 0.1)),
    full=Plan.of(_point(gamma3, 400) for gamma3 in (0.05, 0.1)),
    hours=0.005,
)
