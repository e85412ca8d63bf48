"""What the outputs can be at all, with room eps: ranges, images of boxes, and narrow layers."""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from sublearn._arrays import Array, Indices, Mask
from sublearn.matchers._ranges import Range, ranges
from sublearn.matchers.proofs._balls import BALLS, Ball, BallMatrix, precision
from sublearn.matchers.proofs._krawczyk import float_matrix
from sublearn.matchers.within._bands import BITS, WIDER, Bands, bands, rational, wanted_balls

if TYPE_CHECKING:
    from sublearn.ensembles import Instance


MARGIN = 1e-7  # by which a direction is kept away from what is infinite
MOST_MINORS = 300
LARGEST_MINOR = 40


def out_of_reach(instance: Instance, eps: float) -> str | None:
    """Why some target is farther than eps from everything that its outputs can be, or None."""
    with precision(BITS):
        asked = bands(instance, eps)
        if isinstance(asked, str):
            return asked
        return (
            _out_of_range(instance, eps)
            or _out_of_hull(instance, asked)
            or _out_of_rank(instance, asked)
        )


def _out_of_range(instance: Instance, eps: float) -> str | None:
    """As ``_ranges.out_of_range``: the ends of a range count as reached, so limits are included."""
    final, m = ranges(instance), instance.samples
    low, high = final.low.entries(), final.high.entries()
    room = eps * (1 + BALLS.exact(np.array([[WIDER]]))[0, 0])
    for at, target in enumerate(wanted_balls(instance)):
        o, s = divmod(at, m)
        below = not final.no_low[o, s] and low[at] - target > room
        above = not final.no_high[o, s] and target - high[at] > room
        if below or above:
            end = float((low if below else high)[at].mid())
            return (
                f"output {o} of sample {s} is at {'least' if below else 'most'} {end:.6g} whatever "
                f"the learnable weights are; its target is {float(target.mid()):.6g}"
            )
    return None


def _out_of_hull(instance: Instance, asked: Bands) -> str | None:
    """Why the outputs of one sample, together, are out of reach of the frozen rows of the readout."""
    network, allocation = instance.network, instance.allocation
    last = network.steps[-1]
    if last.block is not None:
        return None
    weight = np.asarray(instance.weights[last.weight])
    free = allocation.mask(last.weight).any(axis=1)
    offset = np.zeros((len(weight), 1))
    if last.bias is not None:
        free = free | allocation.mask(last.bias)[:, 0]
        offset = np.asarray(instance.weights[last.bias])
    kept = np.flatnonzero(~free)
    if not kept.size:
        return None
    state = ranges(instance, entering_last=True)
    m = instance.samples
    for s in range(m):
        places = kept * m + s
        if _separated(weight[kept], offset[kept, 0], state, s, asked, places):
            return (
                f"no values that can enter the frozen rows of the readout on sample {s} bring all of "
                "its outputs within eps"
            )
    return None


def _separated(
    weight: Array,
    offset: Array,
    state: Range,
    s: int,
    asked: Bands,
    places: Indices,
) -> bool:
    """Whether a direction v has min over the bands of v.z > max over the box of v.(W h + b)."""
    m = state.no_low.shape[1]
    low, high = state.low.entries()[s::m], state.high.entries()[s::m]
    no_low, no_high = state.no_low[:, s], state.no_high[:, s]
    v = _direction(
        weight, offset, np.array([float(e.mid()) for e in low]),
        np.array([float(e.mid()) for e in high]), no_low, no_high, asked, places,
    )  # fmt: skip
    if v is None:
        return False
    along = (BALLS.exact(v[None, :]) * BALLS.exact(weight)).entries()
    most: Ball = 0
    for i, slope in enumerate(along):
        if slope.is_zero():
            continue
        if no_high[i] or no_low[i]:
            if (no_high[i] and not slope < 0) or (no_low[i] and not slope > 0):
                return False
            most = most + slope * (low[i] if slope < 0 else high[i])
        else:
            most = most + (slope * low[i]).max(slope * high[i])
    least: Ball = 0
    shifts = BALLS.exact(offset[:, None]).entries()
    for at, value, shift in zip(places.tolist(), v.tolist(), shifts, strict=True):
        if value == 0.0:
            continue
        if (value > 0 and asked.no_low[at]) or (value < 0 and asked.no_high[at]):
            return False
        least = (
            least
            + value * (asked.low[at] if value > 0 else asked.high[at])
            - value * BALLS.exact(np.array([[shift]]))[0, 0]
        )
    return bool(least > most)


def _direction(
    weight: Array,
    offset: Array,
    low: Array,
    high: Array,
    no_low: Mask,
    no_high: Mask,
    asked: Bands,
    places: Indices,
) -> Array | None:
    """v = l - u, l and u >= 0 of size at most 1, with the largest gap; in float64.

    Unknowns: l, u, and p_i >= v.W_i h for both ends h of entry i. Where an end is infinite the slope
    must point away from it, with a margin, so that rounding cannot turn it.
    """
    from scipy.optimize import linprog

    d, n = weight.shape
    lows = np.array([float(asked.low[i].mid()) for i in places]) - offset
    highs = np.array([float(asked.high[i].mid()) for i in places]) - offset
    size = max(float(np.abs(np.r_[lows, highs]).max()), 1e-300)
    widest = np.abs(weight).max(axis=0)
    used = np.flatnonzero(widest > 0)
    rows, right = [], []

    def ask(i: int, factor: float, inside: float, bound: float) -> None:
        row = np.zeros(2 * d + n)
        row[:d], row[d : 2 * d] = factor * weight[:, i], -factor * weight[:, i]
        row[2 * d + i] = inside
        rows.append(row)
        right.append(bound)

    for i in used.tolist():
        if no_high[i]:
            ask(i, 1.0, 0.0, -MARGIN * widest[i])
        else:
            ask(i, high[i] / size, -1.0, 0.0)
        if no_low[i]:
            ask(i, -1.0, 0.0, -MARGIN * widest[i])
        else:
            ask(i, low[i] / size, -1.0, 0.0)
    goal = np.r_[-lows / size, highs / size, np.zeros(n)]
    goal[2 * d + used] = 1.0
    limits = [(0.0, 0.0 if asked.no_low[i] else 1.0) for i in places]
    limits += [(0.0, 0.0 if asked.no_high[i] else 1.0) for i in places]
    if not (np.isfinite(goal).all() and np.isfinite(rows).all()):
        return None
    found = linprog(
        goal,
        A_ub=np.array(rows) if rows else None,
        b_ub=np.array(right) if rows else None,
        bounds=[*limits, *[(None, None)] * n],
        method="highs",
    )
    if found.status != 0 or not found.fun < -1e-12:
        return None
    return np.asarray(found.x[:d] - found.x[d : 2 * d], dtype=np.float64)


def _out_of_rank(instance: Instance, asked: Bands) -> str | None:
    """Why no matrix of the rank that a narrow layer leaves lies within the bands, or None."""
    narrow = _narrowest(instance)
    if narrow is None:
        return None
    rank, offset = narrow
    d, m = instance.network.output_size, instance.samples
    whole = asked.bounded.reshape(d, m).all(axis=0)
    kept = np.flatnonzero(whole).tolist()
    if min(d, len(kept)) <= rank:
        return None
    middle, half = [], []
    for o in range(d):
        shift = 0 if offset is None else BALLS.exact(offset[o : o + 1])[0, 0]
        for s in kept:
            low, high = asked.low[o * m + s], asked.high[o * m + s]
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
    if last.block is not None:
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
        part = BALLS.matrix(n, n, [centre[o, s] for o in rows for s in columns])
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
