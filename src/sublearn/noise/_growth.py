"""Ways of growing a network that leave what it computes as it is.

- :func:`expand_linear`, a linear estimator y = W x carried by a larger one through semi-orthogonal maps
  B (c1 i x i) and D (c2 o x o), with its loss read in two ways;
- :func:`add_synapses`, several synapses for each connection;
- :func:`zero_pad`, more hidden or recurrent units, their weights 0;
- :func:`copy_units`, several copies of each of these, which share what it sends on.

Each takes an instance whose weights are all plastic and returns a larger one like any other, so that
rates, simulations and measurements need to know nothing of growth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from sublearn._arrays import Array
from sublearn._errors import BadInputError, one_of, whole_number
from sublearn.allocations import Allocation
from sublearn.ensembles import Instance, check_instance
from sublearn.networks import (
    FeedForward,
    LinearEstimator,
    Network,
    Weights,
)
from sublearn.noise._noise import Noise

READINGS = ("expanded", "projected")
STARTS = ("embedded", "random")
PATHS = ("both", "inputs", "outputs")
WAYS = (*PATHS, "synapses", "widths", "copies")
MOST_SIZES = 16
_MOST_WEIGHTS = 20_000


def semi_orthogonal(rows: int, columns: int, rng: np.random.Generator) -> Array:
    """A random matrix with orthonormal columns, uniform over all of them (rows >= columns)."""
    q, r = np.linalg.qr(rng.standard_normal((rows, columns)))
    out: Array = q * np.sign(np.diag(r))  # without the signs LAPACK's convention shows through
    return out


def expand_linear(
    instance: Instance,
    c1: float = 1.0,
    c2: float = 1.0,
    *,
    reading: str = "expanded",
    start: str = "embedded",
    seed: int = 0,
) -> Instance:
    """The linear estimator y = W x expanded to W' of shape (c2 o, c1 i), with D'W'B = W.

    B and D are random with orthonormal columns. ``reading="expanded"`` takes the loss on all c2 o
    outputs, 1/(2m) sum |D y* - W'B x|^2; "projected" on what is read out, 1/(2m) sum |y* - D'W'B x|^2.
    ``start="embedded"`` is W' = D W B'; "random" adds a random matrix R - D D'R B B' of the size of
    W, which leaves D'W'B as it is. (The slides' "D y = W'B x" follows from y = D'W'B x only when
    embedded: one way of the equivalence fails.)

    >>> import numpy as np, sublearn as sl
    >>> net = sl.LinearEstimator(inputs=10, outputs=5)
    >>> rng = np.random.default_rng(0)
    >>> W, X, Y = (rng.standard_normal(shape) for shape in ((5, 10), (10, 50), (5, 50)))
    >>> given = sl.Instance(net, sl.Allocation.whole(net), {"W": W}, X, Y)
    >>> small, big = (sl.noise.expand_linear(given, c, c) for c in (1, 2))
    >>> len(small.allocation), len(big.allocation)
    (50, 200)
    >>> traces = [sl.local_geometry(grown).trace for grown in (small, big)]
    >>> bool(np.isclose(traces[1], 2 * traces[0]))    # c2 times, not c1 c2
    True
    """
    W, (o, i) = _linear(instance)
    one_of("reading", reading, READINGS)
    one_of("start", start, STARTS)
    whole_number("seed", seed, least=0)
    wide, tall = _expanded("c1", c1, i), _expanded("c2", c2, o)
    rng = np.random.default_rng([seed, wide, tall])
    B, D = semi_orthogonal(wide, i, rng), semi_orthogonal(tall, o, rng)
    grown = D @ W @ B.T
    if start == "random":
        R = rng.standard_normal((tall, wide)) * (np.linalg.norm(W) / math.sqrt(tall * wide))
        grown = grown + R - D @ (D.T @ R @ B) @ B.T
    x = B @ instance.inputs
    if reading == "expanded":
        estimator = LinearEstimator(inputs=wide, outputs=tall)
        return _plastic(estimator, {"W": grown}, x, D @ instance.targets)
    # The readout D' is a second layer that nobody changes.
    read = FeedForward((wide, tall, o))
    first = Allocation.whole(read, ["W1"])
    return Instance(read, first, {"W1": grown, "W2": D.T}, x, instance.targets)


def expansion_path(
    instance: Instance,
    factors: Iterable[float],
    *,
    path: str = "both",
    reading: str = "expanded",
    start: str = "embedded",
    seed: int = 0,
) -> list[Instance]:
    """:func:`expand_linear` at each of the factors c, smallest first.

    ``path="both"`` takes c1 = c2 = c, "inputs" c1 = c alone, "outputs" c2 = c alone.
    """
    one_of("path", path, PATHS)
    pairs = [(c if path != "outputs" else 1.0, c if path != "inputs" else 1.0) for c in factors]
    return [
        expand_linear(instance, *pair, reading=reading, start=start, seed=seed) for pair in pairs
    ]


def add_synapses(instance: Instance, synapses: int) -> Instance:
    """Each connection of y = W x carried by c synapses that add up, each starting at W_ij / c.

    It is the estimator on inputs repeated c times. For any other network ask
    ``Geometry.redundant(c)``, which holds whatever the loss is.
    """
    W, (outputs, inputs) = _linear(instance)
    c = whole_number("synapses", synapses, least=1)
    grown = LinearEstimator(inputs=c * inputs, outputs=outputs)
    return _plastic(
        grown, {"W": np.tile(W / c, (1, c))}, np.tile(instance.inputs, (c, 1)), instance.targets
    )


def zero_pad(instance: Instance, widths: int | Sequence[int]) -> Instance:
    """A feed-forward or recurrent network with more hidden units, all new weights and biases 0.

    The outputs stay as they are. With sigmoid units the new ones fire at 1/2 and their outgoing
    weights have a gradient at once; with tanh, ReLU or linear units they are silent, have no gradient
    at all, and only noise can wake them.

    >>> import numpy as np, sublearn as sl
    >>> net = sl.FeedForward((3, 4, 4, 2), activation="sigmoid")
    >>> rng = np.random.default_rng(0)
    >>> weights = {name: rng.standard_normal(shape) for name, shape in net.shapes.items()}
    >>> x, y = rng.standard_normal((3, 9)), rng.standard_normal((2, 9))
    >>> given = sl.Instance(net, sl.Allocation.whole(net), weights, x, y)
    >>> wide = sl.noise.zero_pad(given, widths=7)
    >>> wide.network.spec
    'ffn:3-7-7-2,activation=sigmoid'
    >>> bool(np.allclose(wide.network.forward(wide.start, x), net.forward(weights, x)))
    True
    """
    network = _all_plastic(instance).network
    hidden = _hidden(network)
    if isinstance(widths, Sequence):
        wanted = [whole_number("widths", width, least=1) for width in widths]
    else:
        wanted = [whole_number("widths", widths, least=1)] * len(hidden)
    if len(wanted) != len(hidden):
        raise BadInputError(
            f"widths must be one number or {len(hidden)}, one per hidden layer, not {len(wanted)}."
        )
    if any(new < old for new, old in zip(wanted, hidden, strict=True)):
        raise BadInputError(
            f"widths must be at least those of the network, {list(hidden)}, not {wanted}."
        )

    def padded(old: Any, shape: tuple[int, int]) -> Any:
        out = np.full(shape, old.dtype == bool, dtype=old.dtype)  # new weights exist, and are 0
        out[: old.shape[0], : old.shape[1]] = old
        return out

    return _widened(instance, wanted, padded)


def copy_units(instance: Instance, copies: int) -> Instance:
    """Every hidden or recurrent unit in c copies, each with 1/c of the weights that it sent out.

    The copies have the weights of their original for what comes in, so that they fire alike, and the
    outputs stay as they are, whatever the activation is.

    >>> import numpy as np, sublearn as sl
    >>> net, rng = sl.RNN(n=3, b=1, d=2, T=4), np.random.default_rng(0)
    >>> weights = {name: rng.standard_normal(shape) for name, shape in net.shapes.items()}
    >>> x, y = rng.standard_normal((4, 1, 9)), rng.standard_normal((2, 9))
    >>> given = sl.Instance(net, sl.Allocation.whole(net), weights, x, y)
    >>> twice = sl.noise.copy_units(given, 2)
    >>> twice.network.spec
    'rnn:n=6,b=1,d=2,T=4,activation=tanh'
    >>> bool(np.allclose(twice.network.forward(twice.start, x), net.forward(weights, x)))
    True
    """
    network, c = _all_plastic(instance).network, whole_number("copies", copies, least=1)

    def copied(old: Any, shape: tuple[int, int]) -> Any:
        rows, columns = (larger // small for larger, small in zip(shape, old.shape, strict=True))
        out = np.repeat(np.repeat(old, rows, axis=0), columns, axis=1)
        return out if old.dtype == bool else out / columns  # the copies share what they send on

    return _widened(instance, [c * width for width in _hidden(network)], copied)


def _widened(
    instance: Instance, widths: Sequence[int], larger: Callable[[Any, tuple[int, int]], Any]
) -> Instance:
    """More units, with what ``larger`` makes of weights, and of masks of those that exist."""
    network = instance.network
    grown = network.widened(widths)
    for name, mask in network.connections.items():
        grown = grown.with_connections({name: larger(mask, grown.shapes[name])})
    weights = {n: larger(instance.start[n], shape) for n, shape in grown.shapes.items()}
    return _plastic(grown, weights, instance.inputs, instance.targets)


def _hidden(network: Network) -> tuple[int, ...]:
    """The widths of what can be widened: hidden layers, or the state of a recurrent network."""
    if not network.hidden:
        raise BadInputError(
            f"{network.title} has no hidden layer to widen, and no recurrent units."
        )
    return network.hidden


def _plastic(network: Network, weights: Weights, inputs: Array, targets: Array) -> Instance:
    return Instance(network, Allocation.whole(network), weights, inputs, targets)


def _all_plastic(instance: Instance) -> Instance:
    if len(check_instance(instance).allocation) != instance.network.size:
        raise BadInputError("growing takes an instance whose weights are all learnable.")
    return instance


def _is_estimator(network: Network) -> bool:
    """Whether it is y = W x."""
    form = network.layered
    return form is not None and form.activations == ("linear",) and not form.biases


def _linear(instance: Instance) -> tuple[Array, tuple[int, int]]:
    """W of an instance of y = W x, and its shape."""
    network = _all_plastic(instance).network
    if not _is_estimator(network):
        raise BadInputError(f"this way of growing takes a LinearEstimator, not {network!r}.")
    (name,) = network.shapes
    return instance.start[name], network.shapes[name]


def _expanded(name: str, factor: float, size: int) -> int:
    wanted = factor * size
    if not math.isfinite(wanted) or factor < 1 or abs(wanted - round(wanted)) > 1e-6:
        raise BadInputError(
            f"{name} must be at least 1 and make {name} * {size} a whole number, not {factor}."
        )
    return round(wanted)


def grow(
    instance: Instance,
    noise: Noise,
    how: str | None = None,
    to: Sequence[float] | None = None,
    *,
    reading: str = "expanded",
    start: str = "embedded",
    seed: int = 0,
) -> list[Instance]:
    """A path of growth for :func:`sublearn.best_size`, smallest first.

    ``how``: "both" (inputs and outputs), "inputs", "outputs" or "synapses" of a linear estimator, "widths"
    of the hidden layers of a feed-forward network or of the state of a recurrent one, "copies" of their
    units. Without it: "both", "widths" for feed-forward networks, "copies" for recurrent ones. ``to``:
    factors of growth, or widths; by default they go past where the noise may put an optimum.
    """
    network = _all_plastic(instance).network
    if to is not None and not all(0 < value < math.inf for value in to):
        raise BadInputError(f"the sizes to grow to must be numbers above 0, not {list(to)}.")
    if not _is_estimator(network):
        hidden = _hidden(network)
        usual = "copies" if network.is_sequence else "widths"
        way = one_of("the way to grow", how or usual, WAYS)
        if way == "copies":
            # The first three numbers, and more while the network stays small.
            more = (c for c in (4, 6, 8) if c**2 * network.cells <= _MOST_WEIGHTS)
            return [copy_units(instance, _whole(c)) for c in to or [1, 2, 3, *more]]
        if way != "widths":
            raise BadInputError(
                f"the way to grow {network.title} must be 'widths' or 'copies', not {way!r}."
            )
        widths = to or [round(max(hidden) * factor) for factor in (1, 1.5, 2, 3, 4, 6, 8)]
        return [zero_pad(instance, _whole(width)) for width in widths]
    way = one_of("the way to grow", how or "both", WAYS)
    if way in ("widths", "copies"):
        raise BadInputError(f"{way!r} is for hidden units, and a linear estimator has none.")
    factors = to or _factors(way, *_linear(instance)[1], noise)
    if way == "synapses":
        return [add_synapses(instance, _whole(factor)) for factor in factors]
    return expansion_path(instance, factors, path=way, reading=reading, start=start, seed=seed)


def _whole(value: float) -> int:
    if value != round(value):
        raise BadInputError(f"the sizes to grow to must be whole numbers here, not {value:g}.")
    return int(value)


def _factors(way: str, outputs: int, inputs: int, noise: Noise) -> list[float]:
    """Factors that keep sizes whole, evenly spaced in their logarithms, past where an optimum may lie."""
    step = {"both": math.gcd(inputs, outputs), "inputs": inputs, "outputs": outputs}.get(way, 1)
    _, g2, g3 = noise.gamma
    target = noise.T * g2**2 / g3**2 if g3 else 0.0
    growth = min(max(4.0 * target / (inputs * outputs), 16.0), 400.0)
    last = math.sqrt(growth) if way == "both" else growth
    steps = {round(step * last ** (place / (MOST_SIZES - 1))) for place in range(MOST_SIZES)}
    return [s / step for s in sorted(steps)]
