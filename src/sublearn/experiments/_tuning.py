"""Which weights of a trained model to tune: the race against fixed rules, on real digits."""

from __future__ import annotations

from sublearn.experiments._table import Declared, said
from sublearn.experiments.tasks._tuning import RACE, SHIFTS, Tuning
from sublearn.models import budget_axis
from sublearn.plots import Figure, curve, name_axes, panels, shared_legend
from sublearn.runs import Plan, Point, Points, Row, Table

_DRAWN = (RACE, "pursuit", "last", "magnitude", "gradient", "random")


def _points(budgets: tuple[int, ...], trials: int) -> Points:
    for shift in SHIFTS:
        for budget in budgets:
            params: Row = {"shift": shift, "budget": budget, "samples": 100, "steps": 60}
            yield Point(params, trials, chunk=1)


def draw(table: Table) -> Figure:
    fig, axes = panels(len(SHIFTS), across=2)
    for ax, shift in zip(axes, SHIFTS, strict=True):
        for colour, method in reversed(list(enumerate(_DRAWN))):  # the race last, on top
            rows = table.where(shift=shift, method=method)
            curve(ax, rows.column("budget"), rows.column("score"), label=method, colour=colour)
        budget_axis(ax, table.where(shift=shift).distinct("budget"))
        name_axes(ax, "weights tuned r", "accuracy on fresh digits", title=shift)
    shared_legend(fig, axes, across=3)
    return fig


def find(table: Table) -> str:
    lines = []
    for common, rows in table.apart("budget"):
        regret = {one["method"]: some.column("regret") for one, some in rows.apart("method")}
        mean = {method: sum(found) / len(found) for method, found in regret.items()}
        others = sorted((m for m in mean if m != RACE), key=lambda method: mean[method])
        lines.append(
            f"r = {common['budget']}: behind the best rule in hindsight by {mean[RACE]:.3f} (the race), "
            + ", ".join(f"{mean[method]:.3f} ({method})" for method in others[:3])
            + f", ..., {mean[others[-1]]:.3f} ({others[-1]}); the race's worst shift "
            f"{max(regret[RACE]):.3f}."
        )
    return said(lines)


EXPERIMENT = Declared(
    title="Which weights to tune: a race on one's own samples",
    source="Beyond the paper; the rules are those in use for sparse fine-tuning",
    claim="No fixed rule is best everywhere.",
    task=Tuning(),
    quick=Plan.of(_points((30, 300), trials=2)),
    full=Plan.of(_points((30, 100, 300, 1000), trials=20)),
    hours=0.3,
    needs="torch",
)
