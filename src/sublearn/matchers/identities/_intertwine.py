"""Linear students with more equations than weights: the teacher in other coordinates.

Let A take states of a linear teacher to states of the student, one matrix for every space of states (the
identity for inputs and outputs). If

    A_rows W* = W A_columns   for every weight,

then the student's states are A times the teacher's, step by step, and the outputs agree on every input.
Where the teacher reaches fewer than d m dimensions (narrow layers, Theorem B.1) the equations "outputs =
targets" are more than the weights they determine, and no ball proves an equality that is not forced. The
equations above have a root where theirs has one, and it is regular: unknowns are A and the learnable
weights, as many as there are equations if r is *needed*. So the Krawczyk test proves it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from sublearn._arrays import Array, Indices
from sublearn.ensembles import Instance
from sublearn.exact import from_floats
from sublearn.matchers._decision import UNDECIDED, Decision, Effort, certified
from sublearn.matchers._matcher import Budget, Matcher
from sublearn.matchers.identities._spaces import FIXED, Facing, Spaces, spaces
from sublearn.matchers.proofs._balls import BALLS, Ball, BallMatrix, column_vector, precision
from sublearn.matchers.proofs._certificate import Certificate
from sublearn.matchers.proofs._checks import box_contracts
from sublearn.matchers.proofs._dyadic import Dyadic, to_float
from sublearn.matchers.proofs._prove import FIRST_BITS, prove_at

STARTS = 20
STEPS = 200
MOST_UNKNOWNS = 200
NEAR = 1e-9  # of the sizes that add up: where a proof is worth trying


class Intertwine(Matcher):
    """MATCHED by an identity of linear networks: the teacher in other coordinates, proved to exist.

    >>> import sublearn as sl
    >>> problem = sl.Problem(sl.FeedForward((4, 2, 4)), samples=4)   # rank 2: 12 dimensions of 16
    >>> instance = sl.draw(problem, {"W1": sl.Anywhere(6), "W2": sl.Anywhere(6)}, seed=0, trial=3)
    >>> decision = sl.decide(instance)
    >>> decision.kind, decision.rung, str(decision.grade)
    ('matched', 'intertwine', 'proof')
    """

    name = "intertwine"

    def refusal(self, instance: Instance) -> str | None:
        if not instance.network.is_linear or instance.teacher is None:
            return "it is for linear students of a teacher"
        pair = pair_of(instance)
        if pair is None or not pair.form.student:
            return "student and teacher are no linear chains of one form"
        reach = instance.teacher.network.expressible(instance.samples)
        if len(instance.allocation) >= instance.equations <= reach:
            return "the teacher may reach all d m dimensions, so outputs and targets say it all"
        if pair.unknowns < pair.equations:
            return (
                f"{pair.unknowns} weights and changes of coordinates cannot be proved to meet "
                f"{pair.equations} equations"
            )
        if pair.unknowns > MOST_UNKNOWNS:
            return f"{pair.unknowns} unknowns are more than {MOST_UNKNOWNS}"
        return None

    def attempt(self, instance: Instance, budget: Budget, rng: np.random.Generator) -> Decision:
        pair, steps = pair_of(instance), 0
        assert pair is not None, "refusal lets pairs of one form pass"
        for start in range(1, min(STARTS, budget.starts) + 1):
            point, used = pair.descend(rng, min(STEPS, budget.iterations))
            steps += used
            if point is None:
                continue
            found = pair.prove(point, budget.bits)
            if found is None:
                continue
            centre, free, radius, bits = found
            r = len(instance.allocation)
            box = tuple(centre[:r]), free, tuple(radius)
            beside = tuple(centre[r:])
            certificate = Certificate(instance, "intertwined", bits, *box, beside=beside)
            reason = (
                f"the teacher in other coordinates, found from start {start} and proved to exist"
            )
            return certified(self.name, reason, certificate, Effort(start, steps, bits=bits))
        reason = "no change of coordinates that makes the teacher the student was proved"
        return Decision(UNDECIDED, self.name, reason, effort=Effort(STARTS, steps))


def pair_of(instance: Instance) -> Pair | None:
    """The equations of a linear student and a linear teacher of one form, or None."""
    teacher, form = instance.teacher, None
    if teacher is not None and instance.network.is_linear and teacher.network.is_linear:
        form = spaces(instance.network, teacher.network)
    return None if form is None else Pair(instance, form)


class Pair:
    """E(x, A) = A_rows W* - W(x) A_columns for all weights, in float64 and in balls.

    Unknowns: the learnable weights in the order of the labels, then A space by space, row by row.
    """

    def __init__(self, instance: Instance, form: Spaces) -> None:
        assert instance.teacher is not None
        self.instance, self.form = instance, form
        self.ours, self.theirs = instance.weights, instance.teacher.weights
        # For every weight where its equations begin, by (row, column of the teacher), and how many.
        self.blocks: list[tuple[Facing, int, tuple[int, int]]] = []
        at = 0
        for weight in form.weights:
            height, width = instance.network.shapes[weight.student]
            if weight.teacher is not None:
                width = self.theirs[weight.teacher].shape[1]
            self.blocks.append((weight, at, (height, width)))
            at += height * width
        self.equations = at
        self.offsets = []
        at = len(instance.allocation)
        for ours, theirs in zip(form.student, form.teacher, strict=True):
            self.offsets.append(at)
            at += ours * theirs
        self.unknowns = at
        self.places = {label: at for at, label in enumerate(instance.allocation.labels())}

    def _change(self, space: int) -> tuple[int, int] | None:
        """(offset, columns) of A; None for the identity."""
        return None if space == FIXED else (self.offsets[space], self.form.teacher[space])

    def terms(self) -> list[tuple[int, int, int, float]]:
        """The equations as (equation, unknown or -1, unknown or -1, coefficient), products of both."""
        out: list[tuple[int, int, int, float]] = []
        for facing, start, (height, width) in self.blocks:
            ours = self.ours[facing.student]
            rows, columns = self._change(facing.rows), self._change(facing.columns)
            theirs = None if facing.teacher is None else self.theirs[facing.teacher]
            for i in range(height):
                for c in range(width):
                    equation = start + i * width + c
                    if theirs is not None:
                        if rows is None:
                            out.append((equation, -1, -1, float(theirs[i, c])))
                        else:
                            first, value = rows[0] + i * rows[1], theirs[:, c].tolist()
                            out += [(equation, first + j, -1, value[j]) for j in range(rows[1])]
                    for k in range(ours.shape[1]):
                        weight = self.places.get((facing.student, i, k), -1)
                        value = -1.0 if weight >= 0 else -float(ours[i, k])
                        if value == 0.0:
                            continue
                        if columns is None:
                            if k == c:
                                out.append((equation, weight, -1, value))
                        else:
                            offset, count = columns
                            out.append((equation, weight, offset + k * count + c, value))
        return out

    @cached_property
    def _table(self) -> tuple[Indices, Array]:
        terms = self.terms()
        index = np.array([(e, a, b) for e, a, b, _ in terms], dtype=np.int64).reshape(-1, 3)
        # One more unknown, which is always 1, stands for "no unknown".
        index[:, 1:][index[:, 1:] < 0] = self.unknowns
        return index, np.array([value for *_, value in terms])

    def evaluate(self, point: Array, one: Ball = 1.0) -> tuple[Array, Array, Array]:
        """(E, its Jacobian, the sizes of what adds up to E), in float64 or in balls, as point and one are."""
        index, values = self._table
        padded, values = np.append(point, one), values.astype(point.dtype)
        equation, first, second = index.T
        products = values * padded[first] * padded[second]
        residual, sizes = np.zeros((2, self.equations), dtype=point.dtype)
        np.add.at(residual, equation, products)
        np.add.at(sizes, equation, np.abs(products))
        jacobian = np.zeros((self.equations, self.unknowns + 1), dtype=point.dtype)
        np.add.at(jacobian, (equation, first), values * padded[second])
        np.add.at(jacobian, (equation, second), values * padded[first])
        return residual, jacobian[:, :-1], sizes

    def descend(self, rng: np.random.Generator, steps: int) -> tuple[Array | None, int]:
        """A point where E vanishes to rounding, from a random start, or None; and the steps taken."""
        point = rng.standard_normal(self.unknowns)
        r = len(self.instance.allocation)
        point[:r] *= 1.0 / np.sqrt(self.instance.in_degrees)
        for offset, ours, theirs in zip(
            self.offsets, self.form.student, self.form.teacher, strict=True
        ):
            # Near the identity half of the time: most students are not far from a teacher.
            if rng.random() < 0.5:
                mine = slice(offset, offset + ours * theirs)
                point[mine] = np.eye(ours, theirs).ravel() + 0.3 * point[mine]
        damping = 1e-2
        residual, jacobian, sizes = self.evaluate(point)
        for step in range(steps):
            if (np.abs(residual) <= NEAR * 1e-3 * sizes.max()).all():
                return point, step
            normal = jacobian @ jacobian.T
            normal[np.diag_indices_from(normal)] += damping * np.trace(normal) / len(normal)
            try:
                move = jacobian.T @ np.linalg.solve(normal, residual)
            except np.linalg.LinAlgError:
                return None, step
            following = point - move
            if not np.isfinite(following).all():
                return None, step
            trial, slopes, weights = self.evaluate(following)
            if trial @ trial < residual @ residual:
                point, residual, jacobian, sizes = following, trial, slopes, weights
                damping = max(damping * 0.2, 1e-15)
            else:
                damping *= 5.0
                if damping > 1e6:
                    break
        close = bool((np.abs(residual) <= NEAR * sizes.max()).all())
        return (point if close else None), steps

    def prove(
        self, point: Array, max_bits: int
    ) -> tuple[list[Dyadic], tuple[int, ...], list[Dyadic], int] | None:
        """(centre, free unknowns, radii, bits) of a box with exactly one root, or None."""
        from scipy.linalg import qr

        jacobian = self.evaluate(point)[1]
        if not np.isfinite(jacobian).all():
            return None
        scale = np.abs(point) + np.abs(point).mean() + 1e-3
        pivots = qr(jacobian * scale, mode="economic", pivoting=True)[2]
        free = sorted(int(p) for p in pivots[: self.equations])
        centre = from_floats(point)
        bits = FIRST_BITS
        while bits <= min(max_bits, 1024):
            chain = BallPair(self, free, point)
            middle, radius, _ = prove_at(
                chain, [centre[p] for p in free], bits, refine=bits > FIRST_BITS
            )
            for p, value in zip(free, middle, strict=True):
                centre[p] = value
            if radius is not None:
                if not all(np.isfinite(to_float(value)) for value in centre):
                    return None
                return centre, tuple(free), radius, bits
            bits *= 2
        return None


class BallPair:
    """The same system in balls, some unknowns free and the others held at float64 numbers."""

    def __init__(self, pair: Pair, free: Sequence[int], held: Array) -> None:
        self.size, self._pair, self._free, self._held = len(free), pair, list(free), held

    def linearised(self, x: Sequence[Ball]) -> tuple[BallMatrix, BallMatrix]:
        """E, a column, and its Jacobian with respect to the free unknowns."""
        from flint import arb

        point = np.array([arb(value) for value in self._held.tolist()], dtype=object)
        point[self._free] = x
        residual, jacobian, _ = self._pair.evaluate(point, arb(1))
        slopes = jacobian[:, self._free].ravel().tolist()
        return column_vector(residual.tolist()), BALLS.matrix(len(residual), self.size, slopes)

    def residual(self, x: Sequence[Ball]) -> BallMatrix:
        """E alone."""
        return self.linearised(x)[0]


def check_intertwined(
    instance: Instance,
    centre: Sequence[Dyadic],
    free: Sequence[int],
    radius: Sequence[Dyadic],
    bits: int,
) -> str | None:
    """Why the statement of an intertwined certificate is not proved again, or None if it is."""
    pair = pair_of(instance)
    if pair is None:
        return "student and teacher are no linear chains of one form"
    if len(centre) != pair.unknowns or len(free) != pair.equations:
        return f"the box must have {pair.equations} free unknowns of {pair.unknowns}"
    held = np.array([to_float(value) for value in centre])
    with precision(bits):
        chain = BallPair(pair, free, held)
        if box_contracts(chain, [centre[p] for p in free], radius):
            return None
    return f"the Krawczyk test does not hold at {bits} bits"
