"""Outputs that are affine in the learnable weights, up to an output activation: one linear program."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from sublearn._arrays import Array
from sublearn.matchers._behind import affine_part
from sublearn.matchers.proofs._balls import BALLS, Ball, BallMatrix, precision
from sublearn.matchers.within._bands import BITS, bands
from sublearn.matchers.within._linear import Linear, parts, refutes, solve

if TYPE_CHECKING:
    from sublearn.ensembles import Instance

# In the second one linear and ReLU chains lose no bit, unless their numbers are very far apart.
PRECISIONS = (BITS, 2048)


def affine(instance: Instance, eps: float) -> tuple[Array | None, str | None]:
    """(weights that may be within eps, or None; why no weights are, or None)."""
    point, refuted = settle(instance, eps, lambda: affine_part(instance))
    if isinstance(refuted, tuple):
        refuted = (
            f"{refuted[0]} outputs are affine in {refuted[1]} learnable weights, up to the output "
            "activation; a combination of them in which no weight is left shows that one is farther "
            "than eps"
        )
    return point, refuted


def settle(
    instance: Instance,
    eps: float,
    numbers: Callable[[], tuple[BallMatrix, list[Ball]] | None],
) -> tuple[Array | None, str | tuple[int, int] | None]:
    """(a point of J x + c near the bands or None; why there is none within: words, or a part's size).

    ``numbers`` gives J and c at the working precision; parts of J that share no unknown are solved apart.
    """
    point: Array | None = None
    open_ = set(range(instance.equations))  # what the precision before left open
    for bits in PRECISIONS:
        with precision(bits):
            allowed = bands(instance, eps)
            if isinstance(allowed, str):
                return None, allowed
            given = numbers()
            if given is None:
                return None, None
            x, whole = np.zeros(given[0].ncols()) if point is None else point, True
            left: set[int] = set()
            for rows, columns in parts(given[0]):
                if not open_.intersection(rows.tolist()):
                    continue
                matrix = BALLS.part(given[0], rows.tolist(), columns.tolist())
                linear = Linear.of(matrix, [given[1][i] for i in rows.tolist()])
                mine = allowed.select(rows)
                solved = None if linear is None else solve(linear, mine)
                if linear is None or solved is None:
                    whole = False
                    continue
                x[columns], vectors = solved
                if vectors and refutes(linear, mine, vectors):
                    return None, (len(rows), len(columns))
                if vectors:
                    left.update(rows.tolist())
            if not whole:
                return None, None
            point = x
            if not left:
                return point, None
            open_ = left
    return point, None
