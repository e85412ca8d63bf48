"""Outputs that are affine in the learnable weights, up to an output activation: one linear program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sublearn.matchers._behind import without_output
from sublearn.matchers.proofs._balls import BALLS, precision
from sublearn.matchers.proofs._curved import system
from sublearn.matchers.within._bands import BITS, bands, behind_output
from sublearn.matchers.within._linear import Array, Linear, parts, refutes, solve
from sublearn.verdicts._affine import is_affine

if TYPE_CHECKING:
    from sublearn.ensembles import Instance

# In the second one linear and ReLU chains lose no bit, unless their numbers are very far apart.
PRECISIONS = (BITS, 2048)


def is_affine_before_output(instance: Instance) -> bool:
    """Whether the last pre-activations are affine in the learnable weights."""
    return is_affine(without_output(instance.network), instance.allocation)


def affine(instance: Instance, eps: float) -> tuple[Array | None, str | None]:
    """(weights that may be within eps, or None; why no weights are, or None)."""
    size = len(instance.allocation)
    point: Array | None = np.zeros(size)
    open_ = set(range(instance.equations))  # what the precision before left open
    for bits in PRECISIONS:
        with precision(bits):
            asked = bands(instance, eps)
            if isinstance(asked, str):
                return None, asked
            constants, jacobian = system(behind_output(instance)).linearised([0] * size)
            entries, rests, left = jacobian.entries(), constants.entries(), set()
            for rows, columns in parts(jacobian):
                if not open_.intersection(rows.tolist()):
                    continue
                flat = [entries[i * size + k] for i in rows.tolist() for k in columns.tolist()]
                matrix = BALLS.matrix(len(rows), len(columns), flat)
                linear = Linear.of(matrix, [rests[i] for i in rows.tolist()])
                mine = asked.select(rows)
                found = None if linear is None else solve(linear, mine)
                if linear is None or found is None:
                    point = None
                    continue
                if point is not None:
                    point[columns] = found.point
                if found.vectors and refutes(linear, mine, found.vectors):
                    return None, (
                        f"{len(rows)} outputs are affine in {len(columns)} learnable weights, up to "
                        "the output activation; a combination of them in which no weight is left "
                        "shows that one is farther than eps"
                    )
                if found.vectors:
                    left.update(rows.tolist())
            if not left:
                return point, None
            open_ = left
    return point, None
