"""The lifted polynomial system of an allocation, at generic parameters.

The states of a product form (``_product.py``) are taken as further unknowns (Lemma 3.3; eqs. (4.1) to
(4.3) for layers):

    S_p[i, c] = sum_j chain_p[i, j] S_{p-1}[j, c],      y[o, s] = sum read[o, i] S_p[i, c] mix[(p, c), s]

Every equation then has degree at most 2 in the unknowns, all its coefficients are +1 or -1 in the
unknowns and the parameters together, and its solutions are those of the original system, since the
states are polynomials in the weights. The parameters are the frozen weights, the inputs and the
targets. With m = T b inputs the mix is invertible for almost all of them and drops out.

A group of weights that occurs in as many equations as it has members is *determined*: these equations
are A w = F, where A and F do not contain the group. It is left out, and with it its equations, which
changes N_C not at all if the rank is full. What is left is again the graph of a polynomial map between
spaces of one dimension: where an equation said what a state is, that state is now free. If det A were
0 on all of the graph, the outputs would not change as w moves along the kernel of A, against full
rank. So det A = 0 is a proper closed subset of the graph, which is irreducible; its image has a lower
dimension, so that generic parameters have no solution in it; and where det A is not 0 each solution of
the rest extends to exactly one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sublearn._arrays import Indices
from sublearn.exact import leading
from sublearn.verdicts.counts._product import ProductForm

Residues = Indices


@dataclass(frozen=True)
class Term:
    """sign times a product of parameters times a product of at most two unknowns."""

    parameters: tuple[int, ...]
    unknowns: tuple[int, ...]
    sign: int = 1

    def __mul__(self, other: Term) -> Term:
        unknowns = self.unknowns + other.unknowns
        return Term(self.parameters + other.parameters, unknowns, self.sign * other.sign)


@dataclass(frozen=True, eq=False)
class LiftedSystem:
    """Equations as lists of terms. Unknowns 0..r-1 are the learnable weights, then come the states.

    ``groups`` has, for each learnable weight, the number of the group it belongs to in the bounds of
    ``_bezout.py``: its row, or its column where the weight multiplies from the right (the encoder).
    ``free``: how many states have no equation that says what they are.
    """

    equations: tuple[tuple[Term, ...], ...]
    learnable: int
    unknowns: int
    parameters: int
    groups: tuple[int, ...]
    free: int = 0

    def groups_in(self, equation: tuple[Term, ...]) -> set[int]:
        """The groups of the learnable weights that occur in an equation."""
        weights = {u for term in equation for u in term.unknowns if u < self.learnable}
        return {self.groups[u] for u in weights}

    @cached_property
    def quadratic(self) -> int:
        """How many equations are not linear."""
        return sum(any(len(term.unknowns) == 2 for term in e) for e in self.equations)

    @cached_property
    def table(self) -> TermTable:
        """All terms as arrays."""
        most = max((len(term.parameters) for e in self.equations for term in e), default=0)
        signs, places, parameters = [], [], []
        for equation in self.equations:
            for term in equation:
                # States come before weights, so that they become pivots; the constant 1 is last.
                at = sorted((u - self.learnable) % self.unknowns for u in term.unknowns)
                places.append((at + [self.unknowns] * 2)[:2])
                signs.append(term.sign)
                parameters.append((*term.parameters, *[self.parameters] * most)[:most])
        ends = np.cumsum([0, *(len(equation) for equation in self.equations)])
        low, high = np.array(places, dtype=np.int64).reshape(-1, 2).T
        used = np.array(parameters, dtype=np.int64).reshape(len(signs), most)
        return TermTable(np.array(signs, dtype=np.int64), low, high, used, ends)


class TermTable(NamedTuple):
    """sign x[low] x[high] times the product of parameters, equation by equation, from ``ends`` to ``ends``.

    x = (states, weights, 1); the parameter behind the last one is 1.
    """

    sign: Residues
    low: Residues
    high: Residues
    parameters: Residues
    ends: Residues


@lru_cache(maxsize=64)
def lifted_system(form: ProductForm) -> LiftedSystem:
    """The lifted system of a product form."""
    return _Builder(form).build()


@lru_cache(maxsize=64)
def without_determined(system: LiftedSystem) -> LiftedSystem:
    """The same without the groups of weights that are determined, and their equations."""
    sizes, equations = Counter(system.groups), list(system.equations)
    free = system.free
    while True:
        places: dict[int, list[int]] = {}
        for place, equation in enumerate(equations):
            for group in system.groups_in(equation):
                places.setdefault(group, []).append(place)
        determined = [g for g, rows in places.items() if len(rows) == sizes[g]]
        if not determined:
            break
        gone = set(places[determined[0]])
        # A state is free once the equation that begins with it is gone; the others say what a target is.
        free += sum(equations[place][0].unknowns != () for place in gone)
        equations = [e for place, e in enumerate(equations) if place not in gone]
        del sizes[determined[0]]
    kept = [u for u in range(system.learnable) if system.groups[u] in sizes]
    number = {
        u: place for place, u in enumerate([*kept, *range(system.learnable, system.unknowns)])
    }
    return LiftedSystem(
        tuple(
            tuple(
                Term(term.parameters, tuple(number[u] for u in term.unknowns), term.sign)
                for term in equation
            )
            for equation in equations
        ),
        len(kept),
        len(number),
        system.parameters,
        tuple(system.groups[u] for u in kept),
        free,
    )


class _Builder:
    """Numbers unknowns and parameters while the equations are written down."""

    def __init__(self, form: ProductForm) -> None:
        self.form = form
        self.learnable = {(int(k), int(i), int(j)): a for a, (k, i, j) in enumerate(form.where)}
        self.unknowns = len(form.where)
        self.parameters: dict[object, int] = {}

    def parameter(self, key: object) -> int:
        return self.parameters.setdefault(key, len(self.parameters))

    def entry(self, k: int, i: int, j: int) -> list[Term]:
        """Entry (i, j) of matrix k as a sum of terms: of one, or of none where it is 0."""
        key = (k, i, j)
        if key in self.learnable:
            return [Term((), (self.learnable[key],))]
        if key in self.form.zeros:
            return []
        return [Term((), ()) if key in self.form.units else Term((self.parameter(key),), ())]

    def product(self, k: int, i: int, column: list[list[Term]]) -> list[Term]:
        """Row i of matrix k times a column of sums of terms."""
        return [
            one * two
            for j, part in enumerate(column)
            for one in self.entry(k, i, j)
            for two in part
        ]

    def build(self) -> LiftedSystem:
        form = self.form
        rows, width = form.shapes[form.start]
        states = [[[self.entry(form.start, i, c) for c in range(width)] for i in range(rows)]]
        equations: list[tuple[Term, ...]] = []
        for k in form.chain:
            fresh: list[list[list[Term]]] = []
            for i in range(form.shapes[k][0]):
                first = self.unknowns
                self.unknowns += width
                fresh.append([[Term((), (first + c,))] for c in range(width)])
                for c in range(width):
                    terms = self.product(k, i, [line[c] for line in states[-1]])
                    equations.append((Term((), (first + c,), -1), *terms))
            states.append(fresh)
        equations += self._readout(states)
        groups: dict[tuple[int, int], int] = {}
        numbers = []
        for k, i, j in form.where.tolist():
            key = (k, j if k == form.start else i)
            numbers.append(groups.setdefault(key, len(groups)))
        sizes = len(form.where), self.unknowns, len(self.parameters)
        return LiftedSystem(tuple(equations), *sizes, tuple(numbers))

    def _readout(self, states: list[list[list[list[Term]]]]) -> list[tuple[Term, ...]]:
        form = self.form
        columns = form.readouts * form.width
        mixed = form.mixed and form.samples != columns
        equations = []
        for o in range(form.outputs):
            raw = [
                self.product(form.read, o, [line[c] for line in states[p]])
                for p in range(form.first, len(form.chain) + 1)
                for c in range(form.width)
            ]
            for s in range(form.samples if mixed else columns):
                target = Term((self.parameter(("target", o, s)),), (), -1)
                terms = (
                    raw[s]
                    if not mixed
                    else [
                        term * Term((self.parameter(("mix", column, s)),), ())
                        for column, part in enumerate(raw)
                        for term in part
                    ]
                )
                equations.append((target, *terms))
        return equations


def polynomials_modulo(
    system: LiftedSystem, prime: int, rng: np.random.Generator
) -> tuple[list[str], int] | None:
    """The system at uniformly random parameters modulo a prime below 2^31, as text for msolve.

    Its linear equations are solved first and their pivots, states where possible, substituted, so
    that only quadratic equations in few unknowns are left. Returns the polynomials and the number of
    unknowns, or None if the linear equations alone contradict each other.
    """
    from flint import nmod_mat

    table, size = system.table, system.unknowns
    values = np.append(rng.integers(0, prime, system.parameters), 1)
    # Residues stay below 2^31, so that a product of two is exact in 64 bits.
    coefficients = table.sign % prime
    for column in table.parameters.T:
        coefficients = coefficients * values[column] % prime
    linear: list[list[int]] = []
    quadratic: list[slice] = []
    for begin, end in pairwise(table.ends.tolist()):
        part = slice(begin, end)
        if (table.high[part] == size).all():
            row = np.zeros(size + 1, dtype=np.int64)
            np.add.at(row, table.low[part], coefficients[part])
            linear.append((row % prime).tolist())
        else:
            quadratic.append(part)
    flat = [value for row in linear for value in row]
    reduced, rank = nmod_mat(len(linear), size + 1, flat, prime).rref()
    rows = np.array([int(v) for v in reduced.entries()], dtype=np.int64)
    rows = rows.reshape(len(linear), size + 1)[:rank]
    pivots = leading(rows)
    if size in pivots:
        return None
    free = [place for place in range(size) if place not in set(pivots)]
    # Every unknown (and the constant 1) in terms of the free ones and the constant.
    kept = [*free, size]
    basis = np.zeros((size + 1, len(kept)), dtype=np.int64)
    for target, place in enumerate(kept):
        basis[place, target] = 1
    basis[pivots] = (-rows[:, kept]) % prime
    lines = []
    for part in quadratic:
        scaled = coefficients[part, None] * basis[table.low[part]] % prime
        products = scaled[:, :, None] * basis[table.high[part]][:, None, :] % prime
        lines.append(_text(products.sum(axis=0), prime))
    return lines, len(free)


def _text(form: Residues, prime: int) -> str:
    """The quadratic form, whose last coordinate is the constant 1, in the syntax of msolve."""
    form = (np.triu(form) + np.tril(form, -1).T) % prime
    one = len(form) - 1
    parts = []
    for i, j in np.argwhere(form).tolist():
        value = int(form[i, j])
        if j == one:
            parts.append(f"{value}" if i == one else f"{value}*x{i}")
        else:
            parts.append(f"{value}*x{i}^2" if i == j else f"{value}*x{i}*x{j}")
    return "+".join(parts) or "0"
