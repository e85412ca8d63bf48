"""The cells of the attack on ``decide``, and the cases in each: (cell, index) -> case, by seed.

A cell is a network, the kind of teacher, the number of samples (below, at, above what the inputs can
tell apart), the number of learnable weights (below, at, above what is needed) and the law of weights,
teacher and inputs. Biases change with the index: even without, odd with. Rate networks draw leak, readout
and start, sparse ones the weights that exist, case by case.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

import sublearn as sl
from adversary.network import CURVED, Label, Layout, float_phi, forward, layout

NETWORKS = (
    "estimator linear",
    "linear-rnn linear",
    "rnn relu",
    "rnn tanh",
    "rnn sigmoid",
    "layer linear",
    "layer >relu",
    "layer >tanh",
    "layer >sigmoid",
    "shallow linear",
    "shallow relu",
    "shallow tanh",
    "shallow sigmoid",
    "shallow linear>tanh",
    "shallow relu>relu",
    "shallow relu>tanh",
    "shallow tanh>tanh",
    "shallow sigmoid>sigmoid",
    "deep linear",
    "deep relu",
    "deep tanh",
    "deep sigmoid",
)
# What came later, with fewer laws: rate networks, and networks some of whose weights do not exist.
RATES = ("rate linear", "rate relu", "rate tanh", "rate sigmoid")
SPARSE = (
    "sparse-estimator linear",
    "sparse-linear-rnn linear",
    "sparse-rnn relu",
    "sparse-rnn tanh",
    "sparse-layer linear",
    "sparse-layer >tanh",
    "sparse-shallow linear",
    "sparse-shallow relu",
    "sparse-shallow tanh",
    "sparse-shallow relu>sigmoid",
    "sparse-deep linear",
    "sparse-deep relu",
    "sparse-deep sigmoid",
    "sparse-rate linear",
    "sparse-rate relu",
    "sparse-rate tanh",
)
# Inputs whose numbers depend on each other: a law of inputs alone, asked of some of every kind.
CORRELATED = (
    "estimator linear",
    "linear-rnn linear",
    "rnn tanh",
    "layer >tanh",
    "shallow relu",
    "deep linear",
    "rate linear",
    "rate tanh",
    "sparse-shallow linear",
)
TEACHERS = ("same", "other", "targets", "planted")
REGIMES = ("below", "at", "above")
LAWS = ("normal", "uniform", "student-t", "rademacher", "sparse", "lowrank", "scaled")
# Laws with a density.
DENSE = ("normal", "uniform", "student-t", "lowrank", "scaled", "correlated")

_DISTRIBUTIONS: Mapping[str, Any] = {
    "normal": lambda: sl.ensembles.Normal(),
    "uniform": lambda: sl.ensembles.Uniform(),
    "student-t": lambda: sl.ensembles.StudentT(df=3.0),
    "rademacher": lambda: sl.ensembles.Rademacher(),
    "sparse": lambda: sl.ensembles.Sparse(density=0.6),
    "lowrank": lambda: sl.ensembles.Normal(),
    "scaled": lambda: sl.ensembles.Normal(20.0),
    "correlated": lambda: sl.ensembles.Normal(),
}


class Cell(NamedTuple):
    """One cell of the table."""

    network: str
    teacher: str
    samples: str
    learnable: str
    law: str

    def __str__(self) -> str:
        return " | ".join(self)


ALL_CELLS = tuple(
    Cell(network, teacher, samples, learnable, law)
    for networks, laws in (
        (NETWORKS, LAWS),
        (RATES, ("normal", "rademacher", "lowrank")),
        (SPARSE, ("normal", "rademacher")),
        (CORRELATED, ("correlated",)),
    )
    for network in networks
    for teacher in TEACHERS
    for samples in REGIMES
    for learnable in REGIMES
    for law in laws
)


@dataclass(frozen=True)
class Case:
    """An instance to decide. ``planted``: it has a solution by construction. ``drawn``: by draw()."""

    cell: Cell
    index: int
    instance: sl.Instance
    problem: sl.Problem | None
    planted: bool


class ImpossibleError(Exception):
    """The cell has no case: the message says why."""


def rng_of(*parts: object) -> np.random.Generator:
    """A generator that depends on these words alone."""
    digest = hashlib.sha256("\0".join(map(str, parts)).encode()).digest()
    return np.random.default_rng(np.frombuffer(digest, dtype="<u4"))


def _networks(
    kind: str, index: int, teacher: str, wide: int, rng: np.random.Generator
) -> sl.Network:
    """The student: small, with a last layer of ``wide`` units where one is wanted."""
    if kind.startswith("sparse-"):
        dense = _networks(kind.removeprefix("sparse-"), index, teacher, wide, rng)
        return sparse(dense, rng)
    shape, phis = kind.split(" ")
    hidden, _, last = phis.partition(">")
    hidden, last = hidden or "linear", last or "linear"
    bias = bool(index % 2)
    q, d = int(rng.integers(2, 4 - bias)), int(rng.integers(1, 3))
    if shape == "estimator":
        return sl.LinearEstimator(inputs=q, outputs=max(d, 2) if q == 2 else d)
    if shape in ("rnn", "linear-rnn"):
        T, b = ((2, 1), (1, 2))[int(rng.integers(2))]
        n = max(wide, int(rng.integers(2, 4)))
        if shape == "rnn":
            return sl.RNN(n=n, b=b, d=d, T=T, activation=hidden)
        T, b = ((2, 1), (3, 1), (1, 2))[int(rng.integers(3))]
        return sl.LinearRNN(n=n, b=b, d=d, T=T)
    if shape == "rate":
        return _rate(hidden, bias, wide, rng)
    if shape == "layer":
        return sl.FeedForward((q, d), output=last, bias=bias)
    n = max(wide, int(rng.integers(1 if d == 1 else 2, 4)))
    sizes = (q, n, d) if shape == "shallow" else (q, 2, n, d)
    return sl.FeedForward(sizes, hidden, last, bias)


def network_of(kind: str, index: int, rng: np.random.Generator) -> sl.Network:
    """A network of a kind, as small as those of cases."""
    return _networks(kind, index, "same", 0, rng)


def _rate(activation: str, bias: bool, wide: int, rng: np.random.Generator) -> sl.RateRNN:
    """A rate network: with and without leak, start, readout at every step and self-connections."""
    sizes = ((2, 1), (1, 2), (1, 1)) + (((3, 1),) if activation == "linear" else ())
    T, b = sizes[int(rng.integers(len(sizes)))]
    n = max(wide, int(rng.integers(2, 4)))
    start = ("zero", "zero", "weights")[int(rng.integers(3))] if T > 1 else "weights"
    return sl.RateRNN(
        n=n,
        b=b,
        d=int(rng.integers(1, 3)),
        T=T,
        activation=activation,
        # Few digits most often, so that exact systems stay small; not always.
        leak=(1.0, 0.5, 0.75, 0.1)[int(rng.integers(4))],
        bias=bias,
        readout=("last", "last", "every")[int(rng.integers(3))],
        start=start,
        autapses=bool(rng.integers(4)),
    )


def sparse(network: sl.Network, rng: np.random.Generator) -> sl.Network:
    """The same network, of which about a quarter of the weights do not exist, in some or all matrices."""
    names = list(network.shapes)
    names = [str(n) for n in rng.choice(names, int(rng.integers(1, len(names) + 1)), replace=False)]
    masks = {name: rng.random(network.shapes[name]) < 0.7 for name in names}
    for mask in masks.values():
        if mask.all() and mask.size > 1:
            mask.flat[int(rng.integers(mask.size))] = False
        if not mask.any():
            mask.flat[int(rng.integers(mask.size))] = True
    made = network.with_connections(masks)
    chain, before = layout(made), layout(network)
    gone = {(n, int(i), int(j)) for n, mask in masks.items() for i, j in np.argwhere(~mask)}
    assert chain.missing == gone | before.missing, "connections are not those that were asked for"
    return made


def _other(network: sl.Network, rng: np.random.Generator) -> sl.Network:
    """A teacher of another shape with the same inputs and outputs."""
    thin, network = network, getattr(network, "base", network)
    wider = int(rng.integers(0, 2))
    if isinstance(network, sl.RateRNN):
        if network.readout == "last" and rng.random() < 0.3:  # the paper's form
            return _paper(network)
        return replace(network, n=max(2, network.n + (1 if wider else -1)), leak=0.5)
    if thin is not network and isinstance(network, sl.LinearRNN | sl.RNN) and rng.random() < 0.5:
        phi = network.activation if isinstance(network, sl.RNN) else "linear"
        start = "zero" if network.T > 1 else "weights"
        return sl.RateRNN(network.n, network.b, network.d, network.T, phi, 0.5, start=start)
    if isinstance(network, sl.LinearEstimator):
        return sl.FeedForward((network.inputs, 1 + 3 * wider, network.outputs))
    if isinstance(network, sl.FeedForward):
        q, d = network.sizes[0], network.sizes[-1]
        if len(network.sizes) == 2:
            return sl.FeedForward((q, 1 + 2 * wider, d), "linear", network.output, network.bias)
        width = network.sizes[-2] + 1 if wider else max(1, network.sizes[-2] - 1)
        if int(rng.integers(3)) == 0 and network.activation != "linear":
            return sl.FeedForward((q, width, d), "linear", network.output, network.bias)
        return sl.FeedForward((*network.sizes[:-2], width, d), network.activation, network.output)
    n = network.n + 1 if wider else max(1, network.n - 1)
    if isinstance(network, sl.RNN):
        return sl.RNN(n=n, b=network.b, d=network.d, T=network.T, activation=network.activation)
    return sl.LinearRNN(n=n, b=network.b, d=network.d, T=network.T)


def _paper(network: sl.RateRNN) -> sl.Network:
    """A network of the paper's form with the sizes of a rate network."""
    sizes = {"n": network.n, "b": network.b, "d": network.d, "T": network.T}
    if network.activation == "linear":
        return sl.LinearRNN(**sizes)
    return sl.RNN(**sizes, activation=network.activation)


