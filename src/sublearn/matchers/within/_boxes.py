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

from sublearn._arrays import UNIT, Array, Indices, Mask, zeros
from sublearn._interrupts import heed
from sublearn.matchers._behind import behind_output
from sublearn.matchers.proofs._balls import precision
from sublearn.matchers.within._bands import BITS, Bands, bands
from sublearn.networks import links, walk

if TYPE_CHECKING:
    from sublearn.ensembles import Instance

Interval = Array  # (2, ...): lower and upper ends

NEAR = 2.0  # half the side of the cube
MOST_WEIGHTS = 8
MOST_CHARTS = 2000
BATCH = 512
MOST_BOXES = 60_000
HALVINGS = 12  # of a side, on average, before a box is called hopeless
LARGEST_BATCH = 2**20  # numbers in the tangents of one batch
ROUNDS = 12  # of weights that follow the largest errors
MOST_NUMBERS = 2e9  # of pre-activations, in all boxes together

REACH, SPACING = 20.0, 2.0**-10
# Linear interpolation errs by at most h^2 / 8 max |tanh''|, and |tanh''| <= 4 / (3 sqrt 3) < 0.77.
PAD = SPACING**2 / 8 * 0.77 * 1.01 + 1e-14


@dataclass(frozen=True)
class Boxes:
    """Coefficients (2, boxes, r) and lengths t (2, boxes, rows), as intervals; depth of each box."""

    coefficients: Interval
    lengths: Interval
    depth: Indices

    def __len__(self) -> int:
        return len(self.depth)

    def select(self, kept: Mask | slice) -> Boxes:
        """Some of the boxes."""
        return Boxes(self.coefficients[:, kept], self.lengths[:, kept], self.depth[kept])

    def deeper(self) -> Boxes:
        """A copy to be cut."""
        return Boxes(self.coefficients.copy(), self.lengths.copy(), self.depth + 1)

    def join(self, other: Boxes) -> Boxes:
        """These and the others."""
        return Boxes(
            np.concatenate([self.coefficients, other.coefficients], axis=1),
            np.concatenate([self.lengths, other.lengths], axis=1),
            np.concatenate([self.depth, other.depth]),
        )

    @property
    def bounded(self) -> Mask:
        """Which of them do not go to infinity."""
        return np.asarray(np.isfinite(self.lengths[1]).all(axis=1))


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
        allowed = bands(instance, eps)
        if isinstance(allowed, str):
            return allowed, 0, None
        wanted = _wanted(allowed)
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
        heed()
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
    bounded = boxes.select(boxes.bounded)
    if not len(bounded):
        return None
    at = int(bounded.depth.argmax())
    length = _centre(bounded.lengths[:, at])
    return np.asarray(_centre(bounded.coefficients[:, at]) * length[image.row_of])


def _wanted(allowed: Bands) -> Interval:
    """The bands in float64, a little wider."""
    low = [float(x.lower()) for x in allowed.low]
    high = [float(x.upper()) for x in allowed.high]
    none = np.array([allowed.no_low, allowed.no_high])
    return np.where(none, [[-np.inf], [np.inf]], _outwards(np.array([low, high])))


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
    coefficients, lengths = zeros((2, len(choices), size), (2, len(choices), len(rows)))
    for box, chosen in enumerate(choices):
        for row, (members, choice) in enumerate(zip(rows, chosen, strict=True)):
            half = NEAR if choice is None else 1.0
            coefficients[:, box, members] = [[-half], [half]]
            lengths[:, box, row] = (1.0, 1.0) if choice is None else (NEAR, np.inf)
            if choice is not None:
                coefficients[:, box, choice[0]] = choice[1]
    return Boxes(coefficients, lengths, np.zeros(len(choices), np.int64))


