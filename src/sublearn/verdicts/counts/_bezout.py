"""How often a count of solutions, taken at random parameters modulo a random prime, is wrong.

Let Phi take (frozen weights and inputs q', learnable weights w) to (q', outputs): a polynomial map
from affine N-space to itself, over the integers. N_C is its degree, the number of complex solutions
at generic parameters q = (q', targets). Consider

    R(q, U) = a(q) * product over the solutions w of (U_0 + U_1 w_1 + .. + U_r w_r),

an irreducible polynomial with integer coefficients. Wherever a(q) is not 0 modulo p, every weight is
a root of a polynomial with leading coefficient a, so the ring of (q', w) is finite over that of q;
both are regular of the same dimension, so it is flat, hence of constant rank N_C. So the quotient
algebra at such q has dimension N_C *exactly*: a count modulo p can be wrong only where a(q) = 0
modulo p. That happens if p divides a (first event), else with probability at most deg(a) / p at a
uniformly random q (second event; Schwartz 1980, Zippel 1979).

Both are bounded by arithmetic intersection theory in products of projective spaces (D'Andrea, Krick
and Sombra, "Heights of varieties in multiprojective spaces and arithmetic Nullstellensaetze", Ann.
Sci. ENS 46, 2013, section 2): a hypersurface f = 0 has the class sum_g deg_g(f) theta_g + m(f) eta,
with m the logarithmic Mahler measure; the class of an intersection with f = 0 is at most the class
times (sum_g deg_g(f) theta_g + log |f| eta), |f| the sum of absolute coefficients, modulo eta^2; a
projection does not increase it. The lifted equations (``_polynomials.py``) define a graph, so they
intersect properly one after the other, and together with U_0 + U_1 w_1 + .. + U_r w_r = 0 they project
onto R = 0. Hence deg_q(a) <= deg_q(R) and m(a) <= m(R) are at most the coefficients of
theta_q and eta, each times the product of the top powers of all unknowns, in

    prod over equations (groups of unknowns + deg_q theta_q + log |f| eta)  *  (theta_U + sum_g omega_g
    + log(r + 1) eta).

Where determined groups of weights are left out (``_polynomials.py``), all this holds of what is left:
w then stands for the other weights and the free states, N_C is the same, r counts both, and the linear
form has a summand for the group of the states too.

The coefficient of theta_U bounds N_C itself. A prime p > 2^30 that divides a adds log p to m(a), so at
most m(a) / log 2^30 primes do.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from sublearn.verdicts.counts._polynomials import LiftedSystem, Term

SMALLEST = 2**30
LARGEST = 2**31
PRIMES = 50_697_537
"""The number of primes between 2^30 and 2^31: pi(2^31) - pi(2^30) = 105,097,565 - 54,400,028."""

# A row of numbers: coefficients of 1, theta_q and eta.
Class = NDArray[np.float64]


@dataclass(frozen=True)
class CountBounds:
    """Bounds on N_C, on the degree of a in the parameters, and on its Mahler measure."""

    roots: float
    degree: float
    height: float

    @property
    def miss(self) -> float:
        """Bound on the chance that a count at one random point modulo one random prime is wrong."""
        return min(1.0, self.height / log(SMALLEST) / PRIMES + self.degree / SMALLEST)


def count_bounds(system: LiftedSystem) -> CountBounds:
    """The coefficients above, by going through the equations with one group of unknowns at a time.

    The unknowns are the groups omega_g of learnable weights and one group of all states. An equation
    contributes one factor, so once each omega_g has its power, what is left is the power of the states.
    """
    sizes = Counter(system.groups)
    equations = sorted((_shape(system, e) for e in system.equations), key=lambda e: e.groups)
    last = {g: place for place, e in enumerate(equations) for g in e.groups}
    # A key: the powers that the open groups have so far, and whether the linear form in U has given
    # its factor omega_g to a group already.
    table: dict[tuple[tuple[tuple[int, int], ...], bool], Class] = {
        ((), False): np.array([1.0, 0.0, 0.0])
    }
    for place, equation in enumerate(equations):
        fresh: dict[tuple[tuple[tuple[int, int], ...], bool], Class] = {}
        for (powers, used), value in table.items():
            held = dict(powers)
            constant = np.array([0.0, equation.degree * value[0], equation.height * value[0]])
            # The equation gives theta_q or eta, or the group of the states, or one omega_g.
            _add(fresh, held, used, constant + (value if equation.states else 0.0))
            for g in equation.groups:
                if held.get(g, 0) < sizes[g]:
                    _add(fresh, {**held, g: held.get(g, 0) + 1}, used, value)
        table = fresh
        for g in equation.groups:
            if last[g] == place:
                table = _close(table, g, sizes[g])
    whole = table.get(((), False), np.zeros(3))
    short = table.get(((), True), np.zeros(3))
    # Free states stand in the linear form too, which may then give its factor to theirs.
    if system.free:
        short = short + whole
    return CountBounds(
        float(whole[0]),
        float(short[1]),
        float(short[2] + whole[0] * log(system.learnable + system.free + 1)),
    )


@dataclass(frozen=True)
class _Shape:
    groups: tuple[int, ...]
    states: bool
    degree: int
    height: float


def _shape(system: LiftedSystem, equation: tuple[Term, ...]) -> _Shape:
    """Which groups occur, the degree in the parameters, and log of the number of terms (all +-1)."""
    unknowns = {u for term in equation for u in term.unknowns}
    groups = {system.groups[u] for u in unknowns if u < system.learnable}
    return _Shape(
        tuple(sorted(groups)),
        any(u >= system.learnable for u in unknowns),
        max(len(term.parameters) for term in equation),
        log(len(equation)),
    )


def _add(
    table: dict[tuple[tuple[tuple[int, int], ...], bool], Class],
    held: dict[int, int],
    used: bool,
    value: Class,
) -> None:
    key = (tuple(sorted(held.items())), used)
    table[key] = table[key] + value if key in table else value


def _close(
    table: dict[tuple[tuple[tuple[int, int], ...], bool], Class], group: int, size: int
) -> dict[tuple[tuple[tuple[int, int], ...], bool], Class]:
    """No further equation holds the group: it must have its full power, or lack one omega_g."""
    out: dict[tuple[tuple[tuple[int, int], ...], bool], Class] = {}
    for (powers, used), value in table.items():
        held = dict(powers)
        power = held.pop(group, 0)
        if power == size:
            _add(out, held, used, value)
        elif power == size - 1 and not used:
            _add(out, held, True, value)
    return out