def _features(network: sl.Network) -> int:
    """How many samples the inputs can tell apart for a linear network."""
    network = getattr(network, "base", network)
    if isinstance(network, sl.FeedForward):
        return network.sizes[0] + network.bias
    constant = isinstance(network, sl.RateRNN) and (network.bias or network.start == "weights")
    return sum(layout(network).blocks) + constant


def generic_rank(
    chain: Layout, labels: list[Label], samples: int, rank: int | None, seed: int
) -> int:
    """The rank of the outputs' derivatives at a random point, in float64: a label, never a truth."""
    rng = np.random.default_rng(seed)
    weights = {name: rng.standard_normal((h, w)) for name, h, w in chain.shapes}
    weights = chain.without_missing(weights)
    size = sum(chain.blocks)
    x = rng.standard_normal((size, samples))
    if rank is not None:
        x = rng.standard_normal((size, rank)) @ rng.standard_normal((rank, samples))
    cut = np.split(x, np.cumsum(chain.blocks)[:-1])
    columns = []
    for name, i, j in labels:
        # Derivatives by a step into the complex plane; ReLU by the side it stands on.
        moved = {key: value.astype(complex) for key, value in weights.items()}
        moved[name][i, j] += 1e-20j
        out = forward(chain, moved, cut, _complex_phi)
        columns.append(
            np.concatenate([np.imag(_complex_phi(chain.links[-1].phi, v)) for v in out]) * 1e20
        )
    return int(np.linalg.matrix_rank(np.array(columns), tol=1e-7))


