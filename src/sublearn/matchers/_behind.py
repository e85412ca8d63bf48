"""Outputs that are affine in the learnable weights behind features that are not rational numbers.

Learnable weights of the last layer see frozen features, which tanh and sigmoid make transcendental; and
an invertible output activation, phi(J x + c) = y, asks for J x + c = phi^-1(y). Both are linear
systems whose numbers are known as balls, to any precision.
"""

from __future__ import annotations

import numpy as np

from sublearn._arrays import Array
from sublearn.ensembles import Instance
from sublearn.matchers.proofs._balls import (
    BALLS,
    Ball,
    BallMatrix,
    column_vector,
    middles,
    precision,
    wanted,
)
from sublearn.matchers.proofs._dyadic import Dyadic, from_ball
from sublearn.matchers.proofs._equations import ChainEquations
from sublearn.matchers.proofs._krawczyk import float_matrix
from sublearn.verdicts import is_affine

BITS = (128, 512)


def is_affine_before_output(instance: Instance) -> bool:
    """Whether the last pre-activations are affine in the learnable weights."""
    return is_affine(instance.network.before_output(), instance.allocation)


def is_affine_behind(instance: Instance) -> bool:
    """The same, where the output activation can be undone."""
    return instance.network.steps[-1].activation != "relu" and is_affine_before_output(instance)


def behind_output(instance: Instance) -> Instance:
    """The same student up to its last pre-activations, with targets 0: what it puts out is z itself."""
    network, nothing = instance.network.before_output(), np.zeros_like(instance.targets)
    allocation, weights = instance.allocation, instance.weights
    if instance.inputs_are_rounded:
        return instance.on(network, allocation, weights, instance.exact_inputs, targets=nothing)
    return Instance(network, allocation, weights, instance.inputs, nothing)


def affine_part(instance: Instance) -> tuple[BallMatrix, list[Ball]]:
    """J and c of the last pre-activations J x + c, in balls at the working precision."""
    equations = ChainEquations(behind_output(instance))
    constants, jacobian = equations.linearised([0] * len(instance.allocation))
    return jacobian, list(constants.entries())


def before_output(activation: str, targets: list[Ball]) -> list[Ball]:
    """The preimages of targets under an invertible output activation; not finite where there is none."""
    if activation == "tanh":
        return [target.atanh() for target in targets]
    if activation == "sigmoid":
        return [(target / (1 - target)).log() for target in targets]
    return targets


def linear_system(instance: Instance) -> tuple[BallMatrix, list[Ball]] | None:
    """J and b of the system J x = b in balls at the working precision.

    None where a target has no preimage: it lies outside the image of the output activation.
    """
    jacobian, constants = affine_part(instance)
    activation = instance.network.steps[-1].activation
    before = before_output(activation, wanted(instance, BALLS).entries())
    right = [w - c for w, c in zip(before, constants, strict=True)]
    return (jacobian, right) if all(e.is_finite() for e in right) else None


def least_squares(instance: Instance) -> Array | None:
    """A float64 solution of the linear system as far as it has one, or None."""
    with precision(BITS[0]):
        system = linear_system(instance)
        if system is None:
            return None
        jacobian = float_matrix(system[0])
        right = middles(system[1])
    return shortest_solution(jacobian, right)


def shortest_solution(matrix: Array, right: Array) -> Array | None:
    """The least-squares solution of least norm, or None where float64 has none."""
    if not (np.isfinite(matrix).all() and np.isfinite(right).all()):
        return None
    try:
        answer = np.asarray(np.linalg.lstsq(matrix, right, rcond=None)[0], dtype=np.float64)
    except np.linalg.LinAlgError:
        return None
    return answer if np.isfinite(answer).all() else None


def solved(instance: Instance, bits: int) -> tuple[list[Dyadic], list[int]] | None:
    """A solution at a precision, and the learnable weights that it is solved for; the others are 0.

    None where the rows are not shown to be independent at so many bits. Saturated units, whose features
    differ in the hundredth digit, need more of them than float64 has.
    """
    with precision(bits):
        system = linear_system(instance)
        if system is None:
            return None
        jacobian, right = system
        free = _pivots(jacobian)
        if free is None:
            return None
        width, square = jacobian.ncols(), BALLS.part(jacobian, range(len(right)), free)
        try:
            values = square.solve(column_vector(right)).entries()
        except ZeroDivisionError:
            return None
        centre: list[Dyadic] = [(0, 0)] * width
        for k, value in zip(free, values, strict=True):
            centre[k] = from_ball(value)
        return centre, free


def _pivots(matrix: BallMatrix) -> list[int] | None:
    """Columns, in increasing order, on which the rows are certainly independent; None if none show it."""
    rows = matrix.tolist()
    left, out = list(range(len(rows))), []
    while left:
        best = max(
            ((abs(rows[i][k]).lower(), i, k) for i in left for k in range(matrix.ncols())),
            key=lambda entry: entry[0],
            default=None,
        )
        if best is None or not best[0] > 0:
            return None
        _, row, column = best
        left.remove(row)
        out.append(column)
        for i in left:
            factor = rows[i][column] / rows[row][column]
            rows[i] = [a - factor * b for a, b in zip(rows[i], rows[row], strict=True)]
            rows[i][column] = factor * 0
    return sorted(out)


def contradiction(instance: Instance) -> str | None:
    """Why the linear system has no solution, or None where that was not shown.

    Take the equations of one output, or all of them, and the c learnable weights that occur in them. If
    a minor of order c + 1 of (J | b) is not 0, b is no combination of the c columns.
    """
    m = instance.samples
    groups = [list(range(o * m, (o + 1) * m)) for o in range(instance.network.output_size)]
    names = [f"the {m} equations of output {o}" for o in range(len(groups))]
    if len(groups) > 1:
        groups.append(list(range(instance.equations)))
        names.append(f"the {instance.equations} equations")
    for bits in BITS:
        with precision(bits):
            system = linear_system(instance)
            if system is None:
                return None
            for rows, name in zip(groups, names, strict=True):
                inside = BALLS.met(system[0], rows)
                if len(inside) < len(rows) and _independent(*system, rows, inside):
                    return f"{name} hold {len(inside)} learnable weights and contradict each other"
    return None


def _independent(
    jacobian: BallMatrix, right: list[Ball], rows: list[int], columns: list[int]
) -> bool:
    """Whether (J | b) on these rows and columns certainly has independent columns."""
    from scipy.linalg import qr

    left = BALLS.part(jacobian, rows, columns).tolist()
    wide = [[*row, right[i]] for row, i in zip(left, rows, strict=True)]
    size = len(columns) + 1
    if len(rows) > size:
        floats = np.array([middles(row) for row in wide])
        if not np.isfinite(floats).all():
            return False
        # The rows that a pivoted factorisation takes first are the most independent ones.
        pivots = qr(floats.T, mode="r", pivoting=True)[1]
        wide = [wide[i] for i in pivots[:size]]
    determinant = BALLS.matrix(size, size, [e for row in wide for e in row]).det()
    return bool(determinant != 0)
