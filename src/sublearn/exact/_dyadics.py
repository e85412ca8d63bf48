"""Matrices of dyadic rationals, m 2^e with whole m: float64 numbers, their sums and products, exactly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from sublearn._arrays import Array

Whole = Any  # flint.fmpz_mat; python-flint carries no types


class Dyadics:
    """The matrix ``whole`` times 2^``exponent``, without rounding.

    The products and sums of such matrices are such matrices, so that the outputs of a linear or a ReLU
    network at float64 weights and inputs are known exactly. ``*`` is the matrix product, as in flint.

    >>> import numpy as np
    >>> tenth = Dyadics.of(np.array([[0.1, 0.5]]))
    >>> product = tenth * Dyadics.of(np.array([[0.1], [0.0]]))
    >>> float(product.floats()[0, 0]) == 0.1 * 0.1
    True
    >>> product.rationals()[0][0] == tenth.rationals()[0][0] ** 2   # which no float64 number is
    True
    """

    __slots__ = ("exponent", "whole")

    def __init__(self, whole: Whole, exponent: int) -> None:
        self.whole, self.exponent = whole, exponent

    @classmethod
    def of(cls, values: Array) -> Dyadics:
        """A float64 matrix as it is."""
        from flint import fmpz_mat

        pairs = from_floats(values.ravel())
        least = min((e for m, e in pairs if m), default=0)
        shifted = [m << (e - least) if m else 0 for m, e in pairs]
        rows, columns = values.shape
        return cls(fmpz_mat(rows, columns, shifted), least)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.whole.nrows(), self.whole.ncols()

    def __mul__(self, other: Dyadics) -> Dyadics:
        return Dyadics(self.whole * other.whole, self.exponent + other.exponent)

    def __add__(self, other: Dyadics) -> Dyadics:
        least = min(self.exponent, other.exponent)
        return Dyadics(self._at(least) + other._at(least), least)

    def _at(self, exponent: int) -> Whole:
        """The whole numbers that go with a smaller exponent."""
        if exponent == self.exponent:
            return self.whole
        return self.whole * (1 << (self.exponent - exponent))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dyadics) or self.shape != other.shape:
            return False
        least = min(self.exponent, other.exponent)
        return bool(self._at(least) == other._at(least))

    __hash__ = None  # type: ignore[assignment]

    def positive_part(self) -> Dyadics:
        """max(x, 0), entry by entry: what a ReLU does."""
        from flint import fmpz_mat

        kept = [entry if entry > 0 else 0 for entry in self.whole.entries()]
        return Dyadics(fmpz_mat(*self.shape, kept), self.exponent)

    def take(
        self, rows: Sequence[int] | None = None, columns: Sequence[int] | None = None
    ) -> Dyadics:
        """Some rows and some columns, in the order in which they are named."""
        from flint import fmpz_mat

        height, width = self.shape
        across = range(height) if rows is None else rows
        down = range(width) if columns is None else columns
        entries = self.whole.entries()
        kept = [entries[i * width + j] for i in across for j in down]
        return Dyadics(fmpz_mat(len(across), len(down), kept), self.exponent)

    def over(self, other: Dyadics) -> Dyadics:
        """The rows of this matrix, and below them those of another."""
        from flint import fmpz_mat

        least = min(self.exponent, other.exponent)
        entries = [*self._at(least).entries(), *other._at(least).entries()]
        return Dyadics(fmpz_mat(self.shape[0] + other.shape[0], self.shape[1], entries), least)

    def pivots(self) -> list[int]:
        """Each column that is no combination of those before it."""
        reduced, _, rank = self.whole.rref()
        return leading(reduced.tolist()[:rank])

    def floats(self) -> Array:
        """The nearest float64 numbers; infinite beyond their range."""
        floats = [nearest(int(e), self.exponent) for e in self.whole.entries()]
        return np.array(floats).reshape(self.shape)

    def rationals(self) -> list[list[Any]]:
        """Rows of fractions (flint's)."""
        from flint import fmpq, fmpz

        power = fmpz(2) ** abs(self.exponent)
        scale = fmpq(power) if self.exponent >= 0 else fmpq(1, power)
        return [[entry * scale for entry in row] for row in self.whole.tolist()]

    def residues(self, prime: int) -> list[int]:
        """The residues modulo an odd prime, row by row."""
        power = pow(2, self.exponent, prime)
        return [int(entry) % prime * power % prime for entry in self.whole.entries()]

    def balls(self) -> Any:
        """The same matrix of Arb balls, exact whatever the working precision."""
        from flint import arb, arb_mat

        exponent = self.exponent
        return arb_mat(*self.shape, [arb((entry, exponent)) for entry in self.whole.entries()])

    @property
    def extent(self) -> tuple[int, int]:
        """(a, b): every entry is a whole number times 2^-a and below 2^b in size; neither is negative."""
        most = max((int(entry).bit_length() for entry in self.whole.entries()), default=0)
        return max(0, -self.exponent), max(0, most + self.exponent) if most else 0


def from_floats(values: Array) -> list[tuple[int, int]]:
    """Finite float64 numbers as (m, e), m 2^e, exactly; the m may be even."""
    mantissas, exponents = np.frexp(values)
    whole = (mantissas * 2.0**53).astype(np.int64).tolist()
    return list(zip(whole, (exponents.astype(np.int64) - 53).tolist(), strict=True))


def leading(rows: Iterable[Sequence[Any]]) -> list[int]:
    """Where the first entry of each row stands that is not 0."""
    return [next(c for c, entry in enumerate(row) if entry != 0) for row in rows]


def nearest(mantissa: int, exponent: int) -> float:
    """The float64 number nearest to mantissa 2^exponent; infinite beyond their range.

    >>> nearest(3, -1), nearest(1, -5000), nearest(-1, 5000)
    (1.5, 0.0, -inf)
    """
    if exponent >= 0:
        return quotient(mantissa << min(exponent, 4000), 1)
    return quotient(mantissa, 1 << -exponent)


def quotient(numerator: int, denominator: int) -> float:
    """The float64 number nearest to a fraction with a positive denominator; infinite beyond their range."""
    try:
        return numerator / denominator  # whole numbers divide with one rounding
    except OverflowError:
        return float("inf") if numerator > 0 else float("-inf")
