"""Several synapses for each connection: where errors settle, against how many there are."""

from __future__ import annotations

from sublearn.experiments._linear_size import (
    TOO_FEW,
    WIDE,
    best_words,
    rate_point,
    steady_panel,
    steady_point,
    steady_words,
)
from sublearn.experiments._noise_and_size import curves
from sublearn.experiments._table import Declared, said
from sublearn.experiments._under_noise import answered, best_sizes, power_law
from sublearn.experiments.tasks import LinearSizes
from sublearn.plots import Figure, ink, name_axes, panels, shared_legend
from sublearn.runs import Plan, Points, Row, Table

# Synapses for each of 50 connections, as far above the predicted best size T gamma2^2 / gamma3^2 as below:
# the curve is the same on both sides of it, in log N, and a fit then errs to neither.
_AROUND = {
    0.05: "1 2 3 5 8 13 21 32 64",
    0.06: "1 2 3 4 6 8 12 18 32",
    0.07: "1 2 3 4 5 6 8 12 16",
}
_GAMMA1 = 0.05
_FASTEST = "2 4 6 8 12 16 24 32 48 64"


def _points(repeats: int, draws: int, batches: int) -> Points:
    for g3, around in _AROUND.items():
        yield steady_point((_GAMMA1, 1.0, g3), 0.0, repeats, around, 2000, grow="synapses")
    yield rate_point("synapses", (_GAMMA1, 1.0, 0.05), draws, batches, _FASTEST)


def draw(table: Table) -> Figure:
    fig, (left, right) = panels(2, width=4.8, height=3.6)
    steady_panel(left, table.where(quantity="steady state"))
    by_kind = curves(table)
    if rows := by_kind.get("steady state"):
        best_sizes(right, rows, "gamma3", "measured: smallest steady-state error", 0)
    if rows := by_kind.get("rate"):
        best_sizes(right, rows, "gamma3", "measured: largest rate", 2, 1.03)
        label = "largest rate by formula"
        right.plot(0.05, rows[0]["best_predicted"], "_", ms=22, color=ink(), label=label)
    power_law(right, list(_AROUND), -2.0)
    name_axes(right, "synaptic noise gamma3", "best size N = 50 synapses")
    shared_legend(fig, (left, right), across=2)
    return fig


def exists(row: Row) -> bool | None:
    """Whether the best size lies inside the range; None where it is not known well."""
    return bool(row["inside"]) if row["best_high"] < WIDE * row["best_low"] else None


def _as_predicted(rows: Table) -> str:
    kept = sum(row["best_low"] <= row["best_of_curve"] <= row["best_high"] for row in rows)
    over = [row["best"] / row["best_of_curve"] for row in rows]
    return (
        f"The predicted best size lies in the 95% interval in {kept} of {len(rows)} cases; measured over "
        f"predicted lies between {min(over):.2f} and {max(over):.2f}."
    )


def find(table: Table) -> str:
    lines, by_kind = [], curves(table)
    settled = by_kind.get("steady state", Table())
    if settled:
        kept = [exists(row) for row in settled]
        yes = False if False in kept else True if len(kept) > 1 and all(kept) else None
        each = "; ".join(
            f"gamma3 = {row['gamma3']:g}: {best_words(row)}, predicted {row['best_of_curve']:.0f}, "
            f"to leading order {row['best_predicted']:.0f}"
            for row in settled
        )
        lines.append(answered(yes, f"the steady-state error is smallest at {each}."))
        lines.append(_as_predicted(settled))
    if fast := by_kind.get("rate"):
        lines.append(
            f"The rate of a cycle at gamma3 = 0.05 is largest at {best_words(fast[0])}, by formula "
            f"{fast[0]['best_predicted']:.0f}: what learns fastest does not end lowest."
        )
    if steady := table.where(quantity="steady state"):
        lines.append(steady_words(steady)[0])
    return said(lines, TOO_FEW if table else "")


EXPERIMENT = Declared(
    title="Redundant synapses: where errors settle",
    source="Slides, motivation and 'Interpretation: add neurons or redundant synapses'",
    claim="Adding redundant synapses helps up to an optimal number, beyond which synaptic noise outweighs "
    "what they gain.",
    task=LinearSizes(),
    quick=Plan.of(_points(5, 60, 8)),
    full=Plan.of(_points(64, 1000, 40)),
    hours=0.012,
)
