"""Expressible against learnable: do learners find the matches that exist?"""

from __future__ import annotations

from typing import Any

from sublearn.estimates import clopper_pearson
from sublearn.experiments._lines import Figure, decided, in_panels, reached
from sublearn.experiments._table import (
    ADAHESSIAN,
    DECIDED,
    NAMES,
    NEWTON,
    Declared,
    decided_words,
    point,
    reached_words,
    said,
)
from sublearn.experiments.tasks import LearntMatches
from sublearn.experiments.tasks._training import EXACT, WITHIN
from sublearn.runs import Plan, Points, Row, Table

_EPS = 1e-2
_FIRST_ORDER = ("adam", "sgd", "gradient-descent")
_LEARNERS = (NEWTON, ADAHESSIAN, *_FIRST_ORDER)
# The network, its samples, the weight that learns, so many of its entries, and rows that they may fill.
_CASES: dict[str, tuple[str, int, str, int, tuple[int, ...]]] = {
    "linear RNN": ("lrnn:n=8,b=1,d=4,T=4", 4, "W", 16, (4, 5, 6, 7, 8)),
    "three linear layers": ("ffn:4-8-8-6", 4, "W2", 24, (6, 7, 8)),
    "shallow ReLU": ("ffn:6-8-4,activation=relu", 6, "W1", 24, (4, 6, 8)),
}


def _points(exact: int, within: int, steps: int) -> Points:
    for case, (network, samples, weight, count, rows) in _CASES.items():
        allocations = {f"rows {k}": f"first-rows={k}" for k in rows}
        allocations |= {"spread": f"spread={count}", "anywhere": f"random={count}"}
        for name, rule in allocations.items():
            own: Row = {"case": case, "allocation": name}
            setting = network, samples, f"{weight}:{rule}"
            yield point(own, setting, exact, 10, method="ladder")
            for learner in _LEARNERS:
                most = min(steps, 200) if learner == NEWTON else steps
                training: Row = {"method": learner, "eps": _EPS, "steps": most, "starts": 2}
                yield point(own, setting, within, 25, **training)


def draw(table: Table) -> Figure:
    def lines(ax: Any, rows: Table) -> None:
        names = rows.distinct("allocation")
        placed = Table({**row, "place": names.index(row["allocation"])} for row in rows)
        decided(ax, placed.where(question=EXACT), "place", "decided")
        for colour, learner in enumerate(_LEARNERS, 1):
            some = placed.where(question=WITHIN, method=learner)
            reached(ax, some, "place", f"{NAMES[learner]}, within {_EPS:g}", colour, dashed=True)
        ax.set_xticks(range(len(names)), names, rotation=45, ha="right", fontsize=8)

    look: dict[str, Any] = {"y": "share of instances", "legend_across": 3, "height": 3.3}
    return in_panels(table.apart("case"), lines, "allocation", "{case}", **look)


def _answer(table: Table) -> list[str]:
    """Whether what is always expressible is learnt, by first-order learners and by Levenberg-Marquardt."""
    sure = table.where(question=EXACT).where(lambda row: row["matched"] == row["trials"])
    trained = Table()
    for row in sure:
        trained += table.where(case=row["case"], allocation=row["allocation"], question=WITHIN)
    if not trained:
        return ["Not decided by this: nowhere did every instance have a match."]
    lines = []
    for learners, words in ((_FIRST_ORDER, "first-order learners"), ((NEWTON,), NAMES[NEWTON])):
        rows = Table(row for row in trained if row["method"] in learners)
        if not rows:
            continue
        got, of = (int(sum(rows.column(name))) for name in ("within", "trials"))
        low, high = clopper_pearson(got, of)
        kind = "No" if high < 0.5 else "Yes, mostly" if low > 0.5 else "Not decided by this"
        lines.append(
            f"{kind}, by {words}: where every instance had an exact match, {got} of {of} came within "
            f"{_EPS:g}, with {max(rows.column('steps'))} steps from each of {rows[0]['starts']} starts "
            f"(95%: {low:.3f} to {high:.3f})."
        )
    return lines


def _hardest(table: Table) -> list[str]:
    """Whether the rows that Theorem 3.5 proves maximal are harder to train than more rows."""
    rows = table.where(lambda row: str(row["allocation"]).startswith("rows "), case="linear RNN")
    trained, exact = rows.where(method=NEWTON), rows.where(question=EXACT)
    if len(trained) < 2 or len(exact) != len(trained):
        return []
    first, more = trained[0], Table(trained[1:])
    got, of = (int(sum(more.column(name))) for name in ("within", "trials"))
    low, high = clopper_pearson(got, of)
    kind = (
        "yes"
        if first["within_high"] < low
        else "no"
        if first["within_low"] > high
        else "not decided by this"
    )
    lines = [
        f"Are the rows that Theorem 3.5 proves maximal ({first['allocation']}) the hardest to train? {kind}: "
        f"Levenberg-Marquardt comes within {_EPS:g} in {reached_words(first)}, in more rows in {got} of {of} "
        f"(95%: {low:.3f} to {high:.3f})."
    ]
    for name, words in (("distance", "far away"), ("condition", "ill-conditioned")):
        own, *others = (row[name] for row in exact)
        if own is not None and others and None not in others:
            most = "most" if own > max(others) else "not most"
            lines.append(
                f"Its matches are {most} {words}: median {name} {own:.2g}, in more rows "
                f"{min(others):.2g} to {max(others):.2g}."
            )
    return lines


def find(table: Table) -> str:
    lines = _answer(table) + _hardest(table) if table else []
    for case in table.distinct("case"):
        for common, rows in table.where(case=case).apart("allocation"):
            each = "; ".join(
                f"{NAMES[row['method']]} {reached_words(row)}"
                for row in rows.where(question=WITHIN)
            )
            for exact in rows.where(question=EXACT) if each else []:
                sizes = ("size", "distance", "condition")
                why = ", ".join(
                    f"{name} {exact[name]:.2g}" for name in sizes if exact[name] is not None
                )
                why = f"; the matches have median {why}" if why else ""
                lines.append(
                    f"{case}, {common['allocation']}: a match exists in {decided_words(exact)}{why}; "
                    f"within {_EPS:g}: {each}."
                )
    return said(lines)


EXPERIMENT = Declared(
    title="Expressible against learnable",
    source="Open questions 1 and 3 of the summary; appendix E.1",
    claim="Whether the allocations with the best match probability can be learnt in practice, by gradient "
    "descent in particular, is left open.",
    task=LearntMatches(),
    quick=Plan.of(_points(exact=10, within=10, steps=300)),
    full=Plan.of(_points(exact=DECIDED, within=100, steps=2000)),
    hours=0.1,
    columns={"case": "network kind", "allocation": "allocation"},
)
