"""From weights to activity: how widely does a match change what the hidden units do?"""

from __future__ import annotations

from statistics import median

from sublearn.experiments._lines import quartiles
from sublearn.experiments._table import DECIDED, Declared, point, said
from sublearn.experiments.tasks import Activity
from sublearn.plots import Figure, name_axes, panels, shared_legend
from sublearn.runs import Plan, Points, Row, Table

_NETWORK, _SAMPLES, _N, _STEPS = "lrnn:n=16,b=1,d=2,T=4", 4, 16, 4
_WHERE = {"rows": "W:first-rows={k}", "columns": "W:first-columns={k}"}
_SCALES = (0.5, 1.0, 2.0)
_NEEDED, _MANY = 8, 32  # learnable weights: d m, and four times as many


def _points(trials: int, few: bool) -> Points:
    for g in _SCALES:
        for place, learn in _WHERE.items():
            for k in (2, 4, 8, 16) if few or g != 1 else (2, 3, 4, 6, 8, 10, 12, 16):
                if few and g != 1 and k not in (2, 16):
                    continue
                own: Row = {"place": place, "k": k, "used": k / _N, "g": g, "r": _NEEDED}
                setting = _NETWORK, _SAMPLES, learn.format(k=k)
                laws = f"weights=normal*{g} teacher=normal*{g}"
                yield point(own, setting, trials, 4, ensemble=laws)
    for k in (2, 4, 8, 16):  # every weight of k rows and r / k columns
        own = {"place": "rows", "k": k, "used": k / _N, "g": 1.0, "r": _MANY}
        setting = _NETWORK, _SAMPLES, f"W:block=0-{k - 1}x0-{_MANY // k - 1}"
        yield point(own, setting, trials, 4, ensemble="weights=normal*1.0 teacher=normal*1.0")


def draw(table: Table) -> Figure:
    fig, axes = panels(3, width=3.9, height=3.8)
    shown = table.where(lambda row: row["change"] is not None, g=1.0)
    for colour, (common, rows) in enumerate(shown.apart("place", "r")):
        where = f"{common['place']}, r = {common['r']}"
        for ax, names in zip(axes, _SHOWN, strict=True):
            for dashed, (name, words) in enumerate(names.items()):
                some = Table(row for row in rows if row[name] is not None)
                look = {"colour": colour + 3 * dashed, "dashed": bool(dashed)}
                quartiles(ax, some, "used", name, f"{where}, {words}", **look)
    words = "share of lines with learnable weights"
    name_axes(axes[0], words, "share of units moved", unit_interval=True)
    axes[1].set_yscale("log")
    name_axes(axes[1], words, "squared change / activity")
    name_axes(axes[2], words, "share of variance that is new", unit_interval=True)
    shared_legend(fig, axes, across=3)
    return fig


_MATCH, _REDRAWN = "by the nearest match", "by drawing the weights anew"
_SHOWN = (
    {"silent_moved": "units without learnable weights", "moved": "all units"},
    {"change": _MATCH, "redrawn": _REDRAWN},
    {"novel": _MATCH, "redrawn_novel": _REDRAWN},
)


def _answer(table: Table) -> list[str]:
    rows = table.where(g=1.0, r=_NEEDED).where(lambda row: row["silent_moved"] is not None)
    if not rows:
        return []
    least, most = (end(rows.column("silent_moved")) for end in (min, max))
    low, high = f"{least:.0%}", f"{most:.0%}"
    moved = f"{low} to {high} (medians, by allocation)" if low != high else f"{low} (medians)"
    kind = "Yes" if least > 0.5 else "No" if most < 0.5 else "Not decided by this"
    each = "; ".join(
        f"{common['place']} {some[0]['change']:.3g} in {some[0]['k']}, {some[-1]['change']:.3g} in "
        f"{some[-1]['k']}"
        for common, some in rows.apart("place")
    )
    return [
        f"{kind}: among units without a learnable weight of their own, the nearest match of r = d m weights "
        f"moves {moved}; allocations differ in the squared change over activity, {each}."
    ]


def find(table: Table) -> str:
    lines = _answer(table)
    for row in table.where(lambda row: row["change"] is not None, g=1.0):
        silent, k = row["silent_moved"], row["k"]
        others = "" if silent is None else f", {silent:.0%} of those without learnable weights"
        where = "" if row["r"] == _NEEDED else f", r = {row['r']} in {_MANY // k} columns of them"
        lines.append(
            f"First {k} {row['place']} of W{where}: the nearest match found moves {row['moved']:.0%} of the "
            f"units{others} (medians over {row['matched']} matches); squared change over activity "
            f"{row['change']:.3g}, by another draw {row['redrawn']:.3g}; {row['novel']:.0%} of the variance "
            f"is new, by another draw {row['redrawn_novel']:.0%}."
        )
    each = "; ".join(
        f"g = {common['g']:g}: {median(rows.column('growth')):.3g}, by this "
        f"{sum(float(common['g']) ** (2 * step) for step in range(_STEPS)):.3g}"
        for common, rows in table.where(lambda row: row["growth"] is not None).apart("g")
    )
    if each:
        lines.append(
            "Appendix E.3 says that hidden states stay of order 1; they do over a fixed number of steps. "
            "Every step adds an input: in step t their mean square is about 1 + g^2 + ... + g^(2 (t - 1)) "
            f"times that in the first, t at g = 1. Measured in step {_STEPS}, medians: {each}."
        )
    return said(lines)


EXPERIMENT = Declared(
    title="From learnt weights to changed activity",
    source="Introduction and appendix F; appendix E.3",
    claim="Learning in few synapses can change activity widely, through connections that stay as they "
    "are; so wide changes of activity say little about how many synapses learnt.",
    task=Activity(),
    quick=Plan.of(_points(8, few=True)),
    full=Plan.of(_points(DECIDED, few=False)),
    hours=0.1,
    columns={
        "place": "where the weights are",
        "k": "lines in use",
        "used": "share of lines in use",
        "g": "scale of the weights g",
        "r": "learnable weights r",
    },
)
