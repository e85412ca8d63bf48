"""A product form in complex128: outputs and Jacobian, and small linear systems, as machine code.

One compiled kernel serves all shapes: matrices lie one after another in a flat buffer, and small
arrays say where.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sublearn._arrays import Complex, Indices
from sublearn._compile import compiled
from sublearn.verdicts.counts import ProductForm, ProductNumbers


@dataclass(frozen=True, eq=False)
class Chain:
    """A product form with its numbers, laid out for the kernels.

    ``buffer``: all matrices, flat. ``layout``: (offset, rows, columns) of each. ``chain``: their
    numbers by step. ``heads``: (start, read, first). ``where``: (offset in the buffer, matrix, row,
    column) of each learnable weight. ``mix``: the inputs, or an array with no rows where they drop out.
    """

    buffer: Complex
    layout: Indices
    chain: Indices
    heads: Indices
    where: Indices
    mix: Complex

    @property
    def parts(self) -> tuple[Complex, Indices, Indices, Indices, Indices, Complex]:
        """The arguments of the kernels, in their order."""
        return self.buffer, self.layout, self.chain, self.heads, self.where, self.mix


def chain_of(form: ProductForm, numbers: ProductNumbers) -> tuple[Chain, Complex]:
    """The layout for the kernels, and the targets; a square mix is divided out of them.

    The division rounds, so roots of the result are only near those of the instance: whatever is
    concluded has to be proved on the instance itself.
    """
    sizes = [matrix.size for matrix in numbers.matrices]
    offsets = np.cumsum([0, *sizes[:-1]])
    layout = np.array(
        [(o, *m.shape) for o, m in zip(offsets, numbers.matrices, strict=True)], dtype=np.int64
    )
    buffer = np.concatenate([m.ravel() for m in numbers.matrices]).astype(np.complex128)
    k, i, j = form.where.T
    flat = layout[k, 0] + i * layout[k, 2] + j
    where = np.ascontiguousarray(np.column_stack([flat, form.where]))
    targets, mix = numbers.targets, numbers.mix
    if mix is not None and mix.shape[0] == mix.shape[1] and np.linalg.cond(mix) < 1e12:
        targets, mix = np.asarray(np.linalg.solve(mix.T, targets.T).T, dtype=np.float64), None
    kept = np.zeros((0, 0)) if mix is None else mix
    chain = Chain(
        buffer,
        layout,
        np.array(form.chain, dtype=np.int64),
        np.array([form.start, form.read, form.first], dtype=np.int64),
        where,
        np.ascontiguousarray(kept, dtype=np.complex128),
    )
    return chain, np.ascontiguousarray(targets, dtype=np.complex128).ravel()


@compiled
def _multiply(left: Complex, right: Complex, out: Complex) -> None:
    """out <- left right, in the leading block of ``out``."""
    for i in range(left.shape[0]):
        for j in range(right.shape[1]):
            out[i, j] = 0.0
        for k in range(left.shape[1]):
            factor = left[i, k]
            for j in range(right.shape[1]):
                out[i, j] += factor * right[k, j]


@compiled
def _matrix(buffer: Complex, layout: Indices, number: int) -> Complex:
    offset, rows, columns = layout[number, 0], layout[number, 1], layout[number, 2]
    return buffer[offset : offset + rows * columns].reshape(rows, columns)


@compiled
def evaluate_into(
    buffer: Complex,
    layout: Indices,
    chain: Indices,
    heads: Indices,
    where: Indices,
    mix: Complex,
    point: Complex,
    states: Complex,
    lefts: Complex,
    raw: Complex,
    values: Complex,
    jacobian: Complex,
) -> None:
    """Outputs (d m, flat) and their Jacobian at ``point``; the other arrays are working space."""
    start, read, first = heads[0], heads[1], heads[2]
    count, width, outputs = chain.size, layout[start, 2], layout[read, 1]
    columns = (count - first + 1) * width
    for a in range(where.shape[0]):
        buffer[where[a, 0]] = point[a]
    reader = _matrix(buffer, layout, read)
    states[0, : layout[start, 1]] = _matrix(buffer, layout, start)
    lefts[0, :, : layout[read, 2]] = reader
    for p in range(count):
        step = _matrix(buffer, layout, chain[p])
        _multiply(step, states[p, : step.shape[1]], states[p + 1])
        step = _matrix(buffer, layout, chain[count - 1 - p])
        _multiply(lefts[p, :, : step.shape[0]], step, lefts[p + 1])
    mixed = mix.shape[0] > 0
    samples = mix.shape[1] if mixed else columns
    for o in range(outputs):
        for q in range(first, count + 1):
            for c in range(width):
                total = 0j
                for i in range(reader.shape[1]):
                    total += reader[o, i] * states[q, i, c]
                raw[o, (q - first) * width + c] = total
    _mixed(raw, mix, mixed, samples, columns, values)
    flat = np.empty(outputs * samples, np.complex128)
    for a in range(where.shape[0]):
        matrix, i, j = where[a, 1], where[a, 2], where[a, 3]
        raw[:, :] = 0.0
        for q in range(first, count + 1):
            base = (q - first) * width
            for p in range(1, q + 1):
                if chain[p - 1] == matrix:
                    for o in range(outputs):
                        left = lefts[q - p, o, i]
                        for c in range(width):
                            raw[o, base + c] += left * states[p - 1, j, c]
            if matrix == start:
                for o in range(outputs):
                    raw[o, base + j] += lefts[q, o, i]
            if matrix == read:
                for c in range(width):
                    raw[i, base + c] += states[q, j, c]
        _mixed(raw, mix, mixed, samples, columns, flat)
        for row in range(flat.size):
            jacobian[row, a] = flat[row]


@compiled
def _mixed(
    raw: Complex, mix: Complex, mixed: bool, samples: int, columns: int, out: Complex
) -> None:
    for o in range(raw.shape[0]):
        for s in range(samples):
            if mixed:
                total = 0j
                for column in range(columns):
                    total += raw[o, column] * mix[column, s]
                out[o * samples + s] = total
            else:
                out[o * samples + s] = raw[o, s]


@compiled
def factor(matrix: Complex, pivots: Indices) -> bool:
    """LU factors in place, with row exchanges; false if a pivot is 0 or not finite."""
    size = matrix.shape[0]
    for k in range(size):
        best, row = -1.0, k
        for i in range(k, size):
            square = matrix[i, k].real ** 2 + matrix[i, k].imag ** 2
            if square > best:
                best, row = square, i
        pivots[k] = row
        if not (best > 0.0 and best < np.inf):
            return False
        if row != k:
            for j in range(size):
                matrix[k, j], matrix[row, j] = matrix[row, j], matrix[k, j]
        inverse = 1.0 / matrix[k, k]
        for i in range(k + 1, size):
            factor = matrix[i, k] * inverse
            matrix[i, k] = factor
            if factor != 0.0:
                for j in range(k + 1, size):
                    matrix[i, j] -= factor * matrix[k, j]
    return True


@compiled
def solve(factors: Complex, pivots: Indices, vector: Complex) -> None:
    """The solution of the factored system, in place."""
    size = vector.size
    for k in range(size):
        row = pivots[k]
        vector[k], vector[row] = vector[row], vector[k]
    for i in range(size):
        total = vector[i]
        for j in range(i):
            total -= factors[i, j] * vector[j]
        vector[i] = total
    for i in range(size - 1, -1, -1):
        total = vector[i]
        for j in range(i + 1, size):
            total -= factors[i, j] * vector[j]
        vector[i] = total / factors[i, i]


@compiled
def largest(vector: Complex) -> float:
    most = 0.0
    for value in vector:
        square = value.real**2 + value.imag**2
        if not square <= most:  # also true of NaN, which is kept
            most = square
    return float(np.sqrt(most))


@compiled
def space(layout: Indices, chain: Indices, heads: Indices) -> tuple[Complex, Complex, Complex]:
    """Working space for the states, the left factors and the unmixed outputs."""
    width, outputs = layout[heads[0], 2], layout[heads[1], 1]
    most = max(layout[:, 1].max(), layout[:, 2].max())
    count = chain.size
    states = np.zeros((count + 1, most, width), np.complex128)
    lefts = np.zeros((count + 1, outputs, most), np.complex128)
    return states, lefts, np.zeros((outputs, (count - heads[2] + 1) * width), np.complex128)


@compiled
def evaluate(
    buffer: Complex,
    layout: Indices,
    chain: Indices,
    heads: Indices,
    where: Indices,
    mix: Complex,
    point: Complex,
) -> tuple[Complex, Complex]:
    """F(w) and its Jacobian at one point."""
    size = where.shape[0]
    values, jacobian = np.empty(size, np.complex128), np.empty((size, size), np.complex128)
    states, lefts, raw = space(layout, chain, heads)
    own = buffer.copy()
    evaluate_into(
        own, layout, chain, heads, where, mix, point, states, lefts, raw, values, jacobian
    )
    return values, jacobian
