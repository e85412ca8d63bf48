"""A proof that the program of one node has no solution, in float64 with every rounding bounded.

Farkas: if y' G_j >= 0 for every column j that may be positive and y' h < 0, then G v = h has no
solution v >= 0. At an infeasible node of the dual simplex y is, up to sign, a row of the inverse of
the basis B: the exact y solves y' B = +-e, so it is exactly 0 on all basic columns but one. The float64
row is close to it, and how close is bounded a posteriori:

    y' = yt' + (e' - yt' B) R (I - H)^-1,   H = I - B R,   R the float64 inverse,

so that |y - yt| <= eps = max |(e' - yt' B) R| / (1 - |H|_1) if |H|_1 < 1. The other columns are then
checked with room for eps. The numbers of G and h are exact rationals with a relative error of at most
three roundings, 3 * 2^-53 (see ``matchers/relu/_program.py``).

Most certificates use few equations, and y is exactly 0 on the others; a bound on the error would
drown those zeros. So the equations with |yt| at rounding level are left out and y is set to 0 there.
If exactly as many basic columns as equations are left that touch each other, these form a square
block of B, whose inverse is the same block of R, and the argument holds in the block. Columns a_is and
u_is that differ in sign only on what is left count as one, with the difference of their rows of R.
"""

from __future__ import annotations

import numpy as np
from numba import njit

UNIT = 2.0**-53
SMALL = 1e-11  # entries of y below this share of the largest are taken for 0
SLACK = 1.0 + 1e-9  # covers the rounding of the bounds themselves
TINY = 1e-290  # covers underflow


@njit(cache=True, nogil=True)
def certify(matrix, right, inverse, basis, open_, partner, leave, sign, used):  # type: ignore[no-untyped-def]
    """Whether the node is proved infeasible; ``used`` marks the held columns the proof needs held.

    ``partner[j]``: the column that may be the negative of column j on some equations, or -1.
    """
    rows, size = matrix.shape
    y = np.empty(rows)
    for r in range(rows):
        y[r] = sign * inverse[leave, r]
    largest = np.abs(y).max()
    if not np.isfinite(largest) or largest == 0.0:
        return False
    support = np.flatnonzero(np.abs(y) > SMALL * largest)
    n = support.size
    opposite = _opposite(matrix, support, partner)
    place = np.full(size, -1)
    block = np.zeros((n, n))
    against = np.zeros((n, n))
    count, at = 0, -1
    for t in range(rows):
        column = basis[t]
        same = -1
        if column >= 0 and opposite[column] >= 0:
            same = place[opposite[column]]
        if same >= 0:
            # The same condition once more: the inverse counts it with its sign.
            for b in range(n):
                against[same, b] -= inverse[t, support[b]]
            if t == leave or same == at:
                return False
            continue
        touches = False
        for a in range(n):
            value = _entry(matrix, column, support[a])
            if value != 0.0:
                touches = True
                if count < n:
                    block[a, count] = value
        if touches:
            if count == n:
                return False
            for b in range(n):
                against[count, b] = inverse[t, support[b]]
            if t == leave:
                at = count
            if column >= 0:
                place[column] = count
            count += 1
    if count != n or at < 0:
        return False
    unit = (n + 10) * UNIT
    # |e' - yt' B|, and its product with |R|.
    miss = np.zeros(n)
    moved = np.zeros(n)
    for c in range(n):
        total, mass = 0.0, 1.0
        for a in range(n):
            term = y[support[a]] * block[a, c]
            total += term
            mass += abs(term)
        if c == at:
            total -= sign
        miss[c] = abs(total) + unit * mass + TINY
        for a in range(n):
            moved[a] += miss[c] * abs(against[c, a])
    # Column sums of |I - B R|.
    gap = 0.0
    totals = np.zeros((n, n))
    masses = np.zeros((n, n))
    for a in range(n):
        for c in range(n):
            value = block[a, c]
            if value != 0.0:
                for b in range(n):
                    term = value * against[c, b]
                    totals[a, b] += term
                    masses[a, b] += abs(term)
    for b in range(n):
        column = 0.0
        for a in range(n):
            here = totals[a, b] - (1.0 if a == b else 0.0)
            column += abs(here) + unit * (masses[a, b] + 1.0) + TINY
        gap = max(gap, column)
    gap *= SLACK
    if not gap < 0.5:
        return False
    error = moved.max() * SLACK / (1.0 - gap) * SLACK
    settled = np.zeros(size, np.bool_)
    for t in range(rows):
        if basis[t] >= 0:
            settled[basis[t]] = True  # y' G_j is exactly 0, but for the leaving one: +-1
            if t != leave and opposite[basis[t]] >= 0:
                settled[opposite[basis[t]]] = True
    for j in range(size):
        used[j] = False
        if settled[j]:
            continue
        total, bound = 0.0, 0.0
        for a in range(n):
            value = matrix[support[a], j]
            if value != 0.0:
                term = y[support[a]] * value
                total += term
                bound += unit * abs(term) + error * abs(value) + TINY
        if total < bound * SLACK and bound > 0.0:
            if open_[j]:
                return False
            used[j] = True
    if basis[leave] >= 0 and sign < 0.0:
        used[basis[leave]] = True
    total, bound = 0.0, 0.0
    for a in range(n):
        term = y[support[a]] * right[support[a]]
        total += term
        bound += unit * abs(term) + error * abs(right[support[a]]) + TINY
    return total + bound * SLACK < 0.0


@njit(cache=True, nogil=True)
def _opposite(matrix, support, partner):  # type: ignore[no-untyped-def]
    """The partner of each column if it is the column's negative on the equations that are left, or -1.

    For a_is and u_is that is so where no equation of their sample is left: they then enter through
    their difference only.
    """
    out = partner.copy()
    for j in range(partner.size):
        if out[j] >= 0:
            for r in support:
                if matrix[r, j] != -matrix[r, partner[j]]:
                    out[j] = -1
                    break
    return out


@njit(cache=True, nogil=True)
def _entry(matrix, column, row):  # type: ignore[no-untyped-def]
    """Entry of a basic column; -1 - r stands for the artificial one of equation r."""
    if column >= 0:
        return matrix[row, column]
    return 1.0 if column == -1 - row else 0.0
