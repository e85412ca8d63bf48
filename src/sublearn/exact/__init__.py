"""Exact rank of matrices of polynomials, at random points modulo random 23-bit primes."""

from sublearn.exact._basis import ColumnBasis
from sublearn.exact._circuits import dependencies, smallest_circuit
from sublearn.exact._dyadics import Dyadics
from sublearn.exact._elimination import Echelon, eliminate
from sublearn.exact._factors import columns, screen
from sublearn.exact._field import PrimeField, is_prime, random_prime
from sublearn.exact._greedy import greedy
from sublearn.exact._peel import Peeled, peel
from sublearn.exact._subsets import subset_ranks

__all__ = [
    "ColumnBasis",
    "Dyadics",
    "Echelon",
    "Peeled",
    "PrimeField",
    "columns",
    "dependencies",
    "eliminate",
    "greedy",
    "is_prime",
    "peel",
    "random_prime",
    "screen",
    "smallest_circuit",
    "subset_ranks",
]
