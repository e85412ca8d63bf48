"""Branch and bound over the sides of hyperplanes, with a dual simplex at every node (compiled).

The linear program of a node: G v = h, v >= 0, some entries of v held at 0 (see ``patterns/_program.py``).
A node is a tableau in memory; a child copies it, puts one unit on one side of one sample's hyperplane,
which holds the columns of the other side at 0, and goes on from there: a handful of pivots and no solver
call.

An infeasible node leaves its Farkas vector behind, which is believed only once it is proved (``_leaf.py``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sublearn._arrays import Array, Indices, Mask
from sublearn._compile import compiled
from sublearn.exact import (
    FEASIBLE,
    INFEASIBLE,
    STALLED,
    TOLERANCE,
    solve_table,
    start_table,
)
from sublearn.patterns import Columns

CLOSED, CANDIDATE, SPENT = 0, 1, 2
DRIFT = 1e-8  # an error of the equations, whose right sides are at most 1
LEVEL = 1e-10  # of y: a sum this close to 0 counts as 0


class Leaves(NamedTuple):
    """Room for the leaves of a tree, in the order in which they are met, and for what joins them.

    ``clause``: the conditions of a leaf that its vector needs; p: off on pair p, pairs + p: on. ``log``:
    see :func:`branch`. ``is_cut``: whether float64 found the leaf infeasible, with weights ``vector`` on
    the equations.
    """

    basis: NDArray[np.int16]  # (leaves, equations): basic columns, -1 - r artificial
    clause: Mask  # (leaves, 2 pairs)
    vector: Array  # (leaves, equations)
    is_cut: Mask
    log: NDArray[np.int32]


@compiled
def _mixed(table: Array, basis: Indices, columns: Columns, above: Array, below: Array) -> None:
    """Fill, for each pair (unit, sample), how far its columns reach above and below 0."""
    above[:] = 0.0
    below[:] = 0.0
    m = columns.sides.shape[1]
    for r in range(basis.size):
        j = basis[r]
        if j >= 0:
            value = table[r, -1]
            for s in range(m):
                z = value * columns.sides[j, s]
                if z > 0.0:
                    above[columns.owner[j] * m + s] += z
                else:
                    below[columns.owner[j] * m + s] -= z


@compiled
def _hold(literal: int, change: int, columns: Columns, holders: Indices, open_: Mask) -> None:
    """Count one condition more (1) or fewer (-1) on the columns that it holds at 0."""
    owner, sides = columns.owner, columns.sides
    m = sides.shape[1]
    pairs = (owner[-1] + 1) * m
    off = literal < pairs
    p = literal % pairs
    unit, s = p // m, p % m
    for j in range(owner.size):
        if owner[j] == unit and (sides[j, s] > 0.0 if off else sides[j, s] < 0.0):
            holders[j] += change
            open_[j] = holders[j] == 0


@compiled
def _conditions(used: Mask, depth: int, held_now: Indices, columns: Columns, clause: Mask) -> None:
    """The clause: conditions, the oldest ones, that hold every column in ``used`` at 0."""
    owner, sides = columns.owner, columns.sides
    m = sides.shape[1]
    pairs = (owner[-1] + 1) * m
    clause[:] = False
    for j in range(used.size):
        if used[j]:
            for level in range(depth):
                literal = held_now[level]
                off, p = literal < pairs, literal % pairs
                if p // m == owner[j]:
                    z = sides[j, p % m]
                    if z > 0.0 if off else z < 0.0:
                        clause[literal] = True
                        break


@compiled
def _error(columns: Columns, table: Array, basis: Indices) -> float:
    """The largest error of G v = h at the values of the tableau."""
    worst = 0.0
    for r in range(basis.size):
        total = -columns.right[r]
        for t in range(basis.size):
            if basis[t] >= 0:
                total += columns.matrix[r, basis[t]] * table[t, -1]
            elif basis[t] == -1 - r:
                total += table[t, -1]
        worst = max(worst, abs(total))
    return worst


@compiled
def _separates(
    columns: Columns, inverse_row: Array, sign: float, open_: Mask, y: Array, used: Mask
) -> bool:
    """Whether y' G >= 0 on open columns and y' h < 0, to rounding. Fills y and the columns that need holding.

    A tableau that was carried far down may have drifted from its basis; this tells.
    """
    rows, size = columns.matrix.shape
    total, largest = 0.0, 0.0
    for r in range(rows):
        y[r] = sign * inverse_row[r]
        total += y[r] * columns.right[r]
        largest = max(largest, abs(y[r]))
    good = total < -LEVEL * largest
    for j in range(size):
        total = 0.0
        for r in range(rows):
            total += y[r] * columns.matrix[r, j]
        down = total < -LEVEL * largest
        used[j] = down and not open_[j]
        if down and open_[j]:
            good = False
    return good


@compiled
def branch(
    columns: Columns,
    costs: Array,
    node_limit: int,
    skip: int,
    leaves: Leaves,
    counts: Indices,
    last_pattern: Mask,
) -> int:
    """Depth first over the pairs (unit, sample).

    ``counts``: [nodes, pivots, leaves, log entries, candidates]. Returns CLOSED (every leaf is in
    the log), CANDIDATE (the program has a solution in which no unit mixes two sides, with the pattern
    ``last_pattern``; the first ``skip`` such nodes are passed by) or SPENT.

    A clause is a set of conditions that cannot all be true. The log is a postfix program over clauses: a
    leaf pushes its own, -1 - p joins the two clauses of pair p, and -1 - K drops the one below the last.
    """
    rows, size = columns.matrix.shape
    pairs = last_pattern.size
    m = columns.sides.shape[1]
    deepest = pairs + 2
    tables = np.empty((deepest, rows, size + rows + 1))
    bases = np.empty((deepest, rows), np.int64)
    reduced = np.empty((deepest, size))
    first = np.zeros((deepest, 2 * pairs), np.bool_)
    chosen = np.empty(deepest, np.int64)
    second = np.zeros(deepest, np.bool_)
    held_now = np.empty(deepest, np.int64)
    free = np.ones(pairs, np.bool_)
    open_ = np.ones(size, np.bool_)
    holders = np.zeros(size, np.int64)
    used = np.zeros(size, np.bool_)
    y = np.zeros(rows)
    clause = np.zeros(2 * pairs, np.bool_)
    above, below = np.zeros(pairs), np.zeros(pairs)
    out = np.zeros(4)
    start_table(columns.matrix, columns.right, tables[0], bases[0])
    reduced[0, :] = costs
    counts[:] = 0
    most = 50 * rows + 200
    depth = 0
    while True:
        counts[0] += 1
        for fresh in range(2):
            if fresh:
                # Rounding may have added up on the way down: once more from the beginning.
                start_table(columns.matrix, columns.right, tables[depth], bases[depth])
                reduced[depth, :] = costs
            solve_table(tables[depth], bases[depth], reduced[depth], open_, most, out)
            counts[1] += int(out[3])
            if out[0] == INFEASIBLE:
                inverse_row = tables[depth, int(out[1]), size : size + rows]
                if _separates(columns, inverse_row, out[2], open_, y, used):
                    break
            elif _error(columns, tables[depth], bases[depth]) < DRIFT:
                break
            out[0] = STALLED  # if rounding spoils it twice: further down the program is smaller
        if counts[0] > node_limit:
            return SPENT
        p = -1
        if out[0] != INFEASIBLE:
            _mixed(tables[depth], bases[depth], columns, above, below)
            # By how much the relaxed outputs exceed the true ones.
            gap = TOLERANCE
            for other in range(pairs):
                if free[other]:
                    excess = min(above[other], below[other]) * columns.influence[other // m]
                    if excess > gap:
                        p, gap = other, excess
            if p < 0:
                if out[0] == FEASIBLE:
                    counts[4] += 1
                    if counts[4] > skip:
                        for other in range(pairs):
                            last_pattern[other] = above[other] > below[other]
                        return CANDIDATE
                for other in range(pairs):
                    if free[other]:
                        p = other
                        break
        if p >= 0:
            chosen[depth], second[depth] = p, False
            literal = pairs + p if above[p] >= below[p] else p
            free[p] = False
        else:
            leaf = counts[2]
            if leaf >= leaves.is_cut.size or counts[3] + deepest + 2 > leaves.log.size:
                return SPENT
            counts[2] += 1
            leaves.log[counts[3]] = leaf
            counts[3] += 1
            leaves.basis[leaf, :] = bases[depth]
            leaves.is_cut[leaf] = out[0] == INFEASIBLE
            if out[0] == INFEASIBLE:
                leaves.vector[leaf, :] = y
                _conditions(used, depth, held_now, columns, clause)
            else:
                clause[:] = False
                for level in range(depth):
                    clause[held_now[level]] = True
            leaves.clause[leaf, :] = clause
            # Back up to the nearest choice whose other side is still to be seen.
            literal = -1
            while depth > 0:
                depth -= 1
                held, p = held_now[depth], chosen[depth]
                _hold(held, -1, columns, holders, open_)
                if not clause[held]:
                    # This side did not need its own condition: the clause holds without it.
                    if second[depth]:
                        leaves.log[counts[3]] = -1 - pairs
                        counts[3] += 1
                elif not second[depth]:
                    first[depth, :] = clause
                    second[depth] = True
                    literal = p if held >= pairs else pairs + p
                    break
                else:
                    for c in range(2 * pairs):
                        clause[c] = clause[c] or first[depth, c]
                    clause[p] = False
                    clause[pairs + p] = False
                    leaves.log[counts[3]] = -1 - p
                    counts[3] += 1
                free[p] = True
            if literal < 0:
                return CLOSED
        _hold(literal, 1, columns, holders, open_)
        held_now[depth] = literal
        tables[depth + 1] = tables[depth]
        bases[depth + 1] = bases[depth]
        reduced[depth + 1] = reduced[depth]
        depth += 1