def _complex_phi(name: str, value: Any) -> Any:
    return value * (np.real(value) > 0) if name == "relu" else float_phi(name, value)


def _mixing(size: int) -> np.ndarray:
    """A matrix of few digits whose product with independent numbers is correlated, and of full rank."""
    return np.tri(size) * 0.75 + 0.25 * np.eye(size)


def _ensemble(law: str, size: int) -> sl.Ensemble:
    own = _DISTRIBUTIONS[law]()
    inputs = sl.ensembles.Normal() if law == "scaled" else own
    if law == "lowrank":
        inputs = sl.ensembles.LowRank(rank=1)
    if law == "correlated":
        covariance = _mixing(size) @ _mixing(size).T
        inputs = sl.ensembles.Correlated(covariance=covariance.tolist())
    return sl.Ensemble(own, own, inputs)


def make(cell: Cell, index: int) -> Case:
    """Case number ``index`` of a cell; ImpossibleError where the regime cannot be met."""
    why = "no size was found"
    for attempt in range(12):
        rng = rng_of(*cell, index, attempt)
        try:
            return _attempt(cell, index, attempt >= 9, rng)
        except ImpossibleError as error:
            why = str(error)
    raise ImpossibleError(why)


def _attempt(cell: Cell, index: int, mixed: bool, rng: np.random.Generator) -> Case:
    curved = any(phi in cell.network for phi in CURVED) and "layer" not in cell.network
    bent = curved or "relu" in cell.network
    wide = 0
    if bent and index % 3 and cell.learnable != "below":
        wide = 5  # room in the last layer, where truth is known
    network = _networks(cell.network, index, cell.teacher, wide, rng)
    chain = layout(network)
    features = _features(network)
    m = features + {"below": -1, "at": 0, "above": int(rng.integers(1, 3))}[cell.samples]
    m = max(m, 1)
    rank = 1 if cell.law == "lowrank" else None
    teacher: Any = None
    if cell.teacher == "other":
        teacher = _other(network, rng)
    if cell.teacher == "targets":
        teacher = sl.Targets(_DISTRIBUTIONS[cell.law]())
        needed = chain.outputs * m
    else:
        theirs = layout(teacher) if teacher is not None else chain
        needed = generic_rank(theirs, theirs.labels, m, rank, 1)
    r = needed + {"below": -1, "at": 0, "above": int(rng.integers(1, 3))}[cell.learnable]
    total = len(chain.labels)
    if cell.learnable == "above":
        r = min(r, total)
    if r < 1 or (cell.learnable == "above" and r <= needed):
        raise ImpossibleError(f"{total} weights in all, {needed} needed")
    if r > total:
        raise ImpossibleError(f"{total} weights in all, {needed} needed")
    if r > 9:
        raise ImpossibleError(f"{r} learnable weights are too many for a case")
    allocation = _allocation(network, chain, r, curved, mixed or not bent, index, rng)
    trial = int(rng.integers(2**31))
    if cell.teacher == "planted":
        return Case(cell, index, *_planted(cell, network, chain, allocation, m, index, rng))
    problem = sl.Problem(network, m, _ensemble(cell.law, sum(chain.blocks)), teacher)
    return Case(cell, index, sl.draw(problem, allocation, seed=7, trial=trial), problem, False)


