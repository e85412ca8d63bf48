"""What the tests of networks compare with: explicit loops over scalars, and exact rank by flint.

Nothing here uses the chain of steps: each network is written out again from its definition.
"""

from __future__ import annotations

import cmath
from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import Any

import flint
import numpy as np
from numpy.typing import NDArray

from sublearn.networks import RNN, FeedForward, LinearEstimator, LinearRNN, Network, RateRNN

PRIME = 2**61 - 1

# Every kind, with and without bottlenecks, biases and nonlinear outputs; test_networks.py checks
# that no class of the package is missing.
NETWORKS: list[Network] = [
    LinearEstimator(inputs=4, outputs=3),
    LinearRNN(n=4, b=1, d=2, T=3),
    LinearRNN(n=3, b=2, d=3, T=1),
    RNN(n=4, b=2, d=2, T=3),
    RNN(n=3, b=1, d=2, T=4, activation="sigmoid"),
    RNN(n=3, b=2, d=1, T=2, activation="relu"),
    FeedForward((3, 2)),
    FeedForward((3, 4, 2)),
    FeedForward((4, 2, 3, 4, 2), bias=True),
    FeedForward((3, 5, 4, 2), activation="relu"),
    FeedForward((3, 4, 2), activation="relu", output="relu", bias=True),
    FeedForward((3, 4, 2), activation="tanh", output="sigmoid", bias=True),
    FeedForward((2, 3, 3, 2), activation="sigmoid", output="tanh"),
    FeedForward((3, 2), output="tanh", bias=True),
    # Scalars modulo a prime do not multiply floats: leaks are tested in test_rate.py.
    RateRNN(n=4, b=2, d=2, T=3, bias=True),
    RateRNN(n=3, b=1, d=2, T=3, activation="linear", bias=True, start="weights"),
    RateRNN(n=3, b=2, d=2, T=2, activation="relu", bias=True, readout="every"),
]
LINEAR = [network for network in NETWORKS if network.is_linear]
RELU = [n for n in NETWORKS if n.is_piecewise_linear and not n.is_linear]

Scalars = Sequence[Sequence[Any]]
Phi = Callable[[int, int, int, Any], Any]  # (step, unit, sample, pre-activation)


def by_spec(network: object) -> str:
    """Names of parametrised cases."""
    return network.spec if isinstance(network, Network) else repr(network)


def one_sentence(error: BaseException) -> bool:
    """A message for a person: one line that ends like a sentence, no representation of an object."""
    text = str(error)
    return "\n" not in text and text[-1] in ".?" and "object at 0x" not in text


def draw(
    network: Network, samples: int, seed: int = 0, batch: tuple[int, ...] = ()
) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.float64]]:
    """Gaussian weights and inputs."""
    rng = np.random.default_rng(seed)
    weights = {name: rng.normal(size=(*batch, *s)) for name, s in network.shapes.items()}
    return weights, rng.normal(size=(*batch, *network.input_shape(samples)))


def flat(network: Network, weights: dict[str, NDArray[Any]]) -> NDArray[Any]:
    """All weights as one vector: names in order, each row by row."""
    return np.concatenate([np.ravel(weights[name]) for name in network.shapes])


