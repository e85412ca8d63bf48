"""Exact ranks modulo random primes, of matrices of polynomials; linear programs in fractions.

What the other rooms use; users meet none of it by name, so that there is no ``__all__``.
"""

from sublearn.exact._basis import ColumnBasis as ColumnBasis
from sublearn.exact._circuits import dependencies as dependencies
from sublearn.exact._circuits import smallest_circuit as smallest_circuit
from sublearn.exact._dyadics import Dyadics as Dyadics
from sublearn.exact._dyadics import from_floats as from_floats
from sublearn.exact._dyadics import leading as leading
from sublearn.exact._dyadics import nearest as nearest
from sublearn.exact._elimination import eliminate as eliminate
from sublearn.exact._factors import columns as columns
from sublearn.exact._factors import screen as screen
from sublearn.exact._field import PrimeField as PrimeField
from sublearn.exact._field import is_prime as is_prime
from sublearn.exact._field import random_prime as random_prime
from sublearn.exact._greedy import greedy as greedy
from sublearn.exact._intersection import within_quotas as within_quotas
from sublearn.exact._peel import peel as peel
from sublearn.exact._programs import Feasible as Feasible
from sublearn.exact._programs import Infeasible as Infeasible
from sublearn.exact._programs import Rational as Rational
from sublearn.exact._programs import Table as Table
from sublearn.exact._programs import decide_program as decide_program
from sublearn.exact._programs import orthogonal as orthogonal
from sublearn.exact._programs import orthogonal_near as orthogonal_near
from sublearn.exact._programs import power_of_two as power_of_two
from sublearn.exact._programs import separates as separates
from sublearn.exact._programs import to_float as to_float
from sublearn.exact._programs import to_floats as to_floats
from sublearn.exact._simplex import FEASIBLE as FEASIBLE
from sublearn.exact._simplex import INFEASIBLE as INFEASIBLE
from sublearn.exact._simplex import STALLED as STALLED
from sublearn.exact._simplex import TOLERANCE as TOLERANCE
from sublearn.exact._simplex import solve_table as solve_table
from sublearn.exact._simplex import start_table as start_table
from sublearn.exact._subsets import subset_ranks as subset_ranks
