"""Ways of growing a network that leave what it computes as it is.

- :func:`expand_linear`, a linear estimator y = W x carried by a larger one through semi-orthogonal maps
  B (c1 i x i) and D (c2 o x o), with its loss read in two ways;
- :func:`add_synapses`, several synapses for each connection;
- :func:`zero_pad`, more units in the hidden layers, their weights 0.

Each returns a :class:`Grown`: a network with weights, data and plastic set like any other, so that
rates, simulations and measurements need to know nothing of growth.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sublearn._arrays import Array
from sublearn._errors import BadInputError, one_of, whole_number
from sublearn._threads import single_thread
from sublearn.allocations import Allocation
from sublearn.networks import FeedForward, LinearEstimator, Network, Weights
from sublearn.noise._geometry import geometry_of
from sublearn.noise._loss import Setting, check_setting
from sublearn.noise._rates import Geometry

READINGS = ("expanded", "projected")
STARTS = ("embedded", "random")
PATHS = ("both", "inputs", "outputs")


@dataclass(frozen=True, eq=False)
class Grown:
    """A network on a path of growth: what ``local_geometry`` and ``simulate`` take.

    ``size`` is the number of its plastic weights, ``factors`` = (c1, c2) how much inputs and outputs
    were expanded, or (c, c) for c synapses per connection; (1, 1) for padding.
    """

    network: Network
    weights: Weights
    inputs: Array
    targets: Array
    allocation: Allocation
    factors: tuple[float, float] = (1.0, 1.0)

    @property
    def size(self) -> int:
        """N, the number of plastic weights."""
        return len(self.allocation)

    @property
    def setting(self) -> Setting:
        return check_setting(self.network, self.weights, self.inputs, self.targets, self.allocation)

    def geometry(self, trace: str = "auto", probes: int = 64, seed: int = 0) -> Geometry:
        """The local geometry, with noise on the plastic weights."""
        with single_thread():
            return geometry_of(self.setting, "plastic", trace, probes, seed)


def semi_orthogonal(rows: int, columns: int, rng: np.random.Generator) -> Array:
    """A random matrix with orthonormal columns, uniform over all of them (rows >= columns)."""
    q, r = np.linalg.qr(rng.standard_normal((rows, columns)))
    out: Array = q * np.sign(np.diag(r))  # without the signs LAPACK's convention shows through
    return out


def expand_linear(
    network: LinearEstimator,
    weights: Mapping[str, ArrayLike],
    *,
    inputs: ArrayLike,
    targets: ArrayLike,
    c1: float = 1.0,
    c2: float = 1.0,
    reading: str = "expanded",
    start: str = "embedded",
    seed: int = 0,
) -> Grown:
    """The linear estimator y = W x expanded to W' of shape (c2 o, c1 i), with D'W'B = W.

    B and D are random with orthonormal columns. ``reading="expanded"`` takes the loss on all c2 o
    outputs, 1/(2m) sum |D y* - W'B x|^2; "projected" on what is read out, 1/(2m) sum |y* - D'W'B x|^2.
    ``start="embedded"`` is W' = D W B'; "random" adds a random matrix R - D D'R B B' of the size of
    W, which leaves D'W'B as it is. (The slides' "D y = W'B x" follows from y = D'W'B x only when
    embedded: one way of the equivalence fails.)

    >>> import numpy as np, sublearn as sl
    >>> net = sl.LinearEstimator(inputs=10, outputs=5)
    >>> rng = np.random.default_rng(0)
    >>> data = dict(inputs=rng.standard_normal((10, 50)), targets=rng.standard_normal((5, 50)))
    >>> weights = {"W": rng.standard_normal((5, 10))}
    >>> small, big = (sl.noise.expand_linear(net, weights, **data, c1=c, c2=c) for c in (1, 2))
    >>> small.size, big.size
    (50, 200)
    >>> bool(np.isclose(big.geometry().trace, 2 * small.geometry().trace))    # c2 times, not c1 c2
    True
    """
    setting = _linear(network, weights, inputs, targets)
    one_of("reading", reading, READINGS)
    one_of("start", start, STARTS)
    whole_number("seed", seed, least=0)
    i, o = network.inputs, network.outputs
    wide, tall = _expanded("c1", c1, i), _expanded("c2", c2, o)
    rng = np.random.default_rng([seed, wide, tall])
    B, D = semi_orthogonal(wide, i, rng), semi_orthogonal(tall, o, rng)
    W = setting.weights["W"]
    grown = D @ W @ B.T
    if start == "random":
        R = rng.standard_normal((tall, wide)) * (np.linalg.norm(W) / math.sqrt(tall * wide))
        grown = grown + R - D @ (D.T @ R @ B) @ B.T
    x, factors = B @ setting.inputs, (wide / i, tall / o)
    if reading == "expanded":
        estimator = LinearEstimator(inputs=wide, outputs=tall)
        whole = Allocation.whole(estimator)
        return Grown(estimator, {"W": grown}, x, D @ setting.targets, whole, factors)
    # The readout D' is a second layer that nobody changes.
    read = FeedForward((wide, tall, o))
    first = Allocation.whole(read, ["W1"])
    return Grown(read, {"W1": grown, "W2": D.T}, x, setting.targets, first, factors)


def expansion_path(
    network: LinearEstimator,
    weights: Mapping[str, ArrayLike],
    *,
    inputs: ArrayLike,
    targets: ArrayLike,
    factors: Iterable[float],
    path: str = "both",
    reading: str = "expanded",
    start: str = "embedded",
    seed: int = 0,
) -> list[Grown]:
    """:func:`expand_linear` at each of the factors c, smallest first.

    ``path="both"`` takes c1 = c2 = c, "inputs" c1 = c alone, "outputs" c2 = c alone.
    """
    one_of("path", path, PATHS)
    out = []
    for factor in factors:
        c1 = factor if path != "outputs" else 1.0
        c2 = factor if path != "inputs" else 1.0
        out.append(
            expand_linear(
                network,
                weights,
                inputs=inputs,
                targets=targets,
                c1=c1,
                c2=c2,
                reading=reading,
                start=start,
                seed=seed,
            )
        )
    return out


def add_synapses(
    network: LinearEstimator,
    weights: Mapping[str, ArrayLike],
    *,
    inputs: ArrayLike,
    targets: ArrayLike,
    synapses: int,
) -> Grown:
    """Each connection of y = W x carried by c synapses that add up, each starting at W_ij / c.

    It is the estimator on inputs repeated c times. For any other network ask
    ``Geometry.redundant(c)``, which holds whatever the loss is.
    """
    setting = _linear(network, weights, inputs, targets)
    c = whole_number("synapses", synapses, least=1)
    grown = LinearEstimator(inputs=c * network.inputs, outputs=network.outputs)
    W = np.tile(setting.weights["W"] / c, (1, c))
    x = np.tile(setting.inputs, (c, 1))
    return Grown(grown, {"W": W}, x, setting.targets, Allocation.whole(grown), (float(c), float(c)))


def zero_pad(
    network: FeedForward,
    weights: Mapping[str, ArrayLike],
    *,
    inputs: ArrayLike,
    targets: ArrayLike,
    widths: int | Sequence[int],
) -> Grown:
    """A feed-forward network of any depth with wider hidden layers, all new weights and biases 0.

    The outputs stay as they are. With sigmoid units the new ones fire at 1/2 and their outgoing
    weights have a gradient at once; with tanh, ReLU or linear units they are silent, have no gradient
    at all, and only noise can wake them.

    >>> import numpy as np, sublearn as sl
    >>> net = sl.FeedForward((3, 4, 4, 2), activation="sigmoid")
    >>> rng = np.random.default_rng(0)
    >>> weights = {name: rng.standard_normal(shape) for name, shape in net.shapes.items()}
    >>> x, y = rng.standard_normal((3, 9)), rng.standard_normal((2, 9))
    >>> wide = sl.noise.zero_pad(net, weights, inputs=x, targets=y, widths=7)
    >>> wide.network.spec
    'ffn:3-7-7-2,activation=sigmoid'
    >>> bool(np.allclose(wide.network.forward(wide.weights, x), net.forward(weights, x)))
    True
    """
    if not isinstance(network, FeedForward) or network.layers < 2:
        raise BadInputError("zero_pad takes a FeedForward network with at least one hidden layer.")
    setting = check_setting(network, weights, inputs, targets)
    hidden = network.sizes[1:-1]
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
    grown = FeedForward(
        (network.sizes[0], *wanted, network.sizes[-1]),
        network.activation,
        network.output,
        network.bias,
    )
    padded = {}
    for name, shape in grown.shapes.items():
        held = setting.weights[name]
        padded[name] = np.zeros(shape)
        padded[name][: held.shape[0], : held.shape[1]] = held
    return Grown(grown, padded, setting.inputs, setting.targets, Allocation.whole(grown))


def _linear(
    network: LinearEstimator,
    weights: Mapping[str, ArrayLike],
    inputs: ArrayLike,
    targets: ArrayLike,
) -> Setting:
    if not isinstance(network, LinearEstimator):
        raise BadInputError(f"this way of growing takes a LinearEstimator, not {network!r}.")
    return check_setting(network, weights, inputs, targets)


def _expanded(name: str, factor: float, size: int) -> int:
    wanted = factor * size
    if not math.isfinite(wanted) or factor < 1 or abs(wanted - round(wanted)) > 1e-6:
        raise BadInputError(
            f"{name} must be at least 1 and make {name} * {size} a whole number, not {factor}."
        )
    return round(wanted)
