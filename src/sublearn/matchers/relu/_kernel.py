"""Branch and bound over complementary pairs, with a dual simplex at every node (compiled).

The linear program of a node: G v = h, v >= 0, some entries of v held at 0. Its 2 K unknowns come in
pairs (p, K + p) of which one must be 0 in the end. A node is a tableau in memory; a child copies it,
holds one more unknown at 0 and goes on from there, so it costs a handful of pivots and no solver call.

An infeasible node is believed only after its Farkas vector was proved in ``patterns/_farkas.py``, or, where
rounding stands in the way, recomputed in rationals from the basis it leaves behind.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sublearn.patterns._farkas import certify
from sublearn.patterns._simplex import FEASIBLE, INFEASIBLE, TOLERANCE, solve, start

REFUTED, CANDIDATE, SPENT = 0, 1, 2
UNRESOLVED = -1  # in place of a leaving row: the node could not be cut off
NEGATIVE = 1e-10  # of a held column: anything that is not clearly positive counts as needed


@njit(cache=True, nogil=True)
def _choose(table, basis, open_, values):  # type: ignore[no-untyped-def]
    """The open pair that is furthest from complementary, or -1. Fills ``values``."""
    values[:] = 0.0
    for r in range(basis.size):
        if basis[r] >= 0:
            values[basis[r]] = table[r, -1]
    pairs = values.size // 2
    found, most = -1, TOLERANCE
    for p in range(pairs):
        if open_[p] and open_[pairs + p]:
            size = min(values[p], values[pairs + p])
            if size > most:
                found, most = p, size
    return found


@njit(cache=True, nogil=True)
def branch(  # type: ignore[no-untyped-def]
    matrix,
    right,
    costs,
    node_limit,
    skip,
    leaf_basis,
    leaf_row,
    leaf_sign,
    leaf_used,
    leaf_sure,
    log,
    counts,
    last_basis,
    last_open,
):
    """Depth first over the pairs.

    ``counts``: [nodes, pivots, leaves, log entries, candidates]. Returns REFUTED (every leaf is in
    the log), CANDIDATE (the program of ``last_open`` has a complementary solution, with the basis
    ``last_basis``; the first ``skip`` such nodes are passed by) or SPENT.

    A clause is a set of columns that cannot all be 0 in a complementary solution. The log is a postfix
    program over clauses: a leaf pushes its own, -1 - p joins the two clauses of pair p, and -1 - K
    drops the one below the last.
    """
    rows, size = matrix.shape
    pairs = size // 2
    deepest = pairs + 2
    tables = np.empty((deepest, rows, size + rows + 1))
    bases = np.empty((deepest, rows), np.int64)
    reduced = np.empty((deepest, size))
    first = np.zeros((deepest, size), np.bool_)
    chosen = np.empty(deepest, np.int64)
    second = np.zeros(deepest, np.bool_)
    held_now = np.empty(deepest, np.int64)
    open_ = np.ones(size, np.bool_)
    clause = np.zeros(size, np.bool_)
    values = np.zeros(size)
    out = np.zeros(4)
    start(matrix, right, tables[0], bases[0])
    reduced[0, :] = costs
    counts[:] = 0
    most = 50 * rows + 200
    depth = 0
    while True:
        counts[0] += 1
        sure = False
        for fresh in range(2):
            if fresh:
                # Rounding may have added up on the way down: once more from the beginning.
                start(matrix, right, tables[depth], bases[depth])
                reduced[depth, :] = costs
            solve(tables[depth], bases[depth], reduced[depth], open_, most, out)
            counts[1] += int(out[3])
            if out[0] != INFEASIBLE:
                break
            sure = certify(
                matrix,
                right,
                tables[depth, :, size : size + rows],
                bases[depth],
                open_,
                int(out[1]),
                out[2],
                clause,
            )
            if sure:
                break
        if counts[0] > node_limit:
            return SPENT
        p = -1
        if out[0] != INFEASIBLE:
            p = _choose(tables[depth], bases[depth], open_, values)
            if p < 0:
                if out[0] == FEASIBLE:
                    counts[4] += 1
                    if counts[4] > skip:
                        last_basis[:] = bases[depth]
                        last_open[:] = open_
                        return CANDIDATE
                for other in range(pairs):
                    if open_[other] and open_[pairs + other]:
                        p = other
                        break
        if p >= 0:
            chosen[depth], second[depth] = p, False
            hold = pairs + p if values[p] >= values[pairs + p] else p
        else:
            leaf = counts[2]
            if leaf >= leaf_row.size or counts[3] + deepest + 2 > log.size:
                return SPENT
            counts[2] += 1
            log[counts[3]] = leaf
            counts[3] += 1
            leaf_basis[leaf, :] = bases[depth]
            leaf_sure[leaf] = sure
            if out[0] == INFEASIBLE:
                row, sign = int(out[1]), out[2]
                leaf_row[leaf], leaf_sign[leaf] = row, int(sign)
                if not sure:
                    for j in range(size):
                        clause[j] = not open_[j] and sign * tables[depth, row, j] < NEGATIVE
            else:
                leaf_row[leaf], leaf_sign[leaf] = UNRESOLVED, 1
                for j in range(size):
                    clause[j] = not open_[j]
            leaf_used[leaf, :] = clause
            # Back up to the nearest choice whose other side is still to be seen.
            hold = -1
            while depth > 0:
                depth -= 1
                held, p = held_now[depth], chosen[depth]
                open_[held] = True
                if not clause[held]:
                    # This side did not need its own condition: the clause holds without it.
                    if second[depth]:
                        log[counts[3]] = -1 - pairs
                        counts[3] += 1
                elif not second[depth]:
                    first[depth, :] = clause
                    second[depth] = True
                    hold = p if held >= pairs else pairs + p
                    break
                else:
                    for j in range(size):
                        clause[j] = clause[j] or first[depth, j]
                    clause[p] = False
                    clause[pairs + p] = False
                    log[counts[3]] = -1 - p
                    counts[3] += 1
            if hold < 0:
                return REFUTED
        open_[hold] = False
        held_now[depth] = hold
        tables[depth + 1] = tables[depth]
        bases[depth + 1] = bases[depth]
        reduced[depth + 1] = reduced[depth]
        depth += 1
