"""Best size against the time of a cycle, and against change that the task does not ask for."""

from __future__ import annotations

from sublearn.experiments._linear_size import TOO_FEW, best_words, predicted_words, rate_point
from sublearn.experiments._noise_and_size import exponent
from sublearn.experiments._table import Declared, said
from sublearn.experiments._under_noise import answered, best_sizes, power_law
from sublearn.experiments.tasks import LinearSizes
from sublearn.plots import Figure, name_axes, panels, shared_legend
from sublearn.runs import Plan, Points, Table

_GAMMA1, _GAMMA3 = 0.8, 0.05
SHARP = 0.25
"""Largest standard error of a power that tells 1 from 2 and both from 0."""
# Factors c with N = 50 c^2 around the predicted best size T gamma2^2 / gamma3^2.
_AROUND = {
    200.0: "1 1.2 1.4 1.6 2 2.4 2.8 3.2 3.8",
    400.0: "1.2 1.6 2 2.4 2.8 3.2 3.6 4.2 4.8 5.4",
    800.0: "1.8 2.2 2.8 3.4 4 4.6 5.4 6.4 7.6",
    1600.0: "2.6 3.2 4 4.8 5.6 6.6 7.8 9 10.4",
}
_VARIED = {"T": (1.0, "time of a cycle T"), "gamma2": (2.0, "task-irrelevant change gamma2")}


def _points(draws: int, batches: int) -> Points:
    levels = [(size / 400.0, 1.0, around) for size, around in _AROUND.items()]
    levels += [(1.0, round(T**0.5, 4), around) for T, _, around in levels if T != 1.0]
    for T, gamma2, around in levels:
        yield rate_point("expansion", (_GAMMA1, gamma2, _GAMMA3), draws, batches, around, T=T)


def _curve(table: Table, name: str) -> Table:
    """One row for each value of T, or of gamma2, whose best size was measured; the other is 1."""
    other = "gamma2" if name == "T" else "T"
    rows = table.where(lambda row: row[other] == 1.0 and row["best"] is not None)
    return Table(rows.where(**{name: value})[0] for value in sorted(rows.distinct(name)))


def draw(table: Table) -> Figure:
    fig, axes = panels(2, width=4.6)
    for ax, (name, (power, words)) in zip(axes, _VARIED.items(), strict=True):
        rows = _curve(table, name)
        best_sizes(ax, rows, name, "measured: largest rate", 0)
        if rows:
            power_law(ax, rows.column(name), power, _GAMMA3**-2)
        name_axes(ax, words, "best size N")
    shared_legend(fig, axes)
    return fig


def find(table: Table) -> str:
    lines, powers, near, sharp = [], [], [], []
    for name, (power, _) in _VARIED.items():
        rows = _curve(table, name)
        if len(rows) > 2:
            measured, error = exponent(rows, name)
            near.append(abs(measured - power) <= 3 * error)
            sharp.append(error <= SHARP)
            powers.append(
                f"{name} to the power {measured:.2f} +- {error:.2f}, by the formula {power:g}"
            )
        each = "; ".join(
            f"{name} = {row[name]:g}: {best_words(row)}, {predicted_words(row)}" for row in rows
        )
        lines += [f"The rate is largest at: {each}."] if each else []
    if powers:
        yes = False if not all(near) else True if all(sharp) and len(near) == 2 else None
        lines.insert(0, answered(yes, f"the best size goes as {'; and as '.join(powers)}."))
    return said(lines, TOO_FEW if table else "")


EXPERIMENT = Declared(
    title="Best size against time and task-irrelevant change",
    source="Slides, the optimal size",
    claim="The optimal size is proportional to T gamma2^2 / gamma3^2: it grows with the time between "
    "corrections, and with change that the task does not ask for.",
    task=LinearSizes(),
    quick=Plan.of(_points(60, 12)),
    full=Plan.of(_points(1000, 40)),
    hours=0.02,
)
