"""Outputs that are affine in the learnable weights, up to an output activation: one linear program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sublearn.matchers._behind import without_output
from sublearn.matchers.proofs._balls import precision
from sublearn.matchers.proofs._curved import system
from sublearn.matchers.within._bands import BITS, bands, behind_output
from sublearn.matchers.within._linear import Array, Linear, refutes, solve
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
    point = None
    for bits in PRECISIONS:
        with precision(bits):
            asked = bands(instance, eps)
            if isinstance(asked, str):
                return None, asked
            size = len(instance.allocation)
            constants, jacobian = system(behind_output(instance)).linearised([0] * size)
            linear = Linear.of(jacobian, constants.entries())
            if linear is None:
                return None, None
            found = solve(linear, asked)
            if found is None:
                return None, None
            point = found.point
            if not found.vectors:
                return point, None
            if refutes(linear, asked, found.vectors):
                return None, (
                    f"{instance.equations} outputs are affine in {size} learnable weights, up to the "
                    "output activation, and a combination of them in which no weight is left shows "
                    "that one is farther than eps"
                )
    return point, None
