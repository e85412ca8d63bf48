"""The bounds on a(q) against a(q) itself, and counts modulo small primes against both.

a(q) comes from FLINT's resultants and factors, counts from linear algebra on multiples of the equations:
neither knows of groups, classes or measures.
"""

from __future__ import annotations

from itertools import product
from math import gcd, log, prod

import flint
import numpy as np
import pytest

import sublearn as sl
from sublearn.verdicts.counts._bezout import count_bounds
from sublearn.verdicts.counts._msolve import count_standard_monomials
from sublearn.verdicts.counts._polynomials import (
    LiftedSystem,
    Term,
    lifted_system,
    polynomials_modulo,
)
from sublearn.verdicts.counts._product import product_form

PARAMETERS = 4
SMALL_PRIMES = [p for p in range(2, 60) if all(p % q for q in range(2, p))]


def random_system(rng: np.random.Generator, learnable: int) -> LiftedSystem:
    """Two equations in two unknowns, each of degree 1 in either, with whole-number coefficients.

    A coefficient c is c terms +-1. Each equation has a target of its own, so the two are a graph. With one
    learnable weight the other unknown is a state, and the first equation says what it is.
    """
    equations = []
    for number in range(2):
        state = learnable == 1 and number == 0
        terms = [Term((), (1,), -1) if state else Term((number,), (), -1)]
        for unknowns in ((0,),) if state else ((0,), (1,), (0, 1)):
            given = tuple(rng.choice([2, 3], size=rng.integers(0, 2), replace=False).tolist())
            sign, copies = int(rng.choice([-1, 1])), int(rng.integers(0, 7))
            terms += [Term(given, unknowns, sign)] * copies
        equations.append(tuple(terms))
    return LiftedSystem(tuple(equations), learnable, 2, PARAMETERS, tuple(range(learnable)))


def eliminant(system: LiftedSystem) -> tuple[int, dict[tuple[int, ...], int]] | None:
    """N_C and a(q) as exponents and coefficients; None if the two equations are not a finite map."""
    names = ("x", "y", "U0", "U1", "U2", *(f"q{k}" for k in range(PARAMETERS)))
    ring = flint.fmpz_mpoly_ctx.get(names, flint.Ordering.lex)
    x, y, *forms = ring.gens()
    parameters = forms[3:]
    if not jacobian_has_full_rank(system):
        return None
    equations = []
    for equation in system.equations:
        total = ring.constant(0)
        for term in equation:
            value = ring.constant(term.sign)
            for k in term.parameters:
                value *= parameters[k]
            for u in term.unknowns:
                value *= (x, y)[u]
            total += value
        equations.append(total)
    form = forms[0] + forms[1] * x + (forms[2] * y if system.learnable == 2 else 0)
    if system.learnable == 2:
        first, second = (form.resultant(e, "x") for e in equations)
    else:
        first, second = equations[0].resultant(equations[1], "y"), form
    left = first.resultant(second, "y" if system.learnable == 2 else "x")
    # What comes from infinity does not contain U_0.
    factors = [f for f, _ in left.factor()[1] if f.degrees()[2]]
    if len(factors) != 1:
        return None
    (whole,) = factors
    top = int(whole.degrees()[2])
    a = {tuple(map(int, e[5:])): int(c) for e, c in whole.to_dict().items() if e[2] == top}
    return top, a


def jacobian_has_full_rank(system: LiftedSystem) -> bool:
    """At a random point of whole numbers."""
    rng = np.random.default_rng(0)
    at, given = rng.integers(-99, 100, 2), rng.integers(-99, 100, PARAMETERS)
    table = np.zeros((2, 2), dtype=int)
    for row, equation in enumerate(system.equations):
        for term in equation:
            scale = term.sign * int(np.prod(given[list(term.parameters)]))
            for u in term.unknowns:
                table[row, u] += scale * int(np.prod([at[v] for v in term.unknowns if v != u]))
    return bool(table[0, 0] * table[1, 1] != table[0, 1] * table[1, 0])


def measure(a: dict[tuple[int, ...], int], rng: np.random.Generator) -> float:
    """The logarithmic Mahler measure: the mean of log |a| over unit circles."""
    angles = rng.uniform(0, 2 * np.pi, (4000, PARAMETERS))
    exponents, values = np.array(list(a)), np.array([float(c) for c in a.values()])
    return float(np.log(np.abs(np.exp(1j * angles @ exponents.T) @ values)).mean())


