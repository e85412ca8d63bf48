"""Random tiny instances of every kind, with a forward map, a search and optima of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog, minimize

import sublearn as sl

Array = NDArray[np.float64]

PHI = {
    "linear": lambda a: a,
    "relu": lambda a: np.maximum(a, 0.0),
    "tanh": np.tanh,
    "sigmoid": lambda a: 0.5 + 0.5 * np.tanh(a / 2),
}


def outputs(instance: sl.Instance, values: Array) -> Array:
    """The feed-forward map, written out."""
    network, weights = instance.network, instance.with_values(values)
    assert isinstance(network, sl.FeedForward)
    h = instance.inputs
    for layer in range(1, network.layers + 1):
        z = weights[f"W{layer}"] @ h + (weights[f"b{layer}"] if network.bias else 0.0)
        h = PHI[network.output if layer == network.layers else network.activation](z)
    return h


def distance(instance: sl.Instance, values: Array) -> float:
    """max |output - target|."""
    return float(np.abs(outputs(instance, values) - instance.targets).max())


def some_allocation(network: sl.Network, r: int, rng: np.random.Generator) -> sl.Allocation:
    """r entries anywhere in the network."""
    places = [(n, i, j) for n, (a, b) in network.shapes.items() for i in range(a) for j in range(b)]
    entries: dict[str, list[tuple[int, int]]] = {}
    for k in rng.choice(len(places), r, replace=False):
        name, i, j = places[k]
        entries.setdefault(name, []).append((i, j))
    return sl.Allocation.from_entries(network, entries)


def tiny(
    rng: np.random.Generator,
    hidden: str,
    output: str,
    *,
    bias: bool,
    depth: int,
    names: tuple[str, ...] | None = None,
) -> sl.Instance:
    """An instance with up to 5 learnable weights and 5 samples; whole numbers in 4 of 10 cases."""
    sizes = tuple(int(n) for n in rng.integers(1, 4, depth + 1))
    network = sl.FeedForward(sizes, hidden, output, bias)
    m = int(rng.integers(1, 6))
    if names is None:
        allocation = some_allocation(network, int(rng.integers(1, min(network.size, 5) + 1)), rng)
    else:
        allocation = sl.Allocation.whole(network, [n for n in names if n in network.shapes])
    on_grid = rng.random() < 0.4

    def numbers(shape: tuple[int, ...]) -> Array:
        return rng.integers(-2, 3, shape).astype(float) if on_grid else rng.standard_normal(shape)

    weights = {name: numbers(shape) for name, shape in network.shapes.items()}
    inputs = numbers((sizes[0], m))
    targets = numbers((sizes[-1], m))
    given = sl.Instance(network, allocation, weights, inputs, targets)
    if rng.random() < 0.5:  # planted, and disturbed
        planted = outputs(given, given.values(weights))
        targets = planted + rng.choice([0.0, 0.1, 0.5]) * numbers((sizes[-1], m))
        given = sl.Instance(network, allocation, weights, inputs, targets)
    return given


def search(instance: sl.Instance, rng: np.random.Generator, starts: int = 6) -> float:
    """The smallest distance that simplex searches from small and large starts find."""
    r = len(instance.allocation)
    best = distance(instance, np.zeros(r))
    for _ in range(starts):
        start = rng.standard_normal(r) * 10 ** rng.uniform(-1, 2)
        options = {"maxiter": 120 * r, "xatol": 1e-9, "fatol": 1e-12}
        with np.errstate(all="ignore"):
            found = minimize(
                lambda v: distance(instance, v), start, method="Nelder-Mead", options=options
            )
        best = min(best, float(found.fun))
    return best


def null_vectors(rows: list[list[Fraction]]) -> list[list[Fraction]]:
    """A basis of the y with y'J = 0, by Gauss and Jordan in fractions."""
    n, r = len(rows), len(rows[0])
    table = [[rows[i][k] for i in range(n)] for k in range(r)]  # J' y = 0
    pivots: list[int] = []
    for column in range(n):
        line = next((i for i in range(len(pivots), r) if table[i][column] != 0), None)
        if line is None:
            continue
        at = len(pivots)
        table[at], table[line] = table[line], table[at]
        table[at] = [x / table[at][column] for x in table[at]]
        for i in range(r):
            if i != at and table[i][column] != 0:
                factor = table[i][column]
                table[i] = [a - factor * b for a, b in zip(table[i], table[at], strict=True)]
        pivots.append(column)
    out = []
    for free in (c for c in range(n) if c not in pivots):
        y = [Fraction(0)] * n
        y[free] = Fraction(1)
        for line, pivot in enumerate(pivots):
            y[pivot] = -table[line][free]
        out.append(y)
    return out