def unflat(network: Network, vector: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """The inverse of `flat`."""
    out, start = {}, 0
    for name, (rows, columns) in network.shapes.items():
        out[name] = vector[start : start + rows * columns].reshape(rows, columns)
        start += rows * columns
    return out


def phi(name: str, z: complex) -> complex:
    """The activations, continued to the complex numbers near the real line."""
    if name == "relu":
        return z if z.real > 0 else 0.0 * z
    if name == "tanh":
        return cmath.tanh(z)
    if name == "sigmoid":
        return 1 / (1 + cmath.exp(-z))
    return z


def _times(a: Scalars, b: Scalars) -> list[list[Any]]:
    return [
        [sum((a[i][k] * b[k][j] for k in range(len(b))), 0) for j in range(len(b[0]))]
        for i in range(len(a))
    ]


def _plus(a: Scalars, b: Scalars) -> list[list[Any]]:
    return [[x + y for x, y in zip(r, s, strict=True)] for r, s in zip(a, b, strict=True)]


@singledispatch
def outputs(network: Network, weights: dict[str, Any], x: Any, apply: Phi) -> list[list[Any]]:
    """Y = M_W(X) for any scalars: floats, complex numbers, Python integers, dual numbers."""
    raise NotImplementedError(f"write {type(network).__name__} out by hand here")


@outputs.register
def _(network: LinearEstimator, weights: dict[str, Any], x: Any, apply: Phi) -> list[list[Any]]:
    return _times(weights["W"], x)


@outputs.register
def _(network: LinearRNN, weights: dict[str, Any], x: Any, apply: Phi) -> list[list[Any]]:
    # Eq. (3.3): Y = D sum_t W^(T-t+1) B X_t, with t = 1..T.
    W, B, D, T = weights["W"], weights["B"], weights["D"], network.T
    total = [[0] * len(x[0][0]) for _ in range(network.d)]
    for t in range(1, T + 1):
        part = _times(B, x[t - 1])
        for _ in range(T - t + 1):
            part = _times(W, part)
        total = _plus(total, _times(D, part))
    return total


@outputs.register
def _(network: RNN, weights: dict[str, Any], x: Any, apply: Phi) -> list[list[Any]]:
    state = [[0] * len(x[0][0]) for _ in range(network.n)]
    for t in range(network.T):
        pre = _times(weights["W"], _plus(state, _times(weights["B"], x[t])))
        state = [[apply(t, i, s, v) for s, v in enumerate(row)] for i, row in enumerate(pre)]
    return _times(weights["D"], state)


@outputs.register
def _(network: RateRNN, weights: dict[str, Any], x: Any, apply: Phi) -> list[list[Any]]:
    m = len(x[0][0])
    state = [[0] * m for _ in range(network.n)]
    if network.start == "weights":
        state = [[row[0]] * m for row in weights["h0"]]
    read = []
    for t in range(network.T):
        pre = _plus(_times(weights["W"], state), _times(weights["Win"], x[t]))
        if network.bias:
            pre = _plus(pre, [[row[0]] * m for row in weights["b"]])
        step = (2 if network.readout == "every" else 1) * t + (network.start == "weights")
        bent = [[apply(step, i, s, v) for s, v in enumerate(row)] for i, row in enumerate(pre)]
        if network.leak != 1:
            keep, leak = 1 - network.leak, network.leak
            bent = [
                [keep * old + leak * new for old, new in zip(*rows, strict=True)]
                for rows in zip(state, bent, strict=True)
            ]
        state = bent
        out = _times(weights["D"], state)
        read.append(_plus(out, [[row[0]] * m for row in weights["c"]]) if network.bias else out)
    return [row for part in read for row in part] if network.readout == "every" else read[-1]


@outputs.register
def _(network: FeedForward, weights: dict[str, Any], x: Any, apply: Phi) -> list[list[Any]]:
    state = x
    for layer in range(1, len(network.sizes)):
        pre = _times(weights[f"W{layer}"], state)
        if network.bias:
            pre = [
                [v + b[0] for v in row] for row, b in zip(pre, weights[f"b{layer}"], strict=True)
            ]
        state = [
            [apply(layer - 1, i, s, v) for s, v in enumerate(row)] for i, row in enumerate(pre)
        ]
    return state


def activations(network: Network) -> Phi:
    """The activations of a network, from its fields."""
    hidden = getattr(network, "activation", "linear")
    last = len(network.sizes) - 2 if isinstance(network, FeedForward) else -1
    final = getattr(network, "output", hidden)
    return lambda step, i, s, z: phi(final if step == last else hidden, z)


def forward(network: Network, weights: dict[str, Any], x: NDArray[Any]) -> NDArray[Any]:
    """Outputs as an array, at float or complex weights."""
    lists = {name: np.asarray(matrix).tolist() for name, matrix in weights.items()}
    return np.array(outputs(network, lists, x.tolist(), activations(network)))


def complex_step_jacobian(
    network: Network, weights: dict[str, NDArray[np.float64]], x: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Im f(w + i h e_k) / h: exact to rounding, as no difference is taken (Squire, Trapp 1998)."""
    w, h = flat(network, weights).astype(complex), 1e-30
    columns = []
    for k in range(w.size):
        w[k] += 1j * h
        columns.append(forward(network, unflat(network, w), x).imag.ravel() / h)
        w[k] = w[k].real
    return np.array(columns).T


class Dual:
    """a + b e with e^2 = 0, over Python integers: exact derivatives of polynomials."""

    def __init__(self, value: int, slope: int = 0) -> None:
        self.value, self.slope = value, slope

    def __add__(self, other: Any) -> Dual:
        other = other if isinstance(other, Dual) else Dual(other)
        return Dual(self.value + other.value, self.slope + other.slope)

    __radd__ = __add__

    def __mul__(self, other: Any) -> Dual:
        other = other if isinstance(other, Dual) else Dual(other)
        return Dual(self.value * other.value, self.value * other.slope + self.slope * other.value)

    __rmul__ = __mul__


def integer_column(
    network: Network, weights: dict[str, Any], x: Any, apply: Phi, entry: tuple[str, int, int]
) -> list[Dual]:
    """Outputs and their derivative with respect to one entry, in integers of any size."""
    name, i, j = entry
    lists = {n: [[Dual(int(v)) for v in row] for row in m] for n, m in weights.items()}
    lists[name][i][j].slope = 1
    return [v for row in outputs(network, lists, x, apply) for v in row]


def exact_jacobian(network: Network, samples: int, seed: int = 0) -> list[list[int]]:
    """All columns of the Jacobian at a random point modulo 2^61 - 1, in the order of `flat`.

    A nonlinear step multiplies by random residues, one for each unit and sample: no slopes are more
    generic than these, so a bound that holds whatever the slopes are must hold here.
    """
    rng = np.random.default_rng(seed)
    weights = {name: rng.integers(0, PRIME, s).tolist() for name, s in network.shapes.items()}
    x = rng.integers(0, PRIME, network.input_shape(samples)).tolist()
    slopes = rng.integers(0, PRIME, (8, 8, samples)).tolist()
    real = activations(network)

    def apply(step: int, i: int, s: int, z: Dual) -> Dual:
        slope = 1 if real(step, i, s, -0.5) == -0.5 else slopes[step][i][s]
        return Dual(z.value * slope % PRIME, z.slope * slope % PRIME)

    return [
        [dual.slope % PRIME for dual in integer_column(network, weights, x, apply, entry)]
        for entry in all_entries(network)
    ]


def all_entries(network: Network) -> list[tuple[str, int, int]]:
    """(name, row, column) of every weight: names in order, each row by row."""
    return [
        (name, i, j)
        for name, (rows, columns) in network.shapes.items()
        for i in range(rows)
        for j in range(columns)
    ]


def exact_rank(vectors: list[list[int]]) -> int:
    """Rank modulo 2^61 - 1, by python-flint."""
    width = len(vectors[0])
    return flint.nmod_mat(len(vectors), width, [v for u in vectors for v in u], PRIME).rank()
