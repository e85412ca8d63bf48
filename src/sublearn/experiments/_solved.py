"""What the experiments on labelled data share: headings, and shares solved in words."""

from __future__ import annotations

from sublearn.experiments._table import number
from sublearn.runs import Row

SOLVED = {
    "data": "data",
    "network": "network",
    "samples": "samples m",
    "learn": "learnable weights",
    "target": "to be reproduced",
    "learner": "learner",
    "steps": "steps allowed",
    "eps": "eps, bound on the mean squared error",
    "trials": "trials",
    "solved": "solved",
    "share": "share solved",
    "low": "95% interval, low end",
    "high": "95% interval, high end",
    "median_steps": "median steps of the solved",
    "median_right": "median share of right labels",
    "median_loss": "median loss at the end",
}


def solved_words(row: Row) -> str:
    """For example "3 of 3 solved (95%: 0.292 to 1.000), median 311 steps"."""
    ends = f"95%: {number(row, 'low'):.3f} to {number(row, 'high'):.3f}"
    text = f"{row['solved']} of {row['trials']} solved ({ends})"
    return text if not row["solved"] else f"{text}, median {number(row, 'median_steps'):.0f} steps"