def chebyshev(jacobian: Array, constants: Array) -> Fraction:
    """min over x of max |J x + c|, exactly: the largest |y'c| / |y|_1 over all circuits y'J = 0."""
    rows = [[Fraction(x) for x in row] for row in jacobian.tolist()]
    c = [Fraction(x) for x in constants.tolist()]
    best = Fraction(0)
    for size in range(1, min(len(rows), len(rows[0]) + 1) + 1):
        for chosen in combinations(range(len(rows)), size):
            found = null_vectors([rows[i] for i in chosen])
            if len(found) == 1 and all(x != 0 for x in found[0]):
                y = found[0]
                value = abs(sum(a * c[i] for a, i in zip(y, chosen, strict=True)))
                best = max(best, value / sum(abs(a) for a in y))
    return best


def relu_pieces(instance: sl.Instance) -> Iterator[tuple[Array, Array, Array, Array]]:
    """J and c of W2 relu(W1 x) for every pattern of the units, and A, b: the pattern is A x <= b."""
    network, m, weights = instance.network, instance.samples, instance.weights
    assert isinstance(network, sl.FeedForward)
    first, readout = weights["W1"], weights["W2"]
    offset, shift = (
        (weights["b1"], weights["b2"]) if network.bias else (np.zeros((len(first), 1)), 0.0)
    )
    labels = list(instance.allocation.labels())
    r = len(labels)
    slopes = np.zeros((len(first), m, r))
    for place, (name, i, j) in enumerate(labels):
        slopes[i, :, place] = 1.0 if name == "b1" else instance.inputs[j]
    frozen = first @ instance.inputs + offset
    units = sorted({i for _, i, _ in labels})
    for bits in product((0.0, 1.0), repeat=len(units) * m):
        on = (frozen > 0).astype(float)
        on[units] = np.reshape(bits, (len(units), m))
        signs = (2 * on[units] - 1)[:, :, None]
        jacobian = np.einsum("oi,is,isr->osr", readout, on, slopes).reshape(-1, r)
        constants = (readout @ (on * frozen) + shift).ravel()
        yield (
            jacobian,
            constants,
            -(signs * slopes[units]).reshape(-1, r),
            (signs[:, :, 0] * frozen[units]).ravel(),
        )


def relu_optimum(instance: sl.Instance) -> float:
    """The least distance over all patterns, by a linear program each."""
    best = np.inf
    for jacobian, constants, side, most in relu_pieces(instance):
        c = constants - instance.targets.ravel()
        ones, r = np.ones((len(c), 1)), jacobian.shape[1]
        table = np.block([[jacobian, -ones], [-jacobian, -ones]])
        table = np.vstack([table, np.hstack([side, np.zeros((len(side), 1))])])
        found = linprog(
            np.r_[np.zeros(r), 1.0],
            A_ub=table,
            b_ub=np.r_[-c, c, most],
            bounds=[(None, None)] * r + [(0.0, None)],
        )
        if found.status == 0:
            best = min(best, float(found.fun))
    return best


def relu_within(instance: sl.Instance, low: Array, high: Array) -> bool:
    """Whether some weights put W2 relu(W1 x) between these ends, which may be infinite."""
    for jacobian, constants, side, most in relu_pieces(instance):
        up, down = np.isfinite(high), np.isfinite(low)
        table = np.vstack([jacobian[up], -jacobian[down], side])
        right = np.r_[(high - constants)[up], (constants - low)[down], most]
        r = jacobian.shape[1]
        found = linprog(np.zeros(r), A_ub=table, b_ub=right, bounds=[(None, None)] * r)
        if found.status == 0:
            return True
    return False


def band(output: str, target: float, eps: float) -> tuple[float, float] | None:
    """The pre-activations whose outputs are within eps of the target; None where there are none."""
    a, b = target - eps, target + eps
    if output == "relu":
        return None if b < 0 else (a if a > 0 else -np.inf, b)
    least, most = {"linear": (-np.inf, np.inf), "tanh": (-1, 1), "sigmoid": (0, 1)}[output]
    if b <= least or a >= most:
        return None
    inverse = {"linear": lambda y: y, "tanh": np.arctanh, "sigmoid": lambda y: np.log(y / (1 - y))}
    low = -np.inf if a <= least else float(inverse[output](a))
    return low, np.inf if b >= most else float(inverse[output](b))


def least_eps(instance: sl.Instance, feasible: Callable[[Array, Array], bool]) -> float:
    """The least eps whose bands are feasible, by bisection between 0 and 8."""
    network = instance.network
    assert isinstance(network, sl.FeedForward)
    low, high = 0.0, 8.0
    for _ in range(32):
        middle = (low + high) / 2
        found = [band(network.output, t, middle) for t in instance.targets.ravel().tolist()]
        ends = np.array([ends for ends in found if ends is not None])
        fits = len(ends) == len(found) and feasible(ends[:, 0], ends[:, 1])
        low, high = (low, middle) if fits else (middle, high)
    return high
