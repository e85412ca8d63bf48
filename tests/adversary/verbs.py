"""Attacks on the other verbs: certify, design, repair, certificates and the rate under noise."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from flint import fmpq

import sublearn as sl
from adversary.cells import SPARSE, Cell, ImpossibleError, make, rng_of
from adversary.network import Label, Layout, float_phi, forward, layout
from adversary.truth import truth

P = 2**61 - 1


class Dual:
    """a + b e modulo P, with e e = 0: a value and its derivative."""

    __slots__ = ("a", "b")

    def __init__(self, a: int, b: int = 0) -> None:
        self.a, self.b = a % P, b % P

    def __add__(self, other: Any) -> Dual:
        return Dual(self.a + other.a, self.b + other.b)

    def __mul__(self, other: Any) -> Dual:
        if isinstance(other, int):
            return Dual(self.a * other, self.b * other)
        if isinstance(other, fmpq):
            number = int(other.p) * pow(int(other.q), -1, P)
            return Dual(self.a * number, self.b * number)
        return Dual(self.a * other.a, self.a * other.b + self.b * other.a)

    __rmul__ = __mul__


def residue_point(chain: Layout, samples: int, rank: int | None, rng: np.random.Generator) -> Any:
    """Random weights and inputs modulo P; inputs of a low rank where one is given."""

    def some(h: int, w: int) -> list[list[int]]:
        return [[int(v) for v in row] for row in rng.integers(0, P, (h, w))]

    weights = {name: some(h, w) for name, h, w in chain.shapes}
    for name, i, j in chain.missing:
        weights[name][i][j] = 0
    size = sum(chain.blocks)
    inputs = some(size, samples)
    if rank is not None:
        left, right = some(size, rank), some(rank, samples)
        inputs = [
            [sum(a * right[k][s] for k, a in enumerate(row)) % P for s in range(samples)]
            for row in left
        ]
    return weights, inputs


def derivative(
    chain: Layout, point: Any, label: Label, gates: Sequence[int] | None = None
) -> list[int]:
    """One column of the Jacobian modulo P, by dual numbers, of a linear network or at ``gates``.

    The gates of a ReLU network are 0 and 1, sample by sample in the order in which units are met.
    """
    weights, inputs = point
    name, i, j = label
    dual = {
        key: [
            [Dual(v, int((key, r, c) == (name, i, j))) for c, v in enumerate(row)]
            for r, row in enumerate(value)
        ]
        for key, value in weights.items()
    }
    out = []
    given = None if gates is None else iter(gates)

    def phi(name: str, value: Dual) -> Dual:
        return value if given is None or name == "linear" else value * next(given)

    for s in range(len(inputs[0])):
        cut, at = [], 0
        for size in chain.blocks:
            cut.append([Dual(inputs[k][s]) for k in range(at, at + size)])
            at += size
        out += [v.b for v in forward(chain, dual, cut, phi)]
    return out


def residue_rank(columns: Sequence[Sequence[int]]) -> int:
    """Rank modulo P, by elimination."""
    left = [list(c) for c in columns]
    found = 0
    while left:
        first = left.pop()
        at = next((k for k, v in enumerate(first) if v), None)
        if at is None:
            continue
        found += 1
        scale = pow(first[at], -1, P)
        left = [
            [(v - row[at] * scale * w) % P for v, w in zip(row, first, strict=True)]
            if row[at]
            else row
            for row in left
        ]
    return found


@dataclass(frozen=True)
class Outcome:
    """What one attack found. ``definite``: both sides said something. ``note``: what contradicts."""

    definite: bool
    note: str | None = None
    ours: str = ""
    theirs: str = ""


LINEAR = (
    "estimator linear",
    "linear-rnn linear",
    "layer linear",
    "shallow linear",
    "deep linear",
    "rate linear",
    *(name for name in SPARSE if name.endswith(" linear")),
)


def linear_case(cell: Cell, index: int) -> Any:
    case = make(cell, index)
    assert case.problem is not None
    problem, allocation = case.problem, case.instance.allocation
    rank = 1 if cell.law == "lowrank" else None
    return problem, allocation, layout(problem.network), rank


def certify(cell: Cell, index: int) -> Outcome:
    """Rank, needed and kind of a linear network against derivatives modulo 2^61 - 1.

    A rank modulo P at a random point falls short of the generic one with a chance below 1e-15.
    """
    problem, allocation, chain, low = linear_case(cell, index)
    verdict = sl.certify(problem, allocation)
    m = problem.samples
    labels = [(str(n), int(i), int(j)) for n, i, j in allocation.labels()]
    rng = rng_of("certify", *cell, index)
    point = residue_point(chain, m, low, rng)
    columns = [derivative(chain, point, label) for label in labels]
    rank = residue_rank(columns)
    if isinstance(problem.teacher, sl.Targets):
        needed = chain.outputs * m
    else:
        theirs = layout(problem.teacher or problem.network)
        full = residue_point(theirs, m, low, rng)
        needed = residue_rank([derivative(theirs, full, label) for label in theirs.labels])
    moved = {name: [list(row) for row in value] for name, value in point[0].items()}
    for name, i, j in labels:
        moved[name][i][j] = int(rng.integers(0, P))
    affine = columns == [derivative(chain, (moved, point[1]), label) for label in labels]
    ours = f"rank {rank} needed {needed} affine {affine}"
    theirs_said = f"rank {verdict.rank} needed {verdict.needed} affine {verdict.affine}"
    if ours != theirs_said:
        return Outcome(True, f"{ours}, said {theirs_said}", ours, theirs_said)
    note = None
    dense = verdict.kind != "unknown"
    copies = problem.teacher is None and len(labels) == len(chain.labels)
    if dense and rank < needed and verdict.kind != "minimal" and not copies:
        note = f"{ours}, said {verdict.kind}"
    if rank >= needed and verdict.kind == "minimal":
        note = f"{ours}, said minimal"
    if (
        problem.teacher is None
        and dense
        and affine
        and rank == needed
        and verdict.kind != "maximal"
    ):
        note = f"{ours}, said {verdict.kind}"
    if verdict.wasted != max(0, min(len(labels), needed) - rank):
        note = f"{ours}, said {verdict.wasted} wasted"
    if verdict.surplus != max(0, len(labels) - needed):
        note = f"{ours}, said {verdict.surplus} surplus"
    return Outcome(True, note, ours, verdict.kind)


def verdict(cell: Cell, index: int) -> Outcome:
    """A verdict against a drawn instance whose truth is known: maximal is never refuted, minimal
    never matched, at whatever grade it was said (a set-aside teacher excepted)."""
    case = make(cell, index)
    assert case.problem is not None
    try:
        said = sl.certify(case.problem, case.instance.allocation)
    except sl.BadInputError as error:
        if "are not known with" not in str(error) or not cell.network.startswith("sparse-"):
            raise
        return Outcome(False, None, "", "refused")  # as the page on exact ranks says
    found = truth(case.instance)
    opposite = {"maximal": "refuted", "minimal": "matched"}.get(said.kind)
    if opposite is None or found.kind is None or said.set_aside:
        return Outcome(False, None, str(found.kind), said.kind)
    note = f"{said.kind} ({said.grade}), and {found.kind}" if found.kind == opposite else None
    return Outcome(True, note, str(found.kind), said.kind)


def residue_columns(
    chain: Layout, m: int, low: int | None, rng: np.random.Generator
) -> dict[Label, list[int]]:
    point = residue_point(chain, m, low, rng)
    return {label: derivative(chain, point, label) for label in chain.labels}


MOST_SUBSETS = 3000


def count_subsets(n: int, k: int) -> int:
    out = 1
    for j in range(k):
        out = out * (n - j) // (j + 1)
    return out


def design(cell: Cell, index: int) -> Outcome:
    """The best score over all subsets of full rank, by trying them."""
    problem, _, chain, low = linear_case(cell, index)
    rng = rng_of("design", *cell, index)
    columns = residue_columns(chain, problem.samples, low, rng)
    needed = residue_rank(list(columns.values()))
    names = [name for name, _, _ in chain.shapes]
    learn = [str(n) for n in rng.choice(names, int(rng.integers(1, len(names) + 1)), replace=False)]
    pool = [label for label in chain.labels if label[0] in learn]
    scores = {
        name: rng.integers(-9, 10, (h, w)).astype(float)
        for name, h, w in chain.shapes
        if name in learn
    }
    barred = {label for label in pool if rng.random() < 0.1}
    pool = [label for label in pool if label not in barred]
    if count_subsets(len(pool), needed) > MOST_SUBSETS:
        raise ImpossibleError("too many subsets")
    best = None
    for subset in combinations(pool, needed):
        if residue_rank([columns[x] for x in subset]) == needed:
            value = sum(scores[n][i, j] for n, i, j in subset)
            best = value if best is None else max(best, value)
    masks = {name: np.zeros(value.shape, dtype=bool) for name, value in scores.items()}
    for n, i, j in barred:
        masks[n][i, j] = True
    try:
        found = sl.design(problem, learn, scores, masks, want="best score")
    except sl.BadInputError as error:
        note = None if best is None else f"refused ({error}), though {best} is reached"
        return Outcome(True, note, str(best), "refused")
    picked = [(str(n), int(i), int(j)) for n, i, j in found.labels()]
    value = sum(scores[n][i, j] for n, i, j in picked)
    note = None
    if best is None or value != best or len(picked) != needed or barred & set(picked):
        note = f"best {best}, said {value} with {len(picked)} of {needed}"
    elif residue_rank([columns[x] for x in picked]) != needed:
        note = "the design is not of full rank"
    return Outcome(True, note, str(best), str(value))


def repair(cell: Cell, index: int) -> Outcome:
    """The fewest moves that leave no waste, by trying them."""
    problem, allocation, chain, low = linear_case(cell, index)
    rng = rng_of("repair", *cell, index)
    columns = residue_columns(chain, problem.samples, low, rng)
    needed = residue_rank(list(columns.values()))
    held = [(str(n), int(i), int(j)) for n, i, j in allocation.labels()]
    names = {label[0] for label in held}
    free = [x for x in chain.labels if x[0] in names and x not in held]
    goal = min(len(held), needed)
    best = None
    for moves in range(len(held) + 1):
        if count_subsets(len(held), moves) * count_subsets(len(free), moves) > MOST_SUBSETS:
            raise ImpossibleError("too many subsets")
        for leave in combinations(held, moves):
            kept = [columns[x] for x in held if x not in leave]
            if any(
                residue_rank([*kept, *(columns[x] for x in come)]) == goal
                for come in combinations(free, moves)
            ):
                best = moves
                break
        if best is not None:
            break
    try:
        found = sl.repair(problem, allocation)
    except sl.BadInputError as error:
        note = None if best is None else f"refused ({error}), though {best} moves do"
        return Outcome(True, note, str(best), "refused")
    after = [(str(n), int(i), int(j)) for n, i, j in found.labels()]
    moved = len(set(held) - set(after))
    note = None
    if best is None or moved != best or len(after) != len(held):
        note = f"{best} moves, said {moved} with {len(after)} of {len(held)} weights"
    elif residue_rank([columns[x] for x in after]) != goal:
        note = "weights are wasted after the repair"
    return Outcome(True, note, str(best), str(moved))


# Certificates.


def certificate(cell: Cell, index: int) -> Outcome:
    """A certificate holds as written, and no longer when one of its numbers is changed.

    A change of the question or of the centre counts where the stated centre, run forward here, then misses
    the targets by far. What the proof says beside its centre is changed so that it is none.
    """
    case = make(cell, index)
    found = sl.decide(case.instance, budget=BUDGET)
    if found.certificate is None:
        return Outcome(False, None, "", found.kind)
    rng = rng_of("certificate", *cell, index)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "c.json"
        found.certificate.save(path)
        if not sl.Certificate.load(path).check():
            return Outcome(True, "an untouched certificate does not hold", "holds", "rejected")
        content = json.loads(path.read_text(encoding="utf-8"))
        if _miss(case.instance, content) > 1e-6:  # too badly conditioned to be judged in float64
            return Outcome(False, None, "", found.kind)
        for what, place in _numbers(content):
            changed = json.loads(json.dumps(content))
            _move(changed, place, rng)
            if what not in PROOF and _miss(case.instance, changed) < 1e-3:
                continue  # a number that does not matter
            path.write_text(json.dumps(changed), encoding="utf-8")
            try:
                passed = bool(sl.Certificate.load(path).check())
            except sl.BadInputError:
                passed = False
            if passed:
                note = f"a certificate ({content.get('kind')}) with another {what} passes"
                return Outcome(True, note, "false", "holds")
    return Outcome(True, None, "false", "rejected")


PROOF = ("units", "radius", "free", "prime", "beside")
"""What a certificate states beside its centre."""


def _numbers(content: dict[str, Any]) -> list[tuple[str, list[Any]]]:
    """Every list of numbers in a certificate, by the way that leads to it."""
    teacher = content.get("teacher") or {}
    ways: list[tuple[str, list[Any]]] = [("centre", ["centre"])]
    ways += [(f"weight {name}", ["weights", name]) for name in content["weights"]]
    ways += [(name, [name]) for name in ("inputs", "targets") if name in content]
    ways += [("factor", ["factors", side]) for side in ("left", "right") if "factors" in content]
    ways += [
        (f"teacher's {name}", ["teacher", "weights", name]) for name in teacher.get("weights", ())
    ]
    return ways + [(name, [name]) for name in PROOF if content[name]]


def _move(content: dict[str, Any], way: list[Any], rng: np.random.Generator) -> None:
    """Change one number of a list, and of a centre all, so far that no rounding explains it.

    Of a proof: no prime, a factor of the other sign, a weight that is none, a negative radius."""
    values: Any = content
    for step in way:
        values = values[step]
    if way == ["prime"]:
        content["prime"] += 1  # even
        return
    if way == ["units"]:
        unit = values[0][0]
        unit[1] = f"-{unit[1]}".replace("--", "")
        return
    if way == ["free"]:
        values[int(rng.integers(len(values)))] += 10**6
        return
    if way == ["radius"]:
        k = int(rng.integers(len(values)))
        values[k] = _pair(-_number(values[k]))
        return
    if way in (["centre"], ["beside"]):
        for k, pair in enumerate(values):
            values[k] = _pair(_number(pair) * 1.25 + 1.0)
        return
    k = int(rng.integers(len(values)))
    values[k] = (float.fromhex(values[k]) + 1.0).hex()


def _number(pair: list[str]) -> float:
    return float(fmpq(int(pair[0], 16)) * fmpq(2) ** int(pair[1]))


def _pair(value: float) -> list[str]:
    top, bottom = value.as_integer_ratio()
    return [hex(top), str(1 - bottom.bit_length())]


def _miss(instance: sl.Instance, content: dict[str, Any]) -> float:
    """How far the outputs at the stated centre are from the stated targets, relative to these."""

    def weights_of(chain: Layout, texts: dict[str, list[str]]) -> dict[str, np.ndarray]:
        return {
            name: np.array([float.fromhex(v) for v in texts[name]]).reshape(h, w)
            for name, h, w in chain.shapes
        }

    def run(chain: Layout, weights: dict[str, np.ndarray]) -> np.ndarray:
        out = forward(chain, weights, np.split(x, np.cumsum(chain.blocks)[:-1]), float_phi)
        return np.array([float_phi(chain.links[-1].phi, v) for v in out])

    chain, m = layout(instance.network), int(content["samples"])
    if "factors" in content:
        left, right = (
            np.array([float.fromhex(v) for v in content["factors"][k]]) for k in ("left", "right")
        )
        x = left.reshape(-1, len(right) // m) @ right.reshape(-1, m)
    else:
        x = np.array([float.fromhex(v) for v in content["inputs"]]).reshape(-1, m)
    weights = weights_of(chain, content["weights"])
    for (name, i, j), pair in zip(instance.allocation.labels(), content["centre"], strict=True):
        weights[name][i, j] = _number(pair)
    teacher = content.get("teacher")
    if teacher is None:
        wanted = np.array([float.fromhex(v) for v in content["targets"]]).reshape(-1, m)
    else:
        assert instance.teacher is not None
        theirs = layout(instance.teacher.network)
        wanted = run(theirs, weights_of(theirs, teacher["weights"]))
    return float((np.abs(run(chain, weights) - wanted) / (1 + np.abs(wanted))).max())


# The rate under noise.


def rate(cell: Cell, index: int) -> Outcome:
    """<k> against slope and curvature by own differences, and, in one layer, plain Monte Carlo."""
    case = make(cell, index)
    network, allocation = case.instance.network, case.instance.allocation
    chain = layout(network)
    rng = rng_of("rate", *cell, index)
    weights = {name: rng.standard_normal((h, w)) for name, h, w in chain.shapes}
    weights = chain.without_missing(weights)
    inputs, targets = np.asarray(case.instance.inputs), np.asarray(case.instance.targets)
    if not np.isfinite(targets).all() or np.abs(targets).max() > 1e3:
        raise ImpossibleError("outputs too large for differences in float64")
    m = inputs.shape[-1]
    flat = inputs.reshape(-1, m)
    cut = np.split(flat, np.cumsum(chain.blocks)[:-1])
    labels = chain.labels
    at = np.array([weights[n][i, j] for n, i, j in labels])
    plastic = np.array([k for k, x in enumerate(labels) if x in set(allocation.labels())])
    noise_on = ("plastic", "all")[index % 2]
    noisy = plastic if noise_on == "plastic" else np.arange(len(labels))

    def loss(w: np.ndarray) -> np.ndarray:
        """F for weights (..., N)."""
        held = {name: [[np.zeros(1)] * wide for _ in range(h)] for name, h, wide in chain.shapes}
        for k, (name, i, j) in enumerate(labels):
            held[name][i][j] = w[..., k, None]
        out = forward(chain, held, cut, float_phi)
        total = 0.0
        for o, value in enumerate(out):
            total = total + ((float_phi(chain.links[-1].phi, value) - targets[o]) ** 2).sum(axis=-1)
        return np.asarray(total / (2 * m))

    kinks = [1.0]

    def near(name: str, value: Any) -> Any:
        kinks.extend([float(np.min(np.abs(value)))] if name == "relu" else [])
        return float_phi(name, value)

    out = forward(chain, weights, cut, near)
    for value in out:
        near(chain.links[-1].phi, value)
    if min(kinks) < 1e-2:
        raise ImpossibleError("too near to a kink")
    F = float(loss(at))
    step = 1e-4
    eye = np.eye(len(labels)) * step
    gradient = (loss(at + eye) - loss(at - eye)) / (2 * step)
    full = np.zeros(len(labels))
    full[plastic] = gradient[plastic]
    norm = float(np.linalg.norm(full))
    if norm < 1e-3 or F < 1e-3:
        raise ImpossibleError("no slope to speak of")
    along = full / norm * step
    q = float((loss(at + along) - 2 * F + loss(at - along)) / step**2)
    second = (loss(at + eye) - 2 * F + loss(at - eye)) / step**2
    gamma = rng.uniform(0.01, 0.5, 3)
    T = float(rng.uniform(0.3, 1.5))
    mine = (
        gamma[0] * norm
        - T / 2 * (gamma[0] ** 2 * q + gamma[1] ** 2 / plastic.size * second[plastic].sum())
        - gamma[2] ** 2 / 2 * second[noisy].sum()
    ) / F
    asked = sl.Instance(network, allocation, weights, inputs, targets)
    geometry = sl.local_geometry(asked, on=noise_on, trace="exact")
    said = geometry.rate(sl.Noise(tuple(gamma), T, on=noise_on))
    scale = (gamma[0] * norm + T * gamma[0] ** 2 * abs(q) + np.abs(second).sum()) / F
    if abs(said - mine) > 1e-4 * scale:
        return Outcome(True, f"<k> = {mine:.6g}, said {said:.6g}", f"{mine:.6g}", f"{said:.6g}")
    one_layer = len(chain.links) == 1 and chain.links[0].phi == "linear"
    if one_layer:
        draws = 20000
        n2, n3 = np.zeros((draws, len(labels))), np.zeros((draws, len(labels)))
        n2[:, plastic] = rng.standard_normal((draws, plastic.size))
        n3[:, noisy] = rng.standard_normal((draws, noisy.size))
        n2 /= np.linalg.norm(n2, axis=1, keepdims=True)
        n3 /= np.linalg.norm(n3, axis=1, keepdims=True)
        move = -gamma[0] * full / norm + gamma[1] * n2 + gamma[2] * np.sqrt(noisy.size / T) * n3
        k = (1 - loss(at + T * move) / F) / T
        error = float(k.std() / np.sqrt(draws))
        if abs(float(k.mean()) - said) > 5.5 * error + 1e-9:
            note = f"<k> = {k.mean():.6g} +- {error:.2g} by Monte Carlo, said {said:.6g}"
            return Outcome(True, note, f"{k.mean():.6g}", f"{said:.6g}")
    return Outcome(True, None, f"{mine:.6g}", f"{said:.6g}")


BUDGET = sl.Budget(starts=40, iterations=100, bits=1024, paths=1500, roots=60, nodes=2000)


def decide(cell: Cell, index: int) -> Outcome:
    """A decision against the truth, where both are definite; the certificate of a match must hold."""
    case = make(cell, index)
    found = truth(case.instance)
    ours = found.kind
    if case.planted:
        assert ours != "refuted", f"the attack contradicts itself: {cell} {index} {found}"
        ours = "matched"
    said = sl.decide(case.instance, budget=BUDGET)
    if said.certificate is not None and not said.certificate.check():
        return Outcome(True, "a certificate that does not hold", str(ours), said.kind)
    definite = ours is not None and said.kind != "undecided"
    note = None
    if definite and said.kind != ours:
        note = f"{ours} ({found.why}), said {said}"
    return Outcome(definite, note, str(ours), said.kind)
