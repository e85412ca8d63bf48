"""Cells in which no pair of definite answers can be had, and why."""

from __future__ import annotations

from adversary.cells import Cell

# (network, teacher, samples, learnable, law) with "*" for any -> the reason.
NONE: dict[tuple[str, str, str, str, str], str] = {}


def none_possible(cell: Cell) -> str | None:
    """Why a cell can have no definite pair; None where it can."""
    for pattern, why in NONE.items():
        if all(p in ("*", c) for p, c in zip(pattern, cell, strict=True)):
            return why
    return None
