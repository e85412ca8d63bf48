"""First-order against second-order learners, on the same instances from the same starts."""

from __future__ import annotations

from sublearn.experiments._lines import Figures
from sublearn.experiments._table import NAMES, NEWTON, point, reached_words, said
from sublearn.experiments.tasks import Trainability
from sublearn.plots import COLOURS, MARKERS, ink, name_axes, panels, shared_legend
from sublearn.runs import Experiment, Plan, Point, Row, Table

_CASES = {
    "Linear RNN": ("lrnn:n=8,b=1,d=4,T=4", 4, "W:first-rows=8"),
    "Shallow ReLU": ("ffn:6-8-4,activation=relu", 6, "W1:first-rows=8"),
}
# Levenberg-Marquardt, with which the others are compared, stands last.
_LEARNERS = {
    "gradient-descent": "gradient descent",
    "sgd": "SGD",
    "adam": "Adam",
    "adam:rate=0.1": "Adam, rate 0.1",
    "adahessian": "AdaHessian",
    NEWTON: NAMES[NEWTON],
}
_FIRST_ORDER = ("gradient-descent", "sgd", "adam", "adam:rate=0.1")
_EPS = (1e-2, 1e-6)


def _points(instances: int, steps: int, starts: int) -> tuple[Point, ...]:
    found = []
    for case, asked in _CASES.items():
        for eps in _EPS:
            more: Row = {"eps": eps, "steps": steps, "starts": starts}
            more["learners"] = " ".join(_LEARNERS)
            # Many instances make one batch of each learner.
            trials, chunk = instances * len(_LEARNERS), 25 * len(_LEARNERS)
            found.append(point({"case": case}, asked, trials, chunk, **more))
    return tuple(found)


def draw(table: Table) -> Figures:
    cases = table.distinct("case")
    fig, axes = panels(len(cases), width=4.6, height=3.2)
    learners = [name for name in _LEARNERS if name in table.distinct("learner")]
    for ax, case in zip(axes, cases, strict=False):
        for shade, eps in enumerate(_EPS):
            rows = table.where(case=case, eps=eps)
            places = [learners.index(row["learner"]) + 0.12 * (2 * shade - 1) for row in rows]
            for place, row in zip(places, rows, strict=True):
                ends = [row["within_low"], row["within_high"]]
                ax.plot(ends, [place] * 2, color=COLOURS[shade], lw=1.4)
            ax.plot(
                rows.column("within_share"),
                places,
                color=COLOURS[shade],
                marker=MARKERS[shade],
                linestyle="none",
                label=f"mean squared error < {eps:g}",
            )
        name_axes(ax, "share of instances reached (95% interval)", "learner", title=case)
        ax.set_xlim(-0.03, 1.03)
        ax.set_yticks(
            range(len(learners)), [_LEARNERS[name] for name in learners], fontsize=9, color=ink()
        )
        ax.set_ylim(max(len(learners), 1) - 0.5, -0.5)
    shared_legend(fig, axes)
    return {"first-order": fig}


def find(table: Table) -> str:
    lines = []
    for case in table.distinct("case"):
        for eps in table.where(case=case).distinct("eps"):
            rows = table.where(case=case, eps=eps)
            each = "; ".join(f"{_LEARNERS[row['learner']]} {reached_words(row)}" for row in rows)
            lines.append(f"{case}, within {eps:g}: {each}.")
            newton = rows.where(learner=NEWTON)
            first = [row for row in rows if row["learner"] in _FIRST_ORDER]
            if newton and first:
                best = max(first, key=lambda row: row["within"])
                if not best["within"]:
                    lines.append("No first-order learner gets there.")
                    continue
                apart = best["within_high"] < newton[0]["within_low"]
                tail = "the intervals are apart" if apart else "their intervals overlap"
                lines.append(
                    f"The best first-order learner there, {_LEARNERS[best['learner']]}, misses "
                    f"{best['missed']} instances that Levenberg-Marquardt solves, and solves {best['only']} "
                    f"that it misses; {tail}."
                )
    return said(lines)


EXPERIMENT = Experiment(
    name="first-order",
    title="First-order against second-order learners",
    source="Appendix E.1; the summary's open questions",
    claim="With r = d m learnable weights the network is not overparameterised: gradient descent failed "
    "to find solutions, and second-order methods were necessary.",
    task=Trainability(),
    quick=Plan(_points(instances=25, steps=1000, starts=2)),
    full=Plan(_points(instances=100, steps=5000, starts=3)),
    hours=0.045,
    columns={"case": "network kind"},
    draw=draw,
    find=find,
)
