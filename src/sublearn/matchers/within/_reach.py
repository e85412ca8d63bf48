"""What the outputs can be at all, with room eps: ranges, images of boxes, and narrow layers."""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from sublearn._arrays import Array
from sublearn.matchers._hull import sample_out_of_hull
from sublearn.matchers._ranges import beyond, ranges
from sublearn.matchers.proofs._balls import BALLS, Ball, BallMatrix, precision, wanted
from sublearn.matchers.proofs._krawczyk import float_matrix
from sublearn.matchers.within._bands import BITS, WIDER, Bands, bands, rational

if TYPE_CHECKING:
    from sublearn.ensembles import Instance


MOST_MINORS = 300
LARGEST_MINOR = 40


def out_of_reach(instance: Instance, eps: float) -> str | None:
    """Why some target is farther than eps from everything that its outputs can be, or None."""
    with precision(BITS):
        allowed = bands(instance, eps)
        if isinstance(allowed, str):
            return allowed
        return (
            _out_of_range(instance, eps)
            or _out_of_hull(instance, allowed)
            or _out_of_rank(instance, allowed)
        )


def _out_of_range(instance: Instance, eps: float) -> str | None:
    """The ends of a range count as reached, so limits are included."""
    final, targets = ranges(instance), wanted(instance, BALLS).entries()
    at = beyond(final, targets, eps * (1 + BALLS.exact(np.array([[WIDER]]))[0, 0]))
    if at is None:
        return None
    o, s = divmod(at, instance.samples)
    below = not final.no_low[o, s] and final.low[o, s] > targets[at]
    end = float((final.low if below else final.high)[o, s].mid())
    return (
        f"output {o} of sample {s} is at {'least' if below else 'most'} {end:.6g} whatever the learnable "
        f"weights are; its target is {float(targets[at].mid()):.6g}"
    )


def _out_of_hull(instance: Instance, allowed: Bands) -> str | None:
    """Why the outputs of one sample, together, are out of reach of the frozen rows of the readout."""
    s = sample_out_of_hull(instance, allowed)
    if s is None:
        return None
    return (
        f"no values that can enter the frozen rows of the readout on sample {s} bring all of "
        "its outputs within eps"
    )


def _out_of_rank(instance: Instance, allowed: Bands) -> str | None:
    """Why no matrix of the rank that a narrow layer leaves lies within the bands, or None."""
    narrow = _narrowest(instance)
    if narrow is None:
        return None
    rank, offset = narrow
    d, m = instance.network.output_size, instance.samples
    whole = allowed.bounded.reshape(d, m).all(axis=0)
    kept = np.flatnonzero(whole).tolist()
    if min(d, len(kept)) <= rank:
        return None
    middle, half = [], []
    for o in range(d):
        shift = 0 if offset is None else BALLS.exact(offset[o : o + 1])[0, 0]
        for s in kept:
            low, high = allowed.low[o * m + s], allowed.high[o * m + s]
            middle.append((low + high) / 2 - shift)
            half.append((high - low) / 2)
    centre = BALLS.matrix(d, len(kept), middle)
    if _tail(centre, rank, half) or _regular_minor(centre, half, rank):
        return (
            f"a narrow layer leaves the outputs rank {rank}, and every matrix of that rank is "
            "farther than eps from the targets"
        )
    return None


def _narrowest(instance: Instance) -> tuple[int, Array | None] | None:
    """(rank that the pre-activations minus the frozen last bias can have; that bias)."""
    network, allocation = instance.network, instance.allocation
    last = network.steps[-1]
    if last.block is not None or not network.is_plain:
        return None
    rank, offset = network.shapes[last.weight][1], None
    if last.bias is not None:
        if allocation.mask(last.bias).any():
            rank += 1
        else:
            offset = np.asarray(instance.weights[last.bias])
    steps = network.steps
    single = all(step.block is None for step in steps[1:])
    if single and all(step.activation == "linear" for step in steps[:-1]):
        biased = any(step.bias is not None for step in steps)
        for step in steps[:-1]:
            width = network.shapes[step.weight][0] + int(biased)
            rank = min(rank, width)
    return rank, offset


def _tail(centre: BallMatrix, rank: int, half: list[Ball]) -> bool:
    """Whether the distance to rank ``rank`` in the Frobenius norm exceeds that of the bands' corners.

    Eckart and Young: its square is the sum of the eigenvalues of A A' behind the first ``rank``. With a
    float64 basis U that is nearly orthonormal, Ostrowski's theorem bounds them from below by those of
    U' A A' U over 1 + |U'U - I|, and these by their diagonal minus the largest sum beside it (Weyl).
    """
    gram = centre * centre.transpose()
    if centre.ncols() < centre.nrows():
        gram = centre.transpose() * centre
    n = gram.nrows()
    rough = float_matrix(gram)
    if n > 4 * LARGEST_MINOR or not np.isfinite(rough).all():
        return False
    basis = BALLS.exact(np.linalg.eigh(rough)[1])
    turned = (basis.transpose() * gram * basis).tolist()
    product = (basis.transpose() * basis).tolist()
    off = [sum(abs(turned[i][j]) for j in range(n) if j != i) for i in range(n)]
    slip = [sum(abs(product[i][j] - (1 if i == j else 0)) for j in range(n)) for i in range(n)]
    worst, most = off[0], slip[0]
    for i in range(1, n):
        worst, most = worst.max(off[i]), most.max(slip[i])
    diagonal = sorted(
        (turned[i][i].lower() for i in range(n)), key=lambda x: rational(x, upper=False)
    )
    total: Ball = 0
    for value in diagonal[: n - rank]:
        least = value - worst
        if least > 0:
            total = total + least / (1 + most)
    return bool(total > sum(h * h for h in half))


def _regular_minor(centre: BallMatrix, half: list[Ball], rank: int) -> bool:
    """Whether a minor of order rank + 1 is regular all over the bands.

    A + E with |E| <= D is regular if |A^-1| D v < v for some v > 0: else (A + E) x = 0 gives
    |x| <= |A^-1| D |x|, against Perron and Frobenius.
    """
    m, n = centre.ncols(), rank + 1
    if n > LARGEST_MINOR:
        return False
    rough = float_matrix(centre)
    if not np.isfinite(rough).all():
        return False
    for rows, columns in _minors(rough, n):
        part = BALLS.part(centre, rows, columns)
        room = BALLS.matrix(n, n, [half[o * m + s] for o in rows for s in columns])
        try:
            inverse = part.inv()
        except ZeroDivisionError:
            continue
        inside = BALLS.matrix(n, n, [abs(e) for e in inverse.entries()]) * room
        small = float_matrix(inside)
        if not np.isfinite(small).all():
            continue
        v = np.ones(n)
        for _ in range(20):
            v = small @ v + 1e-12
            v /= v.max()
        exact = BALLS.exact(v[:, None])
        after = (inside * exact).entries()
        if all(a < b for a, b in zip(after, exact.entries(), strict=True)):
            return True
    return False


def _minors(rough: Array, n: int) -> list[tuple[list[int], list[int]]]:
    """All minors where they are few; else the one that pivoting finds the most independent."""
    from scipy.linalg import qr

    d, m = rough.shape
    if comb(d, n) * comb(m, n) <= MOST_MINORS:
        return [
            (list(rows), list(columns))
            for rows in combinations(range(d), n)
            for columns in combinations(range(m), n)
        ]
    columns = qr(rough, mode="r", pivoting=True)[1][:n].tolist()
    rows = qr(rough[:, columns].T, mode="r", pivoting=True)[1][:n].tolist()
    return [(rows, columns)]
