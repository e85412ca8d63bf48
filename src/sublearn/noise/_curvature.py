"""Curvature of the squared error: the diagonal of its Hessian, and traces of it.

H = (1/m) J'J + S, the Gauss-Newton part and the second-order part S, the Hessian of the outputs
weighted by the errors. Three ways to the diagonal, all without an autodiff library:

- *layers*, exact, for chains that use each weight once: the second derivatives of F with respect to
  what stands before each activation are carried backward, an n x n matrix per sample,
      M <- diag(phi') W' M W diag(phi') + diag(phi'' * dF/dh),
  and the diagonal of H at (i, j) is sum_s M[i, i, s] x_j,s^2. No loop over weights.
- *basis*, exact, for every chain: J'J from the derivative factors, S by one Hessian product per
  weight.
- *probes*, an estimate: J'J still exactly, and the trace of S by Hutchinson's z'Sz with random signs
  z (Hutchinson 1990). Only S is estimated, so the error vanishes with the errors of the network.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from sublearn._arrays import Array, Indices
from sublearn._seeds import Tag
from sublearn.ensembles import Instance
from sublearn.networks import ACTIVATIONS, REALS, factors, run
from sublearn.noise._loss import error_signal, flatten, matrices, numbers_per_run, pieces

Along = Callable[[Array], Array]
"""z'Hz of a symmetric matrix, for each row z of directions."""

EXACT_WORK = 4e9
"""Multiplications up to which a trace is computed exactly: some seconds on one core."""


@dataclass(frozen=True)
class MatrixTrace:
    """A trace and its standard error: 0 where it is exact, else from ``probes`` random signs."""

    value: float
    error: float
    probes: int


def hessian_product(instance: Instance, direction: Array) -> Array:
    """H u, exactly, for a flat vector u: (1/m) J'(J u) + S u."""
    network, weights, x = instance.network, instance.start, instance.inputs
    tangent = matrices(network, direction)
    signal = error_signal(network.forward(weights, x), instance.targets)
    pushed = network.jvp(weights, x, tangent) / instance.samples
    second = network.hvp(weights, x, signal, tangent)
    return flatten(network, network.vjp(weights, x, pushed)) + flatten(network, second)


def curvature_along(instance: Instance, direction: Array) -> float:
    """u'Hu, exactly."""
    return float(direction @ hessian_product(instance, direction))


def used_once(instance: Instance) -> bool:
    """Whether every weight acts in one step only, of the plain form, and none encodes an input."""
    steps = instance.network.steps
    if not instance.network.is_plain:
        return False
    names = [step.weight for step in steps]
    return len(set(names)) == len(names) and all(step.encoder is None for step in steps)


def layers_diagonal(instance: Instance) -> Array:
    """Diagonal of H over all weights, exactly, where :func:`used_once`."""
    network = instance.network
    # The largest product held per sample: a square one behind the first layer, else d x n.
    shapes = [network.shape(step.weight) for step in network.steps]
    largest = max([1, *[r * max(r, c) for r, c in shapes[1:]], *[c * c for _, c in shapes[2:]]])
    total = np.zeros(network.cells)
    for part in pieces(instance.samples, 3 * largest):
        total += _layers_part(instance, instance.inputs[..., part], instance.targets[..., part])
    return total


def _layers_part(instance: Instance, inputs: Array, targets: Array) -> Array:
    network, weights = instance.network, instance.start
    trace = run(network, weights, inputs, REALS)
    slope_out = (trace.outputs - targets) / instance.samples
    d, m = slope_out.shape
    # `bend` holds M, of which the first layer needs the diagonal alone: that saves its largest product.
    bend = np.broadcast_to(np.eye(d) / instance.samples, (m, d, d))
    diagonal = np.full((d, m), 1.0 / instance.samples)
    out: dict[str, Array] = {}
    for position in range(len(network.steps) - 1, -1, -1):
        step, slope = network.steps[position], trace.slopes[position]
        if slope is not None:
            phi = ACTIVATIONS[step.activation]
            extra = phi.curvature(trace.before[position]) * slope_out
            slope_out = slope * slope_out
            diagonal = slope**2 * diagonal + extra
            if position:
                bend = bend * slope.T[:, :, None] * slope.T[:, None, :]
                place = np.arange(extra.shape[0])
                bend[:, place, place] += extra.T
        out[step.weight] = diagonal @ (trace.entering[position] ** 2).T
        if step.bias is not None:
            out[step.bias] = diagonal.sum(axis=1, keepdims=True)
        if position:
            matrix = weights[step.weight]
            slope_out = matrix.T @ slope_out
            half = bend @ matrix
            diagonal = np.einsum("soi,oi->is", half, matrix)
            if position > 1:
                bend = matrix.T @ half
    return flatten(network, out)


