"""Linear networks over the rationals, written from the formulas of the models, not from the chain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from flint import arb, fmpq, fmpq_mat

from sublearn.ensembles import Instance
from sublearn.networks import FeedForward, LinearEstimator, LinearRNN


def rational(value: float | Fraction | tuple[int, int]) -> fmpq:
    """A float, a fraction or a pair (mantissa, exponent), exactly."""
    if isinstance(value, tuple):
        mantissa, exponent = value
        return fmpq(mantissa) * fmpq(2) ** exponent
    numerator, denominator = value.as_integer_ratio()
    return fmpq(numerator, denominator)


def matrix(values: np.ndarray) -> fmpq_mat:
    rows, columns = values.shape
    return fmpq_mat(rows, columns, [rational(float(v)) for v in values.ravel()])


def outputs(instance: Instance, values: Sequence[fmpq]) -> fmpq_mat:
    """Y at the given learnable weights: eq. (3.3) for the linear RNN, layer by layer otherwise."""
    network = instance.network
    weights = {name: matrix(instance.weights[name]) for name in network.shapes}
    for (name, i, j), value in zip(instance.allocation.labels(), values, strict=True):
        weights[name][i, j] = value
    return _forward(network, weights, instance.inputs)


def _forward(network: object, weights: Mapping[str, fmpq_mat], inputs: np.ndarray) -> fmpq_mat:
    if isinstance(network, LinearRNN):
        total = fmpq_mat(network.d, inputs.shape[-1])
        power = weights["W"]
        for t in range(network.T - 1, -1, -1):
            # Input number t (from 0) is multiplied by W^(T - t).
            total += weights["D"] * power * weights["B"] * matrix(inputs[t])
            power = power * weights["W"]
        return total
    if isinstance(network, LinearEstimator):
        return weights["W"] * matrix(inputs)
    assert isinstance(network, FeedForward)
    state = matrix(inputs)
    ones = fmpq_mat(1, inputs.shape[-1], [1] * inputs.shape[-1])
    for layer in range(1, network.layers + 1):
        state = weights[f"W{layer}"] * state
        if network.bias:
            state += weights[f"b{layer}"] * ones
    return state


def residual(instance: Instance, values: Sequence[fmpq]) -> list[fmpq]:
    """Outputs minus targets, in the order (output, sample); a linear teacher's are exact."""
    wanted = matrix(instance.targets)
    teacher = instance.teacher
    if teacher is not None:
        weights = {name: matrix(value) for name, value in teacher.weights.items()}
        wanted = _forward(teacher.network, weights, instance.inputs)
    return (outputs(instance, values) - wanted).entries()


def affine_system(instance: Instance) -> tuple[fmpq_mat, fmpq_mat]:
    """(J, (J | c)) of an affine instance, from its outputs at 0 and at the unit vectors."""
    size = len(instance.allocation)
    zero = [fmpq(0)] * size
    start = residual(instance, zero)
    table = []
    for k in range(size):
        unit = [*zero[:k], fmpq(1), *zero[k + 1 :]]
        moved = residual(instance, unit)
        table.append([one - two for one, two in zip(moved, start, strict=True)])
    rows = len(start)
    plain = fmpq_mat(rows, size, [table[k][row] for row in range(rows) for k in range(size)])
    wide = [[table[k][row] for k in range(size)] + [start[row]] for row in range(rows)]
    return plain, fmpq_mat(rows, size + 1, [e for row in wide for e in row])


def rank(table: fmpq_mat) -> int:
    return int(table.rref()[1])


def holds(ball: arb, value: fmpq) -> bool:
    """Whether a ball holds a rational number, decided over the rationals."""
    middle = rational(tuple(int(part) for part in ball.mid().man_exp()))
    radius = rational(tuple(int(part) for part in ball.rad().man_exp()))
    return bool(abs(middle - value) <= radius)
