"""Few learnable weights: all of their values, cut into boxes until every box is refuted.

Take the learnable weights of one row, x. They lie in the cube |x_j| <= M, or one of them is the largest
in size and x = t (coefficients), with t >= M, the coefficient of the largest +1 or -1 and the others
between -1 and 1. So boxes of coefficients and of t, t = 1 in the cube and [a, inf] far out, hold all real
weights, and a box that goes to infinity has an image like any other: t (c . h) is infinite only where
the sign of c . h is open. Behind tanh or a sigmoid that is a bounded interval, with its limits inside.

An image is an interval per output, every rounding outwards. A box is refuted if the image of one output
misses its band. Bounded boxes have a second chance: with enclosures J of the Jacobian over the box,

    y'F(x) lies in y'F(centre) + (y'J)(x - centre),

and a vector y that is nearly orthogonal to J at the centre makes the last term small. Good vectors are the
residuals of weighted least squares whose weights follow the largest errors (Lawson 1961): they tend to
those of the minimax problem. What is left is halved; if all boxes are refuted, so is every limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from sublearn._arrays import Array, Indices, Mask, zeros
from sublearn.matchers._behind import behind_output
from sublearn.matchers.proofs._balls import precision
from sublearn.matchers.within._bands import BITS, Bands, bands
from sublearn.networks import links, walk

if TYPE_CHECKING:
    from sublearn.ensembles import Instance

Interval = tuple[Array, Array]

NEAR = 2.0  # half the side of the cube
MOST_WEIGHTS = 8
MOST_CHARTS = 2000
BATCH = 512
MOST_BOXES = 60_000
HALVINGS = 12  # of a side, on average, before a box is called hopeless
LARGEST_BATCH = 2**20  # numbers in the tangents of one batch
ROUNDS = 12  # of weights that follow the largest errors
MOST_NUMBERS = 2e9  # of pre-activations, in all boxes together
UNIT = 2.0**-53

REACH, SPACING = 20.0, 2.0**-10
# Linear interpolation errs by at most h^2 / 8 max |tanh''|, and |tanh''| <= 4 / (3 sqrt 3) < 0.77.
PAD = SPACING**2 / 8 * 0.77 * 1.01 + 1e-14


@dataclass(frozen=True)
class Boxes:
    """Coefficients (boxes, r) and lengths t (boxes, rows), as intervals; depth of each box."""

    low: Array
    high: Array
    near: Array
    far: Array
    depth: Indices

    def __len__(self) -> int:
        return len(self.depth)

    def select(self, kept: Mask | slice) -> Boxes:
        """Some of the boxes."""
        return Boxes(*(part[kept] for part in vars(self).values()))

    def deeper(self) -> Boxes:
        """A copy to be cut."""
        ends = self.low.copy(), self.high.copy(), self.near.copy(), self.far.copy()
        return Boxes(*ends, self.depth + 1)

    def join(self, other: Boxes) -> Boxes:
        """These and the others."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Boxes(*(np.concatenate(pair) for pair in pairs))


def refused(instance: Instance) -> str | None:
    """Why boxes are not tried."""
    if instance.inputs_are_rounded:
        return "the inputs are no float64 numbers"
    if not instance.network.is_plain:
        return "boxes are for steps of the form phi(W (h + B x) + b)"
    if len(instance.allocation) > MOST_WEIGHTS:
        return f"{len(instance.allocation)} weights are too many to cut their values into boxes"
    charts = 1
    for members in _rows(instance).values():
        charts *= 1 + 2 * len(members)
    return f"{charts} charts are too many" if charts > MOST_CHARTS else None


