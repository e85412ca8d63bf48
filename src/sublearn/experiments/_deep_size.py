"""A deep sigmoid network against its size, at three levels of synaptic noise."""

from __future__ import annotations

from typing import Any

from sublearn.experiments._table import Declared, said
from sublearn.experiments._under_noise import errors_away, levels, means, paired, with_error
from sublearn.experiments.raman2019 import DEEP_NOISE, DEEP_WIDTHS
from sublearn.experiments.tasks import DeepSizes
from sublearn.plots import COLOURS, Axes, Figure, log_ticks, name_axes, panels, shared_legend
from sublearn.runs import Plan, Point, Row, Table

LONG = 5000
LONGEST = 20_000


def _point(
    gamma3: float, cycles: int, repeats: int, widths: tuple[int, ...] = DEEP_WIDTHS
) -> Point:
    own: Row = {"cycles": cycles, "widths": " ".join(map(str, widths))}
    # A chunk is one repeat of all widths: some seconds at most.
    return paired({**levels(0.007, 1.0, gamma3), **own}, "widths", repeats)


def draw(table: Table) -> Figure:
    fig, (left, right) = panels(2, width=4.8, height=3.6)
    for colour, (common, rows) in enumerate(table.apart("gamma3", "cycles")):
        gamma3, cycles = common.values()
        look: dict[str, Any] = {"colour": colour, "dashed": cycles in (LONG, LONGEST)}
        label = f"gamma3 = {gamma3:g}, {cycles} cycles"
        means(left, rows, "size", label, **look)
        if gamma3 and rows[0]["best_size"] is not None:
            _mark(left, rows, colour)
        means(right, rows, "size", label, "less", **look)
    right.axhline(0.0, color="#777777", linewidth=0.8)
    sizes = table.column("size") or [235, 9235]
    left.set_xlim(0.7 * min(sizes), 1.2 * max(sizes))
    for ax, words in ((left, "error of the last 50 cycles"), (right, "less error than width 5")):
        log_ticks(ax)
        name_axes(ax, "number of weights N", words)
    left.set_ylim(bottom=0.0)
    title = "mean over repeats; star: smallest, 95%; dotted: published equation"
    left.set_title(title, loc="left", fontsize=9)
    right.set_title("repeats paired", loc="left", fontsize=10)
    shared_legend(fig, (left, right), across=2)
    return fig


def _mark(ax: Axes, rows: Table, colour: int) -> None:
    """The measured best size with its 95% interval, below the curve, and the published equation's."""
    row, shade = rows[0], COLOURS[colour]
    ends = [[row["best_size"] - row["best_low"]], [row["best_high"] - row["best_size"]]]
    low = min(rows.column("value")) * 0.9
    ax.errorbar(row["best_size"], low, xerr=ends, color=shade, marker="*", ms=9, capsize=3)
    ax.axvline(row["best_predicted"], color=shade, linestyle=":", linewidth=1.0)


def _best(rows: Table) -> Row:
    return next(row for row in rows if row["best"])


def _without(rows: Table) -> str:
    """Without noise: is the smallest network the worst?"""
    first, best = rows[0], _best(rows)
    text = (
        f"Without synaptic noise, {first['cycles']} cycles, {first['repeats']} paired repeats: the error "
        f"goes from {with_error(first)} at width {first['width']} to "
        f"{with_error(rows[-1])} at width {rows[-1]['width']}"
    )
    worst = max(rows, key=lambda row: row["value"])
    if worst is first and best is not first:
        text += (
            f"; the smallest network is the worst, by {with_error(first, 'more')} over width "
            f"{best['width']} ({errors_away(first, 'more'):.1f} standard errors)."
        )
        return text
    return f"{text}; the worst is width {worst['width']}."


def _with(rows: Table) -> str:
    """With noise: is the largest network worse than the best?"""
    last, first, best = rows[-1], rows[0], _best(rows)
    text = (
        f"gamma3 = {last['gamma3']:g}, {last['cycles']} cycles, {last['repeats']} paired repeats: width "
        f"{best['width']} is best with {with_error(best)}"
    )
    for row, words in ((last, "largest"), (first, "smallest")):
        if row is not best:
            text += (
                f"; the {words} network (width {row['width']}) has "
                f"{with_error(row, 'more', sign=True)} more error "
                f"({errors_away(row, 'more'):.1f} standard errors)"
            )
    if last["best_size"] is not None:
        text += (
            f"; fitted, the error is smallest at N = {last['best_size']:.0f} (95%: {last['best_low']:.0f} "
            f"to {last['best_high']:.0f}{'' if last['inside'] else ', at an end of the range'}), by the "
            f"published equation at {last['best_predicted']:.0f}"
        )
    return f"{text}."


def _longer(table: Table) -> list[str]:
    """What more cycles do to the two flanks, and whether errors still fall."""
    noisy = table.where(lambda row: row["gamma3"] and row["repeats"] > 1)
    lines = []
    for common, some in noisy.apart("gamma3"):
        gamma3 = common["gamma3"]
        curves = [some.where(cycles=cycles) for cycles in sorted(some.distinct("cycles"))]
        if len(curves) < 2:
            continue
        for place, words in ((0, "smallest"), (-1, "largest")):
            each = ", ".join(
                f"{with_error(rows[place], 'more')} after {rows[place]['cycles']} (best: width "
                f"{_best(rows)['width']})"
                for rows in curves
            )
            lines.append(
                f"More error of the {words} network at gamma3 = {gamma3:g}: {each} cycles."
            )
        last = curves[-1]
        ends = "; ".join(
            f"width {row['width']}: {with_error(row, 'change', sign=True)}"
            for row in (last[0], _best(last), last[-1])
        )
        lines.append(f"Change over the last tenth of the {last[0]['cycles']} cycles: {ends}.")
    return lines


def find(table: Table) -> str:
    lines = []
    for gamma3 in table.distinct("gamma3"):
        for _, rows in table.where(gamma3=gamma3).apart("cycles"):
            if rows[0]["repeats"] < 2:
                lines.append(f"gamma3 = {gamma3:g}: one repeat shows nothing.")
            else:
                lines.append(_with(rows) if gamma3 else _without(rows))
    lines += _longer(table)
    if lines:
        lines.append(
            "The best width is chosen on the same repeats, so differences to it lean to the large side."
        )
    return said(lines)


EXPERIMENT = Declared(
    title="Deep sigmoid networks: error against size",
    source="Slides, 'Optimal Non-Linear Network Size'; Raman, Rotondo and O'Leary (2019)",
    claim="Larger networks learn better, but intrinsically noisy synapses eventually negate the benefits "
    "of larger network size.",
    task=DeepSizes(),
    quick=Plan.of(_point(gamma3, 1500, 5) for gamma3 in DEEP_NOISE),
    full=Plan.of(
        (_point(gamma3, 1500, 96) for gamma3 in DEEP_NOISE),
        [_point(0.05, LONG, 96), _point(0.05, LONGEST, 96, (5, 8, 12, 22, 45))],
    ),
    hours=0.13,
)
