"""The one loop of the learners that no array expression says well."""

from __future__ import annotations

from sublearn._arrays import Floats, Indices
from sublearn._compile import compiled


@compiled
def add_products(
    out: Floats,
    places: Indices,
    start: int,
    stop: int,
    columns: int,
    left: Floats,
    right: Floats,
) -> None:
    """out[b, a, o, s] += left[b, o, i, s] right[b, j, s] where value a goes to entry (i, j) of a slot.

    ``start`` and ``stop`` are the slot's stretch of the buffer, ``columns`` its width. Of ``places``,
    ``left`` and ``right`` the first axis may have length 1, and so may the last of the latter two.
    """
    batch, values, outputs, samples = out.shape
    for b in range(batch):
        at = b if places.shape[0] > 1 else 0
        at_left = b if left.shape[0] > 1 else 0
        at_right = b if right.shape[0] > 1 else 0
        for a in range(values):
            place = places[at, a]
            if place < start or place >= stop:
                continue
            i, j = (place - start) // columns, (place - start) % columns
            for o in range(outputs):
                for s in range(samples):
                    s_left = s if left.shape[3] > 1 else 0
                    s_right = s if right.shape[2] > 1 else 0
                    out[b, a, o, s] += left[at_left, o, i, s_left] * right[at_right, j, s_right]
