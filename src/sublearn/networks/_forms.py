"""Two forms that theorems speak about, as they are seen in a chain: a linear recurrence, and layers.

They are read off the steps, so that a network of any class has what is proved of its form.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sublearn.networks._network import Network


@dataclass(frozen=True)
class Recurrence:
    """h_t = W (h_{t-1} + B x_t), y = D h_T, eq. (3.3): the names of W, B and D, and the sizes."""

    weight: str
    encoder: str
    readout: str
    n: int
    b: int
    d: int
    T: int

    @property
    def names(self) -> dict[str, str]:
        """What the chain calls W, B and D."""
        return {"W": self.weight, "B": self.encoder, "D": self.readout}

    def saturated(self, samples: int) -> tuple[int, int]:
        """Learnable weights of a saturated row of W, T min(b, m), and column, T d (Theorem 3.5)."""
        return self.T * min(self.b, samples), self.T * self.d


@dataclass(frozen=True)
class Layers:
    """y = phi_L(W_L ... phi_1(W_1 x + b_1) ... + b_L), each weight used once.

    ``sizes`` are (q, n_1, ..., d), ``weights`` the names W_1..W_L and ``biases`` b_1..b_L, or none.
    """

    sizes: tuple[int, ...]
    weights: tuple[str, ...]
    biases: tuple[str, ...]
    activations: tuple[str, ...]

    @property
    def is_shallow_relu(self) -> bool:
        """Whether it is y = W_2 relu(W_1 x), biases or not: what appendix D is about."""
        return self.activations == ("relu", "linear")

    def layer_of(self, name: str) -> int:
        """The number of the layer, from 0, that a weight or bias belongs to."""
        return (self.weights if name in self.weights else self.biases).index(name)

    def ranks(self, layer: int, samples: int) -> tuple[int, int]:
        """(d', m') of a linear layer: generic ranks of what follows it and of what enters it."""
        bias = bool(self.biases)
        entering = min(self.sizes[0], samples)
        # All states lie in the span of the inputs and the constant 1 of the biases.
        most = min(self.sizes[0] + bias, samples)
        for width in self.sizes[1 : layer + 1]:
            entering = min(width, most, entering + bias)
        return min(self.sizes[layer + 1 :]), entering


@lru_cache(maxsize=1024)
def recurrence_of(network: Network) -> Recurrence | None:
    """The linear recurrence that a chain is, or None."""
    if not network.is_plain or network.connections:
        return None
    *steps, last = network.steps
    encoder = network.steps[0].encoder
    if not steps or encoder is None or not network.is_linear or last.block is not None:
        return None
    weight = steps[0].weight
    seen = [(step.weight, step.encoder, step.bias, step.block) for step in steps]
    if seen != [(weight, encoder, None, t) for t in range(len(network.input_blocks))]:
        return None
    if last.bias is not None or len({weight, encoder, last.weight}) < 3:
        return None
    n, b = network.shapes[encoder]
    return Recurrence(weight, encoder, last.weight, n, b, network.output_size, len(steps))


@lru_cache(maxsize=1024)
def layers_of(network: Network) -> Layers | None:
    """The layers that a chain is, or None."""
    steps = network.steps
    if not network.is_plain or network.connections:
        return None
    if [step.block for step in steps] != [0, *[None] * (len(steps) - 1)]:
        return None
    weights = tuple(step.weight for step in steps)
    biases = tuple(step.bias for step in steps if step.bias is not None)
    if steps[0].encoder is not None or len(biases) not in (0, len(steps)):
        return None
    if len({*weights, *biases}) < len(weights) + len(biases):
        return None
    sizes = (network.input_blocks[0], *(network.shapes[name][0] for name in weights))
    return Layers(sizes, weights, biases, tuple(step.activation for step in steps))
