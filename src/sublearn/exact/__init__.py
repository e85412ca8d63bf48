"""Exact ranks modulo random primes, of matrices of polynomials; linear programs in fractions."""

from sublearn.exact import _simplex as simplex
from sublearn.exact._basis import ColumnBasis
from sublearn.exact._circuits import dependencies, smallest_circuit
from sublearn.exact._dyadics import Dyadics
from sublearn.exact._dyadics import leading as leading
from sublearn.exact._dyadics import nearest as nearest
from sublearn.exact._elimination import Echelon, eliminate
from sublearn.exact._factors import columns, screen
from sublearn.exact._field import PrimeField, is_prime, random_prime
from sublearn.exact._greedy import greedy
from sublearn.exact._intersection import within_quotas
from sublearn.exact._peel import Peeled, peel
from sublearn.exact._programs import (
    Feasible,
    Infeasible,
    Rational,
    Table,
    decide_program,
    orthogonal,
    orthogonal_near,
    power_of_two,
    separates,
    to_float,
    to_floats,
)
from sublearn.exact._subsets import subset_ranks

__all__ = [
    "ColumnBasis",
    "Dyadics",
    "Echelon",
    "Feasible",
    "Infeasible",
    "Peeled",
    "PrimeField",
    "Rational",
    "Table",
    "columns",
    "decide_program",
    "dependencies",
    "eliminate",
    "greedy",
    "is_prime",
    "orthogonal",
    "orthogonal_near",
    "peel",
    "power_of_two",
    "random_prime",
    "screen",
    "separates",
    "simplex",
    "smallest_circuit",
    "subset_ranks",
    "to_float",
    "to_floats",
    "within_quotas",
]
