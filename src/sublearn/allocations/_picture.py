"""An allocation as text: one character per entry."""

from __future__ import annotations

from sublearn.allocations._allocation import Allocation

FROZEN, LEARNABLE, WASTED = ".", "#", "x"


def picture(allocation: Allocation, wasted: Allocation | None = None) -> str:
    """Matrices of ``.`` (frozen), ``#`` (learnable) and ``x`` (learnable but wasted).

    Weights without learnable entries are left out.
    """
    return "\n".join("".join(text for text, _ in line) for line in cells(allocation, wasted))


def cells(allocation: Allocation, wasted: Allocation | None = None) -> list[list[tuple[str, str]]]:
    """The picture as lines of (text, meaning): meaning is label, frozen, learnable or wasted."""
    lines: list[list[tuple[str, str]]] = []
    for name in allocation.names:
        rows, columns = allocation.shapes[name]
        learnable = allocation.mask(name)
        lost = None if wasted is None else wasted.mask(name)
        width = len(str(columns - 1))
        edge = max(len(name) + 1, len(str(rows - 1)) + 2)
        header = "".join(f" {j:>{width}}" for j in range(columns))
        lines.append([(f"{name:<{edge}}{header}".rstrip(), "label")])
        for i in range(rows):
            line = [(f"{i:>{edge}}", "label")]
            for j in range(columns):
                if lost is not None and lost[i, j]:
                    mark, meaning = WASTED, "wasted"
                elif learnable[i, j]:
                    mark, meaning = LEARNABLE, "learnable"
                else:
                    mark, meaning = FROZEN, "frozen"
                line.append((f" {mark:>{width}}", meaning))
            lines.append(line)
    return lines