def all_refuted(instance: Instance, eps: float, nodes: int) -> tuple[str | None, int, Array | None]:
    """(why no weights come within eps, or None; boxes looked at; else a point in a small box left)."""
    with precision(BITS):
        asked = bands(instance, eps)
        if isinstance(asked, str):
            return asked, 0, None
        wanted = _wanted(asked)
    image = Image(behind_output(instance), wanted)
    numbers = sum(instance.network.shapes[step.weight][0] for step in instance.network.steps)
    size = len(instance.allocation)
    nodes = min(nodes, MOST_BOXES, int(MOST_NUMBERS / (numbers * instance.samples * (8 + size))))
    deepest = HALVINGS * (size + len(image.rows))
    widest = max(max(shape) for shape in instance.network.shapes.values())
    batch = max(1, min(BATCH, LARGEST_BATCH // (size * widest * instance.samples)))
    left = _start(image)
    seen = 0
    while len(left):
        now, left = left.select(slice(-batch, None)), left.select(slice(0, -batch))
        seen += len(now)
        open_ = ~image.refuted(now)
        if open_.any():
            open_[open_] = ~image.refuted_together(now.select(open_))
        spent = seen + len(left) + 2 * int(open_.sum()) > nodes
        if spent or (now.depth[open_] > deepest).any():
            return None, seen, _middle(now.select(open_).join(left), image)
        if open_.any():
            left = left.join(_halved(now.select(open_), image))
    return f"{seen} boxes hold all values of the learnable weights, and each is refuted", seen, None


def _middle(boxes: Boxes, image: Image) -> Array | None:
    """The centre of the deepest bounded box."""
    bounded = boxes.select(_all(np.isfinite(boxes.far), 1))
    if not len(bounded):
        return None
    at = int(bounded.depth.argmax())
    length = (bounded.near[at] + bounded.far[at]) / 2
    return np.asarray((bounded.low[at] + bounded.high[at]) / 2 * length[image.row_of])


def _wanted(asked: Bands) -> Interval:
    """The bands in float64, a little wider."""
    low = np.array([float(x.lower()) for x in asked.low])
    high = np.array([float(x.upper()) for x in asked.high])
    low, high = _outwards(low, high)
    return np.where(asked.no_low, -np.inf, low), np.where(asked.no_high, np.inf, high)


def _rows(instance: Instance) -> dict[tuple[str, int], list[int]]:
    """The learnable weights of each row, as positions in the allocation; a bias belongs to its row."""
    owner = {step.bias: step.weight for step in instance.network.steps if step.bias is not None}
    out: dict[tuple[str, int], list[int]] = {}
    for place, (name, i, _) in enumerate(instance.allocation.labels()):
        out.setdefault((owner.get(name, name), i), []).append(place)
    return out


def _start(image: Image) -> Boxes:
    """One box for each choice of cube or largest weight, row by row."""
    rows, size = list(image.rows.values()), image.row_of.size
    # None: the cube; else the largest weight and its sign.
    choices = list(product(*([None, *product(members, (1.0, -1.0))] for members in rows)))
    low, high, near, far = zeros(
        (len(choices), size), (len(choices), size), *[(len(choices), len(rows))] * 2
    )
    for box, chosen in enumerate(choices):
        for row, (members, choice) in enumerate(zip(rows, chosen, strict=True)):
            half = NEAR if choice is None else 1.0
            low[box, members], high[box, members] = -half, half
            near[box, row], far[box, row] = (1.0, 1.0) if choice is None else (NEAR, np.inf)
            if choice is not None:
                low[box, choice[0]] = high[box, choice[0]] = choice[1]
    return Boxes(low, high, near, far, np.zeros(len(choices), np.int64))


def _halved(boxes: Boxes, image: Image) -> Boxes:
    """Each box cut in two across the side whose image is thought to be the longest."""
    width = (boxes.high - boxes.low) * np.minimum(boxes.near[:, image.row_of], 1e3)
    with np.errstate(invalid="ignore"):
        ratio = np.where(np.isinf(boxes.far), 4.0, boxes.far / boxes.near - 1.0)
    # Every third cut goes round all sides in turn, so that no side waits for ever.
    sides = np.concatenate([width, ratio], axis=1)
    turn = boxes.depth // 3 % sides.shape[1]
    forced = (boxes.depth % 3 == 2) & (sides[np.arange(len(boxes)), turn] > 1e-12)
    side = np.where(forced, turn, sides.argmax(axis=1))
    r = width.shape[1]
    one, two = boxes.deeper(), boxes.deeper()
    flat = np.flatnonzero(side < r)
    place = side[flat]
    middle = (boxes.low[flat, place] + boxes.high[flat, place]) / 2
    one.high[flat, place] = middle
    two.low[flat, place] = middle
    long = np.flatnonzero(side >= r)
    place = side[long] - r
    start, end = boxes.near[long, place], boxes.far[long, place]
    middle = np.where(np.isinf(end), 4.0 * start, (start + np.where(np.isinf(end), 0, end)) / 2)
    one.far[long, place] = middle
    two.near[long, place] = middle
    return one.join(two)


class Image:
    """Intervals of the last pre-activations of an instance over boxes of its learnable weights."""

    def __init__(self, instance: Instance, wanted: Interval) -> None:
        self.network, self.instance, self.wanted = instance.network, instance, wanted
        self.rows = _rows(instance)
        self.row_of = np.empty(len(instance.allocation), dtype=np.int64)
        for number, members in enumerate(self.rows.values()):
            self.row_of[members] = number
        # By name: (row, column, position) of its learnable entries.
        self.places: dict[str, list[tuple[int, int, int]]] = {}
        for place, (name, i, j) in enumerate(instance.allocation.labels()):
            self.places.setdefault(name, []).append((i, j, place))
        self.blocks = self.network.split_inputs(instance.inputs)

    def refuted(self, boxes: Boxes) -> Mask:
        """Which boxes hold no weights within the bands."""
        with np.errstate(all="ignore"):
            low, high = self.intervals(boxes)
        count = len(boxes)
        low, high = low.reshape(count, -1), high.reshape(count, -1)
        # A comparison with nan is false, so what is lost is kept open.
        return np.asarray(((high < self.wanted[0]) | (low > self.wanted[1])).any(axis=1))

    def refuted_together(self, boxes: Boxes) -> Mask:
        """Which bounded boxes are refuted by a combination of outputs."""
        out = np.zeros(len(boxes), dtype=bool)
        bounded = _all(np.isfinite(boxes.far), 1)
        if not bounded.any():
            return out
        with np.errstate(all="ignore"):
            mine = boxes.select(bounded)
            length = (mine.near[:, self.row_of], mine.far[:, self.row_of])
            low, high = _times(length, (mine.low, mine.high))
            out[bounded] = self._combined(low, high)
        return out

    def _combined(self, low: Array, high: Array) -> Mask:
        count, r = low.shape
        centre = (low + high) / 2
        radius = np.nextafter(np.maximum(high - centre, centre - low), np.inf)
        middle = self.intervals(self._plain(centre, centre))
        slopes = self.tangents(self._plain(low, high))
        first = [end.reshape(count, -1) for end in middle]
        table = [end.reshape(count, r, -1) for end in slopes]
        rough = (table[0] + table[1]) / 2
        usable = _all(np.isfinite(rough.reshape(count, -1)), 1)
        usable &= _all(np.isfinite(first[0] + first[1]), 1)
        rough[~usable] = 0.0
        y = self._vector(np.where(usable[:, None], (first[0] + first[1]) / 2, 0.0), rough)
        # y'F over the box, from below: its value at the centre, less what the slopes can take away.
        along = _dot(y[:, None, :], (table[0], table[1]))
        most = np.maximum(np.abs(along[0]), np.abs(along[1]))
        away = (most * radius).sum(axis=1) * (1 + (r + 4) * 2 * UNIT)
        least = np.nextafter(_dot(y, (first[0], first[1]))[0] - away, -np.inf)
        # The most that y'z can be within the bands; infinite where an end is.
        ends = np.where(y > 0, self.wanted[1], self.wanted[0])
        terms = np.where(y == 0, 0.0, y * ends)
        top = terms.sum(axis=1) + (terms.shape[1] + 4) * 2 * UNIT * np.abs(terms).sum(axis=1)
        return np.asarray(usable & (least > top))

    def _vector(self, outputs: Array, slopes: Array) -> Array:
        """y, nearly orthogonal to the slopes, with a large y'(outputs - bands); in float64."""
        low, high = self.wanted
        asked = np.isfinite(low) & np.isfinite(high)
        near = np.where(asked, (low + high) / 2, np.where(np.isfinite(low), low, high))
        half = np.where(asked, (high - low) / 2, 1.0)
        near, half = np.where(np.isfinite(near), near, 0.0), np.where(half > 0, half, 1.0)
        known = np.isfinite(low) | np.isfinite(high)
        right = np.where(known, (outputs - near) / half, 0.0)
        left = np.swapaxes(slopes, 1, 2) / half[:, None]
        left = left * known[:, None]
        r = left.shape[2]
        weights = np.broadcast_to(known / max(known.sum(), 1), right.shape).copy()
        rest = right
        for _ in range(ROUNDS):
            scaled = left * weights[:, :, None]
            normal = np.swapaxes(left, 1, 2) @ scaled
            normal[:, np.arange(r), np.arange(r)] += 1e-13 * (
                np.trace(normal, axis1=1, axis2=2)[:, None] / r + 1e-200
            )
            goal = np.einsum("ber,be->br", scaled, right)
            try:
                step = np.linalg.solve(normal, goal[..., None])[..., 0]
            except np.linalg.LinAlgError:
                return np.zeros_like(right)
            rest = right - np.einsum("ber,br->be", left, step)
            y = weights * rest
            weights = weights * np.abs(rest)
            weights /= weights.sum(axis=1, keepdims=True) + 1e-300
        y = np.where(np.isfinite(y), y, 0.0) / half
        # Where only one end is asked for, y may point only beyond that end.
        y = np.where(np.isfinite(high) | (y <= 0), y, 0.0)
        y = np.where(np.isfinite(low) | (y >= 0), y, 0.0)
        size = np.abs(y).max(axis=1, keepdims=True)
        return np.asarray(np.where(size > 0, y / np.where(size > 0, size, 1.0), 0.0))

    def _plain(self, low: Array, high: Array) -> Boxes:
        """Weights between two ends, as boxes of length 1."""
        ones = np.ones((len(low), len(self.rows)))
        return Boxes(low, high, ones, ones, np.zeros(len(low), np.int64))

    def intervals(self, boxes: Boxes) -> Interval:
        """(boxes, d, m) lower and upper ends."""
        return self._enclosed(boxes, slopes=False).state

    def tangents(self, boxes: Boxes) -> Interval:
        """(boxes, r, d, m): derivatives of the last pre-activations by each learnable weight."""
        slope = self._enclosed(boxes, slopes=True).slope
        assert slope is not None
        return slope

    def _enclosed(self, boxes: Boxes, slopes: bool) -> Enclosed:
        count, r = boxes.low.shape

        def enter(block: Array) -> Enclosed:
            wide = np.broadcast_to(block, (count, *block.shape))
            still = np.zeros((count, r, *block.shape)) if slopes else None
            return Enclosed((wide, wide), None if still is None else (still, still))

        chain = links(self.network, [enter(block) for block in self.blocks], None)
        weights: dict[str, tuple[str, str | None]] = {}
        for step in self.network.steps:
            weights[step.weight] = step.weight, step.bias
            if step.encoder is not None:
                weights[step.encoder] = step.encoder, None
        # A bias has its length in common with its row, so both are taken in one product.
        chain = tuple(replace(link, bias=None) for link in chain)
        out: Enclosed = walk(chain, weights, _Enclosures(self, boxes)).outputs
        return out

    def tangent(
        self, name: str, bias: str | None, state: Interval, slope: Interval, boxes: Boxes
    ) -> Interval:
        """What W state + bias has for a derivative, where state has ``slope``."""
        low, high = _frozen(np.asarray(self.instance.weights[name]), slope)
        for i, j, place in self.places.get(name, []):
            left = (boxes.low[:, place, None, None], boxes.high[:, place, None, None])
            one, two = _times(left, (slope[0][:, :, j], slope[1][:, :, j]))
            low[:, :, i], high[:, :, i] = _plus((low[:, :, i], high[:, :, i]), (one, two))
            mine, state_j = (low[:, place, i], high[:, place, i]), (state[0][:, j], state[1][:, j])
            low[:, place, i], high[:, place, i] = _plus(mine, state_j)
        for i, _, place in self.places.get(bias, []) if bias is not None else []:
            one, two = low[:, place, i] + 1.0, high[:, place, i] + 1.0
            low[:, place, i], high[:, place, i] = _outwards(one, two)
        return low, high

    def through(self, name: str, bias: str | None, state: Interval, boxes: Boxes) -> Interval:
        """W state + bias: the frozen part, and t (c . h) of every row with learnable weights."""
        weights = np.asarray(self.instance.weights[name])
        low, high = _frozen(weights, state)
        if bias is not None:
            offset = np.asarray(self.instance.weights[bias])
            low, high = _plus((low, high), (offset, offset))
        sums: dict[int, Interval] = {}
        ones = np.ones((1, self.instance.samples))
        terms = [
            (i, place, (state[0][:, j], state[1][:, j]))
            for i, j, place in self.places.get(name, [])
        ]
        for i, _, place in self.places.get(bias, []) if bias is not None else []:
            terms.append((i, place, (ones, ones)))
        for i, place, right in terms:
            left = (boxes.low[:, place, None], boxes.high[:, place, None])
            found = _times(left, right)
            if i in sums:
                found = _plus(sums[i], found)
            sums[i] = found
        numbers = {key: number for number, key in enumerate(self.rows)}
        for i, total in sums.items():
            number = numbers[(name, i)]
            length = (boxes.near[:, number, None], boxes.far[:, number, None])
            found = _times(length, total)
            low[:, i], high[:, i] = _plus((low[:, i], high[:, i]), found)
        return low, high


@dataclass(frozen=True)
class Enclosed:
    """States (boxes, n, m) and, where they are asked for, their derivatives (boxes, r, n, m)."""

    state: Interval
    slope: Interval | None


class _Enclosures:
    """The arithmetic of enclosures over boxes; a weight is its name and that of its bias."""

    def __init__(self, image: Image, boxes: Boxes) -> None:
        self.image, self.boxes = image, boxes

    def matmul(self, a: tuple[str, str | None], b: Enclosed) -> Enclosed:
        slope = b.slope
        if slope is not None:
            slope = self.image.tangent(*a, b.state, slope, self.boxes)
        return Enclosed(self.image.through(*a, b.state, self.boxes), slope)

    def add(self, a: Enclosed, b: Enclosed) -> Enclosed:
        slope = None if a.slope is None or b.slope is None else _plus(a.slope, b.slope)
        return Enclosed(_plus(a.state, b.state), slope)

    def times(self, number: float, a: Enclosed) -> Enclosed:
        raise AssertionError("chains that leak are refused")

    def stack(self, parts: Sequence[Enclosed]) -> Enclosed:
        raise AssertionError("chains that are read at several steps are refused")

    def bend(self, position: int, activation: str, before: Enclosed) -> tuple[Enclosed, None]:
        slope = before.slope
        if slope is not None:
            low, high = _steepness(activation, before.state)
            slope = _times((low[:, None], high[:, None]), slope)
        return Enclosed(_bent(activation, before.state), slope), None


def _all(values: Mask, axis: int) -> Mask:
    return np.asarray(values.all(axis=axis))


def _dot(y: Array, right: Interval) -> Interval:
    """sum over the last axis of y times an interval."""
    one, two = np.where(y > 0, right[0], right[1]), np.where(y > 0, right[1], right[0])
    low, high = np.where(y == 0, 0.0, y * one), np.where(y == 0, 0.0, y * two)
    room = (low.shape[-1] + 4) * 2 * UNIT
    below = low.sum(axis=-1) - room * np.abs(low).sum(axis=-1) - 1e-300
    above = high.sum(axis=-1) + room * np.abs(high).sum(axis=-1) + 1e-300
    return _outwards(below, above)


def _steepness(activation: str, state: Interval) -> Interval:
    """Enclosures of phi' over the pre-activations; at a kink everything between both sides."""
    low, high = state
    if activation == "relu":
        return (low > 0).astype(np.float64), (high >= 0).astype(np.float64)
    if activation == "sigmoid":  # a quarter of 1 - tanh(x / 2)^2
        one, two = _steepness("tanh", (low / 2, high / 2))
        return one / 4, two / 4
    one, two = _tanh(state)
    largest = np.maximum(np.abs(one), np.abs(two))
    smallest = np.where((one <= 0) & (two >= 0), 0.0, np.minimum(np.abs(one), np.abs(two)))
    below, above = _outwards(1.0 - np.nextafter(largest**2, 2), 1.0 - np.nextafter(smallest**2, 0))
    return np.maximum(below, 0.0), np.minimum(above, 1.0)


def _outwards(low: Array, high: Array) -> Interval:
    """One unit in the last place, which covers one rounding."""
    return np.nextafter(low, -np.inf), np.nextafter(high, np.inf)


def _plus(one: Interval, two: Interval) -> Interval:
    """The sum; exact where one of the numbers is 0."""
    low, high = _outwards(one[0] + two[0], one[1] + two[1])
    low = np.where(one[0] == 0.0, two[0], np.where(two[0] == 0.0, one[0], low))
    high = np.where(one[1] == 0.0, two[1], np.where(two[1] == 0.0, one[1], high))
    return low, high


def _times(left: Interval, right: Interval) -> Interval:
    """The product of intervals; 0 times an infinite end is 0, since the numbers inside are finite.

    An end that is exactly 0 stays so: times an infinite length, the smallest number would be infinite.
    """
    ends = []
    for a in left:
        for b in right:
            value = a * b
            lost = (value == 0.0) & (a != 0.0) & (b != 0.0)  # underflow, which is not 0
            value = np.where(lost, np.copysign(5e-324, a) * np.sign(b), value)
            ends.append(np.where((a == 0.0) | (b == 0.0), 0.0, value))
    low = np.minimum(np.minimum(ends[0], ends[1]), np.minimum(ends[2], ends[3]))
    high = np.maximum(np.maximum(ends[0], ends[1]), np.maximum(ends[2], ends[3]))
    below, above = _outwards(low, high)
    return np.where(low == 0.0, 0.0, below), np.where(high == 0.0, 0.0, above)


def _frozen(weights: Array, state: Interval) -> Interval:
    """W state for frozen W, with the roundings of the sums."""
    up, down = np.maximum(weights, 0.0), np.minimum(weights, 0.0)
    out = []
    for first, second, sign in ((state[0], state[1], -1.0), (state[1], state[0], 1.0)):
        lost = (up > 0) @ np.isinf(first) | (down < 0) @ np.isinf(second)
        met = (up > 0) @ (first != 0) | (down < 0) @ (second != 0)
        one, two = np.where(np.isinf(first), 0.0, first), np.where(np.isinf(second), 0.0, second)
        total = up @ one + down @ two
        mass = up @ np.abs(one) - down @ np.abs(two)
        room = (2 * weights.shape[1] + 4) * UNIT * mass * (1 + 1e-9) + 1e-300
        moved = np.nextafter(total + sign * room, sign * np.inf)
        out.append(np.where(lost, sign * np.inf, np.where(met, moved, 0.0)))
    return out[0], out[1]


def _bent(activation: str, state: Interval) -> Interval:
    """The image under an increasing activation."""
    low, high = state
    if activation == "relu":
        return np.maximum(low, 0.0), np.maximum(high, 0.0)
    if activation == "sigmoid":
        one, two = _tanh((low / 2, high / 2))
        one, two = _outwards(0.5 + 0.5 * one, 0.5 + 0.5 * two)
        return np.maximum(one, 0.0), np.minimum(two, 1.0)
    return _tanh(state)


def _tanh(state: Interval) -> Interval:
    """An enclosure of tanh, by interpolation in a table of balls."""
    points, values = _table()
    low, high = (
        np.asarray(np.interp(np.clip(end, -REACH, REACH), points, values), dtype=np.float64)
        for end in state
    )
    return np.maximum(low - PAD, -1.0), np.minimum(high + PAD, 1.0)


@cache
def _table() -> tuple[Array, Array]:
    """tanh at multiples of 2^-10 up to 20, each rounded once."""
    from flint import arb

    count = int(REACH / SPACING)
    with precision(80):
        half = [float(arb(k * SPACING).tanh().mid()) for k in range(count + 1)]
    points = np.arange(-count, count + 1) * SPACING
    values = np.array([-x for x in half[:0:-1]] + half, dtype=np.float64)
    return np.asarray(points, dtype=np.float64), values
