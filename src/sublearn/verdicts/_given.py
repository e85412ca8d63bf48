"""The rank of the learnable columns at weights and inputs that a person has, not at generic ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import lgamma, log
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from sublearn._arrays import Array, finite_numbers
from sublearn._errors import by_name, no_truth
from sublearn._grades import NUMERICAL, PROOF, Grade, wrong_by_chance
from sublearn._seeds import named_stream
from sublearn.allocations import Allocation, an_allocation
from sublearn.exact import Dyadics, PrimeField, eliminate, random_prime
from sublearn.networks import Gates, Network, factors, log2_terms
from sublearn.plots import COLOURS, Figure, Row, Shown, figure, ink, whole_ticks
from sublearn.verdicts._gates import settled_gates
from sublearn.verdicts._points import PRIMES, check_options, jacobian_columns
from sublearn.verdicts._rank import points_needed


@dataclass(frozen=True, repr=False)
class GivenRank(Shown):
    """The rank of the learnable columns at given weights and inputs, of ``equations`` outputs.

    ``grade``: a proof where the rank is as large as it can be, a probability of error where columns depend
    on each other modulo primes, numerical where the activation leaves no exact number.
    """

    rank: int
    learnable: int
    equations: int
    grade: Grade

    def __bool__(self) -> NoReturn:
        no_truth(self, "rank")

    def __str__(self) -> str:
        most = min(self.learnable, self.equations)
        text = f"At the weights and inputs given the rank is {self.rank} ({self.grade})"
        if self.rank == most:
            return (
                f"{text}, as large as {self.learnable} weights and {self.equations} outputs allow."
            )
        return f"{text}, where {self.learnable} weights and {self.equations} outputs allow {most}."

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**vars(self), "grade": self.grade.to_dict()}

    def table(self) -> list[Row]:
        """One row."""
        sizes = {"rank": self.rank, "learnable": self.learnable, "equations": self.equations}
        return [{**sizes, "grade": str(self.grade)}]

    def plot(self) -> Figure:
        """The rank beside the weights and the outputs, of which the fewer bound it."""
        fig, ax = figure(height=2.2)
        bars = {"outputs": self.equations, "weights": self.learnable, "rank": self.rank}
        colours = [ink(), ink(), COLOURS[0]]
        ax.barh(list(bars), list(bars.values()), color=colours, height=0.6)
        whole_ticks(ax, "x")
        ax.set_title(f"rank {self.rank}, {self.grade}", loc="left", color=ink())
        return fig


def rank_at(
    network: Network,
    allocation: Allocation,
    weights: Mapping[str, ArrayLike],
    inputs: ArrayLike,
    *,
    error: float = 1e-12,
    seed: int = 0,
) -> GivenRank:
    """The rank of the Jacobian of the outputs with respect to the learnable weights, at given numbers.

    :func:`certify` speaks about almost every draw; numbers of one's own may be special (zeros, ties, low
    rank), and then this rank is smaller. float64 numbers are fractions, so that for linear networks, and for
    ReLU networks with the gates of the point, the rank is exact: a minor that is not 0 modulo a prime is not
    0, and a number that is 0 modulo enough random primes is 0 up to the probability of error. For tanh and
    sigmoid networks, and where rounding leaves a gate in doubt, it is that of float64 numbers: numerical.

    >>> import numpy as np, sublearn as sl
    >>> net = sl.FeedForward((2, 2, 1))
    >>> whole = sl.Allocation.whole(net, ["W1"])
    >>> weights = {"W1": np.ones((2, 2)), "W2": np.array([[0.1, 0.0]])}
    >>> print(sl.rank_at(net, whole, weights, np.eye(2)))
    At the weights and inputs given the rank is 2 (proof), as large as 4 weights and 2 outputs allow.
    """
    check_options(error, seed)
    an_allocation("allocation", allocation)
    network.check_allocation(allocation)
    by_name(weights)
    given = {name: finite_numbers(f"weight {name}", value) for name, value in weights.items()}
    network.check_weights(given)
    x = finite_numbers("inputs", inputs)
    samples = network.split_inputs(x)[0].shape[-1]
    sizes = (len(allocation), network.output_size * samples)
    gates = _gates(network, given, x)
    if gates is None:
        matrix = network.jacobian(given, x, allocation)
        return GivenRank(int(np.linalg.matrix_rank(matrix)), *sizes, NUMERICAL)
    exact = {name: Dyadics.of(array) for name, array in given.items()}
    seen = Dyadics.of(x.reshape(-1, samples))
    rng = named_stream(seed, "rank at", network.spec, allocation.digest)
    miss = _miss(network, [*exact.values(), seen], min(sizes))
    draws, rank = points_needed(miss, error), 0
    for _ in range(draws):
        field = PrimeField(random_prime(rng))
        rank = max(rank, rank_modulo_prime(field, network, allocation, exact, seen, gates))
        if rank == min(sizes):
            return GivenRank(rank, *sizes, PROOF)
    return GivenRank(rank, *sizes, wrong_by_chance(min(1.0, miss**draws)))


def _gates(network: Network, weights: Mapping[str, Array], inputs: Array) -> Gates | None:
    """The gates of the point, none for linear networks; None where no exact rank is to be had."""
    if network.is_linear:
        return {}
    if not network.is_piecewise_linear:
        return None
    settled = settled_gates(network, weights, inputs)
    return None if settled is None or any(f.any() for f in settled[1].values()) else settled[0]


def rank_modulo_prime(
    field: PrimeField,
    network: Network,
    allocation: Allocation,
    weights: Mapping[str, Dyadics],
    inputs: Dyadics,
    gates: Gates | None = None,
) -> int:
    """The rank of the learnable columns at exact numbers, modulo a prime: never above the true one."""

    def residues(exact: Dyadics, shape: tuple[int, ...]) -> Array:
        return field.from_integers(exact.residues(field.p)).reshape(shape)

    reduced = {name: residues(exact, exact.shape) for name, exact in weights.items()}
    x = residues(inputs, network.input_shape(inputs.shape[1]))
    parts = factors(network, reduced, x, field, gates)
    return eliminate(field, jacobian_columns(field, parts, allocation)).rank


def _miss(network: Network, numbers: list[Dyadics], size: int) -> float:
    """Bound on the chance that a random prime hides the rank: it divides a minor that is not 0.

    With every number a whole one of at most a + b bits over 2^a, a Jacobian entry is, over a power of 2, a
    whole number of at most degree (a + b) bits and those of its number of terms.
    """
    a, b = (max(extent[k] for extent in (n.extent for n in numbers)) for k in (0, 1))
    entry = log2_terms(network) + network.degree * (a + b)
    bits = lgamma(size + 1) / log(2) + size * entry
    return min(1.0, bits / 22 / PRIMES)
