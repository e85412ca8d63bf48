"""The numbers of an instance modulo a prime, without rounding.

A float64 number is a whole number times a power of 2, and 2 has an inverse modulo every odd prime, so
it has an exact residue; sums and products of residues are residues of sums and products.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lgamma, log
from typing import Any

import numpy as np

from sublearn._arrays import Array
from sublearn.ensembles import Instance
from sublearn.exact import Dyadics
from sublearn.matchers.proofs._balls import BallMatrix
from sublearn.networks import leak_bits, log2_terms

LARGE_BITS = 61
# Rosser and Schoenfeld (1962): x / ln x < pi(x) < 1.25506 x / ln x for x >= 17, so that more than
# this many primes lie between 2^60 and 2^61.
LARGE_PRIMES = 2.0**61 / (61 * log(2)) - 1.25506 * 2.0**60 / (60 * log(2))


class Residues:
    """The ring of chains modulo a prime, on flint's matrices of machine words."""

    def __init__(self, prime: int) -> None:
        self.prime = prime

    def exact(self, values: Array | Dyadics) -> BallMatrix:
        exact = values if isinstance(values, Dyadics) else Dyadics.of(values)
        return self.matrix(*exact.shape, exact.residues(self.prime))

    def matrix(self, rows: int, columns: int, entries: Sequence[Any]) -> BallMatrix:
        from flint import nmod_mat

        return nmod_mat(rows, columns, list(entries), self.prime)


def miss_probability(instance: Instance, size: int, *, augmented: bool) -> float:
    """Bound on the chance that a random large prime shows a rank of ``size`` as smaller.

    If every number is a whole number times 2^e, an entry of the Jacobian, a polynomial of degree
    deg - 1 in the numbers, is a whole number times 2^(e (deg - 1)); its absolute value is at most N
    times the power of the largest number, where N is the sum of the absolute coefficients. A minor of
    order k that is not 0 is then, up to a power of 2, a whole number of at most log2(k!) + k B bits, B
    the bits of an entry. Each prime above 2^60 that divides it takes 60 of these bits. With
    ``augmented``, one column is that of targets minus outputs: outputs have one degree more, and the
    targets are what they are.
    """
    if size == 0:
        return 0.0
    network = instance.network
    spans = [_extent(np.asarray(instance.weights[name])) for name in network.shapes]
    rounded = instance.inputs_are_rounded
    spans.append(instance.exact_inputs.extent if rounded else _extent(instance.inputs))
    below, above = max(span[0] for span in spans), max(span[1] for span in spans)
    terms, degree = log2_terms(network), network.degree
    entry = terms + (degree - 1) * (below + above) + 1
    bits = size * entry
    if augmented:
        exact = instance.exact_targets
        assert exact is not None, "only rational targets have residues"
        least, most = exact.extent
        last = (
            max(degree * below + leak_bits(network), least) + max(terms + degree * above, most) + 2
        )
        bits = (size - 1) * entry + max(entry, last)
    return min(1.0, (lgamma(size + 1) / log(2) + bits) / 60 / LARGE_PRIMES)


def _extent(values: Array) -> tuple[int, int]:
    """(a, b): every number is a whole number times 2^-a and below 2^b in size; neither is negative."""
    numbers = np.abs(values[values != 0])
    if not numbers.size:
        return 0, 0
    mantissas, exponents = np.frexp(numbers)
    whole = (mantissas * 2.0**53).astype(np.int64)
    # The lowest bit that is set: the last place of the shortest way to write the number.
    trailing = np.log2((whole & -whole).astype(np.float64)).astype(np.int64)
    lowest = exponents.astype(np.int64) - 53 + trailing
    return -min(0, int(lowest.min())), max(0, int(exponents.max()))
