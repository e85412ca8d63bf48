"""The cheap proof: polish in pairs of float64 numbers, test in float64 with counted roundings.

It decides most roots that a search finds, at a tenth of the cost of balls at 106 bits. It fails where
the conditioning exceeds float64, and on long chains, whose a priori bounds grow with every step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sublearn._arrays import Array, Indices
from sublearn._compile import compiled
from sublearn.matchers.proofs._balls import BALLS, precision, wanted
from sublearn.matchers.proofs._doubles import FLOOR, SLACK, U, jacobian, residual

if TYPE_CHECKING:
    from sublearn.ensembles import Instance
    from sublearn.networks import Network


RESTARTS = 6  # of Newton's method, each with a new inverse
LARGEST_WORK = 2**20
PAIR_BITS = 212


class Packed:
    """A linear chain as arrays: matrices padded to one size, steps as numbers, -1 for none."""

    def __init__(
        self, network: Network, weights: Mapping[str, Array], inputs: Array, targets: Array
    ) -> None:
        shapes = network.shapes
        self.names = {name: number for number, name in enumerate(shapes)}
        width = max(max(shape) for shape in shapes.values())
        self.sizes = np.array(list(shapes.values()), dtype=np.int64)
        # Midpoint and radius; the low parts, which only the residual needs, stand apart.
        self.weights = np.zeros((len(shapes), 2, width, width))
        self.high, self.radius = self.weights[:, 0], self.weights[:, 1]
        for name, (rows, columns) in shapes.items():
            self.high[self.names[name], :rows, :columns] = weights[name]
        self.low = np.zeros((len(shapes), width, width))
        self.labels = np.empty((0, 3), dtype=np.int64)
        self.steps = np.array(
            [
                (
                    self.names[step.weight],
                    -1 if step.encoder is None else self.names[step.encoder],
                    -1 if step.bias is None else self.names[step.bias],
                    -1 if step.block is None else step.block,
                )
                for step in network.steps
            ],
            dtype=np.int64,
        )
        # Blocks are all of one size: a sequence, or a single input. Their radius is 0.
        count, size, samples = len(network.input_blocks), network.input_blocks[0], inputs.shape[-1]
        self.blocks = np.zeros((count, 2, size, samples))
        self.blocks[:, 0] = inputs.reshape(count, size, samples)
        self.inputs = self.blocks[:, 0]
        self.targets = targets

    def free(self, instance: Instance, positions: Indices, values: Array) -> None:
        """Set the learnable weights to ``values`` and let those at some positions vary."""
        allocation = instance.allocation
        labels = np.empty((len(allocation), 3), dtype=np.int64)
        start = 0
        for name, (_, columns) in instance.network.shapes.items():
            flat = allocation.flat(name)
            part = labels[start : start + flat.size]
            part[:, 0] = self.names[name]
            part[:, 1], part[:, 2] = np.divmod(flat, columns)
            start += flat.size
        self.high[labels[:, 0], labels[:, 1], labels[:, 2]] = values
        self.labels = np.ascontiguousarray(labels[positions])

    @property
    def work(self) -> int:
        """Operations behind one bound; SLACK covers fewer than 2^20."""
        return (len(self.steps) + 2) * (int(self.high.shape[1]) + int(self.blocks.shape[2]) + 8)

    def residual(self, high: Array, low: Array) -> Array:
        """F(hi + lo) as (hi, lo, error bound), (3, d, m)."""
        place(self.high, self.labels, high)
        place(self.low, self.labels, low)
        return residual(self.high, self.low, self.sizes, self.steps, self.inputs, self.targets)

    def jacobian(self, high: Array, radius: Array) -> Array:
        """(midpoint, radius) of the Jacobian over the box of ``radius`` around ``high``."""
        place(self.high, self.labels, high)
        place(self.radius, self.labels, radius)
        return jacobian(
            self.weights, self.sizes, self.steps, self.blocks, self.labels, self.targets.shape[1]
        )


@dataclass(frozen=True)
class Quick:
    """What the quick proof came to: the point hi + lo, and a box around it if the test holds."""

    high: Array
    low: Array
    radius: Array | None = None
    near: bool = False  # whether Newton's method came so near that about 106 bits may be enough


def quick_proof(instance: Instance, free: Indices, values: Array, low: Array) -> Quick:
    """Try the Krawczyk test around ``values + low`` at the positions ``free``, the others held.

    Without a proof, the point is the best that was reached: the start, if Newton's method did not
    converge.
    """
    start = Quick(values[free], low[free])
    if instance.inputs_are_rounded:
        return start
    chain = Packed(instance.network, instance.weights, instance.inputs, target_pairs(instance))
    chain.free(instance, free, values)
    if chain.work >= LARGEST_WORK:
        return start
    high, rest = np.zeros(free.size), np.zeros(free.size)
    split(start.high, start.low, high, rest)
    for _ in range(RESTARTS):
        slopes = chain.jacobian(high, np.zeros(free.size))
        inverse = _inverse(slopes[0])
        if inverse is None:
            return start
        converged, parts = descend(
            chain.high, chain.low, chain.sizes, chain.steps, chain.inputs, chain.targets,
            chain.labels, inverse, high, rest,
        )  # fmt: skip
        if not (np.isfinite(high).all() and np.isfinite(rest).all()):
            return start
        if converged:
            break
    else:
        return start
    radius = np.zeros(free.size)
    widest = bound_moves(inverse, parts, high, radius)
    if not widest < 2.0**-10 * np.abs(high).max():
        return Quick(high, rest)
    # The low parts belong to the distance from the midpoint of the Jacobian.
    over_box = chain.jacobian(high, (widest + np.abs(rest)) * SLACK)
    if inflate(inverse, over_box, widest, radius):
        return Quick(high, rest, radius, near=True)
    # Rounding of the slopes shrinks with more bits; what the width of the box does to them only
    # shrinks with the box, which is as wide at 106 bits.
    width = np.abs(inverse) @ (over_box[1] - slopes[1]).sum(axis=1)
    return Quick(high, rest, near=bool(width.max() < 2.0**8))


def target_pairs(instance: Instance) -> Array:
    """The targets as (hi, lo, error), (3, d, m): |true - hi - lo| <= error."""
    out = np.zeros((3, *instance.targets.shape))
    out[0] = instance.targets
    if instance.asking is None:
        return out
    teacher, inputs = instance.teacher, instance.inputs
    if teacher is not None and teacher.network.is_linear:
        # The outputs of the teacher: what its chain leaves where nothing is asked of it.
        chain = Packed(teacher.network, teacher.weights, inputs, np.zeros_like(out))
        if chain.work < LARGEST_WORK:
            return residual(
                chain.high, chain.low, chain.sizes, chain.steps, chain.inputs, chain.targets
            )
    with precision(PAIR_BITS):
        for place, ball in zip(
            np.ndindex(*instance.targets.shape), wanted(instance, BALLS).entries(), strict=True
        ):
            high = float(ball.mid())
            low = float((ball - high).mid())
            rest = abs(ball - high - low).upper()
            out[(slice(None), *place)] = high, low, float(rest) * SLACK + FLOOR
    return out


def _inverse(matrix: Array) -> Array | None:
    if not np.isfinite(matrix).all():
        return None
    try:
        out = np.ascontiguousarray(np.linalg.inv(matrix), dtype=np.float64)
    except np.linalg.LinAlgError:
        return None
    return out if np.isfinite(out).all() else None


# Explicit loops: array expressions take the compiler ten times as long.


@compiled
def place(matrices: Array, labels: Indices, values: Array) -> None:
    """Write the free weights into the packed matrices."""
    for k in range(labels.shape[0]):
        matrices[labels[k, 0], labels[k, 1], labels[k, 2]] = values[k]


@compiled
def split(one: Array, two: Array, high: Array, low: Array) -> None:
    """hi = one + two rounded, lo = what rounding lost, exactly (Knuth): so |lo| <= u |hi|."""
    for k in range(one.size):
        total = one[k] + two[k]
        virtual = total - one[k]
        low[k] = (one[k] - (total - virtual)) + (two[k] - virtual)
        high[k] = total


@compiled
def descend(
    weights_high: Array,
    weights_low: Array,
    sizes: Indices,
    steps: Indices,
    inputs: Array,
    targets: Array,
    labels: Indices,
    inverse: Array,
    high: Array,
    low: Array,
) -> tuple[bool, Array]:
    """Newton's method in pairs with a fixed inverse, in place: (converged, the last residual).

    Converged: the last step was below the last place of float64, or the steps stopped falling near
    it. Not converged: they stopped falling before, so the inverse belongs to a point too far away.
    """
    size = high.size
    before = np.inf
    step = np.zeros(size)
    while True:
        place(weights_high, labels, high)
        place(weights_low, labels, low)
        parts = residual(weights_high, weights_low, sizes, steps, inputs, targets)
        if before < 2.0**-52:
            return True, parts
        top = parts[0].reshape(-1)
        largest, scale = 0.0, 1e-300
        for i in range(size):
            total = 0.0
            for k in range(size):
                total += inverse[i, k] * top[k]
            step[i] = total
            largest = max(largest, abs(total))
            scale = max(scale, abs(high[i]))
        relative = largest / scale
        if not relative < before / 4.0:
            return relative < 2.0**-50, parts
        before = relative
        for i in range(size):
            total = high[i] - step[i]
            virtual = total - high[i]
            rest = (high[i] - (total - virtual)) + (-step[i] - virtual) + low[i]
            high[i] = total + rest
            virtual = high[i] - total
            low[i] = (total - (high[i] - virtual)) + (rest - virtual)
        if relative > 1e6:
            return False, parts


@compiled
def bound_moves(inverse: Array, parts: Array, centre: Array, moves: Array) -> float:
    """Upper bounds of |Y F(x)| into ``moves``; returns the radius of a box with room around them."""
    size = moves.size
    rounding = (size + 3.0) * U
    top, small, error = parts[0].reshape(-1), parts[1].reshape(-1), parts[2].reshape(-1)
    widest = 0.0
    for i in range(size):
        # The product with the high part cancels, so it is formed; the rest is bounded.
        total, loose = 0.0, 0.0
        for k in range(size):
            total += inverse[i, k] * top[k]
            loose += abs(inverse[i, k]) * (rounding * abs(top[k]) + abs(small[k]) + error[k])
        moves[i] = (abs(total) + loose) * SLACK + FLOOR
        # Written so that a NaN comes through.
        if not widest >= 2.0**10 * moves[i]:
            widest = 2.0**10 * moves[i]
    for i in range(size):
        if widest < 2.0**-70 * abs(centre[i]):
            widest = 2.0**-70 * abs(centre[i])
    return widest


@compiled
def inflate(inverse: Array, slopes: Array, widest: float, radius: Array) -> bool:
    """Find radii of at most ``widest`` that pass the Krawczyk test; ``radius`` starts as the moves.

    |I - Y J| is formed from the midpoint of J; its rounding, at most (r + 3) u (|Y| |J| + I), and the
    radius of J are added.
    """
    size = radius.size
    rounding = (size + 3.0) * U
    moves = radius.copy()
    defect = np.zeros((size, size))
    for i in range(size):
        for k in range(size):
            y = inverse[i, k]
            for j in range(size):
                defect[i, j] += y * slopes[0, k, j]
        for j in range(size):
            defect[i, j] = abs(defect[i, j] - (1.0 if i == j else 0.0))
    inner = np.zeros(size)
    image = np.zeros(size)
    for i in range(size):
        radius[i] = widest
    for _ in range(6):
        for k in range(size):
            total = 0.0
            for j in range(size):
                total += (slopes[1, k, j] + rounding * abs(slopes[0, k, j])) * radius[j]
            inner[k] = total
        inside = True
        for i in range(size):
            total = moves[i] + rounding * radius[i]
            for j in range(size):
                total += defect[i, j] * radius[j] + abs(inverse[i, j]) * inner[j]
            image[i] = total * SLACK + FLOOR
            # A NaN is not inside.
            inside = inside and image[i] < radius[i]
        if inside:
            return True
        # Uneven weights: look for an uneven box inside the one the slopes were enclosed over.
        for i in range(size):
            radius[i] = min(1.5 * image[i], widest)
    return False
