"""Expressible against learnable: do learners find the matches that exist?"""

from __future__ import annotations

from typing import Any

from sublearn.experiments._lines import Figure, decided, in_panels, reached
from sublearn.experiments._table import (
    ADAHESSIAN,
    DECIDED,
    NAMES,
    NEWTON,
    Declared,
    copies_in,
    decided_words,
    low_end,
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
        often, seldom = (low_end(n, of, copies_in(rows)) > 0.5 for n in (got, of - got))
        kind = "No" if seldom else "Yes, mostly" if often else "Not decided by this"
        lines.append(
            f"{kind}, by {words} with {max(rows.column('steps'))} steps from each of {rows[0]['starts']} "
            f"starts: where every instance had an exact match, {got} of {of} came within {_EPS:g}"
            f"{' (first-order has a larger budget)' * (learners == _FIRST_ORDER)}."
        )
    return lines


def _hardest(case: str, table: Table) -> list[str]:
    """Whether the fewest rows, for linear RNNs those that Theorem 3.5 proves maximal, are the hardest."""
    rows = table.where(lambda row: str(row["allocation"]).startswith("rows "))
    trained, exact = rows.where(method=NEWTON), rows.where(question=EXACT)
    if len(trained) < 2 or len(exact) != len(trained):
        return []
    first, more = trained[0], Table(trained[1:])
    got, of = (int(sum(more.column(name))) for name in ("within", "trials"))
    hardest = first["within_high"] < low_end(got, of, len(more))
    often = first["within"] * of > got * first["trials"]  # on the same instances
    kind = "yes" if hardest else "no" if often else "not decided by this"
    lines = [
        f"{case}: are the fewest rows ({first['allocation']}) the hardest to train? {kind}: "
        f"Levenberg-Marquardt comes within {_EPS:g} in {reached_words(first)}, in more rows in {got} of {of}."
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
    lines = _answer(table) if table else []
    for common, rows in table.apart("case"):
        lines += _hardest(common["case"], rows)
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
