"""Algebra over the rationals, done here and by msolve: ranks, linear programs, Sturm, real roots.

The numbers are python-flint's rationals and balls, the polynomials its multivariate ones; eliminations,
sign sequences and searches are written out here.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from flint import arb, fmpq, fmpq_poly

Rational = Any  # flint.fmpq
Ball = Any  # flint.arb
Poly = Any  # flint.fmpq_mpoly
Row = list[Rational]
Box = list[tuple[Rational, Rational]]

MOST_ROWS = 4000  # of a Fourier-Motzkin elimination
PATIENCE = 5.0  # seconds for one call of msolve


class TooLargeError(Exception):
    """The question was left: it would take too long. Never an answer."""


# Linear algebra over the rationals.


def reduced(rows: Sequence[Row]) -> tuple[list[Row], list[int]]:
    """Reduced row echelon form without zero rows, and the pivot columns (Gauss and Jordan)."""
    left, done, pivots = [list(row) for row in rows], [], []
    for column in range(len(left[0]) if left else 0):
        at = next((k for k, row in enumerate(left) if row[column] != 0), None)
        if at is None:
            continue
        first = left.pop(at)
        scale = 1 / first[column]
        first = [scale * v for v in first]

        def cleared(row: Row, first: Row = first, column: int = column) -> Row:
            factor = row[column]
            if factor == 0:
                return row
            return [v - factor * w for v, w in zip(row, first, strict=True)]

        left, done = [cleared(row) for row in left], [cleared(row) for row in done]
        done.append(first)
        pivots.append(column)
    return done, pivots


def rank(rows: Sequence[Row]) -> int:
    """The rank of a matrix of rationals."""
    return len(reduced(rows)[1])


def left_null(rows: Sequence[Row]) -> list[Row]:
    """A basis of the vectors v with v A = 0."""
    size, width = len(rows), len(rows[0]) if rows else 0
    wide = [[*row, *(fmpq(int(i == k)) for k in range(size))] for i, row in enumerate(rows)]
    done, pivots = reduced(wide)
    return [row[width:] for row, pivot in zip(done, pivots, strict=True) if pivot >= width]


def feasible(equations: Sequence[Row], inequalities: Sequence[Row]) -> bool:
    """Whether some real x has a x + b = 0 for all rows (a, b) of the first, >= 0 for the second.

    Gauss takes the equations out, Fourier and Motzkin the variables one by one. Exact.
    """
    done, pivots = reduced(equations)
    width = len((equations or inequalities)[0]) if equations or inequalities else 1
    if width - 1 in pivots:
        return False
    rows = []
    for row in inequalities:
        for first, pivot in zip(done, pivots, strict=True):
            factor = row[pivot]
            if factor != 0:
                row = [v - factor * w for v, w in zip(row, first, strict=True)]
        rows.append(row)
    for column in range(width - 1):
        if column in pivots:
            continue
        above = [row for row in rows if row[column] > 0]
        below = [row for row in rows if row[column] < 0]
        rest = [row for row in rows if row[column] == 0]
        if len(above) * len(below) + len(rest) > MOST_ROWS:
            raise TooLargeError
        for high in above:
            for low in below:
                a, b = 1 / high[column], -1 / low[column]
                rest.append([a * v + b * w for v, w in zip(high, low, strict=True)])
        rows = list({tuple(_scaled(row)): row for row in rest}.values())
    return all(row[-1] >= 0 for row in rows)


def _scaled(row: Row) -> Row:
    size = next((abs(v) for v in row if v != 0), None)
    return row if size is None else [v / size for v in row]


# Linear algebra in balls: what is found is certain, what is not found is not.


def rank_at_least(rows: Sequence[Sequence[Ball]]) -> int:
    """A lower bound of the rank, by elimination with the largest certain pivot."""
    left = [list(row) for row in rows]
    found = 0
    while left:
        best, where = None, (0, 0)
        for i, row in enumerate(left):
            for j, value in enumerate(row):
                if value != 0:  # certainly
                    size = value.abs_lower()
                    if best is None or size > best:
                        best, where = size, (i, j)
        if best is None:
            return found
        found += 1
        first = left.pop(where[0])
        j = where[1]
        left = [
            [
                v - row[j] / first[j] * w
                for k, (v, w) in enumerate(zip(row, first, strict=True))
                if k != j
            ]
            for row in left
        ]
    return found


# One variable: Sturm.


def count_real_roots(polynomials: Sequence[Sequence[Rational]]) -> int | None:
    """How many real numbers are roots of all polynomials (coefficients from low to high).

    The greatest common divisor, made free of squares, and the changes of sign of its Sturm sequence
    at the two ends of the line. None: all numbers are.
    """
    common = fmpq_poly([])
    for coefficients in polynomials:
        common = common.gcd(fmpq_poly(list(coefficients)))
    if common == 0:
        return None
    simple = common // common.gcd(common.derivative())
    chain = [simple, simple.derivative()]
    while chain[-1] != 0:
        chain.append(-(chain[-2] % chain[-1]))
    chain.pop()
    ends = [[p[p.degree()] * sign ** p.degree() > 0 for p in chain] for sign in (-1, 1)]
    low, high = (sum(a != b for a, b in pairwise(signs)) for signs in ends)
    return low - high


# Several variables: msolve.


def msolve() -> str | None:
    """The program, on the PATH or in the wheel of this environment."""
    near = Path(sysconfig.get_path("platlib")) / "sage_wheels" / "bin" / "msolve"
    return shutil.which("msolve") or (str(near) if os.access(near, os.X_OK) else None)


def real_roots(polynomials: Sequence[Poly], size: int) -> list[Box] | None:
    """Boxes around all real common roots; None if there are infinitely many complex ones.

    Berthomieu, Eder and Safey El Din, "msolve: a library for solving polynomial systems" (2021). Its
    bases are found modulo random primes of 31 bits, so that an answer is wrong with a chance of about
    1e-8; every box is checked again, here, to be able to hold a root.
    """
    program = msolve()
    if program is None:
        raise TooLargeError
    # Squares are written x^2: msolve misreads x*x.
    lines = [_whole(p) for p in polynomials]
    names = ",".join(f"x{k}" for k in range(size))
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder) / "in", Path(folder) / "out"
        source.write_text(f"{names}\n0\n" + ",\n".join(lines) + "\n", encoding="ascii")
        try:
            done = subprocess.run(
                [program, "-f", source, "-o", result, "-t", "1"],
                capture_output=True,
                timeout=PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise TooLargeError from None
        if done.returncode or not result.is_file():
            raise TooLargeError
        text = result.read_text(encoding="ascii").strip().removesuffix(":")
    if text == "[-1]":
        return []
    content = json.loads(re.sub(r"(-?\d+) / (\d+)(?:\^(\d+))?", r'"\1 \2 \3"', text))
    if content[0] != 0:
        return None
    boxes = [[(_dyadic(a), _dyadic(b)) for a, b in root] for root in content[1][1]]
    for box in boxes:
        for polynomial in polynomials:
            assert value_on(polynomial, box).contains(0), "msolve's roots are no roots"
    return boxes


def _whole(polynomial: Poly) -> str:
    scale = 1
    for value in polynomial.coeffs():
        scale = scale * (int(value.q) // _gcd(scale, int(value.q)))
    terms = []
    for powers, value in polynomial.to_dict().items():
        factors = [f"x{k}^{e}" for k, e in enumerate(powers) if e]
        terms.append("*".join([str(int((value * scale).p)), *factors]))
    return "+".join(terms).replace("+-", "-")


def _gcd(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return a


def _dyadic(value: int | str) -> Rational:
    if isinstance(value, int):
        return fmpq(value)
    top, base, *power = map(int, value.split())
    return fmpq(top, base ** (power[0] if power else 1))


def value_on(polynomial: Poly, box: Box) -> Ball:
    """A ball that holds all values of a polynomial on a box."""
    sides = [arb((a + b) / 2, (b - a) / 2 + fmpq(1, 2**400)) for a, b in box]
    total = arb(0)
    for powers, value in polynomial.to_dict().items():
        term = arb(value)
        for side, power in zip(sides, powers, strict=True):
            for _ in range(power):
                term = term * side
        total = total + term
    return total
