"""Cells in which theory allows no case, and cells in which no case had two definite answers, and why."""

from __future__ import annotations

from collections.abc import Sequence

from adversary.cells import Cell
from adversary.plan import Record

# What an impossible case says, by words in it.
IMPOSSIBLE = {
    "weights in all": "the network has fewer weights than the cell asks for",
    "no layer has": "no layer has as many weights as the cell asks for",
    "too many for a case": "more than nine learnable weights are too many for a case",
    "too many subsets": "there are too many subsets to try",
}
UNKNOWN = "the second implementation cannot find out the truth"
# Where the package said something, or nothing, to which no truth stands in opposition.
SAID = {
    ("verdict", "refused"): "the exact rank is not known",
    ("certificate", "refuted"): "a refuted instance has no certificate that could be spoilt",
    ("certificate", "undecided"): "an undecided instance has no certificate",
    (
        "certificate",
        "matched",
    ): "the match comes without one, or is too badly conditioned to be judged",
    ("steady", "none"): "no steady state is predicted",
}

NONE = {
    "a single layer has d weights per feature, no more than independent samples need": (
        ("same", "at", "above"),
        ("same", "above", "above"),
        ("planted", "at", "above"),
        ("planted", "above", "above"),
        ("targets", "at", "above"),
    ),
    "targets of more samples than features need more weights than a single layer has": (
        ("targets", "above", "at"),
        ("targets", "above", "above"),
    ),
}


def none_possible(cell: Cell) -> str | None:
    """Why a cell can have no case; None where it can."""
    sparse = cell.network.startswith("sparse-")
    if not cell.network.removeprefix("sparse-").startswith(("estimator", "layer")):
        return None
    if sparse and (cell.teacher, cell.samples, cell.learnable) == ("targets", "at", "at"):
        return "targets of as many samples as features need more weights than a sparse layer has"
    # Samples of rank one need fewer weights, and so do gates that are off.
    fewer = cell.law == "lowrank" or cell.network == "layer >relu"
    for why, cells in NONE.items():
        if (cell.teacher, cell.samples, cell.learnable) in cells and (
            cell.teacher == "targets" or not fewer
        ):
            return why
    return None


def without_pair(attack: str, cell: Cell, records: Sequence[Record]) -> str:
    """Why no case of a cell had two definite answers, as its first case that could be made tells."""
    why = none_possible(cell)
    if why is not None:
        return why
    if not records:
        return "not asked yet"
    first = min(records, key=lambda record: (record.state == "impossible", record.key))
    if first.state == "impossible":
        return next((why for part, why in IMPOSSIBLE.items() if part in first.ours), first.ours)
    if (attack, first.theirs) in SAID:
        return SAID[attack, first.theirs]
    if attack == "verdict" and first.theirs not in ("maximal", "minimal"):
        return f'no answer contradicts a verdict that says "{first.theirs}"'
    return UNKNOWN if first.ours == "None" else "the package left it undecided"
