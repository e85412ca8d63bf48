"""Cells in which theory allows no case, and why."""

from __future__ import annotations

from adversary.cells import Cell

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
