"""Random points modulo a prime, and the probability that one of them misleads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import lgamma, log, log2
from typing import NamedTuple

import numpy as np

from sublearn._arrays import Array, Mask
from sublearn._errors import BadInputError, whole_number
from sublearn.allocations import Allocation
from sublearn.ensembles import LowRank, Problem
from sublearn.exact import PrimeField, columns, random_prime
from sublearn.networks import Factors, Gates, Network, Step, factors, leak_bits, log2_terms

PRIMES = 268_216
"""The number of primes between 2^22 and 2^23 (counted by a sieve in the tests)."""


def check_options(error: float, seed: int) -> None:
    """Refuse an error outside (0, 1) and a seed that is not a whole number of at least 0."""
    if not 0 < error < 1:
        raise BadInputError(f"error must lie strictly between 0 and 1, not {error!r}.")
    whole_number("seed", seed, least=0)


class Point:
    """A random prime with random weights and inputs modulo it, and the factors of every weight.

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
        rng: np.random.Generator,
        gates: Gates | None = None,
        *,
        free_gates: bool = False,
    ) -> None:
        self.field = PrimeField(random_prime(rng))
        weights = {name: self.field.random(rng, shape) for name, shape in network.shapes.items()}
        for name, exists in network.connections.items():
            weights[name] = np.where(exists, weights[name], 0.0)
        inputs = _inputs(problem, network, self.field, rng)
        slopes, states = dict(gates or {}), {}
        heard = _Heard(network) if network.connections else None
        for position, step in enumerate(network.steps):
            shape = (network.shapes[step.weight][0], problem.samples)
            if step.activation == "relu" and free_gates:
                slopes[position] = self.field.random(rng, shape)
            elif step.activation in _SLOPES:
                _check_order(network, position)
                states[position] = self.field.random(rng, shape)
                if heard is not None:
                    states[position] = heard.settled(position, states[position])
                slopes[position] = _SLOPES[step.activation](self.field, states[position])
        self.factors: dict[str, Factors] = factors(
            network, weights, inputs, self.field, slopes, states
        )

    def columns(self, allocation: Allocation) -> np.ndarray:
        """Jacobian columns of the allocation, modulo the prime, in the order of its labels."""
        parts = []
        for name in allocation.names:
            width = allocation.shapes[name][1]
            rows, cols = np.divmod(allocation.flat(name), width)
            left, right = self.factors[name].stacked
            parts.append(columns(self.field, left, right, rows, cols))
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

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


class _Heard:
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

    def _unknown(self, what: str) -> BadInputError:
        return BadInputError(
            f"exact ranks of sparse tanh and sigmoid networks are not known with {what}."
        )


def _check_order(network: Network, position: int) -> None:
    # Gates that switch a whole sample off would make what a later tanh sees a constant. An output
    # activation only multiplies the rows of the Jacobian by numbers that are not 0.
    before = network.steps[:position] if position < len(network.steps) - 1 else ()
    if any(step.activation == "relu" for step in before):
        raise BadInputError(
            f"ranks are known for networks whose hidden tanh and sigmoid steps come before all ReLU "
            f"steps, not for {network.spec}."
        )


def _inputs(
    problem: Problem, network: Network, field: PrimeField, rng: np.random.Generator
) -> np.ndarray:
    shape = network.input_shape(problem.samples)
    law = problem.ensemble.inputs
    if not isinstance(law, LowRank):
        return field.random(rng, shape)
    features = int(np.prod(shape[:-1]))
    left = field.random(rng, (features, law.rank))
    right = field.random(rng, (law.rank, problem.samples))
    return field.matmul(left, right).reshape(shape)


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
    if free_gates or any(step.activation in _SLOPES for step in network.steps):
        degree, norm = _entry_size(problem, network)
    else:
        low_rank = isinstance(problem.ensemble.inputs, LowRank)
        degree, norm = network.degree - 1 + low_rank, _log2_norm(problem, network)
    second = size * degree / 2**22
    bits = lgamma(size + 1) / log(2) + size * norm
    first = bits / 22 / PRIMES
    return min(1.0, first + second)


def _entry_size(problem: Problem, network: Network) -> tuple[int, float]:
    """Degree of a Jacobian entry, and log2 of the sum of its absolute coefficients, or more.

    As a polynomial in weights, inputs, free gates and what tanh and sigmoid steps leave behind. A
    slope is 1 - h^2 or h - h^2: degree 2, coefficients that sum to 2.
    """
    law = problem.ensemble.inputs
    sample = (2, log2(law.rank)) if isinstance(law, LowRank) else (1, 0.0)
    entering: list[_Size] = []
    state = _Size(0, float("-inf"))
    for step in network.steps:
        old, driven = state, None
        if step.block is not None:
            coded = step.encoder is not None or step.drive is not None
            wide = log2(network.input_blocks[step.block]) if coded else 0.0
            given = _Size(sample[0] + coded, sample[1] + wide)
            if step.drive is not None:
                driven = given
            else:
                state = state | given
        elif not entering:
            state = _Size(0, 0.0)
        entering.append(state)
        state = _Size(state.degree + 1, state.norm + log2(network.shapes[step.weight][1]))
        if step.bias is not None:
            state = _Size(state.degree, float(np.logaddexp2(state.norm, 0.0)))
        if driven is not None:
            state = state | driven
        if step.activation in _SLOPES:
            state = _Size(1, 0.0)
        elif step.activation == "relu":
            state = _Size(state.degree + 1, state.norm)
        state = old if step.aside else state.leaking(step) | old.kept(step)
    uses = _Size(0, float("-inf"))
    back = _Size(0, 0.0)  # d output / d state, from the outputs back
    for step, right in zip(network.steps[::-1], entering[::-1], strict=True):
        passing, back = (back, _Size(0, 0.0)) if step.aside else (back.kept(step), back)
        back = back.leaking(step)
        if step.activation in _SLOPES:
            back = _Size(back.degree + 2, back.norm + 1.0)
        elif step.activation == "relu":
            back = _Size(back.degree + 1, back.norm)
        uses = uses | _Size(back.degree + right.degree, back.norm + right.norm)
        if step.drive is not None:
            uses = uses | _Size(back.degree + sample[0], back.norm + sample[1])
        back = _Size(back.degree + 1, back.norm + log2(network.shapes[step.weight][0]))
        if step.encoder is not None:
            uses = uses | _Size(back.degree + sample[0], back.norm + sample[1])
        back = back | passing
    return uses.degree, uses.norm + leak_bits(network)


class _Size(NamedTuple):
    """Of a polynomial: its degree, and log2 of the sum of its absolute coefficients, or more."""

    degree: int
    norm: float

    def __or__(self, other: object) -> _Size:
        """The size of a sum."""
        assert isinstance(other, _Size)
        return _Size(max(self.degree, other.degree), float(np.logaddexp2(self.norm, other.norm)))

    def leaking(self, step: Step) -> _Size:
        return _Size(self.degree, self.norm + log2(step.leak))

    def kept(self, step: Step) -> _Size:
        if not step.kept:
            return _Size(0, float("-inf"))
        return _Size(self.degree, self.norm + log2(step.kept))


def _log2_norm(problem: Problem, network: Network) -> float:
    """log2 of a bound on the sum of absolute coefficients of a Jacobian entry.

    The coefficients are positive (1, or powers of leaks), so the sum for an output is its value at the
    all-ones point; the derivative with respect to one weight multiplies it by at most the degree.
    """
    law = problem.ensemble.inputs
    return log2_terms(network, log2(law.rank) if isinstance(law, LowRank) else 0.0)
