"""Arithmetic modulo a 23-bit prime, carried in float64 so that matrix products run in BLAS.

A residue x is stored balanced, |x| <= (p-1)/2 < 2^22. A product of two is below 2^44, so 512 of
them sum to less than 2^53: every partial sum is an integer that float64 holds exactly, in any
order and with or without fused multiply-add (Dumas, Giorgi and Pernet, "Dense linear algebra over
word-size prime fields: the FFLAS and FFPACK packages", ACM TOMS 35(3), 2008).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sublearn._arrays import Array
from sublearn._compile import compiled

SMALLEST = 2**22
LARGEST = 2**23


def is_prime(number: int) -> bool:
    """Whether a whole number is a prime, by proof."""
    from flint import fmpz

    return bool(fmpz(number).is_prime())


def random_prime(rng: np.random.Generator, bits: int = 23) -> int:
    """A prime drawn uniformly from those of so many bits; of 23 there are 268,216.

    >>> p = random_prime(np.random.default_rng(0))
    >>> 2**22 < p < 2**23 and all(p % q for q in range(2, 2900))
    True
    """
    while True:
        number = int(rng.integers(2 ** (bits - 1) + 1, 2**bits))
        if is_prime(number):
            return number


@compiled
def balance(values: Array, p: float) -> None:
    """Bring whole numbers below 2^53 to their balanced residues, in place."""
    inverse = 1.0 / p
    for position in range(values.size):
        value = values[position]
        value = value - p * np.rint(value * inverse)
        # The first quotient can be one off near p/2; the second is small, hence exact.
        values[position] = value - p * np.rint(value * inverse)


@dataclass(frozen=True)
class PrimeField:
    """The integers modulo a prime p in (2^22, 2^23), as balanced float64 residues.

    The representative of a class is the unique integer x with |x| <= (p-1)/2.

    >>> field = PrimeField(8388593)
    >>> field.multiply(4194296.0, 2.0)
    array(-1.)
    """

    p: int

    def __post_init__(self) -> None:
        if isinstance(self.p, bool) or not isinstance(self.p, int | np.integer):
            raise ValueError(f"p must be an integer, got {self.p!r}")
        object.__setattr__(self, "p", int(self.p))
        if not (SMALLEST < self.p < LARGEST and is_prime(self.p)):
            raise ValueError(f"p must be a prime between 2**22 and 2**23, got {self.p}")

    @cached_property
    def half(self) -> int:
        """The largest balanced residue, (p-1)/2."""
        return (self.p - 1) // 2

    @cached_property
    def delay(self) -> int:
        """How many products may be summed, onto a residue, before a reduction: 512 or more.

        Residues inside the elimination may exceed the balanced range by 4 (`remainder`).
        """
        return int((2**53 - 2 * self.p) // (self.half + 4) ** 2)

    def random(self, rng: np.random.Generator, shape: int | tuple[int, ...]) -> Array:
        """Independent residues, uniform over the field."""
        return rng.integers(-self.half, self.half + 1, shape).astype(np.float64)

    def from_integers(self, x: ArrayLike) -> Array:
        """The residues of integers of any size.

        >>> PrimeField(8388593).from_integers([8388594, -1, 10**30]).tolist()
        [1.0, -1.0, 1991079.0]
        """
        values: NDArray[Any] = np.asarray(x)
        if values.dtype.kind not in "iuO" and values.size:
            raise ValueError(f"x must hold integers, got an array of {values.dtype}")
        residues = np.asarray(values % self.p, dtype=np.float64)
        return np.asarray(np.where(residues > self.half, residues - self.p, residues))

    def dyadic(self, number: float) -> Array:
        """The residue of a float64 number, which is a whole number times a power of 2.

        >>> field = PrimeField(8388593)
        >>> field.multiply(field.dyadic(0.25), 4.0)
        array(1.)
        """
        whole, power = float(number).as_integer_ratio()
        return self.from_integers(np.array(whole * pow(power, -1, self.p), dtype=object))

    def reduce(self, x: ArrayLike) -> Array:
        """The balanced residues of integers stored as float64, |x| <= 2^53."""
        return self._settled(np.array(x, dtype=np.float64, order="C"))

    def _settled(self, fresh: ArrayLike) -> Array:
        """The same as `reduce` for a new array that may be overwritten."""
        values = np.asarray(fresh, dtype=np.float64, order="C")
        balance(values.reshape(-1), float(self.p))
        return values

    def add(self, a: ArrayLike, b: ArrayLike) -> Array:
        """a + b, entry by entry."""
        return self._settled(np.add(a, b))

    def subtract(self, a: ArrayLike, b: ArrayLike) -> Array:
        """a - b, entry by entry."""
        return self._settled(np.subtract(a, b))

    def multiply(self, a: ArrayLike, b: ArrayLike) -> Array:
        """a b, entry by entry."""
        return self._settled(np.multiply(a, b))

    def matmul(self, a: ArrayLike, b: ArrayLike) -> Array:
        """The matrix product a b, with the shapes and broadcasting of `numpy.matmul`.

        The inner dimension is cut into pieces of at most `delay` products, each summed exactly.

        >>> field = PrimeField(8388593)
        >>> field.matmul(np.full(1000, 4194296.0), np.full(1000, 4194296.0))
        array(250.)
        """
        a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
        inner = a.shape[-1] if a.ndim else 1
        if inner <= self.delay:
            return self._settled(np.matmul(a, b))
        total: Array | float = 0.0
        for start in range(0, inner, self.delay):
            stop = start + self.delay
            right = b[start:stop] if b.ndim == 1 else b[..., start:stop, :]
            total = self.add(total, self._settled(np.matmul(a[..., start:stop], right)))
        return np.asarray(total)
