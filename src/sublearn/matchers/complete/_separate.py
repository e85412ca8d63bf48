"""Proofs about complex solutions: that one exists, how far from a point, and that it is not real.

Let x be a point, Y any matrix, and suppose that over all z with |z_i - x_i| <= rho the Jacobian F'(z)
satisfies |I - Y F'(z)| <= E entry by entry, with row sums of E at most q < 1 and

    |Y F(x)|_i + q rho < rho   for all i.

Then z -> z - Y F(z) maps this polydisc into itself and contracts, since the mean of F' over a segment
lies in the convex enclosure of its values; so F has exactly one solution there, its Jacobian is
regular, and it lies within max_i |Y F(x)|_i / (1 - q) of x. Everything is computed in complex balls on
the exact numbers of the instance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sublearn._arrays import Complex, Indices
from sublearn.matchers.proofs._balls import BALLS, input_blocks, precision, wanted
from sublearn.verdicts.counts import ProductForm, product_numbers

if TYPE_CHECKING:
    from sublearn.ensembles import Instance

FIRST_BITS = 128
_TURNS = 40


@dataclass(frozen=True, eq=False)
class Enclosure:
    """A solution lies within ``radius`` of ``centre``, coordinate by coordinate, and is simple.

    ``centre`` is rounded to complex128 and ``radius`` holds the rounding. ``real`` is False if the
    solution is proved not to be real, None if that is open.
    """

    centre: Complex
    radius: float
    real: bool | None
    bits: int


class BallProduct:
    """F(w) = outputs - targets of a product form and its Jacobian, in complex balls."""

    def __init__(self, form: ProductForm, instance: Instance) -> None:
        from flint import acb, acb_mat

        self.form, self._instance = form, instance
        numbers = product_numbers(form, instance)
        self._matrices = [[acb(v) for v in m.ravel().tolist()] for m in numbers.matrices]
        blocks = [block.entries() for block in input_blocks(instance, BALLS)]
        self._mix: Any = None
        if numbers.mix is not None:
            # The last step of a sequence comes first.
            entries = [acb(v) for block in reversed(blocks) for v in block]
            rows, columns = numbers.mix.shape
            self._mix = acb_mat(rows, columns, entries)
        else:
            self._matrices[form.start][: len(blocks[0])] = [acb(v) for v in blocks[0]]
        self._targets: tuple[int, Any] = 0, None

    @property
    def targets(self) -> Any:
        """The targets, as they are; where they are balls, at the precision that is asked for now."""
        from flint import acb, acb_mat, ctx

        if self._targets[0] != ctx.prec:
            balls = wanted(self._instance, BALLS)
            entries = [acb(v) for v in balls.entries()]
            self._targets = ctx.prec, acb_mat(balls.nrows(), balls.ncols(), entries)
        return self._targets[1]

    def _states(self, point: list[Any]) -> tuple[list[Any], list[Any]]:
        from flint import acb_mat

        form = self.form
        entries = [list(values) for values in self._matrices]
        for value, (k, i, j) in zip(point, form.where.tolist(), strict=True):
            entries[k][i * form.shapes[k][1] + j] = value
        matrices = [acb_mat(*s, e) for s, e in zip(form.shapes, entries, strict=True)]
        states = [matrices[form.start]]
        for k in form.chain:
            states.append(matrices[k] * states[-1])
        return matrices, states

    def _mixed(self, raw: Any) -> Any:
        return raw if self._mix is None else raw * self._mix

    def residual(self, point: list[Any]) -> Any:
        """F(w) as a column."""
        from flint import acb_mat

        form = self.form
        matrices, states = self._states(point)
        blocks = [(matrices[form.read] * s).tolist() for s in states[form.first :]]
        rows = [[v for block in blocks for v in block[o]] for o in range(form.outputs)]
        values = (self._mixed(acb_mat(rows)) - self.targets).entries()
        return acb_mat(len(values), 1, values)

    def jacobian(self, point: list[Any]) -> Any:
        """F'(w), rows in the order of :meth:`residual`."""
        from flint import acb, acb_mat

        form = self.form
        matrices, states = self._states(point)
        lefts = [matrices[form.read]]
        for k in reversed(form.chain):
            lefts.append(lefts[-1] * matrices[k])
        left = [list(zip(*part.tolist(), strict=True)) for part in lefts]
        state = [part.tolist() for part in states]
        zero, width, outputs = acb(0), form.width, form.outputs
        count, first = len(form.chain), form.first
        rows = []
        for k, i, j in form.where.tolist():
            raw = [[zero] * (form.readouts * width) for _ in range(outputs)]
            for q in range(first, count + 1):
                base = (q - first) * width
                for p in range(1, q + 1):
                    if form.chain[p - 1] == k:
                        for o, factor in enumerate(left[q - p][i]):
                            for c, value in enumerate(state[p - 1][j]):
                                raw[o][base + c] = raw[o][base + c] + factor * value
                if k == form.start:
                    for o, factor in enumerate(left[q][i]):
                        raw[o][base + j] = raw[o][base + j] + factor
                if k == form.read:
                    for c, value in enumerate(state[q][j]):
                        raw[i][base + c] = raw[i][base + c] + value
            rows.append(self._mixed(acb_mat(raw)).entries())
        return acb_mat(rows).transpose()