def _allocation(
    network: sl.Network,
    chain: Layout,
    r: int,
    curved: bool,
    mixed: bool,
    index: int,
    rng: np.random.Generator,
) -> sl.Allocation:
    """r weights, most often of one layer; for curved networks of one whose truth can be known."""
    labels = chain.labels
    last = chain.links[-1]
    parts: list[list[str | None]]
    if curved:
        parts = [[last.matrix, last.bias]]
        if index % 3 == 0 and (inner := _once(chain)):
            parts.insert(0, inner)
    else:
        parts = [[name] for name, _, _ in chain.shapes]
        order = rng.permutation(len(parts))
        parts = [parts[k] for k in order]
        if index % 3 == 1:  # the last layer, where systems are small
            parts.insert(0, [last.matrix])
        elif rng.random() < 0.3:
            parts = []
    for part in parts:
        pool = [label for label in labels if label[0] in part]
        if len(pool) >= r:
            return _from_labels(network, _some(pool, r, rng))
    if parts and not mixed:
        raise ImpossibleError("no layer has so many weights")
    return _from_labels(network, _some(labels, r, rng))


def _once(chain: Layout) -> list[str | None]:
    """Weights of the last hidden layer that are used nowhere else."""
    inner = chain.links[-2]
    if inner.drive is None:
        alone = sum(x.matrix == inner.matrix for x in chain.links) == 1
        return [inner.matrix, inner.bias] if alone else []
    steps = sum(x.drive is not None for x in chain.links)
    used = steps - (chain.start is None)  # times that W is applied to something
    if steps == 1:
        return ["W", "Win", "b"] if used else ["Win", "b"]
    return ["W"] if used == 1 else []


def _some(pool: list[Label], r: int, rng: np.random.Generator) -> list[Label]:
    return [pool[k] for k in rng.choice(len(pool), r, replace=False)]


