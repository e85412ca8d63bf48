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

Both are bounded by a resultant, as follows; m is the logarithmic Mahler measure, |f| the sum of
absolute coefficients. Make the E lifted equations f_e (``_polynomials.py``) in the E unknowns
homogeneous in every group of unknowns: in a product of projective spaces of dimensions n_g, sum n_g
= E, with degree 1 in the groups omega_g that occur. The form ell = U_0 + U_1 w_1 + .. + U_r w_r has
degree 1 in every group of weights. D_e, and D_U, is the number of common zeros of generic equations
of these degrees without the one of f_e, or of ell: the coefficient of prod omega_g^n_g in the
product of the other sums of groups. D_U >= N_C >= 1.

1. *The resultant.* Generic equations of these degrees, one more than unknowns, have a common zero
   where one polynomial H in their coefficients is 0, irreducible over Z. It depends on the
   equations of one subfamily I only, which live in groups of dimension n = |I| - 1, and its degree
   in the equation of f_e is the number of common zeros of the others of I (Sturmfels, "On the
   Newton polytope of the resultant", J. Algebraic Combinatorics 3, 1994). That is at most D_e: each
   zero extends to the rest in at least one way.
2. *Its size:* log |H(F)| <= sum D_e log |F_e|. (Sombra, "The height of the mixed sparse resultant",
   Amer. J. Math. 126, 2004, has this for unit coefficients; it follows from powers.) Let H_k be the
   same for degrees k times as large. H_k(F_1^k, ..) and H(F) vanish together, so the former is an
   integer times a power of the latter, by degrees the power k^(n+1). So k^(n+1) log |H(F)| is at
   most log |H_k| plus k^n sum D_e log |F_e^k|, and |F_e^k| <= |F_e|^k. Divide by k^(n+1): it is
   left to see that log |H_k| = O(k^n log k). The map (G_e) -> sum G_e F_e into polynomials of
   degree sum k deg F_e, over the groups of I, is onto where there is no common zero (the Koszul
   complex is exact, and what it is made of has no higher cohomology) and not onto where there is
   one. So H_k divides a minor of its matrix, which is not 0, has O(k^n) rows and single
   coefficients as entries: m(H_k) <= O(k^n log k), as integer polynomials have m >= 0. A polynomial
   of degree d in N variables has |f| <= N^d exp m(f) (Mahler 1962, one variable after the other);
   here d = O(k^n) and N = O(k^n).
3. *Perturb.* f_e may have zeros at infinity, where H would be 0. Take f_e + g_e, with g_e of the
   same degrees and coefficients c that are free: P(q, U, c) = H(f + g, ell) is not 0. Let P_0 be
   its part of lowest degree in c. A solution w at generic q is simple, so f + eps g has a zero near
   it, and where ell vanishes at w, P vanishes at (eps c, U') with U' near U: so P_0 = 0 there.
   Hence R, which is irreducible, divides P_0 over Z. Therefore m(R) <= m(P_0) <= m(P), a part of
   lowest degree having no larger measure, and m(P) is at most the largest log |P| where all of q, U
   and c lie on unit circles. So m(a) <= m(R), a being an extreme coefficient, and

       m(a) <= sum over equations D_e log(terms of f_e + terms of g_e)  +  D_U log(r + 1),
       deg a <= sum over equations D_e deg_q f_e.

   g_e has as many terms as the groups of f_e have monomials: the product of the n_g + 1.

Where determined groups of weights are left out (``_polynomials.py``), all this holds of what is
left: w then stands for the other weights and the free states, N_C is the same, r counts both, and
the linear form has a summand for the group of the states too.

D_U bounds N_C itself. A prime p > 2^30 that divides a adds log p to m(a), so at most m(a) / log
2^30 primes do. Tests check the bounds against a itself, by elimination with other software, and
counts modulo small primes against the degree. (Arithmetic intersection theory bounds m(a) without
the terms of g_e: D'Andrea, Krick and Sombra, Ann. Sci. ENS 46, 2013. That is sharper by a small
factor, and not used here: its constants were not checked against the text.)
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import log, prod

import numpy as np

from sublearn._arrays import Array
from sublearn.verdicts.counts._polynomials import LiftedSystem, Term

BITS = 31  # of the primes: the largest that msolve takes
SMALLEST = 2**30
PRIMES = 50_697_537
"""The number of primes between 2^30 and 2^31: pi(2^31) - pi(2^30) = 105,097,565 - 54,400,028."""

# A row of numbers: a count of zeros D, and the sums of D_e deg_q f_e and of D_e log(..) so far.
Class = Array
# Its key: the powers that the open groups have so far, and whether the linear form in U has given its
# factor omega_g to a group already.
Classes = dict[tuple[tuple[tuple[int, int], ...], bool], Class]


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
    table: Classes = {((), False): np.array([1.0, 0.0, 0.0])}
    for place, equation in enumerate(equations):
        fresh: Classes = {}
        for (powers, used), value in table.items():
            power = dict(powers)
            constant = np.array([0.0, equation.degree * value[0], equation.height * value[0]])
            # The equation is the one left out, or gives the group of the states, or one omega_g.
            _add(fresh, power, used, constant + (value if equation.states else 0.0))
            for g in equation.groups:
                if power.get(g, 0) < sizes[g]:
                    _add(fresh, {**power, g: power.get(g, 0) + 1}, used, value)
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
    """Which groups occur, the degree in the parameters, and log of the number of terms (all +-1).

    Counted are the terms of the equation and all monomials of its groups, by which it is perturbed.
    """
    groups = system.groups_in(equation)
    states = any(u >= system.learnable for term in equation for u in term.unknowns)
    sizes = Counter(system.groups)
    monomials = prod(sizes[g] + 1 for g in groups)
    if states:
        monomials *= system.unknowns - system.learnable + 1
    return _Shape(
        tuple(sorted(groups)),
        states,
        max(len(term.parameters) for term in equation),
        log(len(equation) + monomials),
    )


def _add(table: Classes, powers: dict[int, int], used: bool, value: Class) -> None:
    key = (tuple(sorted(powers.items())), used)
    table[key] = table[key] + value if key in table else value


def _close(table: Classes, group: int, size: int) -> Classes:
    """No further equation holds the group: it must have its full power, or lack one omega_g."""
    out: Classes = {}
    for (powers, used), value in table.items():
        rest = dict(powers)
        power = rest.pop(group, 0)
        if power == size:
            _add(out, rest, used, value)
        elif power == size - 1 and not used:
            _add(out, rest, True, value)
    return out