def gauss_newton_diagonal(instance: Instance) -> Array:
    """Diagonal of J'J / m over all weights, exactly, from the derivative factors."""
    network = instance.network
    tallest = max(rows for rows, _ in network.shapes.values())
    uses = len(network.steps)
    total = np.zeros(network.cells)
    for part in pieces(instance.samples, uses * network.output_size * tallest):
        out: dict[str, Array] = {}
        for name, factor in factors(network, instance.start, instance.inputs[..., part]).items():
            block = np.zeros(network.shapes[name])
            for t in range(factor.right.shape[0]):
                for u in range(t + 1):
                    left = np.einsum("ois,ois->is", factor.left[t], factor.left[u])
                    right = factor.right[t] * factor.right[u]
                    if left.shape[-1] == 1:  # linear chains: the left factor is the same for all
                        right = right.sum(axis=-1, keepdims=True)
                    block += (1.0 if t == u else 2.0) * (left @ right.T)
            out[name] = block
        total += flatten(network, out)
    return total / instance.samples


def _second_order(instance: Instance, directions: Array) -> Array:
    """z'Sz for each row z of ``directions``."""
    network, weights, x = instance.network, instance.start, instance.inputs
    signal = error_signal(network.forward(weights, x), instance.targets)
    tangents = matrices(network, directions)
    products = network.hvp(weights, x, signal, tangents)
    out = np.zeros(directions.shape[0])
    for name, tangent in tangents.items():
        out += np.sum(products[name] * tangent, axis=(-1, -2))
    return out


def diagonal_at(along: Along, index: Indices, size: int, each: int) -> Array:
    """The diagonal at the weights ``index``, of ``size``: ``each`` numbers are held for a direction."""
    out = np.empty(index.size)
    for part in pieces(index.size, each):
        chosen = index[part]
        directions = np.zeros((chosen.size, size))
        directions[np.arange(chosen.size), chosen] = 1.0
        out[part] = along(directions)
    return out


def basis_diagonal(instance: Instance, index: Indices) -> Array:
    """Diagonal of H at the weights ``index``, exactly, for every chain."""
    second = diagonal_at(*_second_order_at(instance, index))
    return np.asarray(gauss_newton_diagonal(instance)[index] + second)


def _second_order_at(instance: Instance, index: Indices) -> tuple[Along, Indices, int, int]:
    """S, at some weights, as the functions above and below take it."""
    along = partial(_second_order, instance)
    return along, index, instance.network.cells, 6 * numbers_per_run(instance)


def exact_work(instance: Instance, count: int) -> float:
    """Multiplications that the exact trace over ``count`` weights takes."""
    network, m = instance.network, instance.samples
    if used_once(instance):
        shapes = [network.shape(step.weight) for step in network.steps]
        back = [rows * columns * rows for rows, columns in shapes[1:]]
        full = [rows * columns * columns for rows, columns in shapes[2:]]
        return float(m * (network.size + sum(back) + sum(full)))
    each = 6.0 * m * sum(math.prod(network.shape(step.weight)) for step in network.steps)
    return each * count


def probed_trace(
    along: Along, index: Indices, size: int, each: int, probes: int, seed: int
) -> MatrixTrace:
    """The trace over the weights ``index``, as in :func:`diagonal_at`, by ``probes`` random sign vectors."""
    rng = np.random.default_rng([seed, Tag.PROBES])
    products = np.empty(probes)
    for part in pieces(probes, each):
        directions = np.zeros((part.stop - part.start, size))
        signs = rng.integers(0, 2, size=(directions.shape[0], index.size))
        directions[:, index] = 2.0 * signs - 1.0
        products[part] = along(directions)
    error = float(products.std(ddof=1) / math.sqrt(probes))
    return MatrixTrace(float(products.mean()), error, probes)


def traces(
    instance: Instance, sets: list[Indices], method: str, probes: int, seed: int
) -> list[MatrixTrace]:
    """Traces of H over each set of weights, by ``method``: "exact", "estimate" or "auto"."""
    most = max(index.size for index in sets)
    cheap = exact_work(instance, most) <= EXACT_WORK
    if method == "exact" or (method == "auto" and (cheap or most <= probes)):
        if used_once(instance):
            diagonal = layers_diagonal(instance)
        else:
            union = np.unique(np.concatenate(sets))
            diagonal = np.zeros(instance.network.cells)
            diagonal[union] = basis_diagonal(instance, union)
        return [MatrixTrace(float(diagonal[index].sum()), 0.0, 0) for index in sets]
    known = gauss_newton_diagonal(instance)
    guessed = [probed_trace(*_second_order_at(instance, i), probes, seed) for i in sets]
    return [
        replace(guess, value=float(known[index].sum()) + guess.value)
        for index, guess in zip(sets, guessed, strict=True)
    ]