def _from_labels(network: sl.Network, labels: list[Label]) -> sl.Allocation:
    entries: dict[str, list[tuple[int, int]]] = {}
    for name, i, j in labels:
        entries.setdefault(name, []).append((i, j))
    return sl.Allocation.from_entries(network, entries)


def _values(law: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Numbers of a law with few binary digits, so that exact systems stay small."""
    raw = {
        "uniform": lambda: rng.uniform(-1.7, 1.7, shape),
        "student-t": lambda: np.clip(rng.standard_t(3.0, shape), -30, 30),
        "rademacher": lambda: 2.0 * rng.integers(0, 2, shape) - 1.0,
        "sparse": lambda: rng.standard_normal(shape) * (rng.random(shape) < 0.6),
        "scaled": lambda: 20.0 * rng.standard_normal(shape),
    }.get(law, lambda: rng.standard_normal(shape))()
    return np.asarray(np.round(raw * 64) / 64)


def _planted(
    cell: Cell,
    network: sl.Network,
    chain: Layout,
    allocation: sl.Allocation,
    m: int,
    index: int,
    rng: np.random.Generator,
) -> tuple[sl.Instance, None, bool]:
    """A student whose frozen weights are those of the teacher, up to a symmetry; every fourth one off.

    Hidden units of dense networks may change places; ReLU rows may be doubled and their columns halved; tanh
    rows and columns may change sign. All of it is exact.
    """
    theirs = {name: _values(cell.law, (h, w), rng) for name, h, w in chain.shapes}
    theirs = chain.without_missing(theirs)
    size = sum(chain.blocks)
    inputs: Any = _values("normal" if cell.law == "scaled" else cell.law, (size, m), rng)
    if cell.law == "correlated":
        inputs = _mixing(size) @ inputs
    inputs = inputs.reshape(network.input_shape(m))
    if cell.law == "lowrank":
        inputs = rng.standard_normal((size, 1)), rng.standard_normal((1, m))
    ours = {name: value.copy() for name, value in theirs.items()}
    if isinstance(network, sl.FeedForward):
        for k in range(1, len(network.sizes) - 1):
            _turn(ours, network, k, rng)
    if isinstance(network, sl.RateRNN):
        _turn_rate(ours, network, rng)
    planted = index % 4 != 3
    if not planted:
        frozen = [x for x in chain.labels if x not in set(allocation.labels())]
        if frozen:
            name, i, j = frozen[int(rng.integers(len(frozen)))]
            ours[name][i, j] += 0.25
    made = sl.Instance.from_teacher(network, allocation, ours, inputs, theirs)
    return made, None, planted


def _turn(
    weights: dict[str, np.ndarray], network: sl.FeedForward, k: int, rng: np.random.Generator
) -> None:
    """A symmetry of hidden layer k, applied in place."""
    units = network.sizes[k]
    order = rng.permutation(units)
    factors = np.ones(units)
    if network.activation == "tanh":
        factors = 2.0 * rng.integers(0, 2, units) - 1.0
    if network.activation in ("relu", "linear"):
        factors = 2.0 ** rng.integers(-1, 2, units)
    weights[f"W{k}"] = (factors[:, None] * weights[f"W{k}"])[order]
    weights[f"W{k + 1}"] = (weights[f"W{k + 1}"] / factors)[:, order]
    if network.bias:
        weights[f"b{k}"] = (factors[:, None] * weights[f"b{k}"])[order]


def _turn_rate(
    weights: dict[str, np.ndarray], network: sl.RateRNN, rng: np.random.Generator
) -> None:
    """A symmetry of the units of a rate network, applied in place."""
    order = rng.permutation(network.n)
    factors = np.ones(network.n)
    if network.activation in ("tanh", "linear"):
        factors = 2.0 * rng.integers(0, 2, network.n) - 1.0
    if network.activation in ("relu", "linear"):
        factors = factors * 2.0 ** rng.integers(-1, 2, network.n)
    for name in ("W", "Win", "b", "h0"):
        if name in weights:
            weights[name] = (factors[:, None] * weights[name])[order]
    for name in ("W", "D"):
        weights[name] = (weights[name] / factors)[:, order]
