"""How near the outputs can come to their targets: points from above, circuits and patterns from below.

The distance is max |output - target|. A point, run forward in rationals or balls, bounds the least distance
from above. From below: a system lo <= A w <= hi has no solution iff for some circuit c of the rows of A,
c A = 0, the number 0 lies outside of the sum of c_i [lo_i, hi_i] (Farkas, with circuits by Carathéodory).
Determinants give all circuits, and whatever c they give refutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, islice
from typing import Any

import numpy as np
from flint import arb, arb_mat, fmpq, fmpq_poly
from scipy.optimize import least_squares, linprog

from adversary import algebra
from adversary.algebra import TooLargeError
from adversary.network import CURVED, Matrix, Vector, ball_phi, balls, float_phi, forward
from adversary.truth import (
    MOST_BRANCHES,
    Pieces,
    Question,
    inverse,
    is_curved,
    last_step,
    out_of_range,
    rate_states,
    state_before,
)

End = Any  # an arb, or None where there is no end
Band = tuple[End, End]

MOST_CIRCUITS = 2000
STARTS = 4


# From above.


def outputs_at(asked: Question, values: Sequence[float]) -> list[Vector]:
    """The outputs at float64 values of the learnable weights, in balls."""
    held = {name: [list(row) for row in balls(value)] for name, value in asked.weights.items()}
    for (name, i, j), value in zip(asked.labels, values, strict=True):
        held[name][i][j] = arb(fmpq(*float(value).as_integer_ratio()))
    last = asked.chain.links[-1].phi
    return [
        [ball_phi(last, v) for v in forward(asked.chain, held, balls(x), ball_phi)]
        for x in asked.samples
    ]


def distance(asked: Question, values: Sequence[float]) -> Any:
    """max |output - target| as a ball; targets are ``asked.wanted``."""
    gap = arb(0)
    for vector, wanted in zip(outputs_at(asked, values), asked.wanted, strict=True):
        for y, t in zip(vector, wanted, strict=True):
            gap = gap.max(abs(y - t))
    return gap


class Nearby:
    """A search in float64 for points near to the targets."""

    def __init__(self, asked: Question) -> None:
        self.asked = asked
        self.weights = {
            name: np.array([[float(arb(v).mid()) for v in row] for row in value])
            for name, value in asked.weights.items()
        }
        columns = zip(*([v for block in x for v in block] for x in asked.samples), strict=True)
        flat = np.array([[float(arb(v).mid()) for v in row] for row in columns])
        self.cut = np.split(flat, np.cumsum(asked.chain.blocks)[:-1])
        self.targets = np.array([[float(arb(v).mid()) for v in row] for row in asked.wanted]).T

    def gap(self, w: np.ndarray) -> np.ndarray:
        held = {name: value.astype(w.dtype) for name, value in self.weights.items()}
        for (name, i, j), value in zip(self.asked.labels, w, strict=True):
            held[name][i, j] = value
        out = forward(self.asked.chain, held, self.cut, _bend)
        last = self.asked.chain.links[-1].phi
        full = np.broadcast_to(0.0, self.targets.shape[1:])
        return np.concatenate(
            [_bend(last, v) + full - t for v, t in zip(out, self.targets, strict=True)]
        )

    def slope(self, w: np.ndarray) -> np.ndarray:
        step = w[None] + 1e-20j * np.eye(w.size)
        return np.array([self.gap(row).imag * 1e20 for row in step]).T

    def best(self, rng: np.random.Generator) -> tuple[np.ndarray, float]:
        """The best point that some starts lead to, and its distance in float64."""
        size = len(self.asked.labels)
        found: tuple[np.ndarray, float] = (np.zeros(size), np.inf)
        for k in range(STARTS):
            w = rng.standard_normal(size) * (0.0, 1.0, 3.0, 10.0)[k]
            with np.errstate(all="ignore"):
                try:
                    w = least_squares(self.gap, w, jac=self.slope, max_nfev=60).x
                    w = self._lowered(w)
                    far = float(np.abs(self.gap(w)).max())
                except (ValueError, np.linalg.LinAlgError):  # not finite on the way
                    continue
            if far < found[1]:
                found = (w, far)
            if far < 1e-12:
                break
        return found

    def _lowered(self, w: np.ndarray) -> np.ndarray:
        """Linear programs lower the largest error as long as they can."""
        size, radius = w.size, 1.0 + float(np.abs(w).max())
        far = float(np.abs(self.gap(w)).max())
        for _ in range(10):
            g, J = self.gap(w), self.slope(w)
            ones = np.ones((g.size, 1))
            program = linprog(
                np.append(np.zeros(size), 1.0),
                A_ub=np.block([[J, -ones], [-J, -ones]]),
                b_ub=np.concatenate([-g, g]),
                bounds=[(-radius, radius)] * size + [(0, None)],
            )
            if program.status != 0:
                break
            moved = w + program.x[:-1]
            now = float(np.abs(self.gap(moved)).max())
            if now < far * (1 - 1e-9):
                w, far, radius = moved, now, 2 * radius
            else:
                radius /= 4
        return w


def _bend(name: str, value: Any) -> Any:
    return value * (np.real(value) > 0) if name == "relu" else float_phi(name, value)


# From below.


def refuted(asked: Question, eps: Any) -> str | None:
    """Why no weights bring all outputs within eps of ``asked.wanted``; None where that is not proved."""
    for s, t in combinations(range(len(asked.samples)), 2):
        if repr(asked.samples[s]) == repr(asked.samples[t]) and any(
            abs(v - w) > 2 * eps for v, w in zip(asked.wanted[s], asked.wanted[t], strict=True)
        ):
            return "equal samples, targets far apart"
    bands = _bands(asked, eps)
    if bands is None:
        return "a target lies outside the range of the last activation"
    chain = asked.chain
    plain = replace(chain, links=(*chain.links[:-1], replace(chain.links[-1], phi="linear")))
    asked = replace(asked, chain=plain)
    try:
        return _curved(asked, bands, eps) if is_curved(plain) else _pieces(asked, bands)
    except TooLargeError:
        return None


def _bands(asked: Question, eps: Any) -> list[list[Band]] | None:
    """What the last pre-activations may be; None where one of them may be nothing."""
    phi = asked.chain.links[-1].phi
    out = []
    for vector in asked.wanted:
        row = []
        for t in vector:
            low, high = arb(t) - eps, arb(t) + eps
            if phi == "relu":
                if high < 0:
                    return None
                row.append((low if low > 0 else None, high))
            elif phi in CURVED:
                least, most = (-1, 1) if phi == "tanh" else (0, 1)
                if low >= most or high <= least:
                    return None
                row.append((_end(phi, low), _end(phi, high)))
            else:
                row.append((low, high))
        out.append(row)
    return out


def _end(phi: str, value: Any) -> End:
    found = inverse(phi, value)
    return found if found is not None and found.is_finite() else None


def no_solution(rows: Matrix, bands: Sequence[Band]) -> bool:
    """Whether lo <= A w <= hi is proved to have no solution w."""
    for part, columns in _components(rows):
        within = [bands[k] for k in part]
        A = _independent([[rows[k][j] for j in columns] for k in part])
        width = len(A[0]) if A else 0
        subsets = combinations(range(len(part)), width + 1)
        for chosen in islice(subsets, MOST_CIRCUITS):
            circuit = []
            for k in range(width + 1):
                minor = [[arb(v) for v in A[i]] for i in chosen if i != chosen[k]]
                value = arb_mat(minor).det() if minor else arb(1)
                circuit.append(-value if k % 2 else value)
            if _excludes(circuit, [within[i] for i in chosen]):
                return True
    return False


def _components(rows: Matrix) -> list[tuple[list[int], list[int]]]:
    """Rows that share columns, with these columns."""
    left = {k: {j for j, v in enumerate(row) if not _zero(v)} for k, row in enumerate(rows)}
    out = []
    while left:
        first = min(left)
        part, columns = [first], left.pop(first)
        while True:
            more = [k for k, own in left.items() if own & columns]
            if not more:
                break
            for k in more:
                part.append(k)
                columns = columns | left.pop(k)
        out.append((sorted(part), sorted(columns)))
    return out


def _zero(value: Any) -> bool:
    return bool(value == 0) if isinstance(value, fmpq) else bool(value.is_zero())


def _independent(rows: Matrix) -> Matrix:
    """Columns that carry the rank, of rational matrices; of balls all columns."""
    if not rows or not rows[0] or not all(isinstance(v, fmpq) for row in rows for v in row):
        return rows
    _, pivots = algebra.reduced(rows)
    return [[row[j] for j in pivots] for row in rows]


def _excludes(circuit: list[Any], bands: list[Band]) -> bool:
    """Whether 0 lies outside of the sum of c_i [lo_i, hi_i]."""
    low: End = arb(0)
    high: End = arb(0)
    for c, (lo, hi) in zip(circuit, bands, strict=True):
        if c.is_zero():
            continue
        if not (c > 0 or c < 0):
            return False
        first, second = (lo, hi) if c > 0 else (hi, lo)
        low = None if low is None or first is None else low + c * first
        high = None if high is None or second is None else high + c * second
    return bool((low is not None and low > 0) or (high is not None and high < 0))


# Linear and ReLU networks.


def _pieces(asked: Question, bands: list[list[Band]]) -> str | None:
    """Every pattern contradicts its bands: by circuits, by Fourier and Motzkin, or in one variable."""
    pieces = Pieces(asked)
    ways = [list(pieces.outputs(s)) for s in range(len(asked.samples))]
    if all(len(found) == 1 for found in ways):
        flat = [p for ((outputs, _),) in ways for p in outputs]
        if all(p.total_degree() <= 1 for p in flat):
            rows = [pieces.row(p) for p in flat]
            ends = [band for row in bands for band in row]
            moved = [
                tuple(None if end is None else end - row[-1] for end in band)
                for row, band in zip(rows, ends, strict=True)
            ]
            held = no_solution([row[:-1] for row in rows], moved)
            return "no solution of a linear system" if held else None
    held = _explore(pieces, ways, bands, 0, [])
    return "every pattern contradicts itself" if held else None


def _explore(
    pieces: Pieces, ways: list[Any], bands: list[list[Band]], s: int, held: list[Any]
) -> bool:
    if s == len(ways):
        return False  # the last sample was looked at, and nothing contradicts
    for outputs, signs in ways[s]:
        pieces.branches += 1
        if pieces.branches > MOST_BRANCHES:
            raise TooLargeError
        now = held + signs
        for p, (lo, hi) in zip(outputs, bands[s], strict=True):
            if lo is not None:
                now.append(p - pieces.ring.constant(_outward(lo, -1)))
            if hi is not None:
                now.append(pieces.ring.constant(_outward(hi, 1)) - p)
        if _impossible(pieces, now):
            continue
        if not _explore(pieces, ways, bands, s + 1, now):
            return False
    return True


def _outward(value: Any, sign: int) -> Any:
    """A rational just outside of a ball."""
    top, power = arb(value.upper() if sign > 0 else value.lower()).mid().man_exp()
    return fmpq(int(top)) * fmpq(2) ** int(power) + sign * fmpq(1, 2**300)


def _impossible(pieces: Pieces, conditions: list[Any]) -> bool:
    """Whether not all of the polynomials can be >= 0 at once."""
    if any(p.is_constant() and not p.is_zero() and p.leading_coefficient() < 0 for p in conditions):
        return True
    affine = [p for p in conditions if p.total_degree() <= 1]
    if affine and not algebra.feasible([], [pieces.row(p) for p in affine]):
        return True
    if len(affine) == len(conditions) or pieces.size > 1:
        return False
    return not _one_variable(conditions)


def _one_variable(conditions: list[Any]) -> bool:
    """Whether some x may have all polynomials >= 0: at 0, or where one of them is 0."""
    dense = []
    for p in conditions:
        row = [fmpq(0)] * (p.degrees()[0] + 1)
        for powers, value in p.to_dict().items():
            row[powers[0]] = value
        dense.append(row)
    points = [arb(0)]
    for row in dense:
        if len(row) > 1:
            roots = fmpq_poly(row).complex_roots()
            points += [root.real for root, _ in roots if root.imag.contains(0)]
    return any(not any(_value(row, x) < 0 for row in dense) for x in points)


def _value(row: list[Any], x: Any) -> Any:
    total = arb(0)
    for coefficient in reversed(row):
        total = total * x + coefficient
    return total


# Curved networks: the last layer, or one unit before it.


def _curved(asked: Question, bands: list[list[Band]], eps: Any) -> str | None:
    chain, last = asked.chain, asked.chain.links[-1]
    names = {label[0] for label in asked.labels}
    held = {name: balls(value) for name, value in asked.weights.items()}
    if names <= {last.matrix, last.bias}:
        features, ends = [], []
        d = len(held[last.matrix])
        for x, row in zip(asked.samples, bands, strict=True):
            if last_is_rate(asked):
                states = rate_states(chain, held, balls(x))[1:]
                features += states[-(len(row) // d) :]
            else:
                features.append(state_before(chain, held, balls(x)))
            ends += [row[k : k + d] for k in range(0, len(row), d)]
        rows, moved = _readout(asked, held, features, ends)
        return "no solution for the last layer" if no_solution(rows, moved) else None
    if names & {last.matrix, last.bias, "h0"}:
        return None
    if last_is_rate(asked):
        if chain.start is None:
            wide = out_of_range(asked, _middle(asked), eps)
            if wide.kind == "refuted":
                return wide.why
        short = last_step(asked) if len(bands[0]) == len(held["D"]) else None
        if not isinstance(short, Question):
            return None
        shifted = [
            [
                tuple(None if end is None else end + (new - old) for end in band)
                for band, new, old in zip(row, goal, arb_row, strict=True)
            ]
            for row, goal, arb_row in zip(bands, short.wanted, _middle(asked), strict=True)
        ]
        asked, bands = short, shifted
    elif all(lo is not None and hi is not None for row in bands for lo, hi in row):
        middle = [[(lo + hi) / 2 for lo, hi in row] for row in bands]
        half = max(float((hi - lo).upper()) / 2 for row in bands for lo, hi in row)
        wide = out_of_range(asked, middle, arb(half) * (1 + arb(2) ** -40))
        if wide.kind == "refuted":
            return wide.why
    return _one_unit(asked, bands)


def last_is_rate(asked: Question) -> bool:
    """Whether the chain is a rate network's."""
    return any(link.drive is not None for link in asked.chain.links)


