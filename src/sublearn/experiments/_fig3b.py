"""Figure 3b: shallow ReLU networks, exact matches beside matches within eps."""

from __future__ import annotations

from typing import Any

from sublearn.experiments._lines import Figure, decided, in_panels, reached
from sublearn.experiments._table import (
    ADAHESSIAN,
    DECIDED,
    NAMES,
    NEWTON,
    Declared,
    by_ladder,
    point,
    pooled,
    pooled_words,
    reached_words,
    said,
)
from sublearn.experiments.tasks import ExactOrWithin
from sublearn.runs import Plan, Point, Row, Table

EPS = 1e-2  # the paper's (appendix E.1)


def _setting(n: int, k: int) -> tuple[str, int, str]:
    return f"ffn:6-{n}-4,activation=relu", 6, f"W1:first-rows={k}"


def _exact(n: int, k: int, trials: int) -> Point:
    more: Row = {"method": "ladder", "beside": NEWTON, "eps": EPS}
    return point({"n": n, "k": k}, _setting(n, k), trials, 8, **more)


def _within(n: int, k: int, method: str, trials: int, steps: int, starts: int) -> Point:
    more: Row = {"method": method, "eps": EPS, "steps": steps, "starts": starts}
    return point({"n": n, "k": k}, _setting(n, k), trials, 32, **more)


def draw(table: Table) -> Figure:
    ends = [row.get(name) for row in table for name in ("high", "within_high")]
    top = min(1.03, max((float(end) for end in ends if end is not None), default=0.5) + 0.05)

    def lines(ax: Any, rows: Table) -> None:
        paper = f"within {EPS:g}, AdaHessian (the paper's criterion and learner)"
        reached(ax, rows.where(method=ADAHESSIAN), "k", paper, colour=1, dashed=True)
        reached(ax, rows.where(method=NEWTON), "k", f"within {EPS:g}, {NAMES[NEWTON]}", colour=2)
        decided(ax, rows, "k", "exact match, decided")
        ax.set_xlim(3.5, rows[0]["n"] + 0.5)

    y, title = "share of instances", "n = {n} hidden units"
    fig = in_panels(table.apart("n"), lines, "rows in use, k", title, y=y, legend_across=2)
    for ax in fig.axes if table else ():
        ax.set_ylim(-0.02, top)
    return fig


def _rise(rows: Table) -> str:
    """The first and the last k of one learner."""
    first, last = rows[0], rows[-1]
    text = f"{reached_words(first)} at k = {first['k']}"
    return text if first is last else f"from {text} to {reached_words(last)} at k = {last['k']}"


def find(table: Table) -> str:
    lines = []
    exact = by_ladder(table)
    for n in table.distinct("n"):
        lines += pooled_words(table.where(n=n), ["n"], "k", "Exact match")
        learners = [(name, table.where(n=n, method=name)) for name in (ADAHESSIAN, NEWTON)]
        each = [f"{NAMES[name]} {_rise(found)}" for name, found in learners if found]
        if each:
            lines.append(f"Within eps = {EPS:g}, n = {n}: {'; '.join(each)}.")
    if exact:
        total = pooled(exact)
        lines.append(
            f"Of {total['trials']} instances {total['proved']} are decided by proof and "
            f"{total['undecided']} are undecided."
        )
        matched, refuted, near, nearly = (
            sum(exact.column(name))
            for name in ("matched", "refuted", "matched_within", "refuted_within")
        )
        lines.append(
            f"Levenberg-Marquardt comes within eps in {near} of the {matched} instances that have an exact "
            f"match, and in {nearly} of the {refuted} that have none."
        )
    relative = [row["relative_eps"] for row in table.where(method=NEWTON)]
    if relative:
        lines.append(
            f"eps is {min(relative):.1%} to {max(relative):.1%} of the targets' mean square: within eps "
            "is another question than an exact match, and its share belongs to the learner."
        )
    return said(lines)


_QUICK = {8: (4, 5, 6, 7, 8), 12: (4, 6, 8, 12), 16: (4, 6, 8, 12, 16)}
_FULL = {n: tuple(range(4, n + 1)) for n in (8, 12, 16)}

EXPERIMENT = Declared(
    title="Figure 3b: shallow ReLU networks, exactly and within eps",
    source="Figure 3b; section 5; appendices D and E.1",
    claim="In a shallow ReLU network (q = 6, d = 4, m = 6) with 24 learnable weights in the first k rows "
    "of W1 the match probability rises with k; a match is there a mean squared error below 1e-2, "
    "reached by AdaHessian.",
    task=ExactOrWithin(),
    quick=Plan.of(
        (_exact(n, k, 24 if k <= 8 else 12) for n, ks in _QUICK.items() for k in ks),
        (_within(n, k, ADAHESSIAN, 16, 1000, 1) for n, ks in _QUICK.items() for k in ks),
        (_within(n, k, NEWTON, 48, 200, 10) for n, ks in _QUICK.items() for k in ks),
    ),
    full=Plan.of(
        (_exact(n, k, DECIDED) for n, ks in _FULL.items() for k in ks),
        (_within(n, k, ADAHESSIAN, 100, 2000, 10) for n, ks in _FULL.items() for k in ks),
        (_within(n, k, NEWTON, 200, 200, 10) for n, ks in _FULL.items() for k in ks),
    ),
    hours=0.32,
    columns={"n": "hidden units n", "k": "rows k"},
)
