"""Whether an instance has a real solution, found without the package.

A definite answer is a proof in rational numbers or balls, or rests on msolve (see
:func:`adversary.algebra.real_roots` for its chance of error). Everything else is None, "not known":
facts that hold for almost every instance are never used on one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from random import Random
from typing import Any

import numpy as np
from flint import arb, ctx, fmpq, fmpq_mpoly_ctx
from scipy.optimize import linprog

import sublearn as sl
from adversary import algebra
from adversary.algebra import TooLargeError
from adversary.network import (
    CURVED,
    Label,
    Layout,
    Link,
    Matrix,
    Vector,
    after,
    ball_phi,
    balls,
    before,
    begin,
    by,
    forward,
    layout,
    rational,
    rational_phi,
    samples_of,
)

BITS = 500
MOST_BRANCHES = 1500  # patterns of ReLU units that are looked at
MOST_SYSTEMS = 24  # systems that are not affine, each a call of msolve
SLICES = 6
MARGIN = 1e-6  # of a linear program in float64, a billion times its rounding


@dataclass(frozen=True)
class Truth:
    """ "matched", "refuted" or None, and why."""

    kind: str | None
    why: str


@dataclass(frozen=True)
class Question:
    """The exact numbers of an instance. ``wanted[s][o]``: rationals, or balls where they are none."""

    chain: Layout
    weights: dict[str, Matrix]
    labels: tuple[Label, ...]
    samples: list[list[Vector]]
    wanted: list[Vector]


def exact_inputs(instance: sl.Instance) -> Matrix:
    """The inputs as rationals, (features x m): the product of their factors where they are one."""
    factors = instance.input_factors
    if factors is None:
        inputs = np.asarray(instance.inputs)
        return rational(inputs.reshape(-1, inputs.shape[-1]))
    left, right = (rational(part) for part in factors)
    columns = list(zip(*right, strict=True))
    return [
        [sum((a * b for a, b in zip(row, column, strict=True)), fmpq(0)) for column in columns]
        for row in left
    ]


def is_curved(chain: Layout) -> bool:
    """Whether a hidden activation leaves the rationals."""
    return any(link.phi in CURVED for link in chain.links[:-1])


def _pre_outputs(
    chain: Layout, weights: dict[str, Matrix], samples: list[list[Vector]]
) -> list[Vector]:
    if is_curved(chain):
        held = {name: balls(value) for name, value in weights.items()}
        return [forward(chain, held, balls(x), ball_phi) for x in samples]
    return [forward(chain, weights, x, rational_phi) for x in samples]


def truth(instance: sl.Instance) -> Truth:
    """Whether the instance has a real solution, where that can be found out here."""
    old = ctx.prec
    ctx.prec = BITS
    try:
        return _truth(instance)
    except TooLargeError:
        return Truth(None, "too large")
    finally:
        ctx.prec = old


def read(instance: sl.Instance) -> tuple[Question, str]:
    """The exact numbers of an instance, what the teacher puts into its last activation, and which that is."""
    chain = layout(instance.network)
    weights = {name: rational(instance.weights[name]) for name, _, _ in chain.shapes}
    labels = tuple((str(n), int(i), int(j)) for n, i, j in instance.allocation.labels())
    _check_missing(chain, weights, labels)
    inputs, teacher = exact_inputs(instance), instance.teacher
    samples = samples_of(chain, inputs)
    if teacher is None:
        given = rational(instance.targets)
        pre, phi = [list(column) for column in zip(*given, strict=True)], "linear"
    else:
        theirs = layout(teacher.network)
        own = {name: rational(teacher.weights[name]) for name, _, _ in theirs.shapes}
        _check_missing(theirs, own, ())
        pre, phi = _pre_outputs(theirs, own, samples_of(theirs, inputs)), theirs.links[-1].phi
    return Question(chain, weights, labels, samples, pre), phi


def _truth(instance: sl.Instance) -> Truth:
    asked, phi = read(instance)
    teacher = instance.teacher
    if teacher is not None and layout(teacher.network) == asked.chain:
        own = {name: rational(teacher.weights[name]) for name in asked.weights}
        if _equal_but(asked.weights, own, asked.labels):
            return Truth("matched", "the teacher's own weights")
    short = _without_output(asked, phi)
    if isinstance(short, Truth):
        return short
    short = _without_doubles(short)
    if isinstance(short, Truth):
        return short
    if is_curved(short.chain):
        return _curved(short)
    return Pieces(short).answer()


def _check_missing(chain: Layout, weights: dict[str, Matrix], free: Sequence[Label]) -> None:
    """What does not exist is 0 and not learnable."""
    assert not chain.missing & set(free), "a weight that does not exist is learnable"
    assert not any(weights[n][i][j] != 0 for n, i, j in chain.missing), "a missing weight is not 0"


def _equal_but(ours: dict[str, Matrix], theirs: dict[str, Matrix], free: Sequence[Label]) -> bool:
    skipped = set(free)
    return all(
        a == b or (name, i, j) in skipped
        for name in ours
        for i, (row, other) in enumerate(zip(ours[name], theirs[name], strict=True))
        for j, (a, b) in enumerate(zip(row, other, strict=True))
    )


def _exact(value: Any) -> bool:
    return isinstance(value, fmpq)


def _without_output(asked: Question, theirs: str) -> Question | Truth:
    """The question about the last pre-activations, where the last activation can be inverted."""
    ours = asked.chain.links[-1].phi
    if ours in CURVED and ours == theirs:
        wanted = asked.wanted
    else:
        values = bent(theirs, asked.wanted)
        if ours not in CURVED:
            return replace(asked, wanted=values)
        wanted = []
        for vector in values:
            inverted = [inverse(ours, v) for v in vector]
            if any(v is None for v in inverted):
                return Truth("refuted", f"a target lies outside the range of {ours}")
            if any(not v.is_finite() for v in inverted if not _exact(v)):
                return Truth(None, f"a target is too near to the edge of {ours}")
            wanted.append(inverted)
    links = (*asked.chain.links[:-1], replace(asked.chain.links[-1], phi="linear"))
    return replace(asked, wanted=wanted, chain=replace(asked.chain, links=links))


def bent(phi: str, vectors: list[Vector]) -> list[Vector]:
    """phi of rationals, as rationals where it leaves them so, and of balls."""
    out = []
    for vector in vectors:
        exact = phi not in CURVED and all(map(_exact, vector))
        out.append([rational_phi(phi, v) if exact else ball_phi(phi, arb(v)) for v in vector])
    return out


def inverse(phi: str, value: Any) -> Any:
    """The preimage; None where there certainly is none, not finite where that is open."""
    low, high, middle = (-1, 1, 0) if phi == "tanh" else (0, 1, fmpq(1, 2))
    if value <= low or value >= high:
        return None
    if _exact(value):
        if value == middle:
            return fmpq(0)
        value = arb(value)
    if phi == "tanh":
        return value.atanh()
    return (value / (1 - value)).log()


def _without_doubles(asked: Question) -> Question | Truth:
    """Samples with equal inputs get equal outputs, whatever the weights."""
    first: dict[str, int] = {}
    kept: list[int] = []
    for s, x in enumerate(asked.samples):
        at = first.setdefault(repr(x), s)
        if at == s:
            kept.append(s)
        elif any(not _same(a, b) for a, b in zip(asked.wanted[at], asked.wanted[s], strict=True)):
            return Truth("refuted", f"samples {at} and {s} are equal, their targets are not")
    return replace(
        asked,
        samples=[asked.samples[s] for s in kept],
        wanted=[asked.wanted[s] for s in kept],
    )


def _same(a: Any, b: Any) -> bool:
    return bool(a == b) if _exact(a) and _exact(b) else not bool(a - b != 0)


# Linear and ReLU networks: patterns of firing units, a polynomial system for each.


class Pieces:
    """All patterns of the units that depend on learnable weights, sample by sample."""

    def __init__(self, asked: Question) -> None:
        self.asked = asked
        self.size = len(asked.labels)
        self.ring = fmpq_mpoly_ctx.get([f"x{k}" for k in range(self.size)], "degrevlex")
        place = {label: k for k, label in enumerate(asked.labels)}
        gens = self.ring.gens()
        self.weights = {
            name: [
                [
                    gens[place[name, i, j]] if (name, i, j) in place else self.ring.constant(v)
                    for j, v in enumerate(row)
                ]
                for i, row in enumerate(value)
            ]
            for name, value in asked.weights.items()
        }
        self.branches = self.systems = 0
        self.exact = all(_exact(v) for vector in asked.wanted for v in vector)

    def answer(self) -> Truth:
        if not self.exact:
            return Truth(self._open(0, [], []), "linear systems with rounded right-hand sides")
        kind = self._explore(0, [], [])
        how = f"{self.branches} patterns" if self.branches > 1 else "one system"
        return Truth(kind, how + (f", {self.systems} by msolve" if self.systems else ""))

    def outputs(self, s: int) -> Iterator[tuple[list[Any], list[Any]]]:
        """Outputs of a sample, with what is >= 0 where they hold, for every pattern of its units."""
        chain, x = self.asked.chain, self.asked.samples[s]
        constant = [[self.ring.constant(v) for v in block] for block in x]

        def steps(
            at: int, state: list[Any] | None, read: list[Any], signs: list[Any]
        ) -> Iterator[tuple[list[Any], list[Any]]]:
            link = chain.links[at]
            z = before(link, self.weights, state, constant)
            last = at + 1 == len(chain.links)
            ways = [(z, [])] if link.phi == "linear" else _gated(z, self.ring.constant(0))
            for values, more in ways:
                if last:
                    yield read + values, signs + more
                elif link.aside:
                    yield from steps(at + 1, state, read + values, signs)
                else:
                    yield from steps(at + 1, after(link, state, values), read, signs + more)

        yield from steps(0, begin(chain, self.weights), [], [])

    def _explore(self, s: int, equations: list[Any], signs: list[Any]) -> str | None:
        if s == len(self.asked.samples):
            return self._solve(equations, signs)
        result: str | None = "refuted"
        for outputs, more in self.outputs(s):
            self.branches += 1
            if self.branches > MOST_BRANCHES:
                raise TooLargeError
            differences = [
                y - self.ring.constant(t)
                for y, t in zip(outputs, self.asked.wanted[s], strict=True)
            ]
            if any(p.is_constant() and not p.is_zero() for p in differences):
                continue
            now = equations + [p for p in differences if not p.is_zero()]
            held = signs + more
            if (
                s + 1 < len(self.asked.samples)
                and all(p.total_degree() <= 1 for p in now + held)
                and not self._feasible(now, held)
            ):
                continue
            found = self._explore(s + 1, now, held)
            if found == "matched":
                return found
            if found is None:
                result = None
        return result

    def _feasible(self, equations: list[Any], signs: list[Any]) -> bool:
        return algebra.feasible([self.row(p) for p in equations], [self.row(p) for p in signs])

    def row(self, polynomial: Any) -> list[Any]:
        row = [fmpq(0)] * (self.size + 1)
        for powers, value in polynomial.to_dict().items():
            row[next((k for k, e in enumerate(powers) if e), self.size)] = value
        return row

    def _solve(self, equations: list[Any], signs: list[Any]) -> str | None:
        if all(p.total_degree() <= 1 for p in equations + signs):
            return "matched" if self._feasible(equations, signs) else "refuted"
        linear = [p for p in equations if p.total_degree() <= 1]
        if linear and not self._feasible(linear, []):
            return "refuted"
        used = sorted({k for p in equations for k, e in enumerate(p.degrees()) if e})
        if not used:  # only signs are left, and they are not affine
            return None
        if len(used) == 1 and not signs:
            k = used[0]
            dense = []
            for p in equations:
                row = [fmpq(0)] * (p.degrees()[k] + 1)
                for powers, value in p.to_dict().items():
                    row[powers[k]] = value
                dense.append(row)
            return "matched" if algebra.count_real_roots(dense) else "refuted"
        return self._slice(equations, signs, used)

    def _slice(self, equations: list[Any], signs: list[Any], used: list[int]) -> str | None:
        """Real roots; where there are infinitely many, of random slices, which can only match."""
        found = self._roots(equations, signs, used)
        if found != "infinite":
            return found
        rng = Random(1)
        least = max(1, len(used) - len(equations))
        for attempt in range(SLICES):
            fixed = rng.sample(used, min(len(used) - 1, least + attempt // 3))
            values = {f"x{k}": fmpq(rng.randrange(-64, 65), 32) for k in fixed}
            sliced = [p.subs(values) for p in equations]
            if any(p.is_constant() and not p.is_zero() for p in sliced):
                continue
            sliced = [p for p in sliced if not p.is_zero()]
            held = [p.subs(values) for p in signs]
            rest = [k for k in used if k not in fixed]
            if self._roots(sliced, held, rest) == "matched":
                return "matched"
        return None

    def _roots(self, equations: list[Any], signs: list[Any], used: list[int]) -> str | None:
        self.systems += 1
        if self.systems > MOST_SYSTEMS:
            raise TooLargeError
        occurring = sorted({k for p in equations for k, e in enumerate(p.degrees()) if e})
        if occurring != used:
            return "infinite"
        ring = fmpq_mpoly_ctx.get([f"x{k}" for k in range(len(used))], "degrevlex")

        def small(p: Any) -> Any:
            content = {tuple(powers[k] for k in used): v for powers, v in p.to_dict().items()}
            return ring.from_dict(content)

        boxes = algebra.real_roots([small(p) for p in equations], len(used))
        if boxes is None:
            return "infinite"
        other = [p for p in signs if any(e for k, e in enumerate(p.degrees()) if k not in used)]
        if other:
            return None if boxes else "refuted"
        result: str | None = "refuted"
        for box in boxes:
            values = [algebra.value_on(small(p), box) for p in signs]
            if all(v > 0 for v in values):
                return "matched"
            if not any(v < 0 for v in values):
                result = None
        return result

    # Targets that are only known as balls: refuted if every pattern contradicts itself.

    def _open(self, s: int, equations: list[tuple[Any, Any]], signs: list[Any]) -> str | None:
        if s == len(self.asked.samples):
            return self._contradiction(equations, bool(signs))
        result: str | None = "refuted"
        for outputs, more in self.outputs(s):
            self.branches += 1
            if self.branches > MOST_BRANCHES:
                raise TooLargeError
            now = [*equations, *zip(outputs, self.asked.wanted[s], strict=True)]
            found = self._open(s + 1, now, signs + more)
            if found == "matched":
                return found
            if found is None:
                result = None
        return result

    def _contradiction(self, equations: list[tuple[Any, Any]], signs: bool) -> str | None:
        if any(p.total_degree() > 1 for p, _ in equations):
            return None
        rows = [self.row(p) for p, _ in equations]
        matrix = [row[:-1] for row in rows]
        right = [arb(t) - arb(row[-1]) for row, (_, t) in zip(rows, equations, strict=True)]
        null = algebra.left_null(matrix)
        if not null:
            return None if signs else "matched"
        for vector in null:
            if sum((arb(a) * b for a, b in zip(vector, right, strict=True)), arb(0)) != 0:
                return "refuted"
        return None


def _gated(z: list[Any], zero: Any) -> Iterator[tuple[list[Any], list[Any]]]:
    """Every way in which units with these pre-activations can fire: values, and what must be >= 0."""
    if not z:
        yield [], []
        return
    first = z[0]
    if first.is_constant():
        on = first.is_zero() or first.leading_coefficient() > 0
        ways = [(first if on else zero, [])]
    else:
        ways = [(first, [first]), (zero, [-first])]
    for values, more in _gated(z[1:], zero):
        for value, signs in ways:
            yield [value, *values], signs + more


# Curved networks: linear systems behind or before the last activation, in balls.


def _curved(asked: Question) -> Truth:
    if any(link.drive for link in asked.chain.links):
        return _curved_rate(asked)
    chain, last = asked.chain, asked.chain.links[-1]
    held = {name: balls(value) for name, value in asked.weights.items()}
    samples = [balls(x) for x in asked.samples]
    names = {label[0] for label in asked.labels}
    wanted = [[arb(v) for v in vector] for vector in asked.wanted]
    if last.phi != "linear":
        return Truth(None, "a last activation that cannot be inverted")
    if names <= {last.matrix, last.bias}:
        features = [state_before(chain, held, x) for x in samples]
        kind = _by_units(asked, last, held, features, wanted)
        return Truth(kind, "linear in the last layer")
    if names & {last.matrix, last.bias}:
        return Truth(None, "curved, and two layers learn")
    penultimate = chain.links[-2]
    uses = [name for link in chain.links for name in (link.matrix, link.encoder, link.bias)]
    inside = {penultimate.matrix, penultimate.bias, penultimate.encoder}
    if names <= inside and all(uses.count(name) == 1 for name in names):
        found = _before_last(asked, held, samples, wanted)
        if found.kind is not None:
            return found
    return out_of_range(asked, wanted)


def rate_states(
    chain: Layout, held: dict[str, Matrix], x: list[Vector], until: int | None = None
) -> list[Vector | None]:
    """The states of a rate network in balls, from the first on: T + 1 of them, None for 0."""
    out = [begin(chain, held)]
    steps = [link for link in chain.links if link.drive is not None]
    for link in steps[:until]:
        z = before(link, held, out[-1], x)
        out.append(after(link, out[-1], [ball_phi(link.phi, v) for v in z]))
    return out


def _curved_rate(asked: Question) -> Truth:
    """Linear in the readout, or the last step as a layer of its own."""
    chain, last = asked.chain, asked.chain.links[-1]
    names = {label[0] for label in asked.labels}
    held = {name: balls(value) for name, value in asked.weights.items()}
    if names <= {"D", "c"}:
        d = len(held["D"])
        features, wanted = [], []
        for x, vector in zip(asked.samples, asked.wanted, strict=True):
            states = rate_states(chain, held, balls(x))[1:]
            read = len(vector) // d
            features += states[-read:]
            wanted += [[arb(v) for v in vector[k * d : (k + 1) * d]] for k in range(read)]
        return Truth(_by_units(asked, last, held, features, wanted), "linear in the readout")
    short = last_step(asked)
    if short is None:
        if names & {"D", "c", "h0"} or chain.start:
            return Truth(None, "curved")
        return out_of_range(asked, [[arb(v) for v in vector] for vector in asked.wanted])
    return short if isinstance(short, Truth) else _curved(short)


def last_step(asked: Question) -> Question | Truth | None:
    """The last step of a rate network as a layer A = (W | Win) with inputs (h, x), where only it learns.

    phi(A (h, x) + b) is what D / a must bring to (y - (1 - a) D h), and all that was read out before is
    frozen. None where other steps change too.
    """
    chain = asked.chain
    steps = [link for link in chain.links if link.drive is not None]
    names = {label[0] for label in asked.labels}
    applied = len(steps) - (chain.start is None)
    once = {"W"} if applied == 1 else set()
    if len(steps) == 1:
        once |= {"Win", "b"}
    if not names <= once:
        return None
    link, last = steps[-1], chain.links[-1]
    held = {name: balls(value) for name, value in asked.weights.items()}
    d = len(held["D"])
    samples, wanted = [], []
    for x, vector in zip(asked.samples, asked.wanted, strict=True):
        states = rate_states(chain, held, balls(x), len(steps) - 1)
        for k, state in enumerate(states[1:]):
            if len(vector) > d:
                y = before(last, held, state, [])
                if any(v - w != 0 for v, w in zip(y, vector[k * d : (k + 1) * d], strict=True)):
                    return Truth("refuted", "a frozen step is read out, and misses its target")
        state, goal = states[-1], [arb(v) for v in vector[-d:]]
        if state is not None:
            stays = [by(1.0 - link.leak, v) for v in state]
            goal = [v - w for v, w in zip(goal, _times(held["D"], stays), strict=True)]
        samples.append([[*(state or []), *map(arb, x[-1])]])
        wanted.append(goal)
    sure = len(asked.wanted[0]) == d or len(steps) == 1
    W, width = asked.weights["W"], 0 if applied == 0 else len(asked.weights["W"])
    joined = [
        [*(row if applied else []), *more]
        for row, more in zip(W, asked.weights["Win"], strict=True)
    ]
    weights = {"A": joined, "D": [[by(link.leak, v) for v in row] for row in asked.weights["D"]]}
    weights |= {name: asked.weights[name] for name in ("b", "c") if name in asked.weights}
    moved = {"W": ("A", 0), "Win": ("A", width), "b": ("b", 0)}
    labels = tuple(
        (moved[n][0], i, j + moved[n][1])
        for n, i, j in asked.labels
        if n != "W" or applied  # W is applied to 0: it changes nothing
    )
    links = (Link("A", link.phi, 0, None, link.bias), Link("D", "linear", None, None, last.bias))
    shapes = tuple((name, len(value), len(value[0])) for name, value in weights.items())
    short = Question(Layout(links, shapes, (len(joined[0]),)), weights, labels, samples, wanted)
    if sure:
        return short
    # What was read out before agrees as far as balls can tell: no proof of a match.
    found = _curved(short)
    return found if found.kind == "refuted" else Truth(None, "a frozen step is read out")


def state_before(
    chain: Layout, held: dict[str, Matrix], x: list[Vector], links: int | None = None
) -> Vector:
    """What enters the link number ``links``, bias not counted."""
    count = len(chain.links) if links is None else links
    z = forward(chain, held, x, ball_phi, count - 1)
    return [ball_phi(chain.links[count - 2].phi, v) for v in z]


def _by_units(
    asked: Question,
    link: Any,
    held: dict[str, Matrix],
    features: list[Vector],
    wanted: list[Vector],
) -> str | None:
    """Each unit of a link has its own linear system; ``wanted[s][unit]``, None where it is free."""
    result: str | None = "matched"
    for unit in range(len(wanted[0])):
        columns: list[Vector] = []
        constants = [arb(0) for _ in features]
        for j, _ in enumerate(held[link.matrix][unit]):
            column = [f[j] for f in features]
            if (link.matrix, unit, j) in asked.labels:
                columns.append(column)
            else:
                weight = held[link.matrix][unit][j]
                constants = [c + weight * v for c, v in zip(constants, column, strict=True)]
        if link.bias is not None:
            if (link.bias, unit, 0) in asked.labels:
                columns.append([arb(1) for _ in features])
            else:
                constants = [c + held[link.bias][unit][0] for c in constants]
        right = [w[unit] - c for w, c in zip(wanted, constants, strict=True)]
        kind = _linear(columns, right)
        if kind == "refuted":
            return "refuted"
        if kind is None:
            result = None
    return result


def _linear(columns: list[Vector], right: Vector) -> str | None:
    columns = [c for c in columns if not all(v == 0 for v in c)]
    size = len(right)
    if len(columns) >= size and algebra.rank_at_least(columns) == size:
        return "matched"
    if not columns:
        if any(v != 0 for v in right):
            return "refuted"
        return None
    if len(columns) < size and algebra.rank_at_least([*columns, right]) == len(columns) + 1:
        return "refuted"
    return None


def _before_last(
    asked: Question, held: dict[str, Matrix], samples: list[list[Vector]], wanted: list[Vector]
) -> Truth:
    """Learnable weights of the last hidden layer, behind a frozen last matrix V: V h = wanted."""
    chain = asked.chain
    last, link = chain.links[-1], chain.links[-2]
    units = len(asked.weights[link.matrix])
    by_encoder = any(name == link.encoder for name, _, _ in asked.labels)
    moving = list(range(units)) if by_encoder else sorted({i for _, i, _ in asked.labels})
    count = len(chain.links)
    V = asked.weights[last.matrix]
    entering = None
    if link.block is None or count > 2:
        if link.encoder is not None:  # recurrent with T > 1: the weights would be used twice
            return Truth(None, "recurrent")
        entering = [state_before(chain, held, x, count - 1) for x in samples]
    else:
        entering = [
            x[0] if link.encoder is None else _times(held[link.encoder], x[0]) for x in samples
        ]
    left = []
    for features, vector in zip(entering, wanted, strict=True):
        z = [
            sum((a * b for a, b in zip(row, features, strict=True)), arb(0))
            + (held[link.bias][i][0] if link.bias is not None else 0)
            for i, row in enumerate(held[link.matrix])
        ]
        rest = []
        for o, value in enumerate(vector):
            for i in range(units):
                if i not in moving:
                    value = value - arb(V[o][i]) * ball_phi(link.phi, z[i])
            if last.bias is not None:
                value = value - held[last.bias][o][0]
            rest.append(value)
        left.append(rest)
    part = [[V[o][i] for i in moving] for o in range(len(V))]
    independent = algebra.rank(part)
    if independent == len(moving):
        return _unique(asked, held, link, moving, part, left, entering, by_encoder, samples)
    free = not by_encoder and all(
        _linear(_columns(asked, link, i, entering), [arb(0) for _ in entering]) == "matched"
        for i in moving
    )
    return _box(link.phi, part, left, free)


def _times(matrix: Matrix, vector: Vector) -> Vector:
    return [sum((a * b for a, b in zip(row, vector, strict=True)), arb(0)) for row in matrix]


def _columns(asked: Question, link: Any, unit: int, entering: list[Vector]) -> list[Vector]:
    out = [
        [f[j] for f in entering] for name, i, j in asked.labels if (name, i) == (link.matrix, unit)
    ]
    if link.bias is not None and (link.bias, unit, 0) in asked.labels:
        out.append([arb(1) for _ in entering])
    return out


def _unique(
    asked: Question,
    held: dict[str, Matrix],
    link: Any,
    moving: list[int],
    part: Matrix,
    left: list[Vector],
    entering: list[Vector],
    by_encoder: bool,
    samples: list[list[Vector]],
) -> Truth:
    """V has independent columns, so that the hidden states are known: invert and solve."""
    rows = next(
        c
        for c in combinations(range(len(part)), len(moving))
        if algebra.rank([part[o] for o in c]) == len(c)
    )
    square = [[*part[o], *(fmpq(int(k == o)) for k in rows)] for o in rows]
    solved = [row[len(moving) :] for row in algebra.reduced(square)[0]]
    sure = len(rows) == len(part)
    wanted: list[Vector] = []
    for vector in left:
        states = [
            sum((arb(a) * vector[o] for a, o in zip(row, rows, strict=True)), arb(0))
            for row in solved
        ]
        for o in range(len(part)):
            back = sum((arb(a) * h for a, h in zip(part[o], states, strict=True)), arb(0))
            if o not in rows and back - vector[o] != 0:
                return Truth("refuted", "the outputs determine the hidden states and contradict")
        before_phi = [inverse(link.phi, h) for h in states]
        if any(v is None for v in before_phi):
            return Truth("refuted", "a hidden state would lie outside its range")
        if any(not (_exact(v) or v.is_finite()) for v in before_phi):
            return Truth(None, "a hidden state is too near to the edge")
        wanted.append([arb(v) for v in before_phi])
    if by_encoder:
        if any(name != link.encoder for name, _, _ in asked.labels):
            return Truth(None, "encoder and matrix learn")
        kind = _through_encoder(asked, held, link, samples, wanted)
    else:
        kind = "matched"
        for place, unit in enumerate(moving):
            constants = [arb(0) for _ in entering]
            for j, weight in enumerate(held[link.matrix][unit]):
                if (link.matrix, unit, j) not in asked.labels:
                    constants = [
                        c + weight * f[j] for c, f in zip(constants, entering, strict=True)
                    ]
            if link.bias is not None and (link.bias, unit, 0) not in asked.labels:
                constants = [c + held[link.bias][unit][0] for c in constants]
            right = [w[place] - c for w, c in zip(wanted, constants, strict=True)]
            found = _linear(_columns(asked, link, unit, entering), right)
            if found == "refuted":
                return Truth("refuted", "the hidden states are known, and no row gives them")
            if found is None:
                kind = None
    if not sure:
        kind = kind if kind == "refuted" else None
    return Truth(kind, "the hidden states are known")


def _through_encoder(
    asked: Question,
    held: dict[str, Matrix],
    link: Any,
    samples: list[list[Vector]],
    wanted: list[Vector],
) -> str | None:
    columns = [
        [row[i] * x[0][j] for x in samples for row in held[link.matrix]] for _, i, j in asked.labels
    ]
    right = []
    for x, vector in zip(samples, wanted, strict=True):
        frozen = [
            [0 * v if (link.encoder, i, j) in asked.labels else v for j, v in enumerate(row)]
            for i, row in enumerate(held[link.encoder])
        ]
        z = _times(held[link.matrix], _times(frozen, x[0]))
        right += [w - v for w, v in zip(vector, z, strict=True)]
    return _linear(columns, right)


def _box(phi: str, part: Matrix, left: list[Vector], free: bool) -> Truth:
    """V h = left with every h inside the range of phi: a linear program for each sample.

    ``free``: the units can take any states, each on its own. Decided only with a wide margin.
    """
    V = np.array([[float(arb(v).mid()) for v in row] for row in part])
    width = V.shape[1]
    centre, half = (0.0, 1.0) if phi == "tanh" else (0.5, 0.5)
    if np.linalg.cond(V) > 1e6:
        return Truth(None, "a last layer that is nearly singular")
    sure = free and algebra.rank(part) == len(part)
    for vector in left:
        y = np.array([float(v.mid()) for v in vector])
        if not np.isfinite(y).all():
            return Truth(None, "not finite")
        # Smallest t with V (centre + half u) = y, |u| <= t.
        ones = np.ones((width, 1))
        found = linprog(
            np.append(np.zeros(width), 1.0),
            A_ub=np.block([[np.eye(width), -ones], [-np.eye(width), -ones]]),
            b_ub=np.zeros(2 * width),
            A_eq=np.column_stack([half * V, np.zeros(len(y))]),
            b_eq=y - centre * V.sum(axis=1),
            bounds=[(None, None)] * width + [(0, None)],
        )
        if found.status == 0 and found.fun > 1 + MARGIN:
            return Truth("refuted", "no hidden states inside the range give the targets")
        if found.status != 0 or found.fun > 1 - MARGIN:
            sure = False
    return Truth("matched" if sure else None, "hidden states inside the range")


def out_of_range(asked: Question, wanted: list[Vector], room: Any = 0) -> Truth:
    """Whatever enters the frozen last layer, its outputs are bounded: refuted, if farther than ``room``."""
    last, phi = asked.chain.links[-1], asked.chain.links[-2].phi
    V = asked.weights[last.matrix]
    for vector in wanted:
        for place, value in enumerate(vector):
            o = place % len(V)  # the outputs of one step below those of another
            if last.bias is not None:
                value = value - arb(asked.weights[last.bias][o][0])
            high = sum((v for v in V[o] if v > 0), fmpq(0))
            low = sum((v for v in V[o] if v < 0), fmpq(0))
            if phi == "tanh":
                high, low = high - low, low - high
            wide = 1 + fmpq(
                1, 2**40
            )  # leaks: a and the float64 number 1 - a may add up to more than 1
            high, low = wide * high, wide * low
            if value - room > arb(high) or value + room < arb(low):
                return Truth("refuted", "a target lies outside the range of the last layer")
    return Truth(None, "curved")
