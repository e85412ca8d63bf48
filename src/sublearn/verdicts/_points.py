"""Random points modulo a prime, and the probability that one of them misleads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import lgamma, log, log2
from typing import NamedTuple

import numpy as np

from sublearn._arrays import Array, Mask
from sublearn._errors import BadInputError, whole_number
from sublearn.allocations import Allocation
from sublearn.ensembles import Problem
from sublearn.exact import PrimeField, columns, random_prime
from sublearn.networks import Factored, Gates, Network, Size, Step, entry_size, factors, log2_terms
from sublearn.verdicts._recheck import Place

PRIMES = 268_216
"""The number of primes between 2^22 and 2^23 (counted by a sieve in the tests)."""


def check_options(error: float, seed: int) -> None:
    """Refuse an error outside (0, 1) and a seed that is not a whole number of at least 0."""
    if not 0 < error < 1:
        raise BadInputError(f"error must lie strictly between 0 and 1, not {error!r}.")
    whole_number("seed", seed, least=0)


def jacobian_columns(
    field: PrimeField, factors: Mapping[str, Factored], allocation: Allocation
) -> Array:
    """The Jacobian's columns of an allocation, in the order of its labels, from the factors of weights."""
    parts = []
    for name in allocation.names:
        rows, across = np.divmod(allocation.flat(name), allocation.shapes[name][1])
        parts.append(columns(field, *factors[name].stacked, rows, across))
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


class PrimePoint:
    """A random prime with random weights and inputs modulo it, and the factors of every weight.

    A :class:`Place` in place of the random stream says which prime and which numbers.
    ``gates`` fix the ReLU steps; with ``free_gates`` each gate is a random number as well.

    What a tanh or sigmoid step leaves behind is a random number h too, with the slope that belongs to
    it: 1 - h^2, or h (1 - h). Nothing is lost by that: these values are algebraically independent of
    weights and inputs and of each other (by Ax's theorem; the page "Exact ranks" has the proof). A minor
    of the Jacobian is a polynomial in all of them, and vanishes at almost every real point only if it is
    the zero polynomial.
    """

    def __init__(
        self,
        problem: Problem,
        network: Network,
        source: np.random.Generator | Place,
        gates: Gates | None = None,
        *,
        free_gates: bool = False,
    ) -> None:
        if isinstance(source, Place):
            self.field = PrimeField(source.prime)
        else:
            self.field = PrimeField(random_prime(source))

        def draw(name: str, shape: tuple[int, ...]) -> Array:
            if isinstance(source, Place):
                return self.field.from_integers(source.residues(name, shape))
            return self.field.random(source, shape)

        weights = {name: draw(f"weight {name}", shape) for name, shape in network.shapes.items()}
        for name, exists in network.connections.items():
            weights[name] = np.where(exists, weights[name], 0.0)
        inputs = _inputs(problem, network, self.field, draw)
        slopes, states = dict(gates or {}), {}
        heard = Heard(network) if network.connections else None
        for position, step in enumerate(network.steps):
            shape = (network.shapes[step.weight][0], problem.samples)
            if step.activation == "relu" and free_gates:
                slopes[position] = draw(f"gate {position}", shape)
            elif step.activation in _SLOPES:
                _check_order(network, position)
                states[position] = draw(f"state {position}", shape)
                if heard is not None:
                    states[position] = heard.settled(position, states[position])
                slopes[position] = _SLOPES[step.activation](self.field, states[position])
        self.factors: dict[str, Factored] = factors(
            network, weights, inputs, self.field, slopes, states
        )

    def columns(self, allocation: Allocation) -> np.ndarray:
        """Jacobian columns of the allocation, modulo the prime, in the order of its labels."""
        return jacobian_columns(self.field, self.factors, allocation)

    def columns_at(self, allocation: Allocation, positions: np.ndarray) -> np.ndarray:
        """Columns at some positions of the allocation's labels, in the order of ``positions``."""
        part = allocation.select(positions)
        return self.columns(part)[:, np.argsort(np.argsort(positions))]

    def blocks(self, names: Sequence[str]) -> list[tuple[np.ndarray, np.ndarray]]:
        """(left, right) of the named weights, as the greedy reads them."""
        return [self.factors[name].stacked for name in names]


# The derivative of an analytic activation, written in its value.
_SLOPES: dict[str, Callable[[PrimeField, np.ndarray], np.ndarray]] = {
    "tanh": lambda field, h: field.subtract(1.0, field.multiply(h, h)),
    "sigmoid": lambda field, h: field.multiply(h, field.subtract(1.0, h)),
}


class _State(NamedTuple):
    """Of the units of a state: new numbers since the last step, other on every sample, not 0."""

    fresh: Mask
    varies: Mask
    nonzero: Mask


class UnknownRankError(BadInputError):
    """No argument gives the generic rank of this network; what needs none of it goes on without."""