def enclose(product: BallProduct, point: Complex, max_bits: int) -> Enclosure | None:
    """A solution near ``point``, enclosed tightly enough to tell whether it is real, or None.

    The precision grows until the solution is enclosed and proved not to be real, or ``max_bits`` is
    reached: a real solution is never proved not to be, so it costs all of them.
    """
    found, bits = None, FIRST_BITS
    while bits <= max_bits:
        with precision(bits):
            attempt = _enclose_at(product, point, bits)
        if attempt is not None:
            found = attempt
            if found.real is False:
                break
        bits *= 2
    return found


def _enclose_at(product: BallProduct, point: Complex, bits: int) -> Enclosure | None:
    from flint import acb, arb

    centre = [acb(complex(z).real, complex(z).imag) for z in point]
    scale = float(np.abs(point).max())
    inverse = _float_inverse(product.jacobian(centre)) if bits == FIRST_BITS else None
    if inverse is None:
        inverse = _ball_inverse(product.jacobian(centre))
    if inverse is None:
        return None
    before = np.inf
    for _ in range(_TURNS):
        moves = (inverse * product.residual(centre)).mid().entries()
        size = max(float(abs(move).upper()) for move in moves)
        if not size < 0.5 * before:
            break
        before = size
        centre = [(x - move).mid() for x, move in zip(centre, moves, strict=True)]
    moves = (inverse * product.residual(centre)).entries()
    shift = _most(moves)
    if not shift.is_finite():
        return None
    for room in (2.0**20, 2.0**6):
        rho = (shift * room + arb(scale) * arb((1, -bits // 2))).upper()
        box = [acb(arb(x.real, rho), arb(x.imag, rho)) for x in centre]
        size = len(centre)
        spread = inverse * product.jacobian(box)
        rows = spread.tolist()
        sums = [
            sum((abs(rows[i][j] - (1 if i == j else 0)) for j in range(size)), arb(0))
            for i in range(size)
        ]
        q = _most(sums)
        if not (q.is_finite() and q < 1 and shift + q * rho < rho):
            continue
        radius = (shift / (1 - q)).upper()
        apart = any(bool(abs(x.imag) > radius) for x in centre)
        rounded = np.array([complex(float(x.real), float(x.imag)) for x in centre])
        # Rounding to float64 moves a coordinate by at most 2^-53 of it; this is far more.
        wide = float(radius.upper()) * (1 + 1e-9) + float(np.abs(rounded).max()) * 2.0**-50
        return Enclosure(rounded, wide, False if apart else None, bits)
    return None


def _most(values: list[Any]) -> Any:
    """An upper bound of the largest absolute value, as an exact ball."""
    from flint import arb

    # Compared as balls: as floats, values below 1e-308 would all look alike.
    most = arb(0)
    for value in values:
        most = most.max(abs(value))
    return most.upper()


def _float_inverse(jacobian: Any) -> Any | None:
    """An approximate inverse by float64 arithmetic; None if it is of no use."""
    from flint import acb, acb_mat

    size = jacobian.nrows()
    values = np.array(
        [complex(float(v.real.mid()), float(v.imag.mid())) for v in jacobian.entries()]
    )
    matrix: Complex = values.reshape(size, size)
    if not np.isfinite(matrix).all():
        return None
    try:
        inverse = np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        return None
    if not np.isfinite(inverse).all() or np.linalg.norm(inverse) * np.linalg.norm(matrix) > 1e12:
        return None
    return acb_mat(size, size, [acb(z.real, z.imag) for z in inverse.ravel().tolist()])


def _ball_inverse(jacobian: Any) -> Any | None:
    try:
        inverse = jacobian.mid().inv().mid()
    except ZeroDivisionError:
        return None
    return inverse if all(v.is_finite() for v in inverse.entries()) else None


def separated(enclosures: list[Enclosure]) -> Indices:
    """Positions whose solution is not proved to differ from that, or its conjugate, of an earlier one."""
    centres = np.array([e.centre for e in enclosures])
    radii = np.array([e.radius for e in enclosures])
    unclear = []
    for k in range(1, len(enclosures)):
        limit = (radii[:k] + radii[k]) * (1 + 1e-9)
        for other in (centres[k], centres[k].conj()):
            gaps = np.abs(centres[:k] - other).max(axis=1) * (1 - 1e-9)
            if not (gaps > limit).all():  # so that NaN is not taken for a distance
                unclear.append(k)
                break
    return np.array(unclear, dtype=np.int64)
