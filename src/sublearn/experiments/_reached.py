"""What the experiments on training share: headings, lines and words for shares that are reached.

A share that a learner reaches is never called a match probability: it belongs to the learner and its
budget, and "not reached" is not "no".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sublearn.experiments._table import SETTING, number, values
from sublearn.plots import curve
from sublearn.runs import Row, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NEWTON, ADAHESSIAN = "levenberg-marquardt", "adahessian"
NAMES = {
    "gradient-descent": "gradient descent",
    "sgd": "SGD",
    "adam": "Adam",
    "adahessian": "AdaHessian",
    "levenberg-marquardt": "Levenberg-Marquardt",
}
TRAINING = {
    **SETTING,
    "method": "method",
    "eps": "eps, bound on the mean squared error",
    "steps": "steps allowed from each start",
}
BESIDE = {
    "beside": "learner beside the decision",
    "matched_within": "matched, and within eps by the learner",
    "refuted_within": "refuted, yet within eps by the learner",
}
REACHED = {
    "within": "within eps",
    "within_first": "of these from the first start",
    "not_reached": "not reached",
    "within_share": "share within eps",
    "within_low": "within eps: 95% interval, low end",
    "within_high": "within eps: 95% interval, high end",
    "median_mse": "median mean squared error",
    "relative_eps": "eps / mean square of the targets",
}


def reached(
    ax: Axes, rows: Table, x: str, label: str, colour: int = 1, dashed: bool = False
) -> None:
    """Shares within eps against x, intervals shaded."""
    if rows:
        ends = [values(rows, f"within_{name}") for name in ("share", "low", "high")]
        curve(ax, values(rows, x), *ends, label=label, colour=colour, dashed=dashed)


def reached_words(row: Row) -> str:
    """For example "12 of 100 (95%: 0.064 to 0.200)"."""
    ends = f"95%: {number(row, 'within_low'):.3f} to {number(row, 'within_high'):.3f}"
    return f"{row['within']} of {row['trials']} ({ends})"