def _halved(boxes: Boxes, image: Image) -> Boxes:
    """Each box cut in two across the side whose image is thought to be the longest."""
    (low, high), (near, far) = boxes.coefficients, boxes.lengths
    width = (high - low) * np.minimum(near[:, image.row_of], 1e3)
    with np.errstate(invalid="ignore"):
        ratio = np.where(np.isinf(far), 4.0, far / near - 1.0)
    # Every third cut goes round all sides in turn, so that no side waits for ever.
    sides = np.concatenate([width, ratio], axis=1)
    turn = boxes.depth // 3 % sides.shape[1]
    forced = (boxes.depth % 3 == 2) & (sides[np.arange(len(boxes)), turn] > 1e-12)
    side = np.where(forced, turn, sides.argmax(axis=1))
    r = width.shape[1]
    one, two = boxes.deeper(), boxes.deeper()
    flat = np.flatnonzero(side < r)
    place = side[flat]
    middle = (low[flat, place] + high[flat, place]) / 2
    one.coefficients[1, flat, place] = two.coefficients[0, flat, place] = middle
    long = np.flatnonzero(side >= r)
    place = side[long] - r
    start, end = near[long, place], far[long, place]
    middle = np.where(np.isinf(end), 4.0 * start, (start + np.where(np.isinf(end), 0, end)) / 2)
    one.lengths[1, long, place] = two.lengths[0, long, place] = middle
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
            low, high = self.intervals(boxes).reshape(2, len(boxes), -1)
        # A comparison with nan is false, so what is lost is kept open.
        return np.asarray(((high < self.wanted[0]) | (low > self.wanted[1])).any(axis=1))

    def refuted_together(self, boxes: Boxes) -> Mask:
        """Which bounded boxes are refuted by a combination of outputs."""
        out = np.zeros(len(boxes), dtype=bool)
        bounded = boxes.bounded
        if not bounded.any():
            return out
        with np.errstate(all="ignore"):
            mine = boxes.select(bounded)
            out[bounded] = self._combined(_times(mine.lengths[..., self.row_of], mine.coefficients))
        return out

    def _combined(self, values: Interval) -> Mask:
        _, count, r = values.shape
        centre = _centre(values)
        radius = np.nextafter(np.maximum(values[1] - centre, centre - values[0]), np.inf)
        middle = self.intervals(self._plain(np.array([centre, centre]))).reshape(2, count, -1)
        slopes = self.tangents(self._plain(values)).reshape(2, count, r, -1)
        rough, first = _centre(slopes), _centre(middle)
        usable = np.asarray(np.isfinite(rough).all(axis=(1, 2)) & np.isfinite(first).all(axis=1))
        rough[~usable] = 0.0
        y = self._vector(np.where(usable[:, None], first, 0.0), rough)
        # y'F over the box, from below: its value at the centre, less what the slopes can take away.
        most = np.abs(_dot(y[:, None, :], slopes)).max(axis=0)
        away = (most * radius).sum(axis=1) * (1 + (r + 4) * 2 * UNIT)
        least = np.nextafter(_dot(y, middle)[0] - away, -np.inf)
        # The most that y'z can be within the bands; infinite where an end is.
        ends = np.where(y > 0, self.wanted[1], self.wanted[0])
        terms = np.where(y == 0, 0.0, y * ends)
        top = terms.sum(axis=1) + (terms.shape[1] + 4) * 2 * UNIT * np.abs(terms).sum(axis=1)
        return np.asarray(usable & (least > top))

    def _vector(self, outputs: Array, slopes: Array) -> Array:
        """y, nearly orthogonal to the slopes, with a large y'(outputs - bands); in float64."""
        low, high = self.wanted
        bounded = np.isfinite(low) & np.isfinite(high)
        near = np.where(bounded, (low + high) / 2, np.where(np.isfinite(low), low, high))
        half = np.where(bounded, (high - low) / 2, 1.0)
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

    def _plain(self, values: Interval) -> Boxes:
        """Weights between two ends, as boxes of length 1."""
        count = values.shape[1]
        return Boxes(values, np.ones((2, count, len(self.rows))), np.zeros(count, np.int64))

    def intervals(self, boxes: Boxes) -> Interval:
        """(2, boxes, d, m)."""
        return self._enclosed(boxes, slopes=False).state

    def tangents(self, boxes: Boxes) -> Interval:
        """(2, boxes, r, d, m): derivatives of the last pre-activations by each learnable weight."""
        slope = self._enclosed(boxes, slopes=True).slope
        assert slope is not None
        return slope

    def _enclosed(self, boxes: Boxes, slopes: bool) -> Enclosed:
        shape = boxes.coefficients.shape

        def enter(block: Array) -> Enclosed:
            wide = np.broadcast_to(block, (*shape[:2], *block.shape))
            return Enclosed(wide, np.zeros((*shape, *block.shape)) if slopes else None)

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
        out = _frozen(np.asarray(self.instance.weights[name]), slope)
        for i, j, place in self.places.get(name, []):
            moved = _times(boxes.coefficients[:, :, place, None, None], slope[..., j, :])
            out[..., i, :] = _plus(out[..., i, :], moved)
            out[:, :, place, i] = _plus(out[:, :, place, i], state[:, :, j])
        for i, _, place in self.places.get(bias, []) if bias is not None else []:
            out[:, :, place, i] = _outwards(out[:, :, place, i] + 1.0)
        return out

    def through(self, name: str, bias: str | None, state: Interval, boxes: Boxes) -> Interval:
        """W state + bias: the frozen part, and t (c . h) of every row with learnable weights."""
        out = _frozen(np.asarray(self.instance.weights[name]), state)
        terms = [(i, place, state[:, :, j]) for i, j, place in self.places.get(name, [])]
        if bias is not None:
            out = _plus(out, np.asarray(self.instance.weights[bias]))
            ones = np.ones((2, 1, self.instance.samples))
            terms += [(i, place, ones) for i, _, place in self.places.get(bias, [])]
        sums: dict[int, Interval] = {}
        for i, place, right in terms:
            part = _times(boxes.coefficients[:, :, place, None], right)
            sums[i] = _plus(sums[i], part) if i in sums else part
        numbers = {key: number for number, key in enumerate(self.rows)}
        for i, total in sums.items():
            part = _times(boxes.lengths[:, :, numbers[name, i], None], total)
            out[:, :, i] = _plus(out[:, :, i], part)
        return out