def _middle(asked: Question) -> list[Vector]:
    return [[arb(v) for v in vector] for vector in asked.wanted]


def _readout(
    asked: Question, held: dict[str, Matrix], features: list[Vector], ends: list[list[Band]]
) -> tuple[Matrix, list[Band]]:
    """The rows and bands of the equations for the last layer."""
    last = asked.chain.links[-1]
    rows, moved = [], []
    for f, row in zip(features, ends, strict=True):
        for o, band in enumerate(row):
            coefficients, constant = [], arb(0)
            for name, i, j in asked.labels:
                entry = f[j] if name == last.matrix else arb(1)
                coefficients.append(entry if i == o else arb(0))
            for j, weight in enumerate(held[last.matrix][o]):
                if (last.matrix, o, j) not in asked.labels:
                    constant = constant + weight * f[j]
            if last.bias is not None and (last.bias, o, 0) not in asked.labels:
                constant = constant + held[last.bias][o][0]
            rows.append(coefficients)
            moved.append(tuple(None if end is None else end - constant for end in band))
    return rows, moved


def _one_unit(asked: Question, bands: list[list[Band]]) -> str | None:
    """Learnable weights of one unit before the frozen last layer: its states lie in bands of their own."""
    chain = asked.chain
    last, link = chain.links[-1], chain.links[-2]
    inside = {link.matrix, link.bias}
    uses = [name for one in chain.links for name in (one.matrix, one.encoder, one.bias)]
    names = {label[0] for label in asked.labels}
    units = {i for _, i, _ in asked.labels}
    if len(units) != 1 or not names <= inside or any(uses.count(name) != 1 for name in names):
        return None
    (unit,) = units
    held = {name: balls(value) for name, value in asked.weights.items()}
    V, rows, ends = asked.weights[last.matrix], [], []
    for x, row in zip(asked.samples, bands, strict=True):
        if len(chain.links) > 2:
            if link.encoder is not None:
                return None
            f = state_before(chain, held, balls(x), len(chain.links) - 1)
        else:
            f = balls(x)[0]
            if link.encoder is not None:
                f = [
                    sum((a * b for a, b in zip(r, f, strict=True)), arb(0))
                    for r in held[link.encoder]
                ]
        z = [
            sum((a * b for a, b in zip(r, f, strict=True)), arb(0))
            + (held[link.bias][i][0] if link.bias is not None else 0)
            for i, r in enumerate(held[link.matrix])
        ]
        coefficients = [f[j] if name == link.matrix else arb(1) for name, _, j in asked.labels]
        own = [
            held[name][i][j] * c for (name, i, j), c in zip(asked.labels, coefficients, strict=True)
        ]
        fixed = z[unit] - sum(own, arb(0))
        for o, (lo, hi) in enumerate(row):
            rest = held[last.bias][o][0] if last.bias is not None else arb(0)
            for i, value in enumerate(z):
                if i != unit:
                    rest = rest + held[last.matrix][o][i] * ball_phi(link.phi, value)
            weight = V[o][unit]
            if weight == 0:
                if (lo is not None and rest < lo) or (hi is not None and rest > hi):
                    return "a frozen output misses its target"
                continue
            ends_h = [None if end is None else (end - rest) / arb(weight) for end in (lo, hi)]
            low, high = ends_h if weight > 0 else ends_h[::-1]
            least, most = (-1, 1) if link.phi == "tanh" else (0, 1)
            if (low is not None and low >= most) or (high is not None and high <= least):
                return "a hidden state would lie outside its range"
            sides = [None if end is None else _end(link.phi, end) for end in (low, high)]
            rows.append(coefficients)
            ends.append(tuple(None if end is None else end - fixed for end in sides))
    return "no weights of the one unit" if no_solution(rows, ends) else None