def count_modulo(system: LiftedSystem, prime: int, seed: int, degree: int) -> int | None:
    """Solutions with multiplicity at random parameters; None: infinitely many.

    The leading monomials of all multiples of the equations up to a degree, by elimination.
    """
    written = polynomials_modulo(system, prime, np.random.default_rng(seed))
    if written is None:
        return 0
    lines, size = written
    monomials = [e for e in product(range(degree + 1), repeat=size) if sum(e) <= degree]
    monomials.sort(key=lambda e: (-sum(e), [-v for v in e]))
    place = {e: k for k, e in enumerate(monomials)}
    rows = []
    for line in lines:
        polynomial = parsed(line, size)
        for shift in monomials:
            if sum(shift) + 2 <= degree:
                row = [0] * len(monomials)
                for exponents, value in polynomial.items():
                    row[place[tuple(map(sum, zip(exponents, shift, strict=True)))]] += value
                rows.append(row)
    if not size:
        return int(all(line == "0" for line in lines))
    flat = [value for row in rows for value in row]
    reduced, rank = flint.nmod_mat(len(rows), len(monomials), flat, prime).rref()
    leading = []
    column = 0
    for k in range(rank):
        while int(reduced[k, column]) == 0:
            column += 1
        leading.append(monomials[column])
    found = np.array(leading).reshape(-1, size)
    return count_standard_monomials(found)


def parsed(line: str, size: int) -> dict[tuple[int, ...], int]:
    out: dict[tuple[int, ...], int] = {}
    for term in line.split("+"):
        value, *factors = term.split("*")
        exponents = [0] * size
        for factor in factors:
            name, _, power = factor.partition("^")
            exponents[int(name[1:])] += int(power or 1)
        out[tuple(exponents)] = out.get(tuple(exponents), 0) + int(value)
    return out


@pytest.mark.parametrize("learnable", [1, 2])
def test_degree_and_measure_of_the_leading_coefficient(learnable: int) -> None:
    rng = np.random.default_rng(learnable)
    looked = large = 0
    for _ in range(120):
        system = random_system(rng, learnable)
        found = eliminant(system)
        if found is None:
            continue
        count, a = found
        bounds = count_bounds(system)
        assert 1 <= count <= bounds.roots
        assert max(sum(e) for e in a) <= bounds.degree
        # Primes that divide a: at most its content, at most its measure, at most the bound.
        content = gcd(*a.values())
        assert log(content) <= measure(a, rng) + 0.05 <= bounds.height + 0.1
        looked += 1
        large += content > 1
    assert looked >= 60 and large >= 5


@pytest.mark.parametrize("learnable", [1, 2])
def test_counts_are_wrong_only_where_the_leading_coefficient_vanishes(learnable: int) -> None:
    """Every prime below 60, so every bad prime of these systems."""
    rng = np.random.default_rng(10 + learnable)
    right = wrong = bad = systems = 0
    while systems < 12:
        system = random_system(rng, learnable)
        found = eliminant(system)
        if found is None:
            continue
        systems += 1
        count, a = found
        bounds = count_bounds(system)
        content = gcd(*a.values())
        primes = [p for p in SMALL_PRIMES if content % p == 0]
        assert sum(log(p) for p in primes) <= bounds.height
        bad += len(primes)
        for prime in SMALL_PRIMES:
            misses = 0
            for seed in range(12):
                q = np.random.default_rng(seed).integers(0, prime, PARAMETERS).tolist()
                value = sum(c * prod(v**k for v, k in zip(q, e, strict=True)) for e, c in a.items())
                vanishes = value % prime == 0
                same = count_modulo(system, prime, seed, 6) == count
                assert same or vanishes
                misses += not same
                right, wrong = right + same, wrong + (not same)
            if prime not in primes:  # mean at most 12 degree / p, and 12 draws at most
                assert misses <= 12 * min(1.0, bounds.degree / prime) + 3 * 12**0.5
    assert bad and wrong > 10 and right > 1000


@pytest.mark.parametrize(
    ("network", "samples", "allocation"),
    [
        (sl.LinearRNN(n=2, b=1, d=1, T=2), 2, [(0, 0), (1, 1)]),
        (sl.LinearRNN(n=2, b=1, d=1, T=2), 2, [(0, 1), (1, 0)]),
        (sl.LinearRNN(n=3, b=1, d=1, T=2), 2, [(0, 0), (1, 1)]),
    ],
)
def test_networks_modulo_small_primes(
    network: sl.LinearRNN, samples: int, allocation: list[tuple[int, int]]
) -> None:
    """The share of wrong counts stays below deg(a) / p, with a prime a million times too small."""
    held = sl.Allocation.from_entries(network, {"W": allocation})
    form = product_form(network, held, samples)
    assert form is not None
    system = lifted_system(form)
    bounds = count_bounds(system)
    counts = [count_modulo(system, 1073741827, seed, 6) for seed in range(3)]
    assert len(set(counts)) == 1
    wrong = {}
    for prime in (5, 101, 1009):
        found = [count_modulo(system, prime, seed, 6) for seed in range(40)]
        wrong[prime] = sum(c != counts[0] for c in found)
        limit = 40 * min(1.0, bounds.degree / prime)
        assert wrong[prime] <= limit + 3 * limit**0.5
    assert wrong[5] > wrong[1009]
