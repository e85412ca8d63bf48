"""The networks of the paper, each as a short description over the chain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Self

import numpy as np

from sublearn._errors import BadInputError, one_of, whole_number
from sublearn.networks._activations import ACTIVATIONS
from sublearn.networks._forms import layers_of
from sublearn.networks._network import Bounds, Network, Shape, Step, check_sizes, check_steps
from sublearn.networks._text import register


def check_fields(network: Network, *names: str) -> None:
    """Refuse sizes that are no whole numbers of at least 1."""
    # Stored as plain ints: specs, digests and files must not see numpy's.
    for name in names:
        object.__setattr__(network, name, whole_number(name, getattr(network, name), least=1))
        if name == "T":
            check_steps("T", getattr(network, name))


@register("linear:inputs=6,outputs=3")
@dataclass(frozen=True)
class LinearEstimator(Network):
    """y = W x, with W of shape (outputs, inputs): the warm-up of section 2.1.

    >>> LinearEstimator(inputs=3, outputs=2).shapes
    {'W': (2, 3)}
    """

    inputs: int
    outputs: int

    def __post_init__(self) -> None:
        check_fields(self, "inputs", "outputs")

    @property
    def shapes(self) -> dict[str, Shape]:
        return {"W": (self.outputs, self.inputs)}

    @property
    def steps(self) -> tuple[Step, ...]:
        return (Step("W", block=0),)

    @property
    def input_blocks(self) -> tuple[int, ...]:
        return (self.inputs,)

    @property
    def output_size(self) -> int:
        return self.outputs

    def degree_bounds(self, name: str, samples: int) -> Bounds:
        rows, columns = self.shape(name)
        return Bounds(min(columns, samples), rows)

    def expressible(self, samples: int) -> int:
        return self.outputs * min(self.inputs, samples)

    def degeneracy(self, samples: int) -> str | None:
        return _dependent(samples, self.inputs)


@cache
def _recurrent_steps(T: int, activation: str) -> tuple[Step, ...]:
    steps = [Step("W", activation, block=t, encoder="B") for t in range(T)]
    return (*steps, Step("D"))


@dataclass(frozen=True)
class StateNetwork(Network):
    """n units that carry a state over T steps; unless told otherwise by W, B and D as in eq. (3.3)."""

    n: int
    b: int
    d: int
    T: int

    def __post_init__(self) -> None:
        check_fields(self, "n", "b", "d", "T")

    @property
    def hidden(self) -> tuple[int, ...]:
        return (self.n,)

    def widened(self, widths: Sequence[int]) -> Self:
        return replace(self, n=widths[0])

    @property
    def shapes(self) -> dict[str, Shape]:
        return {"W": (self.n, self.n), "B": (self.n, self.b), "D": (self.d, self.n)}

    @property
    def input_blocks(self) -> tuple[int, ...]:
        return (self.b,) * self.T

    @property
    def output_size(self) -> int:
        return self.d


@register("lrnn:n=8,b=1,d=4,T=4")
@dataclass(frozen=True)
class LinearRNN(StateNetwork):
    """Y = D sum_{t=1..T} W^(T-t+1) B X_t, eq. (3.3): h_t = W (h_{t-1} + B x_t), y = D h_T.

    The recursion printed as (3.1)-(3.2) has one power of W fewer, so it does not give (3.3); this
    class follows (3.3), as the proofs of the paper do.

    >>> net = LinearRNN(n=8, b=1, d=4, T=4)
    >>> net.shapes
    {'W': (8, 8), 'B': (8, 1), 'D': (4, 8)}
    >>> net.input_shape(samples=3)
    (4, 1, 3)
    """

    @property
    def steps(self) -> tuple[Step, ...]:
        return _recurrent_steps(self.T, "linear")

    def degree_bounds(self, name: str, samples: int) -> Bounds:
        """Theorems 3.1, 3.2 and 3.4 with the exact bounds: see the page on the linear RNN."""
        rows, columns = self.shape(name)
        n, b, d, T, m = self.n, self.b, self.d, self.T, samples
        if name == "D":
            return Bounds(min(columns, T * b, m), rows)
        row = T * min(b, m) if name == "W" else m * min(T, d, n)
        return Bounds(min(columns, row), min(n, d * min(T, m)))

    def expressible(self, samples: int) -> int:
        """The d x min(m, T b) matrices of rank at most n, and never more than n (d + b) (B.1)."""
        entering = min(samples, self.T * self.b)
        return min(of_rank(self.n, self.d, entering), self.n * (self.d + self.b))

    def degeneracy(self, samples: int) -> str | None:
        """Theorem B.1: n (d + b) numbers express the network, whatever T is."""
        n, b, d, T = self.n, self.b, self.d, self.T
        if T * b * d > n * (d + b):
            return (
                f"Theorem B.1: T b d = {T * b * d} exceeds n (d + b) = {n * (d + b)}, so the network "
                "cannot express every linear map of its inputs."
            )
        return _narrow(n, T * b, d, samples) or _dependent(samples, T * b)


@register("rnn:n=8,b=1,d=4,T=4,activation=tanh")
@dataclass(frozen=True)
class RNN(StateNetwork):
    """h_t = phi(W (h_{t-1} + B x_t)), y = D h_T: the recurrent network with a nonlinearity.

    >>> RNN(n=8, b=2, d=3, T=5).spec
    'rnn:n=8,b=2,d=3,T=5,activation=tanh'
    """

    activation: str = "tanh"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("activation", self.activation, [a for a in ACTIVATIONS if a != "linear"])

    @property
    def steps(self) -> tuple[Step, ...]:
        return _recurrent_steps(self.T, self.activation)

    def expressible(self, samples: int) -> int:
        """The d x m matrices of rank at most n, and never more than the number of weights."""
        return min(self.size, of_rank(self.n, self.d, samples))

    def degeneracy(self, samples: int) -> str | None:
        return few_units(self.n, self.d, samples) or super().degeneracy(samples)


@register("ffn:4-8-8-6,activation=relu,output=linear,bias=no")
@dataclass(frozen=True)
class FeedForward(Network):
    """y = W_L phi(W_{L-1} ... phi(W_1 x)), any depth; weights W1..WL and, with bias, b1..bL.

    ``sizes`` are (q, n_1, ..., d). ``activation`` is that of the hidden layers, ``output`` that of
    the last one. Biases are matrices with one column.

    >>> FeedForward((4, 8, 6)).shapes
    {'W1': (8, 4), 'W2': (6, 8)}
    >>> FeedForward((6, 8, 4), activation="relu", bias=True).spec
    'ffn:6-8-4,activation=relu,bias=yes'
    """

    sizes: tuple[int, ...]
    activation: str = "linear"
    output: str = "linear"
    bias: bool = False

    def __init__(
        self,
        sizes: Sequence[int],
        activation: str = "linear",
        output: str = "linear",
        bias: bool = False,
    ) -> None:
        check_sizes(sizes)
        if not isinstance(bias, bool | np.bool_):
            raise BadInputError(f"bias must be True or False, not {bias!r}.")
        object.__setattr__(self, "sizes", tuple(int(v) for v in sizes))
        object.__setattr__(self, "activation", one_of("activation", activation, ACTIVATIONS))
        object.__setattr__(self, "output", one_of("output", output, ACTIVATIONS))
        object.__setattr__(self, "bias", bool(bias))

    @property
    def layers(self) -> int:
        """The number L of weight matrices."""
        return len(self.sizes) - 1

    @property
    def spec(self) -> str:
        parts = ["ffn:" + "-".join(str(v) for v in self.sizes)]
        if self.activation != "linear":
            parts.append(f"activation={self.activation}")
        if self.output != "linear":
            parts.append(f"output={self.output}")
        if self.bias:
            parts.append("bias=yes")
        return ",".join(parts)

    @property
    def shapes(self) -> dict[str, Shape]:
        return dict(_layer_shapes(self.sizes, self.bias))

    @property
    def steps(self) -> tuple[Step, ...]:
        return _layer_steps(self.layers, self.activation, self.output, self.bias)

    @property
    def input_blocks(self) -> tuple[int, ...]:
        return (self.sizes[0],)

    @property
    def output_size(self) -> int:
        return self.sizes[-1]

    @property
    def hidden(self) -> tuple[int, ...]:
        return self.sizes[1:-1]

    def widened(self, widths: Sequence[int]) -> FeedForward:
        return replace(self, sizes=(self.sizes[0], *widths, self.sizes[-1]))

    def before_output(self) -> FeedForward:
        if self.output == "linear":
            return self
        return FeedForward(self.sizes, self.activation, "linear", self.bias)

    def degree_bounds(self, name: str, samples: int) -> Bounds:
        """Theorem 4.1's counts, narrowed by bottlenecks; without linearity only rows are bounded."""
        rows, columns = self.shape(name)
        layers = layers_of(self)
        assert layers is not None
        layer = layers.layer_of(name)
        if self.is_linear:
            leaving, entering = layers.ranks(layer, samples)
            return Bounds(min(columns, 1 if name[0] == "b" else entering), min(rows, leaving))
        # The last layer's columns carry one weight per output, whatever comes before.
        return Bounds(min(columns, samples), rows if layer == self.layers - 1 else None)

    def expressible(self, samples: int) -> int:
        """Linear: the d x m' matrices of rank at most w, the narrowest width.

        A bias frees the mean of the samples, d numbers, and leaves m - 1 samples for the rest. Else
        only the last hidden layer bounds the rank; what is applied entry by entry adds nothing.
        """
        d, left = self.output_size, samples - self.bias
        mean = d if self.bias else 0
        if self.is_linear:
            return mean + of_rank(min(self.sizes[1:]), d, min(self.sizes[0], left))
        return min(self.size, mean + of_rank(self.sizes[-2], d, left))

    def degeneracy(self, samples: int) -> str | None:
        d, q = self.output_size, self.sizes[0]
        left = samples - self.bias  # a bias takes care of one sample: see `expressible`
        if self.is_linear:
            narrowest = min(self.sizes[1:-1], default=d)
            return _narrow(narrowest, q, d, left) or _dependent(samples, q, self.bias)
        units = self.sizes[-2] if self.layers > 1 else d
        return few_units(units, d, left) or super().degeneracy(samples)


