"""The constructions of Theorems B.6 and B.9 in rational numbers: a match, built by linear solves.

First the states (or the readouts) come from a linear system without learnable weights, then each
saturated row (or column) of W from one of its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import flint
import numpy as np

import sublearn as sl

Q = flint.fmpq_mat
Point = dict[str, Q]
Term = tuple[int, flint.fmpq]

ONE, ZERO = flint.fmpq(1), flint.fmpq(0)


def draw(rng: random.Random, rows: int, columns: int) -> Q:
    """A matrix of fractions, from so many that accidents have no chance."""
    values = [flint.fmpq(rng.randint(-(10**9), 10**9), 10**6) for _ in range(rows * columns)]
    return Q(rows, columns, values)


def draw_weights(rng: random.Random, network: sl.Network) -> Point:
    """Weights of such fractions."""
    return {name: draw(rng, *shape) for name, shape in network.shapes.items()}


def outputs(network: sl.LinearRNN, weights: Point, inputs: list[Q]) -> Q:
    """D sum_t W^(T-t+1) B X_t, eq. (3.3)."""
    total = Q(network.d, inputs[0].ncols())
    for t, X in enumerate(inputs, 1):
        term = weights["B"] * X
        for _ in range(network.T - t + 1):
            term = weights["W"] * term
        total = total + weights["D"] * term
    return total


def solve(equations: list[tuple[list[Term], flint.fmpq]], unknowns: int) -> list[flint.fmpq]:
    """The solution of a square linear system, given as (terms, right-hand side)."""
    assert len(equations) == unknowns, "the system must be square"
    matrix, right = Q(unknowns, unknowns), Q(unknowns, 1)
    for row, (terms, value) in enumerate(equations):
        for place, factor in terms:
            matrix[row, place] += factor
        right[row, 0] = value
    return list(matrix.solve(right).entries())


def dot(left: list[flint.fmpq], right: list[flint.fmpq]) -> flint.fmpq:
    return sum((a * b for a, b in zip(left, right, strict=True)), ZERO)


def _fill_lines(
    W: Q, learn: dict[int, list[int]], entering: list[list[flint.fmpq]], leaving: list[list]
) -> Q:
    """Row i of W, times each vector that enters, must give entry i of what leaves."""
    out = Q(W)
    n = W.ncols()
    for i, free in learn.items():
        fixed = [j for j in range(n) if j not in free]
        equations = []
        for came, goes in zip(entering, leaving, strict=True):
            known = dot([W[i, j] for j in fixed], [came[j] for j in fixed])
            equations.append(([(k, came[j]) for k, j in enumerate(free)], goes[i] - known))
        for j, value in zip(free, solve(equations, len(free)), strict=True):
            out[i, j] = value
    return out


def _chain(
    W: Q,
    learn: dict[int, list[int]],
    driven: Callable[[int, int], list[flint.fmpq]],
    width: int,
    T: int,
    readout: Callable[[Callable[[int, int, int], int]], list[tuple[list[Term], flint.fmpq]]],
) -> Q:
    """Unknown vectors s_k = W (s_(k-1) + driven_k), k = 1..T, in ``width`` copies, with a readout."""
    n = W.ncols()

    def place(k: int, i: int, c: int) -> int:
        return ((k - 1) * n + i) * width + c

    equations = readout(place)
    for k in range(1, T + 1):
        for i in range(n):
            if i in learn:
                continue
            for c in range(width):
                terms = [(place(k, i, c), ONE)]
                if k > 1:
                    terms += [(place(k - 1, j, c), -W[i, j]) for j in range(n)]
                equations.append((terms, dot([W[i, j] for j in range(n)], driven(k, c))))
    found = solve(equations, T * n * width)
    entering, leaving = [], []
    for k in range(1, T + 1):
        for c in range(width):
            before = [found[place(k - 1, j, c)] if k > 1 else ZERO for j in range(n)]
            entering.append([a + b for a, b in zip(before, driven(k, c), strict=True)])
            leaving.append([found[place(k, j, c)] for j in range(n)])
    return _fill_lines(W, learn, entering, leaving)


def _by_row(pairs: list[tuple[int, int]]) -> dict[int, list[int]]:
    out: dict[int, list[int]] = {}
    for i, j in pairs:
        out.setdefault(i, []).append(j)
    return out


def solve_rows(
    network: sl.LinearRNN, held: sl.Allocation, student: Point, inputs: list[Q], Y: Q
) -> Q:
    """Theorem B.6: the recurrent matrix of a student that matches."""
    W, B, D = (student[name] for name in "WBD")
    n, b, d, T, m = network.n, network.b, network.d, network.T, Y.ncols()
    learn = _by_row(list(held.entries["W"]))
    if m < b:  # the states on the samples: s_t = W (s_(t-1) + B X_t), D s_T = Y

        def read_states(place: Callable[[int, int, int], int]) -> list:
            return [
                ([(place(T, i, s), D[o, i]) for i in range(n)], Y[o, s])
                for o in range(d)
                for s in range(m)
            ]

        driven = [student["B"] * X for X in inputs]
        return _chain(
            W, learn, lambda k, s: [driven[k - 1][j, s] for j in range(n)], m, T, read_states
        )

    def read_powers(place: Callable[[int, int, int], int]) -> list:
        # The powers P_k = W^k B: D sum_t P_(T-t+1) X_t = Y.
        return [
            (
                [
                    (place(T - t, i, c), D[o, i] * inputs[t][c, s])
                    for t in range(T)
                    for i in range(n)
                    for c in range(b)
                ],
                Y[o, s],
            )
            for o in range(d)
            for s in range(m)
        ]

    return _chain(
        W, learn, lambda k, c: [B[j, c] if k == 1 else ZERO for j in range(n)], b, T, read_powers
    )


def solve_columns(
    network: sl.LinearRNN, held: sl.Allocation, student: Point, inputs: list[Q], Y: Q
) -> Q:
    """Theorem B.9: the same for the readouts D W^k, on the transposes."""
    W, D = student["W"].transpose(), student["D"]
    n, d, T, m = network.n, network.d, network.T, Y.ncols()
    learn = _by_row([(j, i) for i, j in held.entries["W"]])
    driven = [student["B"] * X for X in inputs]

    def read(place: Callable[[int, int, int], int]) -> list:
        return [
            ([(place(T - t, i, o), driven[t][i, s]) for t in range(T) for i in range(n)], Y[o, s])
            for o in range(d)
            for s in range(m)
        ]

    return _chain(
        W, learn, lambda k, o: [D[o, i] if k == 1 else ZERO for i in range(n)], d, T, read
    ).transpose()


def saturated(
    rng: random.Random, network: sl.LinearRNN, axis: str, lines: int, size: int
) -> sl.Allocation:
    """Random rows (columns) of W with ``size`` learnable weights each."""
    chosen = rng.sample(range(network.n), lines)
    pairs = [(i, j) for i in chosen for j in rng.sample(range(network.n), size)]
    turned = pairs if axis == "row" else [(j, i) for i, j in pairs]
    return sl.Allocation.from_entries(network, {"W": turned})


def frozen_weights_kept(held: sl.Allocation, before: Q, after: Q) -> bool:
    """Whether W changed at learnable entries only."""
    mask = held.mask("W")
    return all(before[i, j] == after[i, j] for i, j in np.argwhere(~mask).tolist())