@dataclass(frozen=True)
class Enclosed:
    """States (2, boxes, n, m) and, where they are asked for, their derivatives (2, boxes, r, n, m)."""

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
            slope = _times(_steepness(activation, before.state)[:, :, None], slope)
        return Enclosed(_bent(activation, before.state), slope), None


def _centre(ends: Interval) -> Array:
    return np.asarray((ends[0] + ends[1]) / 2)


def _dot(y: Array, right: Interval) -> Interval:
    """sum over the last axis of y times an interval."""
    terms = np.where(y == 0, 0.0, y * np.where(y > 0, right, right[::-1]))
    room = (terms.shape[-1] + 4) * 2 * UNIT
    away = room * np.abs(terms).sum(axis=-1) + 1e-300
    return _outwards(terms.sum(axis=-1) + np.array([-away[0], away[1]]))


def _steepness(activation: str, state: Interval) -> Interval:
    """Enclosures of phi' over the pre-activations; at a kink everything between both sides."""
    if activation == "relu":
        return np.array([state[0] > 0, state[1] >= 0], dtype=np.float64)
    if activation == "sigmoid":  # a quarter of 1 - tanh(x / 2)^2
        return _steepness("tanh", state / 2) / 4
    one, two = _tanh(state)
    largest = np.maximum(np.abs(one), np.abs(two))
    smallest = np.where((one <= 0) & (two >= 0), 0.0, np.minimum(np.abs(one), np.abs(two)))
    squares = np.array([np.nextafter(largest**2, 2), np.nextafter(smallest**2, 0)])
    return np.clip(_outwards(1.0 - squares), 0.0, 1.0)


def _outwards(ends: Interval) -> Interval:
    """One unit in the last place, which covers one rounding."""
    return np.array([np.nextafter(ends[0], -np.inf), np.nextafter(ends[1], np.inf)])


def _plus(one: Interval, two: Interval) -> Interval:
    """The sum; exact where one of the numbers is 0."""
    return np.where(one == 0.0, two, np.where(two == 0.0, one, _outwards(one + two)))


def _times(left: Interval, right: Interval) -> Interval:
    """The product of intervals; 0 times an infinite end is 0, since the numbers inside are finite.

    An end that is exactly 0 stays so: times an infinite length, the smallest number would be infinite.
    """
    products = []
    for a in left:
        for b in right:
            value = a * b
            lost = (value == 0.0) & (a != 0.0) & (b != 0.0)  # underflow, which is not 0
            value = np.where(lost, np.copysign(5e-324, a) * np.sign(b), value)
            products.append(np.where((a == 0.0) | (b == 0.0), 0.0, value))
    ends = np.array([np.minimum.reduce(products), np.maximum.reduce(products)])
    return np.where(ends == 0.0, 0.0, _outwards(ends))


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
    return np.array(out)


def _bent(activation: str, state: Interval) -> Interval:
    """The image under an increasing activation."""
    if activation == "relu":
        return np.maximum(state, 0.0)
    if activation == "sigmoid":
        return np.clip(_outwards(0.5 + 0.5 * _tanh(state / 2)), 0.0, 1.0)
    return _tanh(state)


def _tanh(state: Interval) -> Interval:
    """An enclosure of tanh, by interpolation in a table of balls."""
    low, high = np.interp(np.clip(state, -REACH, REACH), *_table())
    return np.asarray(np.clip([low - PAD, high + PAD], -1.0, 1.0))


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
