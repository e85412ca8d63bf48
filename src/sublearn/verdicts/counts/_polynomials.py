"""The lifted polynomial system of an allocation, at generic parameters.

The states of a product form (``_product.py``) are taken as further unknowns (Lemma 3.3; eqs. (4.1) to
(4.3) for layers):

    S_p[i, c] = sum_j chain_p[i, j] S_{p-1}[j, c],      y[o, s] = sum read[o, i] S_p[i, c] mix[(p, c), s]

Every equation then has degree at most 2 in the unknowns, all its coefficients are +1 or -1 in the
unknowns and the parameters together, and its solutions are those of the original system, since the
states are polynomials in the weights. The parameters are the frozen weights, the inputs and the
targets. With m = T b inputs the mix is invertible for almost all of them and drops out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sublearn.verdicts.counts._product import ProductForm


@dataclass(frozen=True)
class Term:
    """sign times a product of parameters times a product of at most two unknowns."""

    parameters: tuple[int, ...]
    unknowns: tuple[int, ...]
    sign: int = 1


@dataclass(frozen=True)
class LiftedSystem:
    """Equations as lists of terms. Unknowns 0..r-1 are the learnable weights, then come the states.

    ``groups`` has, for each learnable weight, the number of the group it belongs to in the bounds of
    ``_bezout.py``: its row, or its column where the weight multiplies from the right (the encoder).
    """

    equations: tuple[tuple[Term, ...], ...]
    learnable: int
    unknowns: int
    parameters: int
    groups: tuple[int, ...]


def lifted_system(form: ProductForm) -> LiftedSystem:
    """The lifted system of a product form."""
    return _Builder(form).build()


class _Builder:
    """Numbers unknowns and parameters while the equations are written down."""

    def __init__(self, form: ProductForm) -> None:
        self.form = form
        self.learnable = {(int(k), int(i), int(j)): a for a, (k, i, j) in enumerate(form.where)}
        self.unknowns = len(form.where)
        self.parameters: dict[object, int] = {}

    def parameter(self, key: object) -> int:
        return self.parameters.setdefault(key, len(self.parameters))

    def entry(self, k: int, i: int, j: int) -> Term | None:
        """Entry (i, j) of matrix k as a term; None where it is 0."""
        key = (k, i, j)
        if key in self.learnable:
            return Term((), (self.learnable[key],))
        if key in self.form.zeros:
            return None
        return Term((), ()) if key in self.form.units else Term((self.parameter(key),), ())

    def build(self) -> LiftedSystem:
        form = self.form
        rows, width = form.shapes[form.start]
        state = [[self.entry(form.start, i, c) for c in range(width)] for i in range(rows)]
        states = [state]
        equations = []
        for k in form.chain:
            fresh: list[list[Term | None]] = []
            for i in range(form.shapes[k][0]):
                line: list[Term | None] = []
                for c in range(width):
                    variable = self.unknowns
                    self.unknowns += 1
                    line.append(Term((), (variable,)))
                    terms = [
                        _times(self.entry(k, i, j), before[c]) for j, before in enumerate(state)
                    ]
                    equations.append((Term((), (variable,), -1), *_present(terms)))
                fresh.append(line)
            state = fresh
            states.append(state)
        equations += self._readout(states)
        groups: dict[tuple[int, int], int] = {}
        numbers = []
        for k, i, j in form.where.tolist():
            key = (k, j if k == form.start else i)
            numbers.append(groups.setdefault(key, len(groups)))
        return LiftedSystem(
            tuple(equations),
            len(form.where),
            self.unknowns,
            len(self.parameters),
            tuple(numbers),
        )

    def _readout(self, states: list[list[list[Term | None]]]) -> list[tuple[Term, ...]]:
        form = self.form
        columns = form.readouts * form.width
        mixed = form.mixed and form.samples != columns
        equations = []
        for o in range(form.outputs):
            raw: list[list[Term]] = []
            for p in range(form.first, len(form.chain) + 1):
                for c in range(form.width):
                    terms = [
                        _times(self.entry(form.read, o, i), line[c])
                        for i, line in enumerate(states[p])
                    ]
                    raw.append(_present(terms))
            for s in range(form.samples if mixed else columns):
                target = Term((self.parameter(("target", o, s)),), (), -1)
                if not mixed:
                    equations.append((target, *raw[s]))
                    continue
                terms = [
                    _times(term, Term((self.parameter(("mix", column, s)),), ()))
                    for column, part in enumerate(raw)
                    for term in part
                ]
                equations.append((target, *_present(terms)))
        return equations


def _times(one: Term | None, two: Term | None) -> Term | None:
    if one is None or two is None:
        return None
    return Term(one.parameters + two.parameters, one.unknowns + two.unknowns, one.sign * two.sign)


def _present(terms: list[Term | None]) -> list[Term]:
    return [term for term in terms if term is not None]


def polynomials_modulo(
    system: LiftedSystem, prime: int, rng: np.random.Generator
) -> tuple[list[str], int] | None:
    """The system at uniformly random parameters modulo a prime below 2^31, as text for msolve.

    Its linear equations are solved first and their pivots, states where possible, substituted, so
    that only quadratic equations in few unknowns are left. Returns the polynomials and the number of
    unknowns, or None if the linear equations alone contradict each other.
    """
    from flint import nmod_mat

    values = rng.integers(0, prime, system.parameters).tolist()
    size = system.unknowns
    # Column 0 is the constant 1; states come before weights, so that they become pivots.
    order = [*range(system.learnable, size), *range(system.learnable)]
    column = {unknown: place for place, unknown in enumerate(order)}
    linear: list[list[int]] = []
    quadratic: list[dict[tuple[int, int], int]] = []
    for equation in system.equations:
        coefficients: dict[tuple[int, int], int] = {}
        for term in equation:
            product = term.sign
            for parameter in term.parameters:
                product = product * values[parameter] % prime
            places = sorted(column[unknown] for unknown in term.unknowns)
            key = (*([size] * (2 - len(places))), *places)
            key = (min(key), max(key))
            coefficients[key] = (coefficients.get(key, 0) + product) % prime
        if all(high == size for _, high in coefficients):
            row = [0] * (size + 1)
            for (low, _), value in coefficients.items():
                row[low] = value
            linear.append(row)
        else:
            quadratic.append(coefficients)
    free = list(range(size))
    pivots: list[int] = []
    if linear:
        flat = [value for row in linear for value in row]
        reduced, rank = nmod_mat(len(linear), size + 1, flat, prime).rref()
        rows = np.array([int(v) for v in reduced.entries()], dtype=np.int64)
        rows = rows.reshape(len(linear), size + 1)[:rank]
        pivots = [int(np.flatnonzero(row)[0]) for row in rows]
        if size in pivots:
            return None
        free = [place for place in range(size) if place not in set(pivots)]
    # Every unknown (and the constant 1) in terms of the free ones and the constant.
    kept = [*free, size]
    basis = np.zeros((size + 1, len(kept)), dtype=np.int64)
    for target, place in enumerate(kept):
        basis[place, target] = 1
    if linear:
        basis[pivots] = (-rows[:, kept]) % prime
    change = nmod_mat(size + 1, len(kept), basis.ravel().tolist(), prime)
    lines = []
    for coefficients in quadratic:
        form = nmod_mat(size + 1, size + 1, prime)
        for (low, high), value in coefficients.items():
            form[low, high] = value
        lines.append(_text(change.transpose() * form * change, len(free), prime))
    return lines, len(free)


def _text(form: Any, unknowns: int, prime: int) -> str:
    """The quadratic form, whose last coordinate is the constant 1, in the syntax of msolve."""
    size = unknowns + 1
    entries = np.array([int(v) for v in form.entries()], dtype=np.int64).reshape(size, size)
    parts = []
    for i in range(size):
        for j in range(i, size):
            value = int(entries[i, j] + (entries[j, i] if j > i else 0)) % prime
            if not value:
                continue
            if j == unknowns:
                parts.append(f"{value}" if i == unknowns else f"{value}*x{i}")
            else:
                parts.append(f"{value}*x{i}^2" if i == j else f"{value}*x{i}*x{j}")
    return "+".join(parts) or "0"