class Heard:
    """What a unit of a sparse network hears of inputs, biases and other units, step by step.

    In a dense network what every tanh or sigmoid leaves behind, on every sample and at every step, is a
    number independent of all others. Where connections are missing it may be the same on all samples, the
    same as at an earlier step, or 0: the page "Exact ranks" has the argument for each. Units of which
    nothing of the kind is known are refused.
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        # By position and unit: fresh on every sample, fresh, the bias alone, nothing.
        self.kinds: dict[int, Mask] = {}
        self.biased: set[tuple[str, int]] = set()  # units that have left behind phi(bias)
        self.values: dict[tuple[str, int], float] = {}
        bent = [p for p, step in enumerate(network.steps) if step.activation in _SLOPES]
        blocks = [step.block for step in network.steps if step.block is not None]
        if bent and len(set(blocks)) < len(blocks):
            raise self._unknown("inputs that enter twice")
        state: _State | None = None
        for position, step in enumerate(network.steps[: bent[-1] + 1] if bent else ()):
            if not step.aside:
                old = state
                state = self._hear(position, step, old)
                if old is not None and step.kept:
                    state = _State(
                        state.fresh, state.varies | old.varies, state.nonzero | old.nonzero
                    )

    def _hear(self, position: int, step: Step, old: _State | None) -> _State:
        exists, (rows, columns) = self.network.existing, self.network.shapes[step.weight]
        none = np.zeros(columns, dtype=bool)
        entering = old or _State(none, none, none)
        if step.block is not None and step.drive is None:
            given = ~none if step.encoder is None else exists(step.encoder).any(axis=1)
            entering = _State(*(flags | given for flags in entering))
        elif old is None:
            entering = _State(~none, none, ~none)  # the number 1
        links = exists(step.weight)
        sample = np.asarray((links & entering.fresh & entering.varies).any(axis=1))
        heard, moved, loud = (np.asarray((links & flags).any(axis=1)) for flags in entering)
        if step.drive is not None:
            sample = sample | np.asarray(exists(step.drive).any(axis=1))
        bias = np.zeros(rows, dtype=bool) if step.bias is None else exists(step.bias)[:, 0]
        if step.activation == "linear":
            if old is not None or step.block is not None or bias.any():
                raise self._unknown("linear steps before tanh or sigmoid")
            return _State(heard, moved, loud)
        constant = heard & ~sample & ~moved
        alone = bias & ~sample & ~loud
        silent = ~(bias | sample | loud)
        if not (sample | constant | alone | silent).all():
            raise self._unknown("units that hear only of units that hear nothing")
        if silent.any() and step.activation == "sigmoid":
            raise self._unknown("sigmoid units that hear nothing")
        keys = [(step.bias or "", i) for i in range(rows)]
        first = alone & np.array([key not in self.biased for key in keys])
        self.biased |= {keys[i] for i in np.flatnonzero(alone)}
        self.kinds[position] = np.stack([sample, constant, alone, silent])
        return _State(sample | constant | first, sample, ~silent)

    def settled(self, position: int, drawn: Array) -> Array:
        """What the units of a step leave behind, from random numbers for every one and sample."""
        _, constant, alone, silent = self.kinds[position]
        bias = self.network.steps[position].bias or ""
        out = np.where(constant[:, None], drawn[:, :1], drawn)
        for i in np.flatnonzero(alone).tolist():
            out[i] = self.values.setdefault((bias, i), float(drawn[i, 0]))
        return np.where(silent[:, None], 0.0, out)

    def _unknown(self, what: str) -> UnknownRankError:
        return UnknownRankError(
            f"exact ranks of sparse tanh and sigmoid networks are not known with {what}."
        )


def _check_order(network: Network, position: int) -> None:
    # Gates that switch a whole sample off would make what a later tanh sees a constant. An output
    # activation only multiplies the rows of the Jacobian by numbers that are not 0.
    before = network.steps[:position] if position < len(network.steps) - 1 else ()
    if any(step.activation == "relu" for step in before):
        raise UnknownRankError(
            f"ranks are known for networks whose hidden tanh and sigmoid steps come before all ReLU "
            f"steps, not for {network.title}."
        )


def _inputs(
    problem: Problem,
    network: Network,
    field: PrimeField,
    draw: Callable[[str, tuple[int, ...]], Array],
) -> np.ndarray:
    shape = network.input_shape(problem.samples)
    inner = problem.ensemble.inputs.inner
    if inner is None:
        return draw("inputs", shape)
    features = int(np.prod(shape[:-1]))
    left = draw("inputs left", (features, inner))
    right = draw("inputs right", (inner, problem.samples))
    return field.matmul(left, right).reshape(shape)


def input_size(problem: Problem) -> Size:
    """The size of an input as a polynomial: of low rank, it is a sum of products."""
    inner = problem.ensemble.inputs.inner
    return Size(1, 0.0) if inner is None else Size(2, log2(inner))


def miss_probability(
    problem: Problem, network: Network, size: int, *, free_gates: bool = False
) -> float:
    """Bound on the chance that one point shows ``size`` independent columns as dependent.

    If the columns are independent over the rationals, some minor of order ``size`` is a polynomial f
    with integer coefficients, not 0. A point shows them as dependent only if the prime divides all
    coefficients of f, or if f modulo the prime vanishes at the point.

    First event: a coefficient that is not 0 has absolute value at most size! N^size, where N bounds
    the sum of absolute coefficients of a Jacobian entry, so at most log(size! N^size) / log(2^22) of
    the primes divide it. Second event: at most deg f / p (Schwartz 1980, Zippel 1979).
    """
    if size == 0:
        return 0.0
    sample = input_size(problem)
    if free_gates or any(step.activation in _SLOPES for step in network.steps):
        degree, norm = entry_size(network, sample)
    else:
        degree, norm = network.degree - 2 + sample.degree, log2_terms(network, sample)
    second = size * degree / 2**22
    bits = lgamma(size + 1) / log(2) + size * norm
    first = bits / 22 / PRIMES
    return min(1.0, first + second)