@cache
def _layer_shapes(sizes: tuple[int, ...], bias: bool) -> tuple[tuple[str, Shape], ...]:
    pairs = list(zip(sizes[1:], sizes[:-1], strict=True))
    matrices = [(f"W{layer}", shape) for layer, shape in enumerate(pairs, 1)]
    biases = [(f"b{layer}", (shape[0], 1)) for layer, shape in enumerate(pairs, 1)]
    return (*matrices, *biases) if bias else tuple(matrices)


@cache
def _layer_steps(layers: int, activation: str, output: str, bias: bool) -> tuple[Step, ...]:
    return tuple(
        Step(
            f"W{layer}",
            output if layer == layers else activation,
            block=0 if layer == 1 else None,
            bias=f"b{layer}" if bias else None,
        )
        for layer in range(1, layers + 1)
    )


def of_rank(width: int, rows: int, columns: int) -> int:
    """Dimension of the rows x columns matrices of rank at most width."""
    rank = min(width, rows, columns)
    return rank * (rows + columns - rank)


def _narrow(width: int, inputs: int, outputs: int, samples: int) -> str | None:
    if width < min(inputs, outputs, samples):
        return (
            f"a hidden layer of {width} units is narrower than inputs, outputs and samples, "
            "so the network cannot express every linear map."
        )
    return None


def few_units(units: int, outputs: int, samples: int) -> str | None:
    """Why outputs that are read from so many units cannot be anything, or None."""
    if units < min(outputs, samples):
        return (
            f"the last hidden layer has {units} units, fewer than outputs and samples, so the outputs "
            "have low rank."
        )
    return None


def _dependent(samples: int, numbers: int, bias: bool = False) -> str | None:
    if samples > numbers + bias:
        return (
            f"{samples} samples of {numbers} numbers each{' and a bias' if bias else ''} are linearly "
            f"dependent: at most {numbers + bias} of them count."
        )
    return None
